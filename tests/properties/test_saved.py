"""A worker that takes on the state of another goes on as that one does.

Random histories over all hand-built plans, those with loops included: at random epochs the worker's state
is captured and restored in a new one. Both then get the same changes, steps and rollbacks: the same rows,
changes and rowids come of them, and nothing is computed when views are installed.
"""

import random
from collections import Counter

import numpy as np
import pytest

from kpg.runtime.checkpoint.captured_state import copy_mutable_parts, share_or_copy
from kpg.runtime.checkpoint.worker_state import capture, restore
from kpg.runtime.plan import Plan
from kpg.runtime.types import Schema
from kpg.runtime.worker.worker import Worker
from tests.properties import loops
from tests.properties.dataflows import DATAFLOWS, SCHEMA
from tests.properties.engine import Row, plain
from tests.properties.plans import SCHEMAS


def worker_with(schemas: dict[str, Schema]) -> Worker:
    worker = Worker()
    for name, schema in schemas.items():
        worker.create_table(name, schema)
    return worker


def again(worker: Worker, plans: dict[str, Plan]) -> Worker:
    """Another worker with the state of this one, which may go on."""
    state = copy_mutable_parts(capture(worker))
    other = Worker()
    other.tables.keeps_history = worker.tables.keeps_history
    restore(other, state, share_or_copy, lambda: share_or_copy)
    for name, table in worker.tables.by_name.items():
        other.create_table(name, table.schema, worker.tables.table_number(name))
    for name, plan in plans.items():
        other.install(name, plan)
    assert other.tables.pending_restore is not None and not other.tables.pending_restore.recomputed
    other.tables.pending_restore = None
    for name in plans:
        other.watch(other.views[name])
    return other


def rows(worker: Worker, view: str) -> Counter[Row]:
    data, diff = worker.views[view].rows()
    return Counter(dict(zip(plain(data), diff.tolist(), strict=True)))


def changes(worker: Worker, view: str) -> Counter[tuple[Row, int]]:
    found: Counter[tuple[Row, int]] = Counter()
    for updates in worker.views[view].drain():
        times, diffs = updates.times()[0].tolist(), updates.diffs().tolist()
        for row, time, diff in zip(plain(updates.data), times, diffs, strict=True):
            found[row, time] += diff
    return found


def change(rng: random.Random, worker: Worker, nodes: int, most: int) -> None:
    """The same for workers with the same tables."""
    for name, table in worker.tables.by_name.items():
        live = table.live().tolist()
        if rng.random() < 0.7:
            count = rng.randint(1, most // 3)
            rows = [[rng.randrange(nodes) for _ in table.schema.columns] for _ in range(count)]
            worker.tables.insert(name, np.array(rows, np.int64).T.copy())
        if live and rng.random() < len(live) / most:
            worker.tables.delete(
                name, np.array(rng.sample(live, rng.randint(1, min(most // 2, len(live)))), np.int64)
            )


def same(one: Worker, other: Worker) -> None:
    assert one.epoch == other.epoch
    same_past(one, other)
    for name, table in one.tables.by_name.items():
        assert table.live().tolist() == other.tables.by_name[name].live().tolist()
        assert table.read(table.live()).tolist() == other.tables.by_name[name].read(table.live()).tolist()
    for view in one.views:
        assert rows(one, view) == rows(other, view), view
        assert changes(one, view) == changes(other, view), view


def same_past(one: Worker, other: Worker) -> None:
    """If it is kept, as far back as it is."""
    for name, table in one.tables.by_name.items():
        assert one.tables.history_since(name) == other.tables.history_since(name)
        for epoch in range(one.tables.history_since(name) or one.epoch, one.epoch):
            assert table.live_as_of(epoch).tolist() == other.tables.by_name[name].live_as_of(epoch).tolist()
    for name, view in one.views.items():
        assert view.history_since == other.views[name].history_since
        if view.history_since is not None:
            for epoch in range(view.history_since, one.epoch):
                then, its = view.rows_as_of(epoch), other.views[name].rows_as_of(epoch)
                assert [array.tolist() for array in then] == [array.tolist() for array in its]


def go_on(rng: random.Random, one: Worker, other: Worker, nodes: int, most: int) -> None:
    """The same history for both."""
    for _ in range(rng.randint(1, 5)):
        for _ in range(rng.choice((1, 1, 2, 3))):
            seed = rng.random()
            for worker in (one, other):
                change(random.Random(seed), worker, nodes, most)
                worker.close_epoch()
        undone = rng.random() < 0.25
        for worker in (one, other):
            worker.tables.rollback() if undone else worker.step()
        same(one, other)


def history(seed: int, plans: dict[str, Plan], schemas: dict[str, Schema], nodes: int, most: int) -> None:
    rng = random.Random(seed)
    worker = worker_with(schemas)
    for name, plan in plans.items():
        worker.watch(worker.install(name, plan))
    remembered = seed % 2 == 1
    if remembered:
        worker.enable_history()
        for view in worker.views.values():
            worker.keep_changes(view)
    for _ in range(6):
        for _ in range(rng.randint(1, 4)):
            change(rng, worker, nodes, most)
            worker.step()
        if remembered and rng.random() < 0.5:
            worker.drop_history_before(worker.epoch - 2)
        for view in worker.views.values():
            view.drain()
        other = again(worker, plans)
        same(worker, other)
        go_on(rng, worker, other, nodes, most)
        worker = rng.choice((worker, other))


DATA_PLANS = {name: plan for name, (plan, _) in DATAFLOWS.items() if name != "single and constant"}


@pytest.mark.parametrize(("seed", "most", "group_bits"), [(0, 12, 16), (1, 12, 2), (2, 300, 6)])
def test_dataflows_go_on(seed: int, most: int, group_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << group_bits)
    rng = random.Random(seed)
    names = rng.sample(sorted(DATA_PLANS), 12)
    plans = {name: DATA_PLANS[name] for name in names}
    history(seed, plans, {"a": SCHEMA, "b": SCHEMA}, 5 if most < 100 else 200, most)


@pytest.mark.parametrize(("seed", "group_bits"), [(0, 16), (1, 2), (2, 1)])
def test_loops_go_on(seed: int, group_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << group_bits)
    rng = random.Random(seed)
    plans = {name: loops.LOOPS[name]() for name in rng.sample(sorted(loops.LOOPS), 8)}
    history(seed, plans, SCHEMAS, 6, 12)
