"""EXPLAIN ROW: finds the row that the user means, and explains its presence or absence.

``World`` is the state of one explanation: tables are leaves, and views are explained by their queries.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kpg.api.result import Result, explanation, listing
from kpg.compiler.algebra.rel import Get
from kpg.compiler.catalog.entries import Entry, TableEntry, ViewEntry, did_you_mean
from kpg.compiler.qualified_names import written
from kpg.compiler.sql.bind.query import bind
from kpg.compiler.sql.bound_tree import Query, Resolved, Scan, Shared
from kpg.compiler.sql.frontend import check_relation, lowered
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.session_statements import meant_rows, meant_values
from kpg.execute.queries.query_plan import plan, plan_bound
from kpg.provenance import row_text as texts
from kpg.provenance.absence import Missing, nearest
from kpg.provenance.derivation import Children, Place, Walk
from kpg.provenance.node_rows import NEVER, Asking, Below, Words
from kpg.provenance.proof_tree import Absence, Kind, Proof
from kpg.provenance.row_text import Key, Step, put_together, row_text
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.errors import InternalError, NotSupportedError, ProgrammingError
from kpg.runtime.handles import RankLookup
from kpg.runtime.types import JSON, Schema
from kpg.session.engine import Engine

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


FEW: Final = 3
"""Rows of an aggregate that are explained unless more are asked for."""


def explain_row(engine: Engine, name: str, row: Any, *, sample: int | None = FEW) -> Proof:
    """Where a row of a view comes from. ``row`` is all of it, or some of its columns by their names.

    ProgrammingError if there is no such row, or if several differ in the columns that are given.
    """
    entry = engine.catalog.get(name)
    with engine.interrupt, ExitStack() as kept:
        words = the_row(engine, entry, row)
        return World(engine, sample, kept).proof(entry.name, words)


def explain_absence(engine: Engine, name: str, row: Any) -> Absence:
    """Why a view does not have a row; ProgrammingError if it has."""
    entry = engine.catalog.get(name)
    with engine.interrupt, ExitStack() as kept:
        if rows_like(engine, entry, row).shape[1]:
            raise ProgrammingError(
                f"{entry.name} has such a row", hint="explain_row tells where it comes from"
            )
        places, words, values = meant(engine, entry, row)
        names = [entry.schema.names[place] for place in places]
        return _absence(World(engine, FEW, kept), entry, names, dict(zip(places, words, strict=True)), values)


def _absence(
    world: World, entry: Entry, names: Sequence[str], known: dict[int, int], values: tuple[Any, ...]
) -> Absence:

    engine = world.engine
    text = row_text(entry.name, names, values)
    asking, ids = scan_of(engine, entry)
    scan = Walk(world, asking, -1)
    near = nearest(scan, asking.resolved.query.node, {ids[place]: word for place, word in known.items()})
    types = [entry.schema.types[place] for place in known]
    instead = dict.fromkeys(row_text(entry.name, names, world.values(row, types)) for row in near)
    if not isinstance(entry, ViewEntry):
        return Absence(text, entry.name, values, (), tuple(instead)[:FEW])
    walk = world.walk(entry)
    failures = tuple(Missing(walk, entry.text).query(walk.asking.resolved.query, known))
    return Absence(text, entry.name, values, failures, tuple(instead)[:FEW])


def explained(engine: Engine, statement: ast.ExplainRow) -> Result:
    """EXPLAIN ROW: the explanation as lines, or as JSON in one row."""
    entry = engine.catalog.get(statement.relation, statement.place)
    if engine.catalog.is_limited:
        for name in (entry.name, *sorted(engine.views.tables_under([entry.name]))):
            if name in engine.catalog:
                check_relation(engine.catalog, name)
    found = _selected(engine, entry, statement)
    with engine.interrupt, ExitStack() as kept:
        rows = np.unique(found, axis=1) if found.shape[1] > 1 else found
        if not rows.shape[1]:
            return _explained_absence(World(engine, FEW, kept), entry, statement)
        row = tuple(rows[:, 0].tolist())
        proof = World(engine, FEW, kept).proof(entry.name, row)
    if statement.as_json:
        return listing({"explanation": (JSON, [proof.to_json()])})
    more = rows.shape[1] - 1
    note = f"\n… and {more} more row{'' if more == 1 else 's'} like that" if more else ""
    return explanation(proof.tree() + note, "explanation")


def external_proof(engine: Engine, name: str, row: tuple[int, ...]) -> Proof | None:
    """Where a row of a relation that a Datalog program reads comes from; None unless it is a SQL view's."""
    if not is_sql(engine, name):
        return None
    with ExitStack() as kept:
        return World(engine, FEW, kept).proof(name, row)


def _explained_absence(world: World, entry: Entry, statement: ast.ExplainRow) -> Result:
    """Why there is no such row, where all of its values are given."""
    if statement.where is not None or not is_sql(world.engine, entry.name):
        raise ProgrammingError(f"{entry.name} has no such row", span=statement.span)
    engine, types = world.engine, entry.schema.types
    planned = plan(meant_values(statement, types), engine.reading_catalog, engine.statistics)
    words = engine.run(planned)[0][:, 0].tolist()
    values = world.values(words, types)
    found = _absence(world, entry, entry.schema.names, dict(enumerate(words)), values)
    if statement.as_json:
        return listing({"explanation": (JSON, [json.dumps(found.to_dict(), default=str)])})
    return explanation(str(found), "explanation")


def _selected(engine: Engine, entry: Entry, statement: ast.ExplainRow) -> Words:
    """The rows of a relation that the statement means."""
    names = entry.schema.names
    if statement.where is None and len(statement.values) != len(names):
        raise ProgrammingError(
            f"{entry.name} has the columns {', '.join(names)}: {len(statement.values)} values do not fit",
            span=statement.span,
            hint="EXPLAIN ROW ... WHERE takes any condition",
        )
    catalog = engine.reading_catalog
    planned = plan(meant_rows(statement, entry.name, names), catalog, engine.statistics)
    return engine.run(planned)[0]


def the_row(engine: Engine, entry: Entry, row: Any) -> tuple[int, ...]:
    """The words of the one row that is meant; of a table with its rowid."""
    found = rows_like(engine, entry, row)
    names = entry.schema.names
    if not found.shape[1]:
        values = row.values() if isinstance(row, Mapping) else row
        text = row_text(entry.name, tuple(row) if isinstance(row, Mapping) else names, tuple(values))
        raise ProgrammingError(f"there is no row {text}", hint="explain_absence tells what it lacks")
    if found.shape[1] > 1 and isinstance(row, Mapping):
        raise ProgrammingError(
            f"{found.shape[1]} rows of {entry.name} have these values",
            hint="give more columns, or the whole row",
        )
    return tuple(found[:, 0].tolist())


def rows_like(engine: Engine, entry: Entry, row: Any) -> Words:
    """The distinct rows of a relation that have the values of a row, or of some columns by their names."""
    places, words, _ = meant(engine, entry, row)
    asking, ids = scan_of(engine, entry)
    known = {ids[place]: word for place, word in zip(places, words, strict=True)}
    node = asking.resolved.query.node
    return asking.rows(node, ids, known, {})[0]


def meant(engine: Engine, entry: Entry, row: Any) -> tuple[list[int], list[int], tuple[Any, ...]]:
    """The places of the columns that are given, with words and values."""
    if isinstance(row, Mapping):
        places = [_place(entry, name) for name in row]
        values = tuple(row.values())
    else:
        places = list(range(len(entry.schema.columns)))
        values = tuple(row) if isinstance(row, Sequence) and not isinstance(row, str) else (row,)
    columns = tuple(replace(entry.schema.columns[place], nullable=True) for place in places)
    if not places:
        return [], [], ()
    return places, from_rows([values], Schema(columns), engine.executor.dictionary)[:, 0].tolist(), values


def scan_of(engine: Engine, entry: Entry) -> tuple[Asking, list[int]]:
    """The relation as a query."""
    text = f"select * from {written(entry.name)}"
    asking = Asking(engine, bind(parse_query(text).query, text, engine.reading_catalog))
    return asking, [column.index for column in asking.resolved.query.columns]


def is_sql(engine: Engine, name: str) -> bool:
    """Whether a relation is explained by a query."""
    entry = engine.catalog.find(name)
    return isinstance(entry, ViewEntry) and bool(entry.sql) and prover(engine, entry.name) is None


def _place(entry: Entry, name: str) -> int:
    """The place of a column, by its name in any case."""
    names = [column.lower() for column in entry.schema.names]
    if name.lower() not in names:
        hint = did_you_mean(name, entry.schema.names)
        raise ProgrammingError(f'{entry.name} has no column "{name}"', hint=hint)
    return names.index(name.lower())
