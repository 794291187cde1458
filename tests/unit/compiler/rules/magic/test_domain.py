"""Where the values of a column come from, and which programs end whatever the facts are."""

import pytest

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.compiler.rules import core
from kpg.compiler.rules.magic import Policy, Strategy, is_finite, origins, prepare

DECLARED = """
.decl e(a: number, b: number)
.input e
.decl f(a: number, b: number)
.input f
"""


def program(text: str) -> core.Program:
    return check(DECLARED + text, Catalog()).program


FLIPPED = """
.decl p(a: number, b: number)
p(x, y) :- q(y, x).
.decl q(a: number, b: number)
q(x, y) :- f(x, y).
"""
CLOSURE = ".decl p(a: number, b: number)\np(x, y) :- e(x, y).\np(x, y) :- p(x, z), f(z, y).\n"


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        (CLOSURE, 0, {("e", 0)}),
        (CLOSURE, 1, {("e", 1), ("f", 1)}),
        (CLOSURE + "p(x, 7) :- f(_, x).\n", 1, {("e", 1), ("f", 1)}),
        (CLOSURE + "p(x, 7) :- f(_, x).\n", 0, {("e", 0), ("f", 1)}),
        (CLOSURE + "p(x, y) :- e(x, z), y = z + 1.\n", 1, None),
        (FLIPPED, 0, {("f", 1)}),
        (".decl p(a: number, b: number)\np(x, n) :- e(x, _), n = count : { f(x, _) }.", 1, None),
    ],
)
def test_origins(text: str, column: int, expected: set[tuple[str, int]] | None) -> None:
    assert origins(program(text), "p", column) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CLOSURE, True),
        (CLOSURE + ".decl n(a: number)\nn(y) :- p(x, _), y = x + 1.\n", True),
        (CLOSURE + "p(x, y) :- p(x, z), y = z + 1.\n", False),
        (
            ".decl d(a: number, n: number)\nd(x, min(0)) :- e(x, _).\nd(y, min(n + 1)) :- d(x, n), e(x, y).",
            False,
        ),
    ],
)
def test_what_ends_whatever_the_facts_are(text: str, expected: bool) -> None:
    assert is_finite(program(text)) is expected


SG = """
.decl sg(a: number, b: number)
sg(x, y) :- e(p, x), e(p, y).
sg(x, y) :- e(a, x), sg(a, b), e(b, y).
"""


def test_demand_that_spreads_is_known() -> None:
    made = prepare(program(SG), "sg", (True, False))
    assert made.strategy is Strategy.MAGIC
    assert made.derived_demands == (("demand sg[bf]", "sg", (True, False)),)
    assert prepare(program(CLOSURE), "p", (True, False)).derived_demands == ()


def test_a_policy_can_ask_for_the_whole() -> None:
    made = prepare(program(SG), "sg", (True, False), Policy(full_reason="too much is asked"))
    assert made.strategy is Strategy.FULL and made.demands == ()
    assert made.explanation.text().startswith("computed as a whole and looked up: too much is asked\n")
