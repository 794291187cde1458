"""``.plan``: the user's order of a body, for each version, in the algebra, the plan and EXPLAIN."""

import re

import pytest

import kpg
from kpg.compiler.algebra.text import parse, rel_text, relations
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.compiler.rules.core import Atom
from kpg.compiler.rules.lower.body import path_orders
from kpg.datalog.program_plans import definition

TABLES = """
.decl a(x: number, y: number) .decl b(x: number, y: number) .decl c(x: number, y: number)
a(1, 2). a(2, 2). b(2, 3). c(3, 4). c(3, 5).
"""
CHAIN = ".decl r(x: number, y: number) r(x, w) :- a(x, y), b(y, z), c(z, w)."
LOOP = ".decl t(x: number, y: number) t(x, y) :- a(x, y). t(x, z) :- t(x, y), a(y, u), t(u, z)."


def orders(text: str, name: str) -> list[list[str]]:
    """Of each relation's changes in the first join, the relations that are looked up, in order."""
    db = kpg.connect()
    lines = db.datalog(TABLES + text).explain(name).splitlines()
    made = {
        found[1]: found[2] for found in (re.match(r" *%(\S+) (.*?)  --", line) for line in lines) if found
    }

    def source(ref: str) -> str:
        while not re.match(r"Source|Variable", made[ref]):
            ref = made[ref].split("%")[1].split()[0]
        return made[ref].removeprefix("Source ")

    found: list[list[str]] = []
    for line in lines:
        delta, half = re.match(r" *%\S+ Delta %(.*?):", line), re.match(r" *%\S+ HalfJoin %(\S+)", line)
        if delta:
            found.append([source(delta[1])])
        elif half:
            found[-1].append(source(half[1]))
    return found


def test_without_a_plan_each_change_is_followed_along_the_chain() -> None:
    assert orders(CHAIN, "r") == [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]]


def test_a_plan_orders_the_lookups_of_every_change() -> None:
    assert orders(f"{CHAIN} .plan 0:(3, 1, 2)", "r") == [["a", "c", "b"], ["b", "c", "a"], ["c", "a", "b"]]
    assert orders(f"{CHAIN} .plan (2, 3, 1)", "r") == [["a", "b", "c"], ["b", "c", "a"], ["c", "b", "a"]]


def test_versions_are_the_recursive_atoms() -> None:
    free = [
        ["Variable 0", "a", "Variable 0"],
        ["a", "Variable 0", "Variable 0"],
        ["Variable 0", "a", "Variable 0"],
    ]
    assert orders(LOOP, "t") == free
    first = orders(f"{LOOP} .plan 0:(1, 3, 2)", "t")
    assert first == [["Variable 0", "Variable 0", "a"], free[1], free[2]]
    second = orders(f"{LOOP} .plan 1:(3, 1, 2)", "t")
    assert second == [free[0], free[1], ["Variable 0", "Variable 0", "a"]]


def test_orders_by_version() -> None:
    program = check(f"{TABLES}{LOOP}", Catalog()).program
    rule = program.rules[-1]
    atoms = [one for one in rule.body if isinstance(one, Atom)]
    both = ((0, (2, 1, 0)), (1, (1, 0, 2)))
    assert path_orders(both, atoms, frozenset({"t"}), 3) == ((2, 1), (2, 0), (1, 0))
    assert path_orders(both[1:], atoms, frozenset({"t"}), 3) == ((), (), (1, 0))
    assert path_orders(both[:1], atoms, frozenset(), 4) == (
        (2, 1, 3),
        (2, 0, 3),
        (1, 0, 3),
        (2, 1, 0),
    )
    assert path_orders((), atoms, frozenset(), 3) == ()


@pytest.mark.parametrize(
    "plan", ["", ".plan 0:(3, 2, 1)", ".plan 0:(1, 3, 2), 1:(3, 1, 2)", ".plan (2, 1, 3)"]
)
def test_a_plan_changes_no_answer(plan: str) -> None:
    db = kpg.connect()
    program = db.datalog(f"{TABLES}{LOOP} {plan} {CHAIN} {plan.partition(', 1:')[0]} .output t .output r")
    assert sorted(program["r"]) == [(1, 4), (1, 5), (2, 4), (2, 5)]
    program.update("+a(3, 1). +a(2, 3). -a(2, 2). -b(2, 3). +b(3, 3).")
    edges = {(1, 2), (3, 1), (2, 3)}
    expected = set(edges)
    while True:
        more = {(x, z) for x, y in expected for y2, u in edges for u2, z in expected if y == y2 and u == u2}
        if more <= expected:
            break
        expected |= more
    assert set(program["t"]) == expected
    assert sorted(program["r"]) == [(2, 4), (2, 5)]


def test_ranges_are_no_atoms_of_the_text() -> None:
    text = ".decl r(x: number, y: number) r(x, z) :- a(x, y), x = range(0, 9), b(y, z). .plan (2, 1)"
    assert [order[0] for order in check(TABLES + text, Catalog()).program.rules[-1].plan] == [0]
    assert sorted(kpg.connect().datalog(TABLES + text)["r"]) == [(1, 3), (2, 3)]


def test_orders_are_part_of_the_algebra_s_text() -> None:
    db = kpg.connect()
    program = db.datalog(f"{TABLES}{CHAIN} .plan (3, 1, 2)")
    rel = definition(program.installation.lowering, "r", db._engine.catalog, frozenset())
    assert "orders=[[2, 1], [2, 0], [0, 1]]" in rel_text(rel)
    assert parse(rel_text(rel), relations(rel)) == rel


def warnings(text: str) -> list[str]:
    return [f"{one.code}: {one.message}" for one in check(TABLES + text, Catalog()).warnings]


def test_warnings() -> None:
    assert warnings(f"{LOOP} .plan 1:(1, 2, 3)") == []
    inlined = (
        ".decl i(x: number) inline i(x) :- a(x, _). .decl r(x: number) r(x) :- i(x), b(x, _). .plan (2, 1)"
    )
    assert warnings(inlined) == ["plan: the plan is not followed, since relations are inlined in the rule"]
