"""Every operator's output, at every time, is what it computes from its accumulated input (K-Pg 3.2).

Random histories of inserts and deletes over two tables, cut into epochs, and epochs into steps, at
random, with transactions rolled back in between: the contents of every dataflow after every step, and
its changes at every epoch, must be those of the plain function over the tables as of then.
"""

import random
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from kpg.runtime import plan
from kpg.runtime.tables.table import Table
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker

_spec = spec_from_file_location("dataflows", Path(__file__).with_name("dataflows.py"))
assert _spec is not None and _spec.loader is not None
dataflows = module_from_spec(_spec)
_spec.loader.exec_module(dataflows)
DATAFLOWS = dataflows.DATAFLOWS
Row = tuple[int, ...]


IN_LOOPS = {plan.Enter, plan.Variable, plan.Loop, plan.Leave}
"""What ``test_loops`` has to do with."""
ELSEWHERE = {
    plan.Import: "properties/test_loops.py",
    plan.Fold: "unit/ddl/test_functions.py",
    plan.BasicReduce: "unit/functions/test_aggregates.py",
    plan.Ego: "unit/ddl/test_egos.py",
}
"""Nodes that more than two tables of numbers belong to, and the tests with histories that have them."""


def with_small_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of windows have an index from two rows on, of blocks of a few."""
    monkeypatch.setattr("kpg.runtime.operators.windows.window_operator.INDEXED_ROWS", 2)
    monkeypatch.setattr("kpg.runtime.operators.windows.partition_index.BLOCK", 3)
    monkeypatch.setattr("kpg.runtime.operators.windows.partition_index.FAN", 2)
    monkeypatch.setattr("kpg.runtime.operators.windows.window_operator.CHUNK_ROWS", 1)


def contents(table: Table) -> list[Row]:
    return [tuple(row) for row in table.read(table.live()).T.tolist()]


def result(view: LocalInstallation) -> Counter[Row]:
    data, diff = view.rows()
    assert (diff > 0).all()
    return Counter(dict(zip(map(tuple, data.T.tolist()), diff.tolist(), strict=True)))


def change_randomly(rng: random.Random, table: Table) -> None:
    if rng.random() < 0.7:
        rows = [(rng.randint(0, 3), rng.randint(-3, 3)) for _ in range(rng.randint(1, 4))]
        table.insert(np.array(rows, np.int64).T.copy())
    live = table.live().tolist()
    if live and rng.random() < 0.6:
        table.delete(np.array(rng.sample(live, rng.randint(1, min(4, len(live)))), np.int64))


def history(view: LocalInstallation) -> dict[int, Counter[Row]]:
    """The captured changes by epoch."""
    changes: dict[int, Counter[Row]] = {}
    for updates in view.drain():
        rows = zip(
            map(tuple, updates.data.T.tolist()),
            updates.times()[0].tolist(),
            updates.diffs().tolist(),
            strict=True,
        )
        for row, time, diff in rows:
            changes.setdefault(time, Counter())[row] += diff
    return changes


def test_there_is_a_dataflow_with_every_kind_of_node() -> None:
    used = {type(node) for query, _ in DATAFLOWS.values() for node in query.nodes}
    assert set(get_args(plan.Node)) - used == IN_LOOPS | ELSEWHERE.keys()


@pytest.mark.parametrize(("seed", "group_bits"), [(0, 1), (1, 2), (3, 3), (4, 16)])
def test_contents_and_history_after_every_step(
    seed: int, group_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << group_bits)
    if seed % 2:
        with_small_indexes(monkeypatch)
    rng = random.Random(seed)
    worker = Worker()
    a, b = (worker.create_table(name, dataflows.SCHEMA) for name in "ab")
    views: dict[str, LocalInstallation] = {}
    state = {name: Counter() for name in DATAFLOWS}
    names = list(DATAFLOWS)
    for _ in range(60):
        if len(views) < len(names):
            name = names[len(views)]
            views[name] = worker.install(name, DATAFLOWS[name][0])
            worker.watch(views[name])
            state[name] = result(views[name])
            assert state[name] == DATAFLOWS[name][1](contents(a), contents(b)), name
        expected: dict[int, dict[str, Counter[Row]]] = {}
        for _ in range(rng.choice((1, 1, 2, 5))):
            for table in (a, b):
                change_randomly(rng, table)
            if worker.close_epoch():
                truth = {n: DATAFLOWS[n][1](contents(a), contents(b)) for n in views}
                expected[worker.epoch + len(expected) + 1] = truth
        if rng.random() < 0.2:
            worker.tables.rollback()
            continue
        worker.step()
        for name, view in views.items():
            changes = history(view)
            for epoch, truth in expected.items():
                state[name].update(changes.pop(epoch, Counter()))
                assert +state[name] == truth[name] and not -state[name], (name, epoch)
            assert not changes, name
            assert result(view) == +state[name], name


def test_dropping_the_last_reader_frees_everything() -> None:
    worker = Worker()
    a, _ = (worker.create_table(name, dataflows.SCHEMA) for name in "ab")
    a.insert(np.array([[1, 2], [3, 4]], np.int64))
    worker.step()
    first = worker.install("first", DATAFLOWS["self-join"][0])
    second = worker.install("second", DATAFLOWS["self-join"][0])
    assert (second.arrangements_built, second.arrangements_reused) == (0, 3)
    worker.uninstall(first)
    assert {reader for info in worker.arrangements() for reader in info.readers} == {"second"}
    worker.uninstall(second)
    assert worker.arrangements() == []
    assert len(worker._registry) == 0


def test_dead_rows_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that slides over a table for ever keeps the row store and its indexes small."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << 5)
    worker = Worker()
    a, _ = (worker.create_table(name, dataflows.SCHEMA) for name in "ab")
    view = worker.install("view", DATAFLOWS["self-join"][0])
    window: list[Row] = []
    for i in range(400):
        rows = [(10 * i + j, 10 * i + j + 1) for j in range(10)]
        a.insert(np.array(rows, np.int64).T.copy())
        window += rows
        if len(window) > 50:
            gone, window = window[:10], window[10:]
            a.delete(a.match(np.array(gone, np.int64).T.copy()))
        worker.step()
    assert a.rows == 50
    assert (a.count, a.reclaimed_rows) == (4000, 3936)
    assert a.groups.allocated_groups == 2
    # Rows that come and go cancel out when the head that they are in is sealed, or batches are merged.
    assert max(info.rows for info in worker.arrangements()) < 2000
    assert result(view) == dataflows.self_join_truth(window, [])
