"""The text dictionary: each distinct string of an engine once, with a dense code in order of interning.

Strings are stored as UTF-8 in one arena, without a Python object for each. A code always means the same
string and is never reused, even if the transaction that interned it rolls back. The exception is strings
interned for one reply only (:meth:`Dictionary.begin_reply`), whose codes are freed afterwards.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.kernels import text as kernels
from kpg.runtime.types import NULL
from kpg.runtime.versions import replaced

if TYPE_CHECKING:
    import pyarrow as pa

Words = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ROWS_AT_ONCE = 1 << 16
"""Room is made as if all strings of a portion were new: it bounds what repeated strings waste."""
FIRST_SLOTS = 1 << 10
GROWTH = 4
"""Factor by which arrays grow; memory that is not written to yet is not taken, but what is copied is."""
TOO_LARGE = 4
"""What strings are found by may be so many times as large as they need."""
LARGE_BYTES = 1 << 30
"""From here on arrays only double, lest address space runs out."""
NO_NULLS: Bytes = np.empty(0, dtype=np.uint8)
FEW = 256
"""So many strings are encoded one by one: before pyarrow takes a list it imports pandas where there is one,
which takes longer than a small program."""
FEW_CODES = 8
"""So many codes are decoded one by one, for less than numpy's calls take."""
MANY_CODES = 1 << 16
"""So many codes are decoded by Arrow, in two thirds of the time; fewer are not worth importing it."""
LARGEST_STRING_ARRAY = 2**31 - 1
"""Bytes of text that 32-bit offsets, which most readers of Arrow expect, can address."""


class Dictionary:
    """Strings to codes and back; ``arena`` and ``offsets`` are for kernels, and replaced when they grow.

    ``memos`` is where expressions share the tables of functions that they have computed for codes.
    """

    lazy: ClassVar[bool] = True
    """Whether what it takes on may be put in place when it is first needed."""

    passes = False
    """Whether the words that are computed now go into a reply, and nowhere else."""
    _before: int | None = None
    """How many strings there were before the reply that is being made; None if all are to stay."""
    _passing = False

    def __init__(self) -> None:
        self.arena: Bytes = np.empty(1 << 12, dtype=np.uint8)
        self.offsets: Words = np.zeros(1 << 8, dtype=np.int64)
        self._slots: Words = np.full(FIRST_SLOTS, -1, dtype=np.int64)
        self._count = 0
        self.memos: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._before, self._found_by = None, self._slots

    def __len__(self) -> int:
        """How many strings there are; they stay, for who asks writes them down."""
        if self._before is not None:
            self.keep(self._count - 1)
        return self._count

    @property
    def bytes(self) -> int:
        """Memory in use, in bytes."""
        return int(self.offsets[self._count]) + 8 * self._count + self._slots.nbytes

    def code(self, string: str) -> int:
        """The code of a string, interning it if it is new."""
        source = np.frombuffer(utf8(string), dtype=np.uint8)
        bounds = np.array([0, source.shape[0]], dtype=np.int64)
        return int(self._intern(source, bounds, NO_NULLS)[0])

    def lookup(self, string: str) -> int | None:
        """The code of a string, or None if it was never interned."""
        source = np.frombuffer(utf8(string), dtype=np.uint8)
        code = int(kernels.find(source, self.arena, self.offsets, self._slots))
        self.keep(code)
        return None if code < 0 else code

    def get(self, code: int) -> str:
        """The string of a code."""
        if not 0 <= code < self._count:
            raise IndexError(f"no string has code {code}")
        return self.arena[self.offsets[code] : self.offsets[code + 1]].tobytes().decode()

    def intern(self, strings: Sequence[str | None]) -> Words:
        """The codes of strings, NULL for None."""
        if len(strings) <= FEW:
            return self._intern_few(strings)
        import pyarrow as pa  # lazy: pyarrow takes a thirteenth of the start

        try:
            array = pa.array(strings, type=pa.large_string())
        except UnicodeEncodeError:
            array = pa.array(map(utf8, (string or "" for string in strings)))  # raises what names it
        return self.intern_arrow(array)

    def _intern_few(self, strings: Sequence[str | None]) -> Words:
        encoded = [b"" if string is None else utf8(string) for string in strings]
        bounds = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(string) for string in encoded], out=bounds[1:])
        nulls = NO_NULLS
        if None in strings:
            nulls = np.array([string is None for string in strings], dtype=np.uint8)
        return self._intern(np.frombuffer(b"".join(encoded), dtype=np.uint8), bounds, nulls)

    def intern_arrow(self, array: "pa.Array | pa.ChunkedArray") -> Words:
        """The codes of an Arrow array of text (plain, large, view or dictionary encoded), NULL for null."""
        import pyarrow as pa  # lazy: pyarrow takes a thirteenth of the start

        if isinstance(array, pa.ChunkedArray):
            parts = [self.intern_arrow(chunk) for chunk in array.chunks]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        if pa.types.is_dictionary(array.type):
            return self._intern_encoded(array)
        if pa.types.is_string(array.type):
            return self._intern_buffers(array, np.dtype(np.int32))
        if not pa.types.is_large_string(array.type):
            array = array.cast(pa.large_string())
        return self._intern_buffers(array, np.dtype(np.int64))

    def restore(self, bounds: Words, data: Bytes) -> None:
        """Intern strings that are new, one after the other ``data[bounds[i]:bounds[i + 1]]``."""
        codes = self._intern(np.array(data), np.array(bounds), NO_NULLS)
        if codes.shape[0] and int(codes[-1]) != self._count - 1:
            raise InternalError("a string that should be new is known")

    def adopt(self, count: int, arena: Bytes, offsets: Words, slots: Words) -> None:
        """Be what another one was, of ``count`` strings; this one has had none."""
        self.arena, self.offsets, self._slots = arena, offsets, slots
        self._count = count
        replaced()

    def fit(self) -> None:
        """Give up most of what strings are found by if it is for many more than have come."""
        size = 1 << max(4 * self._count - 1, FIRST_SLOTS - 1).bit_length()
        if TOO_LARGE * size < len(self._slots):
            self._find_by(size)

    # Strings of a reply

    def begin_reply(self) -> None:
        """What :meth:`intern_passing` adds from now on is forgotten at the end of the reply.

        Unless somebody else is given a code of these, or the number of strings: then all of them stay.
        """
        self._before, self._found_by = self._count, self._slots

    def end_reply(self, *, kept: bool) -> None:
        """The reply is made, and nobody has its words any more, unless they are ``kept``."""
        before, self._before = self._before, None
        if before is not None and not kept and before < self._count and self._slots is self._found_by:
            kernels.forget(before, self._count, self.arena, self.offsets, self._slots)
            self._count = before

    @contextmanager
    def passing(self) -> Iterator[None]:
        """What is computed in this block goes into the reply that is being made, if one is."""
        self.passes = self._before is not None
        try:
            yield
        finally:
            self.passes = False

    def intern_passing(self, strings: Sequence[str | None]) -> Words:
        """As :meth:`intern`, for words that only go into the reply."""
        self._passing = True
        try:
            return self.intern(strings)
        finally:
            self._passing = False

    def keep(self, code: int) -> None:
        """Somebody has a code, or all up to it: if it is of a string of the reply, these stay."""
        if self._before is not None and code >= self._before:
            self._before = None

    def intern_parts(self, bounds: Words, data: Bytes) -> Words:
        """The codes of strings ``data[bounds[i]:bounds[i + 1]]``; for the reply alone if they go into one."""
        self._passing = self.passes
        try:
            return self._intern(np.ascontiguousarray(data), np.ascontiguousarray(bounds), NO_NULLS)
        finally:
            self._passing = False

    def parts(self, codes: Words) -> tuple[Words, Bytes]:
        """The strings of codes one after the other, and where each begins and ends."""
        return self._gather(np.ascontiguousarray(codes))

    def decode(self, words: Words) -> list[str | None]:
        """The strings of codes, None for NULL."""
        if len(words) <= FEW_CODES:
            return [None if word == NULL else self.get(int(word)) for word in words]
        if len(words) > MANY_CODES:
            return self.decode_arrow(words).to_pylist()
        words = np.ascontiguousarray(words)
        bounds, data = self._gather(words)
        ends, text = bounds.tolist(), data.tobytes()
        strings: list[str | None]
        if text.isascii():
            whole = text.decode("ascii")
            strings = [whole[start:end] for start, end in pairwise(ends)]
        else:
            strings = [text[start:end].decode() for start, end in pairwise(ends)]
        for position in np.flatnonzero(words == NULL).tolist():
            strings[position] = None
        return strings

    def decode_arrow(self, words: Words) -> "pa.Array":
        """The strings of codes as an Arrow string array (large_string past 2 GiB), null for NULL."""
        import pyarrow as pa  # lazy: pyarrow takes a thirteenth of the start

        words = np.ascontiguousarray(words)
        bounds, data = self._gather(words)
        is_null = words == NULL
        nulls = int(np.count_nonzero(is_null))
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if nulls else None
        kind, ends = pa.large_string(), bounds
        if len(data) <= LARGEST_STRING_ARRAY:
            kind, ends = pa.string(), bounds.astype(np.int32)
        return pa.Array.from_buffers(
            kind, len(words), [validity, pa.py_buffer(ends), pa.py_buffer(data)], nulls
        )

    def _gather(self, words: Words) -> tuple[Words, Bytes]:
        """The strings of codes one after the other, nothing for NULL, and where each begins and ends."""
        bounds = np.empty(len(words) + 1, dtype=np.int64)
        kernels.measure(words, self.offsets, bounds)
        data = np.empty(int(bounds[-1]), dtype=np.uint8)
        kernels.gather(words, self.arena, self.offsets, bounds, data)
        return bounds, data

    def _intern_encoded(self, array: "pa.DictionaryArray") -> Words:
        codes = self.intern_arrow(array.dictionary)
        indices = array.indices
        if indices.null_count == 0:
            return codes[indices.to_numpy(zero_copy_only=False)]
        valid = indices.is_valid().to_numpy(zero_copy_only=False)
        result = np.full(len(array), NULL, dtype=np.int64)
        result[valid] = codes[indices.drop_null().to_numpy(zero_copy_only=False)]
        return result

    def _intern_buffers(self, array: "pa.Array", offset_type: "np.dtype[Any]") -> Words:
        count = len(array)
        if count == 0:
            return np.empty(0, dtype=np.int64)
        _, ends, data = array.buffers()
        skip = array.offset * offset_type.itemsize
        bounds = np.frombuffer(ends, dtype=offset_type, count=count + 1, offset=skip).astype(np.int64)
        source = NO_NULLS if data is None else np.frombuffer(data, dtype=np.uint8)
        nulls = NO_NULLS
        if array.null_count:
            nulls = array.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
        return self._intern(source, bounds, nulls)

    def _intern(self, source: Bytes, bounds: Words, nulls: Bytes) -> Words:
        count = len(bounds) - 1
        out = np.empty(count, dtype=np.int64)
        intern = kernels.intern
        for first in range(0, count, ROWS_AT_ONCE):
            last = min(count, first + ROWS_AT_ONCE)
            self._reserve(last - first, int(bounds[last] - bounds[first]))
            arena, offsets, slots = self.arena, self.offsets, self._slots
            self._count = int(
                intern(source, bounds, nulls, arena, offsets, slots, self._count, out, first, last)
            )
        if self._before is not None and count and not self._passing:
            self.keep(int(out.max()))
        return out

    def _reserve(self, strings: int, size: int) -> None:
        """Makes room for ``strings`` more strings of ``size`` bytes in all."""
        used = int(self.offsets[self._count])
        if used + size > len(self.arena):
            arena = np.empty(max(used + size, _growth(self.arena) * len(self.arena)), dtype=np.uint8)
            arena[:used] = self.arena[:used]
            self.arena = arena
            replaced()
        wanted = self._count + strings
        if wanted + 1 > len(self.offsets):
            offsets = np.zeros(max(wanted + 1, _growth(self.offsets) * len(self.offsets)), dtype=np.int64)
            offsets[: self._count + 1] = self.offsets[: self._count + 1]
            self.offsets = offsets
            replaced()
        size_now = len(self._slots)
        if 4 * wanted > size_now:
            self._find_by(1 << (4 * wanted - 1).bit_length())

    def _find_by(self, size: int) -> None:
        slots = np.full(size, -1, dtype=np.int64)
        kernels.rehash(self._slots, slots)
        self._slots = slots


def _growth(array: "np.ndarray[Any, Any]") -> int:
    return GROWTH if array.nbytes < LARGE_BYTES else 2


def utf8(string: str) -> bytes:
    """The bytes of a string; half of a surrogate pair has none."""
    try:
        return string.encode()
    except UnicodeEncodeError as error:
        code = ord(string[error.start])
        raise DataError(f"text with U+{code:04X}, half of a surrogate pair, is not Unicode") from None
