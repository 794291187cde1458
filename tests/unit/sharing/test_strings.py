"""Text between workers: what arrives is the string that was meant, and each goes once."""

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.operators.text_exchange import Strings, Told
from kpg.runtime.types import ERROR, NULL


def test_words_of_a_peer_are_the_same_strings() -> None:
    dictionary = Dictionary()
    told = Told(dictionary, 2)
    dictionary.intern(["ant", "bee"])
    here, there = (Strings(Dictionary(), 2) for _ in range(2))
    there.dictionary.intern(["own", "bee"])
    delta = told.delta()
    here.learn(delta)
    there.learn(delta)
    sent = here.dictionary.intern(["bee", "made here", "ant"])
    words = np.array([*sent, NULL, ERROR], np.int64)
    common, more = here.outgoing(words), here.delta(1)
    assert len(more) == 1
    there.hear(0, more)
    own = there.incoming(0, common)
    assert there.dictionary.decode(own[:4]) == ["bee", "made here", "ant", None]
    assert own[4] == ERROR
    assert len(here.delta(1)) == 0 and len(told.delta()) == 0


def test_the_coordinator_reads_what_a_worker_made() -> None:
    dictionary = Dictionary()
    told = Told(dictionary, 1)
    here = Strings(Dictionary(), 1)
    dictionary.intern(["known"])
    here.learn(told.delta())
    common = here.reported(here.dictionary.intern(["new", "known"]))
    told.hear(0, here.news())
    assert dictionary.decode(told.words(0, common)) == ["new", "known"]


def test_the_coordinator_hears_of_nothing_that_workers_tell_each_other() -> None:
    dictionary = Dictionary()
    told = Told(dictionary, 2)
    here, there = (Strings(Dictionary(), 2) for _ in range(2))
    made = here.dictionary.intern([f"made {i}" for i in range(1000)])
    common = here.outgoing(made)
    there.hear(0, here.delta(1))
    assert there.dictionary.decode(there.incoming(0, common)) == [f"made {i}" for i in range(1000)]
    assert here.news() is None
    said = here.reported(made[990:992])
    told.hear(0, here.news())
    assert dictionary.decode(told.words(0, said)) == ["made 990", "made 991"]
    assert len(dictionary) == 2 and here.news() is None
    delta = told.delta()
    for one in (here, there):
        one.learn(delta)
    # From now on both have the coordinator's word for it.
    assert here.outgoing(made[990:991]).tolist() == [0] and len(here.delta(1)) == 0
    assert here.reported(made[990:991]).tolist() == [0] and here.news() is None
    assert there.dictionary.decode(there.incoming(0, np.array([0, 1]))) == ["made 990", "made 991"]
