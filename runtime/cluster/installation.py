"""Plans that a coordinator installs at its members, and the handles that read them.

:class:`RemoteInstaller` places a plan on the workers, installs it at every member, and places it again when
table sizes have changed. :class:`RemoteInstallation` implements ``executor.Installation``: it combines the
rows,
changes and statistics of all members. :class:`MemberClient` sends commands to the members and collects their
replies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from secrets import token_bytes
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.cluster.messages import (
    Command,
    Crew,
    MemberLostError,
    Reply,
    UnsendableError,
    replace_columns,
    text_columns,
)
from kpg.runtime.cluster.shared_memory import NO_UPDATE
from kpg.runtime.cluster.skew import with_skewed_keys
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, NotSupportedError, OperationalError
from kpg.runtime.handles import (
    NO_FILTER,
    ArrangementInfo,
    ExportLocations,
    Installation,
    OperatorInfo,
    OverlayInfo,
    RankLookup,
    Stats,
    WorkerStatistics,
    export_error,
)
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import changes_after, drop_changes_through, merge_small_parts
from kpg.runtime.operators.text_exchange import CoordinatorStrings
from kpg.runtime.plan import AnyNode, Columns, Import, Loop, Plan, Source, Types, user
from kpg.runtime.tables.table import EpochChanges
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Type
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker

Words = NDArray[np.int64]


READ_METHODS: Final = frozenset(
    {
        "rows",
        "matching",
        "rows_of",
        "held",
        "rank_width",
        "ranks_of",
        "ranked",
        "first_rounds",
        "overlay",
        "statistics",
        "state",
        "operators_here",
        "arrangements_here",
        "work_here",
    }
)
"""Methods that restarted members answer like their predecessors, so that they can be called again."""


def _sum_operator_infos(infos: Sequence[OperatorInfo]) -> OperatorInfo:
    """Return the statistics of one operator over all members."""
    first = infos[0]
    return replace(
        first,
        updates_in=sum(one.updates_in for one in infos),
        updates_out=sum(one.updates_out for one in infos),
        rows=sum(one.rows for one in infos),
        bytes=sum(one.bytes for one in infos),
        seconds=max(one.seconds for one in infos),
        step_seconds=max(one.step_seconds for one in infos),
    )


def _sum_arrangement_infos(infos: Sequence[ArrangementInfo]) -> ArrangementInfo:
    return replace(infos[0], rows=sum(one.rows for one in infos), bytes=sum(one.bytes for one in infos))


def _raise_first(replies: Sequence[Reply]) -> None:
    """Raise the error of the earliest operator, if there is an error."""
    failed = [(worker, reply) for worker, reply in enumerate(replies) if reply.error is not None]
    if not failed:
        return
    primary = [one for one in failed if not one[1].is_secondary] or failed
    worker, first = min(primary, key=lambda one: one[1].order)
    assert first.error is not None
    if isinstance(first.error, MemoryError):
        raise OperationalError(
            f"out of memory: worker {worker}: {first.error}",
            hint="nothing was changed; use more workers, or give them more memory",
        )
    raise first.error


class MemberClient:
    """The coordinator's calls of its members."""

    def __init__(
        self,
        crew: Crew,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt,
        restart_members: Callable[[MemberLostError], None],
    ) -> None:
        """Create a client; ``restart_members`` starts new members with the state of the lost ones."""
        self.crew = crew
        self.failure: MemberLostError | None = None
        """Why there are no members; None while there are some."""
        self.defers_interrupt = False
        """Whether Ctrl-C has to wait, because the call belongs to a step that is final."""
        self._dictionary = dictionary
        self._interrupt = interrupt
        self._restart_members = restart_members
        self._is_closed = False
        self._strings = self._new_strings()

    def _new_strings(self) -> CoordinatorStrings:
        return CoordinatorStrings(self._dictionary, self.crew.count, has_local_codes=self.crew.memory is None)

    @property
    def count(self) -> int:
        """Number of members."""
        return self.crew.count

    @property
    def hosts(self) -> list[str]:
        """Hosts of the members, if they are reached over a network."""
        return self.crew.hosts

    def text_columns(self, types: Types) -> tuple[int, ...]:
        """Return the columns whose words differ at members."""
        return () if self.crew.memory is not None else text_columns(types)

    def ensure_members(self) -> None:
        """Start new members if the old ones are lost."""
        if self.failure is not None:
            self._restart_members(self.failure)

    def restart(self) -> None:
        """Start new members, without any state."""
        self.crew.restart()
        self.failure = None
        self._strings = self._new_strings()

    def give_up(self, failure: MemberLostError) -> None:
        """End the members, whose state is not that of the coordinator."""
        self.crew.close()
        self.failure = failure

    def close(self) -> None:
        """End the members."""
        self._is_closed = True
        self.crew.close()

    def call_members(self, method: str, *args: object) -> list[Any]:
        """Call a method at all members and return their results.

        Of several errors, the one of the earliest operator is raised.
        """
        return [reply.value for reply in self.call_for_replies(method, *args)]

    def call_for_replies(self, method: str, *args: object) -> list[Reply]:
        """Call a method at all members, add the strings in their replies, and return the replies."""
        if self._is_closed:
            return []
        self.ensure_members()
        memory = self.crew.memory
        update = NO_UPDATE if memory is None else memory.take_update()
        command = Command(method, args, self._strings.take_nonempty_delta(), update.updates)
        try:
            replies, stopped = self.crew.call(command, self._check_interrupt)
        except UnsendableError:
            self._strings.restore_delta(command.strings)
            if memory is not None:
                memory.restore_update(update)
            raise
        except MemberLostError as error:
            self.failure = error
            if method not in READ_METHODS:
                raise
            return self.call_for_replies(method, *args)
        if memory is not None:
            memory.confirm_update(update)
        for worker, reply in enumerate(replies):
            self._strings.add_worker_strings(worker, reply.delta)
        if stopped is not None:
            raise stopped
        _raise_first(replies)
        return replies

    def _check_interrupt(self) -> None:
        if not self.defers_interrupt:
            self._interrupt.check()

    def send_to_members(self, method: str, *args: object) -> None:
        """Call a method at all members without waiting for them."""
        if self.failure is None and not self._is_closed:
            try:
                self.crew.send(Command(method, args, self._strings.take_nonempty_delta()))
            except MemberLostError as error:
                self.failure = error

    def notify_members(self, method: str, *args: object) -> None:
        """Call a method that only transfers this process's state; restarted members receive it anyway."""
        if self.failure is None:
            with suppress(MemberLostError):
                self.call_members(method, *args)

    def decode_words(self, worker: int, words: Words, text_columns: tuple[int, ...]) -> Words:
        """Translate words of a member to those of the coordinator, in place."""
        for column in text_columns:
            words[column] = self._strings.decode(worker, words[column])
        return words

    def decode_updates(self, worker: int, updates: Updates, text_columns: tuple[int, ...]) -> Updates:
        """Return updates of a member in words of the coordinator."""
        columns = {place: self._strings.decode(worker, updates.data[place]) for place in text_columns}
        return replace_columns(updates, columns) if columns else updates

    # Statistics

    def operators(self) -> list[OperatorInfo]:
        """Return all operators, each with the work of all members."""
        return [
            _sum_operator_infos(infos) for infos in zip(*self.call_members("operators_here"), strict=True)
        ]

    def worker_statistics(self) -> list[WorkerStatistics]:
        """Return the state and work of each member."""

        statistics, samples = zip(*self.call_members("work_here"), strict=True)
        return with_skewed_keys(statistics, samples)

    def arrangements(self) -> list[ArrangementInfo]:
        """Return all arrangements, each with the rows of all members."""
        return [
            _sum_arrangement_infos(infos)
            for infos in zip(*self.call_members("arrangements_here"), strict=True)
        ]


class RemoteInstallation:
    """An ``executor.Installation`` at the members."""

    def __init__(
        self,
        client: MemberClient,
        name: str,
        placed_plan: Plan,
        text_columns: tuple[int, ...],
        width: int,
        is_replicated: bool,
    ) -> None:
        """Create it; with ``is_replicated`` every member has all rows, else each has its share."""
        self.name = name
        self.plan = placed_plan
        self.original_plan = placed_plan
        """The plan before its placement."""
        self.text_columns = text_columns
        self.width = width
        self.is_replicated = is_replicated
        self.is_watched = False
        self.history_since: int | None = None
        """Epoch since which all changes are kept; None if they are not kept."""
        self._history: list[Updates] = []
        self.captured_changes: list[Updates] = []
        self.step_changes: list[Updates] = []
        """Changes that members reported for the last step."""
        self.statistics: list[tuple[Stats, int]] = []
        self._client = client
        self._sinks = dict(_sinks_of(client, Columns(placed_plan.nodes)))

    @property
    def has_sinks(self) -> bool:
        """Whether it has sinks, to which restarted members would send everything again."""
        return bool(self._sinks)

    @property
    def stats(self) -> Stats:
        """Cost of the plan: times of the slowest member, rows of all members."""
        replies: list[tuple[Stats, int, bool]] = self._client.call_members("statistics", self.name)
        stats = [one for one, _, _ in replies]
        sizes = [size for _, size, _ in replies]
        return Stats(
            max(one.install_seconds for one in stats),
            stats[0].arrangements_built,
            stats[0].arrangements_reused,
            max(one.last_step_seconds for one in stats),
            sizes[0] if self.is_replicated else sum(sizes),
        )

    @property
    def operator_position(self) -> int:
        """Position of the output operator."""
        return self.statistics[0][1]

    @property
    def size(self) -> int:
        """Approximate number of rows."""
        return self.stats.rows

    def rows(self, equal: Mapping[int, int] = NO_FILTER) -> tuple[Words, Words]:
        """Return the contents; see ``Installation``."""
        return self._merge_rows(self._client.call_members("rows", self.name))

    def rows_with_prefix(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """Return the rows that begin with these words, and their multiplicities."""
        return self._merge_rows(self._client.call_members("matching", self.name, np.array(prefix, np.int64)))

    def rows_of(self, keys: Words) -> tuple[NDArray[np.bool_], Words]:
        """Return, for an ego view, which readers have a row, and rows for all of them."""
        has_row = np.zeros(keys.shape[0], np.bool_)
        rows = np.zeros((self.width, keys.shape[0]), np.int64)
        replies: list[tuple[Words, Words]] = self._client.call_members("rows_of", self.name, keys)
        for worker, (places, data) in enumerate(replies[:1] if self.is_replicated else replies):
            has_row[places] = True
            rows[:, places] = self._client.decode_words(worker, data.copy(), self.text_columns)
        return has_row, rows

    def arrays_of(self, keys: Words) -> tuple[Words, Words] | None:
        """Return None: members send rows."""
        return None

    def overlay(self) -> OverlayInfo | None:
        """Return the statistics of an ego view's overlay, which is at the first member."""
        found: list[OverlayInfo | None] = self._client.call_members("overlay", self.name)
        return found[0]

    @contextmanager
    def export(self, names: Sequence[str], types: Sequence[Type]) -> Iterator[ExportLocations]:
        """Let other processes fetch the named columns of the contents from the workers."""
        hosts, secret = self._client.hosts, token_bytes(32)
        if not hosts:
            raise export_error()
        replies = self._client.call_members("offer", self.name, tuple(names), tuple(types), hosts, secret)
        count = 1 if self.is_replicated else len(replies)
        places = [(host, port) for host, (port, _) in zip(hosts, replies, strict=True)][:count]
        try:
            yield ExportLocations(places, secret, [schema for _, schema in replies[:count]])
        finally:
            self._client.notify_members("withdraw", self.name)

    def decide_pushes(self) -> None:
        """Recompute an ego view's push decisions from the observed traffic."""
        self._client.call_members("decide", self.name)

    def capture_readers(self, readers: Words | None) -> None:
        """Restrict the captured changes of a watched ego view to these readers; None captures all."""
        self._client.call_members("choose", self.name, readers)

    def _merge_rows(self, replies: Sequence[tuple[Words, Words]]) -> tuple[Words, Words]:
        parts = []
        for worker, (data, diffs) in enumerate(replies[:1] if self.is_replicated else replies):
            parts.append((self._client.decode_words(worker, data.copy(), self.text_columns), diffs))
        if len(parts) == 1:
            return parts[0]
        time = np.zeros((1, 1), np.int64)
        whole = Updates.concat([Updates(data, time, diffs) for data, diffs in parts]).consolidate()
        return whole.data, whole.diffs()

    def merge_changes(self, replies: Iterable[Updates]) -> Updates:
        """Return the consolidated changes that members have reported."""
        parts = [
            self._client.decode_updates(worker, one, self.text_columns)
            for worker, one in enumerate(replies)
            if worker == 0 or not self.is_replicated
        ]
        return Updates.concat([Updates.empty(self.width, 1), *parts]).consolidate()

    def finish_step(self) -> None:
        """Consolidate the changes of a step, and add them to the captured ones and to the history."""
        parts, self.step_changes = self.step_changes, []
        if parts:
            whole = Updates.concat(parts).consolidate()
            if self.is_watched and len(whole):
                self.captured_changes.append(whole)
            if self.history_since is not None and len(whole):
                self._history.append(whole)
                merge_small_parts(self._history)

    def drain(self) -> list[Updates]:
        """Return the consolidated changes of each step since the last call."""
        changes, self.captured_changes = self.captured_changes, []
        return changes

    @property
    def needs_changes(self) -> bool:
        """Whether members have to report its changes."""
        return self.is_watched or self.history_since is not None

    def keep_history(self, epoch: int | None) -> None:
        """Keep the changes after an epoch; None drops the history."""
        self.history_since, self._history = epoch, []

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch."""
        if self.history_since is not None:
            self._history, self.history_since = drop_changes_through(self._history, self.history_since, epoch)

    def changes_after(self, since: int) -> list[Updates]:
        """Return the kept changes after an epoch, consolidated, step by step."""
        return [one.consolidate() for one in changes_after(self._history, since)]

    def rows_as_of(self, epoch: int) -> tuple[Words, Words]:
        """Return :meth:`rows` as of an epoch that the kept changes cover."""
        time = np.zeros((1, 1), np.int64)
        data, diffs = self.rows()
        parts = [part.negate().with_time(time) for part in self.changes_after(epoch)]
        whole = Updates.concat([Updates(data, time, diffs), *parts]).consolidate()
        return whole.data, whole.diffs()

    def drain_sink(self, listener: int) -> list[Updates]:
        """Return the updates of the sink with that number at all members, since the last call."""
        texts, width, depth = self._sinks[listener]
        replies: list[list[Updates]] = self._client.call_members("heard", self.name, listener, texts)
        parts = [
            self._client.decode_updates(worker, one, texts)
            for worker, each in enumerate(replies)
            for one in each
        ]
        if not parts:
            return []
        whole = Updates.concat([Updates.empty(width, depth), *parts]).consolidate()
        return [whole] if len(whole) else []

    def close_sink(self, listener: int) -> None:
        """Stop a sink; its buffered updates can still be drained."""
        self._client.call_members("ignore", self.name, listener)

    def is_final(self) -> bool:
        """Return False: members keep operators that are final."""
        return False

    def exclusive_state(self, prefix: str) -> tuple[int, int]:
        """Return rows and bytes of state that only installations with names beginning with ``prefix`` use."""
        replies: list[tuple[int, int]] = self._client.call_members("state", self.name, prefix)
        return sum(rows for rows, _ in replies), sum(size for _, size in replies)

    def ranks(self) -> RankLookup | None:
        """Return the ranks of the rows if the output is a recursive set; None otherwise."""
        replies: list[tuple[int, int]] = [one for one in self.call_members("rank_width") if one is not None]
        return RemoteRanks(self, replies[0][0], sum(rows for _, rows in replies)) if replies else None

    def first_rounds(self) -> tuple[Words, Words] | None:
        """Return the input rows of a min or max in a loop, and the round of each; None otherwise."""
        replies = self.call_members("first_rounds")
        return None if replies[0] is None else concat_rounds(self, replies)

    def call_members(self, method: str, *args: object) -> list[Any]:
        """Call a method of it at all members; of a replicated one, return only the first member's result."""
        replies = self._client.call_members(method, self.name, *args)
        return replies[:1] if self.is_replicated else replies

    def decode_rows(self, worker: int, rows: Words) -> Words:
        """Return a member's rows in words of the coordinator."""
        return self._client.decode_words(worker, rows.copy(), self.text_columns)


class RemoteRanks:
    """A ``handles.RankLookup`` of rows at members."""

    def __init__(self, remote: "RemoteInstallation", width: int, rows: int) -> None:
        self._remote = remote
        self._row_count = rows
        self.width = width

    def __len__(self) -> int:
        return self._row_count

    def ranks_of(self, rows: Words, *, include_deleted: bool = False) -> Words:
        """Return the rank of each row, -1 for a missing row."""
        found: list[Words] = self._remote.call_members("ranks_of", rows, include_deleted)
        return np.maximum.reduce(found)

    def all_ranks(self, *, include_deleted: bool = False) -> tuple[Words, Words]:
        """Return all rows and their ranks."""
        return concat_rounds(self._remote, self._remote.call_members("ranked", include_deleted))


def concat_rounds(remote: "RemoteInstallation", replies: list[tuple[Words, Words]]) -> tuple[Words, Words]:
    """Return the rows and rounds of all members, in words of the coordinator."""
    parts = [remote.decode_rows(member, rows) for member, (rows, _) in enumerate(replies)]
    return np.concatenate(parts, axis=1), np.concatenate([rounds for _, rounds in replies])


def _sinks_of(
    client: MemberClient, columns: Columns, depth: int = 1
) -> "Iterable[tuple[int, tuple[tuple[int, ...], int, int]]]":
    """Yield for each sink its number, and the text columns, width and time depth of its updates."""
    for ref, node in enumerate(columns.nodes):
        if isinstance(node, user.Sink):
            types = columns.types[node.input]
            yield node.listener, (client.text_columns(types), len(types), depth)
        elif isinstance(node, plan.Loop):
            yield from _sinks_of(client, columns.bodies[ref], depth + 1)


QUERY_PREFIX: Final = "query "
"""Prefix of the names of plans that are installed for one result."""
MAX_LOCAL_ROWS: Final = 2000
"""Rows of a query's tables up to which scanning them here is faster than calling members."""


class Placer(Protocol):
    """Adapts plans to many workers."""

    def place(self, name: str, query: Plan) -> tuple[Plan, bool]:
        """Return the plan with exchanges, and whether each worker has all rows of its output."""

    def plans_to_replace(self, rows: int, tables: Set[str]) -> set[str]:
        """Return the plans over these tables that it would place otherwise after a step of ``rows`` rows."""

    def remove(self, name: str) -> None:
        """Forget a plan that is no longer installed."""

    def home_column(self, table: str) -> int:
        """Return the column by which a table is distributed, independent of its size."""


class RemoteInstaller:
    """Installs plans at the members of a crew."""

    def __init__(self, client: MemberClient, worker: Worker, placer: Placer) -> None:
        """Create an installer; ``worker`` runs small queries in this process."""
        self.remote: dict[str, RemoteInstallation] = {}
        """Installations at the members."""
        self._client = client
        self._worker = worker
        self._placer = placer
        self._last_member_position = 0
        """Highest position of an operator, from which all members continue alike."""
        self._input_texts: dict[str, tuple[int, ...]] = {}
        """Text columns of each input."""
        self._size_bits: dict[str, int] = {}
        """Bit length of the row count of each table that has changed, as of the last step that changed it."""

    def install(
        self,
        name: str,
        plan: Plan,
        *,
        isolated: bool = False,
        as_of: int | None = None,
        reads_pending: bool = False,
    ) -> Installation:
        """Install a plan at the members, or a small query in this process; see ``executor.Executor``."""
        _check_supported(plan, pending=isolated and as_of is None)
        if isolated or (name.startswith(QUERY_PREFIX) and self._is_small(plan)):
            return self._worker.install(name, plan, isolated=True, as_of=as_of, reads_pending=reads_pending)
        if self._worker.tables.has_pending:
            raise InternalError("a view cannot be installed while changes are pending")
        self._client.ensure_members()
        placed_plan, is_replicated = self._placer.place(name, plan)
        for node in placed_plan.nodes:
            if isinstance(node, user.Input):
                self._input_texts[node.identity] = self._client.text_columns(node.types)
        types = Columns(placed_plan.nodes).types[placed_plan.output]
        remote = self.remote[name] = RemoteInstallation(
            self._client, name, placed_plan, self._client.text_columns(types), len(types), is_replicated
        )
        remote.original_plan = plan
        try:
            with self._worker.scope.interrupt:
                self.install_at_members(remote)
        except UnsendableError:
            self._drop_remote(name)
            if name.startswith(QUERY_PREFIX) and not any(isinstance(node, Import) for node in plan.nodes):
                return self._worker.install(name, plan, isolated=True)
            raise
        except BaseException:
            self._drop_remote(name)
            if self._client.failure is None:
                # Some members may have installed it: without barriers they do not notice another's failure.
                self._last_member_position = max(self._client.call_members("drop", name), default=0)
            raise
        return remote

    def restart(self) -> None:
        """Install all plans at new members.

        The captured changes of views are in this process, so their listeners miss nothing and hear nothing
        twice.
        """
        self._last_member_position = 0
        for remote in self.remote.values():
            self.install_at_members(remote)
            if remote.needs_changes:
                self._client.notify_members("observe", remote.name, True)

    @property
    def has_sinks(self) -> bool:
        """Whether some installation has sinks."""
        return any(remote.has_sinks for remote in self.remote.values())

    def input_text_columns(self, identity: str) -> tuple[int, ...]:
        """Return the text columns of an input."""
        return self._input_texts.get(identity, ())

    def install_at_members(self, remote: RemoteInstallation) -> None:
        tables = (node.table for node in remote.plan.nodes if isinstance(node, Source))
        row_counts = {table: self._worker.tables.count(table) for table in tables}
        replies = self._client.call_members(
            "put", remote.name, remote.plan, self._last_member_position, row_counts
        )
        remote.statistics = [(stats, place) for stats, place, _ in replies]
        self._last_member_position = max((last for _, _, last in replies), default=0)

    def _is_small(self, plan: Plan) -> bool:
        """Return whether running a query in this process is faster than calling members."""
        rows = 0
        for node in plan.nodes:
            if isinstance(node, Import | user.Input | user.Apply | user.UserReduce | user.Custom):
                return False
            if isinstance(node, Source):
                rows += self._worker.tables.count(node.table)
        return rows <= MAX_LOCAL_ROWS

    def uninstall(self, installation: Installation) -> None:
        """Remove an installation, if it exists."""
        if isinstance(installation, LocalInstallation):
            self._worker.uninstall(installation)
        elif (
            isinstance(installation, RemoteInstallation)
            and self.remote.get(installation.name) is installation
        ):
            self._drop_remote(installation.name)
            self._client.notify_members("drop", installation.name)

    def _drop_remote(self, name: str) -> None:
        del self.remote[name]
        self._placer.remove(name)

    # Changes

    def watch(self, installation: Installation) -> None:
        """Start capturing its changes."""
        remote = self.remote[installation.name]
        self._observe(remote)
        remote.is_watched = True

    def unwatch(self, installation: Installation) -> None:
        """Stop capturing its changes and discard those not drained."""
        remote = self.remote.get(installation.name)
        if remote is not None and remote.is_watched:
            remote.is_watched = False
            remote.captured_changes.clear()
            self._end_observing(remote)

    def keep_changes(self, installation: Installation, epoch: int) -> None:
        """Keep the changes of an installation after an epoch, as its history."""
        remote = self.remote[installation.name]
        if remote.history_since is None:
            self._observe(remote)
            remote.keep_history(epoch)

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch."""
        for remote in self.remote.values():
            remote.drop_history_before(epoch)

    def disable_history(self) -> None:
        """Drop all history and stop keeping it."""
        for remote in self.remote.values():
            remote.keep_history(None)
            self._end_observing(remote)

    def _observe(self, remote: RemoteInstallation) -> None:
        """Let members report the changes of an installation."""
        if not remote.needs_changes:
            self._client.notify_members("observe", remote.name, True)

    def _end_observing(self, remote: RemoteInstallation) -> None:
        if not remote.needs_changes:
            self._client.notify_members("observe", remote.name, False)

    def collect_changes(self, replies: list[Reply]) -> None:
        """Collect the changes of watched installations from the members' replies to a step."""
        for worker, reply in enumerate(replies):
            assert isinstance(reply.value, dict)
            for name, changes in reply.value.items():
                remote = self.remote.get(name)
                if remote is not None and (worker == 0 or not remote.is_replicated):
                    remote.step_changes += [
                        self._client.decode_updates(worker, one, remote.text_columns) for one in changes
                    ]
        for remote in self.remote.values():
            remote.finish_step()

    # Replacement of plans

    def replan_for_sizes(
        self, closed_changes: Sequence[EpochChanges], send_contents: Callable[[str], None]
    ) -> None:
        """Replace plans whose placement depends on table sizes that a step changes, before it runs.

        ``send_contents`` informs members that share memory which rows a table had at the last commit.
        """
        names = {closed.table for closed in closed_changes}
        if self._update_sizes(names):
            rows = sum(change.rowids.shape[0] for closed in closed_changes for change in closed.changes)
            self._replace_plans(rows, names, send_contents)

    def _update_sizes(self, names: Iterable[str]) -> bool:
        """Update the sizes of tables; return whether the bit length of one has changed."""
        has_changed = False
        for name in names:
            bits = self._worker.tables.count(name).bit_length()
            has_changed = has_changed or self._size_bits.get(name) != bits
            self._size_bits[name] = bits
        return has_changed

    def _replace_plans(self, rows: int, tables: Iterable[str], send_contents: Callable[[str], None]) -> None:
        """Recompute the plans that the placer would place otherwise after ``rows`` more rows.

        This happens before the rows are inserted: there is less to compute, and their effects are computed
        once. If a member ends meanwhile, its successor gets the new plans.
        """
        to_replace = self._placer.plans_to_replace(rows, self._worker.tables.by_name.keys())
        if not to_replace or self._client.failure is not None:
            return
        remotes = list[RemoteInstallation]()
        for remote in self.remote.values():
            imported = {node.view for node in remote.original_plan.nodes if isinstance(node, Import)}
            if remote.name in to_replace or not imported.isdisjoint(one.name for one in remotes):
                remotes.append(remote)
        if self._worker.inputs or any(remote.has_sinks for remote in remotes):
            return
        for remote in remotes:
            remote.plan, remote.is_replicated = self._placer.place(remote.name, remote.original_plan)
        self._client.defers_interrupt = True
        try:
            for table in tables:
                send_contents(table)
            for remote in reversed(remotes):
                self._client.call_members("drop", remote.name)
            for remote in remotes:
                self.install_at_members(remote)
                if remote.needs_changes:
                    self._client.call_members("observe", remote.name, True)
        except MemberLostError:
            pass  # restarted members receive the plans
        except Exception as error:
            self._client.give_up(MemberLostError(f"workers could not replace their plans: {error}"))
        finally:
            self._client.defers_interrupt = False


def _check_supported(query: Plan, *, pending: bool) -> None:
    """Raise NotSupportedError for plans that only a single worker can run."""
    feature = None
    if pending and any(isinstance(node, Import) for node in query.nodes):
        feature = "reading a collection of a dataflow in a transaction with changes"
    elif any(map(_has_custom_operator, query.nodes)):
        feature = "an operator of one's own (apply)"
    if feature is not None:
        raise NotSupportedError(
            f"{feature} with several workers is not supported", hint="open the database without workers="
        )


def _has_custom_operator(node: AnyNode) -> bool:
    return isinstance(node, user.Custom) or (
        isinstance(node, Loop) and any(map(_has_custom_operator, node.body))
    )
