"""Lattices: one tuple of a key, bounds where values meet, and what rules make of them as facts change."""

import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.datalog.program import Program
from kpg.runtime.errors import DatalogError

SIGNS = """
    .type Sign = Bottom {} | Negative {} | Positive {} | Top {} | Zero {}
    .functor lub(x: Sign, y: Sign): Sign stateful
    .functor glb(x: Sign, y: Sign): Sign stateful
    .lattice Sign<> { Bottom -> $Bottom(), Lub -> @lub(_, _), Glb -> @glb(_, _), Top -> $Top() }
"""


def _lub(left: str, right: str) -> str:
    return right if left == "$Bottom" else left if right in ("$Bottom", left) else "$Top"


def _glb(left: str, right: str) -> str:
    return right if left == "$Top" else left if right in ("$Top", left) else "$Bottom"


def _installed(text: str) -> Program:
    return kpg.connect().datalog(SIGNS + text, functors={"lub": _lub, "glb": _glb})


def test_signs_of_variables() -> None:
    program = _installed("""
        .decl assign(v: symbol, w: symbol)
        assign("b", "a"). assign("c", "b"). assign("a", "c"). assign("d", "c").
        .decl init(v: symbol, s: Sign)
        init("a", $Positive()). init("d", $Zero()). init("e", $Negative()).
        .decl sign(v: symbol, s: Sign<>)
        sign(v, s) :- init(v, s).
        sign(v, s) :- assign(v, w), sign(w, s).
        .decl negative(v: symbol)
        negative(v) :- sign(v, $Negative()).
        .output sign, negative
    """)
    found = {"a": "Positive", "b": "Positive", "c": "Positive", "d": "Top", "e": "Negative"}
    assert dict(program["sign"]) == {name: f"${sign}" for name, sign in found.items()}
    assert set(program["negative"]) == {("d",), ("e",)}
    program.update('+init("b", $Negative()).')
    assert {row for row in program["sign"] if row[1] == "$Top"} == {(name, "$Top") for name in "abcd"}
    program.update('-init("b", $Negative()). -init("d", $Zero()).')
    assert dict(program["sign"]) == {name: f"${sign}" for name, sign in {**found, "d": "Positive"}.items()}


def test_values_meet() -> None:
    program = _installed("""
        .decl top(x: Sign<>) top($Top()).
        .decl positive(x: Sign<>) positive($Positive()).
        .decl negative(x: Sign<>) negative($Negative()).
        .decl plain(x: Sign) plain($Positive()). plain($Zero()).
        .decl a(x: Sign<>) a(x) :- positive(x), top(x).
        .decl b(x: Sign<>) b(x) :- positive(x), negative(x).
        .decl c(x: Sign) c(x) :- top(x), plain(x).
        .decl both(x: Sign<>) both(x) :- positive(x) ; negative(x).
    """)
    assert list(program["a"]) == [("$Positive",)] and not list(program["b"])
    assert set(program["c"]) == {("$Positive",), ("$Zero",)} and list(program["both"]) == [("$Top",)]


def test_numbers_with_functors_of_the_language() -> None:
    program = kpg.connect().datalog("""
        .type Cost <: number
        .lattice Cost<> { Lub -> min(_, _) }
        .decl e(x: number, y: number, d: number) e(1, 2, 5). e(2, 3, 1). e(1, 3, 9). e(3, 1, 2).
        .decl away(x: number, d: Cost<>)
        away(1, 0).
        away(y, d + w) :- away(x, d), e(x, y, w), d + w < 30.
        .output away
    """)
    assert sorted(program["away"]) == [(1, 0), (2, 5), (3, 6)]
    program.update("-e(1, 2, 5).")
    assert sorted(program["away"]) == [(1, 0), (3, 9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".type T <: number .decl r(x: T<>)", "type T has no .lattice"),
        (".type T <: number .lattice T<> { Bottom -> 0 } .decl r(x: T<>)", "lattice T has no Lub"),
        (".type T <: number .lattice T<> { Lub -> max(_, 1) } .decl r(x: T<>)",
         "Lub is written with two underscores for its arguments"),
        (".type T <: number .lattice T<> { Lub -> max(_, _), Join -> 1 } .decl r(x: T<>)",
         "a lattice has no Join"),
        (".type T <: number .lattice T<> { Lub -> max(_, _), Lub -> min(_, _) } .decl r(x: T<>)",
         "Lub is given twice"),
        (".type T <: number .lattice T<> { Lub -> max(_, _) } .decl r(x: T<>) .input r",
         ".input of a relation with a lattice is not supported"),
        (".type T <: number .lattice T<> { Lub -> max(_, _) } .decl r(x: T<>) r(x) <= r(y) :- x < y.",
         "r has a lattice, subsumption beside it is not supported"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(DatalogError) as caught:
        check(text, Catalog())
    assert caught.value.message == message and caught.value.span is not None
