"""What sugar means: desugared programs run by the naive evaluator."""

import pytest

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from tests.model.datalog import run

FAMILY = (
    '.decl f(n: symbol, a: number) f("A", 10). f("M", 46). f("K", 50). f("Z", 10).'
    ".decl b(n: symbol, a: number) "
)
CASES = [
    ("witnesses of a minimum", FAMILY + "b(p, n) :- n = min x : f(p, x).", {("A", 10), ("Z", 10)}),
    (
        "witnesses of what else the body says",
        FAMILY + 'b(p, n) :- n = min x : { f(p, x), x > 10, p != "M" }.',
        {("K", 50)},
    ),
    ("the operand as witness", FAMILY + "b(p, x) :- 50 = max x : f(p, x).", {("K", 50)}),
    (
        "witnesses in groups",
        FAMILY + '.decl d(x: number, y: number, s: symbol) d(1, 5, "x"). d(1, 7, "y"). d(2, 3, "z").'
        ".decl e(x: number) e(1). e(2). e(3). b(s, m) :- e(x), m = max y : { d(x, y, s) }.",
        {("y", 7), ("z", 3)},
    ),
    (
        "what is aggregated is the aggregate's own",
        FAMILY
        + 'b("M", s) :- f("M", x), s = sum x : { f(_, x) }. b(n, x) :- f(n, x), x = max x : { f(_, x) }.',
        {("M", 116), ("K", 50)},
    ),
    (
        "an operand that the body does not bind is the rule's",
        FAMILY + 'b(n, s) :- f(n, x), s = sum x : { f("M", _) }.',
        {("A", 10), ("M", 46), ("K", 50), ("Z", 10)},
    ),
    (
        "aggregates in aggregates see what encloses them",
        FAMILY + "b(p, m) :- f(p, _), m = max y : { f(q, y), y < max z : { f(_, z) }, q != p }.",
        {("A", 46), ("M", 10), ("K", 46), ("Z", 46)},
    ),
    (
        "aggregates range over all bindings, and count and sum of none are 0",
        ".decl a(x: number) a(1). a(2). a(3). .decl b(x: number, n: number)"
        "b(x, n) :- a(x), n = count : { a(y), y < x }. b(10, s) :- s = sum x + y : { a(x), a(y) }."
        "b(20, s) :- s = sum x : { a(x), x > 7 }. b(30, m) :- m = max x : { a(x), x > 7 }.",
        {(1, 0), (2, 1), (3, 2), (10, 36), (20, 0)},
    ),
    (
        "nested aggregates are grouped by what they share with the enclosing body",
        ".decl e(x: number, y: number) e(1, 2). e(1, 3). e(2, 3). .decl b(x: number)"
        "b(m) :- m = max x : { e(x, _), 1 = count : { e(x, _) } }.",
        {(2,)},
    ),
    (
        "disjunction, negated conjunction, several heads",
        ".decl a(x: number) a(1). a(2). a(3). .decl b, c, d(x: number) d(2)."
        "b(x), c(x + 10) :- a(x), (x = 1 ; !(d(x) ; x < 3)). b(y) :- c(y), y > 12.",
        {(1,), (3,), (13,)},
    ),
    (
        "inline relations, also where they are negated",
        ".decl a(x: number) a(1). a(2). a(3). .decl i(x: number, y: number) inline"
        " i(x, y) :- a(x), y = x + 1. i(x, y) :- a(y), x = 7. .decl b(x: number, y: number)"
        "b(x, y) :- i(x, y), y > 2. b(y, x) :- i(x, 2), a(y), !i(y, 4).",
        {(2, 3), (3, 4), (7, 3), (1, 1), (2, 1), (1, 7), (2, 7)},
    ),
    (
        "ranges, of step 0 too",
        ".decl a(x: number) a(1). .decl b(x: number) b(v) :- a(x), v = range(x, x + 3)."
        "b(v) :- v = range(20, 15, -2). b(v) :- v = range(32, 30). b(v) :- a(s), v = range(40, 50, s * 4)."
        "b(v) :- v = range(60, 61, 0). b(v) :- v = range(70, 70, 0). b(v) :- a(s), v = range(80, 1, s - 1)."
        "b(v) :- a(s), v = range(90, 90, s - 1).",
        {(60,), (80,), (1,), (2,), (3,), (20,), (18,), (16,), (32,), (31,), (40,), (44,), (48,)},
    ),
    (
        "equivalence relations",
        ".decl b(x: number, y: number) eqrel b(1, 2). b(2, 3). b(5, 5).",
        {(x, y) for x in (1, 2, 3) for y in (1, 2, 3)} | {(5, 5)},
    ),
    (
        "min in recursion",
        ".decl e(x: number, y: number, w: number) e(1, 2, 5). e(1, 3, 1). e(3, 2, 1). e(2, 1, 1)."
        ".decl b(x: number, d: number) b(1, 0). b(y, min(d + w)) :- b(x, d), e(x, y, w).",
        {(1, 0), (2, 2), (3, 1)},
    ),
    (
        "head aggregates count bindings, not values",
        ".decl s(x: number, i: number, w: number) s(1, 1, 5). s(1, 2, 5). s(2, 1, 7)."
        ".decl b(x: number, t: number, n: number) b(x, sum(w), count(_)) :- s(x, _, w).",
        {(1, 10, 2), (2, 7, 1)},
    ),
    (
        "components",
        ".comp R<T> { .decl e(x: T, y: T) .decl p(x: T, y: T)"
        " p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). }"
        ".init r = R<number> r.e(1, 2). r.e(2, 3). .decl b(x: number) b(y) :- r.p(1, y).",
        {(2,), (3,)},
    ),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_meaning(text: str, expected: set[tuple[int, ...]]) -> None:
    assert run(check(text, Catalog()).program)["b"] == expected
