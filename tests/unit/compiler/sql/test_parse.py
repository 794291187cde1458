"""Statements: what a script is taken apart into."""

import pytest

from kpg.compiler import explain
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import STAGES, parse, parse_query
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.types import DATE, INTEGER, REAL, TEXT, ColumnDef, Kind, Schema, Type, decimal


def one(text: str) -> ast.Statement:
    (statement,) = parse(text)
    return statement


def test_a_script_is_split_at_semicolons_outside_strings_and_comments() -> None:
    script = "select ';' as a; -- no; statement\n;; select 2 /* ; */"
    texts = [statement.text for statement in parse(script) if isinstance(statement, ast.Select)]
    assert texts == ["select ';' as a", "select 2"]


def test_create_table() -> None:
    statement = one(
        """create table if not exists T (a int, b decimal(15, 2) not null, c varchar(10), d date,
           e char, f real, g text, primary key (d, A))"""
    )
    assert isinstance(statement, ast.CreateTable)
    assert statement.name == "T" and statement.if_not_exists
    assert statement.schema == Schema(
        (
            ColumnDef("a", INTEGER, False),
            ColumnDef("b", decimal(15, 2), False),
            ColumnDef("c", Type(Kind.VARCHAR, 10), True),
            ColumnDef("d", DATE, False),
            ColumnDef("e", Type(Kind.CHAR, 1), True),
            ColumnDef("f", REAL, True),
            ColumnDef("g", TEXT, True),
        ),
        (3, 0),
    )


def test_views_keep_the_text_of_their_query() -> None:
    text = "create materialized view v (x, y) as\n  with w as (select 1) select * from w"
    statement = one(text)
    assert isinstance(statement, ast.CreateView)
    assert statement.materialized and statement.columns == ("x", "y")
    assert statement.query.text == "with w as (select 1) select * from w"
    replaced = one("create or replace view v as select 1")
    assert isinstance(replaced, ast.CreateView) and replaced.or_replace and not replaced.materialized


def test_copy() -> None:
    source = one("copy t (a, b) from 'x.csv' (header true, delimiter '|', null 'NA')")
    assert isinstance(source, ast.CopyFrom)
    assert (source.table, source.columns, source.path, source.format) == ("t", ("a", "b"), "x.csv", "csv")
    assert dict(source.options) == {"header": "true", "delimiter": "|", "null": "NA"}
    target = one("copy (select 1) to 'out' (format parquet)")
    assert isinstance(target, ast.CopyTo) and target.format == "parquet"
    assert isinstance(one("copy t to 'x.parquet'"), ast.CopyTo)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("begin", ast.Begin),
        ("start transaction", ast.Begin),
        ("commit work", ast.Commit),
        ("end", ast.Commit),
        ("rollback", ast.Rollback),
        ("abort", ast.Rollback),
        ("show tables", ast.ShowTables),
        ("verify view v", ast.VerifyView),
        ("create table t as select 1", ast.CreateTableAs),
        ("delete from t using u, v where true", ast.Delete),
        ("update t set a = 1 from u", ast.Update),
        ("describe t", ast.Describe),
        ("drop materialized view if exists v", ast.Drop),
        ("insert into t values (1)", ast.Insert),
        ("delete from t as x where x.a = 1", ast.Delete),
        ("update t set a = 1", ast.Update),
        ("values (1)", ast.Select),
        ("(select 1) union (select 2)", ast.Select),
    ],
)
def test_kinds(text: str, kind: type) -> None:
    assert isinstance(one(text), kind)


def test_insert_on_conflict() -> None:
    statement = one(
        "insert into t as x (a, b) values (1, 2) on conflict (a) do update set b = excluded.b where true"
    )
    assert isinstance(statement, ast.Insert) and statement.conflict is not None
    assert (statement.alias, statement.columns, statement.conflict.columns) == ("x", ("a", "b"), ("a",))
    assert [target.name for target, _ in statement.conflict.assignments] == ["b"]
    assert statement.conflict.where is not None
    nothing = one("insert into t values (1) on conflict do nothing")
    assert isinstance(nothing, ast.Insert) and nothing.conflict is not None
    assert (nothing.conflict.columns, nothing.conflict.assignments) == ((), ())


def test_create_table_as_keeps_its_names() -> None:
    statement = one("create table if not exists t (x, y) as (select 1, 2)")
    assert isinstance(statement, ast.CreateTableAs)
    assert (statement.name, statement.columns, statement.if_not_exists) == ("t", ("x", "y"), True)
    assert statement.query.text == "(select 1, 2)"


def test_stages_are_those_that_plans_are_explained_at() -> None:
    assert (*explain.STAGES, "arrangements") == STAGES
    for stage in STAGES:
        statement = one(f"explain {stage} select 1")
        assert isinstance(statement, ast.Explain) and statement.stage == stage


def test_explain_names_a_stage() -> None:
    statement = one("explain logical select 1")
    assert isinstance(statement, ast.Explain) and statement.stage == "logical"
    assert isinstance(statement.statement, ast.Select) and statement.statement.text == "select 1"


LENGTHS = [
    (f"create table t (a {type_})", message, None)
    for type_, message in (
        ("decimal(1001, 2)", "NUMERIC precision 1001 must be between 1 and 1000"),
        ("numeric(99999999999)", "NUMERIC precision 99999999999 must be between 1 and 1000"),
        ("char(0)", "length for type char must be at least 1"),
        ("char(99999999999)", "length for type char cannot exceed 10485760"),
        ("varchar(10485761)", "length for type varchar cannot exceed 10485760"),
        ("char(10485761)[]", "length for type char cannot exceed 10485760"),
        ("bit(0)", "length for type bit must be at least 1"),
        ("bit(83886081)", "length for type bit cannot exceed 83886080"),
        ("bit varying(99999999999)", "length for type varbit cannot exceed 83886080"),
        ("float(0)", "precision for type float must be at least 1 bit"),
        ("float(54)", "precision for type float must be less than 54 bits"),
        ("timestamp(99999999999)", 'value "99999999999" is out of range for type integer'),
        ("time(99999999999)", 'value "99999999999" is out of range for type integer'),
    )
]


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        *LENGTHS,
        ("select 1 +", "syntax error at the end of the statement", "+"),
        ("select a b c", 'syntax error at "c"', "c"),
        ("insert into t values (1) on conflict (a) update set a = 1", 'syntax error at "update"', "update"),
        ("insert into t values (1) on conflict nothing", 'syntax error at "nothing"', "nothing"),
        ("select 1; select 'abc", "a string, name or comment does not end", "'abc"),
        ("verify view", "VERIFY VIEW takes the name of one view", "verify view"),
        ("verify view a b", "VERIFY VIEW takes the name of one view", "b"),
        ("create table t (a int, A int)", 'column "A" is defined twice', "A"),
        ("create table t (a int, primary key (b))", 'primary key column "b" does not exist', None),
        ("copy t from 'x.json'", 'cannot tell the format of "x.json"', "'x.json'"),
        ("copy t from 'x.csv' (colour 'red')", 'unknown COPY option "colour"', None),
    ],
)
def test_mistakes(text: str, message: str, place: str | None) -> None:
    with pytest.raises(ProgrammingError) as caught:
        parse(text)
    span = caught.value.span
    assert caught.value.message == message and span is not None
    assert place is None or span.source[span.start : span.end] == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create table t (a geometry)", "type GEOMETRY is not supported"),
        ("explain drop table t", "EXPLAIN of anything but a query or a change is not supported"),
        ("select " + "(" * 3000 + "1" + ")" * 3000, "a statement nested this deep is not supported"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        parse(text)
    assert caught.value.message == message and caught.value.span is not None


def test_parse_query_wants_one_query() -> None:
    assert parse_query("select 1;").text == "select 1"
    with pytest.raises(ProgrammingError, match="expected one query"):
        parse_query("select 1; select 2")
