"""Evaluation of map-filter-projects (MFPs), and the error messages of failed operations.

A row passes when every predicate is true. A predicate that is false or NULL rejects the row, even
if another one fails. An error raises DataError only for a row that no predicate rejects.
:func:`row_error` is the slow path, which finds the operation and the operands that failed.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from kpg.runtime.convert.python_values import show_word
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import AccumulatorKind, lookup_aggregate, sum_type
from kpg.runtime.functions.registry import MemoizedFunction, implementation
from kpg.runtime.mfp.bytecode import Machine, Segment, Sources, conjuncts
from kpg.runtime.mfp.python_calls import Context, call_or_error, value_of
from kpg.runtime.plan import Aggregate, Mfp
from kpg.runtime.scalar import (
    INFIX,
    Call,
    Column,
    Fetch,
    If,
    Literal,
    Scalar,
    UserFunctionName,
    children,
    columns,
    display_name,
    remap,
    sql_text,
    transform,
    walk,
    with_children,
)
from kpg.runtime.types import DOUBLE, ERROR, Kind, Type

Words = np.ndarray[Any, np.dtype[np.int64]]


def row_error(mfp: Mfp, context: Context, row: Words) -> DataError:
    """Return the error of a row ``int64[w, 1]``.

    It is that of the first failing predicate, or else of the first failing output.
    """
    for scalar in (*mfp.predicates, *mfp.outputs):
        if _evaluate(scalar, context, row) == ERROR:
            return _operation_error(_failing_operation(scalar, context, row), context, row)
    raise InternalError("an expression failed, but not when evaluated again")


def _evaluate(scalar: Scalar, context: Context, row: Words) -> int:
    out, _, _ = Segment(Sources(context), (), (scalar,)).run(row)
    return int(out[0, 0])


def _failing_operation(scalar: Scalar, context: Context, row: Words) -> Scalar:
    """Return the innermost failing operation on the taken branches."""
    if isinstance(scalar, If) and _evaluate(scalar.condition, context, row) != ERROR:
        branch = scalar.then if _evaluate(scalar.condition, context, row) == 1 else scalar.otherwise
        return _failing_operation(branch, context, row)
    for child in children(scalar):
        if _evaluate(child, context, row) == ERROR:
            return _failing_operation(child, context, row)
    return scalar


def _strip_casts(scalar: Scalar) -> Scalar:
    """Return the scalar without numeric casts, most of which the user did not write."""

    def strip(node: Scalar) -> Scalar:
        if isinstance(node, Call) and node.function == "cast" and node.type.is_numeric:
            (inner,) = node.args
            return inner if inner.type.is_numeric else node
        return node

    parts = tuple(transform(child, strip) for child in children(scalar))
    return with_children(scalar, parts)


def _operation_error(scalar: Scalar, context: Context, row: Words) -> DataError:
    """Return the error of an operation; it names columns of tables and shows the values of others."""

    def fetch_name(fetch: Fetch) -> str:
        schema = getattr(context.store(fetch.table), "schema", None)
        return f"{fetch.table}.#{fetch.column}" if schema is None else str(schema.names[fetch.column])

    def value(part: Scalar) -> str:
        return show_word(_evaluate(part, context, row), part.type, context.dictionary)

    plain = _strip_casts(scalar)
    if isinstance(plain, Call) and isinstance(plain.function, UserFunctionName):
        function_error = _user_function_error(plain, [value(part) for part in plain.args], context, row)
        function_error.operation = scalar
        return function_error
    if isinstance(plain, Call) and plain.function == "$unsigned":
        return _unsigned_error(scalar, sql_text(plain.args[0], value, fetch_name), value(plain.args[0]))
    if isinstance(scalar, Call) and scalar.function == "cast" and not scalar.stored:
        cast_error = _cast_error(scalar, context, row)
        if cast_error is not None:
            return cast_error
    if isinstance(plain, Call) and plain.stored:
        (part,) = plain.args
        message = f'value out of range for column "{plain.stored}" {plain.type}'
        prefix = "" if isinstance(part, Literal | Column) else f"{sql_text(part, value, fetch_name)} is "
        return DataError(f"{message}: {prefix}{value(part)}")
    operands = [child for child in children(plain) if not isinstance(child, Literal | Column)]
    values = [f"{sql_text(child, value, fetch_name)} is {value(child)}" for child in operands]
    where = sql_text(plain, value, fetch_name)
    detail = f" ({', '.join(values)})" if values else ""
    kind = _error_kind(scalar, context, row)
    error = DataError(f"{kind} in {where}{detail}", hint=_hint(scalar, context, row))
    error.operation, error.short = scalar, kind
    if isinstance(scalar, Call) and kind == f"{scalar.type} out of range":
        error.exceeds_decimal = scalar.type.kind is Kind.DECIMAL
        words = [_evaluate(arg, context, row) for arg in scalar.args]
        values = [
            value_of(w, arg.type, context.dictionary) for w, arg in zip(words, scalar.args, strict=True)
        ]

        error.short = _function_message(scalar, context, row) or domain_error_text(
            scalar.function, scalar.type, values
        )
    return error


def _cast_error(call: Call, context: Context, row: Words) -> DataError | None:
    """Return Postgres' error for invalid text or a number out of range; None for other casts."""
    from kpg.runtime.values import input_errors  # lazy: for errors alone

    source, target = call.args[0].type, call.type
    complaint = None
    if source.is_text:
        text = value_of(_evaluate(call.args[0], context, row), source, context.dictionary)
        complaint = input_errors.input_error(text, target)
    elif source.is_numeric and target.is_integer:
        complaint = input_errors.InputError(
            f"{input_errors.message_type_name(target)} out of range", input_errors.RANGE
        )
    elif source.is_numeric and target.is_numeric and target.precision:
        complaint = input_errors.overflow_error(target)
    if complaint is None:
        return None
    error = DataError(complaint.message)
    error.sqlstate, error.detail, error.operation = complaint.sqlstate, complaint.detail, call
    return error


def _unsigned_error(scalar: Scalar, where: str, shown_value: str) -> DataError:
    error = DataError(f"{where} is {shown_value}, which is no unsigned number")
    error.operation = scalar
    return error


def _user_function_error(call: Call, shown_args: list[str], context: Context, row: Words) -> DataError:
    """Return the error of a user's function, which is called again for its message."""
    where = f"{display_name(call.function)}({', '.join(shown_args)})"
    how = implementation(call)
    if isinstance(how, MemoizedFunction):
        words = [_evaluate(arg, context, row) for arg in call.args]
        values = [value_of(w, arg.type, context.dictionary) for w, arg in zip(words, call.args, strict=True)]
        result = call_or_error(how.build(call), *values)
        if isinstance(result, Exception):
            return DataError(f"{where} failed: {result}")
    return DataError(f"{where} failed, or returned no {call.type}")


def _error_kind(scalar: Scalar, context: Context, row: Words) -> str:
    if isinstance(scalar, Column | Fetch):
        return "failed operation"
    if not isinstance(scalar, Call):
        return "error"
    if scalar.function == "cast":
        return "value out of range"
    if _divides_by_zero(scalar, context, row):
        return "division by zero"
    is_row_count = scalar.function in ("$limit", "$offset")
    if scalar.type.is_numeric and all(arg.type.is_numeric for arg in scalar.args) and not is_row_count:
        return f"{scalar.type} out of range"
    return _function_message(scalar, context, row) or "invalid value"


PYTHON_MESSAGES: Final = re.compile(
    r"invalid literal|could not|Invalid |.*codec can't|math |.*out of range for "
)
"""Prefixes of Python's own messages, which do not help users."""


def _function_message(call: Call, context: Context, row: Words) -> str | None:
    """Return the message of a Python function, called again; None if it has none for users."""
    how = implementation(call)
    if not isinstance(how, MemoizedFunction):
        return None
    result = call_or_error(how.build(call), *_argument_values(call, context, row))
    message = str(result) if type(result) is ValueError else ""
    return None if not message or PYTHON_MESSAGES.match(message) else message


def _argument_values(call: Call, context: Context, row: Words) -> list[Any]:
    """Return the arguments of a call."""
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
    return (
        _wider_type_hint(scalar.type, "an operand")
        if INFIX.get(scalar.function) in ("+", "-", "*", "/")
        else None
    )


def _wider_type_hint(type_: Type, operand: str) -> str | None:
    """Return a hint for a result that is too large for a numeric type."""
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
    """Return the error of a sum, or of sums of products, that does not fit its type."""
    name = aggregate.description or f"sum of column {aggregate.argument}"
    pairs = lookup_aggregate(aggregate.function).accumulator is AccumulatorKind.COMOMENT
    type_ = DOUBLE if pairs else sum_type(aggregate.type)

    error = DataError(f"{name} overflows {type_}", hint=_wider_type_hint(type_, "what is summed"))
    error.short, error.exceeds_decimal = out_of_range_text(type_), type_.kind is Kind.DECIMAL
    return error


class CompiledMfp:
    """``Mfp`` ready to run; with ``lazy`` it is compiled at its first run."""

    __slots__ = ("_columns", "_context", "_first", "_is_simple", "_keeps_columns", "_last", "_mfp")

    def __init__(self, mfp: Mfp, context: Context, *, lazy: bool = False) -> None:
        self._mfp = mfp
        self._context = context
        self._columns: Words | None = None
        self._first: Segment | None = None
        self._last: Segment | None = None
        self._is_simple = False
        plain = [output.index for output in mfp.outputs if isinstance(output, Column)]
        self._keeps_columns = plain == list(range(len(plain)))
        if not mfp.predicates and len(plain) == len(mfp.outputs):
            self._columns = np.array(plain, dtype=np.int64)
        elif not lazy:
            self._compile()

    def _compile(self) -> Segment:
        context, outputs = self._context, self._mfp.outputs
        predicates = [part for predicate in self._mfp.predicates for part in conjuncts(predicate)]
        self._last = Segment(Sources(context), predicates, outputs)
        self._is_simple = not self._last.has_precomputed
        if self._is_simple:
            return self._last
        later_predicates = [
            part for part in predicates if Segment(Sources(context), (part,), ()).has_precomputed
        ]
        first_predicates = [part for part in predicates if part not in later_predicates]
        if not first_predicates:
            return self._last
        later_columns = sorted(frozenset().union(*map(columns, (*later_predicates, *outputs))))
        types = {
            node.index: node for scalar in (*later_predicates, *outputs) for node in _column_nodes(scalar)
        }
        place = {column: position for position, column in enumerate(later_columns)}
        self._first = Segment(Sources(context), first_predicates, [types[column] for column in later_columns])
        rest, results = ([remap(s, place.__getitem__) for s in part] for part in (later_predicates, outputs))
        self._last = Segment(Sources(context), rest, results)
        return self._last

    @property
    def source(self) -> Mfp:
        """The plan's mfp."""
        return self._mfp

    def compile_other(self, mfp: Mfp) -> "CompiledMfp":
        """Return another mfp, compiled for the same tables and strings."""
        return CompiledMfp(mfp, self._context)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Input columns that it reads, ascending."""
        scalars = (*self._mfp.predicates, *self._mfp.outputs)
        return tuple(sorted(frozenset().union(*map(columns, scalars))))

    @property
    def is_simple(self) -> bool:
        """Whether it only selects columns or runs on the machine in one go."""
        if self._columns is None and self._last is None:
            self._compile()
        return self._columns is not None or self._is_simple

    @property
    def projected_columns(self) -> Words | None:
        """Columns that it selects, if it does nothing else; else None."""
        return self._columns

    @property
    def machine(self) -> Machine | None:
        """Machine that evaluates everything in one go, if there is one."""
        if self._columns is not None:
            return None
        last = self._last or self._compile()
        return last.machine if self._is_simple else None

    def run(self, data: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows ``data int64[w, n]``.

        Returns the outputs ``int64[m, k]`` and the ascending positions of the k rows that pass, None for
        all.

        Raises:
            DataError: If an operation fails in a row that no predicate rejects.
        """
        if self._columns is not None:
            return self._project(data, self._columns), None
        total = data.shape[1]
        if total == 0:
            return np.empty((len(self._mfp.outputs), 0), dtype=np.int64), None
        last = self._last or self._compile()
        if self._is_simple:
            out, positions, flags = last.machine.run(data)
        else:
            out, positions, flags = self._run_both_segments(data, last)
        if flags:
            self._raise_first_error(data, out, positions)
        return out, None if out.shape[1] == total else positions

    def _project(self, data: Words, projected: Words) -> Words:
        if self._keeps_columns and projected.shape[0] == data.shape[0]:
            return data
        return data[projected]

    def _run_both_segments(self, data: Words, last: Segment) -> tuple[Words, Words, int]:
        if self._first is None:
            return last.run(data)
        intermediate, first_positions, first_flags = self._first.run(data)
        if intermediate.shape[1] == 0:
            return np.empty((len(self._mfp.outputs), 0), dtype=np.int64), first_positions, 0
        out, positions, flags = last.run(intermediate)
        return (
            out,
            first_positions[positions] if len(positions) else first_positions[: out.shape[1]],
            first_flags | flags,
        )

    def _raise_first_error(self, data: Words, out: Words, positions: Words) -> None:
        """Raise the error of the first row that passes and has one, if any."""
        passed = data[:, positions] if self._mfp.predicates else data
        checks = Segment(Sources(self._context), (), self._mfp.predicates)
        verdicts, _, _ = checks.run(np.ascontiguousarray(passed))
        has_error = (verdicts == ERROR).any(axis=0) | (out == ERROR).any(axis=0)
        for position in np.flatnonzero(has_error)[:1]:
            row = np.ascontiguousarray(passed[:, position : position + 1])
            raise row_error(self._mfp, self._context, row)


def _column_nodes(scalar: Scalar) -> list[Column]:
    return [node for node in walk(scalar) if isinstance(node, Column)]


ANGLE_FUNCTIONS: Final = frozenset(
    (
        *("asin", "acos", "asind", "acosd", "atanh", "acosh"),
        *("sin", "cos", "tan", "cot", "sind", "cosd", "tand", "cotd"),
    )
)
"""Trigonometric functions and their inverses."""


def domain_error_text(function: str, type_: Type, values: Sequence[Any]) -> str:
    """Return Postgres' message for operands without a value of a numeric function."""
    try:
        text = DOMAIN_ERRORS[function](values) if function in DOMAIN_ERRORS else None
    except (ArithmeticError, TypeError, ValueError):
        text = None
    if text is not None:
        return text
    if function in ANGLE_FUNCTIONS:
        return "input is out of range"
    return out_of_range_text(type_)


def out_of_range_text(type_: Type) -> str:
    """Return Postgres' message for a number that exceeds its type."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return f"{type_.kind.value.lower()} out of range"
        case Kind.REAL | Kind.DOUBLE:
            return "value out of range: overflow"
        case Kind.NUMERIC | Kind.DECIMAL:
            return "value overflows numeric format"
        case _:
            return "value out of range"


def _logarithm_error(values: Sequence[Any]) -> str | None:
    if any(value < 0 for value in values):
        return "cannot take logarithm of a negative number"
    if any(value == 0 for value in values):
        return "cannot take logarithm of zero"
    return "division by zero" if len(values) > 1 else None


def _power_error(values: Sequence[Any]) -> str | None:
    base, exponent = values
    if base == 0 and exponent < 0:
        return "zero raised to a negative power is undefined"
    if base < 0 and (math.isinf(exponent) or exponent != int(exponent)):
        return "a negative number raised to a non-integer power yields a complex result"
    return None


def _bucket_error(values: Sequence[Any]) -> str | None:
    operand, low, high, count = values
    if count <= 0:
        return "count must be greater than zero"
    if any(value != value for value in (operand, low, high)):
        return "operand, lower bound, and upper bound cannot be NaN"
    if math.isinf(low) or math.isinf(high):
        return "lower and upper bounds must be finite"
    return "lower bound cannot equal upper bound" if low == high else None


DOMAIN_ERRORS: Final[dict[str, Callable[[Sequence[Any]], str | None]]] = {
    "sqrt": lambda values: "cannot take square root of a negative number" if values[0] < 0 else None,
    "ln": _logarithm_error,
    "log": _logarithm_error,
    "log10": _logarithm_error,
    "power": _power_error,
    "factorial": lambda values: "factorial of a negative number is undefined" if values[0] < 0 else None,
    "width_bucket": _bucket_error,
}
