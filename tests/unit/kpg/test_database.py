"""The Python API: databases, changes by Python data, transactions, listings."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.api.database import Database
from tests.waiting import PATIENCE, until

A, B = ("a", Decimal("6.00")), ("b", Decimal("1.00"))


def totals(db: Database) -> list[tuple[Any, ...]]:
    return db.view("total").fetchall()


def test_closed_database_refuses(db: Database) -> None:
    db.close()
    db.close()
    assert db.closed
    with pytest.raises(kpg.InterfaceError, match="the database is closed"):
        db.sql("SELECT 1")


def test_views_of_a_closed_database_refuse(shop: Database) -> None:
    view = shop.view("total")
    shop.close()
    with pytest.raises(kpg.InterfaceError, match="the database is closed"):
        view.fetchall()


def test_with_closes() -> None:
    with kpg.connect() as db:
        assert not db.closed
    assert db.closed


def test_query_is_for_queries(db: Database) -> None:
    assert db.query("SELECT 1 AS one").fetchall() == [(1,)]
    with pytest.raises(kpg.InterfaceError, match="the statement gives no rows"):
        db.query("CREATE TABLE t (a INT)")


def test_databases_are_apart(shop: Database) -> None:
    with kpg.connect() as other, pytest.raises(kpg.ProgrammingError, match="item"):
        other.sql("SELECT * FROM item")


@pytest.mark.parametrize(
    "data",
    [
        [(4, "b", 0.5), (5, "c", Decimal("7.25"))],
        [{"id": 4, "kind": "b", "price": Decimal("0.50")}, {"price": 7.25, "kind": "c", "id": 5}],
        iter([(4, "b", 0.5), (5, "c", 7.25)]),
        {"id": [4, 5], "kind": ["b", "c"], "price": [0.5, 7.25]},
        pa.table({"id": [4, 5], "kind": ["b", "c"], "price": [0.5, 7.25]}).to_reader(),
        pa.table({"kind": ["b", "c"], "ID": [4, 5], "price": [0.5, 7.25]}),
        pandas.DataFrame({"id": [4, 5], "kind": ["b", "c"], "price": [0.5, 7.25]}),
        polars.DataFrame({"id": [4, 5], "kind": ["b", "c"], "price": [0.5, 7.25]}),
    ],
    ids=["tuples", "dicts", "iterator", "columns", "reader", "arrow", "pandas", "polars"],
)
def test_insert_takes_every_shape(shop: Database, data: object) -> None:
    assert shop.insert("item", data) == 2
    assert totals(shop) == [A, ("b", Decimal("1.50")), ("c", Decimal("7.25"))]


@pytest.mark.parametrize(
    "data",
    [
        [(1,), (3,)],
        [{"id": 1}, {"id": 3}],
        {"ID": [1, 3]},
        pa.table({"id": [1, 3]}),
        pandas.DataFrame({"id": [1, 3]}),
        polars.DataFrame({"id": [1, 3]}),
        [(1, "a", 2.5), (3, "b", 1)],
    ],
    ids=["keys", "dicts", "columns", "arrow", "pandas", "polars", "rows"],
)
def test_delete_by_key_or_row(shop: Database, data: object) -> None:
    assert shop.delete("item", data) == 2
    assert totals(shop) == [("a", Decimal("3.50"))]


def test_delete_of_what_is_not_there_does_nothing(shop: Database) -> None:
    assert shop.delete("item", [(9,)]) == 0
    assert shop.delete("item", [(1, "x", 2.5)]) == 0
    assert totals(shop) == [A, B]
    assert shop.delete("item", [(1,), (9,)]) == 1
    assert totals(shop) == [("a", Decimal("3.50")), B]


def test_a_row_is_deleted_once(shop: Database) -> None:
    assert shop.delete("item", [(1,), (2,), (2,)]) == 2
    assert totals(shop) == [B]


def test_rows_without_key_are_deleted_as_often_as_given(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT, b TEXT)")
    db.insert("t", [(1, None), (1, None), (1, None), (2, "x")])
    assert db.delete("t", [(1, None), (1, None)]) == 2
    assert sorted(db.query("SELECT a FROM t")) == [(1,), (2,)]
    assert db.delete("t", [(1, None), (1, None)]) == 1
    assert sorted(db.query("SELECT a FROM t")) == [(2,)]


def test_upsert(shop: Database) -> None:
    assert shop.upsert("item", [(1, "b", 5), (7, "c", 1)]) == 2
    assert totals(shop) == [("a", Decimal("3.50")), ("b", Decimal("6.00")), ("c", Decimal("1.00"))]


@pytest.mark.parametrize("more", ["", ", check (price > 0)"], ids=["plain", "guarded"])
def test_upsert_of_a_key_twice_takes_the_last(db: Database, more: str) -> None:
    db.sql(f"create table t (id int, kind text, price int, primary key (id, kind){more})")
    db.sql("create materialized view total as select kind, sum(price) from t group by kind order by kind")
    db.insert("t", [(2, "a", 1), (5, "b", 1)])
    assert db.upsert("t", [(2, "a", 5), (1, "a", 7), (2, "a", 6), (2, "b", 8), (2, "a", 9)]) == 5
    assert db.query("select * from t order by 1, 2").fetchall() == [
        (1, "a", 7),
        (2, "a", 9),
        (2, "b", 8),
        (5, "b", 1),
    ]
    assert totals(db) == [("a", 16), ("b", 9)]
    rows = {"kind": ["a"] * 1000, "id": [1, 2] * 500, "price": list(range(1, 1001))}
    assert db.upsert("t", rows) == 1000
    assert totals(db) == [("a", 999 + 1000), ("b", 9)]


OMITTING: Final = [
    {"d": [1, 2]},
    [{"d": 1}, {"D": 2}],
    pa.table({"d": [1, 2]}),
    pandas.DataFrame({"d": [1, 2]}),
    polars.DataFrame({"d": [1, 2]}),
]
IN_PARTS: Final = """
    create table t (
        id int generated always as identity primary key, a text default 'x', b int not null default 7, c int,
        d int not null, g int generated always as (d * 2) stored, s serial, u uuid default gen_random_uuid()
    )
"""


@pytest.mark.parametrize("change", ["insert", "upsert", "load"])
@pytest.mark.parametrize("data", OMITTING, ids=["columns", "dicts", "arrow", "pandas", "polars"])
def test_columns_that_are_not_given_take_their_defaults(db: Database, change: str, data: object) -> None:
    db.sql(IN_PARTS)
    db.sql("insert into t (d) values (0)")
    assert getattr(db, change)("t", data) == 2
    assert db.query("select id, a, b, c, d, g, s from t order by id").fetchall() == [
        (1, "x", 7, None, 0, 0, 1),
        (2, "x", 7, None, 1, 2, 2),
        (3, "x", 7, None, 2, 4, 3),
    ]
    assert db.query("select count(distinct u) from t").fetchall() == [(3,)]


def test_each_row_may_omit_columns_of_its_own(db: Database) -> None:
    db.sql(IN_PARTS)
    assert db.insert("t", [{"d": 1, "a": "y"}, {"d": 2, "b": 1, "id": 9}, {"d": 3, "a": None, "c": 4}]) == 3
    assert db.query("select id, a, b, c, d, s from t order by d").fetchall() == [
        (1, "y", 7, None, 1, 1),
        (9, "x", 1, None, 2, 2),
        (2, None, 7, 4, 3, 3),
    ]


def test_files_may_omit_columns(db: Database, tmp_path: Path) -> None:
    db.sql(IN_PARTS)
    (tmp_path / "t.csv").write_text("d,a\n1,y\n2,\n")
    pq.write_table(pa.table({"d": [3]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"d": [4], "a": ["z"]}), tmp_path / "2.parquet")
    assert db.load("t", tmp_path / "t.csv") == 2
    assert db.load_all({"t": tmp_path / "*.parquet"}, mode="arrow") == {"t": 2}
    assert db.query("select id, a, d from t order by id").fetchall() == [
        (1, "y", 1),
        (2, None, 2),
        (3, "x", 3),
        (4, "z", 4),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"d": [1], "e": [1]}, "column e is not in the table"),
        ([{"d": 1, "e": 1}], "row 1 has unknown column e"),
        (pa.table({"d": [1], "e": [1]}), "column e is not in the table"),
        ({"a": ["x"]}, "column d INTEGER is missing"),
        ([{"d": 1}, {"a": "x"}], "row 2 lacks column d"),
    ],
)
def test_columns_that_may_not_be_omitted_and_others_are_named(
    db: Database, data: object, message: str
) -> None:
    db.sql(IN_PARTS)
    for change in (db.insert, db.upsert, db.load):
        with pytest.raises(kpg.ProgrammingError, match=message):
            change("t", data)
    assert len(db.query("select 1 from t")) == 0


def test_upsert_needs_a_key(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT)")
    with pytest.raises(kpg.InterfaceError, match="t has no primary key"):
        db.upsert("t", [(1,)])


def test_changes_of_what_is_no_table(shop: Database) -> None:
    with pytest.raises(kpg.ProgrammingError, match='"total" is a view'):
        shop.insert("total", [("a", 1)])
    with pytest.raises(kpg.ProgrammingError, match='relation "itm" does not exist'):
        shop.insert("itm", [(1,)])


def test_transaction_is_one_epoch(shop: Database) -> None:
    before = shop.epoch
    with shop.transaction():
        shop.insert("item", [(4, "b", 2)])
        shop.delete("item", [(1,)])
        shop.sql("UPDATE item SET price = price + 1 WHERE id = 4")
        assert totals(shop) == [A, B]
    assert shop.epoch == before + 1
    assert totals(shop) == [("a", Decimal("3.50")), ("b", Decimal("4.00"))]


def test_transaction_sees_its_own_changes(shop: Database) -> None:
    with shop.transaction():
        shop.insert("item", [(4, "c", 2)])
        assert shop.query("SELECT count(*) FROM item").fetchall() == [(4,)]
        assert shop.query("SELECT * FROM total WHERE kind = 'c'").fetchall() == [("c", Decimal("2.00"))]
        shop.sql("UPDATE item SET price = price * 2 WHERE id = 4")
        shop.sql("UPDATE item SET price = price * 2 WHERE id = 4")
        shop.sql("DELETE FROM item WHERE kind = 'a'")
    assert totals(shop) == [B, ("c", Decimal("8.00"))]


def test_failed_transaction_changes_nothing(shop: Database) -> None:
    with pytest.raises(kpg.IntegrityError, match="duplicate key"), shop.transaction():
        shop.delete("item", [(1,)])
        shop.insert("item", [(2, "z", 1)])
    assert totals(shop) == [A, B]
    assert shop.query("SELECT id FROM item ORDER BY id").fetchall() == [(1,), (2,), (3,)]


def test_python_error_rolls_back(shop: Database) -> None:
    with pytest.raises(ZeroDivisionError), shop.transaction():
        shop.delete("item", [(1,)])
        _ = 1 // 0
    assert totals(shop) == [A, B]
    shop.delete("item", [(1,)])


def test_nested_transaction_is_refused(shop: Database) -> None:
    with pytest.raises(kpg.InterfaceError, match="already open"), shop.transaction(), shop.transaction():
        pass
    assert totals(shop) == [A, B]


def test_batch_keeps_epochs_apart(shop: Database) -> None:
    view = shop.view("total")
    list(view.changes())
    before = shop.epoch
    with shop.batch():
        shop.insert("item", [(4, "c", 1)])
        with shop.transaction():
            shop.insert("item", [(5, "c", 1)])
            shop.insert("item", [(6, "d", 1)])
        shop.delete("item", [(6,)])
        assert totals(shop) == [A, B]
    one, two = Decimal("1.00"), Decimal("2.00")
    assert [(row, time - before, diff) for row, time, diff in view.changes()] == [
        (("c", one), 1, 1),
        (("c", one), 2, -1),
        (("c", two), 2, 1),
        (("d", one), 2, 1),
        (("d", one), 3, -1),
    ]


def test_error_in_a_batch_undoes_all_of_it(shop: Database) -> None:
    with pytest.raises(kpg.IntegrityError), shop.batch():
        shop.insert("item", [(4, "c", 1)])
        shop.insert("item", [(4, "c", 1)])
    assert totals(shop) == [A, B]
    shop.insert("item", [(4, "c", 1)])
    assert totals(shop) == [A, B, ("c", Decimal("1.00"))]


def test_load_parquet_through_arrow(shop: Database, tmp_path: Path) -> None:
    path = tmp_path / "item.parquet"
    pq.write_table(pa.table({"id": [4, 5], "kind": ["b", None], "price": [1.5, 2.0]}), path)
    seen: list[tuple[str, int]] = []
    assert shop.load("item", path, mode="arrow", progress=lambda *told: seen.append(told)) == 2
    assert seen == [("item", 2)]
    assert totals(shop) == [A, ("b", Decimal("2.50")), (None, Decimal("2.00"))]


def test_load_of_several_tables_is_one_epoch(shop: Database, tmp_path: Path) -> None:
    shop.sql("CREATE TABLE kind (name TEXT PRIMARY KEY)")
    path = tmp_path / "kind.parquet"
    pq.write_table(pa.table({"name": ["a", "b"]}), path)
    before = shop.epoch
    counts = shop.load_all({"kind": path, "item": [(4, "a", 1)]}, mode="arrow")
    assert counts == {"kind": 2, "item": 1}
    assert shop.epoch == before + 1
    with pytest.raises(kpg.IntegrityError):
        shop.load_all({"item": [(5, "a", 1)], "kind": path}, mode="arrow")
    assert shop.tables().fetchall() == [("item", 4), ("kind", 2)]


@pytest.mark.slow
@pytest.mark.java
def test_load_through_spark(shop: Database, tmp_path: Path) -> None:
    path = tmp_path / "item.parquet"
    pq.write_table(pa.table({"id": [5, 4], "kind": ["b", None], "price": [1.5, 2.0]}), path)
    assert shop.load("item", path, mode="spark") == 2
    assert totals(shop) == [A, ("b", Decimal("2.50")), (None, Decimal("2.00"))]


def test_load_is_all_or_nothing(shop: Database, tmp_path: Path) -> None:
    path = tmp_path / "item.parquet"
    pq.write_table(pa.table({"id": [4, 1], "kind": ["b", "b"], "price": [1.5, 2.0]}), path)
    with pytest.raises(kpg.IntegrityError, match="duplicate key"):
        shop.load("item", path, mode="arrow")
    assert totals(shop) == [A, B]


def test_load_of_the_wrong_schema(shop: Database, tmp_path: Path) -> None:
    path = tmp_path / "item.parquet"
    pq.write_table(pa.table({"id": [4], "sort": ["b"], "price": [1.5]}), path)
    with pytest.raises(kpg.ProgrammingError, match=r"item\.parquet: column sort is not in the table"):
        shop.load("item", path, mode="arrow")
    assert totals(shop) == [A, B]


def test_load_mistakes(shop: Database, tmp_path: Path) -> None:
    with pytest.raises(kpg.InterfaceError, match="unknown load mode 'fast'"):
        shop.load("item", "item.parquet", mode="fast")
    with pytest.raises(kpg.OperationalError, match="cannot tell the format"):
        shop.load("item", tmp_path / "item.xyz", mode="arrow")
    with pytest.raises(kpg.OperationalError, match=r"missing\.parquet"):
        shop.load("item", tmp_path / "missing.parquet", mode="arrow")


def test_listings(shop: Database) -> None:
    shop.sql("CREATE VIEW cheap AS SELECT * FROM item WHERE price < 2")
    assert shop.tables().fetchall() == [("item", 3)]
    assert shop.views().fetchall() == [("total", "materialized view", 2), ("cheap", "view", None)]
    columns = shop.arrangements().columns
    assert columns == ["arrangement", "rows", "bytes", "batches", "views"]
    assert shop.names() >= {"item", "total", "cheap", "kind"}


def test_shared_arrangement_lists_its_views(shop: Database) -> None:
    query = "AS SELECT i.id FROM item i, item j WHERE i.kind = j.kind AND i.price {} j.price"
    shop.sql(f"CREATE MATERIALIZED VIEW less {query.format('<')}")
    shop.sql(f"CREATE MATERIALIZED VIEW more {query.format('>')}")
    assert "less, more" in [row[-1] for row in shop.arrangements()]
    assert shop.view("more").stats.arrangements_reused >= 1


def test_verify(shop: Database) -> None:
    shop.insert("item", [(4, "c", 1)])
    shop.verify("total")


def test_parameters(shop: Database) -> None:
    assert shop.query("SELECT id FROM item WHERE kind = ? AND price > ?", ["a", 3]).fetchall() == [(2,)]
    shop.sql("INSERT INTO item VALUES (:id, :kind, :price)", {"id": 9, "kind": "'", "price": Decimal("1.25")})
    assert shop.query("SELECT kind FROM item WHERE id = $1", [9]).fetchall() == [("'",)]


def test_parameters_do_not_go_into_views(shop: Database) -> None:
    with pytest.raises(kpg.InterfaceError, match="a view cannot have parameters"):
        shop.sql("CREATE VIEW v AS SELECT * FROM item WHERE id = ?", [1])


@pytest.mark.parametrize("given", [1, "x"])
def test_parameters_are_a_list_or_a_dict(given: Any) -> None:
    with kpg.connect() as db, pytest.raises(kpg.InterfaceError, match="in a list, or in a dict by name"):
        db.query("select $1", given)


def test_what_is_no_text_is_no_statement() -> None:
    with kpg.connect() as db, pytest.raises(kpg.InterfaceError, match="statements are a text, not int"):
        db.sql(cast(Any, 5))


def test_a_database_tells_where_it_is(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "shop") as db:
        assert repr(db) == f"<kpg.Database in {tmp_path}/shop>"
        with db.branch() as branch:
            assert repr(branch) == "<kpg.Branch in memory>"
    assert repr(db) == "<kpg.Database, closed>"


# Threads: see also tests/properties/threads.py


def test_one_database_in_four_threads(tmp_path: Path) -> None:
    """Every acknowledged row is there, once, and the view agrees."""
    before = sys.getswitchinterval()
    for db in (kpg.connect(), kpg.connect(tmp_path / "db", synchronous="off")):
        db.sql("create table t (id int primary key, s text)")
        db.sql("create materialized view v as select count(*) n, sum(id) x from t")
        work = partial(_fill, db)
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(work, range(4)))
        finally:
            sys.setswitchinterval(before)
        wanted = {(k * 1000 + i, f"text {k * 1000 + i}") for k in range(4) for i in range(50)}
        assert set(db.query("select * from t").fetchall()) == wanted
        assert db.view("v").fetchall() == [(200, sum(number for number, _ in wanted))]
        db.close()


def _fill(db: kpg.Database, k: int) -> None:
    for i in range(k * 1000, k * 1000 + 50):
        if i % 3:
            db.sql(f"insert into t values ({i}, 'text {i}')")
        elif i % 2:
            db.insert("t", [(i, f"text {i}")])
        else:
            with db.session() as session:
                session.sql("insert into t values (?, ?)", [i, f"text {i}"])


def test_the_first_sessions_of_several_threads_share_a_hub() -> None:
    db = kpg.connect()
    with ThreadPoolExecutor(8) as threads:
        hubs = list(threads.map(lambda _: db.session().session_manager, range(8)))
    assert len(set(hubs)) == 1


def test_sessions_do_not_see_the_transaction_of_direct_calls() -> None:
    """Nor do they commit it. What it has changed they wait for, and with a limit they are refused."""
    db = kpg.connect()
    db.sql("create table t (id int primary key, x int); insert into t values (1, 0), (2, 0)")
    db.sql("begin; insert into t values (3, 3); savepoint a; update t set x = 1 where id = 1")
    session = db.session()
    assert session.sql("select * from t order by id").fetchall() == [(1, 0), (2, 0)]  # type: ignore[union-attr]
    session.sql("update t set x = 2 where id = 2; set lock_timeout = '1ms'")
    with pytest.raises(kpg.OperationalError, match="lock timeout"):
        session.sql("update t set x = 2 where id = 1")
    assert db.query("select * from t order by id").fetchall() == [(1, 1), (2, 2), (3, 3)]
    session.sql("select 1")
    db.sql("rollback to a")
    session.sql("select 1")
    db.sql("commit")
    assert session.sql("select * from t order by id").fetchall() == [(1, 0), (2, 2), (3, 3)]  # type: ignore[union-attr]
    session.sql("update t set x = 4 where id = 1")


def test_a_session_waits_for_the_row_of_a_direct_transaction() -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key, x int); insert into t values (1, 0)")
    db.sql("begin; update t set x = x + 1")
    session = db.session()
    other = threading.Thread(target=session.sql, args=("update t set x = x + 10",))
    other.start()
    until(lambda: session in session.session_manager.waiting_statements)
    db.sql("commit")
    other.join(PATIENCE)
    assert db.query("select x from t").fetchall() == [(11,)]


def test_settings_of_direct_calls_outlast_sessions() -> None:
    db = kpg.connect()
    session = db.session()
    db.sql("create schema s; set search_path = s; set application_name = 'mine'")
    session.sql("set search_path = public; set application_name = 'others'")
    assert db.query("show search_path").fetchall() == [("s",)]
    session.sql("select 1")
    session.close()
    assert db.query("show search_path").fetchall() == [("s",)]
    assert db.query("show application_name").fetchall() == [("mine",)]


def test_a_block_keeps_other_threads_out() -> None:
    db, seen = kpg.connect(), list[object]()
    db.sql("create table t (a int)")
    session = db.session()
    others = [
        threading.Thread(target=lambda: seen.append(db.query("select count(*) from t").fetchall())),
        threading.Thread(target=lambda: seen.append(session.sql("select count(*) from t").fetchall())),  # type: ignore[union-attr]
    ]
    with db.transaction():
        db.insert("t", [(1,)])
        for other in others:
            other.start()
        until(lambda: len(db._monitor.queue) == 2)
        db.insert("t", [(2,)])
        assert seen == []
    for other in others:
        other.join(PATIENCE)
    assert seen == [[(2,)], [(2,)]]


def test_sessions_beside_the_blocks_of_their_own_thread() -> None:
    """A transaction is not seen, a batch refuses."""
    db = kpg.connect()
    db.sql("create table t (a int)")
    session = db.session()
    with db.transaction():
        db.insert("t", [(1,)])
        assert session.sql("select count(*) from t").fetchall() == [(0,)]  # type: ignore[union-attr]
        assert db.query("select count(*) from t").fetchall() == [(1,)]
    with db.batch():
        db.insert("t", [(2,)])
        with pytest.raises(kpg.InterfaceError, match="the database is in a batch"):
            session.sql("select 1")
    assert session.sql("select count(*) from t").fetchall() == [(2,)]  # type: ignore[union-attr]


def test_a_block_ends_in_the_thread_that_it_began_in() -> None:
    db = kpg.connect()
    block = db.transaction()
    block.__enter__()
    with ThreadPoolExecutor(1) as threads:
        error = threads.submit(block.__exit__, None, None, None).exception()
    assert isinstance(error, kpg.InterfaceError) and "another thread" in str(error)
    block.__exit__(None, None, None)
    assert db._monitor.owner == 0


def test_work_that_waits_when_the_database_is_closed_ends() -> None:
    db = kpg.connect()
    db.sql("create table t (a int); insert into t values (1)")
    one, other, errors = db.session(), db.session(), list[str]()
    one.sql("begin; update t set a = 2")

    def wait() -> None:
        try:
            other.sql("update t set a = 3")
        except kpg.InterfaceError as error:
            errors.append(error.message)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: other in other.session_manager.waiting_statements)
    db.close()
    waiting.join(PATIENCE)
    assert errors == ["the database is closed"]
