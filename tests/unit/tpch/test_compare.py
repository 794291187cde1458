"""When two answers count as the same."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kpg.tpch.oracle import Order, find_difference, remove_limit

NO_ORDER = Order()


def table(*rows: tuple[Any, ...]) -> pa.Table:
    names = ["a", "b", "c"][: len(rows[0])]
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (table((1, "x"), (2, "y")), table((2, "y"), (1, "x"))),
        (table((None, "x")), table((None, "x"))),
        (table((1.0 + 1e-12,)), table((1.0,))),
        (table((0.0,)), table((0.0,))),
        (table((Decimal("0.3333"),)), table((1 / 3,))),
        (table((5,)), table((Decimal("5"),))),
        (table(("MED BOX",)), table(("MED BOX   ",))),
        (table((1.0, "b"), (1.0 + 1e-12, "a")), table((1.0, "a"), (1.0, "b"))),
    ],
)
def test_same(actual: pa.Table, expected: pa.Table) -> None:
    assert find_difference(actual, expected, NO_ORDER) is None


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (table((1, "x")), table((1, "y")), "got (1, 'x'), expected (1, 'y')"),
        (table((1,), (1,)), table((1,)), "2 rows instead of 1; unexpected (1)"),
        (table((1,)), table((1,), (2,)), "1 rows instead of 2; missing (2)"),
        (table((1, 2)), table((1,)), "2 columns instead of 1"),
        (table((1.0 + 1e-6,)), table((1.0,)), "got (1.000001), expected (1.0)"),
        (table((Decimal("0.3332"),)), table((1 / 3,)), f"got (0.3332), expected ({1 / 3})"),
        (table((Decimal("1.10"),)), table((Decimal("1.11"),)), "got (1.10), expected (1.11)"),
        (table((None,)), table((0.0,)), "got (NULL), expected (0.0)"),
    ],
)
def test_different(actual: pa.Table, expected: pa.Table, message: str) -> None:
    assert find_difference(actual, expected, NO_ORDER) == message


def test_rows_must_come_in_the_order_of_the_keys() -> None:
    order = Order(("a",))
    assert find_difference(table((1, "x"), (1, "y")), table((1, "y"), (1, "x")), order) is None
    found = find_difference(table((2, "y"), (1, "x")), table((1, "x"), (2, "y")), order)
    assert found == "out of order at row 1: got (2, 'y'), expected (1, 'x')"


def test_limit_may_choose_among_equals() -> None:
    order = Order(("a",), 2)
    expected = table((1, "x"), (2, "y"))
    everything = table((1, "x"), (2, "y"), (2, "z"))
    assert find_difference(table((1, "x"), (2, "z")), expected, order, lambda: everything) is None
    found = find_difference(table((1, "x"), (2, "w")), expected, order, lambda: everything)
    assert found == "got (2, 'w'), expected (1, 'x')"


def test_limit_does_not_excuse_a_row_that_comes_twice() -> None:
    order = Order(("a",), 2)
    expected = table((1, "x"), (1, "y"))
    assert find_difference(table((1, "x"), (1, "x")), expected, order, lambda: expected) is not None


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("select a from t", Order()),
        ("select a from t order by a", Order(("a",))),
        ("select a, b from t\norder by\n    a desc,\n    B\nlimit 10", Order(("a", "b"), 10)),
        ("select (select b from u order by b limit 1) as a from t", Order()),
    ],
)
def test_order_of_a_query(text: str, order: Order) -> None:
    assert Order.of(text) == order


def test_without_limit() -> None:
    assert remove_limit("select a from t order by a\nlimit 20") == "select a from t order by a\n"
