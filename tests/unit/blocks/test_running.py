"""PL/pgSQL as it runs, where it fails, and what views may call; what it gives is compared with Postgres."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kpg
from kpg.database import Database


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as made:
        made.sql("create table t (a int primary key, b text); insert into t values (1, 'x'), (2, 'y')")
        yield made


def function(body: str, result: str = "int", declared: str = "") -> str:
    return f"create function f(n int) returns {result} language plpgsql as $$ {declared} begin {body} end $$"


@pytest.mark.parametrize(
    ("body", "result", "message"),
    [
        ("n := n;", "int", "control reached end of function without RETURN"),
        ("raise exception 'no % of %', n, 'them';", "int", "no 1 of them"),
        ("raise 'a %';", "int", "too few parameters specified for RAISE"),
        ("raise unique_violation;", "int", "unique_violation"),
        ("assert n > 5, 'small';", "int", "small"),
        ("case n when 2 then return 1; end case;", "int", "case not found"),
        ("select 5;", "int", "query has no destination for result data"),
        ("select a into strict n from t; return n;", "int", "query returned more than one row"),
        ("m := 1;", "int", '"m" is not a known variable'),
        ("null; return query select 1;", "int", "cannot use RETURN QUERY in a non-SETOF function"),
        ("null; return query select 1, 2;", "setof int", "structure of query does not match"),
        ("return f(n + 1);", "int", "functions call each other more than 60 deep"),
        ("commit;", "int", "COMMIT here is not supported"),
        ("for i in 1..3 by 0 loop end loop;", "int", "BY value of FOR loop must be greater than zero"),
        ("foreach n in array null::int[] loop end loop;", "int", "FOREACH expression must not be null"),
        ("execute null::text;", "int", "query string argument of EXECUTE is null"),
    ],
)
def test_errors_of_bodies(db: Database, body: str, result: str, message: str) -> None:
    db.sql(function(body, result))
    with pytest.raises(kpg.Error, match=message):
        db.sql("select * from f(1)")
    assert db.query("select a, b from t order by a").fetchall() == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if n then", "syntax error at"),
        ("return", "syntax error at"),
        ("loop end if;", 'syntax error at "if"'),
        ("frobnicate;", 'syntax error at "frobnicate"'),
    ],
)
def test_a_body_is_read_when_it_is_made(db: Database, body: str, message: str) -> None:
    with pytest.raises(kpg.ProgrammingError, match=message):
        db.sql(function(body))


def test_an_error_takes_back_what_the_function_has_changed(db: Database) -> None:
    db.sql(function("insert into t values (n, 'new'); return 1 / (n - 5);"))
    with pytest.raises(kpg.DataError, match="division by zero"):
        db.sql("select f(5)")
    assert db.query("select f(6)").fetchall() == [(1,)]
    assert db.query("select a from t order by a").fetchall() == [(1,), (2,), (6,)]


def test_a_view_follows_through_a_function_that_reads_nothing(db: Database, tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as kept:
        kept.sql("create table t (a int); insert into t values (3)")
        kept.sql(function("for i in 1..n loop s := s + i; end loop; return s;", "int", "declare s int := 0;"))
        kept.sql("create materialized view v as select a, f(a) s from t")
    with kpg.connect(tmp_path / "db") as kept:
        kept.sql("insert into t values (4); delete from t where a = 3")
        assert kept.query("select * from v").fetchall() == [(4, 10)]
        kept.verify("v")


def test_a_view_does_not_call_what_reads_tables(db: Database) -> None:
    db.sql(function("null; return (select count(*) from t where a < n);"))
    with pytest.raises(kpg.NotSupportedError, match="a view that calls function f, whose body reads"):
        db.sql("create materialized view v as select f(a) from t")
    assert db.query("select a, f(a) from t order by a").fetchall() == [(1, 0), (2, 1)]


def test_each_call_sees_the_tables_as_they_are_now(db: Database) -> None:
    db.sql(function("null; return (select count(*) from t);"))
    for count in (3, 4, 5):
        db.sql(f"insert into t values ({count}, null)")
        assert db.query("select f(0)").fetchall() == [(count,)]


def test_notices_are_there_to_be_read(db: Database) -> None:
    db.sql("do $$ begin raise notice 'at % %%', 5; raise warning 'w'; end $$")
    assert db.notices == [("NOTICE", "at 5 %"), ("WARNING", "w")]


def test_a_procedure_may_commit(db: Database) -> None:
    db.sql(
        "create procedure p() language plpgsql as $$ begin insert into t values (7, 'kept'); commit;"
        " insert into t values (8, 'lost'); rollback; insert into t values (9, 'kept'); end $$"
    )
    db.sql("call p()")
    assert db.query("select a from t order by a").fetchall() == [(1,), (2,), (7,), (9,)]
    with pytest.raises(kpg.ProgrammingError, match="p is a procedure"):
        db.sql("select p()")
    with pytest.raises(kpg.ProgrammingError, match="procedure q does not exist"):
        db.sql("call q()")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create trigger a before insert on t for each row execute function none()", "none.. does not exist"),
        ("create trigger a instead of insert on t for each row execute function g()", '"t" is a table'),
        ("create trigger a before insert on v for each row execute function g()", '"v" is a view'),
        ("create trigger a before insert on t for each row execute function h()", "must return type trigger"),
        ("drop trigger a on t", 'trigger "a" for table "t" does not exist'),
        ("select g()", "can only be called as triggers"),
    ],
)
def test_what_is_no_trigger_is_refused(db: Database, text: str, message: str) -> None:
    db.sql("create view v as select a from t where a > 1 limit 1")
    db.sql("create function g() returns trigger language plpgsql as $$ begin return new; end $$")
    db.sql("create function h() returns int language plpgsql as $$ begin null; return 1; end $$")
    with pytest.raises(kpg.Error, match=message):
        db.sql(text)


def test_triggers_are_there_when_a_folder_is_opened_again(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as kept:
        kept.sql("create table t (a int)")
        kept.sql(
            "create function g() returns trigger language plpgsql as $$ begin new.a := 5; return new; end $$"
        )
        kept.sql("create trigger g before insert on t for each row execute function g()")
    with kpg.connect(tmp_path / "db") as kept:
        kept.sql("insert into t values (1)")
        assert kept.query("select a from t").fetchall() == [(5,)]
