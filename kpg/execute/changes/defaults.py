"""Column defaults and sequences: values for columns that a statement does not set.

``Sequences`` holds the position of each sequence. As in Postgres, a rollback does not return its numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.qualified_names import Resolved
from kpg.compiler.sql.rewrite.column_expressions import Default, defaults
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.functions.mathematics import DRAWN
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]


class Coming(dict[str, int]):
    """The next numbers of sequences; those that are ``fresh`` were set, and nothing was given before them."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: set[str] = set()


class Given:
    """The numbers that a session was given last, by sequence, and of which sequence the very last was."""

    def __init__(self) -> None:
        self.last = ""
        self.numbers: dict[str, int] = {}

    def copy(self) -> "Given":
        """The same, which goes on by itself."""
        made = Given()
        made.last, made.numbers = self.last, dict(self.numbers)
        return made


class Sequences:
    """The next numbers of sequences, by name, and which numbers each session was given last."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog
        self.next = Coming()
        catalog().numbers = lambda: self.next
        self._given: dict[int, Given] = {}
        """By the numbers of sessions."""
        self._drawn: list[tuple[int, str, int]] = []

    def follow(self, other: "Sequences") -> None:
        """Go on as those of another database do that has the same sequences."""
        self.next.clear()
        self.next.update(other.next)
        self.next.fresh = set(other.next.fresh)
        self._given = {number: one.copy() for number, one in other._given.items()}

    def pass_by(self, other: "Sequences") -> None:
        """Go on behind what another database has given of the same sequences, where it has come further."""
        for name, value in other.next.items():
            if self._catalog().find_sequence(Resolved(name)) is not None:
                numbers = self._numbers(name)
                here = self.next.get(numbers.name, numbers.start)
                self.next[numbers.name] = max(here, value) if numbers.increment > 0 else min(here, value)

    def forget(self, name: str) -> Callable[[], None]:
        """A sequence is gone, or starts anew; what puts it back where it stood."""
        coming, fresh = self.next.pop(name, None), name in self.next.fresh
        given = [(one.numbers, one.numbers.pop(name)) for one in self._given.values() if name in one.numbers]
        self.next.fresh.discard(name)

        def put_back() -> None:
            self.forget(name)
            if coming is not None:
                self.next[name] = coming
            for numbers, number in given:
                numbers[name] = number
            if fresh:
                self.next.fresh.add(name)

        return put_back

    def restart(self, name: str, value: int | None = None) -> None:
        """Have a sequence go on with a value, its first one without."""
        self.next[name] = self._numbers(name).start if value is None else value
        self.next.fresh.add(name)

    def stepped(self, old: Numbers, new: Numbers) -> None:
        """A sequence has another increment: what comes next follows the number that was given last by it."""
        coming = self.next.get(old.name)
        if coming is not None and coming != old.start and old.name not in self.next.fresh:
            self.next[old.name] = coming - old.increment + new.increment

    def unask(self) -> None:
        """Forget which numbers this session was given."""
        self.over(self._catalog().asker.number)

    def over(self, number: int) -> None:
        """Forget which numbers a session was given."""
        self._given.pop(number, None)

    def rename(self, old: str, new: str) -> None:
        """A sequence has another name."""
        for known in (self.next, *(one.numbers for one in self._given.values())):
            if old in known:
                known[new] = known.pop(old)
        for one in self._given.values():
            one.last = new if one.last == old else one.last

    def _mine(self) -> Given:
        return self._given.setdefault(self._catalog().asker.number, Given())

    def _numbers(self, name: str) -> Numbers:
        return self._catalog().sequence(Resolved(name))

    def take(self, name: str, count: int) -> Words:
        """The next numbers of a sequence; DataError if it has no more."""
        numbers = self._numbers(name)
        first = self.next.get(numbers.name, numbers.start)
        last = first + (count - 1) * numbers.increment
        if count and not numbers.least <= last <= numbers.most:
            return self._around(numbers, first, count)
        if count:
            self._went(numbers, last)
            self._mine().last = numbers.name
        return first + numbers.increment * np.arange(count, dtype=np.int64)

    def _around(self, numbers: Numbers, value: int, count: int) -> Words:
        """The next numbers of a sequence that reaches its end."""
        found: list[int] = []
        for _ in range(count):
            if not numbers.least <= value <= numbers.most:
                if not numbers.cycle:
                    if found:
                        self._went(numbers, found[-1])
                    end = "maximum" if numbers.increment > 0 else "minimum"
                    limit = numbers.most if numbers.increment > 0 else numbers.least
                    name = numbers.name.rpartition(".")[2]
                    error = DataError(f'nextval: reached {end} value of sequence "{name}" ({limit})')
                    error.sqlstate = "2200H"
                    raise error
                value = numbers.least if numbers.increment > 0 else numbers.most
            found.append(value)
            value += numbers.increment
        self._went(numbers, found[-1])
        self._mine().last = numbers.name
        return np.array(found, np.int64)

    def _went(self, numbers: Numbers, last: int) -> None:
        """A number was given, and none behind it."""
        self.next[numbers.name] = last + numbers.increment
        self.next.fresh.discard(numbers.name)
        self._mine().numbers[numbers.name] = last

    def begin(self, name: str, each: int) -> tuple[int, int, Numbers]:
        """A statement takes so many numbers for each row of a query: who counts, the first, the sequence."""

        numbers = self._numbers(name)
        token = DRAWN.begin()
        self._drawn.append((token, name, each))
        return token, self.next.get(numbers.name, numbers.start), numbers

    @property
    def is_drawn(self) -> bool:
        """Whether such a statement is under way."""
        return bool(self._drawn)

    def settle(self) -> None:
        """What such a statement has computed is taken; DataError if there are not as many numbers."""
        if not self._drawn:
            return

        drawn, self._drawn = self._drawn, []
        for token, name, each in drawn:
            self.take(name, each * DRAWN.end(token))

    def call(self, function: str, args: Sequence[str]) -> int:
        """What ``nextval``, ``currval``, ``setval`` or ``lastval`` gives; the first argument is a name."""
        match function, len(args):
            case "nextval", 1:
                return int(self.take(args[0], 1)[0])
            case "currval", 1:
                name = self._numbers(args[0]).name
                given = self._mine().numbers.get(name)
                if given is None:
                    plain = name.rpartition(".")[2]
                    error = InterfaceError(
                        f'currval of sequence "{plain}" is not yet defined in this session'
                    )
                    error.sqlstate = "55000"
                    raise error
                return given
            case "lastval", 0:
                mine = self._mine()
                given = mine.numbers.get(mine.last)
                if given is None or mine.last.lower() not in self._catalog().sequences:
                    error = InterfaceError("lastval is not yet defined in this session")
                    error.sqlstate = "55000"
                    raise error
                return given
            case "setval", 2 | 3:
                return self._set(args)
            case _:
                raise ProgrammingError(f"{function} does not take {len(args)} arguments")

    def _set(self, args: Sequence[str]) -> int:
        numbers = self._numbers(args[0])
        text = args[1].replace(" ", "")
        if not text.lstrip("-").isdigit():
            raise ProgrammingError(f"setval takes a number, not {args[1]}")
        value = int(text)
        if not numbers.least <= value <= numbers.most:
            bounds = f'sequence "{numbers.name.rpartition(".")[2]}" ({numbers.least}..{numbers.most})'
            error = DataError(f"setval: value {value} is out of bounds for {bounds}")
            error.sqlstate = "22003"
            raise error
        called = len(args) < 3 or args[2].lower().strip("'") in ("true", "t")
        if called:
            self._went(numbers, value)
        else:
            self.restart(numbers.name, value)
        return value


def numbered(entry: TableEntry, catalog: Catalog, places: list[int]) -> dict[int, Default]:
    """The DEFAULTs among those of ``places`` that take numbers of sequences."""
    rules = entry.constraints.rules
    if not any("(" in rules[place].default for place in places):
        return {}
    return {place: one for place, one in defaults(entry, places, catalog).items() if one.sequences}


def filled(executor: Executor, sequences: Sequences, found: dict[int, Default], words: Words) -> Words:
    """Rows with numbers of sequences in the columns that have such a DEFAULT."""
    if found:
        words = words.copy()
    taken = _taken(sequences, found, words.shape[1])
    for place, default in found.items():
        words[place] = _computed(executor, default, taken, words.shape[1])
    return words


def _taken(sequences: Sequences, found: dict[int, Default], rows: int) -> dict[str, Iterator[Words]]:
    """The numbers that the rows take, row by row: for each sequence those of one call after another."""
    uses = Counter(name for default in found.values() for name in default.sequences if name)
    return {name: iter(sequences.take(name, rows * each).reshape(-1, each).T) for name, each in uses.items()}


def default_words(
    executor: Executor,
    sequences: Sequences,
    entry: TableEntry,
    catalog: Catalog,
    places: tuple[int, ...],
    rows: int,
) -> Words:
    """The DEFAULTs of some columns ``int64[places, rows]``."""
    found = defaults(entry, places, catalog)
    taken = _taken(sequences, found, rows)
    return np.array([_computed(executor, found[place], taken, rows) for place in places], np.int64)


def with_defaults(
    executor: Executor, sequences: Sequences, entry: TableEntry, catalog: Catalog, words: Words
) -> Words:
    """Rows ``words[ncols, n]`` with DEFAULTs in the place of values that are omitted, which are ERROR.

    A column without a DEFAULT gets NULL. A sequence gives as many numbers as rows omit its column.
    """
    omitted = words == ERROR
    words = np.where(omitted, NULL, words)
    for place in np.flatnonzero(omitted.any(axis=1)).tolist():
        if entry.constraints.rule(place).default:
            rows = int(omitted[place].sum())
            found = default_words(executor, sequences, entry, catalog, (place,), rows)
            words[place, omitted[place]] = found[0]
    return np.ascontiguousarray(words)


def _computed(executor: Executor, default: Default, taken: dict[str, Iterator[Words]], rows: int) -> Words:
    numbers = [next(taken[name]) if name else np.arange(rows) for name in default.sequences]
    if isinstance(default.scalar, Column):
        return numbers[default.scalar.index]
    inputs = np.array(numbers or [np.zeros(rows, np.int64)], np.int64)
    values, _ = executor.evaluate(Mfp((), (default.scalar,)), np.ascontiguousarray(inputs))
    return values[0]
