"""Variables that a rule computes, and that its ranges and aggregates read: they have one value."""

import pytest

import kpg

FACTS = """
    .decl e(x: number) e(3). e(4). e(5).
    .decl h(x: number, y: number) h(0, 2). h(1, 7). h(3, 1). h(3, 2). h(6, 0).
    .decl g(x: number, y: number) g(0, 2). g(3, 5). g(6, 6).
    .decl r(x: number, y: number)
"""
CASES = {
    "r(x, c) :- e(x), v = x bxor 5, c = min k : { h(v, k) }.": {(3, 0), (4, 7), (5, 2)},
    "r(x, c) :- e(x), v = x bxor 5, c = max k : { h(v, k), k < x }.": {(3, 0), (5, 2)},
    "r(x, c) :- e(x), v = x bxor 5, c = sum k : { h(v, k), k < x ; g(v, k), k < x }.": {
        (3, 0),
        (4, 0),
        (5, 2),
    },
    "r(x, c) :- e(x), v = x bxor 5, c = min k : { h(v, k), k < x ; g(v, k), k < x }.": {(3, 0), (5, 2)},
    "r(x, v) :- e(x), v = x bxor 5, i = range(1, v).": {(3, 6), (5, 0)},
    "r(x, j) :- e(x), v = x bxor 5, i = range(4, v), j = range(i, v).": {
        *((3, 4), (3, 5)),
        *((4, 2), (4, 3), (4, 4)),
        *((5, 1), (5, 2), (5, 3), (5, 4)),
    },
    "r(x, j) :- e(x), v = x bxor 5, j = max i : { i = range(0, v) }.": {(3, 5), (4, 0)},
}


@pytest.mark.parametrize("rule", CASES)
def test_a_computed_variable_has_one_value(rule: str) -> None:
    with kpg.connect() as db:
        program = db.datalog(FACTS + rule)
        asked = {(x, y) for x in range(3, 6) for (y,) in program.query("?- r($x, y).", x=x)}
        assert asked == CASES[rule]
        assert set(db.query("SELECT * FROM r")) == CASES[rule]
        assert set(program["r"]) == CASES[rule]
        program.update("-e(4).")
        assert set(program["r"]) == {row for row in CASES[rule] if row[0] != 4}
