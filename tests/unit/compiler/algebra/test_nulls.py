"""Functions that give NULL of values, or values of NULL."""

from kpg.compiler.algebra.scalars import can_be_null, null_rejecting_columns, strict_columns
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Type, array

FIRST, SECOND = Column(0, INTEGER), Column(1, INTEGER)
NEITHER = (False, False)


def call(function: str, type_: Type, *args: Scalar) -> Call:
    return Call(function, args, type_)


def test_functions_of_values_that_may_give_null() -> None:
    row = call("$array", array(INTEGER), FIRST, SECOND)
    assert can_be_null(call("$element", INTEGER, row, FIRST), NEITHER)
    assert can_be_null(call("array_length", INTEGER, row, FIRST), NEITHER)
    text = Literal(1, TEXT)
    assert can_be_null(call("regexp_substr", TEXT, text, text), NEITHER)
    assert not can_be_null(call("add", INTEGER, FIRST, SECOND), NEITHER)
    assert can_be_null(call("add", INTEGER, FIRST, SECOND), (False, True))
    assert can_be_null(call("nullif", INTEGER, FIRST, SECOND), NEITHER)


def test_functions_of_null_that_give_values_reject_none() -> None:
    nothing = call("$array", array(INTEGER))
    appended = call("array_append", array(INTEGER), nothing, SECOND)
    assert strict_columns(appended) == frozenset()
    assert null_rejecting_columns(call("eq", BOOLEAN, appended, nothing)) == frozenset()
    assert strict_columns(call("add", INTEGER, FIRST, SECOND)) == {0, 1}
