"""Of a table's rows workers that have no memory in common keep their own, and no others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.cluster.threads import ThreadMembers
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Error
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.operators.exchange import SendExchange
from kpg.runtime.operators.text_exchange import FEW_WORKERS, Owners
from kpg.runtime.trace.updates import Updates
from kpg.session.distribution import Workers
from tests.properties.test_workers import many


def kept(db: Database, table: str) -> list[int]:
    """How many rows of a table each worker has."""
    executor: Any = db._engine.executor
    return [member.worker.tables.by_name[table].rows for member in executor.crew.members]


def test_t27_each_worker_has_its_share_and_no_row_is_at_two() -> None:
    with many(3, common=False) as db:
        db.sql("create table t(k int primary key, g text, v int)")
        db.sql("create table by_text(k int, g text) distributed by (g)")
        db.sql("create table everywhere(k int primary key) replicated")
        db.sql("insert into t select i, 'g' || i % 500, i from generate_series(1, 9000) i(i)")
        db.sql("insert into by_text select k, g from t; insert into everywhere select k from t where k < 91")
        assert kept(db, "t") == [3034, 2961, 3005]
        assert kept(db, "by_text") == [18 * 158, 18 * 173, 18 * 169]
        assert kept(db, "everywhere") == [23, 27, 40]
        assert [row[1] for row in db.workers().fetchall()] == [5901, 6102, 6087]
        db.sql("create materialized view w as select g, sum(v) as v from t group by g")
        groups = [
            row[1] - rows for row, rows in zip(db.workers().fetchall(), (5901, 6102, 6087), strict=True)
        ]
        assert groups == [158, 173, 169]
        db.sql("delete from t where k % 3 = 0; update t set v = -v where k % 5 = 1")
        assert kept(db, "t") == [2019, 1988, 1993]
        assert db.sql("select sum(v), count(*) from t").fetchall() == [(16203600, 6000)]
        assert db.sql("select sum(v) from w").fetchall() == [(16203600,)]
        assert db.sql("select g, v from t where k = 7").fetchall() == [("g7", 7)]


def test_a_step_that_fails_at_one_worker_leaves_all_with_what_they_had() -> None:
    with many(2, common=False) as db, kpg.connect() as one:
        for each in (db, one):
            each.sql("create table t(k int primary key, v int)")
            each.sql("create materialized view inverse as select k, 100 / v as part from t")
            each.sql("insert into t select i, i from generate_series(1, 20) i(i)")
            with pytest.raises(Error, match="division by zero"):
                each.sql("delete from t where k < 4; insert into t values (21, 4), (22, 0), (23, 1)")
        before = kept(db, "t")
        with pytest.raises(Error, match="division by zero"):
            db.sql("update t set v = 0 where k = 5")
        assert kept(db, "t") == before
        assert sum(before) == 17
        asked = "select * from inverse order by k"
        assert db.sql(asked).fetchall() == one.sql(asked).fetchall()


def test_places_of_other_workers_rows_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of 2048 rowids: what is full has room for the worker's own rows, and no more."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 1 << 15)
    with many(2, common=False) as db:
        db.sql("create table t(k int primary key, g int)")
        db.sql("create materialized view s as select g, count(*) as n from t group by g")
        for start in range(0, 20000, 2500):
            db.sql(f"insert into t select i, i % 3 from generate_series({start}, {start + 2499}) i(i)")
        executor: Any = db._engine.executor
        room = []
        for member in executor.crew.members:
            table = member.worker.tables.by_name["t"]
            full = table.directory[1 : 1 + (table.count >> table.groups.bits)]
            room.append(int(full[:, kernels.POSITIONS].sum()))
            assert not full[:, kernels.DEAD].any()
        assert room == [9051, 9381]
        db.sql("delete from t where k % 7 = 0")
        assert sorted(db.sql("select * from s").fetchall()) == [(0, 5714), (1, 5714), (2, 5714)]
        db.sql("insert into t select k + 100000, g from t where k < 10")
        assert sorted(db.sql("select * from s").fetchall()) == [(0, 5717), (1, 5716), (2, 5717)]


def test_a_folder_is_parted_among_as_many_workers_as_open_it(tmp_path: Path) -> None:
    found = []
    for count in (2, 3, 1):
        with Database(workers=Workers(ThreadMembers(count), 0), folder=tmp_path / "db") as db:
            if count == 2:
                db.sql("create table t(k int primary key, g text) distributed by (g)")
                db.sql("create materialized view s as select g, count(*) as n from t group by g")
                db.sql("insert into t select i, 'g' || i % 50 from generate_series(1, 3000) i(i)")
            else:
                db.sql("delete from t where k < 301")
                db.sql("insert into t select i, 'g' || i % 50 from generate_series(1, 300) i(i)")
            db.sql("checkpoint")
            found.append(kept(db, "t"))
            assert db.sql("select count(*), min(n), max(n) from s").fetchall() == [(50, 60, 60)]
    assert found == [[2160, 840], [900, 1020, 1080], [3000]]


def test_whose_rows_are_whose_is_found_alike_by_few_workers_and_by_many() -> None:
    dictionary = Dictionary()
    words = np.arange(-5000, 5000)
    for count in (2, FEW_WORKERS, FEW_WORKERS + 1, 100):
        owners = Owners(dictionary, count, has_local_codes=True)
        found = owners.positions_by_worker(words, interned=False)
        of = owners.owners(words, interned=False)
        assert [some.tolist() for some in found] == [
            np.flatnonzero(of == one).tolist() for one in range(count)
        ]
        assert [some.tolist() for some in owners.positions_by_worker(words[:0], interned=False)] == [
            []
        ] * count


def test_what_comes_of_many_workers_is_handed_on_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part from each worker would be as many parts for all operators behind."""
    handed = []
    flush, emit = SendExchange.flush, SendExchange.emit

    def flushing(self: SendExchange) -> None:
        handed.append(0)
        flush(self)

    def emitting(self: SendExchange, updates: Updates, *, more: bool = False) -> None:
        handed[-1] += 1
        emit(self, updates, more=more)

    with many(7) as db:
        db.sql("create table t(k int primary key, g int)")
        db.sql("create materialized view j as select t.k, u.k as o from t join t u on t.g = u.k")
        db.sql("create materialized view s as select o % 50 as g, count(*) as n from j group by 1")
        monkeypatch.setattr(SendExchange, "flush", flushing)
        monkeypatch.setattr(SendExchange, "emit", emitting)
        db.sql("insert into t select i, i * 3 % 700 from generate_series(1, 700) i(i)")
        assert db.query("select sum(n) from s").fetchall() == [(699,)]
        assert len(handed) > 7 and max(handed) == 1
