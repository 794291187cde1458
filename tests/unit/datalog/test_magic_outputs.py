"""Installed programs that ask for magic sets: their outputs are what they are without, under changes too."""

import random

import pytest

from kpg.api.database import Database

RULES = """
    .decl edge(a: number, b: number)
    .input edge
    .decl start(a: number)
    .input start
    .decl path(a: number, b: number) {magic}
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    .decl from_start(a: number)
    from_start(y) :- start(x), path(x, y).
    .decl size(a: number, n: number)
    size(x, n) :- start(x), n = count : {{ path(x, _) }}.
    .decl apart(a: number, b: number)
    apart(x, y) :- start(x), start(y), x < y, !path(x, y).
    .output from_start, size, apart
"""
OUTPUTS = ("from_start", "size", "apart")


@pytest.mark.parametrize("seed", range(3))
def test_outputs_under_changes(db: Database, seed: int) -> None:
    choice = random.Random(seed)
    program = db.datalog(RULES.format(magic="magic"))
    plain = db.datalog(
        RULES.format(magic="")
        .replace(".input edge", "")
        .replace(".input start", "")
        .replace(".decl edge(a: number, b: number)", "")
        .replace(".decl start(a: number)", "")
        .replace("path", "all_paths")
        .replace("from_start", "from_start2")
        .replace("size", "size2")
        .replace("apart", "apart2")
    )
    for _ in range(12):
        rows = [(choice.randrange(6), choice.randrange(6)) for _ in range(4)]
        text = " ".join(f"{choice.choice('++-')}edge({a}, {b})." for a, b in rows)
        program.update(f"{text} {choice.choice('+-')}start({choice.randrange(4)}).")
        for name in OUTPUTS:
            assert sorted(program[name]) == sorted(plain[f"{name}2"])


def test_only_what_is_asked_is_derived(db: Database) -> None:
    program = db.datalog(RULES.format(magic="magic"))
    assert "path[bf]" in program.explain("from_start", "rules")
    assert "demand path[bf](x) :- start(x)." in program.explain("from_start", "rules")


def test_a_restricted_relation_is_there_as_a_whole(db: Database) -> None:
    program = db.datalog(RULES.format(magic="magic"))
    program.update("+edge(1, 2). +edge(7, 8). +start(1).")
    assert sorted(program["from_start"]) == [(2,)]
    assert sorted(program["path"]) == [(1, 2), (7, 8)]
    assert db.query("SELECT count(*) FROM path").fetchall() == [(2,)]
    assert sorted(program.query("?- path(7, x).")) == [(8,)]


def test_proofs_are_by_the_rules_of_the_program(db: Database) -> None:
    program = db.datalog(RULES.format(magic="magic"))
    program.update("+edge(1, 2). +edge(2, 3). +start(1).")
    proof = db.explain_row("from_start", (3,))
    assert [child.text for child in proof.children] == ["start(1)", "path(1, 3)"]


def test_what_ends_by_demand_alone(db: Database) -> None:
    program = db.datalog("""
        .decl double(n: number, x: number)
        .decl step(n: number, m: number)
        step(1, 0). step(2, 1). step(7, 8). step(8, 7).
        double(0, 1).
        double(n, 2 * x) :- step(n, m), double(m, x).
        double(7, 1).
        .decl answer(x: number)
        answer(x) :- double(2, x).
        .output answer
        .pragma "magic-transform" "*"
    """)
    assert sorted(program["answer"]) == [(4,)]


def test_dropping_leaves_nothing(db: Database) -> None:
    program = db.datalog(RULES.format(magic="magic"))
    program.extend(".decl more(a: number)\nmore(x) :- path(2, x).\n.output more")
    program.update("+edge(2, 3).")
    assert sorted(program["more"]) == [(3,)]
    program.drop()
    db.sql("CREATE TABLE path (a BIGINT PRIMARY KEY)")
