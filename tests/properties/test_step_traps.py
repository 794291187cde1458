"""How steps and operators go wrong, one test each; T15 .. T40 are numbers of docs/explanation/traps.md."""

from collections import Counter

import numpy as np
import pytest

import kpg
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.join import DeltaJoin
from kpg.runtime.operators.loop import Loop, iterate_operators
from kpg.runtime.operators.topk import TopK
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.updates import Updates
from tests.properties import loops
from tests.properties.engine import Engine, chain


def test_t15_updates_of_later_rounds_wait_for_them() -> None:
    """An edge of epoch 2 that meets what epoch 1 reached in round 5 counts in round 5, not at once."""
    engine = Engine({"reach": loops.reach()})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(6))
    engine.step()
    engine.insert("edge", (5, 9, 1), (9, 0, 1))
    engine.step()
    engine.delete("edge", (2, 3, 1))
    engine.step()
    engine.check()


def test_t16_a_step_makes_one_batch_whatever_number_of_epochs_it_takes() -> None:
    engine = Engine({"reach": loops.reach()})
    arrange = next(op for op in engine.views["reach"].operators if isinstance(op, Arrange))
    before = len(arrange.layers)
    for node in range(5):
        engine.insert("edge", (node, node + 1, 1))
        engine.worker.close_epoch()
    engine.step()
    assert len(arrange.layers) - before == 1
    assert len(np.unique(arrange.layers[-1].time)) == 5


def test_t26_a_loop_does_not_compact_the_arrangements_that_enter_it() -> None:
    """After many rounds the entered trace is compacted to the epoch, its only coordinate, at most."""
    engine = Engine({"reach": loops.reach()})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(20))
    engine.step()
    entered = [op for op in engine.views["reach"].operators if isinstance(op, Arrange)]
    (loop,) = (op for op in engine.views["reach"].operators if isinstance(op, Loop))
    inside = [op for op in iterate_operators(loop.body) if isinstance(op, Arrange)]
    assert {op.spine.depth for op in entered} == {1} and {op.spine.depth for op in inside} == {2}
    now = Antichain.of((engine.worker.epoch,))
    assert all(op.spine.since.precedes(now) for op in entered)


def test_t30_a_retraction_that_meets_a_retraction_is_an_addition() -> None:
    with kpg.connect() as db, db.dataflow("join") as flow:
        left = flow.input("left", k=int, x=int)
        right = flow.input("right", k=int, y=int)
        joined = left.join(right, key="k").capture()
        left.update((1, 10), -1)
        right.update((1, 20), -1)
        for one in (left, right):
            one.advance_to(2)
        flow.step()
        assert list(joined) == [((1, 10, 20), 1, 1)]


def test_t32_a_join_hands_its_output_on_in_bounded_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of 3,000 by 1,000 rows is never in memory: its chunks are counted one by one."""
    with kpg.connect() as db:
        db.sql("create table a (x integer); create table b (y integer)")
        db.insert("a", [(x,) for x in range(3000)])
        db.insert("b", [(y,) for y in range(1000)])
        sizes: list[int] = []
        emit = DeltaJoin.emit

        def watched(self: DeltaJoin, updates: Updates, *, more: bool = False) -> None:
            sizes.append(len(updates))
            emit(self, updates, more=more)

        monkeypatch.setattr(DeltaJoin, "emit", watched)
        db.sql("create materialized view n as select count(*) as n from a, b")
        monkeypatch.undo()
        assert db.view("n").fetchall() == [(3_000_000,)]
        assert sum(sizes) == 3_000_000 and max(sizes) <= 1 << 20


def test_t36_multiplicities_multiply_unless_a_side_is_distinct() -> None:
    with kpg.connect() as db:
        db.sql("create table a (x integer); create table b (x integer)")
        db.insert("a", [(1,), (1,), (2,)])
        db.insert("b", [(1,), (1,), (1,)])
        db.sql("create materialized view semi as select x from a where x in (select x from b)")
        db.sql("create materialized view joined as select a.x from a, b where a.x = b.x")
        assert Counter(db.view("semi").fetchall()) == Counter({(1,): 2})
        assert Counter(db.view("joined").fetchall()) == Counter({(1,): 6})


def test_t37_sums_of_doubles_retract_without_a_trace() -> None:
    with kpg.connect() as db:
        db.sql("create table t (k integer primary key, x double)")
        db.sql("create materialized view s as select sum(x) as s from t")
        db.insert("t", [(1, 0.1), (2, 1e300)])
        db.sql("delete from t where k = 2")
        assert db.view("s").fetchall() == [(0.1,)]


def test_t40_a_new_maximum_does_not_read_its_group() -> None:
    with kpg.connect() as db:
        db.sql("create table t (k integer primary key, g integer, x integer)")
        db.insert("t", [(k, 0, k) for k in range(20_000)])
        db.sql("create materialized view m as select g, max(x) as m from t group by g")
        installed = db.view("m")
        db.sql("insert into t values (20000, 0, 20000)")
        assert installed.fetchall() == [(0, 20_000)]
        db.sql("delete from t where k = 20000")
        assert installed.fetchall() == [(0, 19_999)]
        (top,) = (op for op in db._engine.executor.all_operators() if isinstance(op, TopK))
        assert top.wasted_reads < 10
