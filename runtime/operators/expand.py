"""``plan.Expand``: set-returning calls, each of which makes rows of an input row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.functions.table_functions import Expansion, Listing, Series, row_maker
from kpg.runtime.mfp.python_calls import value_of, words_of
from kpg.runtime.operators.linear import Stateless
from kpg.runtime.operators.user import applied
from kpg.runtime.plan import Expand as Node
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, literal_text
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MIN_WORD, NULL

Words = NDArray[np.int64]
CHUNK: Final = 1 << 17
"""Rows that are made at a time, about: a series may be larger than memory, what is done with it small."""
KEPT: Final = 1 << 18
"""Words of listed rows that are kept for the same arguments to come again."""


class Counted:
    """A call whose rows are counted, then made by numpy."""

    def __init__(self, call: Expansion, maker: Series, dictionary: Dictionary) -> None:
        self._call = call
        self._maker = maker
        self._dictionary = dictionary

    def counts(self, data: Words) -> Words:
        """The number of rows of each row of ``data``."""
        given = data[list(self._call.arguments)]
        known = (given >= MIN_WORD).all(axis=0)
        result = np.zeros(data.shape[1], np.int64)
        if known.any():
            try:
                result[known] = self._maker.count(*given[:, known])
            except (ValueError, ArithmeticError) as error:
                raise _failure(self._call, given[:, known], error, self._dictionary) from error
        return result

    def rows(self, data: Words, origin: Words, place: Words) -> Words:
        """The rows at ``place`` of the rows ``origin`` of ``data``."""
        given = data[list(self._call.arguments)][:, origin]
        return self._maker.make(place, *given).reshape(1, -1)


class Listed:
    """A call whose rows Python lists, once for each distinct combination of arguments."""

    def __init__(self, call: Expansion, maker: Listing, dictionary: Dictionary) -> None:
        self._call = call
        self._function = maker.build(call.argument_types, call.types)
        self._takes_nulls = maker.takes_nulls
        self._dictionary = dictionary
        self._known: dict[tuple[int, ...], Words] = {}
        self._words = 0
        self._found: list[Words] = []

    def counts(self, data: Words) -> Words:
        """The number of rows of each row of ``data``; what they are is kept for :meth:`rows`."""
        keys = list(zip(*data[list(self._call.arguments)].tolist(), strict=True))
        self._found = [self._listed(key) for key in keys or [()] * data.shape[1]]
        return np.array([one.shape[1] for one in self._found], np.int64)

    def rows(self, data: Words, origin: Words, place: Words) -> Words:
        """The rows at ``place`` of the rows ``origin`` of ``data``."""
        if not len(origin):
            return np.empty((len(self._call.types), 0), np.int64)
        starts = np.cumsum([0, *(one.shape[1] for one in self._found)], dtype=np.int64)
        return np.concatenate(self._found, axis=1)[:, starts[origin] + place]

    def _listed(self, key: tuple[int, ...]) -> Words:
        known = self._known.get(key)
        if known is None:
            known = self._made(key)
            if self._words + known.size + len(key) > KEPT:
                self._known.clear()
                self._words = 0
            self._known[key] = known
            self._words += known.size + len(key)
        return known

    def _made(self, key: tuple[int, ...]) -> Words:
        call = self._call
        if NULL in key and not self._takes_nulls:
            return np.empty((len(call.types), 0), np.int64)
        pairs = zip(key, call.argument_types, strict=True)
        values = [value_of(word, type_, self._dictionary) for word, type_ in pairs]
        try:
            listed = [tuple(row) for row in self._function(*values)]
        except (ValueError, ArithmeticError) as error:
            given = np.array(key, np.int64).reshape(-1, 1)
            raise _failure(call, given, error, self._dictionary) from error
        columns = list(zip(*listed, strict=True)) or [()] * len(call.types)
        words = [
            words_of(list(column), type_, self._dictionary)
            for column, type_ in zip(columns, call.types, strict=True)
        ]
        return np.array(words, np.int64).reshape(len(call.types), -1)


def _failure(call: Expansion, given: Words, error: Exception, dictionary: Dictionary) -> DataError:
    args: list[Any] = []
    for word, type_ in zip(given[:, 0].tolist(), call.argument_types, strict=True):
        value = None if word == NULL else dictionary.get(word) if type_.is_interned else word
        args.append(literal_text(Literal(value, type_)))
    shown = f"{call.function}({', '.join(args)})" if given.shape[1] == 1 else call.text or call.function
    return DataError(f"{error} in {shown}")


class Expander:
    """Makes the rows of an ``Expand``, by parts of bounded size."""

    def __init__(self, node: Node, dictionary: Dictionary) -> None:
        self._node = node
        self._calls: list[Counted | Listed] = []
        for call in node.calls:
            maker = row_maker(call)
            if isinstance(maker, Series):
                self._calls.append(Counted(call, maker, dictionary))
            else:
                self._calls.append(Listed(call, maker, dictionary))

    def apply(self, updates: Updates) -> Iterator[Updates]:
        """The rows of each update, at its time and with its diff; DataError before any if a call fails."""
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
            origin, place = _places(total, start, min(start + CHUNK, whole))
            parts = [updates.data[: self._node.kept, origin]]
            for call, count, made in zip(self._calls, counts, self._node.calls, strict=True):
                parts.append(_padded(call, updates.data, count, origin, place, len(made.types)))
            if self._node.ordinality:
                ordinal = place + 1
                if self._node.outer:
                    ordinal[np.maximum.reduce(counts)[origin] == 0] = NULL
                parts.append(ordinal.reshape(1, -1))
            yield updates.take(origin).with_data(np.ascontiguousarray(np.concatenate(parts, axis=0)))


def _places(total: Words, start: int, stop: int) -> tuple[Words, Words]:
    """Rows ``start .. stop`` of all that ``total`` counts: whose they are, and which of its rows."""
    ends = np.cumsum(np.minimum(total, np.int64(2**62) // max(len(total), 1)))
    numbers = np.arange(start, stop, dtype=np.int64)
    origin = np.searchsorted(ends, numbers, side="right").astype(np.int64)
    return origin, numbers - (ends - total)[origin]


def _padded(
    call: Counted | Listed, data: Words, count: Words, origin: Words, place: Words, width: int
) -> Words:
    """The call's rows, NULLs where it has fewer than another."""
    there = place < count[origin]
    if there.all():
        return call.rows(data, origin, place)
    result = np.full((width, len(origin)), NULL, np.int64)
    result[:, there] = call.rows(data, origin[there], place[there])
    return result


@dataclass(slots=True, eq=False, kw_only=True)
class Expand(Stateless):
    """The calls over every update. A row that came and went in one step may fail: it is not there."""

    expander: Expander
    poll: Callable[[], None]

    def flush(self) -> None:
        for result in self._all(self.take()):
            self.emit(result, more=True)

    def snapshot(self) -> Iterator[Updates]:
        yield from self._all(self.inputs[0].snapshot())

    def _all(self, parts: Iterable[Updates]) -> Iterator[Updates]:
        for results in applied(self.expander.apply, parts):
            for result in results:
                self.poll()
                yield result
