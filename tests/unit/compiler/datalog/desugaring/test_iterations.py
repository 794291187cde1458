"""``__ITERATION__()``: the rounds in which rules derive, as Soufflé counts them, and as facts change."""

import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.runtime.errors import DatalogError

EDGES = ".decl e(x: number, y: number) e(1, 2). e(2, 3). e(3, 4). e(1, 4).\n"


def test_rounds_of_a_chain() -> None:
    program = kpg.connect().datalog("""
        .decl a(x: number, i: unsigned)
        a(1, 0).
        a(x + 1, __ITERATION__()) :- a(x, _), x < 5.
        .decl b(x: number)
        b(0).
        b(x + 1) :- b(x), __ITERATION__() < 5.
        .decl c(i: number)
        c(__ITERATION__()) :- a(1, _).
    """)
    assert sorted(program["a"]) == [(1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]
    assert sorted(program["b"]) == [(x,) for x in range(6)] and list(program["c"]) == [(0,)]


def test_rounds_follow_changes() -> None:
    program = kpg.connect().datalog(
        EDGES
        + """
        .decl p(x: number, y: number)
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), e(y, z).
        .decl when(x: number, y: number, i: number)
        when(x, y, -1) :- e(x, y).
        when(x, z, __ITERATION__()) :- when(x, y, _), e(y, z), !e(x, z).
        .output when
    """
    )
    assert {row for row in program["when"] if row[2] >= 0} == {(1, 3, 0), (2, 4, 0)}
    program.update("-e(1, 4). +e(4, 5).")
    expected = {(1, 3, 0), (2, 4, 0), (3, 5, 0), (1, 4, 1), (2, 5, 1), (1, 5, 2)}
    assert {row for row in program["when"] if row[2] >= 0} == expected
    program.update("-e(2, 3).")
    assert {row for row in program["when"] if row[2] >= 0} == {(3, 5, 0)}


def test_each_recursive_atom_may_be_new() -> None:
    program = kpg.connect().datalog(
        EDGES
        + """
        .decl p(x: number, y: number, i: number)
        p(x, y, 0) :- e(x, y).
        p(x, z, __ITERATION__() + 1) :- p(x, y, _), p(y, z, _).
    """
    )
    assert {row for row in program["p"] if row[2]} == {(1, 3, 1), (2, 4, 1), (1, 4, 2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".decl r(x: number) r(__ITERATION__()).", "__ITERATION__ in a fact"),
        (EDGES + ".decl r(x: number) r(n) :- n = sum __ITERATION__() : e(_, _).",
         "__ITERATION__() in an aggregate is not supported"),
        (EDGES + ".decl r(x: number, y: number) r(x, min(y)) :- e(x, y). "
         "r(x, min(i)) :- r(x, _), i = __ITERATION__().",
         "__ITERATION__() beside relations that keep less than is derived is not supported"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(DatalogError) as caught:
        check(text, Catalog())
    assert caught.value.message == message and caught.value.span is not None


def test_debug_delta_has_what_each_round_brings() -> None:
    program = kpg.connect().datalog(
        EDGES
        + """
        .decl p(x: number, y: number)
        .decl d = debug_delta(p)
        .output d
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), p(y, z).
        .comp Steps {
            .decl a(x: number)
            .decl b(x: number) b(x + 1) :- a(x), x < 6.
            .decl new = debug_delta(a) brie
            a(1). a(x + 1) :- b(x).
        }
        .init steps = Steps
        .decl none = debug_delta(e)
    """
    )
    assert sorted(program["d"]) == [(1, 3, 0), (2, 4, 0)]
    assert sorted(program["steps.new"]) == [(3, 1), (5, 3), (7, 5)]
    assert sorted(program["none"]) == []
    program.update("-e(1, 4). +e(4, 5).")
    assert sorted(program["d"]) == [(1, 3, 0), (1, 4, 1), (1, 5, 1), (2, 4, 0), (2, 5, 1), (3, 5, 0)]
    program.update("-e(2, 3).")
    assert sorted(program["d"]) == [(3, 5, 0)]


def test_debug_delta_of_nothing() -> None:
    with pytest.raises(DatalogError, match="relation r is not defined"):
        check(".decl d = debug_delta(r)", Catalog())
