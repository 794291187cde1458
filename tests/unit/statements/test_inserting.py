"""INSERT ... VALUES as it is read without a syntax tree: the same as through one, or the same error."""

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kpg
from kpg.compiler.sql.parameterize.value_lists import read_inserts
from tests.unit.kpg.twins import Twins

COLUMNS = [
    "a int",
    "b text",
    "c numeric(6, 2)",
    "d date",
    "e double precision",
    "f timestamp",
    "g numeric",
    "h boolean",
    "i varchar(3)",
    "j char(3)",
    "k bigint",
    "l smallint",
    "m real",
    "n interval",
    "o uuid",
    "p jsonb",
    "q timestamptz",
    "r int[]",
    "s int default 7",
    "t int not null default 5",
]
PLACES = st.integers(0, len(COLUMNS) - 1)
NUMBERS = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "7",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "32767",
        "-32768",
        "32768",
        "9223372036854775807",
        "-9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "1.5",
        "-1.5",
        "0.005",
        "-0.005",
        "1.25",
        "9999.99",
        "9999.994",
        "9999.995",
        "10000",
        "1.",
        "-0",
        "-0.0",
        "1e3",
        "1e-3",
        "-1E2",
        "1e400",
        "123456789012345678901234567890.5",
        "0x1F",
        "1_000",
        ".5",
        "--1",
        "+1",
        "00012",
        "5e0",
        "3.4e38",
        "3.5e38",
        "1e-46",
        "12e",
    ]
)
STRINGS = st.sampled_from(
    [
        "''",
        "'x'",
        "'it''s'",
        "' 5 '",
        "'5'",
        "'2.50'",
        "'2020-02-29'",
        "'2021-02-29'",
        "'2020-02-29 12:30:00'",
        "'abcd'",
        "'ab  '",
        "'abc '",
        "'true'",
        "'t'",
        "'NaN'",
        "'Infinity'",
        "'1 day 2 hours'",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "'{\"a\": 1}'",
        "'{1,2}'",
        "'a\\b'",
        "E'a\\nb'",
        "$$q'q$$",
        "'a'\n'b'",
        "'a' 'b'",
        "'Zürich ☃'",
        "U&'d'",
        "'open",
        "'a;b'",
        "'-- no comment'",
        "'$1 ?'",
    ]
)
OTHERS = st.sampled_from(
    [
        "NULL",
        "null",
        "TRUE",
        "false",
        "DEFAULT",
        "default",
        "1+1",
        "(1)",
        "now()",
        "pi()",
        "x",
        "'a'||'b'",
        "cast(1_as_text)",
        "ARRAY[1,2]",
        "$1",
        "?",
        "1/*c*/",
        "date'2020-01-01'",
        "DATE_'2020-02-30'",
        "timestamp_'2020-01-01_10:00'",
        "interval_'1_day'",
    ]
).map(lambda text: text.replace("_", " ") if not text.startswith("1_") else text)
CELLS = st.one_of(NUMBERS, STRINGS, OTHERS)
TAILS = st.sampled_from(
    [""] * 6
    + [
        ";",
        " returning *",
        " on conflict do nothing",
        " on conflict do nothing returning z",
        " on conflict (z) do update set z = excluded.z + 100 returning z, 'x;y'",
        " on conflict (z) do update set nothing = 1",
        " returning nothing",
        " returning 1/(z-z)",
        "; insert into t (z) values (1000)",
        "; select count(*) from t",
        " -- the end",
        " garbage",
        " on conflict do nothing;;",
    ]
)


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    table = f"create table t (z int primary key, {', '.join(COLUMNS)})"
    both = Twins(
        table, "create materialized view v as select b, count(*) as n, sum(a) as s from t group by b"
    )
    for db in (both.remembering, both.other):
        db.advance_to("2100-01-01 00:00:00")
    yield both
    both.close()


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_any_cells_give_the_same_rows_or_the_same_error(twins: Twins, data: st.DataObject) -> None:
    twins.tell("delete from t")
    twins.tell("insert into t (z) values (1)")
    width = data.draw(st.integers(1, 3))
    places = data.draw(
        st.lists(st.integers(0, len(COLUMNS) - 1), min_size=width, max_size=width, unique=True)
    )
    names = ", ".join(["z", *(COLUMNS[place].split()[0] for place in places)])
    rows = [
        [str(number), *(data.draw(CELLS) for _ in places)]
        for number in data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    ]
    written = ",\n ".join("(" + data.draw(st.sampled_from([", ", ","])).join(row) + ")" for row in rows)
    text = f"INSERT INTO t ({names}) VALUES {written}{data.draw(TAILS)}"
    twins.tell(text)
    twins.tell("select * from t order by z")
    twins.tell("select * from v order by b")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63) - 2, 2**63 + 2),
    st.integers(-5, 5),
    st.floats(),
    st.decimals(-(10**20), 10**20, allow_nan=False, places=3)
    | st.sampled_from([Decimal("NaN"), Decimal("1E+3"), Decimal("-0.00")]),
    st.text(max_size=5).filter(lambda text: "\0" not in text),
    st.dates(),
    st.datetimes(),
    st.sampled_from([b"x", [1, 2], math.inf, "it's"]),
)


@pytest.mark.slow
@settings(max_examples=120)
@given(st.data())
def test_any_parameters_give_the_same_rows_or_the_same_error(twins: Twins, data: st.DataObject) -> None:
    twins.tell("delete from t")
    places = data.draw(st.lists(PLACES, min_size=1, max_size=3, unique=True))
    names = ", ".join(["z", *(COLUMNS[place].split()[0] for place in places)])
    given_values = [1, *(data.draw(VALUES) for _ in places)]
    numbers = [f"${place + 1}" for place in range(len(given_values))]
    marks = ", ".join(data.draw(st.sampled_from([["?"] * len(numbers), numbers])))
    more = data.draw(st.sampled_from([[], [], [], [1]]))
    twins.tell(f"insert into t ({names}) values ({marks})", [*given_values, *more])
    twins.tell("select * from t order by z")


@pytest.mark.parametrize(
    ("value", "kept"),
    [(5.0, "5"), (-0.0, "0"), (0.30000000000000004, "0.3"), (1.5, "1.5"), (1e22, "1" + "0" * 22)],
)
def test_a_float_becomes_the_numeric_of_its_fifteen_digits(twins: Twins, value: float, kept: str) -> None:
    twins.tell("delete from t")
    twins.tell("insert into t (z, g) values (1, ?)", [value])
    assert str(twins.tell("select g from t")) == f"[(Decimal('{kept}'),)]"
    twins.tell("insert into t (z, g) values (2, 1.50e0)")


def test_parameters_come_from_a_dict_or_not_at_all(twins: Twins) -> None:
    twins.tell("delete from t")
    twins.tell("insert into t (z, a) values (:z, :a)", {"z": 1, "a": 2})
    twins.tell("insert into t (z) values (3)", {"z": 1})
    twins.tell("insert into t (z) values ($1)")
    assert twins.tell("select z, a from t") == [(1, 2)]


def test_numbers_of_sequences_generated_columns_and_checks() -> None:
    both = Twins(
        """create table p (id serial primary key, x int generated always as identity, y int check (y > 0),
           w int generated always as (y * 2) stored, s text default 'q' || 'r', r text default 'r',
           at timestamptz default '2020-01-01', o int references p)"""
    )
    for text in (
        "insert into p (y) values (1), (2)",
        "insert into p (id, y) values (default, 3), (default, 4) returning id, x, w",
        "insert into p (id, y) values (default, 5), (9, 6)",
        "insert into p (x) values (5)",
        "insert into p (x) overriding system value values (50)",
        "insert into p (id) overriding user value values (50)",
        "insert into p (w) values (1)",
        "insert into p (y, w) values (7, default)",
        "insert into p (y) values (0)",
        "insert into p (y, o) values (8, 1)",
        "insert into p (y, o) values (8, 1000)",
        "insert into p (y, s) values (8, 'a')",
        "insert into p values (100, default, 3)",
        "insert into p (y) values ($$1$$)",
        "begin",
        "insert into p (y) values (11)",
        "insert into p (y) values (-11)",
        "insert into p (y) values (12)",
        "rollback",
        "insert into p (nothing) values (11)",
        "insert into p (y, y) values (11, 12)",
        "insert into nothing values (11)",
        "insert into p (y) values (1, 2)",
        "insert into p (y) values (1), (1, 2)",
    ):
        both.tell(text)
        both.tell("select id, x, y, w, s, r, at, o from p order by id")


def test_the_present_time_is_that_of_each_statement() -> None:
    db = kpg.connect()
    db.sql("create table t (a int, at timestamptz default now())")
    db.advance_to("2100-01-01 00:00:00")
    db.sql("insert into t (a) values (1)")
    db.advance_to("2100-01-02 00:00:00")
    db.sql("insert into t (a) values (2)")
    assert db.query("select a, cast(at as date) from t order by a").fetchall() == [
        (1, date(2100, 1, 1)),
        (2, date(2100, 1, 2)),
    ]


def test_a_changed_table_takes_what_it_takes_now() -> None:
    both = Twins("create table t (a int, b text default 'one')")
    insert = "insert into t (a) values (1.6)"
    for text in (
        insert,
        "alter table t alter column b set default 'two'",
        insert,
        "alter table t alter column a type numeric(5, 1)",
        insert,
        "alter table t add column c int default 3",
        insert,
        "insert into t values (2, 'x')",
        "alter table t drop column b",
        insert,
        "insert into t values (2, 5)",
        "create schema s",
        "create table s.t (a text)",
        "set search_path = s",
        insert,
        "insert into t values ('y')",
        "set search_path = public",
        insert,
        "create temp table t (a date)",
        insert,
        "insert into t values ('2020-01-01')",
        "drop table t",
        insert,
        "begin",
        "drop table t",
        insert,
        "rollback",
        insert,
    ):
        both.tell(text)
    both.tell("select * from public.t")
    both.tell("select * from s.t")


def test_what_is_made_of_a_statement_follows_definitions() -> None:
    both = Twins("create table t (id serial primary key, a int, at timestamptz default now())")
    insert = "insert into t (a) values (1) returning id, a + 1 as more"
    update = (
        "insert into t (id, a) values (1, 2) on conflict (id) do update set a = t.a + excluded.a returning *"
    )
    for db in (both.remembering, both.other):
        db.advance_to("2100-01-01 00:00:00")
    for text in (
        insert,
        insert,
        update,
        update,
        "begin",
        "alter sequence t_id_seq rename to another",
        insert,
        "rollback",
        insert,
        "alter table t alter column a type numeric(5, 1)",
        insert,
        update,
        "begin",
        "alter table t rename column a to b",
        insert,
        "rollback",
        insert,
        "alter sequence t_id_seq restart with 100",
        insert,
        "create table other (id serial, a int)",
        "insert into other (a) values (1), (2) returning id",
        "insert into other (a) values (1), (2) returning id",
        "merge into other using (values (1)) v (n) on false when not matched then insert (a) values (n)",
        "drop table other",
        "create table other (id serial, a int)",
        "insert into other (a) values (1), (2) returning id",
        "select * from t order by id",
        "select * from other order by id",
    ):
        both.tell(text)
    for day in (2, 3):
        for db in (both.remembering, both.other):
            db.advance_to(f"2100-01-0{day} 00:00:00")
        both.tell("insert into t (a) values (5) returning at, now()")


def test_what_is_read() -> None:
    (rows,) = read_inserts("insert into t (a, B) values (1, 'it''s') , (-2.5,null) returning a") or ()
    assert rows.text == "insert into t (a, B) values (NULL, NULL) returning a"
    assert rows.columns == (("1", "-2.5"), ("'it''s'", "null"))
    assert len(read_inserts("insert into t values (1); INSERT INTO t VALUES (2);") or ()) == 2
    (rows,) = read_inserts("insert into t values ($2, ?)", [1.5, datetime(2020, 1, 2)]) or ()
    assert rows.columns == (("TIMESTAMP '2020-01-02 00:00:00'",), ("1.5d",))


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (1 + 1)",
        "insert into t values (1) -- no more",
        "insert into t values (1), (1, 2)",
        "insert into t select 1",
        "insert into t values (1) select 2",
        "insert into t values (1) returning (select max(a) from u)",
        "with q as (select 1) insert into t values (1)",
        "insert into t values (1); select 1",
        "insert into t values ($1)",
        "",
    ],
)
def test_what_is_not_read(text: str) -> None:
    assert read_inserts(text) is None
