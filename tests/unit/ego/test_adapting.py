"""Labels that change with what is observed: one after the other at the frontier, or all at once."""

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego import decisions
from kpg.runtime.ego.construction import Construction
from kpg.runtime.ego.decisions import Costs
from kpg.runtime.ego.families import make_family
from kpg.runtime.ego.overlay import NONE, Overlay, group_edges
from kpg.runtime.ego.overlay_engine import OverlayEngine
from kpg.runtime.ego.partial_aggregates import Sums
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT
from tests.unit.ego.test_engine import CASES, Model, changes, check

CALL = EgoCall("sum", (0,), (BIGINT,), BIGINT)
COSTS = Costs(push=1.0, push_log=0.0, pull=1.0, pull_each=1.0, array=20.0)
READERS = range(4, 14)


def example() -> tuple[Overlay, Sums]:
    """Ten readers of a partial aggregate of four writers, all pulled: some writes, and a few reads."""
    pairs = [(14, writer) for writer in range(4)] + [(reader, 14) for reader in READERS]
    overlay = Overlay(4, 10, group_edges(*np.array(pairs).T, 15), 40)
    overlay.write_counts[:4] = 100
    overlay.read_counts[4:14] = 60
    family = Sums((CALL,))
    family.grow(overlay.room)
    family.write(overlay, np.arange(4), np.array([[1, 2, 3, 4]]), np.ones(4, np.int64))
    family.commit()
    overlay.order_outputs(all_nodes=True)
    return overlay, family


def test_all_labels_are_decided_and_filled() -> None:
    overlay, family = example()
    overlay.read_counts[4:14] = 6000
    assert decisions.relabel_all(overlay, family, COSTS, NONE) == 11
    assert overlay.pushed.tolist() == [1] * 15 and overlay.pushed_outputs.tolist() == [1] * 4 + [0] * 10 + [
        10
    ]
    there, words = family.read(overlay, np.array(READERS))
    assert there.all() and words[0].tolist() == [10] * 10
    overlay.write_counts[:4], overlay.read_counts[4:14] = 5000, 1
    assert decisions.relabel_all(overlay, family, COSTS, NONE) == 11
    assert overlay.pushed.tolist() == [1] * 4 + [0] * 11 and not overlay.pushed_outputs.any()
    assert family.read(overlay, np.array(READERS))[1][0].tolist() == [10] * 10


def test_forced_readers_stay_pushed() -> None:
    overlay, family = example()
    overlay.read_counts[4:14] = 6000
    decisions.relabel_all(overlay, family, COSTS, NONE)
    overlay.write_counts[:4], overlay.read_counts[4:14] = 5000, 1
    decisions.relabel_all(overlay, family, COSTS, np.array([6]))
    assert overlay.pushed.tolist() == [1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_labels_that_cost_about_as_much_stay() -> None:
    """What is decided anew is expected to save nothing: the labels there are came of the same frequencies."""
    overlay, family = example()
    decisions.relabel_all(overlay, family, COSTS, NONE)
    before = overlay.pushed.copy()
    overlay.read_counts[5] += 1
    assert decisions.relabel_all(overlay, family, COSTS, NONE) == 0
    assert overlay.pushed.tolist() == before.tolist()


@pytest.mark.parametrize(("kind", "function", "few"), CASES)
def test_answers_are_right_after_a_shift(kind: EgoFamily, function: str, few: int) -> None:
    call = (EgoCall(function, (0,), (BIGINT,), BIGINT),)
    random = np.random.default_rng(11)
    engine = OverlayEngine(make_family(kind, call, few, Dictionary()), Construction.VNM_A, "auto", COSTS)
    model = Model(function)
    seen = set()
    for step in range(8):
        change = changes(random, model, large=step == 0)
        engine.apply(change)
        model.apply(change)
        readers, writers = (ids.items()[1] for ids in (engine._readers, engine._writers))
        engine.overlay.read_counts[readers] = 500 if step % 2 else 0
        engine.overlay.write_counts[writers] = 0 if step % 2 else 500
        engine.adapt(anew=True)
        assert engine.fitted_costs is COSTS
        seen.add(int(engine.overlay.pushed[readers].sum()) == readers.shape[0])
        check(engine, model)
    assert seen == {False, True}


def test_it_costs_no_more_than_before() -> None:
    """By the frequencies that were observed, on random overlays and labels."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        overlay, family = example()
        overlay.write_counts[:4] = random.integers(0, 300, 4)
        overlay.read_counts[4:14] = random.integers(0, 300, 10)
        often = decisions.observed_frequencies(overlay, overlay.topological_order())
        costs = [sum(decisions.push_pull_costs(overlay, often, COSTS))]
        for _ in range(2):
            decisions.relabel_all(overlay, family, COSTS, NONE)
            costs.append(sum(decisions.push_pull_costs(overlay, often, COSTS)))
        assert costs[0] >= costs[1] == costs[2]
