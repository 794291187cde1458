"""What is maintained for a way of asking, what not, and when another strategy takes over."""

from collections.abc import Callable

import pytest

import kpg
from kpg.api.database import Database
from kpg.datalog import Goal, goal_plan
from kpg.datalog.goal_plan import MAX_IDLE_COMMITS, MAX_RECENT_SEEDS
from kpg.runtime.errors import DataError

TC = """
.decl e(a: number, b: number)
.input e
.decl tc(a: number, b: number)
tc(x, y) :- e(x, y).
tc(x, y) :- tc(x, z), e(z, y).
"""
SG = """
.decl up(a: number, b: number)
.input up
.decl sg(a: number, b: number)
sg(x, x) :- up(x, _).
sg(x, y) :- up(x, a), sg(a, b), up(y, b).
"""


@pytest.fixture
def db() -> Database:
    return kpg.connect()


def chain(length: int) -> list[tuple[int, int]]:
    return [(n, n + 1) for n in range(length)]


def derived(db: Database) -> int:
    """Rows in the state of everything but the edges' index."""
    held = [one[4] for one in db.operators() if not one[1].startswith(("Source", "e("))]
    return sum(held)


def test_what_nobody_follows_leaves_nothing_behind(db: Database) -> None:
    db.datalog(TC)
    db.insert("e", chain(200))
    goal = db.prepare("?- tc($a, x).")
    before = derived(db)
    for start in range(0, 200, 10):
        assert len(goal(a=start)) == 200 - start
    assert derived(db) == before


def test_memory_that_large_questions_leave_is_given_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goal_plan, "MAX_IDLE_BYTES", 50_000)
    db.datalog(TC)
    db.insert("e", chain(1000))
    goal = db.prepare("?- tc($a, x).")
    most = 0
    for start in range(2 * goal_plan.TRIM_INTERVAL):
        assert len(goal(a=start)) == 1000 - start
        reserved = sum(one.bytes for one in db._engine.executor.operators() if "goal" in one.readers[0])
        most = max(most, reserved)
    assert most > 50_000 and reserved == 0
    with goal.subscribe(a=990) as answers:
        assert len(answers) == 10 and len(goal(a=991)) == 9


def test_a_question_that_is_asked_again_after_a_change_is_maintained(db: Database) -> None:
    db.datalog(TC)
    db.insert("e", chain(50))
    goal = db.prepare("?- tc($a, x).")
    for number in range(3):
        assert len(goal(a=0)) == 50 + number
        db.insert("e", [(50 + number, 51 + number)])
    assert "demand tc[bf]: 1 rows" in goal.explain()
    epoch = db.epoch
    assert len(goal(a=0)) == 53 and db.epoch == epoch


def test_few_questions_are_maintained_and_not_for_ever(db: Database) -> None:
    db.datalog(TC)
    db.insert("e", chain(20))
    goal = db.prepare("?- tc($a, x).")
    for number in range(2):
        for start in range(MAX_RECENT_SEEDS + 3):
            assert len(goal(a=start)) == 20 + number - start
        db.insert("e", [(20 + number, 21 + number)])
    assert f"demand tc[bf]: {MAX_RECENT_SEEDS} rows" in goal.explain()
    for number in range(MAX_IDLE_COMMITS + 2):
        db.insert("e", [(1000 + number, 2000 + number)])
    assert "demand tc[bf]: 0 rows" in goal.explain()
    assert len(goal(a=0)) == 22


def test_a_large_state_is_given_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal_plan, "MAX_STATE_ROWS", 100)
    db.datalog(TC)
    db.insert("e", chain(200))
    goal = db.prepare("?- tc($a, x).")
    for start in (0, 1):
        goal(a=start)
    db.insert("e", [(200, 201)])
    assert len(goal(a=0)) == 201
    db.insert("e", [(201, 202)])
    assert "demand tc[bf]: 0 rows" in goal.explain() and len(goal(a=0)) == 202


def test_an_answer_among_many_is_looked_up(db: Database) -> None:
    db.datalog(TC)
    db.insert("e", chain(30))
    goal, backwards = db.prepare("?- tc($a, x)."), db.prepare("?- tc(x, $a).")
    followed = [goal.subscribe(a=start) for start in range(5)]
    followed += [backwards.subscribe(a=end) for end in (7, 8)]
    assert [len(one) for one in followed] == [30, 29, 28, 27, 26, 7, 8]
    db.delete("e", [(20, 21)])
    assert [len(one) for one in followed] == [20, 19, 18, 17, 16, 7, 8]
    assert sorted(followed[-1]) == [(n,) for n in range(8)]
    for one in followed:
        one.close()
    goal.drop()
    backwards.drop()
    assert not db._engine.executor.views


def test_a_question_that_fails_leaves_nothing_behind(db: Database) -> None:
    db.datalog(
        '.pragma "max-rounds" "30"\n.decl e(a: number, b: number)\n.input e\n'
        ".decl n(x: number, y: number)\nn(x, y) :- e(x, y).\nn(x, y + 1) :- n(x, y), y > 0.\n"
    )
    db.insert("e", [(1, 1), (2, -5)])
    goal = db.prepare("?- n($a, y).")
    for _ in range(2):
        with pytest.raises(DataError, match="after 30 rounds"):
            goal(a=1)
        assert list(goal(a=2)) == [(-5,)]
    db.insert("e", [(2, -7)])
    assert sorted(goal(a=2)) == [(-7,), (-5,)]


def test_a_goal_looks_up_what_is_maintained_by_then(db: Database) -> None:
    program = db.datalog(TC)
    db.insert("e", chain(10))
    goal = program.prepare("?- tc($a, x).")
    answers = goal.subscribe(a=5)
    list(answers.changes())
    assert len(program["tc"]) == 55
    assert goal.explain().startswith("looked up in what is there")
    db.insert("e", [(10, 11)])
    assert [(row, diff) for row, _, diff in answers.changes()] == [((11,), 1)]
    assert len(answers) == 6 and len(goal(a=0)) == 11
    with pytest.raises(kpg.ProgrammingError):
        db.sql('DROP VIEW "tc"')


def tree(depth: int) -> list[tuple[int, int]]:
    return [(n, n // 2) for n in range(2, 2**depth)]


def follow(goal: Goal, start: int) -> Callable[[], int]:
    answers = goal.subscribe(a=start)
    content: dict[tuple[object, ...], int] = {}

    def size() -> int:
        for row, _, diff in answers.changes():
            content[row] = content.get(row, 0) + diff
            assert content[row] in (0, 1)
        now = sorted(row for row, count in content.items() if count)
        assert now == sorted(answers)
        return len(now)

    return size


def test_demand_for_most_values_ends_in_the_whole_relation(db: Database) -> None:
    db.datalog(SG)
    db.insert("up", [*tree(4), *[(100 + n, 101 + n) for n in range(100)], (200, 100)])
    goal = db.prepare("?- sg($a, x).")
    assert "as a whole from " in goal.explain() and goal.explain().startswith("from what is asked")
    sizes = [follow(goal, start) for start in (8, 15)]
    assert [size() for size in sizes] == [4, 4] and goal.explain().startswith("from what is asked")
    assert [len(goal(a=start)) for start in range(100, 107)] == [1] * 7
    assert goal.explain().startswith("from what is asked")  # Deciding waits until several were asked.
    assert len(goal(a=107)) == 1
    assert goal.explain().startswith("computed as a whole and looked up: 101 rows of demand sg[bf]")
    assert [size() for size in sizes] == [4, 4]
    db.insert("up", [(16, 8)])
    db.delete("up", [(9, 4)])
    assert [size() for size in sizes] == [3, 4] and len(goal(a=16)) == 1 and len(goal(a=101)) == 1


def test_many_followers_end_in_the_whole_relation(db: Database) -> None:
    db.datalog(TC)
    db.insert("e", chain(70))
    goal = db.prepare("?- tc($a, x).")
    sizes = [follow(goal, start) for start in range(31)]
    assert goal.explain().startswith("from what is asked")
    sizes += [follow(goal, start) for start in range(31, 64)]
    assert goal.explain().startswith("computed as a whole and looked up: 64 rows of demand tc[bf]")
    db.delete("e", [(60, 61)])
    assert [size() for size in sizes] == [60 - n if n <= 60 else 70 - n for n in range(64)]


def test_programs_that_compute_values_are_never_computed_as_a_whole(db: Database) -> None:
    db.datalog(
        ".decl e(a: number, b: number)\n.input e\n.decl n(x: number, y: number)\n"
        "n(x, y) :- e(x, y).\nn(x, y) :- e(x, a), n(a, b), y = b + 1.\n"
    )
    db.insert("e", [(n, n + 1) for n in range(100)] + [(500, 500)])
    goal = db.prepare("?- n($a, y).")
    assert "as a whole" not in goal.explain()
    assert [len(goal(a=0)) for _ in range(10)] == [100] * 10 or len(goal(a=99)) == 1
    assert goal.explain().startswith("from what is asked")


def test_a_whole_that_fails_is_not_used(db: Database) -> None:
    """With a limit on rounds the relation as a whole is out of reach, the answer is not."""
    db.datalog('.pragma "max-rounds" "60"\n' + SG)
    db.insert("up", [*[(n, n + 1) for n in range(80)]])
    goal = db.prepare("?- sg($a, x).")
    assert [len(goal(a=start)) for start in (40, 30, 41, 39, 38, 37, 36, 35)] == [1] * 8
    assert goal.explain().startswith("from what is asked")


def test_goals_over_deep_programs(db: Database) -> None:
    lines = [".decl e(a: number, b: number)\n.input e\n.decl r0(a: number, b: number)\nr0(x, y) :- e(x, y)."]
    for n in range(1, 120):
        lines.append(f".decl r{n}(a: number, b: number)\nr{n}(x, y) :- r{n - 1}(y, x).")
        lines.append(f"r{n}(x, y) :- r{n - 1}(x, y), x = y.")
    with db.datalog("\n".join(lines)) as program:
        db.insert("e", [(1, 2), (2, 3), (3, 3)])
        last = program.prepare("?- r119($a, x).")
        assert sorted(last(a=3)) == [(2,), (3,)] and sorted(program["r100"]) == [(1, 2), (2, 3), (3, 3)]
        assert db.query("SELECT count(*) FROM r118").fetchall() == [(3,)]
        middle = program.prepare("?- r20($a, x).")
        assert middle.explain().startswith("from what is asked") and list(middle(a=1)) == [(2,)]
        db.delete("e", [(2, 3)])
        assert list(last(a=3)) == [(3,)] and list(middle(a=2)) == []
        with db.transaction():
            db.insert("e", [(2, 3)])
            assert sorted(middle(a=2)) == [(3,)]
    assert not db._engine.executor.views and not db._engine.executor.tables.by_name


def test_a_surplus_waits_while_an_input_holds_updates_at_the_open_epoch(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.datalog(TC)
    db.insert("e", chain(20))
    goal = db.prepare("?- tc($a, x).")
    held = db.dataflow().input("held", n=int)
    for number in range(2):
        for start in range(MAX_RECENT_SEEDS):
            assert len(goal(a=start)) == 20 + number - start
        db.insert("e", [(20 + number, 21 + number)])
    for number in range(MAX_IDLE_COMMITS + 2):
        held.advance_to(held.time + 1)
        held.insert(number)
        db.insert("e", [(1000 + number, 2000 + number)])
    held.advance_to(held.time + 1)
    assert f"demand tc[bf]: {MAX_RECENT_SEEDS} rows" in goal.explain() and not caplog.records
    db.insert("e", [(3000, 4000)])
    assert "demand tc[bf]: 0 rows" in goal.explain()
