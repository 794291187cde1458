"""``plan.Expand``: set-returning functions, which turn an input row into any number of rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions.table_functions import Expansion, RowGenerator, Series, row_maker
from kpg.runtime.mfp.python_calls import value_of, words_of
from kpg.runtime.operators.user import apply_with_retry
from kpg.runtime.plan import Expand as Node
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, literal_text
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MIN_WORD, NULL

Words = NDArray[np.int64]
CHUNK: Final = 1 << 17
"""Approximate rows per output chunk: a series may exceed memory while its consumers' state is small."""
CACHE_WORDS: Final = 1 << 18
"""Size in words of the cache of listed rows by argument."""


class SeriesCall:
    """Call whose rows numpy computes once they are counted."""

    def __init__(self, call: Expansion, maker: Series, dictionary: Dictionary) -> None:
        self._call = call
        self._maker = maker
        self._dictionary = dictionary

    def counts(self, data: Words) -> Words:
        """Return the number of result rows for each row of ``data``."""
        arguments = data[list(self._call.arguments)]
        non_null = (arguments >= MIN_WORD).all(axis=0)
        result = np.zeros(data.shape[1], np.int64)
        if non_null.any():
            try:
                result[non_null] = self._maker.count(*arguments[:, non_null])
            except (ValueError, ArithmeticError) as error:
                raise _call_error(self._call, arguments[:, non_null], error, self._dictionary) from error
        return result

    def rows(self, data: Words, origin: Words, place: Words) -> Words:
        """Return the result rows at ``place`` of the rows ``origin`` of ``data``."""
        arguments = data[list(self._call.arguments)][:, origin]
        return self._maker.make(place, *arguments).reshape(1, -1)


class ListingCall:
    """Call whose rows a Python function lists, once for each distinct combination of arguments."""

    def __init__(self, call: Expansion, maker: RowGenerator, dictionary: Dictionary) -> None:
        self._call = call
        self._function = maker.build(call.argument_types, call.types)
        self._takes_nulls = maker.takes_nulls
        self._dictionary = dictionary
        self._cache: dict[tuple[int, ...], Words] = {}
        self._cached_words = 0
        self._results: list[Words] = []

    def counts(self, data: Words) -> Words:
        """Return the number of result rows for each row of ``data``, and store the rows for :meth:`rows`."""
        keys = list(zip(*data[list(self._call.arguments)].tolist(), strict=True))
        self._results = [self._cached_rows(key) for key in keys or [()] * data.shape[1]]
        return np.array([rows.shape[1] for rows in self._results], np.int64)

    def rows(self, data: Words, origin: Words, place: Words) -> Words:
        """Return the result rows at ``place`` of the rows ``origin`` of ``data``."""
        if not len(origin):
            return np.empty((len(self._call.types), 0), np.int64)
        starts = np.cumsum([0, *(result.shape[1] for result in self._results)], dtype=np.int64)
        return np.concatenate(self._results, axis=1)[:, starts[origin] + place]

    def _cached_rows(self, key: tuple[int, ...]) -> Words:
        rows = self._cache.get(key)
        if rows is None:
            rows = self._compute_rows(key)
            if self._cached_words + rows.size + len(key) > CACHE_WORDS:
                self._cache.clear()
                self._cached_words = 0
            self._cache[key] = rows
            self._cached_words += rows.size + len(key)
        return rows

    def _compute_rows(self, key: tuple[int, ...]) -> Words:
        call = self._call
        if NULL in key and not self._takes_nulls:
            return np.empty((len(call.types), 0), np.int64)
        pairs = zip(key, call.argument_types, strict=True)
        values = [value_of(word, type_, self._dictionary) for word, type_ in pairs]
        try:
            rows = [tuple(row) for row in self._function(*values)]
        except (ValueError, ArithmeticError) as error:
            arguments = np.array(key, np.int64).reshape(-1, 1)
            raise _call_error(call, arguments, error, self._dictionary) from error
        columns = list(zip(*rows, strict=True)) or [()] * len(call.types)
        words = [
            words_of(list(column), type_, self._dictionary)
            for column, type_ in zip(columns, call.types, strict=True)
        ]
        return np.array(words, np.int64).reshape(len(call.types), -1)


def _call_error(call: Expansion, arguments: Words, error: Exception, dictionary: Dictionary) -> DataError:
    args: list[Any] = []
    for word, type_ in zip(arguments[:, 0].tolist(), call.argument_types, strict=True):
        value = None if word == NULL else dictionary.get(word) if type_.is_interned else word
        args.append(literal_text(Literal(value, type_)))
    text = f"{call.function}({', '.join(args)})" if arguments.shape[1] == 1 else call.text or call.function
    return DataError(f"{error} in {text}")


class Expander:
    """Computes the rows of an ``Expand`` in parts of bounded size."""

    def __init__(self, node: Node, dictionary: Dictionary) -> None:
        self._node = node
        self._calls: list[SeriesCall | ListingCall] = []
        for call in node.calls:
            maker = row_maker(call)
            if isinstance(maker, Series):
                self._calls.append(SeriesCall(call, maker, dictionary))
            else:
                self._calls.append(ListingCall(call, maker, dictionary))

    def apply(self, updates: Updates) -> Iterator[Updates]:
        """Return the rows of each update, at its time and with its diff.

        Raises DataError first if a call fails.
        """
        data = updates.data
        counts = [call.counts(data) for call in self._calls]
        total = np.maximum.reduce(counts)
        if self._node.outer:
            total = np.maximum(total, 1)
        return self._parts(updates, counts, total)

    def _parts(self, updates: Updates, counts: Sequence[Words], total: Words) -> Iterator[Updates]:
        ends = np.cumsum(total.astype(np.float64))
        whole = int(total.sum()) if not len(ends) or ends[-1] < 2.0**62 else 2**62
        for start in range(0, whole, CHUNK):
            origin, place = _result_positions(total, start, min(start + CHUNK, whole))
            parts = [updates.data[: self._node.kept, origin]]
            for call, count, expansion in zip(self._calls, counts, self._node.calls, strict=True):
                parts.append(_pad_rows(call, updates.data, count, origin, place, len(expansion.types)))
            if self._node.ordinality:
                ordinal = place + 1
                if self._node.outer:
                    ordinal[np.maximum.reduce(counts)[origin] == 0] = NULL
                parts.append(ordinal.reshape(1, -1))
            yield updates.take(origin).with_data(np.ascontiguousarray(np.concatenate(parts, axis=0)))


def _result_positions(total: Words, start: int, stop: int) -> tuple[Words, Words]:
    """Return for result rows ``start .. stop`` their input row and their number within it."""
    ends = np.cumsum(np.minimum(total, np.int64(2**62) // max(len(total), 1)))
    numbers = np.arange(start, stop, dtype=np.int64)
    origin = np.searchsorted(ends, numbers, side="right").astype(np.int64)
    return origin, numbers - (ends - total)[origin]


def _pad_rows(
    call: SeriesCall | ListingCall, data: Words, count: Words, origin: Words, place: Words, width: int
) -> Words:
    """Return the call's rows, padded with NULLs to the longest call."""
    there = place < count[origin]
    if there.all():
        return call.rows(data, origin, place)
    result = np.full((width, len(origin)), NULL, np.int64)
    result[:, there] = call.rows(data, origin[there], place[there])
    return result


@dataclass(slots=True, eq=False, kw_only=True)
class Expand(Operator):
    """Applies the calls to every update. Rows that cancel out within a step cannot raise errors."""

    expander: Expander
    poll: Callable[[], None]

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.place.scope.forward(self, port, updates)

    def flush(self) -> None:
        for result in self._expand_parts(self.take_pending()):
            self.emit(result, more=True)

    def snapshot(self) -> Iterator[Updates]:
        yield from self._expand_parts(self.inputs[0].snapshot())

    def _expand_parts(self, parts: Iterable[Updates]) -> Iterator[Updates]:
        for results in apply_with_retry(self.expander.apply, parts):
            for result in results:
                self.poll()
                yield result
