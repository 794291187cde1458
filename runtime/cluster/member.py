"""A member: a worker that runs its share of every plan and exchanges rows with the other members.

The coordinator calls its methods through :meth:`Member.perform`. All members commit or roll back a step
together; a step is final once the coordinator says so.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.constraint_audit import Recalling
from kpg.runtime.cluster.messages import STEPS, Changed, Command, Reply, unsealed
from kpg.runtime.cluster.shared_memory import Memory
from kpg.runtime.cluster.skew import sampled
from kpg.runtime.cluster.transfer import Offer, types_of
from kpg.runtime.convert.arrow import decode
from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Place, Scope, Step
from kpg.runtime.handles import ArrangementInfo, OperatorInfo, OverlayInfo, Stats, Work
from kpg.runtime.interrupts import Watch
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.exchange import Sending, Share, levels
from kpg.runtime.operators.expand import Expand
from kpg.runtime.operators.join import Join, Segment
from kpg.runtime.operators.linear import Concat, Linear, Negate
from kpg.runtime.operators.loop import ArrangedLeave, Enter, Leave, Loop, everything
from kpg.runtime.operators.reduce import Single
from kpg.runtime.operators.text_exchange import OneForAll, Strings
from kpg.runtime.operators.user import Apply
from kpg.runtime.operators.worker_group import LEVEL, Company, PeerFailedError, Peers, StoppedError, level_of
from kpg.runtime.plan import Plan
from kpg.runtime.render import Rendered
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import Type
from kpg.runtime.worker.dataflows import Installed
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

    from kpg.runtime.chain.chain import Chain
    from kpg.runtime.checkpoint.worker_state import Saved
    from kpg.runtime.cluster.skew import Sampled

Words = NDArray[np.int64]
PASSING: Final = (Linear, Concat, Negate, Share, Join, Apply, Expand, Single, Enter, Leave, ArrangedLeave)
"""What tells its contents by asking what is before it."""


def _fleeting(operators: Iterable[Operator], outside: Iterable[Operator] = ()) -> set[Operator]:
    """The operators, in order, of whose contents something was sent that is nowhere any more."""
    found = set(outside)
    for operator in operators:
        if isinstance(operator, Loop):
            if not _fleeting(operator.body, found).isdisjoint(operator.results):
                found.add(operator)
        elif isinstance(operator, Sending | Segment) or (
            isinstance(operator, PASSING) and not found.isdisjoint(operator.inputs)
        ):
            found.add(operator)
    return found


class Member(Recalling):
    """Number ``index`` of ``count``."""

    def __init__(
        self, index: int, count: int, peers: Peers, merge_effort: int, memory: Memory | None
    ) -> None:
        """``memory`` is what it has in common with the coordinator and all others."""
        super().__init__(merge_effort, memory)
        strings = Strings if memory is None else OneForAll
        self.sharing = Company(index, count, strings(self.dictionary, count), peers)
        self._texts: dict[str, tuple[int, ...]] = {}
        self._offers: dict[str, Offer] = {}
        self._loads, self._keys, self._books = {}, {}, {}
        self._changed = False
        self._rendered: Rendered | None = None

    def perform(self, command: Command) -> Reply:
        """Do what is asked; whatever goes wrong is in the reply."""
        company = self.sharing
        before = company.meetings
        try:
            self._learn(command)
            if command.method == "put":
                company.begin(over=False)
            value = getattr(self, command.method)(*unsealed(command.args, company.index))
            return Reply(value, company.strings.news())
        except PeerFailedError as error:
            return Reply(None, company.strings.news(), error, aside=True)
        except BaseException as error:
            if command.method in STEPS:
                company.fail()
            order = company.meetings - before, company.failing
            aside = isinstance(error, StoppedError)
            return Reply(None, company.strings.news(), error, aside=aside, order=order)

    def obey(self, command: Command) -> None:
        """Do what nobody waits for."""
        self._learn(command)
        getattr(self, command.method)(*command.args)

    def stop_when(self, watch: Watch) -> None:
        """Ask, at safe points, whether to go on."""
        self._interrupt.watch = watch

    # Where operators are

    def next_position(self, inputs: Below = (), scope: Scope | None = None, *, apart: bool = False) -> int:
        """A position after all operators there are, of the level that inputs of the scope have."""
        level = max((level_of(one) for one in inputs if one.place.scope is scope), default=0) + apart
        return (level << LEVEL) + Worker.next_position(self)

    def _register(self, operators: tuple[Operator, ...]) -> None:
        """Have others share operators, but for those whose contents only a meeting could bring."""
        fleeting = _fleeting(operators)
        super()._register(tuple(one for one in operators if one not in fleeting))
        for inner in everything(tuple(fleeting)):
            self.inputs.notice(inner)

    def _disown(self, name: str, operators: Iterable[Operator]) -> list[Operator]:
        orphans = super()._disown(name, operators)
        for orphan in orphans:
            self.sharing.meeting.pop(orphan.place.position, None)
        return orphans

    def _last_level(self, more: Iterable[Operator] = ()) -> int:
        operators = {one for view in self.views.values() for one in view.operators} | set(more)
        outermost = tuple(one for one in operators if one.place.scope is self.scope)
        return levels(outermost, self.sharing)

    # Running

    def _chain_for(self, step: Step) -> "Chain | None":
        return None

    def _hydrate(self, name: str, rendered: Rendered, saved: "Saved | None") -> None:
        company = self.sharing
        company.last = self._last_level(rendered.new)
        self._rendered = rendered
        company.meet([], None)  # all have come as far as this
        company.over = not company.last
        super()._hydrate(name, rendered, saved)

    def _run(self, step: Step, chain: "Chain | None" = None) -> None:
        """Run level by level, meeting the others before each."""
        company, level = self.sharing, 0
        self.stepping = True
        try:
            while True:
                company.over = level == company.last
                self._run_level(step, level)
                if level == company.last:
                    return
                met = company.meet(step.queue, (step.queue[0][0] >> LEVEL,) if step.queue else None)
                company.deliver(met)
                if met.phase is None:
                    company.over = True
                    return
                level = met.phase[-1]
        finally:
            self.stepping = False

    def _run_level(self, step: Step, level: int) -> None:
        clock = time.perf_counter
        queue = step.queue
        while queue and queue[0][0] >> LEVEL <= level:
            operator = step.next()
            assert operator is not None
            self._interrupt.check()
            self.sharing.failing = operator.position & ((1 << LEVEL) - 1)
            start = clock()
            operator.flush()
            elapsed = clock() - start
            operator.counters.seconds += elapsed
            operator.counters.step_seconds = elapsed

    # What a coordinator asks

    def put(self, name: str, plan: Plan, position: int, counts: dict[str, int]) -> tuple[Stats, int, int]:
        """Install a plan, which is made for many workers; what it cost, its place, and the last position.

        ``counts`` are the rows that its tables have at all workers together.
        """
        self._position = max(self._position, position)
        self.sharing.counts = counts
        try:
            installed = self.install(name, plan)
        except BaseException:
            self.sharing.last = self._last_level()
            raise
        assert installed.found is not None and self._rendered is not None
        types = self._rendered.identities.types[plan.output]
        self._texts[name], self._rendered = self.sharing.texts(types), None
        return installed.stats, installed.place, self._position

    def drop(self, name: str) -> int:
        """Uninstall what has a name, if it is there; the last position that an operator had."""
        view = self.views.get(name)
        if view is not None:
            self.uninstall(view)
            self._texts.pop(name, None)
            self.sharing.last = self._last_level()
        return self._position

    def feed(self, name: str, width: int, identity: str) -> None:
        """There is an input."""
        place = Place(identity, f"Input {name}", self.next_position(), (), self.scope, width)
        self.inputs.create(name, place, self.epoch + 1)

    def change(
        self, lower: int, upper: int, changes: list[Changed], fed: list[tuple[str, Updates, tuple[int, ...]]]
    ) -> dict[str, list[Updates]]:
        """Take changes of tables, and what has come to inputs, through everything; not final yet.

        What has changed in what is watched.
        """
        self.sharing.begin(over=not self.sharing.last)
        self._changed = True
        step = self.scope.step = Step(lower, upper)
        try:
            self._redo(changes)
            self._feed(step, None)
            for identity, updates, texts in fed:
                self.inputs.get(identity).push(
                    0, self._share(updates.with_data(self._in_own(updates.data, texts)), texts)
                )
            for custom in self.inputs._customs:
                custom.awaken(upper)
            self._run(step)
            return {name: self._news(view) for name, view in self.views.items() if view.watched}
        except BaseException:
            self._undo(step)
            self._changed = False
            raise

    def _news(self, view: Installed) -> list[Updates]:
        assert view.capture is not None
        texts = self._texts[view.name]
        return [self._common(one, texts) for one in view.capture.read(view.capture.uncommitted)]

    def _share(self, updates: Updates, texts: tuple[int, ...]) -> Updates:
        """This worker's rows of an input, which are parted by their first column."""
        company = self.sharing
        if not updates.width:
            return updates if company.index == 0 else updates.take(np.empty(0, np.int64))
        owners = company.owners.of(updates.data[0], interned=0 in texts)
        return updates.take(np.flatnonzero(owners == company.index))

    def undo(self) -> None:
        """What was done was not."""
        if self._changed:
            self._undo(self.scope.step)
            self._changed = False

    def settle(self, epoch: int) -> None:
        """What was done is final."""
        self.epoch = epoch
        self._open_epoch = epoch + 1
        self._changed = False
        self._commit(self.scope.step, None)
        self._land()
        for view in self.views.values():
            if view.watched:
                view.drain()

    def consider(self, name: str, changes: list[Changed]) -> Updates:
        """What changes would change in an installation; they are undone."""
        self.sharing.begin(over=not self.sharing.last)
        view = self.views[name]
        listening, chosen = view.watched, view.choose(None)
        self.watch(view)
        assert view.capture is not None
        step = self.scope.step = Step(self.epoch + 1, self.epoch + 2)
        try:
            self._redo(changes)
            self._feed(step, None)
            self._run(step)
            found = view.capture.read(view.capture.uncommitted)
            whole = Updates.concat([Updates.empty(view.output.width, 1), *found])
            return self._common(whole, self._texts[name])
        finally:
            self._undo(step)
            step.visited.clear()
            view.choose(chosen)
            if not listening:
                self.unwatch(view)

    def rows(self, name: str) -> tuple[Words, Words]:
        """This worker's rows of an installation, and their multiplicities."""
        data, diffs = self.views[name].rows()
        return self._common(Updates(data, np.zeros((1, 1), np.int64), diffs), self._texts[name]).data, diffs

    def matching(self, name: str, prefix: Words) -> tuple[Words, Words]:
        """Those that begin with these words, which are the coordinator's."""
        texts = self._texts[name]
        own = prefix.copy()
        for column in texts:
            if column < own.shape[0]:
                own[column] = self.sharing.strings.from_coordinator(own[column : column + 1])[0]
        data, diffs = self.views[name].matching(own.tolist())
        return self._common(Updates(data, np.zeros((1, 1), np.int64), diffs), texts).data, diffs

    def rows_of(self, name: str, keys: Words) -> tuple[Words, Words]:
        """Of the coordinator's keys of an ego view the places of those that have a row here, and the rows."""
        texts = self._texts[name]
        own = self.sharing.strings.from_coordinator(keys) if 0 in texts else keys.copy()
        there, rows = self.views[name].rows_of(own)
        kept = np.ascontiguousarray(rows[:, there])
        data = self._common(Updates(kept, np.zeros((1, 1), np.int64), ONE), texts).data
        return np.flatnonzero(there), data

    def overlay(self, name: str) -> OverlayInfo | None:
        """What an ego view is computed by here."""
        return self.views[name].overlay()

    def decide(self, name: str) -> None:
        """Have an ego view's labels be decided anew."""
        self.views[name].decide()

    def choose(self, name: str, readers: Words | None) -> None:
        """Capture changes of the coordinator's readers of an ego view only; None: of all."""
        if readers is not None and 0 in self._texts[name]:
            readers = np.sort(self.sharing.strings.from_coordinator(readers))
        self.views[name].choose(readers)

    def offer(
        self, name: str, names: tuple[str, ...], types: tuple[Type, ...], hosts: list[str], secret: bytes
    ) -> "tuple[int, pa.Schema]":
        """Have others fetch this worker's rows of an installation, as they are now: the port, and types."""
        data, diffs = self.views[name].rows()
        words = np.repeat(data, np.broadcast_to(diffs, data.shape[1]), axis=1)
        table = decode(words, names, types, self.dictionary)
        self.withdraw(name)
        self._offers[name] = Offer(table, hosts[self.sharing.index], secret)
        return self._offers[name].port, types_of(table)

    def withdraw(self, name: str) -> None:
        """Have nobody fetch them any more."""
        offer = self._offers.pop(name, None)
        if offer is not None:
            offer.withdraw()

    def observe(self, name: str, watched: bool) -> None:
        """Start or stop capturing changes."""
        view = self.views[name]
        if watched:
            self.watch(view)
        else:
            self.unwatch(view)

    def heard(self, name: str, listener: int, texts: tuple[int, ...]) -> list[Updates]:
        """What a sink got."""
        return [self._common(one, texts) for one in self.views[name].heard(listener)]

    def ignore(self, name: str, listener: int) -> None:
        """A sink keeps nothing more."""
        self.views[name].ignore(listener)

    def figures(self, name: str) -> tuple[Stats, int, bool]:
        """What an installation cost, how many rows it has, and whether it can change."""
        view = self.views[name]
        return view.stats, view.size, False

    def state(self, name: str, prefix: str) -> tuple[int, int]:
        """See ``Installation.own_state``."""
        return self.views[name].own_state(prefix)

    def operators_here(self) -> list[OperatorInfo]:
        """A profile."""
        return self.operators()

    def arrangements_here(self) -> list[ArrangementInfo]:
        """Every index."""
        return self.arrangements()

    def work_here(self) -> "tuple[Work, list[Sampled]]":
        """What this worker keeps and has done, and what its indexes have."""

        operators = set(self._all_operators())
        sending = [one for one in operators if isinstance(one, Sending)]
        sent, came = sum(one.sent for one in sending), sum(one.came for one in sending)
        rows, size = sum(one.rows for one in operators), sum(one.bytes for one in operators)
        if self._memory is None:
            rows += sum(table.rows for table in self.tables.values())
            size += sum(table.bytes for table in self.tables.values()) + self.dictionary.bytes
        indexes = sorted(one for one in operators if isinstance(one, Arrange))
        found = [sampled(one, self.dictionary) for one in indexes]
        return Work(rows, size, time.process_time(), sent, came, self.sharing.meetings), found

    def forget(self, identity: str) -> None:
        """Nobody feeds an input any more."""
        self.forget_input(identity)
