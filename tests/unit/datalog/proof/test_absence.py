"""Why rows do not hold."""

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import ProgrammingError

TEXT = """
.decl edge(a: number, b: number)
edge(1, 2). edge(2, 3). edge(2, 4). edge(7, 8).
.decl tc(a: number, b: number)
tc(x, y) :- edge(x, y).
tc(x, z) :- tc(x, y), edge(y, z).
.decl blocked(a: number)
blocked(4).
.decl open(a: number)
open(x) :- edge(_, x), !blocked(x), x < 5.
.decl one(a: number, b: symbol)
one(1, "a") :- edge(1, 2).
.decl fan(a: number, n: number)
fan(x, count(y)) :- tc(x, y).
"""


@pytest.fixture
def db() -> Database:
    database = kpg.connect()
    database.datalog(TEXT)
    return database


def test_each_rule_has_the_literal_that_fails(db: Database) -> None:
    absence = db.explain_absence("tc", (1, 8))
    assert (
        str(absence)
        == """\
tc(1, 8) does not hold
tc(x, y) :- edge(x, y).  [line 5]
   fails: edge(1, 8)
tc(x, z) :- tc(x, y), edge(y, z).  [line 6]
   fails: tc(1, 7), where edge(7, 8)"""
    )
    assert absence.to_dict() == {
        "text": "tc(1, 8)",
        "relation": "tc",
        "row": [1, 8],
        "instead": [],
        "failures": [
            {
                "rule": "tc(x, y) :- edge(x, y).",
                "place": "line 5",
                "holds": [],
                "fails": "edge(1, 8)",
                "tried": 1,
            },
            {
                "rule": "tc(x, z) :- tc(x, y), edge(y, z).",
                "place": "line 6",
                "holds": ["edge(7, 8)"],
                "fails": "tc(1, 7)",
                "tried": 1,
            },
        ],
    }


def test_several_ways_to_get_so_far(db: Database) -> None:
    db.insert("edge", [(9, 8)])
    (_, failure) = db.explain_absence("tc", (1, 8)).failures
    assert failure.tried == 2 and str(failure).endswith("(and so in all of 2 cases)")


def test_negation_and_constraints(db: Database) -> None:
    (blocked,) = db.explain_absence("open", (4,)).failures
    assert (blocked.fails, blocked.holds) == ("!blocked(4)", ("4 < 5",))
    (large,) = db.explain_absence("open", (8,)).failures
    assert (large.fails, large.holds) == ("8 < 5", ())


def test_heads_that_do_not_fit(db: Database) -> None:
    (failure,) = db.explain_absence("one", (2, "a")).failures
    assert failure.fails is None and str(failure).endswith("the head does not fit")


def test_another_value_of_an_aggregate(db: Database) -> None:
    assert str(db.explain_absence("fan", (1, 7))) == "fan(1, 7) does not hold, but fan(1, 3)"
    (failure,) = db.explain_absence("fan", (3, 1)).failures
    assert failure.fails == "tc(3, y)"


def test_facts(db: Database) -> None:
    assert str(db.explain_absence("edge", (5, 5))) == (
        "edge(5, 5) does not hold: there is no such fact, and no rule"
    )


def test_rows_that_hold_are_refused(db: Database) -> None:
    with pytest.raises(ProgrammingError, match=r"tc\(1, 3\) holds") as error:
        db.explain_absence("tc", (1, 3))
    assert "explain_row" in str(error.value)
