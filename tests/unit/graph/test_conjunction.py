"""Joins of several collections by variables, against plain Python."""

from collections import Counter
from itertools import product

import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import step, watch
from tests.unit.graph.changing import Bag, history, weighted_edges

PATTERNS = {
    "two hops": ("ac", "ab", "bc"),
    "three hops, ends only": ("ad", "ab", "bc", "cd"),
    "a triangle": ("abc", "ab", "bc", "ca"),
    "a diamond": ("ad", "ab", "ac", "bd", "cd"),
    "a star": ("bcd", "ab", "ac", "ad"),
    "in common": ("xyz", "xz", "yz"),
    "nothing shared": ("abcd", "ab", "cd"),
    "to and fro": ("a", "ab", "ba"),
}


def answer(edges: Bag, head: str, *body: str) -> Counter[tuple[object, ...]]:
    """Every choice of an edge for each atom."""
    pairs: Counter[tuple[int, int]] = Counter()
    for (src, dst, _), count in edges.items():
        pairs[src, dst] += count
    found: Counter[tuple[object, ...]] = Counter()
    for chosen in product(pairs.items(), repeat=len(body)):
        values: dict[str, int] = {}
        times = 1
        for (a, b), (pair, count) in zip(body, chosen, strict=True):
            if values.setdefault(a, pair[0]) != pair[0] or values.setdefault(b, pair[1]) != pair[1]:
                break
            times *= count
        else:
            found[tuple(values[name] for name in head)] += times
    return found


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_in_one_relation(flow: kpg.Dataflow, per_step: int, name: str) -> None:
    head, *body = PATTERNS[name]
    edges = weighted_edges(flow)
    pairs = edges.project("src", "dst")
    found = watch(graph.conjunction(head, *((pairs, atom) for atom in body)))
    for time, now in history(flow, edges, 3, nodes=5, times=9, per_step=per_step):
        assert found.at(time) == answer(now, head, *body)


def test_of_a_table_and_an_input(db: kpg.Database, flow: kpg.Dataflow) -> None:
    """The table is looked up by its key through rowids, where it is known as a whole too."""
    db.sql("CREATE TABLE city (name TEXT NOT NULL, land TEXT NOT NULL)")
    db.sql("INSERT INTO city VALUES ('Oslo', 'no'), ('Bergen', 'no'), ('Bonn', 'de')")
    city = flow.import_("city")
    road = flow.input("road", a=str, b=str)
    found = watch(
        graph.conjunction(("a", "b", "land"), (road, "ab"), (city, ("a", "land")), (city, ("b", "land")))
    )
    road.insert([("Oslo", "Bergen"), ("Oslo", "Bonn")])
    step(flow, road)
    assert found.at() == {("Oslo", "Bergen", "no"): 1}
    db.sql("DELETE FROM city WHERE name = 'Bergen'")
    db.sql("INSERT INTO city VALUES ('Bonn', 'no')")
    assert found.at() == {("Oslo", "Bonn", "no"): 1}


def test_what_does_not_fit(flow: kpg.Dataflow) -> None:
    pairs, names = flow.input("pairs", a=int, b=int), flow.input("names", a=int, title=str)
    for head, atoms, message in (
        ("ab", [(pairs, "ab")], "two atoms"),
        ("ab", [(pairs, "abc"), (pairs, "bc")], "3 variables for columns a, b"),
        ("ab", [(pairs, "ab"), (names, "ab")], "variable b is BIGINT and VARCHAR"),
        ("ax", [(pairs, "ab"), (pairs, "bc")], "variable x is in no atom"),
        ("aa", [(pairs, "ab"), (pairs, "bc")], 'called "a"'),
        ("ab", [(pairs, "aa"), (pairs, "ab")], 'called "a"'),
    ):
        with pytest.raises(kpg.ProgrammingError, match=message):
            graph.conjunction(head, *atoms)
