"""Subsumption, choice-domain and limits: what is kept, and that it follows changes."""

import random

import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.runtime.errors import DatalogError

EDGES = (
    ".decl e(x: number, y: number, w: number) .input e e(1,2,5). e(1,3,1). e(3,2,1). e(2,1,1). e(2,4,10). "
)
PATHS = ".decl b(x: number, y: number, d: number) b(1, 0, 0). b(y, x, d + w) :- b(x, _, d), e(x, y, w). "
POINTS = ".decl b(x: number, y: number) b(1, 9). b(2, 5). b(2, 9). b(0, 3). b(4, 12). "
Rows = list[tuple[object, ...]]

CASES = {
    "the least of a column": (
        EDGES + ".decl b(x: number, d: number) b(1, 0). b(y, d + w) :- b(x, d), e(x, y, w)."
        "b(x, d1) <= b(x, d2) :- d2 <= d1.",
        [(1, 0), (2, 2), (3, 1), (4, 12)],
    ),
    "the greatest of a column": (
        ".decl b(x: number, y: float) b(1, 0.5). b(1, 2). b(2, -1). b(x, y) <= b(x, z) :- z > y.",
        [(1, 2.0), (2, -1.0)],
    ),
    "what goes with the least": (
        EDGES + PATHS + "b(x, _, d1) <= b(x, _, d2) :- d2 < d1.",
        [(1, 0, 0), (2, 3, 2), (3, 1, 1), (4, 2, 12)],
    ),
    "one of those that are equally good": (
        ".decl b(x: number, y: number, d: number) b(1, 7, 3). b(1, 5, 3). b(1, 4, 4). b(2, 9, 9)."
        "b(x, y1, d1) <= b(x, y2, d2) :- d2 <= d1.",
        [(1, 5, 3), (2, 9, 9)],
    ),
    "two columns": (POINTS + "b(x, y) <= b(u, v) :- u <= x, y <= v.", [(0, 3), (1, 9), (4, 12)]),
    "alternatives": (
        POINTS + "b(x, y) <= b(u, v) :- (u > x, v > y ; x = u, v < y).",
        [(4, 12)],
    ),
    "a tuple twice": (".decl b(x: number, y: number) b(1, 1). b(2, 2). b(1, 2). b(x, x) <= b(y, y) :- true.",
                      [(1, 1), (1, 2)]),
    "other relations": (
        ".decl p(x: number, y: number) p(1, 2). p(2, 3). p(3, 1). .decl b(x: number) b(1). b(2). b(3). b(9)."
        "b(x) <= b(y) :- p(x, y), x < 3.",
        [(3,), (9,)],
    ),
    "all dominate each other": (".decl b(x: number) b(2). b(1). b(3). b(x) <= b(y) :- x != y.", [(1,)]),
    "constants": (".decl b(x: number, y: number) b(0, 1). b(0, 2). b(1, 1). b(0, x) <= b(1, x) :- true.",
                  [(0, 2), (1, 1)]),
    "a limit": (".decl b(x: number) b(1). b(x + 1) :- b(x), x < 1000. .limitsize b(n=4)",
                [(1,), (2,), (3,), (4,)]),
    "a limit that a round exceeds": (
        ".decl b(x: number) b(1). b(2 * x) :- b(x). b(2 * x + 1) :- b(x). .limitsize b(n=4)",
        [(x,) for x in range(1, 8)],
    ),
    "a limit of a relation that is not recursive": (
        ".decl a(x: number) a(1). a(2). .decl b(x: number) b(x) :- a(x). .limitsize b(n=1)",
        [(1,), (2,)],
    ),
    "a spanning tree": (
        '.decl e(u: symbol, v: symbol) e("a", "b"). e("b", "a"). e("b", "c"). e("a", "c"). e("x", "y").'
        '.decl b(u: symbol, v: symbol) choice-domain v b("root", "a"). b(u, v) :- b(_, u), e(u, v).',
        [("a", "b"), ("a", "c"), ("root", "a")],
    ),
    "a total order": (
        '.decl d(x: symbol) d("a"). d("b"). d("c"). .decl b(p: symbol, n: symbol) choice-domain p, n'
        ' b("", "nil"). b(p, n) :- d(n), b(_, p).',
        [("", "nil"), ("a", "b"), ("b", "c"), ("nil", "a")],
    ),
    "a choice by two columns": (
        '.decl s(s: symbol, m: symbol, y: number) s("x", "cs", 1). s("x", "ma", 1). s("x", "ma", 2).'
        '.decl p(s: symbol, m: symbol) p("p1", "cs"). p("p2", "ma"). p("p0", "ma").'
        ".decl b(s: symbol, y: number, p: symbol) choice-domain (s, y) b(s, y, p) :- s(s, m, y), p(p, m).",
        [("x", 1, "p0"), ("x", 2, "p0")],
    ),
    "a matching of what is given": (
        ".decl b(x: number, y: number) choice-domain x, y b(1, 1). b(1, 2). b(2, 1). b(2, 2). b(3, 2).",
        [(1, 1), (2, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_what_is_kept(text: str, expected: Rows) -> None:
    assert sorted(kpg.connect().datalog(text).rows("b")) == expected


MAINTAINED = {
    "paths": PATHS + "b(x, _, d1) <= b(x, _, d2) :- d2 < d1.",
    "one path": PATHS + "b(x, y, d1) <= b(x, z, d2) :- d2 <= d1.",
    "frontier": ".decl b(x: number, y: number) b(x, y) :- e(x, y, _). b(x, y) <= b(u, v) :- u <= x, y <= v.",
    "negation": ".decl b(x: number, y: number) b(x, y) :- e(x, y, _). b(x, y) <= b(y, z) :- e(x, z, _).",
    "tree": ".decl b(x: number, y: number) choice-domain y b(0, 1). b(x, y) :- b(_, x), e(x, y, _).",
    "matching": ".decl b(x: number, y: number) choice-domain x, y b(x, y) :- e(x, y, _).",
    "choice": ".decl b(x: number, y: number) choice-domain x b(x, y) :- e(x, y, _).",
    "limit": ".decl b(x: number, y: number) b(x, y) :- e(x, y, _). b(x, z) :- b(x, y), e(y, z, _)."
    ".limitsize b(n=6)",
}


@pytest.mark.slow
@pytest.mark.parametrize("rules", MAINTAINED.values(), ids=MAINTAINED)
def test_what_is_kept_follows_changes(rules: str) -> None:
    generator = random.Random(rules)
    declared = ".decl e(x: number, y: number, w: number) .input e "
    db = kpg.connect()
    program = db.datalog(declared + rules + " .output b")
    rows: set[tuple[int, int, int]] = set()
    for _ in range(12):
        for _ in range(generator.randint(1, 4)):
            row = (generator.randint(0, 4), generator.randint(0, 4), generator.randint(1, 3))
            rows ^= {row}
            program.update(f"{'+' if row in rows else '-'}e{row}.")
        facts = "".join(f"e{row}. " for row in rows)
        afresh = kpg.connect().datalog(declared + facts + rules)
        assert sorted(program["b"]) == sorted(afresh.rows("b")), rows


def test_goals_about_what_is_kept() -> None:
    program = kpg.connect().datalog(EDGES + PATHS + "b(x, _, d1) <= b(x, _, d2) :- d2 < d1.")
    assert list(program.query("?- b(2, y, d).")) == [(3, 2)]
    assert list(program.query("?- b($x, 1, d).", x=3)) == [(1,)]


def test_proofs_of_what_is_kept() -> None:
    db = kpg.connect()
    db.datalog(CASES["the least of a column"][0])
    assert db.explain_row("b", (2, 2)).height == 2
    db = kpg.connect()
    db.datalog(EDGES + PATHS + "b(x, _, d1) <= b(x, _, d2) :- d2 < d1.")
    with pytest.raises(kpg.NotSupportedError, match="is not kept"):
        db.explain_row("b", (2, 3, 2))


DECLARED = ".decl p(x: number, y: number) p(1, 2). .decl q(x: number, y: number) "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p(x, y) <= q(x, z) :- z < y.", "p cannot be subsumed by q, only by its own tuples"),
        (
            "q(x, min(y)) :- p(x, y). q(x, y) <= q(x, z) :- z < y.",
            "q has an aggregate in its rules' heads, subsumption is not supported beside it",
        ),
        (
            "q(x, y) :- q(y, x). q(x, y) <= q(x, z) :- q(y, z).",
            "subsumption of q by what depends on q is not supported",
        ),
        ("p(x, y) <= p(x, z) :- z < w.", "ungrounded variable w"),
        ("p(x) <= p(x, z) :- true.", "relation p has 2 columns, 1 is given"),
        (".limitsize q(n=x)", ".limitsize takes a number of tuples"),
        (".limitsize q", ".limitsize takes a number of tuples"),
        (".limitsize q(n=1) .limitsize q(n=2)", ".limitsize q is given twice"),
        (".decl c(x: number) choice-domain z", "c has no column z"),
        (
            ".decl c(x: number, y: number) eqrel choice-domain x",
            "c cannot have a choice-domain and be inline or an eqrel",
        ),
        (
            ".decl c(x: number, y: number) choice-domain x c(x, y) <= c(x, z) :- z < y.",
            "c is with choice-domain, it has no subsumption",
        ),
        (
            "q(x, min(y)) :- q(x, y). q(1, 2). .limitsize q(n=1)",
            ".limitsize of q is not supported: q keeps less than is derived",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(DatalogError) as caught:
        check(DECLARED + text, Catalog())
    assert message in [one.message for one in caught.value.diagnostics]


COUNTED = '.decl a(x: number, s: symbol) .input a a(1, "u"). a(2, "u"). a(2, "v"). '


def test_counters_count_the_bindings_of_all_rules() -> None:
    db = kpg.connect()
    program = db.datalog(
        COUNTED + ".decl b(n: number, x: number) .output b b(autoinc(), x) :- a(x, _). b($, -x) :- a(x, _)."
    )
    assert set(program["b"]) == {(0, 1), (1, 2), (2, 2), (3, -1), (4, -2), (5, -2)}
    program.update('+a(3, "w"). -a(1, "u").')
    assert set(program["b"]) == {(0, 2), (1, 2), (2, 3), (3, -2), (4, -2), (5, -3)}
    db.datalog(".decl c(m: number, n: number) c(m, n) :- b(m, x), b(n, y), m = n, x != y. .printsize c")
    assert db.query("SELECT count(*) FROM c").fetchall() == [(0,)]


def test_several_counters_in_a_rule() -> None:
    program = kpg.connect().datalog(
        COUNTED + ".decl b(m: number, n: number) b(autoinc(), n) :- a(_, _), n = autoinc()."
    )
    assert sorted(program.rows("b")) == [(1, 0), (3, 2), (5, 4)]


def test_counters_follow_the_order_of_the_variables_and_of_first_symbols() -> None:
    program = kpg.connect().datalog(
        """
        .decl a(s: symbol, x: number)
        a("z", 2). a("b", 1). a("z", 1).
        .decl b(n: number, s: symbol, x: number)
        b(autoinc() * 10, s, x) :- a(s, x), x < 9.
        .decl c(n: number, k: number)
        c(autoinc(), k) :- b(_, _, x), k = x + 1.
        .decl t(n: number)
        t(autoinc()) :- true.
        .output b
        """
    )
    assert sorted(program.rows("b")) == [(0, "z", 1), (10, "z", 2), (20, "b", 1)]
    assert sorted((*program.rows("t"), *((n,) for n, _ in program.rows("c")))) == [(3,), (4,), (5,), (6,)]


def test_counters_of_recursive_rules_stay() -> None:
    program = kpg.connect().datalog(
        """
        .decl e(x: number, y: number)
        e(1, 2). e(2, 3). e(3, 4).
        .decl p(n: number, x: number)
        p(0, 1).
        p(autoinc(), y) :- p(_, x), e(x, y), y < 4.
        """
    )
    first = set(program["p"])
    assert sorted(x for _, x in first) == [1, 2, 3] and len({n for n, _ in first}) == 3
    program.update("+e(1, 3).")
    assert first < set(program["p"])


def test_strict_is_the_order_of_the_text() -> None:
    program = kpg.connect().datalog(
        """
        .decl e(x: number, y: number)
        e(1, 2). e(2, 3).
        .decl p(x: number, y: number)
        p(x, y) :- e(x, y). .strict
        p(x, z) :- p(x, y), e(y, z), p(x, y). .strict
        """
    )
    assert sorted(program["p"]) == [(1, 2), (1, 3), (2, 3)]


def test_underscores_beside_alternatives_of_an_aggregate_count() -> None:
    program = kpg.connect().datalog(
        """
        .decl a(s: symbol, x: number)
        a("p", 1). a("p", 4). a("q", 2). a("q", 4).
        .decl n(x: number)
        n(x) :- x = count : { a(_, y), (y > 3 ; y < 2) }.
        .decl s(x: number)
        s(x) :- x = sum y : { a(_, y), (y > 3 ; y > 1) }.
        .output n, s
        """
    )
    assert list(program["n"]) == [(3,)] and list(program["s"]) == [(10,)]
