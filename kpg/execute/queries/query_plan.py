"""Planning: the database's interface to the compiler, from a statement to a plan.

A statement is planned again with NUMERIC where a DECIMAL of 18 digits turns out too narrow.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler import pipeline
from kpg.compiler.algebra.rel import Constant, Expand, Get, OrderBy, Reduce, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import scalars, walk
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.physical.cardinality import Statistics
from kpg.compiler.sql.bind.scope import WIDE
from kpg.compiler.sql.frontend import Bound, lower_query, lower_view, named_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import STAGES
from kpg.compiler.sql.rewrite import changes
from kpg.compiler.sql.rewrite.column_defaults import given_insert
from kpg.execute.queries.result_rows import Reader
from kpg.gc_pause import LazyModule
from kpg.runtime import plan as ir
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, NotSupportedError
from kpg.runtime.executor import Executor
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Named
from kpg.runtime.scalar import walk as walk_scalar
from kpg.runtime.types import NULL, ColumnDef, Schema, Type

if TYPE_CHECKING:
    from kpg.compiler import explain as plan_text
    from kpg.compiler.explain import Shown
    from kpg.compiler.physical.placement import Distributed
    from kpg.compiler.sql.rewrite import upsert
else:
    plan_text = LazyModule("kpg.compiler.explain")
    upsert = LazyModule("kpg.compiler.sql.rewrite.upsert")


Words = NDArray[np.int64]
Query = ast.Select | ast.Insert | ast.Delete | ast.Update | ast.Merge


@dataclass(frozen=True, slots=True)
class Planned:
    """A statement ready to run. ``types`` are those of all columns of the plan's output, hidden ones last."""

    rel: Rel
    plan: ir.Plan
    schema: Schema
    types: tuple[Type, ...]
    order: tuple[OrderBy, ...]
    origins: tuple[tuple[str, int], ...] = ()

    @property
    def has_hidden_columns(self) -> bool:
        """Whether the output has columns that only sort it."""
        return len(self.types) > len(self.schema.columns)

    def reader(self, dictionary: Dictionary) -> Reader:
        """How to read the plan's output."""
        return Reader(self.schema.names, self.types, self.order, dictionary, self.origins)


class LiveStatistics:
    """What the planner may know: the tables as they are, and the arrangements that views hold."""

    def __init__(self, executor: Executor, plans: Mapping[str, ir.Plan]) -> None:
        self._executor = executor
        self._plans = plans
        self.tables: Distributed | None = None
        """Where tables' rows are among many workers, if there are some."""

    @property
    def early(self) -> bool:
        """Whether each of many workers has its own rows only."""
        return self.tables is not None and self.tables.apart

    def rows(self, table: str) -> int:
        """The rows that the table has."""
        return self._executor.count(table)

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        """The key columns of the table's arrangements, in order of making."""
        found = (key for plan in self._plans.values() for name, key in table_keys(plan) if name == table)
        return tuple(dict.fromkeys(found))


def plan(statement: Query, catalog: Catalog, statistics: Statistics) -> Planned:
    """The plan of a query, or of what an INSERT, DELETE or UPDATE has to evaluate."""
    return plan_bound(bind(statement, catalog), catalog, statistics)


def plan_view(
    statement: ast.CreateView | ast.CreateTableAs, catalog: Catalog, statistics: Statistics
) -> Planned:
    """The plan of a view's or table's query, under the column names of these."""
    return plan_bound(lower_view(statement, catalog), catalog, statistics)


def plan_view_entry(entry: ViewEntry, reader: Reader, catalog: Catalog, statistics: Statistics) -> Planned:
    """The plan of a view by its definition, of which a reader knows the columns."""
    assert entry.rel is not None
    columns = entry.schema.columns
    nullable = tuple(column.nullable for column in columns)
    visible = len(columns)
    bound = Bound(entry.rel, entry.schema.names, entry.schema.types, nullable, reader.order, visible)
    return plan_bound(bound, catalog, statistics)


def relations_of(rel: Rel, query: ast.Select, catalog: Catalog) -> frozenset[str]:
    """The tables and views that a query depends on: those it reads, and the views it names."""
    read = frozenset(node.name for node in walk(rel) if isinstance(node, Get))
    return read | named_relations(query, catalog) | frozenset(_own_functions(rel))


def calls_own_functions(rel: Rel) -> bool:
    """Return whether a relation calls functions of users, in Python or SQL aggregates."""
    return next(_own_functions(rel), None) is not None


def _own_functions(rel: Rel) -> Iterator[str]:
    """The users' functions that a relation calls, by the names that plans have for them."""
    for node in walk(rel):
        calls = (
            node.aggregates if isinstance(node, Reduce) else node.calls if isinstance(node, Expand) else ()
        )
        yield from (call.function for call in calls if isinstance(call.function, Named))
        for scalar in scalars(node):
            for part in walk_scalar(scalar):
                if isinstance(part, Call) and isinstance(part.function, Named):
                    yield part.function


def table_keys(plan: ir.Plan) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The plan's arrangements of all rows of a table, which views share: the table and the key columns."""
    for ref in range(len(plan.nodes)):
        found = plan_text.table_key(plan, ref)
        if found is not None:
            yield found


def bind(statement: Query, catalog: Catalog) -> Bound:
    """A statement as a relation: see the functions of ``kpg.compiler.sql.frontend`` and ``change``."""
    match statement:
        case ast.Select():
            return lower_query(statement, catalog)
        case ast.Insert():
            return changes.lower_insert(statement, catalog)
        case ast.Delete():
            return changes.lower_delete(statement, catalog)
        case ast.Update():
            return changes.lower_update(statement, catalog)
        case ast.Merge():
            return upsert.lower_merge(statement, catalog)
        case _:
            assert_never(statement)


def returned_shape(
    statement: ast.Insert | ast.Delete | ast.Update, catalog: Catalog
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """The columns that RETURNING gives: their names and types."""
    if isinstance(statement, ast.Insert):
        return changes.lower_returning(statement, catalog)[1:]
    bound = bind(statement, catalog)
    # Before what is returned come the rowid and, of an UPDATE, the new row.
    skip = 1 + (
        len(catalog.table(statement.table).schema.columns) if isinstance(statement, ast.Update) else 0
    )
    return tuple(bound.names[skip:]), tuple(bound.types[skip:])


def constant_words(rel: Rel, dictionary: Dictionary) -> Words | None:
    """The rows of a relation ``int64[w, n]`` if it is made of literals only: they need no dataflow."""
    if not isinstance(rel, Constant):
        return None
    words = np.empty((len(rel.types), len(rel.rows)), np.int64)
    for index, type_ in enumerate(rel.types):
        values = [row[index] for row in rel.rows]
        if type_.is_interned:
            words[index] = dictionary.intern([None if value is None else str(value) for value in values])
        else:
            words[index] = [NULL if value is None else int(value) for value in values]
    return words


def plan_bound(
    bound: Bound, catalog: Catalog, statistics: Statistics, *, restricting: bool = True
) -> Planned:
    """The plan of a bound statement; ``restricting`` as in ``pipeline.compile_bound``."""
    compiled = pipeline.compile_bound(bound, statistics, restricting=restricting)
    columns = zip(bound.names, bound.types, bound.nullable, strict=True)
    schema = Schema(tuple(ColumnDef(name, type_, nullable) for name, type_, nullable in columns))
    return Planned(bound.rel, compiled.plan, schema, rel_types(bound.rel), bound.order, bound.origins)


def explain(
    statement: ast.Explained, stage: str, catalog: Catalog, statistics: Statistics, *, costs: bool = True
) -> "Shown":
    """The plan of a query, at a stage; InterfaceError if there is no such stage.

    Of a change it is what finds the rows: keys and constraints are no part of it.
    """
    if isinstance(statement, ast.Change):
        return _explain_change(statement, catalog, statistics, costs=costs)
    kept = isinstance(statement, ast.CreateView)
    query = statement if isinstance(statement, ast.Select) else statement.query
    if query.then is not None:
        if isinstance(statement, ast.Select):
            then = query.then.span.source[query.then.span.start : query.then.span.end]
            now = explain(replace(statement, then=None), stage, catalog, statistics, costs=costs)
            note = f"{then}: computed from all rows that were there then, without indexes"
            return replace(now, before=(note, *now.before))
        raise NotSupportedError(
            "EXPLAIN of a change AS OF an epoch is not supported",
            span=query.then.span,
            hint="what it costs is to compute it from all rows of the tables that it reads",
        )
    stage = stage.lower()
    if stage == "arrangements":
        planned = plan_bound(lower_query(query, catalog, kept=kept), catalog, statistics)
        return _arrangements(planned.plan, catalog, statistics)
    if stage not in STAGES:
        raise InterfaceError(f'there is no stage "{stage}"', hint=f"the stages are {', '.join(STAGES)}")
    tables = statistics.tables if isinstance(statistics, LiveStatistics) else None
    return plan_text.explain(query, stage, catalog, statistics, kept=kept, tables=tables, costs=costs)


def _explain_change(
    statement: ast.Change, catalog: Catalog, statistics: Statistics, *, costs: bool
) -> "Shown":
    if isinstance(statement, ast.Insert):
        statement = given_insert(statement, catalog)
    planned = plan(statement, catalog, statistics)
    change = (
        ("Operation", type(statement).__name__),
        ("Relation Name", catalog.get(statement.table).name),
    )
    return replace(plan_text.shown_plan(planned.plan, catalog, costs=costs), change=change)


def explain_export(
    name: str, plan: ir.Plan, stage: str, catalog: Catalog, statistics: Statistics, *, costs: bool = True
) -> "Shown":
    """The plan of an exported collection; InterfaceError at the stages that only SQL has."""
    match stage.lower():
        case "physical":
            return plan_text.shown_plan(plan, catalog, costs=costs)
        case "arrangements":
            return _arrangements(plan, catalog, statistics)
        case _:
            raise InterfaceError(
                f'"{name}" is an exported collection: it has no stage "{stage}"',
                hint="its stages are physical and arrangements",
            )


def _arrangements(plan: ir.Plan, catalog: Catalog, statistics: Statistics) -> "Shown":
    """Every arrangement that the plan uses, and whether it is there already."""
    lines = []
    for ref, node in enumerate(plan.nodes):
        found = plan_text.table_key(plan, ref)
        if found is not None:
            table, columns = found
            names = ", ".join(catalog.table(table).schema.names[column] for column in columns)
            state = "shared" if columns in statistics.arrangements(table) else "new"
            lines.append(f"{table} by ({names}): {state}")
        elif isinstance(node, ir.Arrange):
            what = "the result" if ref == plan.output else f"%{node.input} by its first {node.key} columns"
            lines.append(f"{what}: of this query")
    return plan_text.Shown(stage="arrangements", before=tuple(lines or ["no arrangements"]))


T = TypeVar("T")


def as_wide(compute: Callable[[], T]) -> T:
    """What is computed with NUMERICs, which are slower, in the place of columns of DECIMAL."""
    before = WIDE.set(True)
    try:
        return compute()
    finally:
        WIDE.reset(before)


def widening(compute: Callable[[], T]) -> T:
    """What is computed; anew with NUMERICs if a DECIMAL could not hold a result."""
    try:
        return compute()
    except DataError as error:
        if not error.narrow:
            raise

    return as_wide(compute)
