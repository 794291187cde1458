"""Ways that are tried out on an overlay: they leave nothing behind but the one that took least."""

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego import decisions
from kpg.runtime.ego.decisions import Costs
from kpg.runtime.ego.families import make_family
from kpg.runtime.ego.overlay import READER, WRITER, Edges, Overlay
from kpg.runtime.ego.partial_aggregates import Extremes, Family
from kpg.runtime.kernels.bags import TABLE_ROWS
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT, INTEGER, TEXT, Type, array
from tests.model.overlays import check_overlay

COSTS = Costs(push=1.0, push_log=0.5, pull=0.5, pull_each=1.0, cold_push=2.0, cold_pull=3.0, cold_each=4.0)
PAIRS = {3: {0, 1, 2}, 4: {0, 1, 2}, 5: {0, 1}}


def shared() -> Overlay:
    """Three writers; two readers of them all, who share a partial aggregate, and one of two of them."""
    size = np.array([0, 0, 0, 1, 1, 2, 3], np.int64)
    items = np.array([12, 12, 0, 2, 0, 2, 4], np.int32)
    return Overlay(3, 3, Edges(np.cumsum(size) - size, size, items), 8)


def top(of: Type) -> EgoCall:
    return EgoCall("top_k", (0, 1), (of, INTEGER), array(of))


def total(written: tuple[int, int, int] = (-5, -7, -7)) -> tuple[Overlay, Family]:
    overlay = shared()
    kept = make_family(EgoFamily.SUMS, (EgoCall("sum", (0,), (BIGINT,), BIGINT),), 0, Dictionary())
    kept.grow(overlay.room)
    kept.write(overlay, np.arange(3), np.array([written]), np.ones(3, np.int64))
    kept.commit()
    return overlay, kept


@pytest.mark.parametrize(
    ("family", "call", "few"),
    [
        (EgoFamily.SUMS, EgoCall("sum", (0,), (BIGINT,), BIGINT), 0),
        (EgoFamily.GREATEST, EgoCall("max", (0,), (BIGINT,), BIGINT), 0),
        (EgoFamily.COUNTS, EgoCall("distinct_count", (0,), (BIGINT,), BIGINT), 0),
    ],
)
def test_what_was_tried_out_is_undone(family: EgoFamily, call: EgoCall, few: int) -> None:
    overlay = shared()
    kept = make_family(family, (call,), few, Dictionary())
    kept.grow(overlay.room)
    kept.write(overlay, np.arange(3), np.array([[-5, -7, -7]]), np.ones(3, np.int64))
    kept.commit()
    tried = decisions.choose_by_trial(overlay, kept, COSTS)
    assert tried is not None
    found = tried[1]
    assert found.push_log / found.push == 0.5 and found.cold_pull / found.pull == 6.0
    assert 1 / 8 <= found.push <= 8.0
    check_overlay(overlay, PAIRS, repeats=False)
    kept.fill(overlay, overlay.topological_order())
    expected = {EgoFamily.SUMS: [-19, -19, -12], EgoFamily.GREATEST: [-5] * 3, EgoFamily.COUNTS: [2] * 3}
    assert kept.read(overlay, np.array([3, 4, 5]))[1].tolist() == [expected[family]]


def test_answers_of_a_trial_are_not_interned() -> None:
    overlay, dictionary = shared(), Dictionary()
    kept = make_family(EgoFamily.COUNTS, (top(TEXT),), 2, dictionary)
    kept.grow(overlay.room)
    words = [dictionary.code(text) for text in ("tea", "jam", "tea")]
    kept.write(overlay, np.arange(3), np.array([words, [2] * 3]), np.ones(3, np.int64))
    kept.commit()
    known = len(dictionary)
    assert decisions.choose_by_trial(overlay, kept, COSTS) is not None
    assert len(dictionary) == known
    kept.fill(overlay, overlay.topological_order())
    _, (answers,) = kept.read(overlay, np.array([3]))
    assert dictionary.get(int(answers[0])) is not None and len(dictionary) == known + 1


def test_writers_that_write_again_in_a_trial_have_what_they_had_replaced() -> None:
    overlay = shared()
    kept = make_family(EgoFamily.GREATEST, (EgoCall("max", (0,), (BIGINT,), BIGINT),), 0, Dictionary())
    kept.grow(overlay.room)
    kept.write(overlay, np.arange(3), np.array([[-5, -7, -8]]), np.ones(3, np.int64))
    kept.commit()
    assert decisions.choose_by_trial(overlay, kept, COSTS) is not None
    assert isinstance(kept, Extremes) and kept._bags.heads[:3, TABLE_ROWS].tolist() == [2, 2, 2]
    nodes, rows, diffs = kept.sample(np.arange(3))
    assert nodes.tolist() == [0, 0, 1, 1, 2, 2] and diffs.tolist() == [-1, 1] * 3
    assert rows.tolist() == [[-5, -8, -7, -5, -8, -7]]


@pytest.mark.parametrize("best", range(8))
def test_the_way_that_took_least_stays(best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    overlay, kept = total()
    served: list[tuple[list[int], list[int]]] = []

    def seconds(_: decisions.Traffic) -> tuple[float, float]:
        served.append((overlay.pushed.tolist(), overlay.inputs.size.tolist()))
        return (1.0 if len(served) == best + 1 else 2.0), 1.0

    monkeypatch.setattr(decisions.Traffic, "seconds", seconds)
    assert decisions.choose_by_trial(overlay, kept, COSTS) is not None
    assert (overlay.pushed.tolist(), overlay.inputs.size.tolist()) == served[best]
    assert served[0] == ([1] * 7, [0, 0, 0, 3, 3, 2, 0])  # all pushed, and nothing shared
    assert served[1] == ([1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 3, 3, 2, 0])
    check_overlay(overlay, PAIRS, repeats=False)


def test_a_way_that_is_hardly_quicker_than_all_pushed_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    overlay, kept = total()
    served: list[int] = []

    def seconds(_: decisions.Traffic) -> tuple[float, float]:
        served.append(int(overlay.pushed.sum()))
        if overlay.inputs.size[3] == 3 and overlay.pushed.all():
            return 1.0, 0.0
        return (0.98 if overlay.pushed[3:].any() else 2.0), 0.0

    monkeypatch.setattr(decisions.Traffic, "seconds", seconds)
    tried = decisions.choose_by_trial(overlay, kept, COSTS)
    assert tried is not None and tried[0].method == "push"
    assert overlay.pushed.tolist() == [1] * 7 and min(served) == 3


def test_costs_are_what_ways_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    overlay, kept = total()

    def seconds(_: decisions.Traffic) -> tuple[float, float]:
        often = decisions.observed_frequencies(overlay, overlay.topological_order())
        pushing, pulling = decisions.push_pull_costs(overlay, often, COSTS)
        scale = decisions.BATCH_SIZE / often.total / 1e6
        return (7.0 + 2.0 * pushing) * scale, (8.0 + 0.5 * pulling) * scale

    monkeypatch.setattr(decisions.Traffic, "seconds", seconds)
    tried = decisions.choose_by_trial(overlay, kept, COSTS)
    assert tried is not None
    assert np.isclose(tried[1].push, 2.0) and np.isclose(tried[1].pull_each, 0.5)


def test_a_sum_that_overflows_when_it_is_read_is_no_error_of_a_trial() -> None:
    overlay, kept = total((2**62, 2**62, 2**62))
    tried = decisions.choose_by_trial(overlay, kept, COSTS)
    assert tried is not None and np.isfinite(tried[1].push)
    assert (overlay.kinds == WRITER).sum() == 3 and (overlay.kinds == READER).sum() == 3


def test_where_nobody_has_written_nothing_is_tried_out() -> None:
    overlay = shared()
    kept = make_family(EgoFamily.COUNTS, (top(TEXT),), 2, Dictionary())
    kept.grow(overlay.room)
    assert decisions.choose_by_trial(overlay, kept, COSTS) is None
    states = make_family(EgoFamily.STATES, (EgoCall("bit_xor", (0,), (BIGINT,), BIGINT),), 0, Dictionary())
    assert decisions.choose_by_trial(overlay, states, COSTS) is None


def test_no_more_ways_are_remembered_than_are_served_again_and_the_same_edges_once() -> None:
    overlay, kept = total()
    trial = decisions.Trial(overlay, kept, COSTS, np.empty(0, np.int64))
    trial.run_all()
    assert len(trial.finalists) == decisions.FINALISTS == 3
    push, pull = trial._extremes
    assert push.inputs is pull.inputs and push.outputs is pull.outputs
    assert (push.decision.method, pull.decision.method) == ("push", "pull")
    trial.install_best()
    check_overlay(overlay, PAIRS, repeats=False)
