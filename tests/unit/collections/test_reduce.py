"""Reduces by functions of the user's."""

from typing import Any

import numpy as np
import pytest

import kpg
from tests.unit.collections.watching import step, watch


def test_t33_not_called_for_a_group_without_rows(flow: kpg.Dataflow) -> None:
    a = flow.input("a", k=str, x=int)
    calls = []

    def f(key: tuple[str], rows: list[tuple[tuple[int], int]]) -> list[int]:
        calls.append((key, rows))
        return [sum(x * n for (x,), n in rows)]

    seen = watch(a.reduce(f, key="k", total=int))
    step(flow, a)
    a.insert([("p", 1), ("p", 1), ("p", 2), ("q", 5)])
    step(flow, a)
    assert calls == [(("p",), [((1,), 2), ((2,), 1)]), (("q",), [((5,), 1)])]
    calls.clear()
    a.update(("p", 1), -2)
    a.remove("p", 2)
    step(flow, a)
    assert (calls, seen.at()) == ([], {("q", 5): 1})


def test_t34_what_it_gave_before_is_retracted_whatever_it_would_give_now(flow: kpg.Dataflow) -> None:
    a = flow.input("a", k=int, x=int)
    counter = iter(range(100))
    seen = watch(a.reduce(lambda key, rows: [next(counter)], key="k", n=int))
    for x in range(4):
        a.insert(1, x)
        step(flow, a)
        assert seen.at() == {(1, x): 1}
    a.insert(2, 0)
    a.advance_to(a.time + 1)
    a.insert(2, 1)
    a.advance_to(a.time + 1)
    flow.step()
    assert seen.at() == {(1, 3): 1, (2, 5): 1}
    for x in range(4):
        a.remove(1, x)
    step(flow, a)
    assert seen.at() == {(2, 5): 1}


def test_t34_inside_a_loop(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    counter = iter(range(10_000))

    def body(c: kpg.Collection) -> kpg.Collection:
        marked = c.concat(a).distinct().reduce(lambda key, rows: [next(counter)], key="x", mark=int)
        return marked.project("x").map(lambda r: {"x": kpg.case(r.x < 4, r.x + 1, r.x)}).concat(a).distinct()

    seen = watch(a.iterate(body))
    a.insert([0, 2])
    step(flow, a)
    assert seen.at() == {(x,): 1 for x in range(5)}
    a.remove(0)
    step(flow, a)
    assert seen.at() == {(x,): 1 for x in (2, 3, 4)}


@pytest.mark.parametrize("where", ["reduce", "reduce_columns"])
def test_t35_negative_multiplicities_are_an_error(flow: kpg.Dataflow, where: str) -> None:
    a = flow.input("a", k=int, x=str)
    seen = watch(getattr(a, where)(lambda *given: [1], key="k", n=int))
    a.insert(1, "here")
    a.remove(1, "gone")
    a.advance_to(2)
    with pytest.raises(kpg.DataError, match=r"row \(1, 'gone'\) has multiplicity -1"):
        flow.step()
    a.insert(1, "gone")
    a.discard()
    a.insert(1, "here")
    step(flow, a)
    assert seen.at() == {(1, 1): 1}


def test_errors_name_the_group_and_roll_back(flow: kpg.Dataflow) -> None:
    a = flow.input("a", k=int, x=int)

    def f(key: tuple[int], rows: Any) -> list[Any]:
        return [{1: 10, 2: "two"}[key[0]]]

    seen, count = watch(a.reduce(f, key="k", n=int)), watch(a.count("k"))
    for row, message in (
        ((3, 0), r"f failed on the group \(3,\): KeyError: 3"),
        ((2, 0), r"f gave a wrong row for the group \(2,\): row 1, column n: value 'two' is a str"),
    ):
        a.insert([row, (1, 5)])
        a.advance_to(a.time + 1)
        with pytest.raises(kpg.DataError, match=message) as caught:
            flow.step()
        assert caught.value.__cause__ is not None
        assert a.discard() == 2
    assert seen.at() == count.at() == {}
    a.insert(1, 7)
    step(flow, a)
    assert (seen.at(), count.at()) == ({(1, 10): 1}, {(1, 1): 1})


def test_columns_and_text(flow: kpg.Dataflow) -> None:
    a = flow.input("a", k=str, x=float, s=str)

    def f(key: tuple[str], arrays: tuple[Any, Any], counts: Any) -> list[tuple[float, str]]:
        x, s = arrays
        return [(float(np.average(x, weights=counts)), key[0] + "".join(np.repeat(s, counts)))]

    seen = watch(a.reduce_columns(f, key=("k",), mean=float, text=str))
    a.insert([("p", 1.0, "a"), ("p", 4.0, "b"), ("p", 4.0, "b")])
    step(flow, a)
    assert seen.at() == {("p", 3.0, "pabb"): 1}


def test_more_rows_and_repeated_ones(flow: kpg.Dataflow) -> None:
    a = flow.input("a", k=int, x=int)
    seen = watch(a.reduce(lambda key, rows: [x for (x,), n in rows for _ in range(n + 1)], key="k", x=int))
    a.insert([(1, 5), (1, 5), (1, 6)])
    step(flow, a)
    assert seen.at() == {(1, 5): 3, (1, 6): 2}


def test_the_output_is_shared_and_can_be_read_later(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (k BIGINT, x BIGINT); INSERT INTO t VALUES (1, 2), (1, 3)")
    calls = []

    def f(key: Any, rows: Any) -> list[int]:
        calls.append(key)
        return [len(rows)]

    first = watch(flow.import_("t").reduce(f, key="k", n=int))
    late = watch(db.dataflow("other").import_("t").reduce(f, key="k", n=int).map(lambda r: r.n))
    assert (first.at(), late.at(), calls) == ({(1, 2): 1}, {(2,): 1}, [(1,)])
