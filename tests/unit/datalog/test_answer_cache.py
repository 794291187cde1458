"""Answers that are remembered: how many, how many rows, and for how long seeds are kept."""

import numpy as np
import pytest

from kpg.datalog import goal_plan
from kpg.datalog.goal_plan import AnswerCache, CachedAnswer, RecentSeeds


def answer(rows: int) -> CachedAnswer:
    return CachedAnswer(1, (np.zeros((2, rows), np.int64), np.ones(rows, np.int64)))


def test_the_oldest_answer_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal_plan, "MAX_CACHED_ANSWERS", 2)
    cache, first, second, third = AnswerCache(), answer(1), answer(2), answer(3)
    cache.put((1,), first)
    cache.put((2,), second)
    cache.put((1,), first)
    cache.put((3,), third)
    assert [cache.find((seed,)) for seed in (1, 2, 3)] == [first, None, third]


def test_rows_of_all_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal_plan, "MAX_CACHED_ROWS", 10)
    cache = AnswerCache()
    for seed in (1, 2, 3):
        cache.put((seed,), answer(4))
    assert [cache.find((seed,)) is not None for seed in (1, 2, 3)] == [False, True, True]
    cache.put((2,), answer(11))
    assert cache.find((2,)) is None and cache.find((3,)) is not None
    cache.evict((3,))
    cache.put((4,), answer(10))
    assert cache.find((4,)) is not None


def test_seeds_are_given_up_when_they_are_too_many_or_asked_for_no_more() -> None:
    kept = RecentSeeds(2, 3)
    for seed in (1, 2, 3, 1):
        kept.touch((seed,))
    assert list(kept) == [(2,), (3,), (1,)] and kept.expired() == [(2,)]
    kept.discard((2,))
    assert (2,) not in kept and len(kept) == 2 and kept.expired() == []
    for _ in range(3):
        kept.count_commit()
    kept.touch((3,))
    assert kept.expired() == []
    kept.count_commit()
    assert kept.expired() == [(1,)]
