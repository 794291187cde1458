"""The naive evaluator of core programs against closed forms and against clingo."""

import re

import clingo
import pytest

from tests.model import graphs
from tests.model.datalog import run
from tests.model.rules import program

TC = "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y)."
SG = "sg(x, y) :- e(p, x), e(p, y), x != y. sg(x, y) :- e(a, x), sg(a, b), e(b, y)."


@pytest.mark.parametrize("size", [1, 5])
def test_closed_forms_on_grids(size: int) -> None:
    edges = graphs.grid(size)
    assert len(run(program(TC), {"e": edges})["tc"]) == graphs.grid_tc(size)
    assert len(run(program(SG), {"e": edges})["sg"]) == graphs.grid_sg(size)


def test_same_generation_on_a_tree_is_every_pair_of_a_level() -> None:
    found = run(program(SG), {"e": graphs.binary_tree(4)})["sg"]
    assert len(found) == sum(2**level * (2**level - 1) for level in range(1, 5))


def test_counts_and_sums_of_nothing_are_zero_and_minima_fail() -> None:
    text = """
        size(x, c) :- node(x), c = count : { e(x, _) }.
        total(x, s) :- node(x), s = sum y : { e(x, y) }.
        least(x, m) :- node(x), m = min y : { e(x, y) }.
    """
    found = run(program(text), {"node": [(1,), (2,)], "e": [(1, 5), (1, 6)]})
    assert found["size"] == {(1, 2), (2, 0)}
    assert found["total"] == {(1, 11), (2, 0)}
    assert found["least"] == {(1, 5)}


def test_every_binding_counts_once() -> None:
    text = """
        pairs(c) :- c = count : { e(x, y), e(y, _) }.
        n(count(z)) :- e(x, y), e(y, z).
        s(x, sum(y)) :- e(x, y). s(x, sum(y)) :- f(x, y).
        some(max(y)) :- none(y).
    """
    rows = {"e": [(1, 2), (2, 3), (2, 4)], "f": [(1, 2)], "none": []}
    found = run(program(text), rows)
    assert found["pairs"] == {(2,)} and found["n"] == {(2,)}
    assert found["s"] == {(1, 4), (2, 7)} and found["some"] == frozenset()


def test_shortest_paths_by_a_recursive_minimum() -> None:
    text = "d(x, min(n0)) :- root(x), n0 = 0 + 0. d(y, min(n1)) :- d(x, c), w(x, y, v), n1 = c + v."
    rows = {"root": [(1,)], "w": [(1, 2, 5), (1, 3, 1), (3, 2, 1), (2, 1, 0), (2, 4, 1)]}
    assert run(program(text), rows)["d"] == {(1, 0), (2, 2), (3, 1), (4, 3)}


STRATIFIED = """
    reach(x) :- root(x). reach(y) :- reach(x), e(x, y).
    node(x) :- e(x, _). node(y) :- e(_, y).
    lost(x) :- node(x), !reach(x).
    odd(y) :- even(x), e(x, y). even(x) :- root(x). even(y) :- odd(x), e(x, y).
    both(x) :- even(x), odd(x), !e(x, x).
    sink(x) :- node(x), !e(x, _).
    far(x, y) :- reach(x), lost(y), !e(x, y), x < y.
"""


def _by_clingo(text: str, rows: dict[str, frozenset[tuple[int, ...]]]) -> dict[str, set[tuple[int, ...]]]:
    rules = re.sub(r"\b[a-z]\b(?!\()", lambda m: m.group().upper(), text)
    rules = re.sub(r"!(?!=)", "not ", rules)
    facts = "".join(f"{name}({','.join(map(str, row))})." for name, found in rows.items() for row in found)
    control = clingo.Control(["--warn=none"])
    control.add("base", [], rules + facts)
    control.ground([("base", [])])
    found: dict[str, set[tuple[int, ...]]] = {}
    with control.solve(yield_=True) as solution:
        (symbols,) = [model.symbols(atoms=True) for model in solution]
    for symbol in symbols:
        row = tuple(argument.number for argument in symbol.arguments)
        found.setdefault(symbol.name, set()).add(row)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_stratified_programs_against_clingo(seed: int) -> None:
    rows: dict[str, frozenset[tuple[int, ...]]] = {
        "e": graphs.any_graph(8, 4 + seed, seed),
        "root": frozenset({(seed % 3,)}),
    }
    expected = _by_clingo(TC.replace("tc", "t") + SG + STRATIFIED, rows)
    found = run(program(TC.replace("tc", "t") + SG + STRATIFIED), rows)
    for name, tuples in found.items():
        assert tuples == expected.get(name, set()), name
