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
from kpg.compiler.sql.bind.scope import WIDEN_DECIMALS
from kpg.compiler.sql.frontend import LoweredQuery, lower_query, lower_view, referenced_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import STAGES
from kpg.compiler.sql.rewrite import changes
from kpg.compiler.sql.rewrite.column_defaults import apply_insert_defaults
from kpg.execute.queries.result_rows import Reader
from kpg.runtime import plan as ir
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, NotSupportedError
from kpg.runtime.executor import Executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, UserFunctionName
from kpg.runtime.scalar import walk as walk_scalar
from kpg.runtime.types import NULL, ColumnDef, Schema, Type

if TYPE_CHECKING:
    from kpg.compiler import explain as plan_text
    from kpg.compiler.explain import ExplainOutput
    from kpg.compiler.physical.placement import TableDistribution
    from kpg.compiler.sql.rewrite import upsert
else:
    plan_text = LazyModule("kpg.compiler.explain")
    upsert = LazyModule("kpg.compiler.sql.rewrite.upsert")


Words = NDArray[np.int64]
Query = ast.Select | ast.Insert | ast.Delete | ast.Update | ast.Merge


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A statement ready to run. ``types`` includes hidden sort columns, which come last."""

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
        """Return the reader of the plan's output."""
        return Reader(self.schema.names, self.types, self.order, dictionary, self.origins)


class LiveStatistics:
    """Statistics for the planner: table sizes, and the arrangements that views hold."""

    def __init__(self, executor: Executor, plans: Mapping[str, ir.Plan]) -> None:
        self._executor = executor
        self._plans = plans
        self.distribution: TableDistribution | None = None
        """Placement of tables among many workers, if there are some."""

    @property
    def early_materialization(self) -> bool:
        """Whether each of many workers has its own rows only."""
        return self.distribution is not None and self.distribution.is_sharded

    def rows(self, table: str) -> int:
        """Return a table's row count."""
        return self._executor.tables.count(table)

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        """Return the key columns of the table's arrangements, oldest first."""
        found = (key for plan in self._plans.values() for name, key in table_keys(plan) if name == table)
        return tuple(dict.fromkeys(found))


def plan(statement: Query, catalog: Catalog, statistics: Statistics) -> PlannedStatement:
    """Plan a query, or the query that an INSERT, DELETE or UPDATE evaluates."""
    return plan_bound(bind(statement, catalog), catalog, statistics)


def plan_view(
    statement: ast.CreateView | ast.CreateTableAs, catalog: Catalog, statistics: Statistics
) -> PlannedStatement:
    """Plan the query of a view or table, with its column names."""
    return plan_bound(lower_view(statement, catalog), catalog, statistics)


def plan_view_entry(
    entry: ViewEntry, reader: Reader, catalog: Catalog, statistics: Statistics
) -> PlannedStatement:
    """Plan a view by its definition; ``reader`` has its columns."""
    assert entry.rel is not None
    columns = entry.schema.columns
    nullable = tuple(column.nullable for column in columns)
    visible = len(columns)
    bound = LoweredQuery(entry.rel, entry.schema.names, entry.schema.types, nullable, reader.order, visible)
    return plan_bound(bound, catalog, statistics)


def relations_of(rel: Rel, query: ast.Select, catalog: Catalog) -> frozenset[str]:
    """Return the tables, views and functions that a query depends on."""
    read = frozenset(node.name for node in walk(rel) if isinstance(node, Get))
    return read | referenced_relations(query, catalog) | frozenset(_user_functions(rel))


def calls_user_functions(rel: Rel) -> bool:
    """Return whether a relation calls user-defined functions, in Python or SQL aggregates."""
    return next(_user_functions(rel), None) is not None


def _user_functions(rel: Rel) -> Iterator[str]:
    """Yield the user-defined functions that a relation calls, by their names in plans."""
    for node in walk(rel):
        calls = (
            node.aggregates if isinstance(node, Reduce) else node.calls if isinstance(node, Expand) else ()
        )
        yield from (call.function for call in calls if isinstance(call.function, UserFunctionName))
        for scalar in scalars(node):
            for part in walk_scalar(scalar):
                if isinstance(part, Call) and isinstance(part.function, UserFunctionName):
                    yield part.function


def table_keys(plan: ir.Plan) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the table and the key columns of the plan's shareable arrangements."""
    for ref in range(len(plan.nodes)):
        found = plan_text.arranged_table(plan, ref)
        if found is not None:
            yield found


def bind(statement: Query, catalog: Catalog) -> LoweredQuery:
    """Lower a statement to a relation; see ``kpg.compiler.sql.frontend`` and ``change``."""
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


def returning_columns(
    statement: ast.Insert | ast.Delete | ast.Update, catalog: Catalog
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """Return the names and types of the RETURNING columns."""
    if isinstance(statement, ast.Insert):
        return changes.lower_returning(statement, catalog)[1:]
    bound = bind(statement, catalog)
    # The RETURNING columns follow the rowid and, in an UPDATE, the new row.
    skip = 1 + (
        len(catalog.table(statement.table).schema.columns) if isinstance(statement, ast.Update) else 0
    )
    return tuple(bound.names[skip:]), tuple(bound.types[skip:])


def constant_words(rel: Rel, dictionary: Dictionary) -> Words | None:
    """Return the rows of a relation of literals as ``int64[w, n]``, without a dataflow; None for others."""
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
    bound: LoweredQuery, catalog: Catalog, statistics: Statistics, *, restricting: bool = True
) -> PlannedStatement:
    """Plan a bound statement; ``restricting`` as in ``pipeline.compile_query``."""
    compiled = pipeline.compile_query(bound, statistics, restrict_recursion=restricting)
    columns = zip(bound.names, bound.types, bound.nullable, strict=True)
    schema = Schema(tuple(ColumnDef(name, type_, nullable) for name, type_, nullable in columns))
    return PlannedStatement(
        bound.rel, compiled.plan, schema, rel_types(bound.rel), bound.order, bound.origins
    )


def explain(
    statement: ast.Explainable, stage: str, catalog: Catalog, statistics: Statistics, *, costs: bool = True
) -> "ExplainOutput":
    """Return the plan of a query at a stage; InterfaceError for an unknown stage.

    For a change it is the plan that finds the rows, without keys and constraints.
    """
    if isinstance(statement, ast.Change):
        return _explain_change(statement, catalog, statistics, costs=costs)
    kept = isinstance(statement, ast.CreateView)
    query = statement if isinstance(statement, ast.Select) else statement.query
    if query.as_of is not None:
        if isinstance(statement, ast.Select):
            then = query.as_of.span.source[query.as_of.span.start : query.as_of.span.end]
            now = explain(replace(statement, as_of=None), stage, catalog, statistics, costs=costs)
            note = f"{then}: computed from all rows that were there then, without indexes"
            return replace(now, header=(note, *now.header))
        raise NotSupportedError(
            "EXPLAIN of a change AS OF an epoch is not supported",
            span=query.as_of.span,
            hint="what it costs is to compute it from all rows of the tables that it reads",
        )
    stage = stage.lower()
    if stage == "arrangements":
        planned = plan_bound(lower_query(query, catalog, is_view=kept), catalog, statistics)
        return _explain_arrangements(planned.plan, catalog, statistics)
    if stage not in STAGES:
        raise InterfaceError(f'there is no stage "{stage}"', hint=f"the stages are {', '.join(STAGES)}")
    tables = statistics.distribution if isinstance(statistics, LiveStatistics) else None
    return plan_text.explain(query, stage, catalog, statistics, is_view=kept, tables=tables, costs=costs)


def _explain_change(
    statement: ast.Change, catalog: Catalog, statistics: Statistics, *, costs: bool
) -> "ExplainOutput":
    if isinstance(statement, ast.Insert):
        statement = apply_insert_defaults(statement, catalog)
    planned = plan(statement, catalog, statistics)
    change = (
        ("Operation", type(statement).__name__),
        ("Relation Name", catalog.get(statement.table).name),
    )
    return replace(plan_text.explain_physical_plan(planned.plan, catalog, costs=costs), modify_table=change)


def explain_export(
    name: str, plan: ir.Plan, stage: str, catalog: Catalog, statistics: Statistics, *, costs: bool = True
) -> "ExplainOutput":
    """Return the plan of an exported collection; InterfaceError for the stages of SQL."""
    match stage.lower():
        case "physical":
            return plan_text.explain_physical_plan(plan, catalog, costs=costs)
        case "arrangements":
            return _explain_arrangements(plan, catalog, statistics)
        case _:
            raise InterfaceError(
                f'"{name}" is an exported collection: it has no stage "{stage}"',
                hint="its stages are physical and arrangements",
            )


def _explain_arrangements(plan: ir.Plan, catalog: Catalog, statistics: Statistics) -> "ExplainOutput":
    """List every arrangement that the plan uses, and whether it exists."""
    lines = []
    for ref, node in enumerate(plan.nodes):
        found = plan_text.arranged_table(plan, ref)
        if found is not None:
            table, columns = found
            names = ", ".join(catalog.table(table).schema.names[column] for column in columns)
            state = "shared" if columns in statistics.arrangements(table) else "new"
            lines.append(f"{table} by ({names}): {state}")
        elif isinstance(node, ir.Arrange):
            what = "the result" if ref == plan.output else f"%{node.input} by its first {node.key} columns"
            lines.append(f"{what}: of this query")
    return plan_text.ExplainOutput(stage="arrangements", header=tuple(lines or ["no arrangements"]))


T = TypeVar("T")


def with_numeric(compute: Callable[[], T]) -> T:
    """Return the result of ``compute`` with NUMERIC, which is slower, in place of DECIMAL columns."""
    before = WIDEN_DECIMALS.set(True)
    try:
        return compute()
    finally:
        WIDEN_DECIMALS.reset(before)


def retry_with_numeric(compute: Callable[[], T]) -> T:
    """Return the result of ``compute``; run it again with NUMERIC if a DECIMAL overflows."""
    try:
        return compute()
    except DataError as error:
        if not error.exceeds_decimal:
            raise

    return with_numeric(compute)
