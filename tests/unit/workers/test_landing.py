"""Rows that come to workers past the coordinator: answers, keys and errors are those of rows that do not.

Tasks of Spark are played by this process; ``tests/unit/spark/test_stage.py`` has those of Spark.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kpg
from kpg.api.database import Database
from kpg.execute.changes import bulk_load
from kpg.runtime.cluster import remote_load, transport
from kpg.runtime.cluster.messages import encode_message
from kpg.runtime.cluster.transfer import AuthenticationError, send_batches
from kpg.runtime.convert.arrow import encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, OperationalError
from kpg.runtime.handles import LoadRules, LoadTarget
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.spark.source import Source
from kpg.runtime.types import Schema
from tests.unit.workers.apart import apart

TABLE = "create table t(k bigint primary key, g text, v bigint)"
VIEW = "create materialized view s as select g, count(*) as n, sum(v) as v, max(k) as k from t group by g"


class Parts:
    """What a frame is to Spark: tables, each of which a task sends."""

    def __init__(self, *tables: pa.Table) -> None:
        self.tables = tables


def numbers(first: int, end: int, groups: int = 7) -> pa.Table:
    """Rows of ``t``."""
    keys = range(first, end)
    return pa.table({"k": list(keys), "g": [f"g{k % groups}" for k in keys], "v": [k % 100 for k in keys]})


def send(sources: Sequence[tuple[Source, LoadTarget]]) -> dict[str, list[int]]:
    """As ``runtime.spark.landing.send``."""
    return {berth.load: sent(source, berth) for source, berth in sources}


def sent(source: Source, berth: LoadTarget) -> list[int]:
    """Of one source, with an attempt that fails after it has sent something."""
    attempts = []
    for number, table in enumerate(source.data.tables):
        column = source.schema.columns[berth.home]
        dictionary, given = Dictionary(), table.select([berth.home])
        words = encode_table(given, Schema((column,)), dictionary)[0]
        places = Owners(dictionary, len(berth.addresses), has_local_codes=True).owners(
            words, interned=column.type.is_interned
        )
        owned = table.append_column("owner", pa.array(places))
        if number == 0:
            send_batches(berth.addresses, berth.secret, 50, owned.slice(0, 5).to_batches())
        assert send_batches(
            berth.addresses, berth.secret, 100 - number, owned.to_batches(max_chunksize=1000)
        ) == len(table)
        attempts.append(100 - number)
    return attempts


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    goes = bulk_load._goes_through_spark
    monkeypatch.setattr(bulk_load, "_goes_through_spark", lambda s, m: isinstance(s, Parts) or goes(s, m))
    monkeypatch.setattr(bulk_load, "send_tables", send)


@pytest.fixture(scope="module")
def both() -> Iterator[Database]:
    with apart(2) as made:
        yield made


@pytest.fixture
def db(both: Database) -> Iterator[Database]:
    """With nothing in it."""
    yield both
    for table in ("t", "u", "w"):
        both.sql(f"drop table if exists {table} cascade")


def blocks(db: Database, table: str = "t") -> int:
    """How many loads there are of whose rows the coordinator has none."""
    executor: Any = db._engine.executor
    return len(executor.tables.by_name[table].ranges)


def answers(db: Database) -> list[Any]:
    return sorted(db.sql("select * from s").fetchall())


def test_rows_go_past_the_coordinator_until_it_is_asked_for_them(db: Database) -> None:
    with kpg.connect() as one:
        for each in (db, one):
            each.sql(TABLE)
            each.sql(VIEW)
        assert db.load("t", Parts(numbers(0, 3000), numbers(3000, 5000))) == 5000
        one.load("t", numbers(0, 5000))
        assert (answers(db), blocks(db)) == (answers(one), 1)
        assert db.load("t", Parts(numbers(9000, 9100, 9))) == 100
        one.load("t", numbers(9000, 9100, 9))
        whole = "select count(*), sum(k), count(distinct g) from t"
        assert db.sql(whole).fetchall() == one.sql(whole).fetchall() == [(5100, 13402450, 9)]
        assert (answers(db), blocks(db)) == (answers(one), 2)
        for each in (db, one):
            each.sql("update t set v = v + 1 where k % 10 = 3; delete from t where k % 7 = 1")
            each.sql("insert into t values (5000, 'new', 1)")
        assert (answers(db), blocks(db)) == (answers(one), 0)
        rows = "select * from t order by k"
        assert db.sql(rows).fetchall() == one.sql(rows).fetchall()
        assert db.load("t", Parts(numbers(20000, 20010))) == 10
        one.load("t", numbers(20000, 20010))
        assert (answers(db), blocks(db)) == (answers(one), 0)


def test_what_the_coordinator_carries_does_not_grow_with_the_rows(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried, exchange = [0], transport.exchange

    def counted(out: Sequence[Any], ends: Sequence[Any], *rest: Any) -> list[Any]:
        carried[0] += sum(len(piece) for _, pieces in out for piece in pieces)
        replies = exchange(list(out), list(ends), *rest)
        carried[0] += sum(len(piece) for reply in replies for piece in encode_message(reply))
        return replies

    monkeypatch.setattr(transport, "exchange", counted)
    db.sql(TABLE)
    db.sql("create materialized view n as select count(*) as n from t")
    figures = []
    for first, end in ((0, 10), (100, 20100)):
        carried[0] = 0
        db.load("t", Parts(numbers(first, end, 5000)))
        figures.append(carried[0])
    assert db.sql("select * from n").fetchall() == [(20010,)]
    assert abs(figures[1] - figures[0]) < 100 and max(figures) < 5000


@pytest.mark.parametrize("parts", [(range(5), range(4, 8)), (range(5000, 5005),), (range(2999, 1999, -7),)])
def test_a_key_that_is_there_or_given_twice_leaves_the_table_as_it_was(
    db: Database, parts: tuple[range, ...]
) -> None:
    db.sql(TABLE)
    db.sql(VIEW)
    db.load("t", Parts(numbers(1000, 2000), numbers(5000, 6000)))
    before = answers(db)
    tables = [pa.table({"k": list(part), "g": ["x"] * len(part), "v": [0] * len(part)}) for part in parts]
    if parts[0].step < 0:
        assert db.load("t", Parts(*tables)) == len(parts[0])
        before = answers(db)
    with pytest.raises(
        IntegrityError, match=r"duplicate key in table t: \(k\) = .* (given twice|exists already)"
    ):
        db.load("t", Parts(*tables))
    assert answers(db) == before
    assert db.load("t", Parts(numbers(7000, 7001))) == 1


def test_a_load_is_rolled_back_with_its_transaction_or_its_step(db: Database) -> None:
    db.sql(TABLE)
    db.sql(VIEW)
    db.load("t", Parts(numbers(0, 10)))
    before = answers(db)
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.load("t", Parts(numbers(10, 3000)))
        raise ZeroDivisionError
    assert (answers(db), blocks(db)) == (before, 1)
    db.sql("create materialized view d as select 10 / (v - 55) as q from t")
    with pytest.raises(kpg.Error, match="division by zero"):
        db.load("t", Parts(numbers(10, 3000)))
    assert (answers(db), blocks(db)) == (before, 1)
    with db.transaction():
        db.load("t", Parts(numbers(10, 20)))
        db.load("t", Parts(numbers(20, 30)))
        assert db.sql("select count(*) from t").fetchall() == [(30,)]
    assert db.sql("select sum(n) from s").fetchall() == [(30,)]


def test_workers_that_are_started_again_have_what_was_loaded(db: Database) -> None:
    told: list[Any] = []
    db.sql(TABLE)
    db.sql(VIEW)
    db.load("t", Parts(numbers(0, 3000)))
    db.load("t", Parts(numbers(4000, 4500)))
    db.view("s").subscribe(told.append)
    executor: Any = db._engine.executor
    before = answers(db)
    for worker in (1, 0):
        os.kill(executor.crew.processes[worker], signal.SIGKILL)
        assert (answers(db), blocks(db)) == (before, 2)
    assert not told
    with pytest.raises(IntegrityError, match=r"\(k\) = \(4007\) exists already"):
        db.load("t", Parts(numbers(4007, 4008)))
    db.load("t", Parts(numbers(5000, 5001)))
    assert len(told) == 1 and blocks(db) == 3
    lost = "rows that were being loaded are gone with a worker"
    with pytest.raises(OperationalError, match=lost), db.transaction():
        db.load("t", Parts(numbers(6000, 6007)))
        os.kill(executor.crew.processes[1], signal.SIGKILL)
        db.sql("select sum(k) from t").fetchall()
    assert db.sql("select sum(n) from s").fetchall() == [(3501,)]


def test_what_only_the_coordinator_can_check_comes_through_it(db: Database, tmp_path: Path) -> None:
    db.sql("create table u(k bigint primary key, g text, v numeric unique)")
    with pytest.raises(IntegrityError, match="given twice, against constraint"):
        db.load("u", Parts(numbers(0, 190)))
    assert (db.load("u", Parts(numbers(0, 90))), blocks(db, "u")) == (90, 0)
    db.sql("create table w(k bigint primary key, g text, v bigint)")
    with pytest.raises(IntegrityError, match="duplicate key in table w"), db.transaction():
        db.load("w", Parts(numbers(0, 90)))
        db.load("w", Parts(numbers(89, 99)))
    with apart(2, folder=tmp_path / "db") as kept:
        kept.sql(TABLE)
        with kept.transaction():
            kept.load("t", Parts(numbers(0, 2000)))
            kept.load("t", Parts(numbers(2000, 3000)))
        assert blocks(kept) == 0
    with kpg.connect(tmp_path / "db") as one:
        assert one.sql("select count(*), sum(k) from t").fetchall() == [(3000, 4498500)]


def test_rows_that_came_to_the_wrong_worker_find_the_right_one(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def astray(sources: Sequence[tuple[Source, LoadTarget]]) -> dict[str, list[int]]:
        ((source, berth),) = sources
        attempts = sent(source, berth._replace(addresses=berth.addresses[:1]))
        for attempt in attempts:  # to the others nothing comes
            send_batches(berth.addresses[1:], berth.secret, attempt, [])
        return {berth.load: attempts}

    monkeypatch.setattr(bulk_load, "send_tables", astray)
    db.sql(TABLE)
    db.sql(VIEW)
    db.load("t", Parts(numbers(0, 100)))
    assert blocks(db) == 0
    assert db.sql("select sum(n), sum(v) from s").fetchall() == [(100, 4950)]


def test_workers_that_do_not_see_the_drivers_folder_are_told_of(
    db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote_load, "TOKEN_FILE", "compile_other")
    db.sql(TABLE)
    with pytest.raises(
        OperationalError, match=r"does not see the driver's folder .*: rows that it alone has"
    ):
        db.load("t", Parts(numbers(0, 10)))
    assert db.sql("select count(*) from t").fetchall() == [(0,)]
    with apart(2, folder=tmp_path / "db") as kept:
        kept.sql(TABLE)
        assert kept.load("t", Parts(numbers(0, 10))) == 10


def test_a_task_without_the_secret_or_without_rows(db: Database) -> None:
    db.sql(TABLE)
    landing: Any = db._engine.executor.load_staging
    berth = landing.open("t")
    with pytest.raises(AuthenticationError):
        send_batches(berth.addresses, bytes(32), 1, [])
    assert send_batches(berth.addresses, berth.secret, 2, []) == 0
    assert landing.commit_load(berth, [2], LoadRules(None, None)).rows == 0
    landing.close(berth)


def test_blocks_of_many_groups(db: Database) -> None:
    """Groups of rowids that are another worker's take no memory, at any number of workers and loads."""
    db.sql(TABLE)
    db.sql(VIEW)
    size = 400_000
    keys = np.arange(3 * size)
    for first in (0, size, 2 * size):
        some = keys[first : first + size]
        table = pa.table({"k": some, "g": pa.array(["g"] * size), "v": some % 10})
        db.load("t", Parts(table))
    assert answers(db) == [("g", 3 * size, 4.5 * 3 * size, 3 * size - 1)]
    rows = [row[1] for row in db.workers().fetchall()]
    assert sum(rows) >= 3 * size
