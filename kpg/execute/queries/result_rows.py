"""Result rows: expands multiplicities, applies ORDER BY, drops hidden columns, and decodes words.

``Folds`` holds user-defined SQL aggregates, as the functions over arrays that plans call.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, Row
from kpg.compiler.algebra.rel import OrderBy
from kpg.compiler.catalog.routines import ArrayFold
from kpg.runtime.convert.python_values import to_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Error, InternalError
from kpg.runtime.executor import Executor
from kpg.runtime.functions.comparison import equality_key_encoder
from kpg.runtime.functions.registry import MemoizedFunction, NullRule, Overload, ScalarFunction, Signature
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, UserFunctionName
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, Kind, Type, array, is_loose
from kpg.runtime.values import codec_of
from kpg.runtime.values.codec import word_functions

if TYPE_CHECKING:
    import pyarrow

    from kpg.runtime.convert import arrow
else:
    arrow = LazyModule("kpg.runtime.convert.arrow")


Words = NDArray[np.int64]


class Strings(Protocol):
    """The methods of ``runtime.dictionary.Dictionary`` that sorting uses."""

    def decode(self, words: Words) -> list[str | None]:
        """Return the strings of codes."""


@dataclass(frozen=True, slots=True)
class EncodedContents:
    """Contents of a result: read-only ``words int64[w, n]``, decoded to values on demand."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    words: Words
    dictionary: Dictionary

    def __len__(self) -> int:
        return self.words.shape[1]

    def arrow(self) -> "pyarrow.Table":
        return arrow.decode_table(self.words, self.names, self.types, self.dictionary)

    def part(self, start: int, stop: int | None) -> list[Row]:
        return _rows(self.words[:, start:stop], self.types, self.dictionary)


@dataclass(frozen=True, slots=True)
class Reader:
    """Decodes the output of a plan: ``types`` of all its columns, ``names`` of the visible first ones."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    order: tuple[OrderBy, ...]
    dictionary: Dictionary
    origins: tuple[tuple[str, int], ...] = ()
    """Relation columns from which the columns come; see ``kpg.compiler.sql.frontend``."""

    @property
    def visible_types(self) -> tuple[Type, ...]:
        """Types of the visible columns."""
        return self.types[: len(self.names)]

    def result(self, data: Words, diff: Words) -> Result:
        """Return rows ``int64[w, n]`` as a result, each ``diff`` times, in the query's order."""
        expanded = expand(data, diff)
        if self.order:
            expanded = expanded[:, permutation(expanded, self.order, self.types, self.dictionary)]
        types = self.visible_types
        contents = EncodedContents(self.names, types, self._visible(expanded), self.dictionary)
        return Result(self.names, types, contents, self.origins)

    def values(self, data: Words, column: int) -> list[Any]:
        """Return the values of a column, in row order."""
        words = self._visible(data)[column : column + 1]
        return [
            value for (value,) in _rows(np.ascontiguousarray(words), (self.types[column],), self.dictionary)
        ]

    def changes(self, updates: Sequence[Updates]) -> list[tuple[Row, Any, int]]:
        """Return updates as (row, time, diff), in order of time. Changes of hidden columns cancel out.

        Times of several coordinates are tuples.
        """
        if not updates:
            return []
        net = Updates.concat(updates)
        if len(self.types) > len(self.names):
            net = net.with_data(np.ascontiguousarray(net.data[: len(self.names)]))
        net = net.consolidate()
        net = net.take(np.lexsort(net.times()[::-1]))
        rows = _rows(self._visible(net.data), self.visible_types, self.dictionary)
        times = net.times()[0].tolist() if net.depth == 1 else list(zip(*net.times().tolist(), strict=True))
        return list(zip(rows, times, net.diffs().tolist(), strict=True))

    def snapshot(self, data: Words, diff: Words, epoch: int) -> list[tuple[Row, Any, int]]:
        """Return contents as changes from the empty collection."""
        return self.changes([Updates.of(data, (epoch,), diff)] if data.shape[1] else [])

    def _visible(self, data: Words) -> Words:
        """Return the visible columns; InternalError if one contains the ERROR word."""
        visible = data[: len(self.names)]
        if (visible == ERROR).any():
            name = self.names[int(np.argmax((visible == ERROR).any(axis=1)))]
            raise InternalError(f"column {name} holds the result of a failed operation")
        return visible


def literal_of(word: int, type_: Type, dictionary: Dictionary) -> Literal:
    """Return a word as a constant."""
    if word == NULL:
        return Literal(None, type_)
    return Literal(dictionary.get(word) if type_.is_interned else int(word), type_)


def plain_value(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """Return a word as the value that Python functions of plans take; None for NULL."""
    if word == NULL:
        return None
    if type_.is_interned:
        text = dictionary.get(word)
        return text if type_.is_text else codec_of(type_).decode(text)
    return word_functions(type_)[1](word)


def word_of(value: Any, type_: Type, dictionary: Dictionary) -> int:
    """Return the word of a value; the inverse of :func:`plain_value`."""
    if value is None:
        return NULL
    if type_.is_interned:
        return dictionary.code(value if type_.is_text else codec_of(type_).encode(value))
    return int(word_functions(type_)[0](value))


def words_of(result: Result, dictionary: Dictionary) -> Words:
    """Return the rows of a result as words ``int64[w, n]``."""
    contents = result.contents
    if isinstance(contents, EncodedContents):
        return contents.words[: len(result.columns)]
    rows = [
        [
            NULL if value is None else word_of(codec_of(type_).from_python(value), type_, dictionary)
            for value, type_ in zip(row, result.types, strict=True)
        ]
        for row in result.part()
    ]
    return np.array(rows, np.int64).T.reshape(len(result.types), len(rows))


def _rows(words: Words, types: tuple[Type, ...], dictionary: Dictionary) -> list[Row]:
    """Return rows as tuples; intervals of months become Arrow's triples, as Python has no such type."""
    rows = to_rows(words, types, dictionary)
    months = [place for place, type_ in enumerate(types) if type_.kind is Kind.INTERVAL_MONTH]
    if not months:
        return rows
    import pyarrow

    return [
        tuple(
            pyarrow.MonthDayNano((value, 0, 0)) if place in months and value is not None else value
            for place, value in enumerate(row)
        )
        for row in rows
    ]


def expand(data: Words, diff: Words) -> Words:
    """Repeat each row of ``data`` (int64[w, n]) ``diff`` (int64[n] or [1]) times."""
    if (diff == 1).all():
        return data
    counts = np.broadcast_to(diff, (data.shape[1],))
    return np.repeat(data, np.maximum(counts, 0), axis=1)


def permutation(data: Words, order: Sequence[OrderBy], types: Sequence[Type], strings: Strings) -> Words:
    """Return the stable order of rows ``data`` (int64[w, n]) by ``order``; text compares by code point."""
    keys: list[Words] = []
    for item in order:
        words = data[item.column]
        type_ = types[item.column]
        ranks = _text_ranks(words, strings, type_) if type_.is_interned else words
        null = words == NULL
        keys.append((null != item.nulls_first).astype(np.int64))
        keys.append(np.where(null, 0, ~ranks if item.descending else ranks))
    return np.lexsort(keys[::-1]) if keys else np.arange(data.shape[1])


def _text_ranks(words: Words, strings: Strings, type_: Type) -> Words:
    """Return the rank of each word's string; equal values have equal ranks."""
    codes, positions = np.unique(words, return_inverse=True)
    texts = strings.decode(codes)
    if is_loose(type_):
        of_key = equality_key_encoder(type_)
        texts = [None if text is None else of_key(text) for text in texts]
        ranking = {text: rank for rank, text in enumerate(sorted({text or "" for text in texts}))}
        return np.array([ranking[text or ""] for text in texts], np.int64)[positions]
    ranks = np.empty(len(codes), np.int64)
    ranks[sorted(range(len(codes)), key=lambda index: texts[index] or "")] = np.arange(len(codes))
    return ranks[positions]


class Folds:
    """The folds of a database, each with the name by which plans call it."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._names: dict[ArrayFold, UserFunctionName[Any]] = {}

    def find(self, fold: ArrayFold) -> UserFunctionName[Any] | None:
        """Return the name of a fold, if it has one."""
        return self._names.get(fold)

    def register(self, fold: ArrayFold, name: UserFunctionName[Any]) -> None:
        """Bind a name that plans contain to a fold."""
        name.definition = self._definition(fold, name)
        self._names[fold] = name

    def _definition(self, fold: ArrayFold, name: UserFunctionName[Any]) -> ScalarFunction:
        dictionary = self._executor.dictionary

        def call(*arrays: Any) -> object:
            try:
                return plain_value(self._fold(fold, arrays), fold.result, dictionary)
            except Error as error:
                raise ValueError(error.message) from error

        types = tuple(array(item) for item in fold.items)
        overload = Overload(
            lambda _: Signature(types, fold.result), MemoizedFunction(lambda _: call, takes_nulls=True)
        )
        return ScalarFunction(name, fold.label, "", {}, (overload,), NullRule.CALLED_ON_NULL)

    def _fold(self, fold: ArrayFold, arrays: Sequence[Any]) -> int:
        """Return the result for arrays, which are None for no rows."""
        dictionary = self._executor.dictionary
        state, start = self._evaluate(fold.first, []), fold.start
        columns = [
            [word_of(item, type_, dictionary) for item in (() if values is None else values.items)]
            for values, type_ in zip(arrays, fold.items, strict=True)
        ]
        for items in zip(*columns, strict=True):
            if fold.strict and NULL in items:
                continue
            if start is not None:
                state, start = self._evaluate(start, list(items)), None
                continue
            if fold.strict and state == NULL:
                break
            state = self._evaluate(fold.step, [state, *items])
        return self._evaluate(fold.final, [state])

    def _evaluate(self, mfp: Mfp, words: list[int]) -> int:
        row = np.array([words or [0]], np.int64).T
        results, _ = self._executor.evaluate(mfp, np.ascontiguousarray(row))
        return int(results[0, 0])
