"""Locks of numbers, tables and rows: sessions hold them, in modes, until they let go or a transaction ends.

Nobody waits here. What cannot be had now raises ``Waiting``: who runs the statement undoes it and runs it
again when something has been let go. A queue has those who wait, so that each has its turn. Those of numbers
are advisory locks; of tables and rows see ``row_locks.py``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from kpg.engine.lock_modes import CONFLICTS, SHOWN
from kpg.runtime.errors import OperationalError, Waiting

if TYPE_CHECKING:
    from kpg.engine.kept import Kept

Key = tuple[int | str, ...]
"""One number of 64 bits, or two of 32; the name of a table; the name of a table and a rowid."""
FOREVER: Final = -1
"""In place of the number of savepoints for what outlives the transaction."""
Hold = tuple[str, int]
"""A mode, and how many savepoints there were, or FOREVER."""


class Wish(NamedTuple):
    """What a statement waits for."""

    key: Key
    mode: str


class Waits(NamedTuple):
    """One session of a circle: what it waits for, and the session that keeps it from that."""

    number: int
    wish: Wish
    blocker: int

    def __str__(self) -> str:
        mode = SHOWN.get(self.wish.mode, self.wish.mode)
        what = f"Process {self.number} waits for {mode} on {_named(self.wish.key)}"
        return f"{what}; blocked by process {self.blocker}."


class DeadlockError(OperationalError):
    """Sessions wait for each other: ``circle`` says which, and for what."""

    sqlstate = "40P01"

    def __init__(self, circle: Sequence[Waits]) -> None:
        super().__init__("deadlock detected", hint="see the server log for query details")
        self.circle = circle
        self.detail = "\n".join(map(str, circle))


class NoLockError(OperationalError):
    """A lock cannot be had, or not in time."""

    sqlstate = "55P03"


class Locks:
    """The locks of one database. Sessions are known by their numbers."""

    def __init__(self) -> None:
        self._held: dict[Key, dict[int, list[Hold]]] = {}
        self._keys: dict[int, dict[Key, None]] = {}
        """What each session holds."""
        self._queues: dict[Key, list[tuple[int, str]]] = {}
        self._wishes: dict[int, Wish] = {}
        self.suspends = False
        """Whether who runs the present statement can undo it, and run it again."""
        self.naps = self.napped = 0
        """How often the statement has slept before, and how many of these times have come up again."""
        self._journal: list[tuple[int, Key, Hold, bool]] = []
        """What the present statement has taken (True) and let go."""
        self.freed: Callable[[int], object] = lambda number: None
        """Told of each session that may have what it waits for now."""

    # Taking

    def take(self, engine: "Kept", wish: Wish, *, until_end: bool, waits: bool) -> bool:
        """Take a lock for who asks; False if that cannot be now, or, with ``waits``, Waiting or an error."""
        number = engine.catalog.asker.number
        if self.blockers(number, wish):
            if not waits:
                return False
            self.wait_for(engine, wish)
        self._leave(number)
        if until_end and engine.transactions.idle:
            return True  # until the end of the statement, while which nobody else is asked
        depth = engine.transactions.depth if until_end else FOREVER
        self._add(number, wish.key, (wish.mode, depth))
        self._note(number, wish.key, (wish.mode, depth), taken=True)
        if until_end:
            engine.transactions.locks = Own(self, number)
        return True

    def wait_for(self, engine: "Kept", wish: Wish) -> NoReturn:
        """Have the present statement wait for what it cannot have; an error if it cannot wait."""
        self._check_waiting(engine)
        raise Waiting(wish)

    def let_go(self, number: int, wish: Wish) -> bool:
        """Let go of a lock once that was taken for the session; whether it was held."""
        holds = self._held.get(wish.key, {}).get(number, [])
        one = (wish.mode, FOREVER)
        if one not in holds:
            return False
        self._remove(number, wish.key, one)
        self._note(number, wish.key, one, taken=False)
        self._tell(wish.key)
        return True

    def let_all_go(self, number: int) -> None:
        """Let go of all that was taken for the session."""
        for key in list(self._keys.get(number, ())):
            for one in [one for one in self._held[key][number] if one[1] == FOREVER]:
                self._remove(number, key, one)
                self._note(number, key, one, taken=False)
            self._tell(key)

    def end(self, number: int, least: int = 0) -> None:
        """Let go of what a transaction has taken since it had so many savepoints."""
        for key in list(self._keys.get(number, ())):
            gone = [one for one in self._held[key][number] if one[1] >= least]
            for one in gone:
                self._remove(number, key, one)
            if gone:
                self._tell(key)

    def release(self, number: int, place: int) -> None:
        """What a transaction has taken after a savepoint, of that number, is as if it had been before."""
        for key in self._keys.get(number, ()):
            holders = self._held[key]
            holders[number] = [(mode, min(depth, place)) for mode, depth in holders[number]]

    def forget(self, number: int) -> None:
        """A session is over."""
        self._leave(number)
        self.end(number, FOREVER)

    def _add(self, number: int, key: Key, one: Hold) -> None:
        self._held.setdefault(key, {}).setdefault(number, []).append(one)
        self._keys.setdefault(number, {})[key] = None

    def _remove(self, number: int, key: Key, one: Hold) -> None:
        holders = self._held[key]
        holders[number].remove(one)
        if not holders[number]:
            del holders[number]
            del self._keys[number][key]
            if not self._keys[number]:
                del self._keys[number]
        if not holders:
            del self._held[key]

    def _check_waiting(self, engine: "Kept") -> None:
        """An error if the present statement cannot wait."""
        if not self.suspends:
            raise NoLockError("could not obtain lock: a session has it", hint="wait in a session")

    # What a statement has done, which is undone if it has to wait

    def begin(self, engine: "Kept", naps: int) -> None:
        """A statement begins whose work can be done again, after so many naps."""
        self.suspends = True
        self.naps, self.napped = naps, 0

    @property
    def untouched(self) -> bool:
        """Whether the present statement can be undone, and has neither taken a lock nor let one go."""
        return self.suspends and not self._journal

    @property
    def progress(self) -> tuple[int, int]:
        """What is known of the present statement, for :meth:`go_on` with it after another one."""
        return self.naps, self.napped

    def go_on(self, progress: tuple[int, int]) -> None:
        """Go on with a statement whose work can be done again."""
        self.suspends = True
        self.naps, self.napped = progress

    def over(self) -> None:
        """It is over."""
        self.suspends = False
        self._journal.clear()

    def undo(self) -> None:
        """Have locks be as they were before the present statement."""
        for number, key, one, taken in reversed(self._journal):
            if taken and one in self._held.get(key, {}).get(number, []):
                self._remove(number, key, one)
                self._tell(key)
            elif not taken:
                self._add(number, key, one)
        self.over()

    def sleep(self, seconds: float) -> None:
        """Have the present statement wait, unless it has done so."""
        if self.napped == self.naps:
            raise Waiting(None, seconds, naps=True)
        self.napped += 1

    def _note(self, number: int, key: Key, one: Hold, *, taken: bool) -> None:
        if self.suspends:
            self._journal.append((number, key, one, taken))

    # Waiting

    def wait(self, number: int, wish: Wish) -> None:
        """Have a session wait for a lock; DeadlockError if those who have it wait for the session."""
        before = self._wishes.get(number)
        if before != wish:
            self._leave(number)
            self._queue(number, wish)
        circle = self._circle(number)
        if circle:
            self._leave(number)
            raise DeadlockError(circle)

    def _queue(self, number: int, wish: Wish) -> None:
        self._queues.setdefault(wish.key, []).append((number, wish.mode))
        self._wishes[number] = wish

    def _circle(self, number: int) -> list[Waits]:
        """The sessions that wait for each other, from one on; nothing if that is not so."""
        before: dict[int, int] = {}
        """Who waits for each session that has been seen."""
        ahead = [(one, number) for one in self.blockers(number, self._wishes[number])]
        while ahead:
            one, waits = ahead.pop()
            if one == number:
                found = [Waits(waits, self._wishes[waits], number)]
                while (last := found[-1].number) != number:
                    found.append(Waits(before[last], self._wishes[before[last]], last))
                return found[::-1]
            if one not in before:
                before[one] = waits
                if one in self._wishes:
                    ahead += [(other, one) for other in self.blockers(one, self._wishes[one])]
        return []

    def event(self, number: int) -> str:
        """What a session waits for, as ``pg_stat_activity`` calls it; nothing if it waits for no lock."""
        wish = self._wishes.get(number)
        if wish is None:
            return ""
        if not isinstance(wish.key[0], str):
            return "advisory"
        if len(wish.key) == 1:
            return "relation"
        return "transactionid" if self._queues[wish.key][0][0] == number else "tuple"

    def give_up(self, number: int) -> None:
        """A session waits no more."""
        self._leave(number)

    def _leave(self, number: int) -> None:
        wish = self._wishes.pop(number, None)
        if wish is None:
            return
        queue = self._queues[wish.key]
        queue.remove((number, wish.mode))
        if not queue:
            del self._queues[wish.key]
        self._tell(wish.key)

    def blockers(self, number: int, wish: Wish) -> set[int]:
        """The sessions that have to let go, or come first, before one can have a lock."""
        conflicts = CONFLICTS[wish.mode]
        found = {
            one
            for one, holds in self._holders(wish.key).items()
            if one != number and any(self._excludes(one, mode, wish) for mode, _ in holds)
        }
        if number in self._held.get(wish.key, ()):
            return found
        for one, mode in self._queues.get(wish.key, ()):
            if one == number:
                break
            if mode in conflicts:
                found.add(one)
        return found

    def _excludes(self, holder: int, mode: str, wish: Wish) -> bool:
        """Whether who holds a lock in a mode keeps others from having it."""
        return mode in CONFLICTS[wish.mode]

    def _holders(self, key: Key) -> Mapping[int, Sequence[Hold]]:
        return self._held.get(key, {})

    def _tell(self, key: Key) -> None:
        """Tell those who can have a lock now."""
        for number, mode in list(self._queues.get(key, ())):
            if not self.blockers(number, Wish(key, mode)):
                self.freed(number)

    # Looking

    def alone(self, number: int) -> bool:
        """Whether no other session holds anything, or waits for it."""
        return all(one == number for one in self._keys) and all(one == number for one in self._wishes)

    def listed(self) -> Iterator[tuple[Key, int, str, bool]]:
        """The key, the session, the mode, and whether it has it or waits for it."""
        for key, holders in self._held.items():
            for number, holds in holders.items():
                for mode in sorted({mode for mode, _ in holds}):
                    yield key, number, mode, True
        for number, wish in self._wishes.items():
            yield wish.key, number, wish.mode, False

    def __len__(self) -> int:
        """How many are held or waited for."""
        return len(self._held) + len(self._queues)


def _named(key: Key) -> str:
    """What is locked, in words."""
    if not isinstance(key[0], str):
        return f"advisory lock [{','.join(map(str, key))}]"
    name = key[0].rpartition(".")[2]
    return f'relation "{name}"' if len(key) == 1 else f'row {key[1]} of relation "{name}"'


class Own(NamedTuple):
    """The locks of one session's transaction."""

    locks: Locks
    number: int

    def end(self, least: int) -> None:
        """See Locks."""
        self.locks.end(self.number, least)

    def release(self, place: int) -> None:
        """See Locks."""
        self.locks.release(self.number, place)
