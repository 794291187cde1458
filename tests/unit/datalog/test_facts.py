"""Facts that come and go."""

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import DatalogError, InterfaceError, ProgrammingError

PROGRAM = """
.decl edge(a: number, b: number)
.decl named(a: number, s: symbol)
named(0, "zero").
named(x, "edge") :- edge(x, _).
.decl out(a: number)
out(x) :- edge(x, _).
.output out, named
"""


@pytest.fixture
def db() -> Database:
    return kpg.connect()


def test_a_text_is_a_transaction(db: Database) -> None:
    program = db.datalog(PROGRAM)
    view = program["out"]
    list(view.changes())
    assert program.update("+edge(1, 2). +edge(2, 3). +edge(1, 2). -edge(9, 9).") == 2
    assert sorted(view.changes()) == [((1,), 2, 1), ((2,), 2, 1)]
    assert db.datalog("-edge(1, 2). +edge(1, 3). -edge(1, 3).") is program
    assert list(view.changes()) == [((1,), 3, -1)]
    assert list(db.query("SELECT * FROM edge")) == [(2, 3)]


def test_the_order_of_the_text_counts(db: Database) -> None:
    program = db.datalog(PROGRAM)
    assert program.update("+edge(1, 2). -edge(1, 2). +edge(1, 2).") == 3
    assert list(db.query("SELECT * FROM edge")) == [(1, 2)]


def test_parameters(db: Database) -> None:
    program = db.datalog(PROGRAM)
    assert program.update('+named($a, $s). +named($a, "fixed").', a=4, s="four") == 2
    assert sorted(program["named"]) == [(0, "zero"), (4, "fixed"), (4, "four")]
    with pytest.raises(InterfaceError, match=r"no value for \$s"):
        program.update("+named($a, $s).", a=4)
    with pytest.raises(InterfaceError, match=r"no parameter \$b"):
        program.update("+named($a, $a2).", a=4, a2="x", b=1)
    with pytest.raises(kpg.Error, match="four"):
        program.update("+named($a, $s).", a="four", s="four")


def test_facts_of_relations_with_rules(db: Database) -> None:
    program = db.datalog(PROGRAM)
    program.update('-named(0, "zero"). +edge(5, 5). -named(5, "edge").')
    assert list(program["named"]) == [(5, "edge")]
    with pytest.raises(ProgrammingError, match="out has rules, its facts cannot be changed") as caught:
        program.update("+out(1).")
    assert "declare .input out" in str(caught.value)
    assert list(program["out"]) == [(5,)]


def test_wrong_updates_change_nothing(db: Database) -> None:
    program = db.datalog(PROGRAM)
    epoch = db.epoch
    for text in ("+edge(1).", '+edge(1, "a").', "+edge(x, 1).", "+nothing(1).", "+edge(1, 2)"):
        with pytest.raises(DatalogError):
            program.update(text)
    with pytest.raises(InterfaceError, match="may only have updates"):
        program.update("edge(1, 2).")
    with pytest.raises(InterfaceError, match="may only have goals"):
        program.prepare("+edge(1, 2).")
    assert db.epoch == epoch and not list(db.query("SELECT * FROM edge"))


def test_a_failed_update_is_undone(db: Database) -> None:
    program = db.datalog(".decl n(x: number) .decl m(x: number)\nm(x * x) :- n(x).\n.output m")
    with pytest.raises(kpg.DataError):
        program.update("+n(3). +n(9223372036854775807).")
    assert not list(program["m"]) and not list(db.query("SELECT * FROM n"))
    program.update("+n(3).")
    assert list(program["m"]) == [(9,)]


def test_transactions_take_all_kinds_of_changes(db: Database) -> None:
    program = db.datalog(PROGRAM)
    db.sql("CREATE TABLE t (a INT, s VARCHAR(3))")
    with db.transaction():
        db.datalog("+edge(1, 2).")
        db.insert("edge", [(3, 4)])
        db.datalog('+t(1, "abc"). +t(1, "abc").')
        db.sql("INSERT INTO edge VALUES (5, 6)")
    assert db.epoch == 2 and sorted(program["out"]) == [(1,), (3,), (5,)]
    assert list(db.query("SELECT * FROM t")) == [(1, "abc")]
    with pytest.raises(RuntimeError), db.transaction():
        db.datalog("-edge(1, 2).")
        raise RuntimeError
    assert len(program["out"]) == 3
    with pytest.raises(kpg.Error, match="does not fit"):
        db.datalog('+t(1, "abcd").')
    with pytest.raises(kpg.Error):
        db.datalog('+t(5000000000, "a").')
    db.insert("t", [(1, "abc"), (1, "abc")])
    assert db.datalog('-t(1, "abc").') is not None
    assert not list(db.query("SELECT * FROM t"))


def test_tables_are_sets(db: Database) -> None:
    program = db.datalog(PROGRAM)
    db.insert("edge", [(1, 2)])
    with pytest.raises(kpg.IntegrityError, match="duplicate key"):
        db.insert("edge", [(1, 2)])
    db.upsert("edge", [(1, 2), (1, 3)])
    assert len(db.query("SELECT * FROM edge")) == 2 and list(program["out"]) == [(1,)]


def test_views_cannot_be_updated(db: Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT); CREATE VIEW v AS SELECT a FROM t")
    with pytest.raises(DatalogError, match="v is a view, it cannot be changed"):
        db.datalog("+v(1).")
