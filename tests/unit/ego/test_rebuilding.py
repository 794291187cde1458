"""Overlays that are built anew in the background while changes go on."""

from typing import Any

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego import construction
from kpg.runtime.ego.construction import Construction, apply_pair_changes, build_from_pairs, consolidate_pairs
from kpg.runtime.ego.families import make_family
from kpg.runtime.ego.overlay_engine import OverlayEngine
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT
from tests.unit.ego.test_engine import COSTS, Model, changes, check

CASES = [
    (EgoFamily.SUMS, "sum"), (EgoFamily.LEAST, "min"), (EgoFamily.COUNTS, "distinct_count"),
    (EgoFamily.STATES, "bit_xor"),
]  # fmt: skip


def decayed(family: EgoFamily, function: str, random: np.random.Generator) -> tuple[OverlayEngine, Model]:
    call = (EgoCall(function, (0,), (BIGINT,), BIGINT),)
    engine = OverlayEngine(make_family(family, call, 0, Dictionary()), Construction.VNM_A, "auto", COSTS)
    model = Model(function)
    change(engine, model, random, large=True)
    while engine.overlay.patches <= max(64, engine.overlay.edges // 4):
        change(engine, model, random, large=False)
    return engine, model


def change(engine: OverlayEngine, model: Model, random: np.random.Generator, *, large: bool) -> None:
    made = changes(random, model, large)
    engine.apply(made)
    model.apply(made)


@pytest.mark.parametrize(("family", "function"), CASES)
def test_changes_meanwhile_are_patched_in(family: EgoFamily, function: str) -> None:
    random = np.random.default_rng(5)
    engine, model = decayed(family, function, random)
    engine.maintain()
    before, patches = engine.overlay, engine.overlay.patches
    for _ in range(6):
        change(engine, model, random, large=False)
        assert engine.overlay is before
        check(engine, model)
    assert engine.background_build is not None
    engine.background_build.wait()
    engine.maintain()
    assert engine.overlay is not before and engine.overlay.patches < patches
    assert engine.overlay.pair_count == len(model.pairs)
    check(engine, model)
    for _ in range(4):
        change(engine, model, random, large=False)
        check(engine, model)


def test_what_fails_leaves_the_old_overlay(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(6)
    engine, model = decayed(EgoFamily.SUMS, "sum", random)

    def failing(*given: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(construction, "build", failing)
    before, patches = engine.overlay, engine.overlay.patches
    engine.maintain()
    assert engine.background_build is not None
    engine.background_build.wait()
    assert isinstance(engine.background_build.error, MemoryError)
    engine.maintain()
    assert engine.overlay is before and engine.background_build is None
    check(engine, model)
    engine.maintain()
    assert engine.background_build is None  # it is tried again when twice as much was patched
    monkeypatch.undo()
    while engine.overlay.patches <= 2 * patches:
        change(engine, model, random, large=False)
    engine.maintain()
    assert engine.background_build is not None
    engine.background_build.wait()
    engine.maintain()
    assert engine.overlay is not before
    check(engine, model)


def test_a_large_change_makes_it_needless() -> None:
    random = np.random.default_rng(7)
    engine, model = decayed(EgoFamily.SUMS, "sum", random)
    engine.maintain()
    pairs = engine._make_pairs_reader()()
    gone = np.stack(pairs)[:, : 3 * pairs[0].shape[0] // 4]
    nothing = np.empty((2, 0), np.int64)
    made = type(changes(random, model, False))(gone, np.full(gone.shape[1], -1), nothing, nothing[0])
    engine.apply(made)
    model.apply(made)
    assert engine.background_build is None
    check(engine, model)


def test_pairs_after_changes() -> None:
    pairs, diffs = np.array([[1, 2, 1], [5, 6, 5]]), np.array([1, -1, -1])
    rows, counts = consolidate_pairs(pairs, diffs)
    assert (rows.tolist(), counts.tolist()) == ([[1, 2], [5, 6]], [0, -1])
    readers, writers = apply_pair_changes(np.array([2, 3]), np.array([6, 6]), pairs, diffs)
    assert (readers.tolist(), writers.tolist()) == ([3], [6])
    found = build_from_pairs(Construction.NONE, lambda: (readers, writers), np.array([9]))
    assert (found.writers.tolist(), found.readers.tolist(), found.overlay.edges) == ([6, 9], [3], 1)
