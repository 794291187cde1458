"""A trace that steps append to holds what was put in: in the midst of a step, after it, and after a rollback.

Random histories with limits so small that each part of the machinery is passed through: heads that grow, are
sealed in a step, are crowded, or whose hash does not tell keys apart; steps that batch and steps that do not.
"""

import random
from collections.abc import Iterable

import numpy as np
import pytest

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace import head, spine
from kpg.runtime.trace.lookup import KeyMatcher, Order, lookup
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates, Words
from kpg.runtime.types import ERROR, MAX_WORD, MIN_WORD, NULL
from tests.model import kernels as model

EDGES = (NULL, ERROR, MIN_WORD, -1, 0, 1, MAX_WORD)
SIZES = (0, 1, 1, 2, 3, 7, 20, 65)
LIMITS = {
    (head, "MOST"): (4, 32, 100, 1 << 15),
    (head, "MAX_TAIL_ROWS"): (4, 32, 100, 1 << 12),
    (head, "FEW_IN_TAIL"): (4, 32, 1 << 10),
    (head, "SMALL_STEP"): (0, 2, 20, 2048),
    (head, "SMALL_FOR_TAIL"): (0, 2, 20, 512),
    (spine, "ORDERED_STEPS"): (0, 1, 64),
    (head, "ORDERED_STEPS"): (0, 1, 64),
    (head, "CHURN_ROWS"): (1, 8, 64),
    (head, "OUTWEIGH_FACTOR"): (1, 3),
    (head, "LARGE_HEAD_ROWS"): (4, 64),
}


def some_words(rng: random.Random, width: int, n: int, kind: str) -> Words:
    """Rows: of few keys, of a first column that tells little, or of edge words."""
    if kind == "edges":
        values = [[rng.choice(EDGES) for _ in range(n)] for _ in range(width)]
    elif kind == "hot":
        values = [[rng.choice((0, 0, 0, 1)) for _ in range(n)] for _ in range(width)]
    elif kind == "unfit":
        values = [[rng.randrange(2 if c == 0 else 30) for _ in range(n)] for c in range(width)]
    else:
        values = [[rng.randrange(12) for _ in range(n)] for _ in range(width)]
    return np.array(values, np.int64).reshape(width, n)


class History:
    """A spine as an arrangement uses it, and beside it the list of all updates."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.width, self.depth = rng.choice((0, 1, 2, 2, 3)), rng.choice((1, 1, 2))
        self.kind = rng.choice(("edges", "hot", "unfit", "plain"))
        self.counts = rng.choice(([1], [1, 1, -1], [-2, 1, 3]))
        self.spine = Spine(self.width, self.depth, key=rng.choice((1, self.width)))
        self.handle = TraceHandle(self.spine)
        self.others: list[TraceHandle] = []
        self.parts: list[Updates] = []
        self.epoch = 1
        self.looks = rng.choice((0.1, 0.5, 1.0))
        self.sorts = rng.choice((0.0, 0.05, 0.5))

    def some_updates(self, lower: int, upper: int, turn: int) -> Updates:
        """What a round of a step brings: new rows, or old ones taken back."""
        rng = self.rng
        if self.parts and rng.random() < 0.2:
            gone = rng.choice(self.parts)
            time = np.full((self.depth, 1), turn, np.int64)
            time[0] = lower
            return Updates(gone.data, time, gone.negate().diff)
        n = rng.choice(SIZES)
        varied = rng.random() < 0.3
        time = np.full((self.depth, n if varied else 1), turn, np.int64)
        time[0] = [rng.randrange(lower, upper) for _ in range(time.shape[1])]
        short = rng.random() < 0.5
        diff = [rng.choice(self.counts) for _ in range(1 if short else n)]
        return Updates(some_words(rng, self.width, n, self.kind), time, np.array(diff, np.int64))

    def step(self) -> None:
        """Some rounds, then all is kept or taken back."""
        rng, lower = self.rng, self.epoch
        upper = lower + rng.randint(1, 2)
        mark, before, number = self.spine.mark(), self.spine.upper, len(self.parts)
        for attempt in range(rng.choice((1, 1, 2))):
            if attempt:
                self.take_back(mark, number)
                assert self.spine.upper == before
            turns = rng.randint(1, 4) if self.depth == 2 else rng.randint(0, 2)
            later = self.depth == 2 and upper == lower + 1  # each round than the one before
            alone = (turns == 1 or later) and rng.random() < 0.8
            for turn in range(turns):
                given = self.some_updates(lower, upper, turn)
                elements = ((lower, turn + 1), (upper, 0)) if self.depth == 2 else ((upper,),)
                upto = Antichain(elements) if len(given) else self.spine.upper
                shown = self.spine.append(given, upto, alone=alone)
                assert model.contents([shown]) == model.contents([given])
                if len(given):
                    self.parts.append(given)
                self.look(lower, lower, upper, turn + 1, lower - 1)
        if rng.random() < 0.25:
            self.take_back(mark, number)
        self.finish(lower, upper)

    def take_back(self, mark: int, number: int) -> None:
        self.spine.truncate(mark)
        del self.parts[number:]
        self.same(self.spine.parts())

    def finish(self, lower: int, upper: int) -> None:
        """What follows a step."""
        rng = self.rng
        beginning = Antichain.of((lower,) + (0,) * (self.depth - 1))
        self.handle.advance_logical(beginning)
        if rng.random() < 0.9:
            self.handle.advance_physical(self.spine.upper)
        self.epoch = upper
        action = rng.random()
        if action < 0.6:
            self.spine.finish_step()
        elif action < 0.7:
            self.spine.compact(rng.randint(1, 100))
        elif action < 0.73:
            self.spine.compact()
        if rng.random() < 0.05:
            self.others.append(self.handle.clone())
        if self.others and rng.random() < 0.3:
            self.others.pop().close()
        self.look(upper - 1, upper - 1, upper, 3, upper - 1)

    def look(self, closed: int, lower: int, upper: int, rounds: int, floor: int) -> None:
        """Read in one way or other, or not at all."""
        rng = self.rng
        if rng.random() < self.sorts:
            layers = self.spine.read_in_order()
            assert all(model.triples(one.updates) == model.consolidated(one.updates) for one in layers)
            self.same(one.updates for one in layers)
        if rng.random() < 0.3:
            self.same(self.spine.parts())
            assert self.spine.rows == sum(map(len, self.spine.parts()))
            assert self.spine.batch_count == sum(1 for _ in self.spine.parts())
        while rng.random() < self.looks:
            self.meet(closed, lower, upper, rounds, floor)
            if rng.random() < 0.5:
                return

    def same(self, found: Iterable[Updates]) -> None:
        for since in {self.handle.logical, *(other.logical for other in self.others)}:
            found = list(found)
            assert model.contents(found, since) == model.contents(self.parts, since)

    def meet(self, closed: int, lower: int, upper: int, rounds: int, floor: int) -> None:
        """Look some rows up by a prefix of any length, in both ways there are."""
        rng = self.rng
        width = self.width + rng.randint(0, 1)
        key = tuple(rng.sample(range(width), rng.randint(0, self.width)))
        n = rng.choice((1, 1, 3, 20))
        data = some_words(rng, width, n, self.kind)
        time = np.full((self.depth, rng.choice((1, n))), rng.randrange(rounds), np.int64)
        time[0] = [rng.randrange(lower, upper) for _ in range(time.shape[1])]
        stream = Updates(data, time, np.array([rng.choice((1, -1, 2))], np.int64))
        if rng.random() < 0.3:
            stream, key = stream.consolidate(), tuple(range(len(key)))
        order = rng.choice(list(Order))
        keep = rng.sample(range(width), rng.randint(0, width)), list(range(self.width))
        columns = np.array(keep[0], np.int64), np.array(keep[1], np.int64)
        expected = model.lookup(stream, key, self.parts, *keep, order, closed, floor)
        met = KeyMatcher(key, *columns).match(stream, self.spine.lookup_target(), order, closed, floor, 0)
        assert met is None or model.contents([met]) == expected
        chunk = rng.choice((1, 5, 1 << 20)) if n < 5 else 1 << 20
        found = lookup(
            stream, key, self.spine.lookup_target(), *columns, order, closed=closed, floor=floor, chunk=chunk
        )
        assert model.contents(found) == expected


def run(seed: int, patch: pytest.MonkeyPatch, steps: int = 25) -> Spine:
    """A history of so many steps; the trace in the end."""
    rng = random.Random(-seed)
    for (owner, name), values in LIMITS.items():
        patch.setattr(owner, name, rng.choice(values))
    patch.setattr(head, "FIRST", rng.choice((1, 8, 64)))
    history = History(seed)
    for _ in range(steps):
        history.step()
    return history.spine


@pytest.mark.parametrize("seed", range(40))
def test_a_trace_holds_what_was_appended(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run(seed, monkeypatch)
