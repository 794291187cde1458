"""What sugar means: desugared programs run by the naive evaluator."""

import pytest

from kpg.compiler.catalog import Catalog
from kpg.compiler.datalog.check import check
from tests.model.datalog import run

CASES = [
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
        "ranges",
        ".decl a(x: number) a(1). .decl b(x: number) b(v) :- a(x), v = range(x, x + 3)."
        "b(v) :- v = range(20, 15, -2). b(v) :- v = range(32, 30). b(v) :- a(s), v = range(40, 50, s * 4).",
        {(1,), (2,), (3,), (20,), (18,), (16,), (32,), (31,), (40,), (44,), (48,)},
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
