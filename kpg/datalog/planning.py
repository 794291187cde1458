"""Relations of checked programs as plans over the database's tables and views."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Get, Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Lowering, Sources
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.frontend import lower_relation as lower_rows
from kpg.engine.engine import Engine
from kpg.queries.planning import Planned, plan_bound
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import BIGINT, ColumnDef, Schema

ROUNDS: Final = "max-rounds"
"""The pragma that says how many rounds a recursion may take."""
MOST_ROUNDS: Final = 10_000_000
"""Rounds of a recursion, if the program does not say how many; one of more is taken for endless."""
MOST_REPLACING: Final = 100_000
"""The same where rounds also take tuples away, by aggregates or selections: such rounds may go in circles."""
UNIT: Final = "unit"
"""The column, always 0, that a relation without columns is stored with."""


def table_schema(relation: core.Relation) -> Schema:
    """The table of an input: a set, so its key is all columns."""
    columns = tuple(ColumnDef(column.name, column.type.type, False) for column in relation.columns)
    columns = columns or (ColumnDef(UNIT, BIGINT, False),)
    return Schema(columns, tuple(range(len(columns))))


def view_schema(relation: core.Relation) -> Schema:
    """The columns of a derived relation's view."""
    return Schema(table_schema(relation).columns)


def definition(
    lowering: Lowering,
    name: str,
    catalog: Catalog,
    views: frozenset[str],
    names: Mapping[str, str] = MappingProxyType({}),
) -> Rel:
    """The rows of a relation over what the catalog keeps; ``views`` of the program are read, not expanded,
    and ``names`` are what the catalog calls relations, where it is not what the program does.

    Recursion that takes more rounds than the program allows is an error when it runs.
    """

    def kept(node: Rel) -> Rel:
        if isinstance(node, algebra.LetRec) and node.limit is None:
            return replace(node, limit=rounds(lowering.program, node.ids), error_at_limit=True)
        return _kept(node, catalog)

    return transform_up(lowering.relation(name, Sources(catalog, views, names)), kept)


def _kept(node: Rel, catalog: Catalog) -> Rel:
    """A view as it is read: by name if it is kept, otherwise by its definition."""
    if not isinstance(node, Get) or node.is_table:
        return node
    entry = catalog.get(node.name)
    if not isinstance(entry, ViewEntry) or entry.materialized or entry.rel is None:
        return node
    inner = transform_up(entry.rel, lambda one: _kept(one, catalog))
    return algebra.Project(inner, tuple(range(len(node.types))))


def rounds(program: core.Program, names: Iterable[str] = ()) -> int:
    """How many rounds a recursion of these relations may take; ProgrammingError if the program's pragma is no
    number.
    """
    given = program.pragmas.get(ROUNDS)
    if given is None:
        own = (program.relations[name] for name in names if name in program.relations)
        replaces = any(one.selection is not None or any(one.aggregates) for one in own)
        return MOST_REPLACING if replaces else MOST_ROUNDS
    if not given.isdecimal() or int(given) < 1:
        raise ProgrammingError(f'{ROUNDS} "{given}" is not a number of rounds', hint="give a positive number")
    return int(given)


def planned(engine: Engine, relation: core.Relation, rel: Rel, catalog: Catalog) -> Planned:
    """The plan of a relation's rows, as the program defines it."""
    schema = view_schema(relation)
    nullable = (False,) * len(schema.columns)
    bound = Bound(rel, schema.names, schema.types, nullable, (), len(schema.columns))
    return plan_bound(bound, catalog, engine.statistics, restricting=False)


def plan_rows(engine: Engine, name: str) -> Planned:
    """The plan of all rows of a table or view."""
    return plan_bound(lower_rows(name, engine.reading_catalog), engine.reading_catalog, engine.statistics)
