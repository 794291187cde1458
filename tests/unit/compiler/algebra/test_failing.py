"""What may fail, and what has to be tested before it."""

import pytest

from kpg.compiler.algebra.scalars import guard_predicate, is_total, never_fails
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, columns
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, TEXT, decimal

A, B = Column(0, INTEGER), Column(1, INTEGER)
NAME = Column(2, TEXT)
TWO = Literal(2, INTEGER)
SUM = Call("add", (A, TWO), INTEGER)
RATIO = Call("div", (A, B), INTEGER)


@pytest.mark.parametrize(
    ("scalar", "total", "never"),
    [
        (A, True, True),
        (Call("eq", (A, TWO), BOOLEAN), True, True),
        (SUM, True, False),
        (Call("cast", (A,), BIGINT), True, True),
        (Call("cast", (A,), DOUBLE), True, True),
        (Call("cast", (A,), decimal(5, 2)), True, False),
        (Call("cast", (NAME,), INTEGER), False, False),
        (RATIO, False, False),
        (Call("div", (A, TWO), INTEGER), True, True),
        (Call("div", (A, Literal(0, INTEGER)), INTEGER), False, False),
        (Call("substring", (NAME, TWO, TWO), TEXT), True, True),
        (Call("substring", (NAME, TWO, A), TEXT), False, False),
        (If(Call("eq", (A, TWO), BOOLEAN), RATIO, A, INTEGER), False, False),
    ],
)
def test_what_may_fail(scalar: Scalar, total: bool, never: bool) -> None:
    assert (is_total(scalar), never_fails(scalar)) == (total, never)


def test_a_test_that_may_fail_comes_after_those_of_other_inputs() -> None:
    tests = (Call("eq", (A, B), BOOLEAN), Call("gt", (A, TWO), BOOLEAN))
    slow = Call("gt", (Call("div", (TWO, A), INTEGER), TWO), BOOLEAN)
    assert guard_predicate(slow, tests, columns) == If(tests[0], slow, Literal(0, BOOLEAN), BOOLEAN)
    assert guard_predicate(slow, tests[1:], columns) == slow
    assert guard_predicate(tests[0], tests, columns) == tests[0]
