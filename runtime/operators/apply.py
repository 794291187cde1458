"""``user.Apply``: a user's function over every row, by columns or one row at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.foreign import from_arrays, from_rows, to_arrays
from kpg.runtime.convert.lists import to_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error
from kpg.runtime.operators.linear import Stateless
from kpg.runtime.plan.user import Apply as Node
from kpg.runtime.plan.user import Kind
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MAX_WORD

Words = NDArray[np.int64]
Result = TypeVar("Result")
ROWS_BETWEEN_POLLS = 256
"""Calls of a user's function between looks for Ctrl-C, which shall not show in what a row costs."""


class Caller:
    """Calls a user's function on words, and turns what it raises into a DataError that names the row."""

    def __init__(self, node: Node, dictionary: Dictionary, poll: Callable[[], None]) -> None:
        self._node = node
        self._poll = poll
        self._function = node.function.value
        self._dictionary = dictionary

    def apply(self, updates: Updates) -> Updates:
        """What the function makes of the updates; DataError if it fails."""
        match self._node.kind:
            case Kind.MAP_COLUMNS:
                return updates.with_data(self._checked(self._map_columns, updates.data))
            case Kind.FILTER_COLUMNS:
                return updates.take(self._checked(self._filter_columns, updates.data))
            case Kind.MAP_ROWS:
                return updates.with_data(self._encode(self._each(updates.data)))
            case Kind.FILTER_ROWS:
                kept = [place for place, passes in enumerate(self._each(updates.data)) if passes]
                return updates.take(np.array(kept, np.int64))
            case Kind.FLAT_MAP:
                return self._flat(updates, [[(row, 1) for row in rows] for rows in self._lists(updates.data)])
            case Kind.EXPLODE:
                return self._flat(updates, self._lists(updates.data))

    def _rows(self, data: Words) -> list[tuple[Any, ...]]:
        return to_rows(data, self._node.given.types, self._dictionary)

    def _each(self, data: Words, collect: Callable[[Any], Any] | None = None) -> list[Any]:
        """What the function gives for each row, after ``collect``; Ctrl-C is noticed on the way."""
        results = []
        for number, row in enumerate(self._rows(data)):
            if not number % ROWS_BETWEEN_POLLS:
                self._poll()
            try:
                result = self._function(*row)
                results.append(result if collect is None else collect(result))
            except Exception as error:
                raise self._failure(row, error) from error
        return results

    def _lists(self, data: Words) -> list[list[Any]]:
        """As :meth:`_each`, the results, which may be generators, run to their end."""
        return self._each(data, list)

    def _flat(self, updates: Updates, found: list[list[Any]]) -> Updates:
        """Each (row, multiplicity) of place i at the time of update i, times its diff."""
        places = np.repeat(np.arange(len(found)), [len(pairs) for pairs in found]).astype(np.int64)
        try:
            counts = np.array([count for pairs in found for _, count in pairs], np.int64)
            rows = [row for pairs in found for row, _ in pairs]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self._node.function.name} must give (row, multiplicity) pairs: {error}"
            ) from error
        taken = updates.take(places)
        return Updates(self._encode(rows), taken.time, product(taken.diffs(), counts))

    def _encode(self, rows: list[Any]) -> Words:
        try:
            return from_rows(rows, self._node.result, self._dictionary)
        except Error as error:
            raise DataError(
                f"{self._node.function.name} gave a wrong row: {error.message}", hint=error.hint
            ) from error

    def _map_columns(self, data: Words) -> Words:
        result = self._call(data)
        if len(self._node.result.types) == 1 and not isinstance(result, (tuple, list)):
            result = (result,)
        return from_arrays(result, self._node.result, self._dictionary, data.shape[1])

    def _filter_columns(self, data: Words) -> Words:
        mask = np.asarray(self._call(data))
        if mask.dtype != np.bool_ or mask.shape != (data.shape[1],):
            raise DataError(
                f"{self._node.function.name} gave {mask.dtype} of shape {mask.shape}, expected one bool a row"
            )
        return np.flatnonzero(mask)

    def _call(self, data: Words) -> Any:
        return self._function(*to_arrays(data, self._node.given, self._dictionary))

    def _checked(self, function: Any, data: Words) -> Words:
        try:
            result: Words = function(data)
        except Exception as error:
            row = self._culprit(function, data)
            raise self._failure(row, error) from error
        return result

    def _culprit(self, function: Any, data: Words) -> tuple[Any, ...] | None:
        """A row on which alone the function fails, found by halving; None if there is none."""
        low, high = 0, data.shape[1]
        while high - low > 1:
            middle = (low + high) // 2
            fails = _fails(function, data, low, middle)
            low, high = (low, middle) if fails else (middle, high)
        if high == low or not _fails(function, data, low, high):
            return None
        return self._rows(np.ascontiguousarray(data[:, low:high]))[0]

    def _failure(self, row: tuple[Any, ...] | None, error: Exception) -> DataError:
        return failure(self._node.function.name, f"on row {row}" if row is not None else "", error)


def product(diffs: Words, counts: Words) -> Words:
    """The products of multiplicities; DataError if one does not fit 64 bits."""
    if diffs.shape[0] and int(np.abs(diffs).max()) * int(np.abs(counts).max()) > MAX_WORD:
        raise DataError("multiplicity overflow: a row occurs more often than a 64-bit count can hold")
    return diffs * counts


def _fails(function: Any, data: Words, low: int, high: int) -> bool:
    try:
        function(np.ascontiguousarray(data[:, low:high]))
    except Exception:
        return True
    return False


def failure(name: str, where: str, error: Exception) -> DataError:
    """The error of a user's function; the cause is to be chained by ``from``."""
    what = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return DataError(
        f"{name} failed{' ' if where else ''}{where}: {what}",
        hint="the step was rolled back; correct the row",
    )


def applied(apply: Callable[[Updates], Result], parts: Iterable[Updates]) -> Iterator[Result]:
    """What becomes of each part; parts that fail are tried again together, without what cancels out."""
    failed = []
    for updates in parts:
        try:
            result = apply(updates)
        except DataError:
            failed.append(updates)
        else:
            yield result
    if failed:
        yield apply(Updates.concat(failed).consolidate())


@dataclass(slots=True, eq=False, kw_only=True)
class Apply(Stateless):
    """The function over every update. A row that came and went in one step may fail: it is not there."""

    caller: Caller

    def flush(self) -> None:
        for result in applied(self.caller.apply, self.take()):
            self.emit(result)

    def snapshot(self) -> Iterator[Updates]:
        for result in applied(self.caller.apply, self.inputs[0].snapshot()):
            if len(result):
                yield result
