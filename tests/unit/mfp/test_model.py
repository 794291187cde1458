"""Random expressions: compiled ones against the slow model, value by value and error by error."""

import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.convert.python_values import encode_rows, to_python
from kpg.runtime.errors import DataError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    ColumnDef,
    Schema,
    Type,
    decimal,
    float_to_word,
)
from tests.model.exact import CONTEXT
from tests.model.scalar import ScalarError, evaluate, passes
from tests.unit.functions.expressions import Engine, call, coerce

MONEY = decimal(12, 2)
TYPES = (INTEGER, BIGINT, MONEY, DOUBLE, BOOLEAN, DATE, TEXT)
SCHEMA = Schema(tuple(ColumnDef(f"c{i}", type_) for i, type_ in enumerate((*TYPES, *TYPES))))
STRINGS = ["", "a", "ab", "b%", "é", "12", "-3.5", "PROMO"]
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INTEGER: st.sampled_from([0, 1, -1, 2, 7, -13, 2**31 - 1, -(2**31)]) | st.integers(-100, 100),
    BIGINT: st.sampled_from([0, 1, -1, 3, 2**63 - 1, -(2**63) + 2, 10**17]) | st.integers(-100, 100),
    MONEY: st.sampled_from([Decimal("9999999999.99"), Decimal("-0.05"), Decimal("0.00"), Decimal("2.50")])
    | st.integers(-5000, 5000).map(lambda cents: Decimal(cents).scaleb(-2)),
    DOUBLE: st.sampled_from([0.0, 1.5, -2.0, 1e308, -1e308, 0.1, 3e9]),
    BOOLEAN: st.booleans(),
    DATE: st.dates(datetime.date(1992, 1, 1), datetime.date(2001, 1, 1)),
    TEXT: st.sampled_from(STRINGS),
}
ROWS = st.lists(
    st.tuples(*(st.none() | VALUES[column.type] for column in SCHEMA.columns)), min_size=1, max_size=4
)


def literal(type_: Type) -> st.SearchStrategy[Scalar]:
    def make(value: Any) -> Scalar:
        if value is None or type_ in (INTEGER, BIGINT, TEXT):
            return Literal(value, type_)
        if type_ == DOUBLE:
            return Literal(float_to_word(value), type_)
        if type_ == DATE:
            return Literal((value - datetime.date(1970, 1, 1)).days, type_)
        return Literal(int(value.scaleb(2)) if type_ == MONEY else int(value), type_)

    return (st.none() | VALUES[type_]).map(make)


def column(type_: Type) -> st.SearchStrategy[Scalar]:
    places = [i for i, column in enumerate(SCHEMA.columns) if column.type == type_]
    return st.sampled_from(places).map(lambda i: Column(i, type_))


@st.composite
def scalars(draw: st.DrawFn, type_: Type, depth: int = 3) -> Scalar:
    """A random scalar of a type."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(column(type_) | literal(type_))

    def sub(other: Type = type_) -> Scalar:
        return draw(scalars(other, depth - 1))

    choice = draw(st.sampled_from(["if", "choose", *OPERATIONS[type_]]))
    if choice == "if":
        return If(sub(BOOLEAN), sub(), sub(), type_)
    if choice == "choose":
        name = draw(st.sampled_from(["coalesce", "nullif", "greatest", "least"]))
        return call(name, sub(), sub())
    return operation(draw, choice, type_, sub)


ARITHMETIC = ["add", "sub", "mul", "mod", "neg", "abs"]
OPERATIONS = {
    INTEGER: [
        *ARITHMETIC,
        "div",
        "length",
        "field",
        "from_text",
        "from_bool",
        "from_money",
        "days",
        "narrow",
    ],
    BIGINT: [*ARITHMETIC, "div", "widen"],
    MONEY: ["add", "sub", "neg", "abs", "times", "from_text", "from_double", "widen"],
    DOUBLE: ["add", "sub", "mul", "div", "neg", "abs", "ratio"],
    BOOLEAN: ["compare", "and", "or", "not", "is_null", "is_true", "in", "like", "is_distinct"],
    DATE: ["plus_days"],
    TEXT: ["upper", "concat", "substring", "show"],
}


def operation(draw: st.DrawFn, choice: str, type_: Type, sub: Any) -> Scalar:
    fields = ["year", "month", "day", "doy", "week", "dow"]
    match choice:
        case "length":
            return call("length", sub(TEXT))
        case "field":
            return call(f"extract_{draw(st.sampled_from(fields))}", sub(DATE))
        case "from_text":
            return coerce(sub(TEXT), type_)
        case "from_bool":
            return coerce(sub(BOOLEAN), type_)
        case "from_money":
            return coerce(sub(MONEY), type_)
        case "from_double":
            return coerce(sub(DOUBLE), type_)
        case "narrow":
            return coerce(sub(BIGINT), type_)
        case "widen":
            return coerce(sub(INTEGER), type_)
        case "days":
            return call("sub", sub(DATE), sub(DATE))
        case "plus_days":
            return call(
                draw(st.sampled_from(["add", "sub"])), sub(), Literal(draw(st.integers(0, 60)), INTEGER)
            )
        case "times":
            return coerce(call("mul", sub(), sub()), type_)
        case "ratio":
            return coerce(call("div", draw(column(MONEY)), draw(column(INTEGER))), type_)
        case "compare":
            other = draw(st.sampled_from(TYPES))
            return call(draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])), sub(other), sub(other))
        case "is_null" | "is_distinct":
            other = draw(st.sampled_from(TYPES))
            return call(choice, sub(other), *([sub(other)] if choice == "is_distinct" else []))
        case "in":
            other = draw(st.sampled_from([INTEGER, MONEY, TEXT]))
            return call("in", sub(other), *draw(st.lists(literal(other), min_size=1, max_size=4)))
        case "like":
            return call(
                "like", sub(TEXT), Literal(draw(st.sampled_from(["%", "a%", "_", "%b_", "%O%"])), TEXT)
            )
        case "substring":
            bounds = draw(st.tuples(st.integers(-1, 3), st.integers(0, 3)))
            return call("substring", sub(), *(Literal(bound, INTEGER) for bound in bounds))
        case "show":
            return coerce(sub(draw(st.sampled_from([INTEGER, MONEY, BOOLEAN, DATE]))), TEXT)
        case "upper" | "not" | "is_true" | "neg" | "abs":
            return call(choice, sub())
        case _:
            return coerce(call(choice, sub(), sub()), type_)


def expected(mfp: Mfp, row: Any) -> Any:
    """The output row of the model, None if the row is rejected, or the ScalarError."""
    try:
        if not passes(mfp.predicates, row):
            return None
        return tuple(evaluate(output, row) for output in mfp.outputs)
    except ScalarError as error:
        return error


def decoded(words: Any, mfp: Mfp, engine: Engine) -> list[tuple[Any, ...]]:
    return [
        tuple(
            to_python(int(word), output.type, engine.dictionary)
            for word, output in zip(row, mfp.outputs, strict=True)
        )
        for row in words.T
    ]


def rounded(wanted: list[tuple[Any, ...]], found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The model's rows, whose quotients have more digits, with as many behind the point as were found."""
    if len(wanted) != len(found):
        return wanted
    pairs = (zip(row, there, strict=True) for row, there in zip(wanted, found, strict=True))
    return [tuple(as_long(one, other) for one, other in pair) for pair in pairs]


def as_long(value: Any, other: Any) -> Any:
    """A decimal with as many digits behind the point as another has."""
    if isinstance(value, Decimal) and isinstance(other, Decimal):
        return value.quantize(other, ROUND_HALF_UP, CONTEXT)
    return value


@pytest.mark.slow
@settings(max_examples=250)
@given(
    rows=ROWS,
    predicates=st.lists(scalars(BOOLEAN), max_size=2),
    outputs=st.lists(st.sampled_from(TYPES).flatmap(scalars), min_size=1, max_size=2),
)
def test_programs_agree_with_the_model(rows: Any, predicates: list[Scalar], outputs: list[Scalar]) -> None:
    engine = Engine()
    mfp = Mfp(tuple(predicates), tuple(outputs))
    compiled = CompiledMfp(mfp, engine)
    data = encode_rows(rows, SCHEMA, engine.dictionary)
    wanted = [expected(mfp, row) for row in rows]
    for position, want in enumerate(wanted):
        alone = np.ascontiguousarray(data[:, position : position + 1])
        if isinstance(want, ScalarError):
            with pytest.raises(DataError):
                compiled.run(alone)
        else:
            out, kept = compiled.run(alone)
            found = decoded(out, mfp, engine)
            assert found == rounded([] if want is None else [want], found)
            assert (kept is None) == (want is not None)
    if any(isinstance(want, ScalarError) for want in wanted):
        with pytest.raises(DataError):
            compiled.run(data)
        return
    out, kept = compiled.run(data)
    passed = [position for position, want in enumerate(wanted) if want is not None]
    found = decoded(out, mfp, engine)
    assert found == rounded([wanted[position] for position in passed], found)
    assert (list(range(len(rows))) if kept is None else kept.tolist()) == passed


def test_a_call_is_what_the_registry_resolves() -> None:
    assert call("add", Column(0, INTEGER), Literal(1, INTEGER)) == Call(
        "add", (Column(0, INTEGER), Literal(1, INTEGER)), INTEGER
    )
