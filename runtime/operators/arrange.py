"""``plan.Arrange``: the input as a trace, shared by all its readers."""

from collections.abc import Iterator

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.kernels.links import INSERTED
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers, Sought
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates, bound_with
from kpg.runtime.types import Type

RUN = 1 << 21
"""Updates buffered before they are consolidated into one sorted run."""


@dataclass(slots=True, eq=False, kw_only=True)
class Arrange(Operator):
    """Adds each step's updates to the trace, and streams them on.

    Reads between steps, and in the step after this operator's flush, see them.
    """

    key: int
    spine: Spine
    handle: TraceHandle
    leading: Type | None = None
    """That of the key's first column."""
    changed: bool = False
    """Whether the step has added to the trace."""
    mark: int | None = None
    run_limit: int = RUN
    bound: int = 0
    """No multiplicity is larger; ``committed_bound`` is what it was before the step."""
    committed_bound: int = 0

    def absorb(self) -> None:
        if sum(len(updates) for updates in self.pending) > self.run_limit:
            run = Updates.concat(self.take()).consolidate()
            self.pending.append(run)
            self.run_limit = max(RUN, 2 * len(run))

    def flush(self) -> None:
        pending = self.take()
        self.run_limit = RUN
        if not pending:
            return
        spine, step = self.spine, self.place.scope.step
        if self.mark is None:
            self.mark = spine.mark()
            if spine.depth == 1 and not step.hydrating:
                # Small steps leave it behind; a head that is sealed now is to have one time.
                self.handle.advance_logical(Antichain.known(((step.lower - 1,),)))
        updates = Updates.concat(pending)
        self.bound = bound_with(self.bound, spine.parts, updates)
        updates = spine.append(updates, step.after, alone=step.single_time)
        if updates.data.shape[1]:
            self.changed = True
            self.emit(updates)

    def linked(self, verdict: int, count: int, added: int) -> None:
        if self.mark is None:
            self.mark = self.spine.mark()
        if verdict == INSERTED:
            self.spine.inserted(count, self.step.after)
        else:
            self.spine.appended(count, verdict, self.step.after)
        self.bound += added
        self.changed = True

    def committed(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        spine = self.spine
        if verdict == INSERTED:
            spine.inserted(count, after)
        else:
            spine.appended(count, verdict, after)
        self.bound += added
        self.committed_bound = self.bound
        self.handle.follow()
        if not spine.rest():
            self.handle.advance_logical(self.step.beginning)
            spine.work()

    @property
    def layers(self) -> Layers:
        """All batches, oldest first, this step's last: for whoever reads in order."""
        return self.spine.layers()

    @property
    def sought(self) -> Sought:
        """The trace for looking keys up."""
        return self.spine.sought()

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
        self.changed, self.mark = False, None

    def maintain(self) -> None:
        self.mark = None
        if self.changed:
            self.changed = False
            self.handle.follow()
            if not self.spine.rest():
                self.handle.advance_logical(self.step.beginning)
                self.spine.work()

    def compact(self, epoch: int) -> None:
        """Make one batch of the trace, between steps; ``epoch`` was the last."""
        self.handle.follow()
        self.handle.advance_logical(Antichain.known(((epoch,),)))
        self.spine.compact()

    @property
    def rows(self) -> int:
        return self.spine.rows

    @property
    def bytes(self) -> int:
        return self.spine.bytes
