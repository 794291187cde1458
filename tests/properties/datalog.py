"""A core program on the real engine: its inputs as tables, its derived relations as views."""

from collections.abc import Iterable, Mapping

import numpy as np

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.passes import PIPELINE, Pass, run
from kpg.compiler.physical import plan_query
from kpg.compiler.physical.cardinality import NoStatistics
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Sources, lowering
from kpg.runtime.plan import Plan
from kpg.runtime.types import BIGINT, NULL, ColumnDef, Schema
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker

Row = tuple[int | None, ...]
Rows = frozenset[Row]


def schema_of(relation: core.Relation) -> Schema:
    """A table for an input: a set, unless it is external."""
    columns = tuple(
        ColumnDef(column.name, column.stored_type, column.nullable) for column in relation.columns
    )
    is_set = relation.kind is core.Kind.INPUT
    return Schema(
        columns or (ColumnDef("unit", BIGINT, False),), tuple(range(len(columns))) if is_set else ()
    )


def catalog_of(program: core.Program) -> Catalog:
    catalog = Catalog()
    for relation in program.relations.values():
        if relation.kind is not core.Kind.DERIVED:
            catalog.add(TableEntry(relation.name, schema_of(relation)))
    return catalog


def planned(rel: Rel, passes: tuple[Pass, ...] = PIPELINE) -> Plan:
    steps = run(rel, passes)
    return plan_query(steps[-1].rel if steps else rel, NoStatistics())


class Session:
    """A program's relations, maintained."""

    def __init__(
        self,
        program: core.Program,
        rows: Mapping[str, Iterable[Row]] | None = None,
        *,
        only: Iterable[str] | None = None,
        passes: tuple[Pass, ...] = PIPELINE,
        one_by_one: bool = False,
    ) -> None:
        """Install all derived relations, or ``only`` some; ``one_by_one``: each reads the others as views."""
        self.program = program
        self.worker = Worker()
        self.rows: dict[str, set[Row]] = {}
        self.views: dict[str, LocalInstallation] = {}
        for relation in program.relations.values():
            if relation.kind is not core.Kind.DERIVED:
                self.worker.create_table(relation.name, schema_of(relation))
                self.rows[relation.name] = set()
        self.change({**program.facts, **(rows or {})}, {})
        catalog = catalog_of(program)
        lowered = lowering(program)
        sources = Sources(catalog, frozenset(lowered.order) if one_by_one else frozenset())
        for name in lowered.order if one_by_one else ():
            catalog.add(ViewEntry(name, schema_of(program.relations[name]), None, materialized=True))
        for name in lowered.order if only is None else only:
            plan = planned(lowered.relation(name, sources), passes)
            self.views[name] = self.worker.install(name, plan)

    def change(self, added: Mapping[str, Iterable[Row]], removed: Mapping[str, Iterable[Row]]) -> None:
        """Insert rows that are not there and delete rows that are, in one transaction."""
        for name, rows in removed.items():
            table, gone = self.worker.tables.by_name[name], self.rows[name] & set(rows)
            if gone:
                table.delete(table.match(_words(gone)))
                self.rows[name] -= gone
        for name, rows in added.items():
            new = set(rows) - self.rows[name]
            if new:
                self.worker.tables.by_name[name].insert(_words(new))
                self.rows[name] |= new
        self.worker.step()

    def read(self, name: str) -> Rows:
        """The tuples of a derived relation, each of which is there once."""
        words, counts = self.views[name].rows()
        assert (counts == 1).all(), (name, words, counts)
        found = frozenset(tuple(None if w == NULL else w for w in row) for row in words.T.tolist())
        return found if self.program.relations[name].columns else frozenset(() for _ in found)


def _words(rows: Iterable[Row]) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    ordered = [tuple(NULL if v is None else v for v in row) or (0,) for row in rows]
    return np.array(ordered, np.int64).T.copy()
