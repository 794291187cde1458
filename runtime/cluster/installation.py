"""Plans that a coordinator installs at its members, and the handles that read them.

:class:`Installing` places a plan on the workers, installs it at every member, and places it again when table
sizes have changed. :class:`Remote` implements ``executor.Installation``: it concatenates the rows, changes
and figures of all members. :class:`Asking` sends commands to the members and collects their replies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from secrets import token_bytes
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.cluster.messages import Command, Crew, MemberGoneError, Reply, UnsendableError, with_columns
from kpg.runtime.cluster.remote_load import FarTable, Landings
from kpg.runtime.cluster.shared_memory import NO_NEWS
from kpg.runtime.cluster.skew import with_heavy
from kpg.runtime.errors import InternalError, NotSupportedError, OperationalError
from kpg.runtime.handles import (
    NOTHING,
    ArrangementInfo,
    Installation,
    Offered,
    OperatorInfo,
    OverlayInfo,
    RankLookup,
    Stats,
    Work,
    not_offered,
)
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import changes_after, forgotten, gathered
from kpg.runtime.operators.text_exchange import Told
from kpg.runtime.plan import AnyNode, Columns, Import, Loop, Plan, Source, Types, user
from kpg.runtime.storage.packs import Sharded
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import Updates
from kpg.runtime.worker.dataflows import Installed
from kpg.runtime.worker.worker import Worker

Words = NDArray[np.int64]


READS: Final = frozenset(
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
        "figures",
        "state",
        "operators_here",
        "arrangements_here",
        "work_here",
    }
)
"""What members that were started again answer as those before them."""


def _added(infos: Sequence[OperatorInfo]) -> OperatorInfo:
    """One operator at all members."""
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


def _all_of(infos: Sequence[ArrangementInfo]) -> ArrangementInfo:
    return replace(infos[0], rows=sum(one.rows for one in infos), bytes=sum(one.bytes for one in infos))


def _raise_first(replies: Sequence[Reply]) -> None:
    """Raise the error that comes first in the order of operators, if there is one."""
    failed = [(worker, reply) for worker, reply in enumerate(replies) if reply.error is not None]
    if not failed:
        return
    own = [one for one in failed if not one[1].aside] or failed
    worker, first = min(own, key=lambda one: one[1].order)
    assert first.error is not None
    if isinstance(first.error, MemoryError):
        raise OperationalError(
            f"out of memory: worker {worker}: {first.error}",
            hint="nothing was changed; have more workers, or give them more",
        )
    raise first.error


class Asking:
    """The part of a coordinator that speaks with its crew."""

    crew: Crew
    _told: Told
    _interrupt: DeferredInterrupt
    _ended: bool
    _gone: MemberGoneError | None = None
    """Why there are no members, until they are started again."""
    _patient = False
    """Whether Ctrl-C waits: what is asked belongs to a step that is final."""

    def _be_there(self) -> None:
        """Start new members if they are gone."""
        raise NotImplementedError

    def ask(self, method: str, *args: object) -> list[Any]:
        """What all members answer; of several errors the one that comes first in order of operators."""
        return [reply.value for reply in self.replies(method, *args)]

    def replies(self, method: str, *args: object) -> list[Reply]:
        """As :meth:`ask`, with the strings that came along taken up."""
        if self._ended:
            return []
        self._be_there()
        memory = self.crew.memory
        news = NO_NEWS if memory is None else memory.news()
        command = Command(method, args, self._told.news(), news.shown)
        try:
            replies, stopped = self.crew.call(command, self._look)
        except UnsendableError:
            self._told.untold(command.learn)
            if memory is not None:
                memory.unsaid(news)
            raise
        except MemberGoneError as gone:
            self._gone = gone
            if method not in READS:
                raise
            return self.replies(method, *args)
        if memory is not None:
            memory.heard(news)
        for worker, reply in enumerate(replies):
            self._told.hear(worker, reply.delta)
        if stopped is not None:
            raise stopped
        _raise_first(replies)
        return replies

    def _look(self) -> None:
        if not self._patient:
            self._interrupt.check()

    def tell(self, method: str, *args: object) -> None:
        """Have members do something that nobody waits for."""
        if self._gone is None and not self._ended:
            try:
                self.crew.tell(Command(method, args, self._told.news()))
            except MemberGoneError as gone:
                self._gone = gone

    def inform(self, method: str, *args: object) -> None:
        """Have members know what is so here; those that are started again do."""
        if self._gone is None:
            with suppress(MemberGoneError):
                self.ask(method, *args)

    def words(self, worker: int, words: Words, texts: tuple[int, ...]) -> Words:
        """Words of a member as those of the coordinator, in place."""
        for column in texts:
            words[column] = self._told.words(worker, words[column])
        return words

    def updates(self, worker: int, updates: Updates, texts: tuple[int, ...]) -> Updates:
        """Updates of a member in words of the coordinator."""
        columns = {place: self._told.words(worker, updates.data[place]) for place in texts}
        return with_columns(updates, columns) if columns else updates

    # Profiles

    def operators(self) -> list[OperatorInfo]:
        """Every operator, with the work of all members."""
        return [_added(infos) for infos in zip(*self.ask("operators_here"), strict=True)]

    def work(self) -> list[Work]:
        """What each member keeps and has done."""

        works, found = zip(*self.ask("work_here"), strict=True)
        return with_heavy(works, found)

    def arrangements(self) -> list[ArrangementInfo]:
        """Every index, with the rows of all members."""
        return [_all_of(infos) for infos in zip(*self.ask("arrangements_here"), strict=True)]


class Remote:
    """An ``executor.Installation`` of a coordinator."""

    def __init__(
        self, owner: "Installing", name: str, made: Plan, texts: tuple[int, ...], width: int, held: bool
    ) -> None:
        """``held``: every member has all rows; else each has its share."""
        self.name = name
        self.plan = made
        self.asked = made
        """The plan before it was placed."""
        self.texts = texts
        self.width = width
        self.held = held
        self.watched = False
        self.remembers: int | None = None
        """The epoch since which all changes are kept; None if they are not."""
        self._past: list[Updates] = []
        self.captured: list[Updates] = []
        self.fresh: list[Updates] = []
        """What members have told of the last step."""
        self.figures: list[tuple[Stats, int]] = []
        self._owner = owner
        self._sinks = dict(_sinks(owner, Columns(made.nodes)))

    @property
    def has_sinks(self) -> bool:
        """Whether somebody listens to what goes through it, whom new members would tell everything again."""
        return bool(self._sinks)

    @property
    def stats(self) -> Stats:
        """The slowest member's times, and all rows."""
        found: list[tuple[Stats, int, bool]] = self._owner.ask("figures", self.name)
        stats = [one for one, _, _ in found]
        sizes = [size for _, size, _ in found]
        return Stats(
            max(one.install_seconds for one in stats),
            stats[0].arrangements_built,
            stats[0].arrangements_reused,
            max(one.last_step_seconds for one in stats),
            sizes[0] if self.held else sum(sizes),
        )

    @property
    def place(self) -> int:
        """The place of the operator whose contents it has."""
        return self.figures[0][1]

    @property
    def size(self) -> int:
        """About how many rows the contents have."""
        return self.stats.rows

    def rows(self, equal: Mapping[int, int] = NOTHING) -> tuple[Words, Words]:
        """See ``Installation``."""
        return self._together(self._owner.ask("rows", self.name))

    def matching(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """See ``Installation``."""
        return self._together(self._owner.ask("matching", self.name, np.array(prefix, np.int64)))

    def rows_of(self, keys: Words) -> tuple[NDArray[np.bool_], Words]:
        """See ``Installation``."""
        there = np.zeros(keys.shape[0], np.bool_)
        rows = np.zeros((self.width, keys.shape[0]), np.int64)
        found: list[tuple[Words, Words]] = self._owner.ask("rows_of", self.name, keys)
        for worker, (places, data) in enumerate(found[:1] if self.held else found):
            there[places] = True
            rows[:, places] = self._owner.words(worker, data.copy(), self.texts)
        return there, rows

    def lists_of(self, keys: Words) -> tuple[Words, Words] | None:
        """See ``Installation``: members tell of rows."""
        return None

    def overlay(self) -> OverlayInfo | None:
        """See ``Installation``: that of the first member, at which all rows of an ego view are."""
        found: list[OverlayInfo | None] = self._owner.ask("overlay", self.name)
        return found[0]

    @contextmanager
    def offered(self, names: Sequence[str], types: Types) -> Iterator[Offered]:
        """See ``Installation``."""
        hosts, secret = self._owner.crew.hosts, token_bytes(32)
        if not hosts:
            raise not_offered()
        found = self._owner.ask("offer", self.name, tuple(names), tuple(types), hosts, secret)
        count = 1 if self.held else len(found)
        places = [(host, port) for host, (port, _) in zip(hosts, found, strict=True)][:count]
        try:
            yield Offered(places, secret, [schema for _, schema in found[:count]])
        finally:
            self._owner.inform("withdraw", self.name)

    def decide(self) -> None:
        """See ``Installation``."""
        self._owner.ask("decide", self.name)

    def choose(self, readers: Words | None) -> None:
        """See ``Installation``."""
        self._owner.ask("choose", self.name, readers)

    def _together(self, found: Sequence[tuple[Words, Words]]) -> tuple[Words, Words]:
        parts = []
        for worker, (data, diffs) in enumerate(found[:1] if self.held else found):
            parts.append((self._owner.words(worker, data.copy(), self.texts), diffs))
        if len(parts) == 1:
            return parts[0]
        time = np.zeros((1, 1), np.int64)
        whole = Updates.concat([Updates(data, time, diffs) for data, diffs in parts]).consolidate()
        return whole.data, whole.diffs()

    def merged(self, found: Iterable[Updates]) -> Updates:
        """What members say has changed, or would."""
        parts = [
            self._owner.updates(worker, one, self.texts)
            for worker, one in enumerate(found)
            if worker == 0 or not self.held
        ]
        return Updates.concat([Updates.empty(self.width, 1), *parts]).consolidate()

    def gather(self) -> None:
        """The changes of a step are one."""
        fresh, self.fresh = self.fresh, []
        if fresh:
            whole = Updates.concat(fresh).consolidate()
            if self.watched and len(whole):
                self.captured.append(whole)
            if self.remembers is not None and len(whole):
                self._past.append(whole)
                gathered(self._past)

    def drain(self) -> list[Updates]:
        """See ``Installation``."""
        changes, self.captured = self.captured, []
        return changes

    @property
    def observed(self) -> bool:
        """Whether members are to tell of its changes."""
        return self.watched or self.remembers is not None

    def remember(self, epoch: int | None) -> None:
        """Keep what changes after an epoch; None: nothing any more."""
        self.remembers, self._past = epoch, []

    def forget(self, epoch: int) -> None:
        """Keep only what came after an epoch."""
        if self.remembers is not None:
            self._past, self.remembers = forgotten(self._past, self.remembers, epoch)

    def changes(self, since: int) -> list[Updates]:
        """The changes after an epoch, if they are kept: consolidated, step by step."""
        return [one.consolidate() for one in changes_after(self._past, since)]

    def rows_then(self, epoch: int) -> tuple[Words, Words]:
        """As :meth:`rows`, after an epoch since which changes are kept."""
        time = np.zeros((1, 1), np.int64)
        data, diffs = self.rows()
        parts = [part.negate().with_time(time) for part in self.changes(epoch)]
        whole = Updates.concat([Updates(data, time, diffs), *parts]).consolidate()
        return whole.data, whole.diffs()

    def heard(self, listener: int) -> list[Updates]:
        """See ``Installation``: what all members' sinks got, as one."""
        texts, width, depth = self._sinks[listener]
        found: list[list[Updates]] = self._owner.ask("heard", self.name, listener, texts)
        parts = [self._owner.updates(worker, one, texts) for worker, each in enumerate(found) for one in each]
        if not parts:
            return []
        whole = Updates.concat([Updates.empty(width, depth), *parts]).consolidate()
        return [whole] if len(whole) else []

    def ignore(self, listener: int) -> None:
        """See ``Installation``."""
        self._owner.ask("ignore", self.name, listener)

    def is_final(self) -> bool:
        """Members keep what can never change again."""
        return False

    def own_state(self, prefix: str) -> tuple[int, int]:
        """See ``Installation``."""
        found: list[tuple[int, int]] = self._owner.ask("state", self.name, prefix)
        return sum(rows for rows, _ in found), sum(size for _, size in found)

    def ranks(self) -> RankLookup | None:
        """See ``Installation``."""
        found: list[tuple[int, int]] = [one for one in self.asked_of_members("rank_width") if one is not None]
        return RemoteRanks(self, found[0][0], sum(rows for _, rows in found)) if found else None

    def first_rounds(self) -> tuple[Words, Words] | None:
        """See ``Installation``."""
        found = self.asked_of_members("first_rounds")
        return None if found[0] is None else rounds_of_all(self, found)

    def asked_of_members(self, method: str, *args: object) -> list[Any]:
        """What members tell of it: of what all of them hold, the first."""
        found = self._owner.ask(method, self.name, *args)
        return found[:1] if self.held else found

    def in_own_words(self, worker: int, rows: Words) -> Words:
        """A member's rows in words of the coordinator."""
        return self._owner.words(worker, rows.copy(), self.texts)


class RemoteRanks:
    """A ``handles.RankLookup`` of rows that members keep."""

    def __init__(self, remote: "Remote", width: int, rows: int) -> None:
        self._remote = remote
        self._rows = rows
        self.width = width

    def __len__(self) -> int:
        return self._rows

    def of(self, rows: Words, *, gone: bool = False) -> Words:
        """See ``RankLookup``."""
        found: list[Words] = self._remote.asked_of_members("ranks_of", rows, gone)
        return np.maximum.reduce(found)

    def every(self, *, gone: bool = False) -> tuple[Words, Words]:
        """See ``RankLookup``."""
        return rounds_of_all(self._remote, self._remote.asked_of_members("ranked", gone))


def rounds_of_all(remote: "Remote", found: list[tuple[Words, Words]]) -> tuple[Words, Words]:
    """Concatenate the rows and rounds of all members, in words of the coordinator."""
    parts = [remote.in_own_words(member, rows) for member, (rows, _) in enumerate(found)]
    return np.concatenate(parts, axis=1), np.concatenate([rounds for _, rounds in found])


def _sinks(
    owner: "Installing", columns: Columns, depth: int = 1
) -> "Iterable[tuple[int, tuple[tuple[int, ...], int, int]]]":
    """Of each listener the columns of text that it hears, their number, and the depth of times."""
    for ref, node in enumerate(columns.nodes):
        if isinstance(node, user.Sink):
            types = columns.types[node.input]
            yield node.listener, (owner.texts_of(types), len(types), depth)
        elif isinstance(node, plan.Loop):
            yield from _sinks(owner, columns.bodies[ref], depth + 1)


ONCE: Final = "query "
"""What is installed for one answer is called so."""
FEW: Final = 2000
"""Rows of tables that are looked through here, for one answer, in less time than asking takes."""


class Placer(Protocol):
    """What makes of plans some for many workers."""

    def place(self, name: str, query: Plan) -> tuple[Plan, bool]:
        """The plan with exchanges, and whether each worker has all rows of its output."""

    def moving(self, rows: int, tables: Set[str]) -> set[str]:
        """What it would place otherwise once a step of so many rows is taken, of what reads these tables."""

    def forget(self, name: str) -> None:
        """Something is not installed any more."""

    def home(self, table: str) -> int:
        """The column by which a table is distributed, however small it is."""


class Installing(Asking, Worker):
    """The part of a coordinator that has plans run by its crew."""

    remote: dict[str, Remote]
    _placer: Placer
    _positions: int
    _input_texts: dict[str, tuple[int, ...]]
    _landings: Landings
    _sizes: dict[str, int]
    """Of each table that has changed the number of bits of its size then."""

    def texts_of(self, types: Types) -> tuple[int, ...]:
        """The columns whose words are others at members."""
        raise NotImplementedError

    # Rows that members have written

    def take_shards(self, table: Table, start: int, sharded: Sharded) -> None:
        """See ``Worker``: members read them, if they can."""
        if isinstance(table, FarTable) and table.takes_shards and self._landings.sees:
            self._landings.moor(table, start, sharded)
        else:
            super().take_shards(table, start, sharded)

    def replay_shards(self, epoch: int, table: str, start: int, sharded: Sharded) -> None:
        """See ``Worker``."""
        super().replay_shards(epoch, table, start, sharded)
        store = self.tables[table]
        if isinstance(store, FarTable) and store.blocks:
            self._landings.tell(table, store.blocks[-1], taken=False)

    def install(
        self, name: str, plan: Plan, *, isolated: bool = False, then: int | None = None, own: bool = False
    ) -> Any:
        """See ``executor.Executor``."""
        _refuse_what_is_not_there(plan, pending=isolated and then is None)
        if isolated or (name.startswith(ONCE) and self._is_small(plan)):
            return super().install(name, plan, isolated=True, then=then, own=own)
        if self.has_pending:
            raise InternalError("a view cannot be installed while changes are pending")
        self._be_there()
        made, held = self._placer.place(name, plan)
        for node in made.nodes:
            if isinstance(node, user.Input):
                self._input_texts[node.identity] = self.texts_of(node.types)
        types = Columns(made.nodes).types[made.output]
        remote = self.remote[name] = Remote(self, name, made, self.texts_of(types), len(types), held)
        remote.asked = plan
        try:
            with self._interrupt:
                self._put(remote)
        except UnsendableError:
            self._forget(name)
            if name.startswith(ONCE) and not any(isinstance(node, Import) for node in plan.nodes):
                return super().install(name, plan, isolated=True)
            raise
        except BaseException:
            self._forget(name)
            if self._gone is None:
                # Some members may have it: who meets nobody does not know that another has failed.
                self._positions = max(self.ask("drop", name), default=0)
            raise
        return remote

    def _put(self, remote: Remote) -> None:
        tables = (node.table for node in remote.plan.nodes if isinstance(node, Source))
        counts = {table: self.count(table) for table in tables}
        figures = self.ask("put", remote.name, remote.plan, self._positions, counts)
        remote.figures = [(stats, place) for stats, place, _ in figures]
        self._positions = max((last for _, _, last in figures), default=0)

    def _is_small(self, plan: Plan) -> bool:
        """Whether a query is answered here sooner than anybody is asked."""
        rows = 0
        for node in plan.nodes:
            if isinstance(node, Import | user.Input | user.Apply | user.UserReduce | user.Custom):
                return False
            if isinstance(node, Source):
                rows += self.count(node.table)
        return rows <= FEW

    def uninstall(self, installed: Installation) -> None:
        """Drop an installation, if it is still there."""
        if isinstance(installed, Installed):
            super().uninstall(installed)
        elif isinstance(installed, Remote) and self.remote.get(installed.name) is installed:
            self._forget(installed.name)
            self.inform("drop", installed.name)

    def _forget(self, name: str) -> None:
        del self.remote[name]
        self._placer.forget(name)

    # What is placed again

    def _resized(self, names: Iterable[str]) -> bool:
        """Whether one of these tables has twice or half the rows that it had when it was looked at last."""
        found = False
        for name in names:
            bits = self.count(name).bit_length()
            found = found or self._sizes.get(name) != bits
            self._sizes[name] = bits
        return found

    def _tell_rows(self, name: str) -> None:
        """Have members that see a table's rows see those of the last commit."""
        raise NotImplementedError

    def _place_again(self, rows: int, tables: Iterable[str]) -> None:
        """Have what the placer would place otherwise, once so many rows have come, computed anew so.

        They have not come yet: there is less to compute, and what comes with them is computed once. If a
        member ends meanwhile, those after it have what was to be had.
        """
        moving = self._placer.moving(rows, self.tables.keys())
        if not moving or self._gone is not None:
            return
        found = list[Remote]()
        for remote in self.remote.values():
            imported = {node.view for node in remote.asked.nodes if isinstance(node, Import)}
            if remote.name in moving or not imported.isdisjoint(one.name for one in found):
                found.append(remote)
        if self.inputs or any(remote.has_sinks for remote in found):
            return
        for remote in found:
            remote.plan, remote.held = self._placer.place(remote.name, remote.asked)
        self._patient = True
        try:
            for table in tables:
                self._tell_rows(table)
            for remote in reversed(found):
                self.ask("drop", remote.name)
            for remote in found:
                self._put(remote)
                if remote.observed:
                    self.ask("observe", remote.name, True)
        except MemberGoneError:
            pass  # those that are started next are told of the plans
        except Exception as error:
            self.crew.close()
            self._gone = MemberGoneError(f"workers could not go on with tables of other sizes: {error}")
        finally:
            self._patient = False


def _refuse_what_is_not_there(query: Plan, *, pending: bool) -> None:
    """NotSupportedError for what only a single worker can do."""
    what = None
    if pending and any(isinstance(node, Import) for node in query.nodes):
        what = "reading a collection of a dataflow in a transaction that has changed something"
    elif any(map(_is_users_operator, query.nodes)):
        what = "an operator of one's own (apply)"
    if what is not None:
        raise NotSupportedError(
            f"{what} with several workers is not supported", hint="open the database without workers="
        )


def _is_users_operator(node: AnyNode) -> bool:
    return isinstance(node, user.Custom) or (
        isinstance(node, Loop) and any(map(_is_users_operator, node.body))
    )
