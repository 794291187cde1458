"""What relations keep, count and number after updates is what a program on the facts has from the start."""

import random
from collections.abc import Sequence

import pytest

import kpg
from kpg.datalog.program import Program

Fact = tuple[str, tuple[int, ...]]

INPUTS = ".decl e(x: number, y: number, w: number)\n.decl n(x: number)\n"
KINDS = {
    "sp": "(x: number, d: number) sp(x, 0) :- n(x). sp(y, d + w) :- sp(x, d), e(x, y, w), d < 30."
    " sp(x, a) <= sp(x, b) :- b < a.",
    "st": "(u: number, v: number) choice-domain v st(x, x) :- n(x). st(u, v) :- st(_, u), e(u, v, _).",
    "m": "(x: number, d: number) m(x, min(0)) :- n(x). m(y, min(d + w)) :- m(x, d), e(x, y, w).",
    "c": "(x: number, k: number, t: number) c(x, count(y), sum(w)) :- e(x, y, w)."
    " c(y, count(x), sum(w)) :- e(x, y, w), n(x).",
    "a": "(i: number, x: number) a(autoinc(), x) :- n(x). a(autoinc(), y) :- e(_, y, w), w > 2.",
    "it": "(x: number, i: number) it(x, -1) :- n(x). it(y, __ITERATION__()) :- it(x, _), e(x, y, _), !n(y).",
    "q": "(x: number, y: number) eqrel q(x, y) :- e(x, y, w), w < 3. q(x, x) :- n(x).",
    "lz": "(x: number) lz(x) :- n(x). lz(y) :- lz(x), e(x, y, _). .limitsize lz(n=3)",
    "one": "(x: number, y: number, d: number) choice-domain x, (y, d)"
    " one(x, y, d) :- e(x, y, d). one(x, x, 0) :- n(x).",
    "par": "(x: number, y: number, z: number) par(x, y, z) :- e(x, y, z)."
    " par(x, a, b) <= par(x, c, d) :- a <= c, b <= d, (a != c ; b != d).",
    "mu": "(x: number, y: number) mu(x, y) :- e(x, y, _). mu(x, y + 1) :- mu(x, y), y < 6."
    " mu(x, a) <= mu(x, b) :- b < a. mu(x, a) <= mu(x, b) :- b > a.",
    "gu": "(x: number, d: number) gu(x, 0) :- n(x). gu(y, d + w) :- gu(x, d), e(x, y, w), d < 12."
    " gu(x, a) <= gu(x, b) :- b < a, !n(x).",
    "w": "(x: number, y: number, d: number) w(x, y, d) :- n(x), d = max k : { e(x, y, k) }.",
    "dl": " = debug_delta(tc) .decl tc(x: number, y: number)"
    " tc(x, y) :- e(x, y, _). tc(x, z) :- tc(x, y), tc(y, z).",
}


def text_of(names: Sequence[str]) -> str:
    return INPUTS + "\n".join(f".decl {name}{KINDS[name]} .output {name}" for name in names)


def written(fact: Fact) -> str:
    return f"{fact[0]}({', '.join(map(str, fact[1]))})."


def random_fact(chance: random.Random) -> Fact:
    name = chance.choice("eeen")
    return name, tuple(chance.randrange(5) for _ in range(3 if name == "e" else 1))


def changed(chance: random.Random, facts: list[Fact]) -> str:
    """Facts that come and go, by the text of an update."""
    parts = []
    for _ in range(chance.choice([1, 1, 2, 5])):
        if facts and chance.random() < 0.5:
            parts.append("-" + written(facts.pop(chance.randrange(len(facts)))))
        elif (fact := random_fact(chance)) not in facts:
            facts.append(fact)
            parts.append("+" + written(fact))
    return " ".join(parts)


def installed(text: str, facts: Sequence[Fact]) -> Program:
    return kpg.connect().datalog(text + "".join(f"\n+{written(one)}" for one in facts))


@pytest.mark.parametrize("seed", range(4))
def test_updates_are_as_if_made_from_the_start(seed: int) -> None:
    chance = random.Random(seed)
    names = list(KINDS)[seed::4]
    text, facts = text_of(names), list(dict.fromkeys(random_fact(chance) for _ in range(10)))
    program = installed(text, facts)
    for _ in range(4):
        program.update(changed(chance, facts))
        again = installed(text, sorted(facts))
        for name in names:
            assert set(program.rows(name)) == set(again.rows(name)), (name, facts)
