"""Rows to rows: maps, filters and projections, symbolic and by functions of the user's."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

import kpg
from tests.unit.collections.watching import step, watch


@pytest.fixture
def sales(flow: kpg.Dataflow) -> kpg.Input:
    sales = flow.input("sales", item=str, n=int, price="DECIMAL(10, 2)", day=datetime.date)
    sales.insert("tea", 2, Decimal("2.50"), datetime.date(1998, 12, 1))
    sales.insert("jam", 3, "4.00", "1999-01-02")
    sales.update(("tea", 2, "2.50", datetime.date(1998, 12, 1)), 2)
    return sales


def test_map_names_its_columns(flow: kpg.Dataflow, sales: kpg.Input) -> None:
    total = sales.map(lambda row: {"item": row.item, "total": row.n * row.price, "big": row.n > 2})
    assert total.columns == ["item", "total", "big"]
    seen = watch(total)
    step(flow, sales)
    assert seen.at() == {("tea", Decimal("5.00"), False): 3, ("jam", Decimal("12.00"), True): 1}


def test_map_to_a_sequence_keeps_column_names(sales: kpg.Input) -> None:
    assert sales.map(lambda row: (row.n, row.n + 1, row["item"])).columns == ["n", "column2", "item"]
    assert sales.map(lambda row: row.n).columns == ["n"]
    assert sales.map(lambda row: row[1]).columns == ["n"]
    assert sales.map(lambda row: {"constant": 1}).types == [kpg.types.BIGINT]


def test_filter_and_operators(flow: kpg.Dataflow, sales: kpg.Input) -> None:
    tea = watch(sales.filter(lambda row: (row.item == "tea") & ~(row.n > 2) | (row.n % 5 == 4)))
    none = watch(sales.filter(lambda row: row.n / 2 - 1 < -abs(row.n)))
    some = watch(sales.filter(lambda row: row.item.is_in(["jam", "bread"])))
    old = watch(sales.filter(lambda row: row.day < datetime.date(1999, 1, 1)).project("item"))
    chosen = watch(sales.map(lambda row: kpg.case(row.n > 2, "many", kpg.function("upper", row.item))))
    step(flow, sales)
    assert [row[0] for row in tea.at()] == ["tea"]
    assert none.at() == {}
    assert [row[0] for row in some.at()] == ["jam"]
    assert old.at() == {("tea",): 3}
    assert chosen.at() == {("TEA",): 3, ("many",): 1}


def test_reflected_operators_and_casts(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    seen = watch(
        n.map(lambda r: (1 + r.n, 1 - r.n, 2 * r.n, 7 % r.n, 8 / r.n, -r.n, r.n.cast(str), True & (r.n > 0)))
    )
    n.insert(3)
    step(flow, n)
    assert seen.at() == {(4, -2, 6, 1, 2, -3, "3", True): 1}


def test_none_is_a_value_but_unknown_to_operators(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int | None)
    with_none = watch(n.map(lambda r: {"n": r.n, "more": r.n + 1, "none": r.n.is_null()}))
    equal = watch(n.filter(lambda r: r.n == None))  # noqa: E711
    known = watch(n.filter(lambda r: r.n.is_not_null()))
    n.insert([None, 1])
    step(flow, n)
    assert with_none.at() == {(None, None, True): 1, (1, 2, False): 1}
    assert equal.at() == {}
    assert known.at() == {(1,): 1}


def test_project_and_rename(flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    turned = edges.rename(src="dst", dst="src")
    assert turned.columns == ["dst", "src"]
    seen = watch(turned.project("src"))
    edges.insert(1, 2)
    step(flow, edges)
    assert seen.at() == {(2,): 1}


def test_an_expression_is_neither_true_nor_false(sales: kpg.Input) -> None:
    with pytest.raises(kpg.InterfaceError, match="neither true nor false"):
        sales.filter(lambda row: row.n > 1 and row.n < 3)
    with pytest.raises(kpg.ProgrammingError, match='no column "nn"'):
        sales.map(lambda row: row.nn)
    with pytest.raises(kpg.ProgrammingError, match="a condition is a BOOLEAN"):
        sales.filter(lambda row: row.n)
    with pytest.raises(kpg.ProgrammingError, match="does not take"):
        sales.map(lambda row: row.item + 1)
    with pytest.raises(kpg.ProgrammingError, match='two columns are called "n"'):
        sales.map(lambda row: (row.n, row.n))
    with pytest.raises(kpg.InterfaceError, match="no value of a column"):
        sales.map(lambda row: row.n + object())


def test_an_error_in_a_map_rolls_the_step_back(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    seen = watch(n.map(lambda r: 6 / r.n))
    n.insert([2, 0])
    n.advance_to(n.time + 1)
    with pytest.raises(kpg.DataError, match="division by zero"):
        flow.step()
    assert seen.at() == {}
    assert flow.epoch == 0
    n.update(0, -1, n.time)
    with pytest.raises(kpg.DataError, match="division by zero"):
        flow.step()
    assert n.discard() == 3
    n.insert(3)
    step(flow, n)
    assert seen.at() == {(2,): 1}


def test_map_columns(flow: kpg.Dataflow, sales: kpg.Input) -> None:
    def f(item, n, price, day):  # type: ignore[no-untyped-def]
        assert (item.dtype, n.dtype, price.dtype, day.dtype) == (object, np.int64, np.int64, "datetime64[D]")
        return np.array([text.upper() for text in item], object), n * price, day + 1, n / 2, n > 2

    types = {"item": str, "cents": int, "day": datetime.date, "half": float, "many": bool}
    seen = watch(sales.map_columns(f, **types))
    step(flow, sales)
    assert seen.at() == {
        ("TEA", 500, datetime.date(1998, 12, 2), 1.0, False): 3,
        ("JAM", 1200, datetime.date(1999, 1, 3), 1.5, True): 1,
    }


def test_floats_and_booleans_as_columns(flow: kpg.Dataflow) -> None:
    x = flow.input("x", x=float, b=bool)
    seen = watch(
        x.map_columns(lambda x, b: (-x, ~b), x=float, b=bool).filter_columns(lambda x, b: b | (x > 0))
    )
    x.insert([(1.5, True), (-2.0, True), (-0.0, False)])
    step(flow, x)
    assert seen.at() == {(2.0, False): 1, (0.0, True): 1}


def test_arrays_are_not_to_be_written_to(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)

    def f(n):  # type: ignore[no-untyped-def]
        n += 1
        return n

    watch(n.map_columns(f, n=int))
    n.insert(1)
    n.advance_to(n.time + 1)
    with pytest.raises(kpg.DataError, match="read-only"):
        flow.step()


def test_an_array_has_no_none(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int | None, s=str | None)
    watch(n.map_columns(lambda n, s: n, n=int))
    n.insert(None, None)
    n.advance_to(n.time + 1)
    with pytest.raises(kpg.DataError, match="column n has a NULL"):
        flow.step()


def test_map_rows_and_filter_rows(flow: kpg.Dataflow, sales: kpg.Input) -> None:
    rows = sales.map_rows(
        lambda item, n, price, day: (item[::-1], price * n, day.year), x=str, y="DECIMAL(18, 2)", z=int
    )
    seen, late = watch(rows), watch(rows.filter_rows(lambda x, y, z: z > 1998))
    one = watch(sales.map_rows(lambda item, *rest: len(item), length=int))
    step(flow, sales)
    assert seen.at() == {("aet", Decimal("5.00"), 1998): 3, ("maj", Decimal("12.00"), 1999): 1}
    assert late.at() == {("maj", Decimal("12.00"), 1999): 1}
    assert one.at() == {(3,): 4}


def test_flat_map_and_explode(flow: kpg.Dataflow) -> None:
    lines = flow.input("lines", text=str)
    words = watch(lines.flat_map(lambda text: text.split(), word=str))
    sizes = watch(lines.explode(lambda text: [((word,), len(word)) for word in text.split()], word=str))
    lines.insert(["a bb a", ""])
    step(flow, lines)
    assert words.at() == {("a",): 2, ("bb",): 1}
    assert sizes.at() == {("a",): 2, ("bb",): 2}
    lines.remove("a bb a")
    step(flow, lines)
    assert words.at() == sizes.at() == {}


@pytest.mark.parametrize(
    "kind", ["map_rows", "map_columns", "filter_rows", "filter_columns", "flat_map", "explode"]
)
def test_an_error_of_the_users_names_the_row_and_keeps_the_cause(flow: kpg.Dataflow, kind: str) -> None:
    n = flow.input("n", n=int)

    def fails(n):  # type: ignore[no-untyped-def]
        if np.any(n == 3):
            raise KeyError("three")
        return [] if kind in ("flat_map", "explode") else n == n

    seen = watch(getattr(n, kind)(fails, **({} if kind.startswith("filter") else {"b": bool})))
    total = watch(n.count())
    n.insert(list(range(10)))
    n.advance_to(n.time + 1)
    with pytest.raises(kpg.DataError, match=r"fails failed on row \(3,\): KeyError: 'three'") as caught:
        flow.step()
    assert isinstance(caught.value.__cause__, KeyError)
    assert seen.at() == total.at() == {}
    n.update(3, -1, n.time - 1) if n.time < 0 else n.discard()
    n.insert(4)
    step(flow, n)
    assert total.at() == {(4, 1): 1}


def test_a_row_that_came_and_went_may_fail(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    seen = watch(n.map_rows(lambda n: 6 // n, n=int))
    n.insert([0, 2])
    n.remove(0)
    step(flow, n)
    assert seen.at() == {(3,): 1}


def test_results_of_the_wrong_shape(flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    wrong = {
        r"gave a wrong row: row 1 has 1 values, expected 2": n.map_rows(lambda n: (n,), a=int, b=int),
        r"gave a wrong row: a row must be a tuple": n.map_rows(lambda n: n, a=int, b=int),
        r"value 'x' is a str, expected BIGINT": n.map_rows(lambda n: "x", a=int),
        r"1 arrays for the 2 columns a, b": n.map_columns(lambda n: (n,), a=int, b=int),
        r"has shape \(1,\), expected \(2,\)": n.map_columns(lambda n: n[:1], a=int),
        r"expected one bool a row": n.filter_columns(lambda n: n),
        r"must return \(row, multiplicity\) pairs": n.explode(lambda n: [n], a=int),
    }
    for message, collection in wrong.items():
        seen = watch(collection)
        n.insert([7, 8])
        n.advance_to(n.time + 1)
        with pytest.raises(kpg.DataError, match=message):
            flow.step()
        n.discard()
        seen.inspection.close()


def test_the_same_function_is_one_operator(db: kpg.Database, flow: kpg.Dataflow) -> None:
    n = flow.input("n", n=int)
    calls = []

    def f(n: int) -> int:
        calls.append(n)
        return n + 1

    first, second = watch(n.map_rows(f, m=int)), watch(n.map_rows(f, m=int))
    n.insert(1)
    step(flow, n)
    assert calls == [1]
    assert first.at() == second.at() == {(2,): 1}


def test_concat_matches_columns_by_name_and_widens_types(flow: kpg.Dataflow) -> None:
    a, b = flow.input("a", x="INTEGER", s="VARCHAR(3)"), flow.input("b", s=str, x=int)
    both = a.concat(b)
    assert (both.columns, both.types) == (["x", "s"], [kpg.types.BIGINT, kpg.types.TEXT])
    seen = watch(both)
    a.insert(1, "abc")
    b.insert("long", 2**40)
    step(flow, a, b)
    assert seen.at() == {(1, "abc"): 1, (2**40, "long"): 1}
    with pytest.raises(
        kpg.ProgrammingError, match=r"concat needs columns \(x INTEGER, s VARCHAR\(3\)\), not"
    ):
        a.concat(b.project("s"))
    with pytest.raises(kpg.ProgrammingError, match="concat needs columns"):
        a.concat(b.rename(x="s", s="x"))


def test_columns_may_be_called_as_parameters_are(flow: kpg.Dataflow) -> None:
    person = flow.input("person", name=str, f=int, self=int, rows=int)
    seen = watch(person.map_rows(lambda name, f, self, rows: (name, f + self + rows), name=str, f=int))
    person.rename(self="name", name="self").apply(kpg.Operator(), operator=int, name=str)
    person.insert("Ann", 1, 2, 3)
    step(flow, person)
    assert seen.at() == {("Ann", 6): 1}
