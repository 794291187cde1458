"""Patches: what they take is in proportion to what has changed, and arrays with them are what they are."""

from collections.abc import Iterator

import numpy as np
import pytest

from kpg.runtime.checkpoint import pack_store
from kpg.runtime.checkpoint.captured_state import Mutability, Part, changing_part, growing_part
from kpg.runtime.checkpoint.checkpointer import CheckpointStore
from kpg.runtime.checkpoint.pack_store import Small, Stored
from kpg.runtime.storage.packs import BLOCK
from tests.model.disk import Sim


class Case:
    """An array of 64-bit words that is kept by checkpoints."""

    def __init__(self) -> None:
        self.sim = Sim()
        self.keeper = CheckpointStore(self.sim, 7)
        self.epoch = 0

    def save(self, part: Part) -> Stored:
        """How it is stored."""
        self.epoch += 1
        job = self.keeper.prepare({"a": part, "rest": part.mutability.name}, self.epoch, 1)
        self.keeper.write(job)
        self.keeper.adopt(job)
        found = self.stored(self.keeper)
        assert isinstance(found, Stored)
        return found

    def stored(self, keeper: CheckpointStore) -> Stored | Small:
        assert self.keeper.checkpoint is not None
        found: Stored | Small = keeper.open(self.keeper.checkpoint)["a"]
        return found

    def read(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        keeper = CheckpointStore(self.sim, 7)
        return keeper.read(self.stored(keeper))


@pytest.fixture
def case() -> Iterator[Case]:
    yield Case()


def test_a_word_that_changes_writes_a_line_and_not_a_block(case: Case) -> None:
    words = np.arange(1 << 16, dtype=np.int64)
    case.save(changing_part(words))
    words[::4096] = -1
    found = case.save(changing_part(words))
    (patch,) = found.changes
    assert isinstance(patch, pack_store.Patch)
    assert (patch.changed, patch.lines, patch.size) == (16, 16, 16 * (16 + 8 + 64))
    assert case.read().tolist() == words.tolist()


def test_patches_become_one_and_then_the_array_is_written_whole(case: Case) -> None:
    words, random = np.arange(1 << 17, dtype=np.int64), np.random.default_rng(1)
    counts, whole = [], []
    case.save(changing_part(words))
    for _ in range(40):
        words[random.integers(0, words.shape[0], 150)] += 1
        found = case.save(changing_part(words))
        counts.append(len(found.changes))
        whole.append(not found.changes)
        assert case.read().tolist() == words.tolist()
    assert max(counts) == pack_store.MAX_PATCHES and counts[pack_store.MAX_PATCHES] == 1
    assert 0 < sum(whole) < 12


def test_a_patch_goes_on_when_its_pack_does_not(case: Case) -> None:
    """A pack of which little is in use any more is given up, and what was patched is not written whole."""
    words = np.arange(1 << 16, dtype=np.int64)
    first = case.save(changing_part(words))
    for number in range(20):
        words[number * 1000] = -number
        found = case.save(changing_part(words))
        assert found.pack == first.pack
        assert case.read().tolist() == words.tolist()
    taken = [len(node.now) for name, node in case.sim.names.items() if name.startswith("pack")]
    assert sum(taken) < words.nbytes + 40 * BLOCK


def test_what_nobody_has_read_is_kept_with_its_patches(case: Case) -> None:
    words = np.arange(1 << 16, dtype=np.int64)
    case.save(changing_part(words))
    for number in range(3):
        words[number * 1000] = -number
        case.save(changing_part(words))
    keeper = CheckpointStore(case.sim, 7)
    for _ in range(5):
        assert case.keeper.checkpoint is not None
        state = keeper.open(case.keeper.checkpoint)
        job = keeper.prepare(state, 9, 1)
        keeper.write(job)
        keeper.adopt(job)
        case.keeper.checkpoint = keeper.checkpoint
        assert case.read().tolist() == words.tolist()


def test_an_array_that_grows_is_patched_into_its_room(case: Case) -> None:
    words = np.arange(1 << 17, dtype=np.int64)
    first = case.save(growing_part(words, 60_000))
    for used in (60_001, 61_000, 62_345):
        found = case.save(growing_part(words, used))
        assert (found.pack, found.used) == (first.pack, used) and found.changes
        assert case.read()[:used].tolist() == words[:used].tolist()
    assert case.save(growing_part(words, 130_000)).pack != first.pack
    assert case.read()[:130_000].tolist() == words[:130_000].tolist()


def test_lengths_that_are_no_whole_lines(case: Case) -> None:
    data = np.arange(40_003, dtype=np.uint8)
    case.save(changing_part(data))
    for place in (0, 17, 39_990, 40_002):
        data[place] ^= 255
        case.save(changing_part(data))
        assert case.read().tolist() == data.tolist()


def test_what_is_behind_rows_is_stored_as_zeros(case: Case) -> None:
    """By whoever writes: capturing a state does not look at what memory held before."""
    words = np.full((3, 1 << 12), 7, np.int64)
    part = Part(words, Mutability.CHANGING, rows=1 << 10)
    assert words.min() == 7
    case.save(part)
    found = case.read()
    assert found[:, : 1 << 10].min() == 7 and found[:, 1 << 10 :].max() == 0
