"""What goals are answered is what the whole program has for them, whatever rewrite is used.

First by the naive evaluator, for every relation and adornment; then on the engine, as facts and goals come
and go.
"""

import itertools
import random
from collections.abc import Iterator, Mapping

import pytest

from kpg.compiler.rules import core
from kpg.compiler.rules.magic import GoalProgram, Policy, prepare
from tests.model import graphs
from tests.model.datalog import Tuples, run
from tests.model.rules import program
from tests.properties.datalog import Session
from tests.properties.programs import WRITTEN, random_program

NODES = 7
POLICIES = {
    "default": Policy(),
    "magic sets only": Policy(linear=False, max_levels=None),
    "by levels": Policy(count_always=True, max_levels=NODES + 1),
    "by few levels": Policy(count_always=True, max_levels=2, linear=False),
}
Goal = tuple[str, tuple[bool, ...]]
Tables = dict[str, frozenset[tuple[int, ...]]]


def _tables(seed: int) -> Tables:
    choice = random.Random(seed)
    make = graphs.acyclic if seed % 3 == 0 else graphs.any_graph
    nodes = frozenset((choice.randrange(NODES),) for _ in range(choice.randrange(4)))
    return {"e": make(NODES, 5 + seed % 6, seed), "f": make(NODES, 4 + seed % 3, seed + 1), "u": nodes}


def _goals(checked: core.Program) -> Iterator[Goal]:
    for name, relation in checked.relations.items():
        if relation.kind is core.Kind.DERIVED:
            for bound in itertools.product((True, False), repeat=len(relation.columns)):
                yield name, bound


def _given(prepared: GoalProgram, row: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(value for value, one in zip(row, prepared.bound, strict=True) if one)


def _seeds(prepared: GoalProgram, choice: random.Random) -> frozenset[tuple[int, ...]]:
    width = sum(prepared.bound)
    return frozenset(tuple(choice.randrange(NODES) for _ in range(width)) for _ in range(choice.randrange(4)))


def _expected(prepared: GoalProgram, whole: Tuples, seeds: frozenset[tuple[int, ...]]) -> Tuples:
    return frozenset(row for row in whole if prepared.seed is None or _given(prepared, row) in seeds)


def _check(checked: core.Program, tables: Tables, policy: Policy, seed: int) -> None:
    whole = run(checked, tables)
    choice = random.Random(seed)
    for name, bound in _goals(checked):
        prepared = prepare(checked, name, bound, policy)
        seeds = _seeds(prepared, choice)
        asked: Mapping[str, frozenset[tuple[int, ...]]] = (
            tables if prepared.seed is None else {**tables, prepared.seed: seeds}
        )
        found = run(prepared.program, asked)[prepared.answer]
        assert found == _expected(prepared, whole[name], seeds), prepared.explanation.text()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", WRITTEN)
def test_answers_are_those_of_the_whole_program(name: str, policy: str) -> None:
    checked = program(WRITTEN[name])
    seed = list(POLICIES).index(policy)
    _check(checked, _tables(seed), POLICIES[policy], seed)


@pytest.mark.parametrize("seed", range(24))
def test_answers_of_random_programs(seed: int) -> None:
    checked = program(random_program(seed))
    policy = list(POLICIES.values())[seed % len(POLICIES)]
    _check(checked, _tables(seed), policy, seed)


def _change(session: Session, prepared: GoalProgram, choice: random.Random) -> None:
    """Insert, delete and re-insert facts and goals at random."""
    added: dict[str, frozenset[tuple[int, ...]]] = {}
    removed: dict[str, frozenset[tuple[int | None, ...]]] = {}
    for name, rows in session.rows.items():
        width = len(session.program.relations[name].columns)
        new = (tuple(choice.randrange(NODES) for _ in range(width)) for _ in range(choice.randrange(3)))
        added[name] = frozenset(new)
        count = min(len(rows), choice.randrange(3))
        removed[name] = frozenset(choice.sample(sorted(rows), count))
    session.change(added, removed)


def _check_engine(checked: core.Program, goal: Goal, policy: Policy, seed: int) -> None:
    name, bound = goal
    prepared = prepare(checked, name, bound, policy)
    choice = random.Random(seed)
    tables = {t: rows for t, rows in _tables(seed).items() if t in prepared.program.relations}
    session = Session(prepared.program, tables, only=[prepared.answer])
    for _ in range(5):
        _change(session, prepared, choice)
        facts = {table: rows for table, rows in session.rows.items() if table in checked.relations}
        seeds = frozenset() if prepared.seed is None else frozenset(session.rows[prepared.seed])
        expected = _expected(prepared, run(checked, facts)[name], seeds)
        assert session.read(prepared.answer) == expected, prepared.explanation.text()


@pytest.mark.parametrize("name", WRITTEN)
def test_goals_on_the_engine(name: str) -> None:
    checked = program(WRITTEN[name])
    goals = list(_goals(checked))
    choice = random.Random(name)
    policies = list(POLICIES.values())
    for goal in choice.sample(goals, min(2, len(goals))):
        _check_engine(checked, goal, choice.choice(policies), choice.randrange(100))


@pytest.mark.parametrize("seed", range(100, 108))
def test_goals_of_random_programs_on_the_engine(seed: int) -> None:
    checked = program(random_program(seed))
    goal = random.Random(seed).choice([g for g in _goals(checked) if any(g[1])])
    _check_engine(checked, goal, list(POLICIES.values())[seed % len(POLICIES)], seed)
