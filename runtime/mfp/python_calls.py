"""Calls of Python functions from expressions, memoized by distinct arguments.

* A :class:`Memo` is a table indexed by string code that the expression machine reads. An entry is
  the result's word xor MIN_WORD, so that 0, the content of fresh memory, means "not computed". A
  result of MIN_WORD cannot be stored, so it is an error.
* :func:`apply_memoized` runs a function once for each distinct combination of arguments.
* :class:`SmallCall` serves small steps without arrays and caches recent arguments. The old value of a group
  was the new value of an earlier step, and codes never change their strings, so cached results stay valid.
* :func:`fuse_calls` merges nested calls into one function: in ``0.2 * avg(x)`` the mean need not
  become a string of the dictionary, which never frees strings.
* :func:`apply_columns` calls user functions of columns on the rows without NULLs.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from kpg.runtime.convert.callbacks import from_arrays, to_arrays
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.registry import (
    ColumnFunction,
    Composition,
    Matcher,
    MemoizedFunction,
    implementation,
)
from kpg.runtime.interrupts import pieces
from kpg.runtime.kernels import text as kernels
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, UserFunctionName
from kpg.runtime.types import (
    ERROR,
    MIN_WORD,
    NULL,
    ColumnDef,
    Kind,
    Schema,
    Type,
    float_to_word,
    word_to_float,
)
from kpg.runtime.values import codec_of
from kpg.runtime.values.numeric import EXACT, display_scale, encode_units
from kpg.runtime.values.words import is_infinite, limits
from kpg.runtime.versions import next_version

Words = np.ndarray[Any, np.dtype[np.int64]]


def apply_columns(call: Call, implementation: ColumnFunction, args: Words, dictionary: Dictionary) -> Words:
    """Return the function's result over columns ``args int64[k, n]``.

    If it fails, each row is computed by itself, so that only failing rows are errors.
    """
    result = np.full(args.shape[1], NULL, dtype=np.int64)
    result[(args == ERROR).any(axis=0)] = ERROR
    usable = np.flatnonzero((args >= MIN_WORD).all(axis=0))
    if len(usable):
        result[usable] = _call_columns(
            call, implementation, np.ascontiguousarray(args[:, usable]), dictionary
        )
    return result


def _call_columns(call: Call, implementation: ColumnFunction, args: Words, dictionary: Dictionary) -> Words:
    argument_schema = Schema(tuple(ColumnDef(f"${i}", arg.type, False) for i, arg in enumerate(call.args)))
    result_schema = Schema((ColumnDef("result", call.type),))
    rows = args.shape[1]
    try:
        array = implementation.function(*to_arrays(args, argument_schema, dictionary))
        return from_arrays([array], result_schema, dictionary, rows)[0]
    except Exception:
        if rows == 1:
            return np.full(1, ERROR, dtype=np.int64)
        single = (np.ascontiguousarray(args[:, [row]]) for row in range(rows))
        return np.concatenate(
            [_call_columns(call, implementation, row_args, dictionary) for row_args in single]
        )


MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
INITIAL_WORDS = 256
"""Initial words of a memo: 2 KB for a function of few distinct strings."""


class Store(Protocol):
    """Row store of a table."""

    @property
    def directory(self) -> Words: ...


class Context(Protocol):
    """Services of the engine that compiled expressions use."""

    @property
    def dictionary(self) -> Dictionary: ...

    def store(self, table: str) -> Any: ...


class Memo:
    """Results of one function by string code."""

    def __init__(self, compute: Callable[[Words], Words], dictionary: Dictionary) -> None:
        self.words: Words = np.zeros(INITIAL_WORDS, dtype=np.int64)
        self._compute = compute
        self._dictionary = dictionary

    def fill(self, codes: Words) -> None:
        """Compute the entries of these codes."""
        highest = int(codes.max())
        self._dictionary.make_permanent(highest)
        if highest >= len(self.words):
            words = np.zeros(1 << (highest + 1).bit_length(), dtype=np.int64)
            kernels.widen(self.words, words)
            self.words = words
            next_version()
        results = self._compute(codes)
        results[results == MIN_WORD] = ERROR
        self.words[codes] = results ^ MIN_WORD


def value_of(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """Return the Python value of a word, as ``MemoizedFunction`` functions take it; None for NULL."""
    if word == NULL:
        return None
    if type_.is_interned:
        text = dictionary.get(word)
        return text if type_.is_text else codec_of(type_).decode(text)
    if type_.is_float:
        return word_to_float(word)
    return bool(word) if type_.kind is Kind.BOOLEAN else word


def values_of(words: Words, type_: Type, dictionary: Dictionary) -> list[Any]:
    """Return the Python values of a column of words."""
    if type_.is_text:
        return dictionary.decode(words)
    if type_.is_interned:
        decode = codec_of(type_).decode
        texts = pieces(dictionary.decode(words))
        return [None if text is None else decode(text) for piece in texts for text in piece]
    return [value_of(word, type_, dictionary) for word in words.tolist()]


def word_of(value: Any, type_: Type, dictionary: Dictionary) -> int:
    """Return the word of a Python value; ERROR if the type has none for it."""
    if type_.is_interned and value is not None:
        return dictionary.code(value if type_.is_text else codec_of(type_).encode(value))
    return _word(value, type_)


def words_of(values: list[Any], type_: Type, dictionary: Dictionary, *, for_reply: bool = False) -> Words:
    """Return the words of results of a ``MemoizedFunction`` function; an exception becomes ERROR.

    ``for_reply`` means that the words are only used in a reply.
    """
    is_error = [isinstance(value, Exception) for value in values]
    valid_values = [None if bad else value for value, bad in zip(values, is_error, strict=True)]
    if type_.is_interned:
        encode = codec_of(type_).encode
        intern = dictionary.intern_for_reply if for_reply else dictionary.intern
        if not type_.is_text:
            valid_values = [
                None if value is None else encode(value) for piece in pieces(valid_values) for value in piece
            ]
        result = intern(valid_values)
    else:
        result = np.array([_word(value, type_) for value in valid_values], dtype=np.int64)
    result[np.array(is_error, dtype=bool)] = ERROR
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


def call_or_error(function: Callable[..., object], *args: object) -> object:
    """Return the function's value, or the ValueError or ArithmeticError that it raises."""
    try:
        return function(*args)
    except (ValueError, ArithmeticError) as error:
        return error


def memo_of(call: Call, implementation: MemoizedFunction | Matcher, context: Context) -> Memo:
    """Return the shared memo of a call with one text argument and literals."""
    dictionary = context.dictionary
    key: Hashable = (call.function, tuple(map(_memo_key, call.args)), call.type)
    memo = dictionary.memos.get(key)
    if memo is None:
        memo = Memo(_make_computation(call, implementation, dictionary), dictionary)
        dictionary.memos[key] = memo
    assert isinstance(memo, Memo)
    return memo


def _memo_key(arg: Scalar) -> Hashable:
    return (arg.value, arg.type) if isinstance(arg, Literal) else arg.type


def _make_matcher(tokens: Sequence[int], dictionary: Dictionary) -> Callable[[Words], Words]:
    """Return a function that tests which codes are of strings that match a LIKE pattern."""
    pattern = np.array(tokens, dtype=np.int64)
    parts = _literal_parts(tokens)
    data = np.frombuffer(b"".join(parts), np.uint8).copy()
    bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    shifts = np.array([_search_shifts(part) for part in parts], dtype=np.int64).reshape(-1, 256)

    def match(codes: Words) -> Words:
        out = np.empty(len(codes), dtype=np.int64)
        if parts:
            kernels.contains(codes, dictionary.arena, dictionary.offsets, data, bounds, shifts, out)
        else:
            kernels.like(codes, dictionary.arena, dictionary.offsets, pattern, out)
        return out

    return match


def _search_shifts(part: bytes) -> list[int]:
    """Return, for each byte under the end of the part, how far a search may advance."""
    last = {byte: place for place, byte in enumerate(part[:-1])}
    return [len(part) - 1 - last.get(byte, -1) for byte in range(256)]


def _literal_parts(tokens: Sequence[int]) -> list[bytes]:
    """Return the literal parts of a pattern ``%part%part%``; [] for other patterns."""
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


def _make_computation(
    call: Call, implementation: MemoizedFunction | Matcher, dictionary: Dictionary
) -> Callable[[Words], Words]:
    if isinstance(implementation, Matcher):
        return _make_matcher(implementation.pattern(call), dictionary)
    function = implementation.build(call)
    position = next(i for i, arg in enumerate(call.args) if not isinstance(arg, Literal))
    values = [literal_value(arg, dictionary) for arg in call.args]
    before, after = values[:position], values[position + 1 :]
    type_ = call.args[position].type

    def compute(codes: Words) -> Words:
        values_met = pieces(values_of(codes, type_, dictionary))
        results = [call_or_error(function, *before, value, *after) for piece in values_met for value in piece]
        return words_of(results, call.type, dictionary)

    return compute


def literal_value(arg: object, dictionary: Dictionary) -> Any:
    """Return the Python value of a constant; None for NULL and for other scalars."""
    if not isinstance(arg, Literal) or arg.value is None:
        return None
    if isinstance(arg.value, str):
        return codec_of(arg.type).decode(arg.value) if arg.type.is_interned else arg.value
    return value_of(arg.value, arg.type, dictionary)


def apply_memoized(
    call: Call, implementation: MemoizedFunction, args: Words, dictionary: Dictionary
) -> Words:
    """Return a ``MemoizedFunction`` function's results over columns ``args int64[k, n]``.

    The function is called once for each distinct combination of arguments.
    """
    result = np.full(args.shape[1], NULL, dtype=np.int64)
    is_error = (args == ERROR).any(axis=0)
    usable = ~is_error if implementation.takes_nulls else (args >= MIN_WORD).all(axis=0)
    result[is_error] = ERROR
    if not usable.any():
        return result
    combinations, where = np.unique(args[:, usable], axis=1, return_inverse=True)
    function = implementation.build(call)
    types = [arg.type for arg in call.args]
    values = [
        call_or_error(
            function, *(value_of(word, type_, dictionary) for word, type_ in zip(column, types, strict=True))
        )
        for piece in pieces(combinations.T.tolist())
        for column in piece
    ]
    result[usable] = words_of(values, call.type, dictionary, for_reply=dictionary.is_for_reply)[
        where.reshape(-1)
    ]
    return result


Row = tuple[int, ...]
FEW_ROWS: Final = 32
"""Rows up to which a loop is cheaper than arrays."""
MAX_CACHED_ROWS: Final = 1024
"""Rows whose results are cached, enough for several steps; the cache is cleared as a whole."""


class SmallCall:
    """One call over a few rows at a time, with a cache."""

    __slots__ = ("_cache", "_call", "_dictionary", "_function", "_spell", "_takes_nulls", "_takes_words")

    def __init__(self, call: Call, implementation: MemoizedFunction, dictionary: Dictionary) -> None:
        self._call = call
        self._dictionary = dictionary
        self._function = implementation.build(call)
        self._spell = None if implementation.build_encoded is None else implementation.build_encoded(call)
        self._takes_nulls = implementation.takes_nulls
        self._takes_words = not any(
            arg.type.is_interned or arg.type.is_float or arg.type.kind is Kind.BOOLEAN for arg in call.args
        )
        self._cache: dict[Row, int] = {}

    def results(self, args: Words) -> Words:
        """Return the results for columns ``args int64[k, n]``."""
        rows = list(zip(*args.tolist(), strict=True))
        cache = self._cache
        missing = [row for row in dict.fromkeys(rows) if row not in cache]
        if missing:
            if len(cache) > MAX_CACHED_ROWS:
                cache.clear()
                missing = list(dict.fromkeys(rows))
            self._fill(missing)
        return np.array([cache[row] for row in rows], dtype=np.int64)

    def _fill(self, missing: list[Row]) -> None:
        cache, rows, values = self._cache, list[Row](), list[object]()
        function = self._spell or self._function
        for row in missing:
            if ERROR in row:
                cache[row] = ERROR
            elif NULL in row and not self._takes_nulls:
                cache[row] = NULL
            else:
                rows.append(row)
                values.append(
                    call_or_error(
                        function, *(row if self._takes_words and NULL not in row else self._values(row))
                    )
                )
        if rows:
            cache.update(zip(rows, self._words(values), strict=True))

    def _values(self, row: Row) -> list[Any]:
        types = (arg.type for arg in self._call.args)
        return [value_of(word, type_, self._dictionary) for word, type_ in zip(row, types, strict=True)]

    def _words(self, values: list[object]) -> list[int]:
        if self._spell is None:
            return words_of(values, self._call.type, self._dictionary).tolist()
        strings = [value if isinstance(value, str) else None for value in values]
        words: list[int] = self._dictionary.intern(strings).tolist()
        return [
            ERROR if isinstance(value, Exception) else word for word, value in zip(words, values, strict=True)
        ]


Values = Sequence[Any]
Part = Callable[[Values], Any]


def fuse_calls(
    call: Call, how: MemoizedFunction, dictionary: Dictionary
) -> tuple[Call, MemoizedFunction] | None:
    """Return a call fused with the NUMERIC calls in its arguments, and its function.

    Returns None if there are none. The arguments of the fused call are the inputs of all these calls; a NULL
    among them need not make it NULL.
    """
    if how.takes_nulls or isinstance(call.function, UserFunctionName):
        return None
    if not any(_is_fusible(arg) for arg in call.args):
        return None
    leaves: dict[Scalar, int] = {}
    function = _spread_arguments(_Fusion(leaves, dictionary).call(call, how))
    fused_call = Call("$fused", tuple(leaves), call.type)
    try:
        unit_part = _UnitFusion(leaves, dictionary).call(call, how)
    except _NoUnitsError:
        return fused_call, MemoizedFunction(lambda call: function, takes_nulls=True)
    if call.type.kind is Kind.NUMERIC:
        spelling = _make_spelling(unit_part)
        return fused_call, MemoizedFunction(
            lambda call: function, build_encoded=lambda call: spelling, takes_nulls=True
        )
    word = _spread_arguments(unit_part)
    return fused_call, MemoizedFunction(lambda call: word, takes_nulls=True)


def _spread_arguments(part: Part) -> Callable[..., object]:
    return lambda *values: part(values)


def _make_spelling(part: Part) -> Callable[..., str | None]:
    def spell(*values: Any) -> str | None:
        number = part(values)
        return None if number is None else encode_units(*number)

    return spell


def _is_fusible(scalar: Scalar) -> bool:
    """Return whether Python functions compute this NUMERIC from expressions that cannot fail."""
    if isinstance(scalar, If):
        branches = (scalar.then, scalar.otherwise)
        return any(map(_is_fusible, branches)) and all(map(_cannot_fail, branches))
    return _numeric_call(scalar) is not None


def _numeric_call(scalar: Scalar) -> tuple[Call, MemoizedFunction] | None:
    """Return the call that computes this NUMERIC by a Python function, and the function.

    Returns None for constants and other scalars.
    """
    if (
        not isinstance(scalar, Call)
        or scalar.type.kind is not Kind.NUMERIC
        or isinstance(scalar.function, UserFunctionName)
    ):
        return None
    how = implementation(scalar)
    if isinstance(how, Composition):
        return _numeric_call(how.build(scalar))
    if not isinstance(how, MemoizedFunction) or how.takes_nulls:
        return None
    return None if all(isinstance(arg, Literal) for arg in scalar.args) else (scalar, how)


def _cannot_fail(scalar: Scalar) -> bool:
    """Return whether no input can be an error, which would matter even in a branch that is not taken."""
    if isinstance(scalar, Column | Fetch | Literal):
        return True
    call = _numeric_call(scalar)
    return call is not None and all(map(_cannot_fail, call[0].args))


class _Fusion:
    """Positions of the inputs, and functions over them."""

    def __init__(self, leaves: dict[Scalar, int], dictionary: Dictionary) -> None:
        self.leaves = leaves
        self.dictionary = dictionary

    def part(self, scalar: Scalar) -> Part:
        if isinstance(scalar, Literal):
            value = literal_value(scalar, self.dictionary)
            return lambda values: value
        if isinstance(scalar, If) and _is_fusible(scalar):
            return self.choice(scalar)
        inner_call = _numeric_call(scalar)
        if inner_call is not None:
            return self.call(*inner_call)
        place = self.leaves.setdefault(scalar, len(self.leaves))
        return lambda values: values[place]

    def choice(self, scalar: If) -> Part:
        condition, then, otherwise = map(self.part, (scalar.condition, scalar.then, scalar.otherwise))
        return lambda values: then(values) if condition(values) else otherwise(values)

    def call(self, call: Call, how: MemoizedFunction) -> Part:
        """Return the function, which is NULL if an argument is."""
        function, parts = how.build(call), [self.part(arg) for arg in call.args]

        def apply(values: Values) -> Any:
            args = [part(values) for part in parts]
            return None if None in args else function(*args)

        return apply


class _NoUnitsError(Exception):
    """An expression is not computed in integer units."""


class _UnitFusion(_Fusion):
    """``_Fusion`` on numbers as integers in units of their last digit."""

    def part(self, scalar: Scalar) -> Part:
        if isinstance(scalar, Literal):
            value = literal_value(scalar, self.dictionary)
            if value is None:
                return lambda values: None
            if scalar.type.kind is Kind.NUMERIC:
                if not value.is_finite():
                    raise _NoUnitsError
                places = display_scale(value)
                value, scale = int(value.scaleb(places, EXACT)), places
            elif scalar.type.is_exact:
                scale = scalar.type.scale
            else:
                raise _NoUnitsError
            return lambda values: (value, scale)
        if isinstance(scalar, If) and _is_fusible(scalar):
            return self.choice(scalar)
        inner_call = _numeric_call(scalar)
        if inner_call is not None:
            return self.call(*inner_call)
        if not scalar.type.is_exact:
            raise _NoUnitsError
        return self.word_part(self.leaves[scalar], scalar.type.scale)

    def word_part(self, place: int, scale: int) -> Part:
        """Return the number of a word."""

        def number(values: Values) -> tuple[int, int] | None:
            value = values[place]
            return None if value is None else (value, scale)

        return number

    def choice(self, scalar: If) -> Part:
        condition = _Fusion(self.leaves, self.dictionary).part(scalar.condition)
        then, otherwise = self.part(scalar.then), self.part(scalar.otherwise)
        return lambda values: then(values) if condition(values) else otherwise(values)

    def call(self, call: Call, how: MemoizedFunction) -> Part:
        function = None if how.build_units is None else how.build_units(call)
        if function is None:
            raise _NoUnitsError
        parts = [self.part(arg) for arg in call.args]

        def apply(values: Values) -> Any:
            args = [part(values) for part in parts]
            return None if None in args else function(*args)

        return apply
