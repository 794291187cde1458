"""Lowered programs on the real engine against the naive evaluator, as facts come and go."""

import random
from dataclasses import replace

import pytest

from kpg.compiler.rules import core
from tests.model import graphs
from tests.model.datalog import run
from tests.model.rules import program
from tests.properties.datalog import Session
from tests.properties.programs import random_program

PROGRAMS = {
    "closure": "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y).",
    "closure squared": "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), tc(z, y).",
    "same generation": """
        sg(x, y) :- e(p, x), e(p, y), x != y.
        sg(x, y) :- e(a, x), sg(a, b), e(b, y).
    """,
    "mutual recursion": """
        odd(x, y) :- e(x, y). odd(x, y) :- even(x, z), e(z, y).
        even(x, y) :- odd(x, z), e(z, y).
        both(x) :- odd(x, y), even(x, y).
    """,
    "negation": """
        reach(x) :- root(x). reach(y) :- reach(x), e(x, y).
        node(x) :- e(x, _). node(y) :- e(_, y).
        lost(x) :- node(x), !reach(x).
        sink(x) :- node(x), !e(x, _).
        lonely(x) :- node(x), !e(x, x), !e(_, x), !root(x).
        no_root(1) :- !root(_).
        none(x) :- node(x), !root(3).
    """,
    "negation below recursion": """
        blocked(x) :- root(x), e(x, x).
        path(x, y) :- e(x, y), !blocked(y).
        path(x, y) :- path(x, z), e(z, y), !blocked(y), !e(y, x).
    """,
    "wildcards": """
        source(x) :- e(x, _), !e(_, x).
        twice(x) :- e(x, _), e(_, x).
        some(1) :- e(_, _).
        loop(x) :- e(x, x).
        from_two(y) :- e(2, y).
    """,
    "body aggregates": """
        node(x) :- e(x, _). node(y) :- e(_, y).
        degree(x, c) :- node(x), c = count : { e(x, _) }.
        total(x, s) :- node(x), s = sum y : { e(x, y), y > 2 }.
        least(x, m) :- node(x), m = min y : { e(x, y) }.
        top(m) :- m = max y : { e(_, y) }.
        size(c) :- c = count : { e(_, _) }.
        weight(s) :- s = sum x * y : { e(x, y), root(y) }.
        bigger(x, c) :- root(x), c = count : { node(y), y > x }.
        sums(x, c, n0) :- degree(x, c), n0 = c + x, c = count : { e(_, x) }.
        nested(x, c) :- node(x), c = count : { e(x, y), k = count : { e(y, _) }, k > 1 }.
        joined(x, a) :- node(x), n1 = x + 1, a = sum y : { e(n1, y), e(x, y) }.
    """,
    "head aggregates": """
        fan(x, count(y)) :- e(x, y).
        reached(count(y)) :- e(x, y), root(x).
        mass(x, sum(y)) :- e(x, y). mass(x, sum(y)) :- e(y, x), root(y).
        span(x, min(y), max(y)) :- e(x, y).
        mixed(count(y), x, max(y)) :- e(x, y), e(y, _).
        best(max(c)) :- fan(x, c).
        all_of(min(x), sum(y)) :- e(x, y), root(z).
    """,
    "shortest paths": """
        d(x, min(n0)) :- root(x), n0 = x - x.
        d(y, min(n1)) :- d(x, c), e(x, y), n1 = c + y.
        near(x) :- d(x, c), c < 6.
    """,
    "components": """
        cc(x, min(x)) :- e(x, _). cc(x, min(x)) :- e(_, x).
        cc(y, min(c)) :- cc(x, c), e(x, y). cc(x, min(c)) :- cc(y, c), e(x, y).
        size(c, count(x)) :- cc(x, c).
    """,
    "functors": """
        p(x) :- root(x). p(n0) :- p(x), n0 = x + 2, n0 < 15.
        q(x, y) :- p(x), p(y), y = x * 2.
        r(n1, n2) :- e(x, y), n1 = x + y, n2 = n1 * n1, n2 > x.
        constants(1, x, 2) :- root(x).
        s(x) :- e(x, y), x + 1 = y.
    """,
    "no atoms": """
        one(1). one(n0) :- one(x), n0 = x + 1, n0 < 5.
        ok() :- one(3). ko() :- one(9). use(x) :- root(x), ok(), !ko().
    """,
}


def _start(seed: int) -> dict[str, frozenset[tuple[int, ...]]]:
    return {"e": graphs.any_graph(7, 9, seed), "root": frozenset({(1,), (3,)})}


def _check(session: Session, checked: core.Program) -> None:
    expected = run(checked, {name: frozenset(rows) for name, rows in session.rows.items()})
    for name, relation in checked.relations.items():
        if relation.kind is core.Kind.DERIVED:
            assert session.read(name) == expected[name], name


@pytest.mark.parametrize("name", PROGRAMS)
def test_engine_is_naive_evaluation_after_every_change(name: str) -> None:
    checked = program(PROGRAMS[name])
    inputs = {r.name for r in checked.relations.values() if r.kind is core.Kind.INPUT}
    start = {table: rows for table, rows in _start(1).items() if table in inputs}
    session = Session(checked, start)
    _check(session, checked)
    choice = random.Random(name)
    for _ in range(6):
        edges = frozenset((choice.randrange(7), choice.randrange(7)) for _ in range(choice.randrange(4)))
        roots = frozenset({(choice.randrange(7),)})
        gone = frozenset(choice.sample(sorted(session.rows.get("e", [])), 2) if "e" in inputs else [])
        added = {t: rows for t, rows in {"e": edges, "root": roots}.items() if t in inputs}
        removed = {"e": gone, "root": frozenset(session.rows.get("root", ()))}
        session.change(added, {t: rows for t, rows in removed.items() if t in inputs})
        _check(session, checked)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int) -> None:
    """Also with the literals and the rules in another order."""
    checked = program(random_program(seed))
    choice = random.Random(seed)
    bodies = [choice.sample(rule.body, len(rule.body)) for rule in checked.rules]
    rules = [replace(rule, body=tuple(body)) for rule, body in zip(checked.rules, bodies, strict=True)]
    mixed = replace(checked, rules=tuple(choice.sample(rules, len(rules))))
    start = {"e": graphs.any_graph(7, 8, seed), "f": graphs.any_graph(7, 6, seed + 1)}
    sessions = [Session(one, start) for one in (checked, mixed)]
    for step in range(3):
        added = {"e": graphs.any_graph(7, 3, step), "u": frozenset({(choice.randrange(7),)})}
        removed = {
            "f": frozenset(choice.sample(sorted(start["f"]), 2)),
            "e": graphs.any_graph(7, 3, 5 - step),
        }
        for session in sessions:
            session.change(added, removed)
            _check(session, checked)


@pytest.mark.parametrize("name", PROGRAMS)
def test_relations_that_read_each_other_as_views(name: str) -> None:
    checked = program(PROGRAMS[name])
    start = {table: rows for table, rows in _start(2).items() if table in checked.relations}
    session = Session(checked, start, one_by_one=True)
    _check(session, checked)
    session.change({t: rows for t, rows in _start(3).items() if t in checked.relations}, start)
    _check(session, checked)


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_without_passes_mean_the_same(name: str) -> None:
    checked = program(PROGRAMS[name])
    start = {table: rows for table, rows in _start(2).items() if table in checked.relations}
    _check(Session(checked, start, passes=()), checked)
