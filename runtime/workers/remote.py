"""What is installed at the members, as the database sees it: their rows, changes and figures together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.handles import NOTHING, Offered, OverlayInfo, RankLookup, Stats, not_offered
from kpg.runtime.installed import changes_after, forgotten, gathered
from kpg.runtime.plan import Columns, Plan, Types, user
from kpg.runtime.trace.updates import Updates

if TYPE_CHECKING:
    from kpg.runtime.workers.installing import Installing

Words = NDArray[np.int64]


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
        from kpg.runtime.workers import rounds

        return rounds.ranks(self)

    def first_rounds(self) -> tuple[Words, Words] | None:
        """See ``Installation``."""
        from kpg.runtime.workers import rounds

        return rounds.first_rounds(self)

    def asked_of_members(self, method: str, *args: object) -> list[Any]:
        """What members tell of it: of what all of them hold, the first."""
        found = self._owner.ask(method, self.name, *args)
        return found[:1] if self.held else found

    def in_own_words(self, worker: int, rows: Words) -> Words:
        """A member's rows in words of the coordinator."""
        return self._owner.words(worker, rows.copy(), self.texts)


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
