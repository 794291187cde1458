"""A trace under any history of inserts, deletes, frontier moves and merging holds what was put in."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model


class SpineMachine(RuleBasedStateMachine):
    """Drives a spine and, beside it, the list of all updates ever inserted."""

    def __init__(self) -> None:
        super().__init__()
        self.inserted: list[Updates] = []
        self.uppers: list[Antichain] = []
        self.handles: list[TraceHandle] = []
        self.mark: tuple[int, int, int] | None = None
        """The spine's token, how many batches there were, and the epoch."""
        self.cuts = [0]
        """After how many batches a reader may cut the trace: where steps end, as in rounds batches merge."""

    def frontier(self, epoch: int) -> Antichain:
        return Antichain.of((epoch,) + (0,) * (self.depth - 1))

    @initialize(depth=st.integers(1, 3))
    def start(self, depth: int) -> None:
        self.depth = depth
        self.epoch = 0
        self.spine = Spine(2, depth)
        self.handles = [TraceHandle(self.spine)]
        self.inserted, self.uppers = [], [self.frontier(0)]

    def put(self, updates: Updates, upper: Antichain) -> None:
        self.spine.insert(Batch.build(updates, self.spine.upper, upper))
        self.inserted.append(updates)
        self.uppers.append(upper)
        if self.mark is None or self.depth == 1:
            self.cuts.append(len(self.inserted))

    @rule(
        rows=st.integers(0, 120), epochs=st.integers(1, 3), seed=st.integers(0, 1000),
        deletes=st.booleans(), reach=st.sampled_from([3, 1000]),
    )  # fmt: skip
    def insert(self, rows: int, epochs: int, seed: int, deletes: bool, reach: int) -> None:
        random = np.random.default_rng(seed)
        time = random.integers(0, 3, (self.depth, rows))
        time[0] = random.integers(self.epoch, self.epoch + epochs, rows)
        diff = random.choice([-1, 1], rows) if deletes else 1
        self.epoch += epochs
        self.put(Updates.of(random.integers(0, reach, (2, rows)), time, diff), self.frontier(self.epoch))

    @precondition(lambda self: self.depth > 1)
    @rule(rounds=st.integers(1, 7), most=st.sampled_from([3, 30, 120]), seed=st.integers(0, 1000))
    def insert_rounds(self, rounds: int, most: int, seed: int) -> None:
        """A step of two epochs, a batch for each round."""
        self.begin_step()
        random = np.random.default_rng(seed)
        lower, self.epoch = self.epoch, self.epoch + 2
        for number in range(rounds):
            rows = random.integers(0, most)
            time = np.full((self.depth, rows), number)
            time[0] = random.integers(lower, self.epoch, rows)
            time[2:] = 0
            elements = (lower, number + 1), (self.epoch, 0)
            upper = Antichain(tuple(e + (0,) * (self.depth - 2) for e in elements))
            self.put(Updates.of(random.integers(0, 50, (2, rows)), time, random.choice([-1, 1], rows)), upper)

    @rule(index=st.integers(0, 50))
    def delete_what_was_inserted(self, index: int) -> None:
        if not self.inserted:
            return
        gone = self.inserted[index % len(self.inserted)]
        time = np.array(self.frontier(self.epoch).elements, np.int64).T.copy()
        self.epoch += 1
        self.put(Updates(gone.data, time, gone.negate().diff), self.frontier(self.epoch))

    @rule()
    def begin_step(self) -> None:
        self.end_step()
        self.mark = self.spine.mark(), len(self.inserted), self.epoch

    def end_step(self) -> None:
        self.mark = None
        self.cuts.append(len(self.inserted))

    @precondition(lambda self: self.mark is not None)
    @rule()
    def take_back(self) -> None:
        assert self.mark is not None
        token, count, self.epoch = self.mark
        self.spine.truncate(token)
        del self.inserted[count:], self.uppers[count + 1 :]
        self.cuts = [cut for cut in self.cuts if cut <= count]

    @rule(which=st.integers(0, 9), back=st.integers(0, 5))
    def advance_logical(self, which: int, back: int) -> None:
        handle = self.handles[which % len(self.handles)]
        (now, *_) = handle.logical.elements[0]
        handle.advance_logical(self.frontier(max(now, self.committed() - back)))

    @rule(which=st.integers(0, 9), back=st.integers(0, 3))
    def advance_physical(self, which: int, back: int) -> None:
        handle = self.handles[which % len(self.handles)]
        boundaries = self.boundaries()
        target = boundaries[max(0, len(boundaries) - 1 - back)]
        if handle.physical.precedes(target):
            handle.advance_physical(target)

    def boundaries(self) -> list[Antichain]:
        """The frontiers at which a reader may cut, and that nothing takes back any more."""
        count = len(self.inserted) if self.mark is None else self.mark[1]
        return [self.uppers[cut] for cut in self.cuts if cut <= count]

    def committed(self) -> int:
        """The epoch that nothing takes back any more."""
        return self.boundaries()[-1].elements[0][0]

    @rule(which=st.integers(0, 9))
    def clone(self, which: int) -> None:
        self.handles.append(self.handles[which % len(self.handles)].clone())

    @precondition(lambda self: len(self.handles) > 1)
    @rule(which=st.integers(0, 9))
    def close(self, which: int) -> None:
        self.handles.pop(which % len(self.handles)).close()

    @rule()
    def finish_step(self) -> None:
        self.spine.finish_step()
        self.end_step()

    @rule(fuel=st.integers(1, 400))
    def compact_in_part(self, fuel: int) -> None:
        self.spine.compact(fuel)
        self.end_step()

    @rule()
    def compact(self) -> None:
        self.spine.compact()
        self.end_step()

    @invariant()
    def every_reader_sees_what_was_inserted(self) -> None:
        for handle in self.handles:
            found = [batch.updates for batch in self.spine.read_in_order()]
            assert model.contents(found, handle.logical) == model.contents(self.inserted, handle.logical)

    @invariant()
    def a_reader_can_cut_at_its_physical_frontier(self) -> None:
        for handle in self.handles:
            before = self.inserted[: self.uppers.index(handle.physical)]
            found = [batch.updates for batch in self.spine.read_in_order(handle.physical)]
            assert model.contents(found, handle.logical) == model.contents(before, handle.logical)

    @invariant()
    def batches_are_adjacent_sorted_and_without_zeros(self) -> None:
        if not self.handles:
            return
        for batch in self.spine.read_in_order():
            keys = [(row, time) for row, time, _ in model.triples(batch.updates)]
            assert keys == sorted(set(keys))
            assert batch.diff.all()
            assert all(time <= batch.latest for _, time in keys)


SpineMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestSpine = SpineMachine.TestCase
