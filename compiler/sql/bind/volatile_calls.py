"""Volatile calls: sequences, random values and the current time.

They are not functions of a plan. A one-time statement has each call replaced by its value; in a DEFAULT each
row gets its own number. ``now()`` and its variants are a constant in a one-time statement, and a column of
the clock relation in a view.

A view may only compare the time, in WHERE, with values of a row. Rows then appear and disappear as the clock
advances. Each comparison has its own clock relation, so each can be its own range.
"""

import datetime
import random
import re
import time
import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar, Final

from sqlglot import exp, parse_one

from kpg.compiler.catalog.access_control import need_any
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import CLOCK_ROW, Catalog
from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import Join, Node, Scan
from kpg.compiler.sql.parse.call_syntax import in_their_places
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns, transform
from kpg.runtime.types import BOOLEAN, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from kpg.runtime.values import intervals

HINT: Final = "in WHERE, compare it with a column: at > now() - INTERVAL '5 minutes'"
COMPARED: Final = frozenset({"lt", "le", "gt", "ge"})
OPPOSITE: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
NAMES: Final = frozenset({"clock_timestamp", "statement_timestamp", "transaction_timestamp"})
KINDS: Final[dict[type[exp.Expr], Type]] = {
    exp.CurrentTimestamp: TIMESTAMPTZ,
    exp.CurrentDate: DATE,
    exp.CurrentTime: TIME,
    exp.Localtime: TIME,
    exp.Localtimestamp: TIMESTAMP,
}
MICROSECOND_DIGITS: Final = 6


def moment_type(node: exp.Expr) -> Type | None:
    """The type of a call that gives the present time; None for any other expression."""
    if isinstance(node, exp.Anonymous) and not node.expressions and str(node.this).lower() in NAMES:
        return TIMESTAMPTZ
    return KINDS.get(type(node))


def bind_moment(binding: Binding, scope: Scope, node: exp.Expr, type_: Type) -> Scalar:
    """The present time: of a statement that is run once a constant, in a view a column of its clock."""
    digits = node.this if not isinstance(node, exp.Anonymous) else None
    unit = 1
    if isinstance(digits, exp.Literal):
        unit = 10 ** max(MICROSECOND_DIGITS - int(digits.name), 0)
    if not binding.kept:
        binding.catalog.consulted.times += 1
        now: Scalar = Literal((binding.catalog.moment + unit // 2) // unit * unit, TIMESTAMPTZ)
    elif not scope.clocked or unit > 1:
        binding.refuse("the present time in this place of a view", node, HINT)
    else:
        if binding.clock is None:
            binding.clock = binding.fresh()
        now = Column(binding.clock, TIMESTAMPTZ)
    return now if type_ == TIMESTAMPTZ else Call("cast", (now,), type_)


def timed(
    binding: Binding, source: Node, predicates: Sequence[Scalar], node: exp.Expr
) -> tuple[Node, tuple[Scalar, ...]]:
    """The source with a clock for each comparison with the present time, and the predicates over that."""
    if binding.clock is None:
        return source, tuple(predicates)
    result: list[Scalar] = []
    for predicate in predicates:
        for part in _comparisons(binding, predicate, node):
            if binding.clock not in columns(part):
                result.append(part)
                continue
            own, rowid = binding.fresh(), binding.fresh()
            source = Join("inner", source, Scan(CLOCK_ROW, (own, rowid)), ())
            result.append(_over(part, binding.clock, own))
    return source, tuple(result)


def _over(scalar: Scalar, clock: int, own: int) -> Scalar:
    def rewrite(part: Scalar) -> Scalar:
        return Column(own, part.type) if isinstance(part, Column) and part.index == clock else part

    return transform(scalar, rewrite)


def _comparisons(binding: Binding, predicate: Scalar, node: exp.Expr) -> list[Scalar]:
    """Comparisons that are all true where the predicate is; refused if it is none with the present time."""
    clock = binding.clock
    if clock is None or clock not in columns(predicate):
        return [predicate]
    if isinstance(predicate, Call):
        function, args = predicate.function, predicate.args
        inner = args[0] if function == "not" else predicate
        if function == "not" and isinstance(inner, Call) and inner.function in OPPOSITE:
            return _comparisons(binding, Call(OPPOSITE[inner.function], inner.args, BOOLEAN), node)
        if function == "and":
            return [part for arg in args for part in _comparisons(binding, arg, node)]
        if function == "eq":
            parts = [call(binding, name, list(args), node) for name in ("ge", "le")]
            return [one for part in parts for one in _comparisons(binding, part, node)]
        sides = [columns(arg) for arg in args]
        if function in COMPARED and frozenset((clock,)) in sides and not all(clock in side for side in sides):
            return [predicate]
    binding.refuse("this use of the present time in a view", node, HINT)


NEXTVAL: Final = "nextval"
CALLS: Final = frozenset({NEXTVAL, "currval", "setval", "lastval"})
CHANCE: Final = frozenset(
    {"random", "random_normal", "gen_random_uuid", "setseed", "timeofday", *("pg_sleep", "pg_sleep_for")}
)
NEEDED: Final = {NEXTVAL: "Uw", "currval": "Ur", "setval": "w"}
"""Privileges of which one is needed."""
MENTIONS: Final = re.compile(
    r"random|uuid_generate|uuid\s*\(|setseed|timeofday|pg_sleep|val\s*\(", re.IGNORECASE
)
"""A text without these has none of the calls: trees of many constants are not searched."""


@lru_cache(maxsize=1)
def mentions_volatile(text: str) -> bool:
    """Whether a text may have a volatile call: one search for all queries of a statement."""
    return MENTIONS.search(text) is not None


LOCKING: Final = re.compile(r"\bfor\s+(?:no\s+key\s+|key\s+)?(?:update|share)\b", re.IGNORECASE)
"""A text without it locks no rows."""
LONG: Final = 2**40
"""No query has as many rows."""
Evaluate = Callable[[str, Sequence[str]], int]
Assignments = tuple[tuple[exp.Identifier, exp.Expr], ...]
Tree = exp.Expr
Begin = Callable[[str, int], tuple[int, int, Numbers]]
"""For a sequence and how many numbers a row takes: who counts the rows, the first number, the sequence."""


class Drawn(exp.Expression):
    """How many rows came before this one in a statement that takes a number of a sequence for each."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def token(self) -> int:
        """Who counts: see :class:`kpg.runtime.functions.mathematics.Drawn`."""
        return int(self.this.name)


def is_call(node: exp.Expr) -> bool:
    """Whether a node is one of the calls, and its arguments are known before the statement is run."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in CALLS and not is_computed(node)


def is_computed(node: exp.Anonymous) -> bool:
    """Whether a call of setval has to be given what a query computes."""
    if str(node.this).lower() != "setval":
        return False
    return any(part.find(exp.Column, exp.Query, exp.Binary, exp.AggFunc) for part in node.expressions[1:])


def _function(node: exp.Expr) -> str:
    """The name of a function that sqlglot may know or not."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    known: dict[object, str] = {exp.Rand: "random", exp.Uuid: "gen_random_uuid"}
    return known.get(type(node), "")


def is_chance(node: exp.Expr) -> bool:
    """Whether a node is a call whose value is left to chance."""
    return _function(node) in CHANCE


def _is_of_each_row(node: exp.Expr) -> bool:
    """Whether it is one that the rows of a query can have values of their own of."""
    return isinstance(node, exp.Rand | exp.Uuid) or _function(node) in ("random", "gen_random_uuid")


def varies(node: exp.Expr) -> bool:
    """Whether the rows of a query have values of their own of a call, or a number that is drawn for each."""
    return isinstance(node, Drawn) or _is_of_each_row(node)


def once_by_chance(tree: exp.Expr, *, sleeps: bool = True) -> exp.Expr:
    """Rows of VALUES, or of a SELECT without FROM, each of whose calls has a value of its own."""
    alone = isinstance(tree, exp.Values) or (isinstance(tree, exp.Select) and tree.args.get("from_") is None)
    return by_chance(tree, sleeps=sleeps) if alone and any(map(is_chance, tree.walk())) else tree


def by_chance(tree: exp.Expr, *, sleeps: bool = True) -> exp.Expr:
    """A tree with constants in the place of what is left to chance, another for each call.

    Without ``sleeps`` columns of the query that are pg_sleep stay.
    """

    def constant(node: exp.Expr) -> exp.Expr:
        name = _function(node)
        if name not in CHANCE or (name == "pg_sleep" and not sleeps and _is_column(node)):
            return node
        value, type_ = _by_chance(name, node)
        made: exp.Expr = exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build(type_))
        named = isinstance(node.parent, exp.Select) and any(node is one for one in node.parent.expressions)
        return exp.alias_(made, name) if named else made

    return tree.transform(constant)


def _is_column(node: exp.Expr) -> bool:
    """Whether a call is a column of the whole query."""
    column = node.parent if isinstance(node.parent, exp.Alias) else node
    return isinstance(column.parent, exp.Select) and column.parent.parent is None


def _by_chance(name: str, node: exp.Expr) -> tuple[str, str]:
    """The value of such a call, as text, and its type."""
    match name:
        case "random":
            return repr(random.random()), "DOUBLE"
        case "random_normal":
            operands = in_their_places(name, node.expressions) or node.expressions
            numbers = _numbers(exp.Anonymous(this=name, expressions=operands))
            mean, deviation = (*numbers, *(0.0, 1.0)[len(numbers) :])
            return repr(random.gauss(mean, deviation)), "DOUBLE"
        case "gen_random_uuid":
            return str(uuid.uuid4()), "UUID"
        case "setseed":
            (seed,) = _numbers(node)
            if not -1 <= seed <= 1:
                raise DataError(f"setseed parameter {seed:g} is out of allowed range [-1,1]")
            random.seed(seed)
            return "", "TEXT"
        case "timeofday":
            return datetime.datetime.now(datetime.UTC).strftime("%a %b %d %H:%M:%S.%f %Y UTC"), "TEXT"
        case _:
            time.sleep(max(_seconds(node), 0))
            return "", "TEXT"


def _numbers(node: exp.Expr) -> list[float]:
    """The arguments of a call, which are constants."""
    try:
        return [float(part.sql("postgres").strip("'").replace(" ", "")) for part in node.expressions]
    except ValueError:
        raise NotSupportedError(
            f"{node.sql('postgres')} of anything but constants is not supported"
        ) from None


def _seconds(node: exp.Expr) -> float:
    """How long pg_sleep waits, and pg_sleep_for, which takes an interval."""

    if len(node.expressions) != 1:
        raise ProgrammingError(f"{node.sql('postgres')} takes one argument")
    (given,) = node.expressions
    if _function(node) == "pg_sleep":
        return _numbers(node)[0]
    return (
        intervals.span(intervals.parse((given.this if isinstance(given, exp.Interval) else given).name)) / 1e6
    )


def sequence_of(node: exp.Anonymous, catalog: Catalog) -> str:
    """The sequence that a call names by its first argument."""
    arg = node.expressions[0] if node.expressions else None
    while isinstance(arg, exp.Cast):
        arg = arg.this
    if isinstance(arg, exp.Anonymous) and str(arg.this).lower() == "pg_get_serial_sequence":
        return _serial(arg, catalog)
    if not isinstance(arg, exp.Literal) or not arg.is_string:
        raise NotSupportedError(f"{node.this} of anything but a sequence's name in quotes is not supported")
    return catalog.sequence(arg.name).name


def _serial(node: exp.Anonymous, catalog: Catalog) -> str:
    """The sequence of a column, of which a call gives table and name in quotes."""
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


def has_calls(tree: exp.Expr) -> bool:
    """Whether a statement has any of the calls."""
    return any(is_call(node) for node in tree.find_all(exp.Anonymous))


def replaced(tree: exp.Expr, catalog: Catalog, evaluate: Evaluate) -> exp.Expr:
    """A statement with each call replaced by its value, in the order in which they stand."""

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous) or not is_call(node):
            return node
        name = str(node.this).lower()
        args = [part.sql("postgres") for part in node.expressions[1:]]
        sequence = () if name == "lastval" else (sequence_of(node, catalog),)
        if sequence and catalog.is_limited:
            need_any(catalog, ("SEQUENCE", sequence[0].lower()), NEEDED[name])
        if any(isinstance(part, exp.Null) for part in node.expressions[1:]):
            return exp.Cast(this=exp.Null(), to=exp.DataType.build("BIGINT"))
        found = evaluate(name, (*sequence, *args))
        literal: exp.Expr = exp.Literal.number(str(abs(found)))
        literal = exp.Neg(this=literal) if found < 0 else literal
        alias = isinstance(node.parent, exp.Select) and node in node.parent.expressions
        value = exp.Cast(this=literal, to=exp.DataType.build("BIGINT"))
        return exp.alias_(value, name) if alias else value

    return tree.transform(value)


def _of_rows(node: exp.Expr) -> bool:
    """Whether a call has a value for each row of a query."""
    select = node.find_ancestor(exp.Select)
    return select is not None and select.args.get("from_") is not None


def for_rows(tree: exp.Expr, catalog: Catalog, begin: Begin) -> exp.Expr:
    """A statement with what gives each row a number of its own in the place of nextval for each row.

    ProgrammingError for other calls for each row.
    """
    if not any(is_call(node) and _of_rows(node) for node in tree.find_all(exp.Anonymous)):
        return tree
    tree = tree.copy()
    calls: dict[str, list[exp.Anonymous]] = {}
    for node in tree.find_all(exp.Anonymous, bfs=False):
        if not is_call(node) or not _of_rows(node):
            continue
        if str(node.this).lower() != NEXTVAL:
            raise ProgrammingError(
                f"{node.this} for each row of a query is not supported", hint="call it in a query of its own"
            )
        calls.setdefault(sequence_of(node, catalog), []).append(node)
    for name, found in calls.items():
        if catalog.is_limited:
            need_any(catalog, ("SEQUENCE", name.lower()), NEEDED[NEXTVAL])
        token, first, sequence = begin(name, len(found))
        for place, node in enumerate(found):
            row = f"({len(found)} * :row + {place})"
            value = parse_one(f"CAST({_number_of(row, first, sequence)} AS BIGINT)", dialect="postgres")
            for mark in value.find_all(exp.Placeholder):
                mark.replace(Drawn(this=exp.Literal.number(token)))
            alias = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
            node.replace(exp.alias_(value, NEXTVAL) if alias else value)
    return tree


def _number_of(row: str, first: int, sequence: Numbers) -> str:
    """The number that a row takes of a sequence, as text: if it cycles, from its other end on."""
    step = sequence.increment
    ahead, whole = sequence.most - first, sequence.most - sequence.least
    start = sequence.least
    if step < 0:
        ahead, start = first - sequence.least, sequence.most
    before, around = ahead // abs(step) + 1, whole // abs(step) + 1
    plain = f"{first} + {row} * {step}"
    if not sequence.cycle or before > LONG:
        return plain
    again = f"{start} + (({row} - {before}) % {around}) * {step}"
    return f"CASE WHEN {row} < {before} THEN {plain} ELSE {again} END"


def assigned_for_rows(assignments: Assignments, numbered: Callable[[exp.Expr], exp.Expr]) -> Assignments:
    """What SET gives each row, ``numbered`` as the columns of a query of rows."""
    targets, values = zip(*assignments, strict=True)
    rows = exp.Select(expressions=[value.copy() for value in values]).from_("rows", copy=False)
    found = (one.unalias() for one in numbered(rows).expressions)
    return tuple(zip(targets, found, strict=True))
