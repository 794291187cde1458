"""Relations that stand for ranges and alternatives: several programs of one database have their own."""

import kpg

TEXT = (
    ".decl {0}(n: number) {0}(x) :- x = range(0, {1}). "
    "{0}(n) :- n = sum x : {{ x = range(7, {1} + 9) ; x = 50 }}."
)


def test_programs_do_not_share_what_is_made_up() -> None:
    db = kpg.connect()
    first = db.datalog(TEXT.format("a", 2))
    second = db.datalog(TEXT.format("b", 1))
    assert sorted(first["a"]) == [(0,), (1,), (84,)]
    first.drop()
    assert sorted(second["b"]) == [(0,), (74,)]
    third = db.datalog(TEXT.format("c", 0))
    second.extend(".decl d(n: number) d(n + x) :- b(n), x = range(0, n).")
    assert sorted(second["d"])[:2] == [(74,), (75,)]
    assert sorted(third["c"]) == [(65,)]
    assert list(second.query("?- b(n), n = sum x : { x = range(0, 2) ; x = 73 }.")) == [(74,)]
    second.drop()
    third.drop()
    assert [entry.name for entry in db._engine.catalog] == []


def test_a_range_of_computed_bounds() -> None:
    text = (
        ".decl p(n: number) p(1). p(3). .decl r(n: number, x: number) r(n, x) :- p(n), x = range(n, n + 2)."
    )
    program = kpg.connect().datalog(text)
    assert sorted(program["r"]) == [(1, 1), (1, 2), (3, 3), (3, 4)]
