"""A history taken in small steps is the same history in batches, and in each of the two by turns.

What is small is a matter of limits. Engines that differ in them alone go through the same changes, errors and
interrupts, and must agree on every view's contents and captured changes after every step.
"""

import random
import signal
from collections import Counter
from functools import partial

import pytest

from kpg.runtime.chain import chain_selection
from kpg.runtime.errors import DataError
from kpg.runtime.operators import loop, reduce
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.plan import Mfp, Plan, RangeJoin
from kpg.runtime.trace import head, lookup, spine
from kpg.runtime.worker.worker import SerialSchedule
from tests.properties import loops
from tests.properties.engine import Engine, Row, change_randomly
from tests.properties.plans import Builder, col

Limits = dict[tuple[object, str], int]
SMALL: Limits = {
    (owner, name): getattr(owner, name)
    for owner, name in (
        (head, "SMALL_STEP"),
        (head, "SMALL_FOR_TAIL"),
        (spine, "ORDERED_STEPS"),
        (head, "MOST"),
        (head, "MAX_TAIL_ROWS"),
        (head, "FEW_IN_TAIL"),
        (head, "ORDERED_STEPS"),
        (head, "CHURN_ROWS"),
        (lookup, "MAX_MATCHER_ROWS"),
        (reduce, "MANY"),
        (chain_selection, "FEW"),
        (chain_selection, "USUAL"),
        (loop, "PATIENCE"),
    )
}
"""As they are: all that these tests do is small. But rounds are to run in one call from the first on."""
SMALL[loop, "PATIENCE"] = 0
BATCHES: Limits = {
    **SMALL,
    (head, "SMALL_STEP"): -1,
    (lookup, "MAX_MATCHER_ROWS"): -1,
    (reduce, "MANY"): 0,
    (chain_selection, "FEW"): -1,
    (loop, "PATIENCE"): -1,
}
"""Nothing is small."""
CHOICES = (-1, 0, 1, 3, 10, 100)
FAILING = "failing"


def compared(comparison: str, key: int = 0) -> Plan:
    """The ends of edges that compare so with roots, as often as they do with each: several thresholds."""
    build = Builder()
    nodes, ends = build.table("root"), build.linear(build.table("edge"), (0, 1))
    if key:
        nodes = build.linear(build.table("edge"), (0, 2))
    left, right = build.arrange(ends, range(key + 1)), build.arrange(nodes, range(key + 1))
    join = RangeJoin(left, right, key, comparison, Mfp((), (col(1), col(0))))
    return build.plan(build.node(join, 2))


RANGES = {
    **{f"nodes {one} roots": partial(compared, one) for one in ("<", "<=", ">", ">=")},
    "nodes < weights of their edges": partial(compared, "<", 1),
}


def mixed(rng: random.Random) -> Limits:
    """Limits at random."""
    return {limit: rng.choice((*CHOICES, usual)) for limit, usual in SMALL.items()}


BUILDS = {**loops.LOOPS, **RANGES}


class Twins:
    """Engines with the same views, of which each has limits of its own."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.rng = random.Random(seed)
        self.patch = patch
        self.engines = [Engine() for _ in range(4)]
        names = self.rng.sample(sorted(loops.LOOPS), 5) + self.rng.sample(sorted(RANGES), 2)
        for i, engine in enumerate(self.engines):
            self.limit(i)
            for name in names:
                engine.worker.watch(engine.install(name, BUILDS[name]()))
            build = Builder()
            bad = build.linear(build.table("poison"), (0, 1))
            once = loops.closure(build, bad, build.constant((0,)), limit=3, error_at_limit=True)
            engine.install(FAILING, build.plan(once))

    def limit(self, index: int) -> None:
        """Set the limits for what an engine does next."""
        turn = self.rng.choice((SMALL, BATCHES))
        for (owner, name), value in (SMALL, BATCHES, turn, mixed(self.rng))[index].items():
            self.patch.setattr(owner, name, value)

    def change(self, *, poison: bool = False) -> None:
        """Make the same changes to the tables of all, in one epoch or several."""
        seed, epochs = self.rng.random(), self.rng.choice((1, 1, 2, 4))
        for engine in self.engines:
            rng = random.Random(seed)
            for _ in range(epochs):
                change_randomly(rng, engine, 7, 14)
                engine.worker.close_epoch()
            if poison:
                engine.insert("poison", (0, 1), (1, 2), (2, 3), (3, 4), (4, 5))

    def step(self) -> None:
        """Take the changes, and compare what there is then and what was captured."""
        seen = []
        for i, engine in enumerate(self.engines):
            self.limit(i)
            engine.step()
            views = [name for name in engine.views if name != FAILING]
            seen.append({name: (engine.rows(name), captured(engine, name)) for name in views})
        assert all(one == seen[0] for one in seen)

    def fail(self) -> None:
        """The changes and an error in a view that reads others: nothing happens."""
        for i, engine in enumerate(self.engines):
            self.limit(i)
            with pytest.raises(DataError):
                engine.step()

    def interrupted(self) -> None:
        """Ctrl-C when some arrangement is about to take its updates, or when all have: nothing happens."""
        when = self.rng.randrange(12)
        for i, engine in enumerate(self.engines):
            self.limit(i)
            with pytest.MonkeyPatch.context() as patch:
                press(patch, when)
                with pytest.raises(KeyboardInterrupt):
                    engine.step()


def captured(engine: Engine, name: str) -> dict[int, Counter[Row]]:
    """The changes by epoch, without those that cancel."""
    found = {}
    for epoch, changes in engine.drain(name).items():
        if kept := Counter({row: diff for row, diff in changes.items() if diff}):
            found[epoch] = kept
    return found


def press(patch: pytest.MonkeyPatch, when: int) -> None:
    """Have Ctrl-C be pressed once in the next step: before a flush of an arrangement, or at the end."""
    left, flush, run = [when], Arrange.flush, SerialSchedule.run

    def flushed(self: Arrange) -> None:
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        left[0] -= 1
        flush(self)

    def ran(self: SerialSchedule, *arguments: object) -> None:
        run(self, *arguments)
        signal.raise_signal(signal.SIGINT)

    patch.setattr(Arrange, "flush", flushed)
    patch.setattr(SerialSchedule, "run", ran)


def run(seed: int, patch: pytest.MonkeyPatch, steps: int = 12) -> None:
    """A history; at its end, what the model makes of the tables."""
    twins = Twins(seed, patch)
    for _ in range(steps):
        action = twins.rng.random()
        if action < 0.15:
            twins.change(poison=True)
            twins.fail()
        elif action < 0.35:
            twins.change()
            if any(engine.worker.tables.closed_changes for engine in twins.engines):
                twins.interrupted()
        twins.change()
        twins.step()
    for engine in twins.engines:
        engine.check([name for name in engine.views if name != FAILING])


@pytest.mark.parametrize("seed", range(12))
def test_small_steps_are_batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run(seed, monkeypatch)
