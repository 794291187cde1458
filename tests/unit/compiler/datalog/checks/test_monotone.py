"""min and max in recursion: what is monotone computes least paths, what runs away stops at a limit."""

import pytest

import kpg
from kpg.runtime.errors import DataError, DatalogError

EDGES = (
    ".decl e(x: number, y: number, w: number) e(1, 2, 5). e(1, 3, 1). e(3, 2, 1). e(2, 4, 1). e(4, 3, -1). "
)
DIRECT = ".decl d(x: number, c: number) d(1, min(0)) :- e(1, _, _). d(y, min(c + w)) :- d(x, c), e(x, y, w). "
SPLIT = """
.decl d(x: number, c: number) .decl next(x: number, c: number)
d(1, min(0)) :- e(1, _, _). d(x, min(c)) :- next(x, c). next(y, c + w) :- d(x, c), e(x, y, w), c < 100.
"""
NEGATED = """
.decl d(x: number, c: number) .decl far(x: number, c: number)
d(1, min(0)) :- e(1, _, _). d(y, min(-c + w)) :- far(x, c), e(x, y, w). far(x, max(-c)) :- d(x, c).
"""


@pytest.mark.parametrize("rules", [DIRECT, SPLIT, NEGATED])
def test_least_costs(rules: str) -> None:
    program = kpg.connect().datalog(EDGES + rules)
    assert sorted(program["d"]) == [(1, 0), (2, 2), (3, 1), (4, 3)]
    assert not [one for one in program.warnings if one.code == "aggregation"]
    program.update("-e(1, 3, 1).")
    assert sorted(program["d"]) == [(1, 0), (2, 5), (3, 5), (4, 6)]
    program.update("+e(1, 4, 2).")
    assert sorted(program["d"]) == [(1, 0), (2, 2), (3, 1), (4, 2)]


def test_a_cycle_that_gets_ever_better_stops_at_the_limit() -> None:
    db = kpg.connect()
    text = '.pragma "max-rounds" "200" ' + EDGES + DIRECT
    program = db.datalog(text)
    before = sorted(program["d"])
    with pytest.raises(DataError, match="had not come to its end after 200 rounds") as caught:
        program.update("-e(4, 3, -1). +e(4, 3, -9).")
    assert 'max-rounds" "2000"' in str(caught.value)
    assert sorted(program["d"]) == before
    assert (4, 3, -1) in db.query("SELECT * FROM e").fetchall()
    assert program.update("+e(4, 5, 1).") == 1
    assert (5, 4) in program["d"]


def test_a_program_that_runs_away_installs_nothing() -> None:
    db = kpg.connect()
    with pytest.raises(DataError, match="after 50 rounds"):
        db.datalog('.pragma "max-rounds" "50" .decl n(x: number) n(0). n(x + 1) :- n(x). .output n')
    assert [entry.name for entry in db._engine.catalog] == []
    program = db.datalog(
        '.pragma "max-rounds" "50" .decl n(x: number) n(0). n(x + 1) :- n(x), x < 40. .output n'
    )
    assert len(program["n"]) == 41


def test_what_is_not_monotone_installs_nothing() -> None:
    db = kpg.connect()
    with pytest.raises(DatalogError, match="not monotone in recursion"):
        db.datalog(EDGES + DIRECT + "d(y, min(9 - c)) :- d(x, c), e(x, y, _).")
    assert [entry.name for entry in db._engine.catalog] == []
