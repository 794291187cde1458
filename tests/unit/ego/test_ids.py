"""Nodes by word, listed or in a table, against a dict."""

import numpy as np
import pytest

from kpg.runtime.ego.overlay import NodeIndex


@pytest.mark.parametrize("far", [1, 40, 2**40, -(2**62), 2**63 - 1])
def test_words_are_found_after_others_come(far: int) -> None:
    """Numbers that are near each other, then one further off, and more beside that."""
    random = np.random.default_rng(abs(far) % 1000)
    known = {int(word): node for node, word in enumerate(range(-3, 40, 3))}
    ids = NodeIndex(np.array(list(known)), np.array(list(known.values())))
    for step in range(30):
        fresh = {int(far - step * np.sign(far)), int(random.integers(-50, 90))} - known.keys()
        new = {word: len(known) + place for place, word in enumerate(sorted(fresh))}
        if new:
            ids.add(np.array(list(new)), np.array(list(new.values())))
        known |= new
        asked = [*known, -4000, 777, 2**62 + 5, -(2**63) + 7]
        assert ids.find(np.array(asked)).tolist() == [known.get(word, -1) for word in asked]
        counts = np.zeros(len(known), np.int64)
        twice = np.repeat(np.array(asked), 2)
        found, missing = ids.find_and_count(twice, np.tile([-1, 1], len(asked)), counts)
        assert found.tolist() == [known.get(word, -1) for word in twice.tolist()]
        assert missing == 2 * sum(word not in known for word in asked) and (counts == 1).all()
        words, nodes = ids.items()
        assert dict(zip(words.tolist(), nodes.tolist(), strict=True)) == known


def test_none() -> None:
    ids = NodeIndex(np.empty(0, np.int64), np.empty(0, np.int64))
    assert ids.find(np.array([0, 5])).tolist() == [-1, -1]
