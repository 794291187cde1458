"""Memory in common: places are given once, given back, and lost by nobody who dies within a lock."""

import os

import numpy as np
import pytest

from kpg.runtime.cluster.shared_memory import ARENA, PAGE, Lock, MappedGroups, SharedGroups, SharedMemory


def test_what_one_writes_another_reads() -> None:
    memory = SharedMemory()
    other = SharedMemory(memory.files)
    place = memory.allocate(100)
    memory.words(place, 3)[:] = 1, 2, 3
    assert other.words(place, 3).tolist() == [1, 2, 3]
    text = memory.bytes(ARENA, 1)
    text[0] = 7
    assert memory.contains(memory.words(place, 3)) and not memory.contains(np.zeros(3))
    assert memory.offset_of(memory.bytes(place + 7, 1)) == place + 7
    memory.close()
    assert other.words(place, 3).tolist() == [0, 0, 0] and text[0] == 7


def test_what_is_given_up_is_given_again_once_all_have_heard() -> None:
    memory = SharedMemory()
    first = memory.allocate(PAGE)
    memory.words(first, 1)[0] = 7
    memory.free_later(memory.words(first, 1), PAGE)
    news = memory.take_update()
    assert memory.allocate(PAGE) != first
    memory.restore_update(news)
    memory.confirm_update(memory.take_update())
    assert memory.allocate(1) == first
    assert memory.words(first, 1).tolist() == [0]
    memory.close()


def test_who_comes_after_one_that_died_sees_it() -> None:
    memory = SharedMemory()
    lock = Lock(memory, memory.words(0, 1))
    with lock:
        assert not lock.was_interrupted
    with pytest.raises(KeyError), lock:
        raise KeyError
    with lock:
        assert lock.was_interrupted
    child = os.fork()
    if not child:
        with lock:
            os._exit(0)
    os.waitpid(child, 0)
    with lock:
        assert lock.was_interrupted
    with lock:
        assert not lock.was_interrupted
    memory.close()


def test_groups_of_rows_are_seen_as_they_are_after_they_grew_and_were_rewritten() -> None:
    memory = SharedMemory()
    groups, seen = SharedGroups(2, memory, 5), MappedGroups(2, memory)

    def same(rowids: list[int]) -> bool:
        for shown in memory.take_update().updates:
            assert shown.table == 5
            seen.apply_updates(shown)
        chosen, asked = np.arange(2), np.array(rowids)
        return groups.read(chosen, asked).tolist() == seen.read(chosen, asked).tolist()

    groups.bits = groups.directory[0, 0] = 7
    groups.reserve(10, 0)
    rows = groups.groups[0]
    assert rows is not None
    rows.columns[:, :10] = np.arange(20).reshape(2, 10)
    rows.live[0] = 0b1010101010
    assert same([0, 3, 9])
    groups.reserve(300, 10)
    assert same([0, 3, 9])
    groups.rewrite(0, 5)
    assert same([1, 3, 4, 9]) and seen.read(np.arange(2), np.array([3])).tolist() == [[3], [13]]
    groups.rewrite(1, 0)
    assert same([130]) and seen.live(0, 128).tolist() == [1, 3, 5, 7, 9]
    assert memory.take_update().updates == ()
    memory.close()
