"""Engines of every family, construction and mode, against brute force after every change."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.construction import Construction
from kpg.runtime.ego.decisions import Costs
from kpg.runtime.ego.families import make_family
from kpg.runtime.ego.overlay import ALL_READERS, FollowedReaders
from kpg.runtime.ego.overlay_engine import Change, OverlayEngine
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.functions.aggregation.definition import compute_aggregate
from kpg.runtime.mfp.python_calls import values_of
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT, INTEGER, array
from kpg.runtime.values.arrays import array_of
from tests.model.overlays import check_overlay

COSTS = Costs(push=1.0, push_log=0.5, pull=0.5, pull_each=1.0)
NODES = 30
CASES = [
    (EgoFamily.SUMS, "sum", 0),
    (EgoFamily.LEAST, "min", 0),
    (EgoFamily.GREATEST, "max", 0),
    (EgoFamily.COUNTS, "distinct_count", 0),
    (EgoFamily.STATES, "distinct_count", 0),
    (EgoFamily.STATES, "max", 0),
    (EgoFamily.STATES, "bit_xor", 0),
    (EgoFamily.STATES, "bit_or", 0),
]


def fits(family: EgoFamily, function: str, construction: Construction) -> bool:
    repeats = family in (EgoFamily.LEAST, EgoFamily.GREATEST)
    subtracts = lookup_aggregate(function).algorithm((BIGINT,)).subtract is not None and not repeats
    repeats |= family is EgoFamily.STATES and lookup_aggregate(function).idempotent and not subtracts
    if construction is Construction.VNM_N:
        return subtracts
    return construction is not Construction.VNM_D or repeats


class Model:
    """Pairs, and what writers have in their windows."""

    def __init__(self, function: str) -> None:
        self.pairs: set[tuple[int, int]] = set()
        self.rows: Counter[tuple[int, int]] = Counter()
        self.algorithm = lookup_aggregate(function).algorithm((BIGINT,))

    def apply(self, change: Change) -> None:
        for (reader, writer), diff in zip(change.pairs.T.tolist(), change.pair_diffs.tolist(), strict=True):
            (self.pairs.add if diff > 0 else self.pairs.discard)((reader, writer))
        for row, diff in zip(change.writes.T.tolist(), change.write_diffs.tolist(), strict=True):
            self.rows[tuple(row)] += diff

    def answers(self) -> dict[int, int]:
        held: dict[int, list[tuple[tuple[int], int]]] = {}
        for reader, writer in self.pairs:
            for (node, value), count in self.rows.items():
                if node == writer and count:
                    held.setdefault(reader, []).append(((value,), count))
        return {reader: compute_aggregate(self.algorithm, rows) for reader, rows in held.items()}


def changes(random: np.random.Generator, model: Model, large: bool) -> Change:
    """Some pairs and rows that come, and some of those that are there that go."""
    pairs: dict[tuple[int, int], int] = {}
    if large or random.random() < 0.6:
        for _ in range(12 if large else 1):
            writers = random.choice(NODES, int(random.integers(1, 9 if large else 3)), replace=False)
            for reader in random.choice(NODES, int(random.integers(1, 12 if large else 3)), replace=False):
                pairs |= {
                    (int(reader), int(one)): 1
                    for one in writers
                    if (int(reader), int(one)) not in model.pairs
                }
        known = sorted(model.pairs)
        for place in random.choice(len(known), min(len(known), 3), replace=False).tolist() if known else []:
            pairs[known[place]] = -1
    rows: Counter[tuple[int, int]] = Counter()
    for _ in range(int(random.integers(0, 6))):
        rows[int(random.integers(0, NODES)), int(random.integers(-4, 5))] += 1
    there = sorted(row for row, count in model.rows.items() if count)
    for place in random.choice(len(there), min(len(there), 2), replace=False).tolist() if there else []:
        rows[there[place]] -= 1
    rows = Counter({row: diff for row, diff in rows.items() if diff})
    return Change(
        np.array(list(pairs), np.int64).reshape(-1, 2).T.copy(), np.array(list(pairs.values()), np.int64),
        np.array(list(rows), np.int64).reshape(-1, 2).T.copy(), np.array(list(rows.values()), np.int64),
    )  # fmt: skip


def check(engine: OverlayEngine, model: Model) -> None:
    expected = model.answers()
    assert dict(engine.rows().T.tolist()) == expected
    there, words = engine.read(np.arange(NODES + 2))
    assert {node: words[0, node] for node in np.flatnonzero(there).tolist()} == expected
    nodes = {int(word): int(node) for word, node in zip(*engine._writers.items(), strict=True)}
    readers = {int(word): int(node) for word, node in zip(*engine._readers.items(), strict=True)}
    wanted: dict[int, set[int]] = {}
    for reader, writer in model.pairs:
        wanted.setdefault(readers[reader], set()).add(nodes[writer])
    check_overlay(engine.overlay, wanted, repeats=engine.family.ignores_repetition)
    assert engine.overlay.pushed[engine.forced_nodes()].all()


def demand(engine: OverlayEngine, model: Model) -> None:
    """Some readers are continuous from now on; others are, in a step that fails in the end."""
    pairs, nothing = np.empty((2, 0), np.int64), np.empty(0, np.int64)
    for readers, fails in (([3, 4, 50], False), ([6, 7], True), ([4], True)):
        sign = -1 if readers == [4] else 1
        change = Change(pairs, nothing, pairs, nothing, np.array(readers), np.full(len(readers), sign))
        engine.apply(change)
        if fails:
            engine.apply(change.opposite())
        check(engine, model)
    assert engine.continuous.tolist() == [3, 4, 50]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "push", "pull"])
@pytest.mark.parametrize(("family", "function", "few"), CASES)
def test_engines_are_right_after_every_change(family: EgoFamily, function: str, few: int, mode: str) -> None:
    call = (EgoCall(function, (0,), (BIGINT,), BIGINT),)
    for seed, construction in enumerate(Construction):
        if not fits(family, function, construction):
            continue
        random = np.random.default_rng(seed)
        engine = OverlayEngine(make_family(family, call, few, Dictionary()), construction, mode, COSTS)
        model = Model(function)
        for step in range(8):
            change = changes(random, model, large=step in (0, 5))
            engine.apply(change)
            if random.random() < 0.3:  # the step fails in the end
                engine.apply(change.opposite())
            else:
                model.apply(change)
            check(engine, model)
            if step == 2:
                engine.follow(
                    FollowedReaders(
                        False, np.array([1, 5, 40]), (lambda words: words[words > 25],), ("some",)
                    )
                )
                check(engine, model)
            if step == 3:
                demand(engine, model)
            if step % 4 == 3:
                engine.adapt()
                check(engine, model)
            if step == 6:
                engine.follow(ALL_READERS)
                check(engine, model)
                engine.follow(FollowedReaders(False, np.array([2, 9]), key=("few",)))
                check(engine, model)
            engine.maintain()
        engine.relabel()
        check(engine, model)


def test_the_papers_sum() -> None:
    """The newest values of c, d, e and f are 9, 3, 1 and 6: a reads 19."""
    family = make_family(EgoFamily.SUMS, (EgoCall("sum", (0,), (BIGINT,), BIGINT),), 0, Dictionary())
    engine = OverlayEngine(family, Construction.VNM_A, "auto", COSTS)
    pairs = np.array([[0, 0, 0, 0], [3, 4, 5, 6]])
    writes = np.array([[3, 4, 5, 6], [9, 3, 1, 6]])
    engine.apply(Change(pairs, np.ones(4, np.int64), writes, np.ones(4, np.int64)))
    there, words = engine.read(np.array([0, 1]))
    assert (there.tolist(), words[0, 0]) == ([True, False], 19)


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_what_is_asked_more_than_once_at_a_time(mode: str) -> None:
    """The most frequent words of some nodes, each asked often, before and after a write."""
    call = EgoCall("top_k", (0, 1), (BIGINT, INTEGER), array(BIGINT))
    dictionary = Dictionary()
    engine = OverlayEngine(
        make_family(EgoFamily.COUNTS, (call,), 1, dictionary), Construction.NONE, mode, COSTS
    )
    pairs = np.array([[0, 0, 1], [7, 8, 8]])
    writes = np.concatenate((np.stack((np.full(900, 7), np.arange(900))), [[8], [3]]), axis=1)
    engine.apply(Change(pairs, np.ones(3, np.int64), writes, np.ones(901, np.int64)))
    asked = np.array([1, 0, 5, 0, 1, *[0] * 3000])

    def answers() -> list[Any]:
        there, words = engine.read(asked)
        assert there[[0, 1, 3]].all() and not there[2]
        return values_of(words[0, there], array(BIGINT), dictionary)

    none = np.empty((2, 0), np.int64)
    for value, count in ((3, 2), (5, 3)):
        assert answers() == [
            array_of([3]),
            array_of([value]),
            array_of([value]),
            array_of([3]),
            *[array_of([value])] * 3000,
        ]
        if value == 3:
            engine.apply(Change(none, none[0], np.array([[7], [5]]), np.array([count])))
