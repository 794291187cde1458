"""Column defaults and sequences: values for columns that a statement does not set.

``Sequences`` holds the position of each sequence. As in Postgres, a rollback does not return its numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.qualified_names import QualifiedName
from kpg.compiler.sql.rewrite.column_expressions import Default, bind_defaults
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.functions.mathematics import SEQUENCE_CALLS
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column
from kpg.runtime.types import ERROR, NULL

Words = NDArray[np.int64]


class NextNumbers(dict[str, int]):
    """The next number of each sequence; ``fresh`` has the sequences that were set and not used since."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: set[str] = set()


class SessionNumbers:
    """The last number of each sequence in a session, and the sequence of ``lastval``."""

    def __init__(self) -> None:
        self.last = ""
        self.numbers: dict[str, int] = {}

    def copy(self) -> "SessionNumbers":
        """Return an independent copy."""
        result = SessionNumbers()
        result.last, result.numbers = self.last, dict(self.numbers)
        return result


class Sequences:
    """Positions of all sequences, and the last numbers of each session."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog
        self.next = NextNumbers()
        catalog().next_values = lambda: self.next
        self._sessions: dict[int, SessionNumbers] = {}
        """Last numbers by session number."""
        self._row_counters: list[tuple[int, str, int]] = []

    def copy_from(self, other: "Sequences") -> None:
        """Take over the positions of a database with the same sequences."""
        self.next.clear()
        self.next.update(other.next)
        self.next.fresh = set(other.next.fresh)
        self._sessions = {number: session.copy() for number, session in other._sessions.items()}

    def advance_past(self, other: "Sequences") -> None:
        """Advance sequences that another database has advanced further."""
        for name, value in other.next.items():
            if self._catalog().find_sequence(QualifiedName(name)) is not None:
                numbers = self._numbers(name)
                here = self.next.get(numbers.name, numbers.start)
                self.next[numbers.name] = max(here, value) if numbers.increment > 0 else min(here, value)

    def remove(self, name: str) -> Callable[[], None]:
        """Remove or reset a sequence; return a function that restores its position."""
        position, fresh = self.next.pop(name, None), name in self.next.fresh
        given = [
            (session.numbers, session.numbers.pop(name))
            for session in self._sessions.values()
            if name in session.numbers
        ]
        self.next.fresh.discard(name)

        def put_back() -> None:
            self.remove(name)
            if position is not None:
                self.next[name] = position
            for numbers, number in given:
                numbers[name] = number
            if fresh:
                self.next.fresh.add(name)

        return put_back

    def restart(self, name: str, value: int | None = None) -> None:
        """Restart a sequence at a value, by default at its start value."""
        self.next[name] = self._numbers(name).start if value is None else value
        self.next.fresh.add(name)

    def change_increment(self, old: Numbers, new: Numbers) -> None:
        """Adapt the next number to a new increment."""
        coming = self.next.get(old.name)
        if coming is not None and coming != old.start and old.name not in self.next.fresh:
            self.next[old.name] = coming - old.increment + new.increment

    def forget_session(self) -> None:
        """Forget the last numbers of the current session."""
        self.end_session(self._catalog().asker.number)

    def end_session(self, number: int) -> None:
        """Forget the last numbers of a session."""
        self._sessions.pop(number, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a sequence."""
        for known in (self.next, *(one.numbers for one in self._sessions.values())):
            if old in known:
                known[new] = known.pop(old)
        for session in self._sessions.values():
            session.last = new if session.last == old else session.last

    def _session_numbers(self) -> SessionNumbers:
        return self._sessions.setdefault(self._catalog().asker.number, SessionNumbers())

    def _numbers(self, name: str) -> Numbers:
        return self._catalog().sequence(QualifiedName(name))

    def next_values(self, name: str, count: int) -> Words:
        """Return the next ``count`` numbers of a sequence; DataError if it is exhausted."""
        numbers = self._numbers(name)
        first = self.next.get(numbers.name, numbers.start)
        last = first + (count - 1) * numbers.increment
        if count and not numbers.least <= last <= numbers.most:
            return self._next_values_at_limit(numbers, first, count)
        if count:
            self._advance(numbers, last)
            self._session_numbers().last = numbers.name
        return first + numbers.increment * np.arange(count, dtype=np.int64)

    def _next_values_at_limit(self, numbers: Numbers, value: int, count: int) -> Words:
        """Return the next numbers of a sequence that reaches its limit."""
        found: list[int] = []
        for _ in range(count):
            if not numbers.least <= value <= numbers.most:
                if not numbers.cycle:
                    if found:
                        self._advance(numbers, found[-1])
                    end = "maximum" if numbers.increment > 0 else "minimum"
                    limit = numbers.most if numbers.increment > 0 else numbers.least
                    name = numbers.name.rpartition(".")[2]
                    error = DataError(f'nextval: reached {end} value of sequence "{name}" ({limit})')
                    error.sqlstate = "2200H"
                    raise error
                value = numbers.least if numbers.increment > 0 else numbers.most
            found.append(value)
            value += numbers.increment
        self._advance(numbers, found[-1])
        self._session_numbers().last = numbers.name
        return np.array(found, np.int64)

    def _advance(self, numbers: Numbers, last: int) -> None:
        """Record the last number that was returned."""
        self.next[numbers.name] = last + numbers.increment
        self.next.fresh.discard(numbers.name)
        self._session_numbers().numbers[numbers.name] = last

    def begin_row_numbers(self, name: str, each: int) -> tuple[int, int, Numbers]:
        """Start a statement that draws ``each`` numbers per row of a query.

        Returns:
            The token of the row counter, the first number, and the sequence.
        """

        numbers = self._numbers(name)
        token = SEQUENCE_CALLS.begin()
        self._row_counters.append((token, name, each))
        return token, self.next.get(numbers.name, numbers.start), numbers

    @property
    def has_row_numbers(self) -> bool:
        """Whether a statement draws numbers per row."""
        return bool(self._row_counters)

    def finish_row_numbers(self) -> None:
        """Advance the sequences by the numbers the statement has drawn; DataError if one is exhausted."""
        if not self._row_counters:
            return

        counters, self._row_counters = self._row_counters, []
        for token, name, each in counters:
            self.next_values(name, each * SEQUENCE_CALLS.end(token))

    def call(self, function: str, args: Sequence[str]) -> int:
        """Return the value of nextval, currval, setval or lastval; the first argument is a name."""
        match function, len(args):
            case "nextval", 1:
                return int(self.next_values(args[0], 1)[0])
            case "currval", 1:
                name = self._numbers(args[0]).name
                given = self._session_numbers().numbers.get(name)
                if given is None:
                    plain = name.rpartition(".")[2]
                    error = InterfaceError(
                        f'currval of sequence "{plain}" is not yet defined in this session'
                    )
                    error.sqlstate = "55000"
                    raise error
                return given
            case "lastval", 0:
                mine = self._session_numbers()
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
            self._advance(numbers, value)
        else:
            self.restart(numbers.name, value)
        return value


def sequence_defaults(entry: TableEntry, catalog: Catalog, positions: list[int]) -> dict[int, Default]:
    """Return the DEFAULTs of columns that draw numbers of sequences."""
    rules = entry.constraints.rules
    if not any("(" in rules[place].default for place in positions):
        return {}
    return {
        place: default
        for place, default in bind_defaults(entry, positions, catalog).items()
        if default.sequences
    }


def fill_sequence_defaults(
    executor: Executor, sequences: Sequences, sequence_columns: dict[int, Default], words: Words
) -> Words:
    """Return rows with sequence numbers in the columns of such DEFAULTs."""
    if sequence_columns:
        words = words.copy()
    drawn = _draw_numbers(sequences, sequence_columns, words.shape[1])
    for place, default in sequence_columns.items():
        words[place] = _evaluate_default(executor, default, drawn, words.shape[1])
    return words


def _draw_numbers(
    sequences: Sequences, sequence_columns: dict[int, Default], rows: int
) -> dict[str, Iterator[Words]]:
    """Draw the numbers for all rows; for each sequence yield those of one call after another."""
    uses = Counter(name for default in sequence_columns.values() for name in default.sequences if name)
    return {
        name: iter(sequences.next_values(name, rows * each).reshape(-1, each).T)
        for name, each in uses.items()
    }


def default_words(
    executor: Executor,
    sequences: Sequences,
    entry: TableEntry,
    catalog: Catalog,
    positions: tuple[int, ...],
    rows: int,
) -> Words:
    """Return the DEFAULTs of some columns as ``int64[places, rows]``."""
    columns = bind_defaults(entry, positions, catalog)
    drawn = _draw_numbers(sequences, columns, rows)
    return np.array(
        [_evaluate_default(executor, columns[place], drawn, rows) for place in positions], np.int64
    )


def with_defaults(
    executor: Executor, sequences: Sequences, entry: TableEntry, catalog: Catalog, words: Words
) -> Words:
    """Return rows ``words[ncols, n]`` with DEFAULTs in place of omitted values, which are ERROR.

    A column without a DEFAULT gets NULL. A sequence advances by the number of rows that omit its
    column.
    """
    omitted = words == ERROR
    words = np.where(omitted, NULL, words)
    for place in np.flatnonzero(omitted.any(axis=1)).tolist():
        if entry.constraints.rule(place).default:
            rows = int(omitted[place].sum())
            values = default_words(executor, sequences, entry, catalog, (place,), rows)
            words[place, omitted[place]] = values[0]
    return np.ascontiguousarray(words)


def _evaluate_default(
    executor: Executor, default: Default, drawn: dict[str, Iterator[Words]], rows: int
) -> Words:
    numbers = [next(drawn[name]) if name else np.arange(rows) for name in default.sequences]
    if isinstance(default.scalar, Column):
        return numbers[default.scalar.index]
    inputs = np.array(numbers or [np.zeros(rows, np.int64)], np.int64)
    values, _ = executor.evaluate(Mfp((), (default.scalar,)), np.ascontiguousarray(inputs))
    return values[0]
