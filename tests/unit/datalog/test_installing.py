"""Programs as tables and views of a database."""

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import DatalogError, InterfaceError, NotSupportedError, ProgrammingError

CLOSURE = """
.decl edge(a: number, b: number)
.decl tc(a: number, b: number)
edge(1, 2). edge(2, 3). edge(1, 2).
tc(x, y) :- edge(x, y).
tc(x, y) :- tc(x, z), edge(z, y).
"""


@pytest.fixture
def db() -> Database:
    return kpg.connect()


def everything(db: Database) -> tuple[object, ...]:
    worker = db._engine.executor
    return (
        list(db.tables()),
        list(db.views()),
        list(worker.tables.by_name),
        list(worker.views),
        worker.operators(),
    )


def test_inputs_are_tables_and_derived_relations_views(db: Database) -> None:
    program = db.datalog(CLOSURE)
    assert program.relations == ("edge", "tc") and "tc" in program
    assert list(db.tables()) == [("edge", 2)] and list(db.views()) == [("tc", "view", None)]
    assert db.query("SELECT * FROM tc ORDER BY a, b").fetchall() == [(1, 2), (1, 3), (2, 3)]
    assert sorted(program["tc"]) == [(1, 2), (1, 3), (2, 3)]
    assert list(db.views()) == [("tc", "materialized view", 3)]
    db.insert("edge", [(3, 4)])
    assert (1, 4) in list(program["tc"]) and len(db.view("TC")) == 6
    assert db.query("SELECT count(*) FROM tc WHERE a = 1").fetchall() == [(3,)]
    db.verify("tc")


def test_outputs_are_maintained_from_the_start(db: Database) -> None:
    db.datalog(CLOSURE + ".output tc")
    assert list(db.views()) == [("tc", "materialized view", 3)]
    views = db.view("tc")
    list(views.changes())
    db.delete("edge", [(2, 3)])
    assert sorted(views.changes()) == [((1, 3), 2, -1), ((2, 3), 2, -1)]


def test_views_explain_themselves(db: Database) -> None:
    program = db.datalog(CLOSURE)
    assert "LetRec" in program["tc"].explain("logical") or "tc" in program["tc"].explain("logical")
    assert program.explain("tc", "rules").splitlines()[1] == "tc(x, y) :- tc(x, z), edge(z, y)."
    assert "Loop" in program.explain("tc")
    with pytest.raises(InterfaceError, match="no stage"):
        program.explain("tc", "steps")


def test_wrong_programs_install_nothing(db: Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT)")
    before = everything(db)
    with pytest.raises(DatalogError) as caught:
        db.datalog(CLOSURE + "tc(x, y) :- edge(x).\nodd(1).", filename="paths.dl")
    assert [one.code for one in caught.value.diagnostics if one.severity == "error"] == ["arity", "undefined"]
    assert "paths.dl line 7:13: tc(x, y) :- edge(x)." in str(caught.value) and "^" in str(caught.value)
    assert everything(db) == before


def test_programs_that_end_after_many_rounds(db: Database) -> None:
    db.datalog(".decl n(x: number) n(0). n(x + 1) :- n(x), x < 100_010. .output n".replace("_", ""))
    assert db.query("SELECT count(*), max(x) FROM n").fetchall() == [(100_011, 100_010)]


def test_programs_that_fail_while_they_run_install_nothing(db: Database) -> None:
    before = everything(db)
    with pytest.raises(kpg.DataError):
        db.datalog(
            ".decl n(x: number) .decl m(x: number)\nn(9223372036854775807).\nm(x * x) :- n(x).\n.output m"
        )
    assert everything(db) == before
    endless = '.pragma "max-rounds" "50"\n.decl n(x: number)\nn(0).\nn(x + 1) :- n(x).\n.output n'
    with pytest.raises(kpg.Error, match="had not come to its end after 50 rounds"):
        db.datalog(endless)
    assert everything(db) == before
    with pytest.raises(ProgrammingError, match="is not a number of rounds"):
        db.datalog(endless.replace("50", "many"))
    assert everything(db) == before


def test_names_that_are_taken(db: Database) -> None:
    db.sql("CREATE TABLE edge (a BIGINT, b BIGINT)")
    before = everything(db)
    with pytest.raises(DatalogError, match="edge is a relation of the database already"):
        db.datalog(CLOSURE)
    with pytest.raises(ProgrammingError, match="already exists"):
        db.datalog(".decl p(x: number) .decl P(x: number)\np(1). P(2).")
    assert everything(db) == before


def test_rules_read_tables_and_views_of_sql(db: Database) -> None:
    db.sql("CREATE TABLE link (a INT, b INT); INSERT INTO link VALUES (1, 2), (2, 3), (2, 3), (NULL, 4)")
    db.sql("CREATE VIEW back AS SELECT b, a FROM link")
    db.sql("CREATE MATERIALIZED VIEW kept AS SELECT b, a FROM link WHERE a > 1")
    program = db.datalog(
        ".decl paired(x: number, y: number)\n"
        "paired(x, y) :- link(x, y). paired(x, y) :- back(x, y).\n"
        ".decl far(x: number)\nfar(x) :- kept(x, _).\n"
    )
    assert sorted(program["paired"]) == [(1, 2), (2, 1), (2, 3), (3, 2)]
    assert list(program["far"]) == [(3,)]
    with db.transaction():
        db.sql("INSERT INTO link VALUES (5, 6)")
        assert db.query("SELECT count(*) FROM paired").fetchall() == [(6,)]
    assert len(program["paired"]) == 6 and sorted(program["far"]) == [(3,), (6,)]
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(x) AS s FROM paired")
    assert list(db.view("total")) == [(1 + 2 + 2 + 3 + 5 + 6,)]
    with pytest.raises(ProgrammingError, match='"link" cannot be dropped'):
        db.sql("DROP TABLE link")
    with pytest.raises(ProgrammingError, match='cannot be dropped: "total" uses "paired"'):
        program.drop()
    db.sql("DROP VIEW total")
    program.drop()
    db.sql("DROP VIEW back, kept; DROP TABLE link")
    assert everything(db) == ([], [], [], [], [])


def test_programs_read_each_other(db: Database) -> None:
    first = db.datalog(CLOSURE)
    second = db.datalog(".decl loop(x: number)\nloop(x) :- tc(x, x).\n.decl s(x: number)\ns(x) :- tc(x, _).")
    assert list(second["loop"]) == [] and sorted(second["s"]) == [(1,), (2,)]
    db.datalog("+edge(3, 1).")
    assert sorted(second["loop"]) == [(1,), (2,), (3,)]
    assert sorted(second.query("?- loop(x), tc(x, 2).")) == [(1,), (2,), (3,)]
    with pytest.raises(ProgrammingError, match='"Datalog program 2" uses "edge"'):
        first.drop()
    second.drop()
    first.drop()
    assert everything(db) == ([], [], [], [], [])


def test_a_program_is_dropped_with_a_table_that_it_reads(db: Database) -> None:
    db.sql("CREATE TABLE link (a BIGINT, b BIGINT)")
    program = db.datalog(".decl p(x: number)\np(x) :- link(x, _).\n.output p")
    db.sql("CREATE VIEW q AS SELECT * FROM p")
    db.sql("DROP TABLE link CASCADE")
    assert everything(db) == ([], [], [], [], [])
    with pytest.raises(InterfaceError, match="was dropped"):
        program["p"]
    program.drop()


def test_a_view_may_be_dropped_alone(db: Database) -> None:
    program = db.datalog(CLOSURE + ".output tc")
    db.sql("DROP VIEW tc")
    with pytest.raises(ProgrammingError, match="was dropped or replaced"):
        program["tc"]
    assert sorted(program.query("?- tc(1, x).")) == [(2,), (3,)]
    program.drop()
    assert everything(db) == ([], [], [], [], [])


def test_goals_keep_what_they_read(db: Database) -> None:
    program = db.datalog(CLOSURE + ".output tc")
    goal = program.prepare("?- tc(1, x).")
    assert goal.explain().startswith("looked up")
    with pytest.raises(ProgrammingError, match='view "Datalog program 1/goal 1" uses it'):
        db.sql("DROP VIEW tc")
    db.sql("DROP VIEW tc CASCADE")
    with pytest.raises(InterfaceError, match="the goal was dropped"):
        goal()
    with program.prepare("?- tc(1, x).") as again:
        assert sorted(again()) == [(2,), (3,)]
    goal.drop()
    db.sql("DROP TABLE edge CASCADE")
    assert everything(db) == ([], [], [], [], [])


def test_relations_are_found_by_name(db: Database) -> None:
    program = db.datalog(CLOSURE)
    with pytest.raises(ProgrammingError, match='has no relation tcc\nhint: did you mean "tc"'):
        program["tcc"]
    with pytest.raises(ProgrammingError, match='"edge" is a table'):
        program["edge"]
    with pytest.raises(NotSupportedError, match="inside a transaction"), db.transaction():
        db.datalog(".decl q(x: number)")


def test_kept_views_are_read_by_others(db: Database) -> None:
    text = CLOSURE + ".decl far(x: number, y: number)\nfar(x, y) :- tc(x, y), !edge(x, y).\n.output tc, far"
    program = db.datalog(text)
    assert list(program["far"]) == [(1, 3)]
    with pytest.raises(ProgrammingError, match='view "far" uses it'):
        db.sql("DROP VIEW tc")
    program.drop()
    assert everything(db) == ([], [], [], [], [])


def test_relations_without_columns(db: Database) -> None:
    program = db.datalog(".decl go()\n.decl ok()\nok() :- go(), !stop().\n.decl stop()\n.output ok")
    assert list(program["ok"]) == []
    program.update("+go().")
    assert list(program["ok"]) == [(0,)] and len(program.query("?- ok().")) == 1
    program.update("+stop(). +stop().")
    assert list(program["ok"]) == []
    program.update("-stop().")
    assert len(program["ok"]) == 1


def test_texts_floats_records(db: Database) -> None:
    program = db.datalog(
        ".type Pair = [left: symbol, right: number]\n"
        '.decl given(s: symbol, f: float)\ngiven("a\tb", 1.5). given("c", -0.5).\n'
        ".decl made(p: Pair, f: float)\nmade([s, 7], f * 2.0) :- given(s, f).\n"
    )
    assert sorted(program["made"]) == [('["a\\tb", 7]', 3.0), ('["c", 7]', -1.0)]
    assert list(program.query("?- made([$s, n], f).", s="c")) == [(7, -1.0)]


def test_closed_databases_say_so(db: Database) -> None:
    program = db.datalog(CLOSURE)
    goal = program.prepare("?- tc(1, x).")
    db.close()
    for use in (lambda: program["tc"], goal, lambda: program.update("+edge(1, 1).")):
        with pytest.raises(InterfaceError, match="closed"):
            use()


def test_extending_keeps_facts(db: Database) -> None:
    program = db.datalog(CLOSURE)
    program.update("-edge(1, 2). +edge(3, 4).")
    program.extend(".decl start(x: number)\nstart(x) :- edge(x, _).\nedge(8, 9).")
    assert sorted(program["start"]) == [(2,), (3,), (8,)]
    with pytest.raises(DatalogError):
        program.extend("start(x) :- edge(x).")
    with pytest.raises(kpg.DataError):
        program.extend(".decl m(x: number)\nm(x * 5000000000 * 5000000000) :- edge(x, _).\n.output m")
    assert sorted(program["start"]) == [(2,), (3,), (8,)] and "m" not in program
    program.extend(".input edge\nedge(x, x) :- start(x), x > 7.")
    assert sorted(program["edge"]) == [(2, 3), (3, 4), (8, 8), (8, 9)]
    program.update("+edge(9, 1).")
    assert (9, 1) in list(program["edge"])


def test_what_users_see_of_a_program() -> None:
    program = kpg.connect().datalog(".decl e(x: number) e(1). .decl p(x: number) p(x) :- e(x). ?- p(x).")
    assert repr(program) == "<Datalog program 1, 1 to ask: program.goals[0]()>"
    assert {"rows", "query", "update"} <= set(dir(program)) and not {"engine", "pull"} & set(dir(program))
    assert all(hasattr(program, name) for name in dir(program))
