"""Functions in SQL: what is refused, and what views that use them allow.

What they answer is compared with Postgres, by the oracle's scripts.
"""

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Database:
    made = kpg.connect()
    made.sql("create table t (a int, b text); insert into t values (1, 'x')")
    return made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "create function f() returns int language plpgsql as $$ begin return 1; end $$",
            "a function in plpgsql is not supported",
        ),
        (
            "create function f() returns int as $$ begin return 1; end $$ language plpgsql",
            "a function in plpgsql is not supported",
        ),
        (
            "create function f() returns int language sql as 'delete from t returning a'",
            "a function that does anything but query is not supported",
        ),
        (
            "create function f() returns float language sql as 'select random()'",
            "function f, which is volatile, is not supported",
        ),
        (
            "create function f() returns bigint language sql as 'select nextval(''s'')'",
            "function f, which is volatile, is not supported",
        ),
        (
            "create function f(x int) returns int language sql as 'select f(x)'",
            "function f, which calls itself, is not supported",
        ),
        ("create function f(x int) returns int language sql", "expected AS and the body of the function"),
        ("create function f(x int) language sql as 'select 1'", "function f needs RETURNS and a type"),
        ("create function f() returns int language sql as 'select c from t'", 'column "c" does not exist'),
        ("create function f() returns int language sql as 'select 1, 2'", "gives 2 columns, 1 are declared"),
        ("create function f() returns nothing language sql as 'select 1'", 'type "nothing" does not exist'),
        (
            "create function f(a t.c%type) returns int language sql as 'select 1'",
            'column "c" of "t" does not',
        ),
        ("create function p() returns int language c as 'select 1'", "a function in c"),
        ("drop function f", 'function "f" does not exist'),
        ("alter function f() rename to g", 'function "f" does not exist'),
    ],
)
def test_what_is_no_function_in_sql_is_refused_by_name(db: Database, text: str, message: str) -> None:
    with pytest.raises(kpg.Error) as caught:
        db.sql(text)
    assert message in str(caught.value)


def test_a_call_that_fits_no_function_says_so_at_its_place(db: Database) -> None:
    db.sql("create function f(x int) returns int language sql return x")
    with pytest.raises(kpg.ProgrammingError) as caught:
        db.sql("select f(current_date)")
    assert str(caught.value).startswith("function f(DATE) does not exist\nline 1: select f(current_date)")
