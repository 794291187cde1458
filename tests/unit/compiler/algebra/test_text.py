"""The text of relations: what it looks like, and that it reads back as what was written."""

import pytest

from kpg.compiler.algebra.rel import (
    AggregateCall,
    Constant,
    Distinct,
    Expand,
    Filter,
    Get,
    Join,
    Let,
    LetRec,
    LocalGet,
    Map,
    OrderBy,
    Project,
    Reduce,
    Rel,
    RowCall,
    Single,
    Threshold,
    TopK,
    Union,
)
from kpg.compiler.algebra.text import parse, rel_text, relations
from kpg.runtime.errors import InternalError
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    ROWID,
    TEXT,
    TIMESTAMP,
    decimal,
    float_to_word,
)

T = Get("t", (INTEGER, TEXT, ROWID), (False, True, False), ((2,),))
A = Column(0, INTEGER)
LITERALS = (
    Literal(5, INTEGER),
    Literal(5, BIGINT),
    Literal(-5, INTEGER),
    Literal("it's, [a] #1", TEXT),
    Literal(1, BOOLEAN),
    Literal(150, decimal(15, 2)),
    Literal(-1, decimal(18, 12)),
    Literal(8766, DATE),
    Literal(86_400_000_000, TIMESTAMP),
    Literal(3, INTERVAL_DAY),
    Literal(None, TEXT),
    Literal(float_to_word(-1.5e-7), DOUBLE),
    Literal(float_to_word(float("inf")), DOUBLE),
)
SAMPLES: tuple[Rel, ...] = (
    Map(T, LITERALS),
    Filter(T, (Call("and", (Call("lt", (A, A), BOOLEAN), Call("is_null", (A,), BOOLEAN)), BOOLEAN),)),
    Map(T, (Call("cast", (A,), DOUBLE), Call("add", (A, A), BIGINT), If(Literal(1, BOOLEAN), A, A, INTEGER))),
    Map(T, (Fetch("t", 1, Column(2, ROWID), TEXT), Column(0, BIGINT))),
    Constant(((1, "a", None), (None, "b", 0)), (INTEGER, TEXT, BOOLEAN)),
    Constant((), (DATE,)),
    Reduce(T, (A,), (AggregateCall("count", (), False, BIGINT), AggregateCall("sum", (A,), True, BIGINT))),
    Reduce(T, (), (AggregateCall("string_agg", (Column(1, TEXT), Literal(",", TEXT)), False, TEXT),)),
    TopK(Project(T, (1, 0)), (0,), (OrderBy(1, True, False), OrderBy(0, False, True)), None, 5),
    Single(Distinct(Threshold(T)), (0, 1)),
    Expand(
        T, (RowCall("f", (A, Literal(1, INTEGER)), (INTEGER, TEXT), False), RowCall("g", (), (DATE,))), True
    ),
    Expand(T, (RowCall("f", (A,), (INTEGER,)),), outer=True),
    Let("x", T, Join((LocalGet("x", T.types), T), (Call("eq", (A, Column(3, INTEGER)), BOOLEAN),))),
    LetRec(("p", "q"), (T, LocalGet("p", T.types)), (T.types, T.types), 10, LocalGet("q", T.types)),
    LetRec(("p",), (T,), (T.types,), 10, LocalGet("p", T.types), error_at_limit=True),
    LetRec(("p",), (T,), (T.types,), None, LocalGet("p", T.types)),
    Union((T, Union(()))),
)


@pytest.mark.parametrize("rel", SAMPLES)
def test_round_trip(rel: Rel) -> None:
    assert parse(rel_text(rel), relations(rel)) == rel


def test_one_operator_a_line() -> None:
    rel = Filter(Map(T, (Call("add", (A, Literal(1, INTEGER)), INTEGER),)), (Literal(0, BOOLEAN),))
    assert rel_text(rel) == "Filter [false]\n  Map [add(#0, 1)]\n    Get t\n"


@pytest.mark.parametrize(
    "text", ["Nonsense\n", "Filter [eq(#0)]\n  Get t\n", "Get t\nGet t\n", "Get t extra\n"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InternalError):
        parse(text, {"t": T})
