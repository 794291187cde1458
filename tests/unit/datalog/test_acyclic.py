"""Cycles in tables, and what goals make of them."""

import random

import networkx
import numpy as np
import pytest

import kpg
from kpg.datalog.goal_plan import is_acyclic
from tests.model.datalog import answers

PROGRAM = """
.decl e(a: number, b: number)
.decl sg(a: number, b: number)
sg(x, y) :- e(p, x), e(p, y), x != y.
sg(x, y) :- e(a, x), sg(a, b), e(b, y).
"""


@pytest.mark.parametrize("seed", range(30))
def test_against_networkx(seed: int) -> None:
    choice = random.Random(seed)
    nodes = choice.randrange(2, 30)
    edges = [(choice.randrange(nodes), choice.randrange(nodes)) for _ in range(choice.randrange(nodes))]
    graph = networkx.DiGraph(edges)
    words = np.array(edges, np.int64).reshape(-1, 2).T
    assert is_acyclic(words[0], words[1]) == networkx.is_directed_acyclic_graph(graph)
    if networkx.is_directed_acyclic_graph(graph) and edges:
        longest = networkx.dag_longest_path_length(graph)
        assert is_acyclic(words[0], words[1], longest)
        assert not is_acyclic(words[0], words[1], longest - 1)


def test_goals_are_right_when_cycles_come() -> None:
    with kpg.connect() as db:
        program = db.datalog(PROGRAM)
        rows = {(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)}
        db.insert("e", sorted(rows))
        goal = program.prepare("?- sg($a, x).")
        assert goal.explain().startswith("from what is asked, by levels")
        text = program.check_text("?- sg($a, x).").program
        for row in ((5, 0), (6, 6), (6, 2)):
            db.insert("e", [row])
            rows.add(row)
            for node in range(7):
                expected = answers(text, {"e": rows}, text.goals[0], a=node)
                assert set(goal(a=node)) == expected
        assert not program.prepare("?- sg(x, $b).").explain().startswith("from what is asked, by levels")
