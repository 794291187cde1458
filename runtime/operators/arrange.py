"""``plan.Arrange``: the input as a trace that all its readers share."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.kernels.links import INSERTED
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers, LookupTarget
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates, extend_bound
from kpg.runtime.types import Type

RUN_UPDATES = 1 << 21
"""Updates buffered before they are consolidated into one sorted run."""


def to_outer_times(updates: Updates, inner: Step, outer: Step) -> Updates:
    """Return the updates of round ``inner`` with times of the enclosing scope, whose step is ``outer``."""
    if updates.time is inner.cached_stamp:
        return updates.with_time(outer.stamp)
    return updates.with_time(np.ascontiguousarray(updates.time[:-1]))


def push_history(operator: Operator) -> None:
    """Push the results that an existing loop has already computed."""
    source, loop = operator.inputs
    if loop.is_hydrated:
        stamp = source.step.stamp
        for updates in source.snapshot():
            operator.push(0, updates.with_time(stamp))
            operator.absorb()
    operator.schedule()


@dataclass(slots=True, eq=False, kw_only=True)
class Arrange(Operator):
    """Appends each step's updates to the trace and emits them.

    Readers see them between steps, and in the same step after this operator's flush.
    """

    key: int
    spine: Spine
    handle: TraceHandle
    leading_type: Type | None = None
    """Type of the key's first column."""
    leaves_loop: bool = False
    """Whether it is a ``Leave`` too, of a result that no operator of the loop's body holds."""
    has_changed: bool = False
    """Whether the step has appended to the trace."""
    mark: int | None = None
    run_limit: int = RUN_UPDATES
    bound: int = 0
    """Upper bound of all multiplicities; ``committed_bound`` is its value before the step."""
    committed_bound: int = 0

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += updates.data.shape[1]
        if self.leaves_loop:
            updates = to_outer_times(updates, self.inputs[0].step, self.step)
        self.place.scope.deliver(self, port, updates)

    def hydrate(self) -> None:
        if self.leaves_loop:
            push_history(self)
        else:
            Operator.hydrate(self)

    def absorb(self) -> None:
        if sum(len(updates) for updates in self.pending) > self.run_limit:
            run = Updates.concat(self.take_pending()).consolidate()
            self.pending.append(run)
            self.run_limit = max(RUN_UPDATES, 2 * len(run))

    def flush(self) -> None:
        pending = self.take_pending()
        self.run_limit = RUN_UPDATES
        if not pending:
            return
        spine, step = self.spine, self.place.scope.step
        if self.mark is None:
            self.mark = spine.mark()
            if spine.depth == 1 and not step.hydrating:
                # Small steps do not advance it. A head that is sealed now must compact to one time.
                self.handle.advance_logical(Antichain.of_minimal(((step.lower - 1,),)))
        updates = Updates.concat(pending)
        self.bound = extend_bound(self.bound, spine.parts, updates)
        updates = spine.append(updates, step.after, alone=step.has_single_time)
        if updates.data.shape[1]:
            self.has_changed = True
            self.emit(updates)

    def record_link(self, verdict: int, count: int, added: int) -> None:
        if self.mark is None:
            self.mark = self.spine.mark()
        if verdict == INSERTED:
            self.spine.record_insert(count, self.step.after)
        else:
            self.spine.record_append(count, verdict, self.step.after)
        self.bound += added
        self.has_changed = True

    def commit_link(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        spine = self.spine
        if verdict == INSERTED:
            spine.record_insert(count, after)
        else:
            spine.record_append(count, verdict, after)
        self.bound += added
        self.committed_bound = self.bound
        self.handle.advance_physical_to_upper()
        if not spine.finish_idle_step():
            self.handle.advance_logical(self.step.beginning)
            spine.finish_step()

    @property
    def layers(self) -> Layers:
        """All batches, oldest first, this step's last, for reads in order."""
        return self.spine.read_in_order()

    @property
    def lookup_target(self) -> LookupTarget:
        """The trace as a target of lookups."""
        return self.spine.lookup_target()

    def snapshot(self) -> Iterator[Updates]:
        time = self.step.stamp
        for updates in self.spine.parts():
            yield updates.with_time(time)

    def size(self) -> int:
        return self.spine.rows

    def commit(self) -> None:
        self.pending.clear()
        self.committed_bound = self.bound

    def rollback(self) -> None:
        self.pending.clear()
        self.bound = self.committed_bound
        if self.mark is not None:
            self.spine.truncate(self.mark)
        self.has_changed, self.mark = False, None

    def maintain(self) -> None:
        self.mark = None
        if self.has_changed:
            self.has_changed = False
            self.handle.advance_physical_to_upper()
            if not self.spine.finish_idle_step():
                self.handle.advance_logical(self.step.beginning)
                self.spine.finish_step()

    def compact(self, epoch: int) -> None:
        """Merge the trace into one batch, between steps; ``epoch`` is the last closed one."""
        self.handle.advance_physical_to_upper()
        self.handle.advance_logical(Antichain.of_minimal(((epoch,),)))
        self.spine.compact()

    @property
    def rows(self) -> int:
        return self.spine.rows

    @property
    def bytes(self) -> int:
        return self.spine.bytes
