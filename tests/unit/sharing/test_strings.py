"""Text between workers: what arrives is the string that was meant, and each goes once."""

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.operators.text_exchange import CoordinatorStrings, WorkerStrings
from kpg.runtime.types import ERROR, NULL


def test_words_of_a_peer_are_the_same_strings() -> None:
    dictionary = Dictionary()
    told = CoordinatorStrings(dictionary, 2)
    dictionary.intern(["ant", "bee"])
    here, there = (WorkerStrings(Dictionary(), 2) for _ in range(2))
    there.dictionary.intern(["own", "bee"])
    delta = told.take_delta()
    here.add_coordinator_strings(delta)
    there.add_coordinator_strings(delta)
    sent = here.dictionary.intern(["bee", "made here", "ant"])
    words = np.array([*sent, NULL, ERROR], np.int64)
    common, more = here.encode(words), here.take_delta(1)
    assert len(more) == 1
    there.add_peer_strings(0, more)
    own = there.decode_from_peer(0, common)
    assert there.dictionary.decode(own[:4]) == ["bee", "made here", "ant", None]
    assert own[4] == ERROR
    assert len(here.take_delta(1)) == 0 and len(told.take_delta()) == 0


def test_the_coordinator_reads_what_a_worker_made() -> None:
    dictionary = Dictionary()
    told = CoordinatorStrings(dictionary, 1)
    here = WorkerStrings(Dictionary(), 1)
    dictionary.intern(["known"])
    here.add_coordinator_strings(told.take_delta())
    common = here.encode_for_coordinator(here.dictionary.intern(["new", "known"]))
    told.add_worker_strings(0, here.take_coordinator_delta())
    assert dictionary.decode(told.decode(0, common)) == ["new", "known"]


def test_the_coordinator_hears_of_nothing_that_workers_tell_each_other() -> None:
    dictionary = Dictionary()
    told = CoordinatorStrings(dictionary, 2)
    here, there = (WorkerStrings(Dictionary(), 2) for _ in range(2))
    made = here.dictionary.intern([f"made {i}" for i in range(1000)])
    common = here.encode(made)
    there.add_peer_strings(0, here.take_delta(1))
    assert there.dictionary.decode(there.decode_from_peer(0, common)) == [f"made {i}" for i in range(1000)]
    assert here.take_coordinator_delta() is None
    said = here.encode_for_coordinator(made[990:992])
    told.add_worker_strings(0, here.take_coordinator_delta())
    assert dictionary.decode(told.decode(0, said)) == ["made 990", "made 991"]
    assert len(dictionary) == 2 and here.take_coordinator_delta() is None
    delta = told.take_delta()
    for one in (here, there):
        one.add_coordinator_strings(delta)
    # From now on both have the coordinator's word for it.
    assert here.encode(made[990:991]).tolist() == [0] and len(here.take_delta(1)) == 0
    assert (
        here.encode_for_coordinator(made[990:991]).tolist() == [0] and here.take_coordinator_delta() is None
    )
    assert there.dictionary.decode(there.decode_from_peer(0, np.array([0, 1]))) == ["made 990", "made 991"]
