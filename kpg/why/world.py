"""The database as explanations see it: tables are leaves, views have queries of their own."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from kpg.compiler.algebra.rel import Get
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.bind.query import bind
from kpg.compiler.sql.bound_tree import Query, Resolved, Scan, Shared
from kpg.compiler.sql.frontend import lowered
from kpg.compiler.sql.parse.parser import parse_query
from kpg.engine.engine import Engine
from kpg.proof.tree import Kind, Proof
from kpg.queries.planning import plan_bound
from kpg.runtime.errors import InternalError, NotSupportedError
from kpg.runtime.handles import RankLookup
from kpg.why import texts
from kpg.why.asking import Asking
from kpg.why.recursion import NEVER, Below
from kpg.why.steps import Key, Step, put_together
from kpg.why.walk import Children, Place, Walk

TABLE = "table"
VIEW = "view"


class World:
    """One explanation: the queries that it went through, and the recursions it has to know the rounds of."""

    def __init__(self, engine: Engine, sample: int | None, kept: ExitStack) -> None:
        """``sample`` rows of an aggregate are explained, None for all. What is kept is let go by ``kept``."""
        self.engine = engine
        self.sample = sample
        self._kept = kept
        self._walks: list[Walk] = []
        self._of_views: dict[str, Walk] = {}
        self._ranks: dict[tuple[int, str], RankLookup | None] = {}

    def proof(self, name: str, row: tuple[int, ...]) -> Proof:
        """The explanation of a row that a relation has."""
        entry = self.engine.catalog.get(name)
        key = Key(TABLE if isinstance(entry, TableEntry) else VIEW, entry.name, row)
        return put_together(key, self.step)

    def columns_of(self, name: str) -> Sequence[str]:
        """The names of a relation's columns."""
        entry = self.engine.catalog.find(name)
        return () if entry is None else entry.schema.names

    def scanned(self, node: Scan, row: tuple[int, ...], *, every: bool = False) -> Children:
        """A row of what is scanned, which may have its rowid at the end."""
        if not isinstance(node.rel, Get) or self.engine.catalog.find(node.rel.name) is None:
            return ()
        if node.rel.is_table:
            return (Key(TABLE, node.rel.name, row),)
        return self.viewed(node.rel.name, row, every=every)

    def viewed(self, name: str, row: tuple[int, ...], *, every: bool = False) -> Children:
        """A row of a view, which may have columns that are not seen at the end."""
        entry = self.engine.catalog.get(name)
        return (Key(VIEW, entry.name, row[: len(entry.schema.columns)], every=every),)

    def step(self, key: Key) -> Step:
        """What a row is, or comes from."""
        if isinstance(key.place, int):
            return self._recursive(self._walks[key.place], key)
        entry = self.engine.catalog.get(key.name)
        names = entry.schema.names
        values = self.values(key.row[: len(names)], entry.schema.types)
        text = texts.row_text(entry.name, names, values)
        if key.place == TABLE:
            return Step(Kind.SOURCE, text, (), entry.name, values, names)
        assert isinstance(entry, ViewEntry)
        prove = prover(self.engine, entry.name)
        if prove is not None:
            proof = prove(values)
            return Step(proof.kind, text, proof=proof)
        if not entry.sql:
            return Step(Kind.EXTERNAL, text, (), entry.name, values, names)
        walk = self.walk(entry)
        children = walk.query(walk.asking.resolved.query, key.row, Place({}, every=key.every))
        return Step(Kind.VIEW, text, children or (), entry.name, values, names)

    def walk(self, entry: ViewEntry) -> Walk:
        """The view's query."""
        if entry.name not in self._of_views:
            if entry.of_system:
                raise NotSupportedError(
                    f"{entry.name} reads relations of the system: its rows come from no tables"
                )
            statement = parse_query(entry.text)
            catalog = self.engine.reading_catalog
            self._of_views[entry.name] = self._walk(bind(statement.query, entry.text, catalog, kept=True))
        return self._of_views[entry.name]

    def _walk(self, resolved: Resolved) -> Walk:
        walk = Walk(self, Asking(self.engine, resolved), len(self._walks))
        self._walks.append(walk)
        return walk

    def values(self, row: Sequence[int], types: Sequence[Any]) -> tuple[Any, ...]:
        """Words as values."""
        dictionary = self.engine.executor.dictionary
        return tuple(texts.value_of(word, type_, dictionary) for word, type_ in zip(row, types, strict=True))

    # Recursion

    def _recursive(self, walk: Walk, key: Key) -> Step:
        """A row of a recursive query, by rows that came in rounds before it."""
        loop = walk.asking.resolved.loops[key.name]
        query = loop.queries[loop.names.index(key.name)]
        ranks = {name: self._rank_lookup(walk, name) for name in loop.names}
        own = ranks[key.name]
        round_ = key.below or NEVER
        if own is not None:
            round_ = int(own.of(np.array(key.row, np.int64).reshape(-1, 1))[0])
        place = Place({}, Below(frozenset(loop.names), round_, ranks), every=key.every)
        found = walk.query(query, key.row, place)
        return walk.row_step(key.name, query, key.row, found or ())

    def _rank_lookup(self, walk: Walk, name: str) -> RankLookup | None:
        """The rounds of a recursive query's rows, which is maintained while it is explained."""
        key = (walk.number, name)
        if key not in self._ranks:
            resolved = walk.asking.resolved
            columns = resolved.shared[name].columns
            ids = tuple(walk.asking.fresh(column.type) for column in columns)
            query = Query(Shared(name, ids), tuple(map(walk.column, ids)), tuple(f"c{id_}" for id_ in ids))
            bound = lowered(replace(resolved, query=query, next_id=max(ids) + 1), self.engine.catalog)
            planned = plan_bound(
                bound, self.engine.reading_catalog, self.engine.statistics, restricting=False
            )
            executor, label = self.engine.executor, f"why {walk.number} {name}"
            try:
                installed = executor.install(label, planned.plan, isolated=executor.has_pending)
            except InternalError:  # of a loop that is there, what maps its collections cannot be read
                installed = executor.install(label, planned.plan, isolated=True)
            self._kept.callback(executor.uninstall, installed)
            self._ranks[key] = installed.ranks()
        return self._ranks[key]


def prover(engine: Engine, name: str) -> Callable[[Any], Proof] | None:
    """What proves rows of a relation that a Datalog program derives; None for any other."""
    found = (client.prover(name) for client in engine.dataflows.values())
    return next((one for one in found if one is not None), None)
