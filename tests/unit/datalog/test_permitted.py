"""Roles and Datalog programs: whose their relations are, and who may ask, change, extend and drop them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import DatalogError, PrivilegeError
from kpg.server.web.statement_api import run_datalog

SETUP = """
create role bob login; create role eve login; grant create on schema public to bob, eve;
create table seen (a bigint); insert into seen values (1); grant select on seen to bob;
create table hidden (a bigint); insert into hidden values (77);
create table mine (a bigint, who text); insert into mine values (1, 'bob'), (2, 'eve');
alter table mine enable row level security; create policy p on mine using (who = current_user);
grant all on mine to bob;
"""
PATHS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
OWNERS = "select relname, relowner::regrole::text from pg_class where relname in ('edge', 'path') order by 1"


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as opened:
        opened.sql(SETUP)
        yield opened


def ask(db: Database, user: str, text: str, **values: Any) -> Any:
    """What a program's text gives to a role: the rows of its last goal, or the number of changed rows."""
    session = db.session(user)
    try:
        engine = session.session_manager.engine
        head, answers = session.run(lambda _: run_datalog(engine, text, values))
        return answers[-1][1].fetchall() if answers else head.get("changed")
    finally:
        session.close()


def test_relations_belong_to_the_role_that_installed_them(db: Database) -> None:
    assert ask(db, "bob", f"{PATHS}?- path(1, x).") == []
    assert db.query(OWNERS).fetchall() == [("edge", "bob"), ("path", "bob")]
    assert ask(db, "bob", "+edge(1, 2). +edge(2, 3).") == 2
    assert ask(db, "bob", "?- path(1, x).") == [(2,), (3,)]
    assert ask(db, "bob", "-edge(2, 3).") == 1
    session = db.session("bob")
    assert session.sql("select * from path").fetchall() == [(1, 2)]


def test_others_need_a_grant_for_each_of_them(db: Database) -> None:
    ask(db, "bob", PATHS)
    for text in ("?- path(1, x).", "?- path(1, x), path(x, y).", "?- edge(x, y)."):
        with pytest.raises(PrivilegeError, match=r"permission denied for (view path|table edge)"):
            ask(db, "eve", text)
    for text in ("+edge(1, 2).", "-edge(1, 2)."):
        with pytest.raises(PrivilegeError, match="permission denied for table edge"):
            ask(db, "eve", text)
    db.sql("grant select on path to eve; grant insert on edge to eve")
    assert ask(db, "eve", "+edge(1, 2).") == 1
    assert ask(db, "eve", "?- path(1, x).") == [(2,)]
    with pytest.raises(PrivilegeError, match="permission denied for table edge"):
        ask(db, "eve", "-edge(1, 2).")
    eve = db.session("eve")
    for statement in ("drop table edge cascade", "drop view path", "alter view path rename to way"):
        with pytest.raises(PrivilegeError, match="must be owner of"):
            eve.sql(statement)
    bob = db.session("bob")
    bob.sql("revoke select on path from eve")
    with pytest.raises(PrivilegeError, match="permission denied for view path"):
        ask(db, "eve", "?- path(1, x).")
    bob.sql("drop table edge cascade")
    assert db.query(OWNERS).fetchall() == []
    assert not db._engine.dataflows


def test_it_is_so_when_a_folder_is_opened_again(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(SETUP)
        ask(db, "bob", f"{PATHS}?- path(1, x).")
        ask(db, "bob", "+edge(1, 2).")
    with kpg.connect(tmp_path / "db") as db:
        assert db.query(OWNERS).fetchall() == [("edge", "bob"), ("path", "bob")]
        assert ask(db, "bob", "?- path(1, x).") == [(2,)]
        assert ask(db, "bob", "+edge(2, 3).") == 1
        with pytest.raises(PrivilegeError, match="permission denied for view path"):
            ask(db, "eve", "?- path(1, x).")
        db.session("bob").sql("drop table edge cascade")
        assert db.query(OWNERS).fetchall() == []


def test_privileges_end_with_a_program(db: Database) -> None:
    """A relation that gets the name later is nobody's but its maker's."""
    program = db.datalog(PATHS)
    db.sql("grant select, insert on edge to eve; grant select on path to eve")
    program.extend("path(x, x) :- edge(x, _).")
    assert ask(db, "eve", "?- path(1, x).") == []  # an extension keeps them
    program.drop()
    db.sql("create table path (x bigint, y bigint)")
    db.datalog(".decl edge(x: number)\n.input edge")
    for text in ("?- path(1, x).", "?- edge(x)."):
        with pytest.raises(PrivilegeError, match="permission denied for table"):
            ask(db, "eve", text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "?- hidden(x).",
            "?- seen(x), hidden(x).",
            "?- seen(x), !hidden(x).",
            "?- count : {hidden(_)} = x.",
        ),
        *(".decl q(x: number)\nq(x) :- hidden(x).", ".decl q(x: number)\nq(n) :- n = count : {hidden(_)}."),
        *(
            "+hidden(1).",
            "-hidden(77).",
            "+seen(2).",
            "-seen(1).",
            ".decl q(x: number) inline\nq(x) :- hidden(x).",
        ),
    ],
)
def test_what_is_not_granted_is_refused(db: Database, text: str) -> None:
    with pytest.raises((PrivilegeError, DatalogError)) as raised:
        ask(db, "bob", text)
    assert "77" not in str(raised.value).replace(text, "")
    if not isinstance(raised.value, DatalogError):
        assert "permission denied for table" in str(raised.value)
    assert db.query("select (select count(*) from hidden), (select count(*) from seen)").fetchall() == [
        (1, 1)
    ]


def test_policies_are_not_passed_over(db: Database) -> None:
    bob = db.session("bob")
    bob.sql("create view my as select * from mine")
    assert bob.sql("select * from my").fetchall() == [(1, "bob")]
    for text in (
        *("?- mine(x, y).", '+mine(3, "eve").', '-mine(2, "eve").', "?- my(x, y)."),
        *(".decl q(x: number)\nq(x) :- mine(x, _).", ".decl q(x: number)\nq(x) :- my(x, _)."),
    ):
        with pytest.raises(PrivilegeError, match="would be affected by row-level security policy"):
            ask(db, "bob", text)
    assert db.query("select count(*) from mine").fetchall() == [(2,)]


def test_a_program_is_its_owners_where_the_role_is_set(db: Database) -> None:
    """Handles of Python, too, have the rights of the role that is set."""
    program = db.datalog(f"{PATHS}edge(1, 2).\n?- path(1, x).")
    goal = db.prepare("?- path($a, x).")
    db.sql("set role eve")
    for call in (
        *(lambda: goal(a=1), lambda: goal.subscribe(a=1), goal.explain, lambda: program.goals[0]()),
        *(lambda: program["path"], lambda: program.rows("path"), lambda: program.rows("edge")),
        *(lambda: program.explain("path", "rules"), lambda: program.query("?- path(1, x).")),
        *(lambda: program.explain_row("path", (1, 2)), lambda: program.explain_absence("path", (2, 1))),
        *(lambda: program.explain_atom("path(1, 2)"), lambda: program.update("+edge(5, 6).")),
    ):
        with pytest.raises(PrivilegeError, match="permission denied for"):
            call()
    for call in (program.drop, lambda: program.extend(".decl q(x: number)")):
        with pytest.raises(PrivilegeError, match="must be owner of table edge"):
            call()
    db.sql("reset role; grant select on path to eve; set role eve")
    assert list(goal(a=1)) == [(2,)]
    with pytest.raises(PrivilegeError, match="permission denied for table edge"):
        program.explain_row("path", (1, 2))  # its proof has rows of edge
    db.sql("reset role")
    program.drop()


def test_an_extension_belongs_to_the_owner_of_the_program(db: Database) -> None:
    db.sql("set role bob")
    program = db.datalog(PATHS)
    db.sql("reset role")
    program.extend(".decl loop(x: number)\nloop(x) :- path(x, x).")
    found = "select relowner::regrole::text from pg_class where relname in ('edge', 'path', 'loop')"
    assert db.query(found).fetchall() == [("bob",)] * 3


def test_errors_do_not_show_texts_of_others(db: Database) -> None:
    """The text of a program is seen by its owner only; of what is asked, everybody sees his own."""
    db.datalog(".decl e(x: number)\n.input e\n.decl p(x: number)\np(y) :- e(x), y = 10/x + 4711.\n.output p")
    db.sql("grant select, insert on e to eve; grant select on p to eve")
    for act in (lambda: ask(db, "eve", "+e(0)."), lambda: db.session("eve").sql("insert into e values (0)")):
        with pytest.raises(kpg.DataError, match="division by zero") as raised:
            act()
        assert "4711" not in str(raised.value)
    with pytest.raises(kpg.DataError, match="4711"):
        db.sql("insert into e values (0)")
    with pytest.raises(DatalogError, match=r'\?- p\("a"\)'):
        ask(db, "eve", '?- p("a").')
    ask(
        db, "bob", ".decl f(x: number)\n.input f\n.decl r(x: number)\nr(10/x) :- f(x).\n.query r(f)\n?- r(x)."
    )
    with pytest.raises(kpg.DataError, match=r"r\(10/x\) :- f\(x\)"):
        ask(db, "bob", "+f(0).")


def test_calls_of_a_database_never_have_the_rights_of_a_closed_session(db: Database) -> None:
    session = db.session("eve")
    session.sql("select 1")
    session.close()
    assert db.query("select current_user, (select count(*) from hidden)").fetchall() == [("kpg", 1)]


def test_a_relation_ends_with_the_rights_of_its_owner(db: Database) -> None:
    """A relation that is computed when it is read is read with the rights that its owner has then."""
    ask(db, "bob", ".decl q(x: number)\nq(x) :- seen(x).")
    bob, eve = db.session("bob"), db.session("eve")
    bob.sql("grant select on q to eve")
    assert eve.sql("select * from q").fetchall() == [(1,)]
    db.sql("revoke select on seen from bob")
    for read in (lambda: bob.sql("select * from q"), lambda: ask(db, "bob", "?- q(x).")):
        with pytest.raises(PrivilegeError, match="permission denied for table seen"):
            read()
    with pytest.raises(PrivilegeError, match="permission denied for table seen"):
        eve.sql("select * from q")
    db.sql("grant select on seen to bob; alter table seen enable row level security")
    for read in (
        lambda: bob.sql("select * from q"),
        lambda: eve.sql("select * from q"),
        lambda: ask(db, "bob", "?- q(x)."),
        lambda: db.query("select * from q"),  # a view is read with the policies of its owner
    ):
        with pytest.raises(PrivilegeError, match="would be affected by row-level security policy"):
            read()
    db.datalog(".decl all_mine(x: number)\nall_mine(x) :- mine(x, _).")
    db.sql("grant select on all_mine to bob")  # whose owner passes the policies over, as of a view
    assert sorted(bob.sql("select * from all_mine")) == [(1,), (2,)]
    assert sorted(ask(db, "bob", "?- all_mine(x).")) == [(1,), (2,)]
