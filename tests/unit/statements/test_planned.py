"""Plans that are used again give what plans made anew give: the same rows, or the same error."""

from collections.abc import Iterator
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kpg
from kpg.api.database import Database
from kpg.compiler.sql.parameterize.normalization import normalize_text
from tests.unit.kpg.twins import Twins

SETUP = (
    """create table t (a int primary key, b text, c numeric(6, 2), d date, e double precision, f bigint,
       g varchar(3))""",
    "create table u (x int, y text, k int unique, z char(4))",
    "create table p (i int, j text, n numeric, primary key (i, j))",
    "create materialized view v as select b, count(*) as n, sum(c) as s from t group by b",
    "create materialized view w as select a, b, c from t where c > 1",
    "create materialized view o as select y, x from u order by x",
    "create view plain as select a + 1 as a1, b from t where a <> 3",
    """insert into t values (1, 'x', 1.5, '2020-01-01', 0.5, 1, 'ab'),
       (2, 'y', 2.25, '2020-02-01', 1e10, 5000000000, null), (3, 'x', null, null, null, null, 'abc'),
       (4, 'it''s', -1, '1999-12-31', -0.0, -1, '')""",
    "insert into u values (1, 'x', 1, 'a'), (1, 'x', 2, 'a'), (2, 'y', null, 'abcd')",
    "insert into u values (null, null, null, null)",
    "insert into p values (1, 'a', 1.0), (1, 'b', 1.00), (2, 'a', 'NaN'), (2, 'b', 1e30)",
)
INTEGERS = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "-1",
    "7",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775808",
    "007",
]
NUMBERS = [
    *INTEGERS,
    "1.5",
    "2.25",
    "0.005",
    "1e3",
    "1.50",
    "123456.789",
    "1.",
    "-0.5",
    "99999999999999999999.5",
]
TEXTS = [
    "'x'",
    "'y'",
    "'it''s'",
    "''",
    "'abcd'",
    "'a '",
    "'1'",
    "'2'",
    "'%'",
    "'x%'",
    "'NaN'",
    "E'x'",
    "$$y$$",
    "'a\nb'",
]
DATES = [
    "'2020-01-01'",
    "date '2020-01-01'",
    "'1999-12-31'",
    "'nonsense'",
    "'2020-02-30'",
    "timestamp '2020-02-01 00:00:00'",
]
ANY = [*NUMBERS, *TEXTS, *DATES, "null", "true", "'t'"]
SHAPES = [
    "select * from t where a = {i}",
    "select b, c from t where a = {n} and b = {s}",
    "select a, c + {n} from t where c < {n}",
    "select {any}, a from t where a = {i}",
    "select {any}",
    "select {any} as q, {any}",
    "select a / {i} from t where a <> {i}",
    "select {n} / {i}",
    "select * from t where d >= {d}",
    "select * from t where d >= {d} and a in ({i}, {i}, {n})",
    "select * from t where b like {s}",
    "select * from t where e = {n} or f = {n}",
    "select * from t where g = {s}",
    "select * from t where a = {any}",
    "select * from t where {any}",
    "select * from t where {i} = {i} and a = {i}",
    "select a from t order by {i}",
    "select a, b from t order by {i}, a limit {i}",
    "select b, count(*) + {i} from t group by {i}",
    "select b, count(*) from t group by b having count(*) > {i}",
    "select b || {s}, count(*) from t group by b || {s}",
    "select s from v where b = {s}",
    "select * from v where b = {s} and n = {i}",
    "select * from v where s > {n}",
    "select * from w where a = {i}",
    "select b from w where a = {i} and b = {s}",
    "select * from o",
    "select * from o where x = {i}",
    "select * from plain where a1 = {i}",
    "select * from u where k = {i}",
    "select * from u where x = {i} and y = {s}",
    "select y, x from u where z = {s}",
    "select * from p where i = {i} and j = {s}",
    "select * from p where n = {n}",
    "select t.a, u.x from t join u on t.b = u.y where t.a = {i} and u.x < {n}",
    "select a, (select max(x) from u where u.y = t.b and x <> {i}) from t where a < {i}",
    "select case when a = {i} then {any} else {any} end from t",
    "select cast({any} as int), {any}::numeric(4, 1), cast({s} as varchar(2))",
    "select date_trunc({s}, d) from t where a = {i}",
    "select d - interval {s} from t where d > {d}",
    "select d + {i} from t",
    "select coalesce(b, {any}), nullif(a, {any}) from t",
    "select round(c, {i}), substring(b from {i}) from t",
    "select * from (values ({any}, {i}), ({any}, {i})) q(m, n) where n = {i}",
    "with q as (select * from t where a > {i}) select * from q where b = {s}",
    "select row_number() over (order by a), lag(a, {i}) over (order by a) from t",
    "select string_agg(b, {s} order by a) from t where a < {i}",
    "select a from t where a between {i} and {n} union all select {i}",
    "select now() - now(), {i}",
    "select count(*) from pg_class where relname = {s}",
    "select * from nothing where a = {i}",
    "select nothing from t where a = {i}",
    "update t set c = c + {n} where a = {i}",
    "update t set b = {s}, g = {s} where a = {i} returning a, b, {any}",
    "update t set c = {any} where b = {s}",
    "update t set a = {i} where a = {i}",
    "update u set x = {n} where k = {i}",
    "update u set z = {s} where x > {i}",
    "delete from t where a = {i}",
    "delete from u where x = {n} returning *",
    "delete from p where i = {i} and j = {s}",
    "insert into t (a, b, c) values ({i}, {s}, {n})",
    "insert into t (a, b) values ({i}, {s}) on conflict (a) do update set b = excluded.b || {s} returning *",
    "insert into u select {i}, {s}, null",
    "insert into u (x, y) values ({n}, {s}), ({i}, {s})",
]
OTHERS = [
    "begin",
    "commit",
    "rollback",
    "savepoint s",
    "rollback to s",
    "create index on t (b)",
    "alter table u alter column x type bigint",
    "alter table u alter column x type int",
    "alter table u rename column y to yy",
    "alter table u rename column yy to y",
    "drop view if exists plain",
    "create or replace view plain as select a + 2 as a1, b from t",
    "create temp table t (a text, b int)",
    "drop table if exists pg_temp.t",
    "truncate u",
    "prepare one as select * from t where a = $1",
    "execute one(2)",
    "deallocate one",
]
PARTS = {"i": INTEGERS, "n": NUMBERS, "s": TEXTS, "d": DATES, "any": ANY}


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One statement with constants drawn for its shape."""
    shape = draw(st.sampled_from(SHAPES))
    while "{" in shape:
        before, _, rest = shape.partition("{")
        name, _, after = rest.partition("}")
        shape = before + draw(st.sampled_from(PARTS[name])) + after
    return shape + draw(st.sampled_from(["", "", ";", " ", " -- end"]))


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_streams_of_statements(data: st.DataObject) -> None:
    twins = Twins(*SETUP)
    shapes = data.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
    for _ in range(data.draw(st.integers(5, 25))):
        if data.draw(st.integers(0, 6)) == 0:
            twins.tell(data.draw(st.sampled_from(OTHERS)))
            continue
        twins.tell(data.draw(written(shapes)))
    twins.tell("rollback")
    for name in ("t", "u", "p", "v", "w", "o"):
        twins.tell(f"select * from {name}")
    twins.close()


@st.composite
def written(draw: st.DrawFn, shapes: list[str]) -> str:
    """A statement of one of some shapes, its constants often as they were before."""
    shape = draw(st.sampled_from(shapes))
    while "{" in shape:
        before, _, rest = shape.partition("{")
        name, _, after = rest.partition("}")
        shape = before + draw(st.sampled_from(PARTS[name])) + after
    return shape


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, 2, 3, -1, 2**31, 2**63, 2**70, 1.5, -0.0, float("nan"), "x", "it's", "1", "", "2020-01-01"]
    ),
    st.dates(date(1999, 1, 1), date(2021, 1, 1)),
    st.decimals(-1000, 1000, places=2),
)
MARKED = [
    ("select * from t where a = $1", 1),
    ("select b, $2 from t where a = $1 and b = $2", 2),
    ("select a, c + $1 from t where c < $1", 1),
    ("select $1, -$2", 2),
    ("select * from t where d >= ?", 1),
    ("select a from t where a in (?, ?) and 1 = 1", 2),
    ("select a from t order by a limit $1", 1),
    ("update t set c = ? where a = ?", 2),
    ("update t set b = $2 where a = $1 returning b", 2),
    ("delete from t where a = $1", 1),
    ("select * from v where b = ?", 1),
    ("select '?' || $1", 1),
    ("select * from t where $1", 1),
    ("select cast($1 as int), $1::text", 1),
]


@pytest.mark.soak
@settings(max_examples=40)
@given(st.data())
def test_streams_of_parameters(data: st.DataObject) -> None:
    twins = Twins(*SETUP)
    marked = data.draw(st.lists(st.sampled_from(MARKED), min_size=1, max_size=3))
    for _ in range(data.draw(st.integers(4, 15))):
        text, count = data.draw(st.sampled_from(marked))
        more = data.draw(st.sampled_from([0, 0, 0, 0, 0, 1]))
        twins.tell(text, [data.draw(VALUES) for _ in range(count + more)])
    named = {"k": data.draw(VALUES)}
    for _ in range(3):
        twins.tell("select a, :k from t where a = :k", named)
    twins.tell("select * from t")
    twins.close()


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as made:
        for statement in SETUP:
            made.sql(statement)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("shape", [one for one in SHAPES if "now()" not in one and "nothing" not in one])
def test_every_shape_asked_thrice_is_what_it_is_anew(shape: str) -> None:
    """With the first constants twice, then with others."""
    twins = Twins(*SETUP)
    for turn in (0, 0, 1, 2, 3):
        text = shape
        for name, constants in PARTS.items():
            text = text.replace("{" + name + "}", constants[(turn + 1) % len(constants)])
        twins.tell(text)
    twins.close()


def used(db: Database, *texts: str) -> int:
    """How many of some statements had a plan."""
    assert db._open is not None
    before = db._open.plan_cache.hits
    for text in texts:
        db.sql(text)
    return db._open.plan_cache.hits - before


@pytest.mark.parametrize(
    ("shape", "first", "second"),
    [
        ("select * from t where a = {}", 1, 2),
        ("select b, c from t where a = {} and b = 'x'", 1, 2),
        ("select s from v where b = {}", "'x'", "'y'"),
        ("select * from w where c > {}", "1.5", "2.5"),
        ("select * from t where d >= {}", "'2020-01-01'", "date '2021-01-01'"),
        ("select a, b from t where a > {} order by a limit 10", 1, 2),
        ("select b, count(*) from t where c < {} group by 1", 1, 2),
        ("select {}, b from t", 1, 2),
        ("update t set c = c + {} where a = 1", 1, 2),
        ("update t set c = {} where a = {}", 1, 2),
        ("delete from u where k = {}", 1, 2),
        ("select t.a, u.x from t join u on t.b = u.y where t.a = {}", 1, 2),
        ("select c::numeric(4, 1) from t where a = {}", 1, 2),
        ("with q as (select * from t where a > {}) select * from q", 1, 2),
        ("select (select count(*) from u where u.x = t.a and u.x > {}) from t", 1, 2),
    ],
)
def test_what_has_one_plan(db: Database, shape: str, first: object, second: object) -> None:
    texts = [shape.replace("{}", str(one)) for one in (first, first, second)]
    assert used(db, *texts[:2]) == 1
    assert used(db, texts[2], texts[2]) >= 1


@pytest.mark.parametrize(
    "text",
    [
        "select now()",
        "select random()",
        "select current_date",
        "select relname from pg_class",
        "select nextval('n')",
    ],
)
def test_what_has_another_value_each_time_has_no_plan(db: Database, text: str) -> None:
    db.sql("create sequence n")
    assert used(db, text, text, text) == 0


@pytest.mark.parametrize(
    ("text", "absent", "there"),
    [
        ("select k from named where name = $1", [], [(7,)]),
        ("select k from named where other = $1", [], [(7,)]),
        ("select k from named where name = $1 and other <> $2", [], [(7,)]),
        ("select k from named where name <> $1 order by k", [(1,), (2,)], [(1,), (2,)]),
        ("select n from counted where name = $1", [], [(1,)]),
        ("delete from named where name = $1 and k = 100", None, None),
        ("update named set other = 'x' where name = $1 and k = 100", None, None),
    ],
)
def test_texts_that_are_looked_for_are_not_kept(text: str, absent: object, there: object) -> None:
    with kpg.connect() as db:
        db.sql("create table named (name text primary key, other text, k int)")
        db.sql("insert into named values ('a', 'b', 1), ('c', null, 2)")
        db.sql("create materialized view counted as select name, count(*) as n from named group by name")
        db.sql("create index on counted (name)")

        def ask(name: str) -> object:
            found = db.sql(text, (name, "b")[: text.count("$")])
            return found.fetchall() if absent is not None else None

        for number in range(4):
            assert ask(f"first {number}") == absent
        before = len(db._engine.executor.dictionary)
        for number in range(20):
            assert ask(f"second {number}") == absent
        assert len(db._engine.executor.dictionary) == before
        db.sql("insert into named values ('second 3', 'second 3', 7)")
        assert ask("second 3") == there


def test_definitions_and_settings_end_plans(db: Database) -> None:
    query = "select * from t where a = 1"
    assert used(db, query, query, query) == 2
    db.sql("create table elsewhere (a int)")
    assert used(db, query, query) == 1
    db.sql("set plan_cache_mode = force_custom_plan")
    assert used(db, query, query) == 0
    db.sql("reset plan_cache_mode")
    assert used(db, query, query, query) == 3
    db.create_function("twice", lambda n: n * 2, [int], int)
    twice = "select twice(21)"
    assert [db.query(twice).fetchall() for _ in range(3)] == [[(42,)]] * 3
    db.drop_function("twice")
    db.create_function("twice", lambda n: n * 3, [int], int)
    assert db.query(twice).fetchall() == [(63,)]


def test_a_division_by_what_was_not_zero() -> None:
    """Whether a division can fail decides when it is made: no plan for one divisor serves another."""
    twins = Twins(*SETUP)
    for divisor in (1, 1, 2, 0, 0):
        twins.tell(f"select a from t where a = 100 and a / {divisor} > 1")
        twins.tell(f"select a / {divisor} from t join u on t.b = u.y where u.x = 5")
    twins.close()


def test_rows_of_an_open_transaction_are_seen(db: Database) -> None:
    query = "select n from v where b = 'x'"
    point = "select b from t where a = 9"
    for _ in range(3):
        assert db.query(query).fetchall() == [(2,)]
        assert db.query(point).fetchall() == []
    db.sql("begin")
    db.sql("insert into t (a, b) values (9, 'x')")
    for _ in range(3):
        assert db.query(query).fetchall() == [(3,)]
        assert db.query(point).fetchall() == [("x",)]
    db.sql("rollback")
    for _ in range(3):
        assert db.query(query).fetchall() == [(2,)]
        assert db.query(point).fetchall() == []


def test_what_was_is_asked_of_the_past() -> None:
    with kpg.connect(history=100) as db:
        db.sql("create table t (a int)")
        start = db.epoch
        for n in range(3):
            db.sql(f"insert into t values ({n})")
        for _ in range(3):
            for n in range(4):
                assert db.query(f"select count(*) from t as of {start + n}").fetchall() == [(n,)]


def test_functions_written_in_sql_may_be_replaced(db: Database) -> None:
    for added in (1, 2):
        db.sql(f"create or replace function more(int) returns int language sql as 'select $1 + {added}'")
        assert [db.query(f"select more({n})").fetchall() for n in range(3)] == [
            [(n + added,)] for n in range(3)
        ]


def test_a_name_of_the_callers_is_not_taken_for_a_table(db: Database) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2]})
    for n in (1, 2, 3):
        frame = pandas.DataFrame({"a": list(range(n))})
        assert db.query("select count(*) from frame").fetchall() == [(n,)]
    assert len(frame) == 3


def test_texts_without_their_constants() -> None:
    found = normalize_text("select s from v1 where b = 'x''y' and \"a 5\" = 5 and c < 1.25;")
    assert found is not None
    assert found.constant_texts == ("'x''y'", "5", "1.25")
    assert [text for text in found.text.split("\ue000") if "=" in text or "<" in text] == [
        "select s from v1 where b = ",
        ' and "a 5" = ',
        " and c < ",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "select E'x'",
        "select 'a' -- x",
        "select 'a' /* 5 */",
        "select 1; select 2",
        "select 1e5",
        "select 0x1F",
        "select 'open",
        "select $$a$$",
        "create table t (a int)",
        "select '\ue000'; select 1",
        "",
    ],
)
def test_texts_that_are_read_as_they_are(text: str) -> None:
    assert normalize_text(text) is None
