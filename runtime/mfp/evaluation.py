"""Evaluation of map-filter-projects (MFPs), and the error messages of failed operations.

A row passes when every predicate is true. A predicate that is false or NULL rejects the row, whatever error
another has. An error raises DataError only in a row that no predicate rejects. :func:`failure` is the slow
path, which finds the operation and the operands that failed.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from kpg.runtime.convert.python_values import show
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import AccumulatorKind, aggregate_named, sum_type
from kpg.runtime.functions.registry import Memoized, implementation
from kpg.runtime.mfp.bytecode import Machine, Segment, Sources, conjuncts
from kpg.runtime.mfp.python_calls import Context, attempt, value_of
from kpg.runtime.plan import Aggregate, Mfp
from kpg.runtime.scalar import (
    INFIX,
    Call,
    Column,
    Fetch,
    If,
    Literal,
    Named,
    Scalar,
    children,
    columns,
    remap,
    shown,
    sql_text,
    transform,
    walk,
    with_children,
)
from kpg.runtime.types import DOUBLE, ERROR, Kind, Type

Words = np.ndarray[Any, np.dtype[np.int64]]


def failure(mfp: Mfp, context: Context, row: Words) -> DataError:
    """The error of a row ``int64[w, 1]``: of the first predicate, else the first output, that failed."""
    for scalar in (*mfp.predicates, *mfp.outputs):
        if _evaluate(scalar, context, row) == ERROR:
            return _describe(_culprit(scalar, context, row), context, row)
    raise InternalError("an expression failed, but not when evaluated again")


def _evaluate(scalar: Scalar, context: Context, row: Words) -> int:
    out, _, _ = Segment(Sources(context), (), (scalar,)).run(row)
    return int(out[0, 0])


def _culprit(scalar: Scalar, context: Context, row: Words) -> Scalar:
    """The innermost failing operation, on the branches that were taken."""
    if isinstance(scalar, If) and _evaluate(scalar.condition, context, row) != ERROR:
        taken = scalar.then if _evaluate(scalar.condition, context, row) == 1 else scalar.otherwise
        return _culprit(taken, context, row)
    for child in children(scalar):
        if _evaluate(child, context, row) == ERROR:
            return _culprit(child, context, row)
    return scalar


def _plain(scalar: Scalar) -> Scalar:
    """The scalar without casts between numbers, most of which the user did not write."""

    def strip(node: Scalar) -> Scalar:
        if isinstance(node, Call) and node.function == "cast" and node.type.is_numeric:
            (inner,) = node.args
            return inner if inner.type.is_numeric else node
        return node

    parts = tuple(transform(child, strip) for child in children(scalar))
    return with_children(scalar, parts)


def _describe(scalar: Scalar, context: Context, row: Words) -> DataError:
    """The error of an operation; columns of tables by name, others, which have none, by their value."""

    def fetched(fetch: Fetch) -> str:
        schema = getattr(context.store(fetch.table), "schema", None)
        return f"{fetch.table}.#{fetch.column}" if schema is None else str(schema.names[fetch.column])

    def value(part: Scalar) -> str:
        return show(_evaluate(part, context, row), part.type, context.dictionary)

    plain = _plain(scalar)
    if isinstance(plain, Call) and isinstance(plain.function, Named):
        of_own = _of_own(plain, [value(part) for part in plain.args], context, row)
        of_own.operation = scalar
        return of_own
    if isinstance(plain, Call) and plain.function == "$unsigned":
        return _below_zero(scalar, sql_text(plain.args[0], value, fetched), value(plain.args[0]))
    if isinstance(scalar, Call) and scalar.function == "cast" and not scalar.stored:
        told = _of_cast(scalar, context, row)
        if told is not None:
            return told
    if isinstance(plain, Call) and plain.stored:
        (part,) = plain.args
        what = f'value out of range for column "{plain.stored}" {plain.type}'
        shown_as = "" if isinstance(part, Literal | Column) else f"{sql_text(part, value, fetched)} is "
        return DataError(f"{what}: {shown_as}{value(part)}")
    operands = [child for child in children(plain) if not isinstance(child, Literal | Column)]
    values = [f"{sql_text(child, value, fetched)} is {value(child)}" for child in operands]
    where = sql_text(plain, value, fetched)
    detail = f" ({', '.join(values)})" if values else ""
    kind = _kind(scalar, context, row)
    made = DataError(f"{kind} in {where}{detail}", hint=_hint(scalar, context, row))
    made.operation, made.short = scalar, kind
    if isinstance(scalar, Call) and kind == f"{scalar.type} out of range":
        made.narrow = scalar.type.kind is Kind.DECIMAL
        words = [_evaluate(arg, context, row) for arg in scalar.args]
        values = [
            value_of(w, arg.type, context.dictionary) for w, arg in zip(words, scalar.args, strict=True)
        ]

        made.short = _said(scalar, context, row) or reason(scalar.function, scalar.type, values)
    return made


def _of_cast(call: Call, context: Context, row: Words) -> DataError | None:
    """The error of a text that means no value, or of a number out of range, in Postgres' words."""
    from kpg.runtime.values import input_errors  # lazy: for errors alone

    source, target = call.args[0].type, call.type
    found = None
    if source.is_text:
        text = value_of(_evaluate(call.args[0], context, row), source, context.dictionary)
        found = input_errors.complaint(text, target)
    elif source.is_numeric and target.is_integer:
        found = input_errors.Complaint(f"{input_errors.spelled(target)} out of range", input_errors.RANGE)
    elif source.is_numeric and target.is_numeric and target.precision:
        found = input_errors.overflow(target)
    if found is None:
        return None
    error = DataError(found.message)
    error.sqlstate, error.detail, error.operation = found.sqlstate, found.detail, call
    return error


def _below_zero(scalar: Scalar, where: str, shown_value: str) -> DataError:
    made = DataError(f"{where} is {shown_value}, which is no unsigned number")
    made.operation = scalar
    return made


def _of_own(call: Call, shown_args: list[str], context: Context, row: Words) -> DataError:
    """The error of a user's function, which says it when it is called again."""
    where = f"{shown(call.function)}({', '.join(shown_args)})"
    how = implementation(call)
    if isinstance(how, Memoized):
        words = [_evaluate(arg, context, row) for arg in call.args]
        values = [value_of(w, arg.type, context.dictionary) for w, arg in zip(words, call.args, strict=True)]
        found = attempt(how.build(call), *values)
        if isinstance(found, Exception):
            return DataError(f"{where} failed: {found}")
    return DataError(f"{where} failed, or gave no {call.type}")


def _kind(scalar: Scalar, context: Context, row: Words) -> str:
    if isinstance(scalar, Column | Fetch):
        return "failed operation"
    if not isinstance(scalar, Call):
        return "error"
    if scalar.function == "cast":
        return "value out of range"
    if _divides_by_zero(scalar, context, row):
        return "division by zero"
    if scalar.type.is_numeric and all(arg.type.is_numeric for arg in scalar.args):
        return f"{scalar.type} out of range"
    return _said(scalar, context, row) or "invalid value"


PYTHONS: Final = re.compile(r"invalid literal|could not|Invalid |.*codec can't|math |.*out of range for ")
"""How messages of Python's own begin, which say nothing to users."""


def _said(call: Call, context: Context, row: Words) -> str | None:
    """What a function says itself of why it has no value, when it is called again."""
    how = implementation(call)
    if not isinstance(how, Memoized):
        return None
    found = attempt(how.build(call), *_values(call, context, row))
    said = str(found) if type(found) is ValueError else ""
    return None if not said or PYTHONS.match(said) else said


def _values(call: Call, context: Context, row: Words) -> list[Any]:
    """The arguments of a call."""
    words = [_evaluate(arg, context, row) for arg in call.args]
    return [value_of(word, arg.type, context.dictionary) for word, arg in zip(words, call.args, strict=True)]


def _divides_by_zero(call: Call, context: Context, row: Words) -> bool:
    if call.function not in ("div", "mod"):
        return False
    type_, word = call.args[1].type, _evaluate(call.args[1], context, row)
    if type_.kind is Kind.NUMERIC and word >= 0:
        return not value_of(word, type_, context.dictionary)
    return word == 0


def _hint(scalar: Scalar, context: Context, row: Words) -> str | None:
    if not isinstance(scalar, Call):
        return None
    if _divides_by_zero(scalar, context, row):
        return "guard the divisor with NULLIF or CASE"
    return _wider(scalar.type, "an operand") if INFIX.get(scalar.function) in ("+", "-", "*", "/") else None


def _wider(type_: Type, operand: str) -> str | None:
    """What to do about a result that is too large for a type of numbers."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER:
            return f"cast {operand} to BIGINT"
        case Kind.BIGINT:
            return f"cast {operand} to DOUBLE"
        case Kind.DECIMAL:
            return f"cast {operand} to DOUBLE, or to a DECIMAL of smaller scale"
        case Kind.REAL | Kind.DOUBLE:
            return f"scale {operand} down: a DOUBLE is at most 1.8e308"
        case _:
            return None


def sum_overflow(aggregate: Aggregate) -> DataError:
    """The error of a sum, or of sums of products, that its type cannot hold."""
    name = aggregate.description or f"sum of column {aggregate.argument}"
    pairs = aggregate_named(aggregate.function).accumulator is AccumulatorKind.COMOMENT
    type_ = DOUBLE if pairs else sum_type(aggregate.type)

    made = DataError(f"{name} overflows {type_}", hint=_wider(type_, "what is summed"))
    made.short, made.narrow = out_of_range(type_), type_.kind is Kind.DECIMAL
    return made


class CompiledMfp:
    """An ``Mfp`` ready to run; with ``later``, it is made ready when it is first run."""

    __slots__ = ("_context", "_first", "_last", "_leading", "_mfp", "_selected", "_simple")

    def __init__(self, mfp: Mfp, context: Context, *, later: bool = False) -> None:
        self._mfp = mfp
        self._context = context
        self._selected: Words | None = None
        self._first: Segment | None = None
        self._last: Segment | None = None
        self._simple = False
        plain = [output.index for output in mfp.outputs if isinstance(output, Column)]
        self._leading = plain == list(range(len(plain)))
        if not mfp.predicates and len(plain) == len(mfp.outputs):
            self._selected = np.array(plain, dtype=np.int64)
        elif not later:
            self._compile()

    def _compile(self) -> Segment:
        context, outputs = self._context, self._mfp.outputs
        predicates = [part for predicate in self._mfp.predicates for part in conjuncts(predicate)]
        self._last = Segment(Sources(context), predicates, outputs)
        self._simple = not self._last.detached
        if self._simple:
            return self._last
        late = [part for part in predicates if Segment(Sources(context), (part,), ()).detached]
        early = [part for part in predicates if part not in late]
        if not early:
            return self._last
        needed = sorted(frozenset().union(*map(columns, (*late, *outputs))))
        types = {node.index: node for scalar in (*late, *outputs) for node in _columns(scalar)}
        place = {column: position for position, column in enumerate(needed)}
        self._first = Segment(Sources(context), early, [types[column] for column in needed])
        rest, results = ([remap(s, place.__getitem__) for s in part] for part in (late, outputs))
        self._last = Segment(Sources(context), rest, results)
        return self._last

    @property
    def source(self) -> Mfp:
        """What it runs."""
        return self._mfp

    def another(self, mfp: Mfp) -> "CompiledMfp":
        """Another one that reads the same tables and strings."""
        return CompiledMfp(mfp, self._context)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The input columns that it reads, ascending."""
        scalars = (*self._mfp.predicates, *self._mfp.outputs)
        return tuple(sorted(frozenset().union(*map(columns, scalars))))

    @property
    def simple(self) -> bool:
        """Whether it selects columns, or runs on the machine at once."""
        if self._selected is None and self._last is None:
            self._compile()
        return self._selected is not None or self._simple

    @property
    def selected(self) -> Words | None:
        """The columns that it selects, if that is all it does."""
        return self._selected

    @property
    def machine(self) -> Machine | None:
        """What runs all of it at once, if it can be run so."""
        if self._selected is not None:
            return None
        last = self._last or self._compile()
        return last.machine if self._simple else None

    def run(self, data: Words) -> tuple[Words, Words | None]:
        """Maps, filters and projects rows ``data int64[w, n]``.

        Returns the outputs ``int64[m, k]`` and the ascending positions of the k rows that passed, None
        if all did. Raises DataError when an operation that counts fails.
        """
        if self._selected is not None:
            return self._select(data, self._selected), None
        total = data.shape[1]
        if total == 0:
            return np.empty((len(self._mfp.outputs), 0), dtype=np.int64), None
        last = self._last or self._compile()
        if self._simple:
            out, kept, flags = last.machine.run(data)
        else:
            out, kept, flags = self._run_in_two(data, last)
        if flags:
            self._check(data, out, kept)
        return out, None if out.shape[1] == total else kept

    def _select(self, data: Words, selected: Words) -> Words:
        if self._leading and selected.shape[0] == data.shape[0]:
            return data
        return data[selected]

    def _run_in_two(self, data: Words, last: Segment) -> tuple[Words, Words, int]:
        if self._first is None:
            return last.run(data)
        needed, first_kept, first_flags = self._first.run(data)
        if needed.shape[1] == 0:
            return np.empty((len(self._mfp.outputs), 0), dtype=np.int64), first_kept, 0
        out, kept, flags = last.run(needed)
        return out, first_kept[kept] if len(kept) else first_kept[: out.shape[1]], first_flags | flags

    def _check(self, data: Words, out: Words, kept: Words) -> None:
        """Raises the error of the first row that passed and has one, if there is such a row."""
        passed = data[:, kept] if self._mfp.predicates else data
        checks = Segment(Sources(self._context), (), self._mfp.predicates)
        verdicts, _, _ = checks.run(np.ascontiguousarray(passed))
        failed = (verdicts == ERROR).any(axis=0) | (out == ERROR).any(axis=0)
        for position in np.flatnonzero(failed)[:1]:
            row = np.ascontiguousarray(passed[:, position : position + 1])
            raise failure(self._mfp, self._context, row)


def _columns(scalar: Scalar) -> list[Column]:
    return [node for node in walk(scalar) if isinstance(node, Column)]


OF_ANGLES: Final = frozenset(
    (
        *("asin", "acos", "asind", "acosd", "atanh", "acosh"),
        *("sin", "cos", "tan", "cot", "sind", "cosd", "tand", "cotd"),
    )
)
"""Functions of angles, and those that give them."""


def reason(function: str, type_: Type, values: Sequence[Any]) -> str:
    """What is wrong with the operands of a function of numbers that has no value for them."""
    try:
        found = SPECIAL[function](values) if function in SPECIAL else None
    except (ArithmeticError, TypeError, ValueError):
        found = None
    if found is not None:
        return found
    if function in OF_ANGLES:
        return "input is out of range"
    return out_of_range(type_)


def out_of_range(type_: Type) -> str:
    """A number is beyond its type."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return f"{type_.kind.value.lower()} out of range"
        case Kind.REAL | Kind.DOUBLE:
            return "value out of range: overflow"
        case Kind.NUMERIC | Kind.DECIMAL:
            return "value overflows numeric format"
        case _:
            return "value out of range"


def _logarithm(values: Sequence[Any]) -> str | None:
    if any(value < 0 for value in values):
        return "cannot take logarithm of a negative number"
    if any(value == 0 for value in values):
        return "cannot take logarithm of zero"
    return "division by zero" if len(values) > 1 else None


def _power(values: Sequence[Any]) -> str | None:
    base, exponent = values
    if base == 0 and exponent < 0:
        return "zero raised to a negative power is undefined"
    if base < 0 and (math.isinf(exponent) or exponent != int(exponent)):
        return "a negative number raised to a non-integer power yields a complex result"
    return None


def _bucket(values: Sequence[Any]) -> str | None:
    operand, low, high, count = values
    if count <= 0:
        return "count must be greater than zero"
    if any(value != value for value in (operand, low, high)):
        return "operand, lower bound, and upper bound cannot be NaN"
    if math.isinf(low) or math.isinf(high):
        return "lower and upper bounds must be finite"
    return "lower bound cannot equal upper bound" if low == high else None


SPECIAL: Final[dict[str, Callable[[Sequence[Any]], str | None]]] = {
    "sqrt": lambda values: "cannot take square root of a negative number" if values[0] < 0 else None,
    "ln": _logarithm,
    "log": _logarithm,
    "log10": _logarithm,
    "power": _power,
    "factorial": lambda values: "factorial of a negative number is undefined" if values[0] < 0 else None,
    "width_bucket": _bucket,
}
