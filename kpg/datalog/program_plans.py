"""Plans of a program's relations, over the tables and views of the database.

Relations with many dependencies are installed stratum by stratum, to bound the depth of one plan.
``add_error_position`` adds the position in the program's text to errors of its rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Get, Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.entries import RELATIONS, Catalog, ViewEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Lowering, Sources
from kpg.compiler.sql.frontend import LoweredQuery
from kpg.compiler.sql.frontend import lower_relation as lower_rows
from kpg.execute.queries.query_plan import PlannedStatement, plan_bound
from kpg.runtime.errors import DataError, ProgrammingError, Span
from kpg.runtime.handles import Installation
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.session.engine import Engine

MAX_ROUNDS_PRAGMA: Final = "max-rounds"
"""Pragma with the maximum number of rounds of a recursion."""
DEFAULT_MAX_ROUNDS: Final = 10_000_000
"""Rounds after which a recursion counts as endless, without the pragma."""
DEFAULT_MAX_REPLACING_ROUNDS: Final = 100_000
"""The same if rounds can also remove tuples, by aggregates or selections, and so can alternate."""
UNIT_COLUMN: Final = "unit"
"""The column with the value 0 that a relation without columns is stored with."""


def table_schema(relation: core.Relation) -> Schema:
    """Return the schema of an input's table. The table is a set, so its key is all columns."""
    columns = tuple(ColumnDef(column.name, column.type.type, False) for column in relation.columns)
    columns = columns or (ColumnDef(UNIT_COLUMN, BIGINT, False),)
    return Schema(columns, tuple(range(len(columns))))


def view_schema(relation: core.Relation) -> Schema:
    """Return the schema of a derived relation's view."""
    return Schema(table_schema(relation).columns)


def definition(
    lowering: Lowering,
    name: str,
    catalog: Catalog,
    views: frozenset[str],
    names: Mapping[str, str] = MappingProxyType({}),
) -> Rel:
    """Return the rows of a relation as algebra over tables and materialized views.

    The program's ``views`` are read and not expanded. ``names`` has the catalog's names of relations
    where they differ from the program's. A recursion that exceeds its maximum number of rounds raises
    an error at run time.
    """

    def expand_node(node: Rel) -> Rel:
        if isinstance(node, algebra.LetRec) and node.limit is None:
            return replace(node, limit=max_rounds(lowering.program, node.ids), error_at_limit=True)
        return _expand_view(node, catalog)

    return transform_up(lowering.relation(name, Sources(catalog, views, names)), expand_node)


def _expand_view(node: Rel, catalog: Catalog) -> Rel:
    """Return a view's definition in place of its name, unless it is materialized."""
    if not isinstance(node, Get) or node.is_table:
        return node
    entry = catalog.get(node.name)
    if not isinstance(entry, ViewEntry) or entry.materialized or entry.rel is None:
        return node
    inner = transform_up(entry.rel, lambda child: _expand_view(child, catalog))
    return algebra.Project(inner, tuple(range(len(node.types))))


def max_rounds(program: core.Program, names: Iterable[str] = ()) -> int:
    """Return the maximum number of rounds of a recursion of these relations.

    Raises ProgrammingError if the pragma's value is not a positive number.
    """
    pragma = program.pragmas.get(MAX_ROUNDS_PRAGMA)
    if pragma is None:
        relations = (program.relations[name] for name in names if name in program.relations)
        replaces = any(relation.selection is not None or any(relation.aggregates) for relation in relations)
        return DEFAULT_MAX_REPLACING_ROUNDS if replaces else DEFAULT_MAX_ROUNDS
    if not pragma.isdecimal() or int(pragma) < 1:
        raise ProgrammingError(
            f'{MAX_ROUNDS_PRAGMA} "{pragma}" is not a number of rounds', hint="give a positive number"
        )
    return int(pragma)


def plan_relation(engine: Engine, relation: core.Relation, rel: Rel, catalog: Catalog) -> PlannedStatement:
    """Return the plan of a relation's rows, as the program defines it."""
    schema = view_schema(relation)
    nullable = (False,) * len(schema.columns)
    bound = LoweredQuery(rel, schema.names, schema.types, nullable, (), len(schema.columns))
    return plan_bound(bound, catalog, engine.statistics, restricting=False)


def plan_scan(engine: Engine, name: str) -> PlannedStatement:
    """Return the plan of all rows of a table or view."""
    return plan_bound(lower_rows(name, engine.reading_catalog), engine.reading_catalog, engine.statistics)


MAX_STRATA: Final = 24
"""Maximum number of strata in one plan."""


class InstalledStrata:
    """Relations of a program that are installed under names of their own, for other plans to read.

    ``names`` has the catalog's names of relations where they differ from the program's. With
    ``isolated``, they see uncommitted changes and share nothing with other dataflows.
    """

    def __init__(
        self,
        engine: Engine,
        label: str,
        lowering: Lowering,
        names: Mapping[str, str] = MappingProxyType({}),
        *,
        isolated: bool = False,
    ) -> None:
        self._engine = engine
        self._label = label
        self._lowering = lowering
        self._names = dict(names)
        self._isolated = isolated
        self._installed: dict[str, Installation] = {}
        self._entries: dict[str, ViewEntry] = {}

    def plan(self, name: str, catalog: Catalog, materialized: frozenset[str]) -> PlannedStatement:
        """Return the plan of a relation over ``materialized`` relations and strata installed for it."""
        strata = self._lowering.defining_strata(name, materialized)
        if len(strata) > MAX_STRATA:
            for stratum in strata:
                if name not in stratum.relations:
                    self._install_stratum(stratum.relations, catalog, materialized)
        return self._plan(name, catalog, materialized)

    def _install_stratum(
        self, relations: tuple[str, ...], catalog: Catalog, materialized: frozenset[str]
    ) -> None:
        """Install the relations of a stratum. Their equal loops are shared."""
        missing = [name for name in relations if name not in self._installed]
        plans = {name: self._plan(name, catalog, materialized) for name in missing}
        for name, plan in plans.items():
            view = f"{self._label}/{name}"
            self._installed[name] = self._engine.executor.install(view, plan.plan, isolated=self._isolated)
            relation = self._lowering.program.relations[name]
            self._entries[name] = ViewEntry(
                view, view_schema(relation), None, materialized=True, keys=(key_columns(relation),)
            )
            self._names[name] = view

    def _plan(self, name: str, catalog: Catalog, materialized: frozenset[str]) -> PlannedStatement:
        if self._entries:
            catalog = catalog.copy()
            catalog.apply(*(RELATIONS.put(entry.name.lower(), entry) for entry in self._entries.values()))
        rel = definition(
            self._lowering, name, catalog, materialized | frozenset(self._installed), self._names
        )
        return plan_relation(self._engine, self._lowering.program.relations[name], rel, catalog)

    def drop(self) -> None:
        """Uninstall the strata. No installed dataflow may read them."""
        for view in reversed(self._installed.values()):
            self._engine.executor.uninstall(view)
        self._installed.clear()


def is_deep(lowering: Lowering, name: str, materialized: frozenset[str]) -> bool:
    """Return whether a relation depends on too many strata to be expanded where it is used."""
    return len(lowering.defining_strata(name, materialized)) > MAX_STRATA


def key_columns(relation: core.Relation) -> tuple[int, ...]:
    """Return the columns that identify a tuple: those without aggregates."""
    width = max(len(relation.columns), 1)
    aggregates = relation.aggregates or (None,) * width
    return tuple(position for position, function in enumerate(aggregates) if function is None)


DATALOG_HINTS: Final = {
    "guard the divisor": "let the rule say that the divisor is not 0",
    "cast an operand to DOUBLE": "numbers have 64 bits: to_float(...) makes floats of them",
}
"""Hints for Datalog, by the beginning of the hint for SQL."""


def locate_error(error: DataError, program: core.Program) -> None:
    """Add the position of the failed operation to the error, if exactly one rule has such an operation.

    If several rules have it, the hint lists their lines.
    """
    operation = error.operation
    if error.span is not None or not isinstance(operation, Call):
        return
    spans: dict[tuple[str, int], Span] = {}
    for rule in program.rules:
        for expression, span in _body_expressions(rule.body):
            if any(_may_match(part, operation) for part in _calls(expression)):
                spans.setdefault((span.file, span.start), span)
    if spans and error.hint is not None:
        error.hint = next(
            (datalog_hint for hint, datalog_hint in DATALOG_HINTS.items() if error.hint.startswith(hint)),
            error.hint,
        )
    if len(spans) == 1:
        (error.span,) = spans.values()
    elif spans:
        lines = sorted({span.line for span in spans.values()})
        error.hint = f"it is in one of the rules at lines {', '.join(map(str, lines))}"


@contextmanager
def add_error_position(program: core.Program) -> Iterator[None]:
    """Add the position in the program's text to errors that the block raises."""
    try:
        yield
    except DataError as error:
        locate_error(error, program)
        raise


def _body_expressions(body: Sequence[core.Literal]) -> Iterator[tuple[core.Expression, Span]]:
    for literal in body:
        if isinstance(literal, core.Assignment):
            yield literal.expression, literal.span
        elif isinstance(literal, core.Comparison):
            comparison = core.Call(literal.function, (literal.left, literal.right), literal.left.type)
            yield comparison, literal.span
        elif isinstance(literal, core.BodyAggregate):
            yield from _body_expressions(literal.body)
            if literal.value is not None:
                yield literal.value, literal.span


def _calls(expression: core.Expression) -> Iterator[core.Call]:
    if isinstance(expression, core.Call):
        yield expression
        for arg in expression.args:
            yield from _calls(arg)


def _may_match(expression: core.Expression, scalar: Scalar) -> bool:
    """Return whether the scalar may be the lowered expression. A variable matches anything."""
    if isinstance(expression, core.Constant):
        return not isinstance(scalar, Literal) or scalar.value == expression.value
    if not isinstance(expression, core.Call):
        return True
    if not isinstance(scalar, Call):
        return isinstance(scalar, Literal)  # A constant subexpression may have been folded.
    if expression.function == "cast" and scalar.function != "cast":
        return _may_match(expression.args[0], scalar)
    return (
        expression.function == scalar.function
        and len(expression.args) == len(scalar.args)
        and all(map(_may_match, expression.args, scalar.args))
    )
