"""A flipped bit anywhere in a checkpoint is found before what it is in is served, and named."""

import random
from contextlib import suppress

import numpy as np
import pytest

from kpg.runtime.checkpoint.captured_state import leaves_of
from kpg.runtime.checkpoint.checkpointer import CheckpointStore
from kpg.runtime.checkpoint.pack_store import Stored, values_by_path
from kpg.runtime.checkpoint.worker_state import capture
from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.packs import BLOCK, MANIFEST_NAME, Pack, blocks_of, pack_name, read_manifest
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.runtime.worker.worker import Worker
from tests.model.disk import Sim
from tests.properties import loops
from tests.properties.dataflows import DATAFLOWS, SCHEMA
from tests.properties.plans import SCHEMAS
from tests.properties.test_checkpoints import checkpoint, opened, unfolded
from tests.properties.test_saved import rows, worker_with

KEYED = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT)), (0,))
PLANS = {
    **{name: DATAFLOWS[name][0] for name in ("join and reduce", "min", "distinct and threshold")},
    "reach": loops.LOOPS["reach"](),
}
TABLES = {"a": SCHEMA, "b": SCHEMA, "edge": SCHEMAS["edge"], "root": SCHEMAS["root"]}


def look_at_everything(sim: Sim, numbers: dict[str, tuple[int, Schema]]) -> None:
    worker, keeper = opened(sim, numbers, PLANS)
    for name in PLANS:
        rows(worker, name)
    for name, table in worker.tables.by_name.items():
        table.read(table.live())
        table.match(table.read(table.live()[:1]))
        worker.tables.insert(name, table.read(table.live()[:1]))
    worker.dictionary.code("x")
    worker.step()
    for one in values_by_path(capture(worker)).values():
        if isinstance(one, Stored):  # what nobody has asked for yet
            keeper.read(one)


def blocks_in_use(sim: Sim) -> set[tuple[str, int]]:
    """The blocks that the present checkpoint refers to."""
    manifest = read_manifest(sim)
    assert manifest is not None and manifest.checkpoint is not None
    found, newest = manifest.checkpoint, manifest.checkpoint.packs[-1].number
    blocks = range(found.block, found.block + blocks_of(found.size))
    used = {(pack_name(newest), block) for block in blocks}
    keeper = CheckpointStore(sim, 7)
    root = keeper.open(found)
    for leaf in leaves_of(root).values():
        pack, first, end = leaf.block_range
        used |= {(pack_name(pack), block) for block in range(first, end)}
    for one in values_by_path(unfolded(keeper, root)).values():
        if isinstance(one, Stored):
            used |= {
                (pack_name(pack), block)
                for pack, first, end in one.block_ranges
                for block in range(first, end)
            }
    return used


def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Sim, dict[str, tuple[int, Schema]]]:
    """A folder with packs of several checkpoints, and a bag index and strings in them."""
    monkeypatch.setattr("kpg.runtime.checkpoint.pack_store.MAX_INLINE_BYTES", 64)
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 1 << 12)
    sim, rng = Sim(), random.Random(1)
    worker, keeper = worker_with(TABLES), CheckpointStore(sim, 7)
    for name, plan in PLANS.items():
        worker.install(name, plan)
    worker.dictionary.intern([f"string {number}" for number in range(300)])
    for count in (1500, 3, 2):
        for name, table in worker.tables.by_name.items():
            width = len(table.schema.columns)
            worker.tables.insert(
                name, np.array([[rng.randrange(40) for _ in range(count)] for _ in range(width)])
            )
        worker.step()
        table = worker.tables.by_name["a"]
        table.match(table.read(table.live()[:3]))
        checkpoint(worker, keeper)
    return sim, {name: (worker.tables.table_number(name), schema) for name, schema in TABLES.items()}


def test_every_block_of_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever bit it is, looking at everything names its file.

    Or it is in what nothing refers to any more, and only a check of the whole pack can see it.
    """
    sim, numbers = made(monkeypatch)
    look_at_everything(sim, numbers)
    packs = [name for name in sim.names if name.startswith("pack-")]
    assert len(packs) > 1
    used = blocks_in_use(sim)
    for name in [*packs, MANIFEST_NAME]:
        now = sim.names[name].now
        places = range(37, len(now), 61 if name == MANIFEST_NAME else 2 * BLOCK)
        for place in [*places, len(now) - 1]:
            now[place] ^= 1 << (place % 8)
            try:
                look_at_everything(sim, numbers)
                assert name != MANIFEST_NAME and (name, place // BLOCK) not in used, (name, place)
            except OperationalError as error:
                assert name in str(error), (name, place)
            if name != MANIFEST_NAME:
                with pytest.raises(DamagedError, match=name):
                    pack = Pack(sim, int(name[5:]), 7)
                    pack.verify(0, pack.blocks)
            now[place] ^= 1 << (place % 8)


def test_what_is_damaged_is_refused_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is served."""
    sim, numbers = made(monkeypatch)
    first = min(name for name in sim.names if name.startswith("pack-"))
    found = 0
    for block in range(0, len(sim.names[first].now) // BLOCK, 3):
        sim.names[first].now[block * BLOCK + 5] ^= 4
        answers = 0
        with suppress(DamagedError):
            worker, _ = opened(sim, numbers, PLANS)
            for name in PLANS:
                for _ in range(2):
                    try:
                        rows(worker, name)
                        answers += 1
                    except DamagedError:
                        found += 1
        assert answers % 2 == 0
        sim.names[first].now[block * BLOCK + 5] ^= 4
    assert found


def test_a_missing_pack_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sim, numbers = made(monkeypatch)
    del sim.names[pack_name(1)]
    with pytest.raises(DamagedError, match="sim/pack-00000001 is missing"):
        look_at_everything(sim, numbers)


def test_a_table_with_a_key_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, keeper = Worker(), CheckpointStore(sim := Sim(), 7)
    worker.create_table("t", KEYED)
    for start in (0, 500):
        keys = np.arange(start, start + 500, dtype=np.int64)
        worker.tables.insert("t", np.stack((keys, keys * 2)))
        worker.tables.find("t", keys[:1].reshape(1, -1))
        worker.step()
        checkpoint(worker, keeper)
        other, _ = opened(sim, {"t": (1, KEYED)}, {})
        assert other.tables.find("t", keys[-1:].reshape(1, -1)).tolist() == [start + 499]
        assert other.tables.find("t", np.array([[-1]])).tolist() == [-1]
        other.tables.delete("t", np.array([start], np.int64))
        other.tables.insert("t", np.array([[start], [7]], np.int64))
        other.step()
        assert capture(other)["tables"]["1"]["dead"] == 1
