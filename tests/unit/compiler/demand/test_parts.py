"""The parts of restricting recursion: constants that filters give, links of joins, and what may fail."""

from typing import Any

import pytest

from kpg.compiler.algebra.rel import Constant, Filter, Get, Join, Let, LetRec, LocalGet, Map, Project
from kpg.compiler.algebra.scalars import is_total
from kpg.compiler.rules.demand.restriction import Link, constant_bindings, links
from kpg.compiler.rules.demand.rule_program import counts_rounds, hoist_recursion, may_fail
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, Kind, Type

TEXT = Type(Kind.VARCHAR)
A, B, C = (Column(place, INTEGER) for place in range(3))
NAME = Column(3, Type(Kind.VARCHAR, 5))
EDGE = Get("edge", (INTEGER, INTEGER), (True, True), is_table=False)


def call(function: str, *args: Scalar) -> Call:
    return Call(function, args, BOOLEAN)


def number(value: int | None) -> Literal:
    return Literal(value, INTEGER)


def wide(scalar: Scalar) -> Call:
    return Call("cast", (scalar,), BIGINT)


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ([call("eq", A, number(7))], ((0,), ((7,),))),
        ([call("eq", number(7), B), call("gt", A, number(1))], ((1,), ((7,),))),
        ([call("is_not_distinct", A, number(7))], ((0,), ((7,),))),
        ([call("in", B, number(1), number(None), number(2))], ((1,), ((1,), (2,)))),
        ([call("or", call("eq", A, number(1)), call("in", A, number(2), number(1)))], ((0,), ((1,), (2,)))),
        ([call("eq", A, number(1)), call("in", A, number(1), number(2))], ((0,), ((1,),))),
        (
            [call("in", B, number(1), number(2)), call("in", A, number(3), number(4), number(5))],
            ((0, 1), ((3, 1), (4, 1), (5, 1), (3, 2), (4, 2), (5, 2))),
        ),
        ([call("eq", wide(A), Literal(7, BIGINT))], ((0,), ((7,),))),
        ([call("in", wide(A), Literal(7, BIGINT), Literal(2**31, BIGINT))], ((0,), ((7,),))),
        ([call("eq", Call("cast", (NAME,), TEXT), Literal("abc", TEXT))], ((3,), (("abc",),))),
        ([call("eq", A, number(None))], None),
        ([call("eq", A, B), call("ne", A, number(1)), call("not", call("eq", A, number(1)))], None),
        ([call("or", call("eq", A, number(1)), call("eq", B, number(1)))], None),
        ([call("or", call("eq", A, number(1)), call("gt", A, number(5)))], None),
        ([call("eq", Call("cast", (A,), TEXT), Literal("7", TEXT))], None),
        ([call("eq", Call("add", (A, number(1)), INTEGER), number(2))], None),
    ],
)
def test_constants(
    predicates: list[Scalar], expected: tuple[tuple[int, ...], tuple[tuple[Any, ...], ...]] | None
) -> None:
    found = constant_bindings(predicates)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == expected[0]
        assert sorted(found[1].rows) == sorted(expected[1])


def test_constants_are_not_multiplied_without_end() -> None:
    forty = [number(value) for value in range(40)]
    found = constant_bindings([call("in", A, *forty), call("in", B, *forty), call("eq", C, number(1))])
    assert found is not None
    columns, rows = found
    assert columns == (0, 2)
    assert len(rows.rows) == 40


def test_links() -> None:
    on = (
        call("eq", A, Column(3, INTEGER)),
        call("eq", wide(Column(2, INTEGER)), Column(5, BIGINT)),
        call("eq", Column(5, BIGINT), wide(B)),
        call("lt", B, C),
    )
    other = Get("other", (BIGINT, INTEGER), (True, True), is_table=False)
    join = Join((EDGE, EDGE, Project(other, (1, 0))), on)
    assert list(links(join, 0)) == [Link(1, (0,), (Column(1, INTEGER),))]
    assert list(links(join, 1)) == [Link(0, (1,), (Column(0, INTEGER),))]
    expected = [
        Link(1, (1,), (wide(Column(0, INTEGER)),)),
        Link(0, (1,), (wide(Column(1, INTEGER)),)),
    ]
    assert list(links(join, 2)) == expected


QUOTIENT = Call("div", (number(6), A), INTEGER)


def test_what_may_fail() -> None:
    assert is_total(call("eq", Call("add", (A, B), INTEGER), wide(C)))
    assert is_total(Call("div", (A, number(2)), INTEGER))
    assert is_total(Call("div", (A, Call("nullif", (B, number(0)), INTEGER)), INTEGER))
    assert not is_total(QUOTIENT)
    assert not is_total(Call("div", (A, number(0)), INTEGER))
    assert not is_total(Call("cast", (wide(A),), INTEGER))
    assert not is_total(If(call("gt", A, number(0)), QUOTIENT, number(0), INTEGER))
    failing = Map(EDGE, (QUOTIENT,))
    assert may_fail(Project(Join((EDGE, failing), ()), (0,)), {})
    assert may_fail(LocalGet("l0", (INTEGER,)), {"l0": failing})
    assert not may_fail(Filter(EDGE, (call("eq", A, B),)), {"l0": failing})


def loop(id_: str, *, limit: int | None = None, error: bool = False) -> LetRec:
    get = LocalGet(id_, (INTEGER, INTEGER))
    return LetRec((id_,), (get,), ((INTEGER, INTEGER),), limit, get, error)


def test_recursion_is_brought_out() -> None:
    test = call("eq", A, number(1))
    rel = Join((Let("a", Filter(loop("r"), (test,)), LocalGet("a", (INTEGER, INTEGER))), EDGE), ())
    found = hoist_recursion(rel)
    assert isinstance(found, LetRec)
    (id_,) = found.ids
    get = LocalGet(id_, (INTEGER, INTEGER))
    assert found.values == (get,)
    assert isinstance(found.body, Join)
    let, edge = found.body.inputs
    assert edge == EDGE
    assert isinstance(let, Let)
    assert let.value == Filter(get, (test,))


def test_what_only_reads_a_recursion_is_no_part_of_it() -> None:
    types = ((INTEGER, INTEGER), (INTEGER,))
    r, s = (LocalGet(id_, own) for id_, own in zip("rs", types, strict=True))
    both = LetRec(("r", "s"), (r, Project(r, (1,))), types, None, s)
    found = hoist_recursion(both)
    assert isinstance(found, LetRec)
    assert len(found.ids) == 1
    assert isinstance(found.body, Let)
    counted = LetRec(both.ids, both.values, types, 5, s)
    kept = hoist_recursion(counted)
    assert isinstance(kept, LetRec)
    assert len(kept.ids) == 2


def test_rounds_that_count() -> None:
    assert not counts_rounds(loop("r"))
    assert counts_rounds(loop("r", limit=10**6))
    assert counts_rounds(loop("r", limit=100, error=True))
    assert not counts_rounds(loop("r", limit=10_000, error=True))
    assert hoist_recursion(Constant(((1,),), (INTEGER,))) == Constant(((1,),), (INTEGER,))
