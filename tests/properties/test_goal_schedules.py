"""Goals asked, followed, left and dropped at random while facts come and go, transactions among them.

Limits are made small, so that seeds are kept and given up, states outgrow their bounds, and strategies change
under those who follow.
"""

import random
from typing import Any

import pytest

import kpg
from kpg.datalog import Goal, Program, goal_plan
from kpg.datalog.dispatch import programs
from kpg.datalog.goal import Answers
from tests.model.datalog import run
from tests.model.lives import Lives

NODES = 7
TEXT = """
.decl e(a: number, b: number)
.input e
.decl root(a: number)
.input root
.decl tc(a: number, b: number)
tc(x, y) :- e(x, y).
tc(x, y) :- tc(x, z), e(z, y).
.decl back(a: number, b: number)
back(x, y) :- e(x, y).
back(x, y) :- e(x, z), back(z, y).
.decl sg(a: number, b: number)
sg(x, y) :- e(p, x), e(p, y), x != y.
sg(x, y) :- e(a, x), sg(a, b), e(b, y).
.decl both(a: number, b: number)
both(x, y) :- tc(x, y), back(y, x).
both(x, y) :- both(x, z), both(z, y).
.decl far(a: number, b: number)
far(x, y) :- tc(x, y), !e(x, y), root(x).
.decl d(a: number, b: number, n: number)
d(x, x, min(0)) :- root(x).
d(x, z, min(n + 1)) :- d(x, y, n), e(y, z).
"""
BOUND = {
    "?- tc($a, x).": ("tc", (0,)),
    "?- tc(x, $a).": ("tc", (1,)),
    "?- tc($a, $b).": ("tc", (0, 1)),
    "?- back($a, x).": ("back", (0,)),
    "?- sg($a, x).": ("sg", (0,)),
    "?- sg(x, $a).": ("sg", (1,)),
    "?- both($a, x).": ("both", (0,)),
    "?- both(x, $a).": ("both", (1,)),
    "?- far(x, $a).": ("far", (1,)),
    "?- d($a, x, n).": ("d", (0,)),
    "?- d(x, $a, n).": ("d", (1,)),
}


class Schedule:
    """A database with goals, and what is known to be true of it."""

    def __init__(self, seed: int, lives: Lives | None = None) -> None:
        self.choice = random.Random(seed)
        self.lives = lives
        self.db = kpg.connect() if lives is None else lives.db
        self.program: Program = self.db.datalog(TEXT)
        self.goals: dict[Goal, str] = {}
        self.followed: list[tuple[Answers, str, tuple[int, ...], dict[Any, int]]] = []

    def expected(self, text: str, given: tuple[int, ...]) -> list[tuple[object, ...]]:
        relation, places = BOUND[text]
        facts = {name: frozenset(self.db.query(f"SELECT * FROM {name}")) for name in ("e", "root")}
        rows = run(self.program.checked.program, facts)[relation]
        chosen = [row for row in rows if tuple(row[place] for place in places) == given]
        if len(places) == 2:
            return [(True,)] if chosen else []
        return sorted(tuple(v for place, v in enumerate(row) if place not in places) for row in chosen)

    def values(self, goal: Goal) -> tuple[dict[str, int], tuple[int, ...]]:
        # Few values, so that questions are repeated.
        found = {name: self.choice.choice((0, 1, 1, 2, 5)) for name in goal.parameters}
        return found, tuple(found.values())

    def one(self) -> Goal:
        if len(self.goals) < 3 or self.choice.random() < 0.1:
            text = self.choice.choice(list(BOUND))
            self.goals[self.program.prepare(text)] = text
        return self.choice.choice(list(self.goals))

    def ask(self) -> None:
        goal = self.one()
        values, given = self.values(goal)
        assert sorted(goal(**values)) == self.expected(self.goals[goal], given), goal.explain()

    def follow(self) -> None:
        goal = self.one()
        values, given = self.values(goal)
        self.followed.append((goal.subscribe(**values), self.goals[goal], given, {}))

    def leave(self) -> None:
        if self.followed:
            self.followed.pop(self.choice.randrange(len(self.followed)))[0].close()

    def drop(self) -> None:
        if len(self.goals) > 3:
            goal = self.choice.choice(list(self.goals))
            del self.goals[goal]
            self.followed = [one for one in self.followed if one[0]._goal is not goal]
            goal.drop()

    def change(self) -> None:
        with self.db.transaction():
            for _ in range(self.choice.randrange(1, 5)):
                sign = self.choice.choice("+-")
                a, b = self.choice.randrange(NODES), self.choice.randrange(NODES)
                self.program.update(f"{sign}e($a, $b).", a=a, b=b)
            self.program.update(f"{self.choice.choice('+-')}root($a).", a=self.choice.randrange(NODES))
            if self.choice.random() < 0.2:
                self.ask()

    def again(self) -> None:
        """The database's next life, in which goals are prepared anew."""
        if self.lives is not None:
            self.db = self.lives.again()
            (self.program,) = programs(self.db._engine)
            self.goals.clear()
            self.followed.clear()

    def keep(self) -> None:
        if self.choice.random() < 0.1:
            len(self.program[self.choice.choice(["tc", "sg", "both"])])

    def check(self) -> None:
        for answers, text, given, content in self.followed:
            for row, _, diff in answers.changes():
                content[row] = content.get(row, 0) + diff
                assert content[row] in (0, 1), (text, given, row)
            now = sorted(row for row, count in content.items() if count)
            assert now == sorted(answers) == self.expected(text, given), (text, given)


@pytest.mark.parametrize("seed", range(11))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal_plan, "MAX_RECENT_SEEDS", seed % 3)
    monkeypatch.setattr(goal_plan, "MAX_IDLE_COMMITS", 2 + seed % 4)
    monkeypatch.setattr(goal_plan, "MAX_STATE_ROWS", (20, 1 << 20)[seed % 2])
    monkeypatch.setattr(goal_plan, "MAX_CACHED_ANSWERS", 1 + seed % 5)
    if seed >= 4:
        monkeypatch.setattr(goal_plan, "MIN_POSSIBLE_SEEDS", 2)
        monkeypatch.setattr(goal_plan, "MIN_POSSIBLE_SEEDS", 2)
        monkeypatch.setattr(goal_plan, "SAMPLED_ANSWERS", frozenset({2, 4, 6}))
    schedule = Schedule(seed, Lives(seed) if seed >= 8 else None)
    works = [schedule.ask, schedule.follow, schedule.leave, schedule.drop, schedule.change, schedule.keep]
    for _ in range(60):
        work = schedule.choice.choices([*works, schedule.again], [8, 2, 1, 1, 3, 1, 2 * (seed >= 8)])[0]
        work()
        if work == schedule.change:
            schedule.check()
    schedule.check()
    schedule.program.drop()
    assert not schedule.db._engine.executor.views and not schedule.db._engine.executor.tables.by_name
