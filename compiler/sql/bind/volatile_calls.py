"""Volatile calls: sequences, random values and the current time.

They are not functions of a plan. A one-time statement has each call replaced by its value; in a DEFAULT each
row gets its own number. ``now()`` and its variants are a constant in a one-time statement, and a column of
the clock relation in a view.

A view may only compare the time, in WHERE, with values of a row. Rows then appear and disappear as the clock
advances. Each comparison has its own clock relation, so each can be its own range.
"""

import datetime
import random
import time
import uuid
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from sqlglot import exp, parse_one

from kpg.compiler.catalog.access_control import require_any_privilege
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import CLOCK_ROW, Catalog
from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import Join, Node, Scan
from kpg.compiler.sql.parse.call_syntax import order_arguments
from kpg.compiler.sql.parse.features import SEQUENCE_FUNCTIONS, VOLATILE_FUNCTIONS
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns, transform
from kpg.runtime.types import BOOLEAN, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from kpg.runtime.values import intervals

CURRENT_TIME_HINT: Final = "in WHERE, compare it with a column: at > now() - INTERVAL '5 minutes'"
RANGE_COMPARISONS: Final = frozenset({"lt", "le", "gt", "ge"})
NEGATED_COMPARISON: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
TIME_FUNCTIONS: Final = frozenset({"clock_timestamp", "statement_timestamp", "transaction_timestamp"})
TIME_NODES: Final[dict[type[exp.Expr], Type]] = {
    exp.CurrentTimestamp: TIMESTAMPTZ,
    exp.CurrentDate: DATE,
    exp.CurrentTime: TIME,
    exp.Localtime: TIME,
    exp.Localtimestamp: TIMESTAMP,
}
MICROSECOND_DIGITS: Final = 6


def current_time_type(node: exp.Expr) -> Type | None:
    """Return the type of a call that returns the current time; None for any other node."""
    if isinstance(node, exp.Anonymous) and not node.expressions and str(node.this).lower() in TIME_FUNCTIONS:
        return TIMESTAMPTZ
    return TIME_NODES.get(type(node))


def bind_current_time(binding: Binding, scope: Scope, node: exp.Expr, type_: Type) -> Scalar:
    """Bind the current time: a constant in a one-time statement, a clock column in a view."""
    digits = node.this if not isinstance(node, exp.Anonymous) else None
    unit = 1
    if isinstance(digits, exp.Literal):
        unit = 10 ** max(MICROSECOND_DIGITS - int(digits.name), 0)
    if not binding.is_view:
        binding.catalog.system_reads.count += 1
        now: Scalar = Literal((binding.catalog.now + unit // 2) // unit * unit, TIMESTAMPTZ)
    elif not scope.allows_clock or unit > 1:
        binding.refuse("the present time in this place of a view", node, CURRENT_TIME_HINT)
    else:
        if binding.clock_id is None:
            binding.clock_id = binding.new_id()
        now = Column(binding.clock_id, TIMESTAMPTZ)
    return now if type_ == TIMESTAMPTZ else Call("cast", (now,), type_)


def join_clocks(
    binding: Binding, source: Node, predicates: Sequence[Scalar], node: exp.Expr
) -> tuple[Node, tuple[Scalar, ...]]:
    """Join the source with one clock per comparison with the current time; return the predicates over it."""
    if binding.clock_id is None:
        return source, tuple(predicates)
    result: list[Scalar] = []
    for predicate in predicates:
        for part in _split_time_comparisons(binding, predicate, node):
            if binding.clock_id not in columns(part):
                result.append(part)
                continue
            own, rowid = binding.new_id(), binding.new_id()
            source = Join("inner", source, Scan(CLOCK_ROW, (own, rowid)), ())
            result.append(_use_clock(part, binding.clock_id, own))
    return source, tuple(result)


def _use_clock(scalar: Scalar, clock: int, new_clock: int) -> Scalar:
    def rewrite(part: Scalar) -> Scalar:
        return Column(new_clock, part.type) if isinstance(part, Column) and part.index == clock else part

    return transform(scalar, rewrite)


def _split_time_comparisons(binding: Binding, predicate: Scalar, node: exp.Expr) -> list[Scalar]:
    """Return range comparisons whose conjunction is the predicate.

    Raises NotSupportedError if the predicate uses the current time in another way.
    """
    clock = binding.clock_id
    if clock is None or clock not in columns(predicate):
        return [predicate]
    if isinstance(predicate, Call):
        function, args = predicate.function, predicate.args
        inner = args[0] if function == "not" else predicate
        if function == "not" and isinstance(inner, Call) and inner.function in NEGATED_COMPARISON:
            return _split_time_comparisons(
                binding, Call(NEGATED_COMPARISON[inner.function], inner.args, BOOLEAN), node
            )
        if function == "and":
            return [part for arg in args for part in _split_time_comparisons(binding, arg, node)]
        if function == "eq":
            parts = [call(binding, name, list(args), node) for name in ("ge", "le")]
            return [one for part in parts for one in _split_time_comparisons(binding, part, node)]
        sides = [columns(arg) for arg in args]
        if (
            function in RANGE_COMPARISONS
            and frozenset((clock,)) in sides
            and not all(clock in side for side in sides)
        ):
            return [predicate]
    binding.refuse("this use of the present time in a view", node, CURRENT_TIME_HINT)


NEXTVAL: Final = "nextval"
SEQUENCE_PRIVILEGES: Final = {NEXTVAL: "Uw", "currval": "Ur", "setval": "w"}
"""Privilege letters by function. One of them is enough."""
MAX_QUERY_ROWS: Final = 2**40
"""More rows than any query returns."""
Evaluate = Callable[[str, Sequence[str]], int]
"""Return the value of a sequence function with the given name and arguments."""
Assignments = tuple[tuple[exp.Identifier, exp.Expr], ...]
Tree = exp.Expr
StartNumbering = Callable[[str, int], tuple[int, int, Numbers]]
"""Reserve numbers of a sequence, given how many each row takes.

Returns the token of the row counter, the first number, and the sequence.
"""


class RowIndex(exp.Expression):
    """The number of earlier rows in a statement that takes a sequence number per row."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def token(self) -> int:
        """Token of the row counter: see :class:`kpg.runtime.functions.mathematics.SequenceCalls`."""
        return int(self.this.name)


def is_sequence_call(node: exp.Expr) -> bool:
    """Return whether a node is a sequence function whose arguments are known before the statement runs."""
    return (
        isinstance(node, exp.Anonymous)
        and str(node.this).lower() in SEQUENCE_FUNCTIONS
        and not has_computed_argument(node)
    )


def has_computed_argument(node: exp.Anonymous) -> bool:
    """Return whether a call of setval has arguments that a query computes."""
    if str(node.this).lower() != "setval":
        return False
    return any(part.find(exp.Column, exp.Query, exp.Binary, exp.AggFunc) for part in node.expressions[1:])


def _function_name(node: exp.Expr) -> str:
    """Return the lower-case name of a function that sqlglot may parse to a class of its own."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    known: dict[object, str] = {exp.Rand: "random", exp.Uuid: "gen_random_uuid"}
    return known.get(type(node), "")


def is_volatile_call(node: exp.Expr) -> bool:
    """Return whether a node is a call of a volatile function."""
    return _function_name(node) in VOLATILE_FUNCTIONS


def _is_per_row_function(node: exp.Expr) -> bool:
    """Return whether a call can have a value per row."""
    return isinstance(node, exp.Rand | exp.Uuid) or _function_name(node) in ("random", "gen_random_uuid")


def varies_per_row(node: exp.Expr) -> bool:
    """Return whether a call has a value per row of a query, or is a row index."""
    return isinstance(node, RowIndex) or _is_per_row_function(node)


def evaluate_volatile_rows(tree: exp.Expr, *, evaluate_sleep: bool = True) -> exp.Expr:
    """Evaluate the volatile calls of VALUES, or of a SELECT without FROM; return other trees unchanged."""
    alone = isinstance(tree, exp.Values) or (isinstance(tree, exp.Select) and tree.args.get("from_") is None)
    return (
        evaluate_volatile_calls(tree, evaluate_sleep=evaluate_sleep)
        if alone and any(map(is_volatile_call, tree.walk()))
        else tree
    )


def evaluate_volatile_calls(tree: exp.Expr, *, evaluate_sleep: bool = True) -> exp.Expr:
    """Replace each volatile call by a constant of its own.

    Without ``evaluate_sleep``, output columns that call pg_sleep stay.
    """

    def constant(node: exp.Expr) -> exp.Expr:
        name = _function_name(node)
        if name not in VOLATILE_FUNCTIONS or (
            name == "pg_sleep" and not evaluate_sleep and _is_output_column(node)
        ):
            return node
        value, type_ = _evaluate_volatile(name, node)
        made: exp.Expr = exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build(type_))
        named = isinstance(node.parent, exp.Select) and any(node is one for one in node.parent.expressions)
        return exp.alias_(made, name) if named else made

    return tree.transform(constant)


def _is_output_column(node: exp.Expr) -> bool:
    """Return whether a call is a column of the outermost SELECT."""
    column = node.parent if isinstance(node.parent, exp.Alias) else node
    return isinstance(column.parent, exp.Select) and column.parent.parent is None


def _evaluate_volatile(name: str, node: exp.Expr) -> tuple[str, str]:
    """Evaluate a volatile function; return its value as text and its type name."""
    match name:
        case "random":
            return repr(random.random()), "DOUBLE"
        case "random_normal":
            operands = order_arguments(name, node.expressions) or node.expressions
            numbers = _constant_arguments(exp.Anonymous(this=name, expressions=operands))
            mean, deviation = (*numbers, *(0.0, 1.0)[len(numbers) :])
            return repr(random.gauss(mean, deviation)), "DOUBLE"
        case "gen_random_uuid":
            return str(uuid.uuid4()), "UUID"
        case "setseed":
            (seed,) = _constant_arguments(node)
            if not -1 <= seed <= 1:
                raise DataError(f"setseed parameter {seed:g} is out of allowed range [-1,1]")
            random.seed(seed)
            return "", "TEXT"
        case "timeofday":
            return datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S.%f %Y UTC"), "TEXT"
        case _:
            time.sleep(max(_sleep_seconds(node), 0))
            return "", "TEXT"


def _constant_arguments(node: exp.Expr) -> list[float]:
    """Return the arguments of a call as numbers.

    Raises NotSupportedError if one is not a constant.
    """
    try:
        return [float(part.sql("postgres").strip("'").replace(" ", "")) for part in node.expressions]
    except ValueError:
        raise NotSupportedError(
            f"{node.sql('postgres')} of anything but constants is not supported"
        ) from None


def _sleep_seconds(node: exp.Expr) -> float:
    """Return how many seconds pg_sleep, or pg_sleep_for with an interval, waits."""

    if len(node.expressions) != 1:
        raise ProgrammingError(f"{node.sql('postgres')} takes one argument")
    (given,) = node.expressions
    if _function_name(node) == "pg_sleep":
        return _constant_arguments(node)[0]
    return (
        intervals.duration(intervals.parse((given.this if isinstance(given, exp.Interval) else given).name))
        / 1e6
    )


def sequence_name(node: exp.Anonymous, catalog: Catalog) -> str:
    """Return the name of the sequence in a call's first argument."""
    arg = node.expressions[0] if node.expressions else None
    while isinstance(arg, exp.Cast):
        arg = arg.this
    if isinstance(arg, exp.Anonymous) and str(arg.this).lower() == "pg_get_serial_sequence":
        return _serial_sequence(arg, catalog)
    if not isinstance(arg, exp.Literal) or not arg.is_string:
        raise NotSupportedError(f"{node.this} of anything but a sequence's name in quotes is not supported")
    return catalog.sequence(arg.name).name


def _serial_sequence(node: exp.Anonymous, catalog: Catalog) -> str:
    """Return the sequence of the column in a call of pg_get_serial_sequence."""
    parts = [part.name for part in node.expressions if isinstance(part, exp.Literal) and part.is_string]
    if len(parts) != len(("table", "column")):
        raise NotSupportedError("pg_get_serial_sequence of anything but names in quotes is not supported")
    entry = catalog.table(parts[0].replace('"', ""))
    known = [name.lower() for name in entry.schema.names]
    if parts[1].lower() not in known:
        raise ProgrammingError(f'column "{parts[1]}" of relation "{entry.name}" does not exist')
    sequence = entry.constraints.rule(known.index(parts[1].lower())).sequence
    if not sequence:
        raise ProgrammingError(f'column "{parts[1]}" of "{entry.name}" has no sequence')
    return sequence


def has_sequence_calls(tree: exp.Expr) -> bool:
    """Return whether a statement calls a sequence function."""
    return any(is_sequence_call(node) for node in tree.find_all(exp.Anonymous))


def evaluate_sequence_calls(tree: exp.Expr, catalog: Catalog, evaluate: Evaluate) -> exp.Expr:
    """Replace each sequence call by its value, in the order of the text."""

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous) or not is_sequence_call(node):
            return node
        name = str(node.this).lower()
        args = [part.sql("postgres") for part in node.expressions[1:]]
        sequence = () if name == "lastval" else (sequence_name(node, catalog),)
        if sequence and catalog.checks_privileges:
            require_any_privilege(catalog, ("SEQUENCE", sequence[0].lower()), SEQUENCE_PRIVILEGES[name])
        if any(isinstance(part, exp.Null) for part in node.expressions[1:]):
            return exp.Cast(this=exp.Null(), to=exp.DataType.build("BIGINT"))
        found = evaluate(name, (*sequence, *args))
        literal: exp.Expr = exp.Literal.number(str(abs(found)))
        literal = exp.Neg(this=literal) if found < 0 else literal
        alias = isinstance(node.parent, exp.Select) and node in node.parent.expressions
        value = exp.Cast(this=literal, to=exp.DataType.build("BIGINT"))
        return exp.alias_(value, name) if alias else value

    return tree.transform(value)


def _is_per_row(node: exp.Expr) -> bool:
    """Return whether a call is evaluated per row of a query."""
    select = node.find_ancestor(exp.Select)
    return select is not None and select.args.get("from_") is not None


def number_rows_from_sequences(tree: exp.Expr, catalog: Catalog, start_numbering: StartNumbering) -> exp.Expr:
    """Replace each nextval that is called per row by an expression over the row's index.

    Raises:
        ProgrammingError: Another sequence function is called per row.
    """
    if not any(is_sequence_call(node) and _is_per_row(node) for node in tree.find_all(exp.Anonymous)):
        return tree
    tree = tree.copy()
    calls: dict[str, list[exp.Anonymous]] = {}
    for node in tree.find_all(exp.Anonymous, bfs=False):
        if not is_sequence_call(node) or not _is_per_row(node):
            continue
        if str(node.this).lower() != NEXTVAL:
            raise ProgrammingError(
                f"{node.this} for each row of a query is not supported", hint="call it in a query of its own"
            )
        calls.setdefault(sequence_name(node, catalog), []).append(node)
    for name, found in calls.items():
        if catalog.checks_privileges:
            require_any_privilege(catalog, ("SEQUENCE", name.lower()), SEQUENCE_PRIVILEGES[NEXTVAL])
        token, first, sequence = start_numbering(name, len(found))
        for place, node in enumerate(found):
            row = f"({len(found)} * :row + {place})"
            value = parse_one(
                f"CAST({_sequence_expression(row, first, sequence)} AS BIGINT)", dialect="postgres"
            )
            for mark in value.find_all(exp.Placeholder):
                mark.replace(RowIndex(this=exp.Literal.number(token)))
            alias = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
            node.replace(exp.alias_(value, NEXTVAL) if alias else value)
    return tree


def _sequence_expression(row: str, first: int, sequence: Numbers) -> str:
    """Return the text of a row's number of a sequence. A sequence that cycles continues at its other end."""
    step = sequence.increment
    ahead, whole = sequence.most - first, sequence.most - sequence.least
    start = sequence.least
    if step < 0:
        ahead, start = first - sequence.least, sequence.most
    before, around = ahead // abs(step) + 1, whole // abs(step) + 1
    plain = f"{first} + {row} * {step}"
    if not sequence.cycle or before > MAX_QUERY_ROWS:
        return plain
    again = f"{start} + (({row} - {before}) % {around}) * {step}"
    return f"CASE WHEN {row} < {before} THEN {plain} ELSE {again} END"


def number_assignments(assignments: Assignments, number_rows: Callable[[exp.Expr], exp.Expr]) -> Assignments:
    """Apply ``number_rows`` to the assignments of an UPDATE, as the columns of a query."""
    targets, values = zip(*assignments, strict=True)
    rows = exp.Select(expressions=[value.copy() for value in values]).from_("rows", copy=False)
    found = (one.unalias() for one in number_rows(rows).expressions)
    return tuple(zip(targets, found, strict=True))
