"""Calls of Python functions from expressions, memoized by distinct arguments.

* A :class:`Memo` is a table indexed by string code that the expression machine reads. An entry is the
  result's word xor MIN_WORD, so that 0, the content of fresh memory, means "not computed". A result of
  MIN_WORD cannot be stored, so it is an error.
* :func:`apply_memoized` runs a function once for each distinct combination of arguments.
* :class:`FewRows` serves small steps without arrays and caches recent arguments. The old value of a group was
  the new value of an earlier step, and codes never change their strings, so cached results stay valid.
* :func:`fused` merges nested calls into one function: in ``0.2 * avg(x)`` the mean need not become a string
  of the dictionary, which never frees strings.
* :func:`apply_columns` calls user functions of columns on the rows without NULLs.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from kpg.runtime.convert.callbacks import from_arrays, to_arrays
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.registry import Columns, Composition, Matcher, Memoized, implementation
from kpg.runtime.interrupts import pieces
from kpg.runtime.kernels import text as kernels
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Named, Scalar
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
from kpg.runtime.values.numeric import EXACT, shown_scale, spelled
from kpg.runtime.values.words import is_infinite, limits
from kpg.runtime.versions import replaced

Words = np.ndarray[Any, np.dtype[np.int64]]


def apply_columns(call: Call, implementation: Columns, args: Words, dictionary: Dictionary) -> Words:
    """The function over columns ``args int64[k, n]``; where it fails, each row by itself, so that only those
    fail which do."""
    result = np.full(args.shape[1], NULL, dtype=np.int64)
    result[(args == ERROR).any(axis=0)] = ERROR
    usable = np.flatnonzero((args >= MIN_WORD).all(axis=0))
    if len(usable):
        result[usable] = _called(call, implementation, np.ascontiguousarray(args[:, usable]), dictionary)
    return result


def _called(call: Call, implementation: Columns, args: Words, dictionary: Dictionary) -> Words:
    given = Schema(tuple(ColumnDef(f"${i}", arg.type, False) for i, arg in enumerate(call.args)))
    taken = Schema((ColumnDef("result", call.type),))
    rows = args.shape[1]
    try:
        array = implementation.function(*to_arrays(args, given, dictionary))
        return from_arrays([array], taken, dictionary, rows)[0]
    except Exception:
        if rows == 1:
            return np.full(1, ERROR, dtype=np.int64)
        single = (np.ascontiguousarray(args[:, [row]]) for row in range(rows))
        return np.concatenate([_called(call, implementation, one, dictionary) for one in single])


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
        texts = pieces(dictionary.decode(words))
        return [None if text is None else decode(text) for piece in texts for text in piece]
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
        if not type_.is_text:
            known = [None if value is None else encode(value) for piece in pieces(known) for value in piece]
        result = intern(known)
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
        met = pieces(values_of(codes, type_, dictionary))
        results = [attempt(function, *before, value, *after) for piece in met for value in piece]
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
        for piece in pieces(combinations.T.tolist())
        for column in piece
    ]
    result[usable] = words_of(values, call.type, dictionary, passing=dictionary.passes)[where.reshape(-1)]
    return result


Row = tuple[int, ...]
FEW: Final = 32
"""Rows that are gone through one by one: for more, arrays cost less."""
MOST: Final = 1024
"""Rows whose results are remembered: some steps' worth. All are forgotten at once."""


class FewRows:
    """One call, over a few rows at a time."""

    __slots__ = ("_call", "_dictionary", "_function", "_known", "_plain", "_spell", "_takes_nulls")

    def __init__(self, call: Call, implementation: Memoized, dictionary: Dictionary) -> None:
        self._call = call
        self._dictionary = dictionary
        self._function = implementation.build(call)
        self._spell = None if implementation.spelled is None else implementation.spelled(call)
        self._takes_nulls = implementation.takes_nulls
        self._plain = not any(
            arg.type.is_interned or arg.type.is_float or arg.type.kind is Kind.BOOLEAN for arg in call.args
        )
        self._known: dict[Row, int] = {}

    def of(self, args: Words) -> Words:
        """The results for columns ``args int64[k, n]``."""
        rows = list(zip(*args.tolist(), strict=True))
        known = self._known
        missing = [row for row in dict.fromkeys(rows) if row not in known]
        if missing:
            if len(known) > MOST:
                known.clear()
                missing = list(dict.fromkeys(rows))
            self._fill(missing)
        return np.array([known[row] for row in rows], dtype=np.int64)

    def _fill(self, missing: list[Row]) -> None:
        known, rows, values = self._known, list[Row](), list[object]()
        function = self._spell or self._function
        for row in missing:
            if ERROR in row:
                known[row] = ERROR
            elif NULL in row and not self._takes_nulls:
                known[row] = NULL
            else:
                rows.append(row)
                values.append(
                    attempt(function, *(row if self._plain and NULL not in row else self._values(row)))
                )
        if rows:
            known.update(zip(rows, self._words(values), strict=True))

    def _values(self, row: Row) -> list[Any]:
        types = (arg.type for arg in self._call.args)
        return [value_of(word, type_, self._dictionary) for word, type_ in zip(row, types, strict=True)]

    def _words(self, values: list[object]) -> list[int]:
        if self._spell is None:
            return words_of(values, self._call.type, self._dictionary).tolist()
        strings = [value if isinstance(value, str) else None for value in values]
        found: list[int] = self._dictionary.intern(strings).tolist()
        return [
            ERROR if isinstance(value, Exception) else word for word, value in zip(found, values, strict=True)
        ]


Values = Sequence[Any]
Part = Callable[[Values], Any]


def fused(call: Call, how: Memoized, dictionary: Dictionary) -> tuple[Call, Memoized] | None:
    """A call with all NUMERICs in between made within it, and its function; None if there are none.

    Its arguments are what it reads, a NULL among them does not make it NULL.
    """
    if how.takes_nulls or isinstance(call.function, Named):
        return None
    if not any(_inner(arg) for arg in call.args):
        return None
    leaves: dict[Scalar, int] = {}
    function = _of_values(_Fusion(leaves, dictionary).call(call, how))
    read = Call("$fused", tuple(leaves), call.type)
    try:
        quick = _Units(leaves, dictionary).call(call, how)
    except _WithoutUnits:
        return read, Memoized(lambda call: function, takes_nulls=True)
    if call.type.kind is Kind.NUMERIC:
        spelling = _spelling(quick)
        return read, Memoized(lambda call: function, spelled=lambda call: spelling, takes_nulls=True)
    word = _of_values(quick)
    return read, Memoized(lambda call: word, takes_nulls=True)


def _of_values(part: Part) -> Callable[..., object]:
    return lambda *values: part(values)


def _spelling(part: Part) -> Callable[..., str | None]:
    def spell(*values: Any) -> str | None:
        found = part(values)
        return None if found is None else spelled(*found)

    return spell


def _inner(scalar: Scalar) -> bool:
    """Whether a NUMERIC is computed by Python functions of expressions without errors of their own."""
    if isinstance(scalar, If):
        branches = (scalar.then, scalar.otherwise)
        return any(map(_inner, branches)) and all(map(_safe, branches))
    return _memoized(scalar) is not None


def _memoized(scalar: Scalar) -> tuple[Call, Memoized] | None:
    """The Python function, and its call, that gives a NUMERIC of other than constants."""
    if (
        not isinstance(scalar, Call)
        or scalar.type.kind is not Kind.NUMERIC
        or isinstance(scalar.function, Named)
    ):
        return None
    how = implementation(scalar)
    if isinstance(how, Composition):
        return _memoized(how.build(scalar))
    if not isinstance(how, Memoized) or how.takes_nulls:
        return None
    return None if all(isinstance(arg, Literal) for arg in scalar.args) else (scalar, how)


def _safe(scalar: Scalar) -> bool:
    """Whether nothing that is read can be an error, which would count though the branch is not taken."""
    if isinstance(scalar, Column | Fetch | Literal):
        return True
    found = _memoized(scalar)
    return found is not None and all(map(_safe, found[0].args))


class _Fusion:
    """The places of what is read, and the functions over them."""

    def __init__(self, leaves: dict[Scalar, int], dictionary: Dictionary) -> None:
        self.leaves = leaves
        self.dictionary = dictionary

    def part(self, scalar: Scalar) -> Part:
        if isinstance(scalar, Literal):
            value = literal_value(scalar, self.dictionary)
            return lambda values: value
        if isinstance(scalar, If) and _inner(scalar):
            return self.choice(scalar)
        found = _memoized(scalar)
        if found is not None:
            return self.call(*found)
        place = self.leaves.setdefault(scalar, len(self.leaves))
        return lambda values: values[place]

    def choice(self, scalar: If) -> Part:
        condition, then, otherwise = map(self.part, (scalar.condition, scalar.then, scalar.otherwise))
        return lambda values: then(values) if condition(values) else otherwise(values)

    def call(self, call: Call, how: Memoized) -> Part:
        """The function, NULL where an argument is."""
        function, parts = how.build(call), [self.part(arg) for arg in call.args]

        def apply(values: Values) -> Any:
            args = [part(values) for part in parts]
            return None if None in args else function(*args)

        return apply


class _WithoutUnits(Exception):
    """Something is not made of whole numbers of units."""


class _Units(_Fusion):
    """As ``_Fusion``, of numbers in units of their last digits: those of words, and what is made of them."""

    def part(self, scalar: Scalar) -> Part:
        if isinstance(scalar, Literal):
            value = literal_value(scalar, self.dictionary)
            if value is None:
                return lambda values: None
            if scalar.type.kind is Kind.NUMERIC:
                if not value.is_finite():
                    raise _WithoutUnits
                places = shown_scale(value)
                value, scale = int(value.scaleb(places, EXACT)), places
            elif scalar.type.is_exact:
                scale = scalar.type.scale
            else:
                raise _WithoutUnits
            return lambda values: (value, scale)
        if isinstance(scalar, If) and _inner(scalar):
            return self.choice(scalar)
        found = _memoized(scalar)
        if found is not None:
            return self.call(*found)
        if not scalar.type.is_exact:
            raise _WithoutUnits
        return self.word(self.leaves[scalar], scalar.type.scale)

    def word(self, place: int, scale: int) -> Part:
        """A number that a word stands for."""

        def number(values: Values) -> tuple[int, int] | None:
            value = values[place]
            return None if value is None else (value, scale)

        return number

    def choice(self, scalar: If) -> Part:
        condition = _Fusion(self.leaves, self.dictionary).part(scalar.condition)
        then, otherwise = self.part(scalar.then), self.part(scalar.otherwise)
        return lambda values: then(values) if condition(values) else otherwise(values)

    def call(self, call: Call, how: Memoized) -> Part:
        function = None if how.units is None else how.units(call)
        if function is None:
            raise _WithoutUnits
        parts = [self.part(arg) for arg in call.args]

        def apply(values: Values) -> Any:
            args = [part(values) for part in parts]
            return None if None in args else function(*args)

        return apply
