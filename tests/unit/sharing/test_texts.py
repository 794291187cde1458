"""One dictionary of many processes: a code is the same string at all of them."""

import os

import numpy as np

from kpg.runtime.cluster.shared_memory import COUNT, SharedDictionary, SharedMemory
from kpg.runtime.dictionary import Dictionary


def test_codes_are_the_same_everywhere() -> None:
    memory = SharedMemory()
    one = SharedDictionary(memory)
    other = SharedDictionary(SharedMemory(memory.files))
    assert one.intern(["a", None, "b"]).tolist()[::2] == [0, 1]
    assert other.intern(["b", "c"]).tolist() == [1, 2]
    assert one.get(2) == "c" and one.lookup("c") == 2 and len(one) == len(other) == 3
    many = [f"string {i}" for i in range(5000)]
    assert other.intern(many).tolist() == list(range(3, 5003))
    assert one.intern(many[::-1]).tolist() == list(range(5002, 2, -1))
    assert one.decode(np.array([0, 5002])) == ["a", "string 4999"]
    memory.close()


def test_strings_of_a_reply_stay_where_others_are_given_them() -> None:
    memory = SharedMemory()
    one = SharedDictionary(memory)
    one.begin_reply()
    with one.reply_scope():
        assert not one.is_for_reply
    assert one.intern_for_reply(["a"]).tolist() == [0]
    one.end_reply(keep=False)
    assert one.lookup("a") == 0 and len(one) == 1
    memory.close()


def test_processes_that_intern_at_once_agree() -> None:
    memory = SharedMemory()
    one = SharedDictionary(memory)
    children = []
    for child in range(3):
        process = os.fork()
        if not process:
            for i in range(400):
                one.intern([f"{i}", f"{child} {i}"])
            os._exit(0)
        children.append(process)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len(one) == 4 * 400
    strings = one.decode(np.arange(1600))
    assert len(set(strings)) == 1600
    assert one.intern(strings).tolist() == list(range(1600))
    memory.close()


def test_what_was_half_interned_is_not_there() -> None:
    memory = SharedMemory()
    one = SharedDictionary(memory)
    one.intern(["a", "b", "c"])
    one._head[COUNT] = 2  # "c" is in the hash table already
    one._lock._busy[0] = 1
    assert one.lookup("c") is None
    assert one.intern(["d", "a", "c"]).tolist() == [2, 0, 3]
    memory.close()


def test_it_takes_on_what_another_one_was() -> None:
    before = Dictionary()
    before.intern([f"{i}" for i in range(1000)])
    memory = SharedMemory()
    one = SharedDictionary(memory)
    one.adopt_arrays(len(before), before.arena, before.offsets, before._slots)
    assert one.get(999) == "999" and one.code("17") == 17 and one.code("new") == 1000
    memory.close()
