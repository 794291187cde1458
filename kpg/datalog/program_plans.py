"""Plans of a program's relations, over the tables and views of the database.

Relations with many dependencies are installed stratum by stratum, to bound the depth of one plan. ``placed``
adds the position in the program's text to errors that occur while rows are computed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from kpg.execute.queries.query_plan import Planned, plan_bound
from kpg.runtime.errors import DataError, ProgrammingError, Span
from kpg.runtime.handles import Installation
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.session.engine import Engine

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


MOST_STRATA: Final = 24
"""Strata that are written out in one plan."""


class InstalledStrata:
    """Relations of a program that are installed under names of their own, for plans of others to read.

    ``names`` are what the catalog calls relations, where it is not what the program does. With ``isolated``
    they see uncommitted changes, and share nothing with what is installed otherwise.
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

    def plan(self, name: str, catalog: Catalog, kept: frozenset[str]) -> Planned:
        """The plan of a relation, over ``kept`` relations and over strata that are installed for it."""
        strata = self._lowering.written_out(name, kept)
        if len(strata) > MOST_STRATA:
            for stratum in strata:
                if name not in stratum.relations:
                    self._add(stratum.relations, catalog, kept)
        return self._planned(name, catalog, kept)

    def _add(self, relations: tuple[str, ...], catalog: Catalog, kept: frozenset[str]) -> None:
        """Install the relations of a stratum, whose equal loops are shared."""
        missing = [name for name in relations if name not in self._installed]
        plans = {name: self._planned(name, catalog, kept) for name in missing}
        for name, plan in plans.items():
            view = f"{self._label}/{name}"
            self._installed[name] = self._engine.executor.install(view, plan.plan, isolated=self._isolated)
            relation = self._lowering.program.relations[name]
            self._entries[name] = ViewEntry(
                view, view_schema(relation), None, materialized=True, keys=(keys_of(relation),)
            )
            self._names[name] = view

    def _planned(self, name: str, catalog: Catalog, kept: frozenset[str]) -> Planned:
        if self._entries:
            catalog = catalog.copy()
            for entry in self._entries.values():
                catalog.add(entry)
        rel = definition(self._lowering, name, catalog, kept | frozenset(self._installed), self._names)
        return planned(self._engine, self._lowering.program.relations[name], rel, catalog)

    def drop(self) -> None:
        """Uninstall them; nothing installed may read them any more."""
        for view in reversed(self._installed.values()):
            self._engine.executor.uninstall(view)
        self._installed.clear()


def is_deep(lowering: Lowering, name: str, kept: frozenset[str]) -> bool:
    """Whether a relation is too deep to be written out where it is used."""
    return len(lowering.written_out(name, kept)) > MOST_STRATA


def keys_of(relation: core.Relation) -> tuple[int, ...]:
    """The columns on which no two tuples agree: those that are not aggregated."""
    width = max(len(relation.columns), 1)
    aggregates = relation.aggregates or (None,) * width
    return tuple(place for place, function in enumerate(aggregates) if function is None)


HINTS: Final = {
    "guard the divisor": "let the rule say that the divisor is not 0",
    "cast an operand to DOUBLE": "numbers have 64 bits: to_float(...) makes floats of them",
}
"""What a rule can do where SQL can do otherwise."""


def place(error: DataError, program: core.Program) -> None:
    """Give the error the place of the operation, if one rule of the program has such a one.

    If several have, their lines are a hint.
    """
    operation = error.operation
    if error.span is not None or not isinstance(operation, Call):
        return
    found: dict[tuple[str, int], Span] = {}
    for rule in program.rules:
        for expression, span in _expressions(rule.body):
            if any(_is_like(part, operation) for part in _parts(expression)):
                found.setdefault((span.file, span.start), span)
    if found and error.hint is not None:
        error.hint = next((ours for hint, ours in HINTS.items() if error.hint.startswith(hint)), error.hint)
    if len(found) == 1:
        (error.span,) = found.values()
    elif found:
        lines = sorted({span.line for span in found.values()})
        error.hint = f"it is in one of the rules at lines {', '.join(map(str, lines))}"


@contextmanager
def placed(program: core.Program) -> Iterator[None]:
    """Gives errors that are raised inside their places in the program's text."""
    try:
        yield
    except DataError as error:
        place(error, program)
        raise


def _expressions(body: Sequence[core.Literal]) -> Iterator[tuple[core.Expression, Span]]:
    for one in body:
        if isinstance(one, core.Assignment):
            yield one.expression, one.span
        elif isinstance(one, core.Comparison):
            whole = core.Call(one.function, (one.left, one.right), one.left.type)
            yield whole, one.span
        elif isinstance(one, core.BodyAggregate):
            yield from _expressions(one.body)
            if one.value is not None:
                yield one.value, one.span


def _parts(expression: core.Expression) -> Iterator[core.Call]:
    if isinstance(expression, core.Call):
        yield expression
        for arg in expression.args:
            yield from _parts(arg)


def _is_like(expression: core.Expression, scalar: Scalar) -> bool:
    """Whether the scalar may be what the expression was lowered to: a variable may be anything by now."""
    if isinstance(expression, core.Constant):
        return not isinstance(scalar, Literal) or scalar.value == expression.value
    if not isinstance(expression, core.Call):
        return True
    if not isinstance(scalar, Call):
        return isinstance(scalar, Literal)  # Computed before.
    if expression.function == "cast" and scalar.function != "cast":
        return _is_like(expression.args[0], scalar)
    return (
        expression.function == scalar.function
        and len(expression.args) == len(scalar.args)
        and all(map(_is_like, expression.args, scalar.args))
    )
