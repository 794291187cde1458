"""Numbered bindings, aggregates over alternatives and loops that end early, against plain Python.

Facts come and go; after each update every relation is what the program says of the facts, evaluated naively.
"""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

import kpg

Pairs = set[tuple[int, int]]
FACTS = ".decl e(x: number, y: number) .input e .decl f(x: number) .input f\n"
COUNTING = """
    .decl b(n: number, x: number, y: number)
    b(autoinc(), x, y) :- e(x, y), !f(x).
    b(autoinc() * 2 + autoinc(), y, x) :- f(x), e(x, y), y > 0.
    .decl c(n: number, x: number)
    c(autoinc(), x) :- b(_, x, _).
    .decl k(x: number, n: number)
    k(x, n) :- f(x), n = count : { e(_, y), (y = x ; y > x + 1) }.
    .decl s(x: number, n: number)
    s(x, n) :- f(x), n = sum y : { e(z, y), (z < x ; y < x), y != 1 }.
    .output b, c, k, s
"""
UNTIL = """
    .decl e(x: int32, y: int32)
    .decl f(x: int32)
    e(9, 9). f(9).
    .decl r(x: int32, y: int32)
    .decl far(x: int32)
    .decl done()
    r(x, y) :- e(x, y).
    loop until { done } {
        r(x, z) :- r(x, y), e(y, z).
        far(y) :- r(x, y), x < y.
        done() :- r(x, x), f(x).
    }
    .output r, far, done
"""
VALUE = st.integers(0, 4)
PAIRS = st.sets(st.tuples(VALUE, VALUE), max_size=7)
SINGLES = st.sets(VALUE, max_size=3)
HISTORY = st.lists(st.tuples(PAIRS, SINGLES), min_size=1, max_size=3)


def _counting(e: Pairs, f: set[int]) -> dict[str, set[tuple[int, ...]]]:
    first = sorted((x, y) for x, y in e if x not in f)
    second = sorted((x, y) for x, y in e if x in f and y > 0)
    b = {(n, x, y) for n, (x, y) in enumerate(first)}
    for place, (x, y) in enumerate(second):
        n = len(first) + 2 * place
        b.add((n * 2 + n + 1, y, x))
    taken = len(first) + 2 * len(second)
    # A wildcard is a column, too: the bindings of the last rule are rows of b, x first as it is in the head.
    c = {(taken + n, x) for n, (_, x, _) in enumerate(sorted(b))}
    k = {(x, sum(1 for _, y in e if y == x or y > x + 1)) for x in f}
    s = {(x, sum(y for z, y in e if (z < x or y < x) and y != 1)) for x in f}
    return {"b": b, "c": c, "k": k, "s": s}


def _until(e: Pairs, f: set[int]) -> dict[str, set[tuple[int, ...]]]:
    r, far, done = set(e), set[tuple[int]](), False
    while not done:
        new = r | {(x, z) for x, y in r for w, z in e if w == y}
        more = far | {(y,) for x, y in r if x < y}
        done = any(x == y and x in f for x, y in r)
        if (new, more) == (r, far) and not done:
            break
        r, far = new, more
    return {"r": set(r), "far": set(far), "done": {(0,)} if done else set()}


def _update(program: "kpg.datalog.Program", old: Iterable[str], new: Iterable[str]) -> None:
    was, now = set(old), set(new)
    text = " ".join([*(f"-{one}." for one in sorted(was - now)), *(f"+{one}." for one in sorted(now - was))])
    if text:
        program.update(text)


def _texts(e: Pairs, f: set[int]) -> list[str]:
    return [*(f"e({x}, {y})" for x, y in e), *(f"f({x})" for x in f)]


@settings(max_examples=12)
@given(HISTORY)
def test_numbers_and_counts_follow_the_facts(history: list[tuple[Pairs, set[int]]]) -> None:
    with kpg.connect() as db:
        program = db.datalog(FACTS + COUNTING)
        before: list[str] = []
        for e, f in history:
            _update(program, before, _texts(e, f))
            before = _texts(e, f)
            expected = _counting(e, f)
            assert {name: set(program[name]) for name in expected} == expected


@settings(max_examples=12)
@given(HISTORY)
def test_a_loop_ends_early_whatever_the_facts_become(history: list[tuple[Pairs, set[int]]]) -> None:
    with kpg.connect() as db:
        program = db.datalog(UNTIL)
        before = ["e(9, 9)", "f(9)"]
        for e, f in history:
            _update(program, before, _texts(e, f))
            before = _texts(e, f)
            expected = _until(e, f)
            assert {name: set(program[name]) for name in expected} == expected
