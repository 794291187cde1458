"""The worker: everything that one engine owns and runs.

Tables collect changes. :meth:`Worker.close_epoch` gives them a logical time. :meth:`Worker.step` takes all
closed epochs through the operators of all views as one batch, and commits or rolls back everything. Views are
installed and dropped between steps. The first step of a view reports its progress in operators and, in a
loop, in rounds.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kpg.runtime.chain.chain_selection import FEW, SmallSteps, hasten
from kpg.runtime.dataflow.dataflow_graph import Operator, Place, Scope, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.executor import Recorder
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt, Watch, begin_step, end_step
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Input, Source
from kpg.runtime.operators.loop import Loop, everything
from kpg.runtime.plan import Mfp, Plan
from kpg.runtime.progress_report import Tell, looked_at, work
from kpg.runtime.records import dataclass
from kpg.runtime.render import Rendered, disconnect, render, with_inputs
from kpg.runtime.tables.table import Closed, Savepoint, Table
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker.access import Access
from kpg.runtime.worker.dataflows import Inputs, Installed, detach, release, with_empty_frontier

if TYPE_CHECKING:
    from kpg.runtime.chain.chain import Chain
    from kpg.runtime.checkpoint.captured_state import Read
    from kpg.runtime.checkpoint.worker_state import Saved


@dataclass(slots=True)
class _Told:
    """A watch that tells of a step at its safe points, where the watch before is asked, too."""

    tell: Tell
    step: Step
    operators: int
    before: Watch | None

    def begin(self) -> None:
        """See ``Watch``."""
        if self.before is not None:
            self.before.begin()

    def room(self, wanted: int) -> None:
        """See ``Watch``."""
        if self.before is not None:
            self.before.room(wanted)

    def __call__(self) -> None:
        """See ``Watch``."""
        if self.before is not None:
            self.before()
        visited = self.step.visited
        note = ""
        if visited and isinstance(visited[-1], Loop):
            note = f"round {sum(visited[-1].within.step.rounds)}"
        self.tell(len(visited), self.operators, note)


@contextmanager
def filling(name: str, step: Step, operators: int, interrupt: DeferredInterrupt) -> Iterator[None]:
    """While within, ``step`` fills so many new operators, of which who looks is told."""
    if not looked_at():
        yield
        return
    with work(name, "operators") as tell:
        before = interrupt.watch
        interrupt.watch = _Told(tell, step, operators, before)
        try:
            yield
        finally:
            interrupt.watch = before


class Worker(Access):
    """One engine: dictionary, tables, operators, views and time. An ``executor.Executor`` in this process."""

    def __init__(self, merge_effort: int = EFFORT, interrupt: DeferredInterrupt | None = None) -> None:
        """``merge_effort`` rows of each unfinished merge of a trace are merged for a row that comes.

        ``interrupt`` is what has Ctrl-C wait for the end of a step, and perhaps of what its caller does.
        """
        self.dictionary = Dictionary()
        self.merge_effort = merge_effort
        self.tables: dict[str, Table] = {}
        self._touched: dict[Table, None] = {}
        self._unsettled: dict[Table, None] = {}
        self.views: dict[str, Installed] = {}
        self.epoch = 0
        """The last epoch whose effects are in all views."""
        self._registry: WeakValueDictionary[str, Operator] = WeakValueDictionary()
        self._numbers: dict[str, int] = {}
        self.tables_made = 0
        """The highest number that a table has had."""
        self.saved: Saved | None = None
        """What operators kept in a database that is being opened."""
        self.reread: Callable[[], Read] | None = None
        """Makes a reader for one more worker of what this one was opened with."""
        self.versions_restored: dict[str, object] = {}
        self.recorder: Recorder | None = None
        self._savepoints: dict[str, Savepoint] = {}
        self._sources: dict[str, Source] = {}
        self._closed: list[Closed] = []
        self._open_epoch = 1
        self._position = 0
        self._compiled: dict[Mfp, CompiledMfp] = {}
        self._interrupt = interrupt or DeferredInterrupt()
        self.scope = Scope(Step(0, 1), self._interrupt)
        self.inputs = Inputs()
        self._small_steps = SmallSteps()
        self.stepping = False
        """Whether operators run, and with them perhaps functions of the user's."""
        self.remembering = False
        """Whether the past of tables is kept."""

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> Table:
        """A new table; ``number`` is the one that it had before, if it had one (``table_number``).

        It is empty, but for what is saved of the table of that number.
        """
        number = self.tables_made + 1 if number is None else number
        table = self._new_table(name, schema, number)
        self.tables_made = max(self.tables_made, number)
        if self.saved is not None:
            self.saved.fill(table, number, self.take_shards, past=self.remembering)
        if self.remembering and table.past is None:
            self._begin_past(table)
        self.tables[name] = table
        self._numbers[name] = number
        self._savepoints[name] = table.savepoint()
        return table

    def drop_table(self, name: str) -> None:
        """Forget a table that no installed view reads."""
        table = self.tables.pop(name)
        self._touched.pop(table, None)
        self._unsettled.pop(table, None)
        del self._numbers[name], self._savepoints[name]
        self._compiled.clear()

    def fork(self, interrupt: DeferredInterrupt) -> "Worker":
        """A worker with the tables of this one, that installs what this one has without computing it.

        Until :meth:`complete` is called. What either of them changes does not change in the other.
        """
        from kpg.runtime.checkpoint.worker_state import fork  # lazy: for branches alone

        other = Worker(self.merge_effort, interrupt)
        self._small_steps.forget()
        self._settle_all()
        fork(self, other)
        return other

    def complete(self) -> None:
        """Everything is installed again that was; whatever comes is computed."""
        self.saved = None

    def create_input(self, name: str, width: int) -> Input:
        """A new input of ``width`` columns, whose time is the next epoch."""
        position = self.next_position()
        place = Place(f"{name}#{position}", f"Input {name}", position, (), self.scope, width)
        return self.inputs.create(name, place, self._open_epoch)

    def install(
        self, name: str, plan: Plan, *, isolated: bool = False, then: int | None = None, own: bool = False
    ) -> Installed:
        """Build what of the plan is not there yet, fill it from what is, and keep it up to date.

        An ``isolated`` one shares nothing and reads tables with uncommitted changes, or, and views too, as
        they were after ``then`` (see ``executor.py``). Raises what the plan raises; then nothing has changed.
        """
        if self.has_pending and not isolated:
            raise InternalError("a view cannot be installed while changes are pending")
        self._small_steps.come(name)
        start = time.perf_counter()
        context = self if then is None else self._as_of(then, own=own)
        known = None if isolated or self.saved is None else self.saved.identities(name, plan)
        rendered = render(plan, {} if isolated else self._registry, context, known)
        hasten(rendered.new)
        self._hydrate(name, rendered, None if isolated else self.saved)
        arrangements = {op for op in rendered.operators if isinstance(op, Arrange)}
        built = len(arrangements & set(rendered.new))
        reused, tally = len(arrangements) - built, self._small_steps.tally
        installed = Installed(name, rendered.operators, rendered.output, built, reused, tally)
        installed.found = plan, rendered.identities
        for operator in everything(installed.operators):
            operator.owners.add(name)
        if not isolated:
            self._register(rendered.new)
        self.views[name] = installed
        if self.saved is not None and not isolated:
            self.saved.remember(self, installed)
        installed.install_seconds = time.perf_counter() - start
        return installed

    def uninstall(self, installed: Installation) -> None:
        """Drop a view and what only it holds. Nothing is left to do once it, or the worker, is closed."""
        view = self.views.get(installed.name)
        if view is not installed:
            return
        self._small_steps.go(view.name)
        del self.views[view.name]
        orphans = self._disown(view.name, view.operators)
        orphans += [one for one in (view.capture, view.past) if one is not None]
        disconnect(tuple(orphans))

    def close(self) -> None:
        """Drop every view: their memory is given back at once."""
        self._small_steps.forget()
        for installed in self.views.values():
            release(installed.operators)
            installed.operators = ()
        self.views.clear()

    def _disown(self, name: str, operators: Iterable[Operator]) -> list[Operator]:
        """Have a view hold operators no more; those that nobody holds then, which are still connected."""
        orphans = []
        for operator in everything(tuple(operators)):
            operator.owners.discard(name)
            if not operator.owners:
                orphans.append(operator)
                if self._registry.get(operator.place.fingerprint) is operator:
                    del self._registry[operator.place.fingerprint]
                if isinstance(operator, Source) and self._sources.get(operator.table.name) is operator:
                    del self._sources[operator.table.name]
        return orphans

    def retire(self) -> None:
        """Free what only made arrangements that can never change again; these keep their contents."""
        self._small_steps.forget()
        detach(with_empty_frontier(operator for view in self.views.values() for operator in view.operators))
        orphans = []
        for view in self.views.values():
            needed = set(with_inputs((view.output,)))
            orphans += self._disown(view.name, (op for op in view.operators if op not in needed))
            view.operators = tuple(op for op in view.operators if op in needed)
        disconnect(tuple(orphans))

    def close_epoch(self) -> bool:
        """End the open epoch with the tables' pending changes; False, and no new epoch, if there are none."""
        if not self.inputs.idle and self.inputs and any(table.pending for table in self._touched):
            self.inputs.leave(self._open_epoch)
        changed = self._drain()
        self._open_epoch += changed
        return changed

    def step(self) -> None:
        """Take all closed epochs, and pending changes as one more, through every view; all or nothing."""
        self.close_epoch()
        if not self._closed:
            if self.recorder is not None:
                self.recorder.record(self.epoch, ())
            self._settle([table.name for table in self._unsettled])
            return
        self._take(Step(self._closed[0].epoch, self._open_epoch), self._open_epoch - 1)

    def preview(self, installed: Installation) -> Updates:
        """What the pending changes of tables, which are then undone, would change in a view; consolidated.

        Nothing else has changed afterwards, whatever it raises; the clock stands still.
        """
        if self._closed:
            raise InternalError("epochs are closed that no step has taken")
        view = self.views[installed.name]
        listening, chosen = view.watched, view.choose(None)
        self.watch(view)
        assert view.capture is not None
        step = self.scope.step = Step(self.epoch + 1, self.epoch + 2)
        with self._interrupt:
            try:
                self._drain()
                self._feed(step, None)
                self._run(step)
                self._interrupt.check()
                return Updates.concat(
                    [Updates.empty(view.output.width, 1), *view.capture.read(view.capture.uncommitted)]
                )
            finally:
                self._undo(step)
                step.visited.clear()
                view.choose(chosen)
                if not listening:
                    self.unwatch(view)

    def advance(self) -> None:
        """Take what inputs hold before the least of their times through every view; all or nothing.

        Epochs are the inputs' times then, of which most may be empty.
        """
        upper = self.inputs.upper(self.epoch + 1)
        span = (self.epoch + 1, upper) if self.inputs.waiting else self.inputs.span(upper)
        if upper > self.epoch + 1 and span is not None:
            self._take(Step(*span), upper - 1)
        self.epoch = upper - 1
        self._open_epoch = upper
        self.inputs.retire()

    def _take(self, step: Step, epoch: int) -> None:
        self.scope.step = step
        # Ctrl-C is noticed between operators and a join's chunks; during a commit or a rollback it waits.
        with self._interrupt:
            chain = self._chain_for(step)
            try:
                if self.recorder is not None:
                    self.recorder.expect(self._closed)
                self._feed(step, chain)
                if not self.inputs.idle:
                    self.inputs.release(step.upper)
                self._run(step, chain)
                self._interrupt.check()
                if self.recorder is not None:
                    self.recorder.record(epoch, self._closed)
            except BaseException:
                if chain is not None:
                    chain.settle(step)
                    chain.renew()
                if self.recorder is not None:
                    self.recorder.cancel()
                self._undo(step)
                raise
            self._make_final(step, epoch, chain)

    def _undo(self, step: Step) -> None:
        for operator in (*step.visited, *(waiting for _, waiting in step.queue)):
            operator.rollback()
        self.rollback()

    def _all_operators(self) -> Iterator[Operator]:
        self._small_steps.tally()
        return Access._all_operators(self)

    def _register(self, operators: tuple[Operator, ...]) -> None:
        for operator in operators:
            self._registry[operator.place.fingerprint] = operator
            for inner in everything((operator,)):
                self.inputs.notice(inner)
            if isinstance(operator, Source):
                self._sources[operator.table.name] = operator

    def _hydrate(self, name: str, rendered: Rendered, saved: "Saved | None") -> None:
        new = rendered.new if saved is None else saved.restore(rendered.new)
        step = Step(self.epoch, self.epoch + 1, hydrating=True)
        self.scope.step = step
        try:
            with self._interrupt, filling(name, step, len(new), self._interrupt):
                self.stepping = True
                for operator in new:
                    operator.hydrate()
                    self._interrupt.check()
                self._run(step)
                self._interrupt.check()
        except BaseException:
            self.stepping = False
            disconnect(rendered.new)
            raise
        for operator in new:
            operator.commit()
            operator.hydrated = True
            operator.maintain()
        step.visited.clear()

    def _chain_for(self, step: Step) -> "Chain | None":
        """What the step's operators run in, if it is small."""
        rows = 0
        for closed in self._closed:
            for rowids, _ in closed.changes:
                rows += rowids.shape[0]
        return self._small_steps.chain(step, rows, self._outermost) if rows <= FEW else None

    def _outermost(self) -> set[Operator]:
        """The operators that are in no loop."""
        operators = (operator for view in self.views.values() for operator in view.operators)
        return {operator for operator in operators if operator.place.scope is self.scope}

    def _feed(self, step: Step, chain: "Chain | None") -> None:
        """Hand each table's closed changes to its source, if some view reads the table."""
        if chain is not None:
            chain.begin(step)
        for epoch, table, changes in self._closed:
            source = self._sources.get(table)
            if source is not None and chain is not None:
                chain.feed(source, changes)
            elif source is not None:
                for rowids, diff in changes:
                    source.change(epoch, rowids, diff)

    def _run(self, step: Step, chain: "Chain | None" = None) -> None:
        """Run what the step has queued, and what that queues, in the order of positions."""
        clock = time.perf_counter
        self.stepping = True
        begin_step(self._interrupt)
        try:
            while True:
                if chain is not None:
                    chain.advance(step)
                operator = step.next() if step.queue else None
                if operator is None:
                    break
                self._interrupt.check()
                if chain is not None:
                    chain.hand_over(operator)
                start = clock()
                operator.flush()
                elapsed = clock() - start
                operator.counters.seconds += elapsed
                operator.counters.step_seconds = elapsed
        finally:
            self.stepping = False
            end_step()

    def _make_final(self, step: Step, epoch: int, chain: "Chain | None") -> None:
        self.epoch = epoch
        try:
            self._commit(step, chain)
        except BaseException:
            if self.recorder is not None:
                self.recorder.cancel()  # which is too late: it keeps nothing more
            raise

    def _commit(self, step: Step, chain: "Chain | None") -> None:
        if chain is not None:
            chain.commit(step)
        else:
            self._small_steps.elsewhere()
        for operator in step.visited:
            operator.commit()
        if self.remembering:
            self._remember()
        self._settle({closed.table for closed in self._closed})
        self._closed.clear()
        for operator in step.visited:
            operator.maintain()
        step.visited.clear()
