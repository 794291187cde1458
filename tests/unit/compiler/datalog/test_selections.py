"""Subsumption in recursion, by two rules or by other relations: what is kept, after each update."""

import random
from collections.abc import Callable

import pytest

import kpg
from kpg.runtime.errors import DatalogError

Row = tuple[int, int]
Dominates = Callable[[Row, Row, frozenset[int]], bool]
RULES = """
.decl e(x: number, y: number) .decl g(x: number) .decl h(x: number)
h(x) :- g(x). h(x) :- e(x, 3).
.decl a(x: number, y: number) .output a
a(x, y) :- e(x, y).
a(x, y + 1) :- a(x, y), y < 6.
"""
CASES: list[tuple[str, str, Dominates]] = [
    (
        "the least and the greatest: each dominates the other",
        "a(x, y) <= a(x, z) :- z < y. a(x, y) <= a(x, z) :- z > y.",
        lambda less, greater, h: less[0] == greater[0],
    ),
    (
        "the same with alternatives",
        "a(x, y) <= a(x, z) :- z < y ; z > y.",
        lambda less, greater, h: less[0] == greater[0],
    ),
    (
        "less in either column",
        "a(x, y) <= a(w, z) :- w < x. a(x, y) <= a(w, z) :- z < y.",
        lambda less, greater, h: greater[0] < less[0] or greater[1] < less[1],
    ),
    (
        "lexicographic",
        "a(x, y) <= a(w, z) :- w < x. a(x, y) <= a(w, z) :- w = x, z < y.",
        lambda less, greater, h: greater < less,
    ),
    (
        "by another relation",
        "a(x, y) <= a(x, z) :- h(x), z < y.",
        lambda less, greater, h: less[0] == greater[0] and less[0] in h and greater[1] < less[1],
    ),
    (
        "by the absence of one, each other",
        "a(x, _) <= a(x, _) :- !h(x).",
        lambda less, greater, h: less[0] == greater[0] and less[0] not in h,
    ),
    (
        "by an aggregate",
        "a(x, y) <= a(x, z) :- z < y, 1 < count : { h(_) }.",
        lambda less, greater, h: less[0] == greater[0] and greater[1] < less[1] and len(h) > 1,
    ),
]


def kept(edges: set[Row], named: set[int], dominates: Dominates) -> set[Row]:
    """Round by round: all that is derived of what is kept, without what is dominated."""
    h = frozenset(named | {x for x, y in edges if y == 3})
    now: set[Row] = set()
    for _ in range(100):
        every = edges | {(x, y + 1) for x, y in now if y < 6}
        new = {
            row
            for row in every
            if not any(
                dominates(row, other, h) and (other < row or not dominates(other, row, h))
                for other in every - {row}
            )
        }
        if new == now:
            return now
        now = new
    raise AssertionError("no end")


@pytest.mark.parametrize(("rule", "dominates"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_kept(rule: str, dominates: Dominates) -> None:
    chance = random.Random(rule)
    program = kpg.connect().datalog(RULES + rule)
    edges: set[Row] = set()
    named: set[int] = set()
    for _ in range(12):
        x, y = chance.randrange(3), chance.randrange(5)
        sign = "-" if (x, y) in edges else "+"
        edges ^= {(x, y)}
        text = f"{sign}e({x}, {y})."
        if chance.random() < 0.4:
            sign = "-" if x in named else "+"
            named ^= {x}
            text += f" {sign}g({x})."
        program.update(text)
        assert set(program["a"]) == kept(edges, named, dominates)


def test_what_depends_on_the_relation_cannot_decide() -> None:
    with pytest.raises(DatalogError, match="subsumption of a by what depends on a is not supported"):
        kpg.connect().datalog(
            RULES + ".decl i(x: number) i(x) :- a(x, _). a(x, y) <= a(x, z) :- i(x), z < y."
        )
