"""Functions of interned values, run once for each distinct one (or combination of arguments) that occurs.

A :class:`Memo` is a table indexed by string code that the expression machine reads. Entries are the
result's word xor MIN_WORD, so that 0, what fresh memory holds, means "not computed yet". So a result that
is MIN_WORD cannot be kept: it is an error, rather than be computed for ever.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.registry import Matcher, Memoized
from kpg.runtime.kernels import text as kernels
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import ERROR, MIN_WORD, NULL, Kind, Type, float_to_word, word_to_float
from kpg.runtime.values import codec_of
from kpg.runtime.values.calendars import is_infinite
from kpg.runtime.values.text import limits
from kpg.runtime.versions import replaced

Words = np.ndarray[Any, np.dtype[np.int64]]
MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
SMALLEST = 256
"""Words of a table of results at first: 2 KB for a function of few distinct strings."""


class Store(Protocol):
    """The row store of a table."""

    @property
    def directory(self) -> Words: ...


class Context(Protocol):
    """What compiled expressions need of the engine that they run in."""

    @property
    def dictionary(self) -> Dictionary: ...

    def store(self, table: str) -> Any: ...


class Memo:
    """The results of one function for the strings that it met, by code."""

    def __init__(self, compute: Callable[[Words], Words], dictionary: Dictionary) -> None:
        self.words: Words = np.zeros(SMALLEST, dtype=np.int64)
        self._compute = compute
        self._dictionary = dictionary

    def fill(self, codes: Words) -> None:
        """Computes the entries of some codes."""
        highest = int(codes.max())
        self._dictionary.keep(highest)
        if highest >= len(self.words):
            words = np.zeros(1 << (highest + 1).bit_length(), dtype=np.int64)
            kernels.widen(self.words, words)
            self.words = words
            replaced()
        results = self._compute(codes)
        results[results == MIN_WORD] = ERROR
        self.words[codes] = results ^ MIN_WORD


def value_of(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """The Python value that a ``Memoized`` function takes for a word; None for NULL."""
    if word == NULL:
        return None
    if type_.is_interned:
        text = dictionary.get(word)
        return text if type_.is_text else codec_of(type_).decode(text)
    if type_.is_float:
        return word_to_float(word)
    return bool(word) if type_.kind is Kind.BOOLEAN else word


def values_of(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """The Python values of a column of words."""
    if type_.is_text:
        return dictionary.decode(words)
    if type_.is_interned:
        decode = codec_of(type_).decode
        return [None if text is None else decode(text) for text in dictionary.decode(words)]
    return [value_of(word, type_, dictionary) for word in words.tolist()]


def word_of(value: Any, type_: Type, dictionary: Dictionary) -> int:
    """The word of a Python value; ERROR if the type has none for it."""
    if type_.is_interned and value is not None:
        return dictionary.code(value if type_.is_text else codec_of(type_).encode(value))
    return _word(value, type_)


def words_of(values: list[Any], type_: Type, dictionary: Dictionary, *, passing: bool = False) -> Words:
    """The words of what a ``Memoized`` function returned; an exception stands for ERROR.

    ``passing``: they go into a reply, and nowhere else.
    """
    failed = [isinstance(value, Exception) for value in values]
    known = [None if bad else value for value, bad in zip(values, failed, strict=True)]
    if type_.is_interned:
        encode = codec_of(type_).encode
        intern = dictionary.intern_passing if passing else dictionary.intern
        result = intern(known if type_.is_text else [None if v is None else encode(v) for v in known])
    else:
        result = np.array([_word(value, type_) for value in known], dtype=np.int64)
    result[np.array(failed, dtype=bool)] = ERROR
    return result


def _word(value: Any, type_: Type) -> int:
    if value is None:
        return NULL
    if type_.is_float:
        number = float(value)
        return float_to_word(float(np.float32(number)) if type_.kind is Kind.REAL else number)
    low, high = limits(type_)
    endless = type_.kind in MOMENTS and is_infinite(value)
    return int(value) if low <= int(value) <= high or endless else ERROR


def attempt(function: Callable[..., object], *args: object) -> object:
    """The function's value, or the exception by which it says that there is none."""
    try:
        return function(*args)
    except (ValueError, ArithmeticError) as error:
        return error


def memo_of(call: Call, implementation: Memoized | Matcher, context: Context) -> Memo:
    """The table of a call with one text argument and literals, shared by all expressions that need it."""
    dictionary = context.dictionary
    key: Hashable = (call.function, tuple(map(_known, call.args)), call.type)
    memo = dictionary.memos.get(key)
    if memo is None:
        memo = Memo(_computation(call, implementation, dictionary), dictionary)
        dictionary.memos[key] = memo
    assert isinstance(memo, Memo)
    return memo


def _known(arg: Scalar) -> Hashable:
    return (arg.value, arg.type) if isinstance(arg, Literal) else arg.type


def _matcher(tokens: Sequence[int], dictionary: Dictionary) -> Callable[[Words], Words]:
    """Tells which codes are of strings that match a LIKE pattern."""
    pattern = np.array(tokens, dtype=np.int64)
    parts = _parts(tokens)
    data = np.frombuffer(b"".join(parts), np.uint8).copy()
    bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    shifts = np.array([_shifts(part) for part in parts], dtype=np.int64).reshape(-1, 256)

    def match(codes: Words) -> Words:
        out = np.empty(len(codes), dtype=np.int64)
        if parts:
            kernels.contains(codes, dictionary.arena, dictionary.offsets, data, bounds, shifts, out)
        else:
            kernels.like(codes, dictionary.arena, dictionary.offsets, pattern, out)
        return out

    return match


def _shifts(part: bytes) -> list[int]:
    """How far a search may go on for each byte under the part's end."""
    last = {byte: place for place, byte in enumerate(part[:-1])}
    return [len(part) - 1 - last.get(byte, -1) for byte in range(256)]


def _parts(tokens: Sequence[int]) -> list[bytes]:
    """The literal parts of a pattern ``%part%part%``; none if it is of another form."""
    open_ended = len(tokens) > 2 and tokens[0] == tokens[-1] == kernels.ANY_STRING
    if not open_ended or kernels.ANY_CHARACTER in tokens:
        return []
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token == kernels.ANY_STRING:
            parts.append([])
        else:
            parts[-1].append(token)
    return [bytes(part) for part in parts if part]


def _computation(
    call: Call, implementation: Memoized | Matcher, dictionary: Dictionary
) -> Callable[[Words], Words]:
    if isinstance(implementation, Matcher):
        return _matcher(implementation.pattern(call), dictionary)
    function = implementation.build(call)
    position = next(i for i, arg in enumerate(call.args) if not isinstance(arg, Literal))
    values = [literal_value(arg, dictionary) for arg in call.args]
    before, after = values[:position], values[position + 1 :]
    type_ = call.args[position].type

    def compute(codes: Words) -> Words:
        met = values_of(codes, type_, dictionary)
        results = [attempt(function, *before, value, *after) for value in met]
        return words_of(results, call.type, dictionary)

    return compute


def literal_value(arg: object, dictionary: Dictionary) -> Any:
    """The Python value of a constant; None of anything else."""
    if not isinstance(arg, Literal) or arg.value is None:
        return None
    if isinstance(arg.value, str):
        return codec_of(arg.type).decode(arg.value) if arg.type.is_interned else arg.value
    return value_of(arg.value, arg.type, dictionary)


def apply_memoized(call: Call, implementation: Memoized, args: Words, dictionary: Dictionary) -> Words:
    """A ``Memoized`` function over columns ``args int64[k, n]``, once for each distinct combination."""
    result = np.full(args.shape[1], NULL, dtype=np.int64)
    failed = (args == ERROR).any(axis=0)
    usable = ~failed if implementation.takes_nulls else (args >= MIN_WORD).all(axis=0)
    result[failed] = ERROR
    if not usable.any():
        return result
    combinations, where = np.unique(args[:, usable], axis=1, return_inverse=True)
    function = implementation.build(call)
    types = [arg.type for arg in call.args]
    values = [
        attempt(
            function, *(value_of(word, type_, dictionary) for word, type_ in zip(column, types, strict=True))
        )
        for column in combinations.T.tolist()
    ]
    result[usable] = words_of(values, call.type, dictionary, passing=dictionary.passes)[where.reshape(-1)]
    return result
