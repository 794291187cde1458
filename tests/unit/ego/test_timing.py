"""Costs fitted to an overlay: what is tried out leaves nothing behind."""

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego import timing
from kpg.runtime.ego.deciding import Costs
from kpg.runtime.ego.families import family_of
from kpg.runtime.ego.overlay import Edges, Overlay
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT, INTEGER, TEXT, Type, array

COSTS = Costs(push=1.0, push_log=0.5, pull=0.5, pull_each=1.0, cold_push=2.0, cold_pull=3.0, cold_each=4.0)


def star() -> Overlay:
    """Three writers, one reader of them all."""
    size = np.array([0, 0, 0, 3], np.int64)
    return Overlay(3, 1, Edges(np.zeros(4, np.int64), size, np.array([0, 2, 4], np.int32)), 3)


def top(of: Type) -> EgoCall:
    return EgoCall("top_k", (0, 1), (of, INTEGER), array(of))


@pytest.mark.parametrize(
    ("family", "call", "few"),
    [
        (EgoFamily.SUMS, EgoCall("sum", (0,), (BIGINT,), BIGINT), 0),
        (EgoFamily.GREATEST, EgoCall("max", (0,), (BIGINT,), BIGINT), 0),
        (EgoFamily.COUNTS, EgoCall("distinct_count", (0,), (BIGINT,), BIGINT), 0),
    ],
)
def test_what_was_tried_out_is_undone(family: EgoFamily, call: EgoCall, few: int) -> None:
    overlay = star()
    kept = family_of(family, (call,), few, Dictionary())
    kept.grow(overlay.room)
    kept.write(overlay, np.arange(3), np.array([[-5, -7, -7]]), np.ones(3, np.int64))
    kept.commit()
    found = timing.fitted(overlay, kept, 1, COSTS)
    assert found.push_log / found.push == 0.5 and found.cold_pull / found.pull == 6.0
    assert 1 / 8 <= found.push <= 8.0
    expected = {EgoFamily.SUMS: -19, EgoFamily.GREATEST: -5, EgoFamily.COUNTS: 2}[family]
    assert kept.read(overlay, np.array([3]))[1].tolist() == [[expected]]


def test_what_has_no_words_of_its_own_is_not_tried_out() -> None:
    overlay = star()
    kept = family_of(EgoFamily.COUNTS, (top(TEXT),), 2, Dictionary())
    kept.grow(overlay.room)
    assert timing.fitted(overlay, kept, 1, COSTS) is COSTS
