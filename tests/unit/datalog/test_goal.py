"""Goals: prepared, asked, followed, shared."""

import random

import pytest

import kpg
from kpg.api.database import Database
from kpg.datalog import Goal, Program
from kpg.runtime.errors import InterfaceError, NotSupportedError
from kpg.session.subscriptions import Change
from tests.model.datalog import answers

PROGRAM = """
.decl e(a: number, b: number)
.decl root(a: number)
.decl tc(a: number, b: number)
tc(x, y) :- e(x, y).
tc(x, y) :- tc(x, z), e(z, y).
.decl rtc(a: number, b: number)
rtc(x, y) :- e(x, y).
rtc(x, y) :- e(x, z), rtc(z, y).
.decl sg(a: number, b: number)
sg(x, y) :- e(p, x), e(p, y), x != y.
sg(x, y) :- e(a, x), sg(a, b), e(b, y).
.decl far(a: number, b: number)
far(x, y) :- tc(x, y), !e(x, y), root(x).
.decl fan(a: number, n: number)
fan(x, count(y)) :- tc(x, y).
.decl d(a: number, b: number, n: number)
d(x, x, min(0)) :- root(x).
d(x, z, min(n + 1)) :- d(x, y, n), e(y, z).
"""
GOALS = [
    "?- tc($a, x).",
    "?- tc(x, $a).",
    "?- tc($a, $b).",
    "?- tc(x, y).",
    "?- tc(x, x).",
    "?- tc($a, _).",
    "?- tc(_, _).",
    "?- rtc($a, x).",
    "?- rtc(x, $a).",
    "?- sg($a, x).",
    "?- far($a, x).",
    "?- far(x, $a).",
    "?- fan($a, n).",
    "?- fan(x, $a).",
    "?- d($a, x, n).",
    "?- d(_, $a, n).",
    "?- e($a, x).",
    "?- tc($a, x), !e(x, $b), x != $a.",
    "?- tc(3, x), tc(x, y), root(y).",
    "?- n = count : { tc($a, _) }.",
]


@pytest.fixture
def db() -> Database:
    return kpg.connect()


def rows_of(db: Database) -> dict[str, frozenset[tuple[int, ...]]]:
    return {name: frozenset(db.query(f"SELECT * FROM {name}")) for name in ("e", "root")}


def expected(program: Program, db: Database, goal: Goal, values: dict[str, int]) -> set[tuple[object, ...]]:
    """The answer to the goal with the values written into it, from the facts as they are now."""
    text = next(text for text, one in zip(GOALS, program.goals, strict=True) if one is goal)
    for name, value in values.items():
        text = text.replace(f"${name}", str(value))
    checked = program.check_text(text).program
    found = answers(checked, rows_of(db), checked.goals[0])
    return {(True,)} if found == {()} else set(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_goals_are_what_naive_evaluation_gives(db: Database, seed: int) -> None:
    program = db.datalog(PROGRAM)
    program.add("\n".join(GOALS))
    if seed == 1:
        program["tc"]  # goals prepared before a view is kept, and after
    choice = random.Random(seed)
    everything = [(a, b) for a in range(6) for b in range(6)]
    for number in range(4):
        with db.transaction():
            for row in choice.sample(everything, 5):
                there = row in rows_of(db)["e"]
                program.update("-e($a, $b)." if there else "+e($a, $b).", a=row[0], b=row[1])
            program.update("-root($a). +root($b).", a=choice.randrange(6), b=choice.randrange(6))
            if number == 2:
                _compare(program, db, choice)
        _compare(program, db, choice)


def _compare(program: Program, db: Database, choice: random.Random) -> None:
    for goal in program.goals:
        values = {name: choice.randrange(6) for name in goal.parameters}
        found = list(goal(**values))
        assert len(set(found)) == len(found)
        assert set(found) == expected(program, db, goal, values), (goal.explain(), values)


@pytest.mark.slow
@pytest.mark.parametrize("text", [one for one in GOALS if "$a" in one and "$b" not in one])
def test_subscriptions_are_what_asking_gives(db: Database, text: str) -> None:
    program = db.datalog(PROGRAM)
    goal = db.prepare(text)
    choice = random.Random(text)
    followed = [goal.subscribe(a=value) for value in (1, 2, 1)]
    told: list[Change] = []
    heard = goal.subscribe(told.extend, a=2)
    first = list(heard.changes())
    contents: list[dict[tuple[object, ...], int]] = [{} for _ in followed]
    for _ in range(6):
        with db.transaction():
            for _ in range(4):
                program.update(
                    choice.choice(["-e($a, $b).", "+e($a, $b).", "+e($b, $a)."]),
                    a=choice.randrange(5),
                    b=choice.randrange(5),
                )
                program.update("+root($a).", a=choice.randrange(5))
        for answers_, content, value in zip(followed, contents, (1, 2, 1), strict=True):
            for row, _, diff in answers_.changes():
                content[row] = content.get(row, 0) + diff
                assert content[row] in (0, 1)
            now = sorted(row for row, count in content.items() if count)
            assert now == sorted(goal(a=value)) == sorted(answers_)
    assert sorted(heard) == sorted(followed[1])
    final: dict[object, int] = {}
    for row, _, diff in first + told:
        final[row] = final.get(row, 0) + diff
    assert sorted(row for row, count in final.items() if count) == sorted(heard)


def test_goals_share_one_dataflow_and_keep_their_answers(db: Database) -> None:
    program = db.datalog(PROGRAM + "e(1, 2). e(2, 3). e(5, 6).")
    one, other = db.prepare("?- tc($src, x)."), program.prepare("?- tc($from, to).")
    assert one.columns == ("x",) and other.parameters == ("from",)
    assert len(program._forms) == 1
    first, second = one.subscribe(src=1), other.subscribe(**{"from": 1})
    assert "demand tc[bf]: 1 rows" in one.explain()
    first.close()
    db.insert("e", [(3, 4)])
    assert sorted(second) == [(2,), (3,), (4,)] and sorted(other(**{"from": 5})) == [(6,)]
    one.drop()
    db.delete("e", [(2, 3)])
    assert sorted(second) == [(2,)]
    with pytest.raises(InterfaceError, match="the goal was dropped"):
        one(src=1)
    with pytest.raises(InterfaceError, match="subscription was closed"):
        list(first)
    second.close()
    assert "demand tc[bf]: 0 rows" in other.explain()
    other.drop()
    other.drop()
    assert not program._forms and not db._engine.executor.views
    assert list(db._engine.executor.tables.by_name) == ["e", "root"]


def test_dropping_a_goal_ends_its_subscriptions(db: Database) -> None:
    db.datalog(PROGRAM + "e(1, 2).")
    with db.prepare("?- tc($src, x).") as goal:
        answers_ = goal.subscribe(src=1)
        again = db.prepare("?- tc($src, x).")
    with pytest.raises(InterfaceError):
        list(answers_.changes())
    assert "demand tc[bf]: 0 rows" in again.explain()


def test_asking_takes_no_step(db: Database) -> None:
    db.datalog(PROGRAM + "e(1, 2). e(2, 3).")
    goal = db.prepare("?- tc($src, x).")
    epoch = db.epoch
    assert len(goal(src=1)) == 2 and db.epoch == epoch
    assert len(goal(src=1)) == 2 and db.epoch == epoch
    assert len(goal(src=2)) == 1 and db.epoch == epoch
    assert "demand tc[bf]: 0 rows" in goal.explain()


def test_only_what_is_asked_is_computed(db: Database) -> None:
    program = db.datalog(PROGRAM)
    db.insert("e", [(n, n + 1) for n in range(300)] + [(1000 + n, 1001 + n) for n in range(300)])
    with program.prepare("?- tc($src, x).") as goal:
        assert len(goal(src=290)) == 10
        assert goal.explain().startswith("from what is asked")
        assert max(one[4] for one in db.operators() if "Source" not in one[1]) < 700


def test_goals_about_tables_and_views_of_sql(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT, s TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (NULL, 'z')")
    goal = db.prepare('?- t($a, s), s != "q".')
    assert list(goal(a=2)) == [("y",)]
    with pytest.raises(kpg.ProgrammingError, match='"t" cannot be dropped'):
        db.sql("DROP TABLE t")
    goal.drop()
    db.sql("DROP TABLE t")


def test_parameters_are_checked(db: Database) -> None:
    db.datalog(PROGRAM)
    goal = db.prepare("?- tc($src, x).")
    with pytest.raises(InterfaceError, match=r"no value for \$src"):
        goal()
    with pytest.raises(InterfaceError, match=r"no parameter \$dst"):
        goal(src=1, dst=2)
    with pytest.raises(kpg.Error):
        goal(src="one")
    with pytest.raises(InterfaceError, match="2 goals, not one"):
        db.prepare("?- tc(1, x). ?- tc(2, x).")
    with pytest.raises(kpg.errors.DatalogError, match="tcc is not defined"):
        db.prepare("?- tcc(1, x).")


def test_goals_in_the_text_and_queries(db: Database) -> None:
    program = db.datalog(PROGRAM + "e(1, 2).\n?- tc(1, x).\n.query tc(f, b)")
    assert [list(goal()) for goal in program.goals] == [[(2,)]]
    assert len(program._forms) == 2
    assert db.datalog("?- e(x, y).") is program and list(program.goals[-1]()) == [(1, 2)]


def test_goals_need_a_moment_without_transaction(db: Database) -> None:
    program = db.datalog(PROGRAM + "e(1, 2).")
    goal = program.prepare("?- tc($a, x).")
    with db.transaction():
        db.insert("e", [(2, 7)])
        assert sorted(goal(a=1)) == [(2,), (7,)]
        with pytest.raises(NotSupportedError):
            goal.subscribe(a=1)
        assert sorted(program.prepare("?- tc($b, x).")(b=2)) == [(7,)]
        fresh = program.prepare("?- rtc($a, x).")
        assert sorted(fresh(a=1)) == [(2,), (7,)]
        assert "demand rtc[bf]: 0 rows" in fresh.explain()
    assert sorted(goal(a=1)) == sorted(fresh(a=1)) == [(2,), (7,)]
    with db.batch():
        db.delete("e", [(2, 7)])
        assert sorted(goal(a=1)) == [(2,)]


def test_endless_goals_hit_the_limit(db: Database) -> None:
    program = db.datalog(
        '.pragma "max-rounds" "30"\n.decl n(x: number, y: number)\n.decl s(x: number)\ns(1).\n'
        "n(x, y) :- s(x), y = x.\nn(x, y + 1) :- n(x, y).\n"
    )
    goal = program.prepare("?- n($a, y).")
    with pytest.raises(kpg.Error, match="after 30 rounds"):
        goal(a=1)
    assert list(goal(a=2)) == []
    with pytest.raises(kpg.Error, match="after 30 rounds"):
        goal(a=1)
    program.update("-s(1).")
    assert list(goal(a=1)) == []
