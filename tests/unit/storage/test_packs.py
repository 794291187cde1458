"""Packs: what is written comes back, and any flipped bit is found, with the file and the place."""

import errno
from pathlib import Path

import numpy as np
import pytest

from kpg.runtime.checkpoint.pack_store import Reader, Stored
from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import Disk
from kpg.runtime.storage.packs import (
    BLOCK,
    BLOCK_WORDS,
    ZERO_BLOCK_SUM,
    Pack,
    Packs,
    PackWriter,
    blocks_of,
    pack_name,
    pack_number,
    sums_of,
)
from tests.model.disk import Sim

DATABASE = 3


def some(size: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(1, 255, size).astype(np.uint8)


def written(sim: Sim) -> list[int]:
    """A pack with an array of two blocks and a bit, one with room for more, zeros, and a small one."""
    writer = PackWriter(sim, 5, DATABASE)
    zeros = np.zeros(3 * BLOCK, np.uint8)
    zeros[BLOCK] = 1
    parts = [(some(2 * BLOCK + 9), 0), (some(100, 1), 3 * BLOCK), (zeros, 0), (some(BLOCK, 2), 0)]
    first = [writer.add(data, sums_of(data), room) for data, room in parts]
    writer.finish()
    return first


def test_what_is_written_comes_back() -> None:
    sim = Sim()
    assert written(sim) == [0, 3, 6, 9]
    pack = Pack(sim, 5, DATABASE)
    assert pack.blocks == 10
    pack.verify(0, 10)
    assert pack.data[: 2 * BLOCK + 9].tolist() == some(2 * BLOCK + 9).tolist()
    assert pack.data[3 * BLOCK :][:100].tolist() == some(100, 1).tolist()
    assert pack.data[6 * BLOCK : 9 * BLOCK].sum() == 1
    assert pack.data[9 * BLOCK :].tolist() == some(BLOCK, 2).tolist()


def test_arrays_that_may_be_written_to_have_a_mapping_of_their_own(tmp_path: Path) -> None:
    """A fork copies what is known of the pages of a mapping that was written to: of most it is not."""
    writer = PackWriter(Disk(tmp_path), 5, DATABASE)
    words = np.arange(4 * BLOCK_WORDS)
    places = [writer.add(part, sums_of(part), 0) for part in [words.view(np.uint8)] * 3]
    writer.finish()
    packs = Packs(Disk(tmp_path), DATABASE)
    pack, reader = packs.get(5), Reader(packs)
    stored = [
        Stored(5, place, "<i8", (4 * BLOCK_WORDS,), 4 * BLOCK_WORDS, fixed=place == 0) for place in places
    ]
    fixed, changing, other = map(reader, stored)
    assert np.shares_memory(fixed, pack.data)
    assert np.shares_memory(changing, pack.writable) and np.shares_memory(other, pack.writable)
    changing[:] = 7
    assert pack.data.view(np.int64).tolist() == 3 * words.tolist()
    assert reader(stored[0]).tolist() == fixed.tolist() == other.tolist() == words.tolist()
    only_read = Packs(Disk(tmp_path), DATABASE, is_writable=False).get(5)
    assert only_read.writable is not pack.writable and np.shares_memory(only_read.writable, only_read.data)


def test_blocks_of_zeros_are_not_written() -> None:
    sim = Sim()
    written(sim)
    assert sims_of_zero_block() == ZERO_BLOCK_SUM
    sizes = [what for what in sim.done if what.startswith("write")]
    assert len(sizes) == 5


def sims_of_zero_block() -> int:
    return int(sums_of(np.zeros(BLOCK, np.uint8))[0])


def test_every_flipped_bit_is_found_where_it_is() -> None:
    sim = Sim()
    written(sim)
    now = sim.names[pack_name(5)].now
    for place in [*range(0, len(now), 61), len(now) - 1]:
        now[place] ^= 1 << (place % 8)
        with pytest.raises(DamagedError) as error:
            Pack(sim, 5, DATABASE).verify(0, 10)
        if place < 10 * BLOCK:
            assert f"sim/pack-00000005 is damaged at byte {place - place % BLOCK}" in str(error.value)
        else:
            assert "sim/pack-00000005 is damaged" in str(error.value)
        now[place] ^= 1 << (place % 8)
    Pack(sim, 5, DATABASE).verify(0, 10)


def test_a_pack_that_is_cut_short_or_missing_is_said_so() -> None:
    sim = Sim()
    written(sim)
    now = sim.names[pack_name(5)].now
    whole = bytes(now)
    for size in (0, 7, 64, BLOCK, len(whole) - 8, len(whole) - 1):
        now[:] = whole[:size]
        with pytest.raises(DamagedError, match="sim/pack-00000005 is damaged"):
            Pack(sim, 5, DATABASE)
    with pytest.raises(DamagedError, match="sim/pack-00000006 is missing"):
        Pack(sim, 6, DATABASE)


def test_another_databases_pack_and_a_newer_one_are_refused() -> None:
    sim = Sim()
    written(sim)
    with pytest.raises(DamagedError, match="another database"):
        Pack(sim, 5, DATABASE + 1)
    sim.rename(pack_name(5), pack_name(6))
    with pytest.raises(DamagedError, match="another pack"):
        Pack(sim, 6, DATABASE)


def test_a_newer_format_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim()
    monkeypatch.setattr("kpg.runtime.storage.packs.PACK_VERSION", 2)
    written(sim)
    monkeypatch.setattr("kpg.runtime.storage.packs.PACK_VERSION", 1)
    with pytest.raises(
        OperationalError, match="pack-00000005 has format 2, and this kpg knows formats up to 1"
    ):
        Pack(sim, 5, DATABASE)


def test_a_full_disk_leaves_no_file() -> None:
    sim = Sim()
    writer = PackWriter(sim, 1, DATABASE)
    sim.fails = lambda count, what: errno.ENOSPC if what.startswith("write") else 0
    with pytest.raises(OSError):
        writer.add(some(10), sums_of(some(10)), 0)
    writer.abandon()
    assert sim.names == {}


def test_names() -> None:
    assert pack_name(12) == "pack-00000012"
    assert pack_number("pack-00000012") == 12
    assert [pack_number(name) for name in ("log-00000001", "pack-x", "manifest")] == [None, None, None]
    assert [blocks_of(size) for size in (0, 1, 4096, 4097)] == [0, 1, 1, 2]
