"""Which operation failed, on which values: the slow path that turns an ERROR into a message."""

import re
from typing import Any, Final

import numpy as np

from kpg.runtime.convert.values import show
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import AccumulatorKind, aggregate_named, sum_type
from kpg.runtime.functions.named import Named, shown
from kpg.runtime.functions.registry import Memoized, implementation
from kpg.runtime.functions.sql_text import sql_text
from kpg.runtime.mfp.lower import Sources
from kpg.runtime.mfp.memo import Context, attempt, value_of
from kpg.runtime.mfp.segment import Segment
from kpg.runtime.plan import Aggregate, Mfp
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, children, transform, with_children
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
        from kpg.runtime.mfp.reasons import reason

        made.short = _said(scalar, context, row) or reason(scalar.function, scalar.type, values)
    return made


def _of_cast(call: Call, context: Context, row: Words) -> DataError | None:
    """The error of a text that means no value, or of a number out of range, in Postgres' words."""
    from kpg.runtime.values import complaints

    source, target = call.args[0].type, call.type
    found = None
    if source.is_text:
        text = value_of(_evaluate(call.args[0], context, row), source, context.dictionary)
        found = complaints.complaint(text, target)
    elif source.is_numeric and target.is_integer:
        found = complaints.Complaint(f"{complaints.spelled(target)} out of range", complaints.RANGE)
    elif source.is_numeric and target.is_numeric and target.precision:
        found = complaints.overflow(target)
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
    return _wider(scalar.type, "an operand") if scalar.function in ("add", "sub", "mul", "div") else None


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
    from kpg.runtime.mfp.reasons import out_of_range

    made = DataError(f"{name} overflows {type_}", hint=_wider(type_, "what is summed"))
    made.short, made.narrow = out_of_range(type_), type_.kind is Kind.DECIMAL
    return made
