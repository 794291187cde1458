"""Texts of definitions get the whole names of what they name."""

import pytest

import kpg
from kpg.api.database import Database
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.rewrite.name_qualification import nextval_call, qualify_names, uses_sequence


@pytest.fixture(scope="module")
def db() -> Database:
    made = kpg.connect()
    made.sql(
        """
        create schema far;
        create function f(int) returns int language sql immutable as 'select $1';
        create function far.g(int) returns int language sql immutable as 'select $1';
        create sequence s; create sequence far.r;
        create table t (f int, x int); create table far.u (x int); create table log (x int);
        set search_path = far, public;
        """
    )
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 0", "a > 0"),
        ("'f(1)'", "'f(1)'"),
        ("f(a) + f (b)", "public.f(a) + public.f (b)"),
        ("far.g(f(g(1)))", "far.g(public.f(far.g(1)))"),
        ("length(x) > lower(y)", "length(x) > lower(y)"),
        ("nextval('s')", "nextval('public.s')"),
        ("nextval('s'::regclass) + nextval('r')", "nextval('public.s'::regclass) + nextval('far.r')"),
        ("nextval('public.s')", "nextval('public.s')"),
        ("'t'::regclass", "'public.t'::regclass"),
        ("insert into log (x) values (f(new.x))", "insert into public.log (x) values (public.f(new.x))"),
        ("update u set x = 1 where x in (select t.f from t)",
         "update far.u set x = 1 where x in (select t.f from public.t)"),
        ("x in (with t as (select 1 as f) select f from t, u)",
         "x in (with t as (select 1 as f) select f from t, far.u)"),
        ("exists (select from t as a, lateral f(a.x))",
         "exists (select from public.t as a, lateral public.f(a.x))"),
        ("((", "(("),
        ("nothing_like_that(1)", "nothing_like_that(1)"),
    ],
)  # fmt: skip
def test_names_become_whole(db: Database, text: str, expected: str) -> None:
    assert qualify_names(text, db._engine.catalog) == expected
    assert qualify_names(expected, db._engine.catalog) == expected


def test_a_sequence_in_a_default() -> None:
    assert [nextval_call(name) for name in ("s", "far.s", "S")] == [
        "nextval('public.s')",
        "nextval('far.s')",
        "nextval('public.\"S\"')",
    ]
    parse_expression(nextval_call("it's"))
    assert uses_sequence("nextval('s')", "s") and uses_sequence("nextval('public.s')", "s")
    assert not uses_sequence("nextval('far.s')", "s") and not uses_sequence("nextval('ss')", "s")


def test_users_see_texts_as_their_path_needs_them(db: Database) -> None:
    db.sql("create view public.v as select f(x) as y from t")
    shown = []
    for path in ("public", "far, public", "far"):
        db.sql(f"set search_path = {path}")
        text = db.query("select pg_get_viewdef('public.v'::regclass)").fetchall()[0][0]
        shown.append(" ".join(text.split()))
    assert shown == [
        "select f(x) as y from t;",
        "select f(x) as y from t;",
        "select public.f(x) as y from public.t;",
    ]
