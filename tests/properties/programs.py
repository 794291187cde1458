"""Datalog programs for tests of equivalence: written ones, and random stratified ones."""

import random
from dataclasses import dataclass, field

WRITTEN = {
    "closure, left-linear": "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y).",
    "closure, right-linear": "tc(x, y) :- e(x, y). tc(x, y) :- e(x, z), tc(z, y).",
    "closure, squared": "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), tc(z, y).",
    "closure, squared, of two relations": """
        tc(x, y) :- e(x, y), x != y. tc(y, x) :- f(x, y), u(x).
        tc(x, y) :- tc(z, y), tc(x, z).
    """,
    "closure, both linear rules": """
        tc(x, y) :- u(x), f(x, y). tc(x, y) :- e(x, z), tc(z, y). tc(x, y) :- tc(x, z), f(z, y).
    """,
    "closure, other exit": "r(x, y) :- f(x, y). r(x, y) :- e(x, z), r(z, y), x != z.",
    "closure, dependent left rule": "r(x, y) :- e(x, y). r(x, y) :- r(x, z), e(z, y), !f(x, y).",
    "closure, with constants": """
        r(x, y) :- e(x, y). r(1, y) :- f(2, z), r(z, y). r(x, 3) :- r(x, 2). r(x, x) :- u(x).
    """,
    "same generation": """
        sg(x, y) :- e(p, x), e(p, y), x != y. sg(x, y) :- e(a, x), sg(a, b), e(b, y).
    """,
    "same generation, tests on both sides": """
        sg(x, y) :- f(x, y). sg(x, y) :- e(a, x), a != 2, sg(a, b), b != 4, e(b, y), !u(y).
    """,
    "same generation, two ways": """
        sg(x, y) :- f(x, y). sg(x, y) :- e(a, x), sg(a, b), e(b, y). sg(x, y) :- f(a, x), sg(a, b), f(b, y).
    """,
    "mutual recursion": """
        odd(x, y) :- e(x, y). odd(x, y) :- even(x, z), e(z, y). even(x, y) :- e(x, z), odd(z, y).
        both(x, y) :- odd(x, y), even(x, y).
    """,
    "non-linear": """
        vf(x, y) :- e(x, y). vf(x, y) :- e(x, z), ma(z, y). vf(x, y) :- vf(x, z), vf(z, y).
        vf(x, x) :- e(x, _).
        ma(x, y) :- f(z, x), va(z, w), f(w, y). ma(x, x) :- f(_, x).
        va(x, y) :- vf(z, x), vf(z, y). va(x, y) :- vf(z, x), ma(z, w), vf(w, y).
    """,
    "negation below": """
        bad(x) :- u(x). bad(y) :- bad(x), f(x, y).
        ok(x, y) :- e(x, y), !bad(y). ok(x, y) :- ok(x, z), e(z, y), !bad(y).
    """,
    "negation of what is asked by it": """
        q(x, y) :- f(x, y). q(x, y) :- q(x, z), f(z, y).
        p(x, y) :- e(x, y). p(x, y) :- p(x, z), e(z, y), !q(z, y), p(y, _).
    """,
    "negation, layered": """
        a(x) :- u(x). a(y) :- a(x), e(x, y).
        b(x, y) :- e(x, y), !a(y). b(x, y) :- b(x, z), e(z, y), !a(z).
        c(x, y) :- f(x, y), !b(x, y), !b(_, x). c(x, y) :- c(x, z), b(z, y).
    """,
    "aggregates": """
        tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y).
        size(x, c) :- u(x), c = count : { tc(x, _) }.
        least(x, m) :- e(x, _), m = min y : { tc(x, y), !u(y) }.
        big(x, y) :- size(x, c), c > 1, tc(x, y).
        big(x, y) :- big(x, z), f(z, y), k = count : { tc(y, _) }, k < 3.
    """,
    "aggregate of what is asked by it": """
        q(x, y) :- f(x, y). q(x, y) :- q(x, z), f(z, y).
        p(x, y) :- e(x, y). p(x, y) :- p(x, z), p(z, w), e(w, y), c = count : { q(w, _) }, c < 3.
    """,
    "head aggregates": """
        tc(x, y) :- e(x, y). tc(x, y) :- e(x, z), tc(z, y).
        fan(x, count(y)) :- tc(x, y).
        mass(x, sum(y)) :- tc(x, y), u(y). mass(x, sum(y)) :- f(x, y).
        best(x, max(c)) :- f(x, y), fan(y, c).
        rank(x, y) :- best(x, c), best(y, c), x < y.
    """,
    "shortest paths": """
        d(x, y, min(n0)) :- e(x, y), n0 = x + y. d(x, y, min(n1)) :- d(x, z, c), e(z, y), n1 = c + y.
        near(x, y) :- d(x, y, c), c < 7.
    """,
    "shortest paths, squared": """
        d(x, y, min(n0)) :- e(x, y), n0 = x + y. d(x, y, min(n1)) :- d(x, z, c), d(z, y, k), n1 = c + k.
    """,
    "components": """
        cc(x, min(x)) :- e(x, _). cc(x, min(x)) :- e(_, x).
        cc(y, min(c)) :- cc(x, c), e(x, y). cc(x, min(c)) :- cc(y, c), e(x, y).
        same(x, y) :- cc(x, c), cc(y, c).
    """,
    "minima that ask": """
        d(x, min(y)) :- e(x, y). d(x, min(z)) :- e(x, y), d(y, v), p(x, z), z >= v.
        p(x, y) :- f(x, y). p(x, y) :- p(x, z), f(z, y).
    """,
    "functors": """
        p(x, y) :- e(x, y). p(x, n0) :- p(x, y), n0 = y + 1, n0 < 9.
        q(x, y) :- f(x, z), w = z + 1, p(w, y). q(x, n2) :- p(x, y), n2 = y * 2.
        r(n3, y) :- e(x, y), n3 = x + 1. r(x, y) :- r(x, z), r(w, y), w = z - 1.
    """,
    "functors on the way up": """
        down(x, y) :- e(x, y). down(x, y) :- u(x), w = x + 1, w < 12, down(w, y).
    """,
    "facts and constants": """
        p(1, 2). p(x, y) :- e(x, y). q(x) :- p(1, x). q(x) :- p(x, 5), q(2). r(x, y) :- q(x), p(x, y), x = 2.
    """,
    "repeated variables": """
        p(x, x) :- u(x). p(x, y) :- e(x, y). q(x, y) :- p(x, x), p(x, y), p(y, y). s(x) :- q(x, x).
    """,
    "products": "p(x, y) :- u(x), u(y). q(x, y) :- p(x, z), p(z, y), e(x, y). r(x) :- q(_, x), p(_, _).",
    "chain": """
        a(x, y) :- e(x, z), f(z, y). b(x, y) :- a(x, z), a(z, y).
        c(x, y) :- b(x, z), f(z, w), e(w, v), b(v, y).
    """,
}


@dataclass
class _Maker:
    """Rules for relations r0, r1...: each reads the inputs, what is before it and, positively, itself."""

    choice: random.Random
    arities: dict[str, int] = field(default_factory=lambda: {"e": 2, "f": 2, "u": 1})

    def rule(self, name: str, recursive: list[str], lower: list[str]) -> str:
        positive = [self.choice.choice(lower)]
        positive += [self.choice.choice([*lower, *recursive]) for _ in range(self.choice.randrange(3))]
        self.choice.shuffle(positive)
        atoms = [f"{one}({', '.join(self._term() for _ in range(self.arities[one]))})" for one in positive]
        bound = sorted({name for atom in atoms for name in atom.split("(")[1] if name in "xyzw"})
        if not bound:
            return self.rule(name, recursive, lower)
        body = list(atoms)
        if self.choice.random() < 0.4:
            function = self.choice.choice(["<", "!=", ">="])
            body.append(f"{self.choice.choice(bound)} {function} {self._of(bound)}")
        if self.choice.random() < 0.35:
            body.append(self._negated(lower, bound))
        if self.choice.random() < 0.2:
            body.append(self._aggregate(lower, bound))
            bound.append("c")
        if self.choice.random() < 0.2:
            body += [f"n0 = {self.choice.choice(bound)} + {self.choice.randrange(3)}", "n0 < 9"]
            bound.append("n0")
        head = [self._of(bound) for _ in range(self.arities[name])]
        self.choice.shuffle(body)
        return f"{name}({', '.join(head)}) :- {', '.join(body)}."

    def _term(self) -> str:
        return self.choice.choice(["x", "y", "z", "w", "x", "y", "_", str(self.choice.randrange(6))])

    def _of(self, bound: list[str]) -> str:
        return self.choice.choice(bound) if self.choice.random() < 0.9 else str(self.choice.randrange(6))

    def _negated(self, lower: list[str], bound: list[str]) -> str:
        one = self.choice.choice(lower)
        terms = [self._of(bound) if self.choice.random() < 0.8 else "_" for _ in range(self.arities[one])]
        return f"!{one}({', '.join(terms)})"

    def _aggregate(self, lower: list[str], bound: list[str]) -> str:
        one = self.choice.choice([name for name in lower if self.arities[name] == 2])
        function = self.choice.choice(["count", "sum k", "min k", "max k"])
        extra = self.choice.choice(["", f", {self.choice.choice(lower)}(k" + "{})"])
        if extra:
            arity = self.arities[extra.split("(")[0].strip(", ")]
            extra = extra.format(", _" * (arity - 1))
        return f"c = {function} : {{ {one}({self._of(bound)}, k){extra} }}"


def random_program(seed: int) -> str:
    """A stratified program that terminates."""
    choice = random.Random(seed)
    maker = _Maker(choice)
    lower = ["e", "f", "u"]
    rules: list[str] = []
    number = 0
    for _ in range(choice.randrange(2, 4)):
        group = [f"r{number + i}" for i in range(choice.choice([1, 1, 2]))]
        number += len(group)
        for name in group:
            maker.arities[name] = choice.choice([1, 2, 2])
        for name in group:
            rules.append(maker.rule(name, [], lower))
            rules += [maker.rule(name, group, lower) for _ in range(choice.randrange(1, 3))]
        lower += group
    return "\n".join(rules)
