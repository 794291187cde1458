"""A worker that is opened from a checkpoint goes on as the one that made it.

As ``test_saved``, by way of packs: checkpoints follow each other, each writing what has changed, in random
histories of random plans; what was read before the next checkpoint, and what was not, is random too.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from kpg.runtime.checkpoint.checkpointer import CheckpointStore
from kpg.runtime.checkpoint.pack_store import BranchReader
from kpg.runtime.checkpoint.worker_state import capture_leaves, restore
from kpg.runtime.plan import Plan
from kpg.runtime.storage.files import Disk, Files
from kpg.runtime.storage.packs import read_manifest
from kpg.runtime.types import Schema
from kpg.runtime.worker.worker import Worker
from tests.model.disk import Sim
from tests.properties import loops
from tests.properties.dataflows import SCHEMA
from tests.properties.plans import SCHEMAS
from tests.properties.test_saved import DATA_PLANS, change, go_on, same, worker_with

DATABASE = 7


def opened(
    files: Files, tables: dict[str, tuple[int, Schema]], plans: dict[str, Plan]
) -> tuple[Worker, CheckpointStore]:
    """A worker, with all of its views, from the last checkpoint."""
    manifest = read_manifest(files)
    assert manifest is not None and manifest.checkpoint is not None
    keeper = CheckpointStore(files, manifest.database)
    state = unfolded(keeper, keeper.open(manifest.checkpoint))
    keeper.remove_unreferenced()
    worker = Worker()
    restore(worker, state, keeper.read, lambda: BranchReader(keeper.read))
    for name, (number, schema) in tables.items():
        worker.create_table(name, schema, number)
    for name, plan in plans.items():
        worker.watch(worker.install(name, plan))
    assert worker.tables.pending_restore is not None and not worker.finish_restore()
    for path, members in keeper.members.items():
        keeper.set_versions(path, {one: worker.restored_versions.get(one) for one in members})
    return worker, keeper


def unfolded(keeper: CheckpointStore, state: Any) -> Any:
    """A state as it was captured."""
    return {
        **state,
        **{kind: keeper.expand_leaves(state[kind], f"/{kind}") for kind in ("tables", "operators")},
    }


def checkpoint(worker: Worker, keeper: CheckpointStore) -> None:
    job = keeper.prepare(capture_leaves(worker), worker.epoch, 1)
    keeper.write(job)
    keeper.adopt(job)


def history(
    files: Files, rng: random.Random, plans: dict[str, Plan], schemas: dict[str, Schema], most: int
) -> None:
    nodes = 6 if most < 100 else 200
    worker, keeper = worker_with(schemas), CheckpointStore(files, DATABASE)
    for name, plan in plans.items():
        worker.watch(worker.install(name, plan))
    tables = {
        name: (worker.tables.table_number(name), table.schema)
        for name, table in worker.tables.by_name.items()
    }
    for _ in range(8):
        for _ in range(rng.randint(0, 3)):
            change(rng, worker, nodes, most)
            worker.step()
        checkpoint(worker, keeper)
        if rng.random() < 0.6:
            other, its = opened(files, tables, plans)
            if rng.random() < 0.3:
                checkpoint(other, its)
                other, its = opened(files, tables, plans)
            for view in worker.views.values():
                view.drain()
            if rng.random() < 0.5:
                same(worker, other)
            go_on(rng, worker, other, nodes, most)
            worker, keeper = other, its


@pytest.mark.parametrize(("seed", "most", "group_bits"), [(0, 12, 16), (1, 600, 6), (2, 1500, 16)])
def test_dataflows(
    seed: int, most: int, group_bits: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << group_bits)
    rng = random.Random(seed)
    plans = {name: DATA_PLANS[name] for name in rng.sample(sorted(DATA_PLANS), 8)}
    history(Disk(tmp_path) if seed else Sim(), rng, plans, {"a": SCHEMA, "b": SCHEMA}, most)


@pytest.mark.parametrize(("seed", "inline"), [(0, 1024), (1, 16), (2, 0)])
def test_loops(seed: int, inline: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kpg.runtime.checkpoint.pack_store.MAX_INLINE_BYTES", inline)
    rng = random.Random(seed)
    plans = {name: loops.LOOPS[name]() for name in rng.sample(sorted(loops.LOOPS), 6)}
    history(Disk(tmp_path), rng, plans, SCHEMAS, 12)
