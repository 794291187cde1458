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
from kpg.runtime.versions import next_version

if TYPE_CHECKING:
    import pyarrow as pa

Words = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CHUNK_STRINGS = 1 << 16
"""Strings interned at a time.

Room is reserved as if all were new, so this bounds the waste by repeated ones.
"""
FIRST_SLOTS = 1 << 10
GROWTH = 4
"""Growth factor of arrays; untouched memory is not allocated, but copying costs time."""
MAX_SLOT_EXCESS = 4
"""Factor by which the hash table may exceed its needed size."""
LARGE_BYTES = 1 << 30
"""Size from which arrays only double, to save address space."""
NO_NULLS: Bytes = np.empty(0, dtype=np.uint8)
FEW_STRINGS = 256
"""Strings up to which Python encodes them.

pyarrow imports pandas, if installed, before it converts a list; that takes longer than a small
program.
"""
FEW_CODES = 8
"""Codes up to which they are decoded one by one, which is cheaper than numpy calls."""
MANY_CODES = 1 << 16
"""Codes from which Arrow decodes them, in two thirds of the time; below, importing it does not pay."""
LARGEST_STRING_ARRAY = 2**31 - 1
"""Bytes of text that 32-bit offsets, which most readers of Arrow expect, can address."""


class Dictionary:
    """Maps strings to codes and back.

    Kernels read ``arena`` and ``offsets``, which are replaced when they grow. Expressions share in
    ``memos`` the tables of functions that they have computed by code.
    """

    restores_lazily: ClassVar[bool] = True
    """Whether restored state may be set up at first use."""

    is_for_reply = False
    """Whether the words computed now go only into a reply."""
    _before: int | None = None
    """Number of strings before the current reply; None if all strings are kept."""
    _is_reply_only = False

    def __init__(self) -> None:
        self.arena: Bytes = np.empty(1 << 12, dtype=np.uint8)
        self.offsets: Words = np.zeros(1 << 8, dtype=np.int64)
        self._slots: Words = np.full(FIRST_SLOTS, -1, dtype=np.int64)
        self._count = 0
        self.memos: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._before, self._reply_slots = None, self._slots

    def __len__(self) -> int:
        """Return the number of strings.

        Strings of a reply become permanent, as the caller may store the number.
        """
        if self._before is not None:
            self.make_permanent(self._count - 1)
        return self._count

    @property
    def bytes(self) -> int:
        """Bytes in use."""
        return int(self.offsets[self._count]) + 8 * self._count + self._slots.nbytes

    def code(self, string: str) -> int:
        """Return the code of a string; a new string is interned."""
        source = np.frombuffer(utf8(string), dtype=np.uint8)
        bounds = np.array([0, source.shape[0]], dtype=np.int64)
        return int(self._intern(source, bounds, NO_NULLS)[0])

    def lookup(self, string: str) -> int | None:
        """Return the code of a string, or None if it was never interned."""
        source = np.frombuffer(utf8(string), dtype=np.uint8)
        code = int(kernels.find(source, self.arena, self.offsets, self._slots))
        self.make_permanent(code)
        return None if code < 0 else code

    def get(self, code: int) -> str:
        """Return the string of a code."""
        if not 0 <= code < self._count:
            raise IndexError(f"no string has code {code}")
        return self.arena[self.offsets[code] : self.offsets[code + 1]].tobytes().decode()

    def intern(self, strings: Sequence[str | None]) -> Words:
        """Return the codes of strings, NULL for None."""
        if len(strings) <= FEW_STRINGS:
            return self._intern_few(strings)
        import pyarrow as pa  # lazy: pyarrow takes a thirteenth of the start

        try:
            array = pa.array(strings, type=pa.large_string())
        except UnicodeEncodeError:
            array = pa.array(map(utf8, (string or "" for string in strings)))  # raises the error
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
        """Return the codes of an Arrow array of text, NULL for null.

        The array is plain, large, view or dictionary encoded.
        """
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

    def append_strings(self, bounds: Words, data: Bytes) -> None:
        """Intern new strings, in order ``data[bounds[i]:bounds[i + 1]]``.

        Raises:
            InternalError: If one of them is known.
        """
        codes = self._intern(np.array(data), np.array(bounds), NO_NULLS)
        if codes.shape[0] and int(codes[-1]) != self._count - 1:
            raise InternalError("a string that should be new is known")

    def adopt_arrays(self, count: int, arena: Bytes, offsets: Words, slots: Words) -> None:
        """Use the arrays of another dictionary of ``count`` strings; this one must be empty."""
        self.arena, self.offsets, self._slots = arena, offsets, slots
        self._count = count
        next_version()

    def shrink(self) -> None:
        """Shrink the hash table if it is far larger than needed."""
        size = 1 << max(4 * self._count - 1, FIRST_SLOTS - 1).bit_length()
        if MAX_SLOT_EXCESS * size < len(self._slots):
            self._rehash(size)

    # Strings of a reply

    def begin_reply(self) -> None:
        """Begin a reply: strings added by :meth:`intern_for_reply` are removed at its end.

        They become permanent if other code receives one of their codes or the number of strings.
        """
        self._before, self._reply_slots = self._count, self._slots

    def end_reply(self, *, keep: bool) -> None:
        """End the reply and remove its strings, unless ``keep`` is set."""
        before, self._before = self._before, None
        if before is not None and not keep and before < self._count and self._slots is self._reply_slots:
            kernels.forget(before, self._count, self.arena, self.offsets, self._slots)
            self._count = before

    @contextmanager
    def reply_scope(self) -> Iterator[None]:
        """Mark words computed in this block as words of the current reply, if there is one."""
        self.is_for_reply = self._before is not None
        try:
            yield
        finally:
            self.is_for_reply = False

    def intern_for_reply(self, strings: Sequence[str | None]) -> Words:
        """Intern strings whose words only go into the reply."""
        self._is_reply_only = True
        try:
            return self.intern(strings)
        finally:
            self._is_reply_only = False

    def make_permanent(self, code: int) -> None:
        """Keep all strings of the reply if ``code`` is one of theirs."""
        if self._before is not None and code >= self._before:
            self._before = None

    def intern_parts(self, bounds: Words, data: Bytes) -> Words:
        """Return the codes of strings ``data[bounds[i]:bounds[i + 1]]``.

        In a :meth:`reply_scope` they are interned for the reply only.
        """
        self._is_reply_only = self.is_for_reply
        try:
            return self._intern(np.ascontiguousarray(data), np.ascontiguousarray(bounds), NO_NULLS)
        finally:
            self._is_reply_only = False

    def parts(self, codes: Words) -> tuple[Words, Bytes]:
        """Return (bounds, data) of the strings of codes, concatenated."""
        return self._gather(np.ascontiguousarray(codes))

    def decode(self, words: Words) -> list[str | None]:
        """Return the strings of codes, None for NULL."""
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
        """Return the strings of codes as an Arrow string array (large_string past 2 GiB), null for NULL."""
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
        """Return (bounds, data) of the strings of codes, concatenated; NULL is empty."""
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
        for first in range(0, count, CHUNK_STRINGS):
            last = min(count, first + CHUNK_STRINGS)
            self._reserve(last - first, int(bounds[last] - bounds[first]))
            arena, offsets, slots = self.arena, self.offsets, self._slots
            self._count = int(
                intern(source, bounds, nulls, arena, offsets, slots, self._count, out, first, last)
            )
        if self._before is not None and count and not self._is_reply_only:
            self.make_permanent(int(out.max()))
        return out

    def _reserve(self, strings: int, size: int) -> None:
        """Make room for ``strings`` more strings of ``size`` bytes in all."""
        used = int(self.offsets[self._count])
        if used + size > len(self.arena):
            arena = np.empty(max(used + size, _growth(self.arena) * len(self.arena)), dtype=np.uint8)
            arena[:used] = self.arena[:used]
            self.arena = arena
            next_version()
        needed = self._count + strings
        if needed + 1 > len(self.offsets):
            offsets = np.zeros(max(needed + 1, _growth(self.offsets) * len(self.offsets)), dtype=np.int64)
            offsets[: self._count + 1] = self.offsets[: self._count + 1]
            self.offsets = offsets
            next_version()
        size_now = len(self._slots)
        if 4 * needed > size_now:
            self._rehash(1 << (4 * needed - 1).bit_length())

    def _rehash(self, size: int) -> None:
        slots = np.full(size, -1, dtype=np.int64)
        kernels.rehash(self._slots, slots)
        self._slots = slots


def _growth(array: "np.ndarray[Any, Any]") -> int:
    return GROWTH if array.nbytes < LARGE_BYTES else 2


def utf8(string: str) -> bytes:
    """Return the bytes of a string.

    Raises:
        DataError: For half of a surrogate pair.
    """
    try:
        return string.encode()
    except UnicodeEncodeError as error:
        code = ord(string[error.start])
        raise DataError(f"text with U+{code:04X}, half of a surrogate pair, is not Unicode") from None
