"""Merge effort: how eagerly indexes are merged, by the rows of work that their traces have counted."""

from collections.abc import Callable

import numpy as np
import pytest

import kpg
from tests.unit.collections.test_sharing import arrangements
from tests.unit.collections.watching import watch

SIZES = (16_000, 8_000, 4_000, 4_000)
"""Of batches, each smaller than what is there, but for the last: with that all merge, two by two."""


def merging(
    effort: str, through: Callable[[kpg.Collection], kpg.Collection] = lambda c: c
) -> tuple[list[int], dict[tuple[int, ...], int]]:
    """The rows merged in the trace after each batch, and what the numbers add up to."""
    with kpg.connect(merge_effort=effort) as db:
        flow = db.dataflow()
        numbers = flow.input("numbers", n=int)
        kept = through(numbers).arrange_by_key("n")
        seen = watch(kept.map(lambda r: {"n": r.n % 2}).count("n"))
        merged, first = [], 0
        for size in SIZES:
            numbers.insert_columns([np.arange(first, first + size)])
            first += size
            numbers.advance_to(numbers.time + 1)
            flow.step()
            merged.append(arrangements(db)[0].spine.merged_rows)
        return merged, seen.at()


def test_merge_effort_is_how_much_is_merged_at_once() -> None:
    eager, default, lazy = merging("eager"), merging("default"), merging("lazy")
    assert eager[1] == default[1] == lazy[1] == {(0, 16_000): 1, (1, 16_000): 1}
    assert eager[0] == [0, 0, 0, 8_000 + 16_000 + 32_000]
    assert lazy[0][-1] < default[0][-1] < eager[0][-1]


def test_results_of_loops_are_merged_so_too() -> None:
    def through(numbers: kpg.Collection) -> kpg.Collection:
        return numbers.iterate(lambda c: c.filter(lambda r: r.n >= 0))

    eager, lazy = merging("eager", through), merging("lazy", through)
    assert eager[1] == lazy[1]
    assert sum(lazy[0]) < sum(eager[0]) / 2


def test_there_are_three_efforts() -> None:
    with pytest.raises(kpg.InterfaceError, match='no merge effort "brisk"') as caught:
        kpg.connect(merge_effort="brisk")
    assert caught.value.hint == "it is one of eager, default, lazy"
