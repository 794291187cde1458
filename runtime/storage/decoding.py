"""Bytes to values: the part of the codec that reads, and the tags that stand in the bytes (see ``codec``)."""

import enum
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.checksum import padding

KINDS: Final = frozenset("biuf")
"""Kinds of numpy arrays that are written: they hold no objects."""
SMALL = struct.Struct("<q")
REAL = struct.Struct("<d")


class Tag(enum.IntEnum):
    """What follows."""

    NONE = 0
    TRUE = 1
    FALSE = 2
    INT = 3
    BIG = 4
    FLOAT = 5
    STR = 6
    BYTES = 7
    TUPLE = 8
    LIST = 9
    SET = 10
    FROZENSET = 11
    DICT = 12
    ARRAY = 13
    RECORD = 14
    ENUM = 15
    AGAIN = 16
    CLASS = 17
    CUSTOM = 18
    SAID = 19


_INT, _STR, _TUPLE, _RECORD, _SAID = (
    int(Tag.INT),
    int(Tag.STR),
    int(Tag.TUPLE),
    int(Tag.RECORD),
    int(Tag.SAID),
)
_NUMBERED: Final = tuple(tag in (_INT, _TUPLE, _RECORD, _SAID) for tag in range(256))
"""After which tags a number follows, of those that come most often."""
FIRST: Final = (None, True, False)
"""What the first tags stand for."""
GATHERED: Final[dict[Tag, Callable[[list[Any]], Any]]] = {
    Tag.TUPLE: tuple,
    Tag.SET: set,
    Tag.FROZENSET: frozenset,
}


class DamagedError(OperationalError):
    """Bytes are not what was written."""


class Maker(Protocol):
    """Who knows how values of one name are made."""

    @property
    def read(self) -> Callable[[Any], Any]: ...


class Known(Protocol):
    """What is needed of a codec."""

    by_name: dict[str, type]
    positional: dict[type, tuple[str, ...]]

    @property
    def custom_by_name(self) -> Mapping[str, Maker]: ...


class Reader:
    """One reading of a value, of bytes that have it from their beginning."""

    def __init__(self, codec: Known, data: memoryview) -> None:
        self.codec = codec
        self.data = data
        self.at = SMALL.size
        self._made: dict[int, tuple[type, int]] = {}
        """Classes, by their places, whose instances are made of values in the order of their fields."""
        (size,) = SMALL.unpack_from(data, 0)
        if not 0 <= size <= len(data) - SMALL.size:
            raise DamagedError("bytes are no value: they end too early")
        self.array_at = SMALL.size + size + padding(size)
        self.text = bytes(data[: SMALL.size + size])
        self._seen: list[object] = []
        self._texts: list[str] = []
        self._classes: list[tuple[type, tuple[str, ...]]] = []

    def whole(self) -> Any:
        """The value."""
        return self.value()

    def value(self) -> Any:
        """The next value."""
        # Members of Tag are looked up slowly, and most of opening a large catalog happens here.
        text, at = self.text, self.at
        tag = text[at]
        if not _NUMBERED[tag]:
            self.at = at + 1
            if tag < _INT:
                return FIRST[tag]
            return self._text(tag) if tag == _STR else self._other(tag)
        number = text[at + 1]
        self.at = at + 2
        if number >= 128:
            self.at = at + 1
            number = self._number()
        if tag == _INT:
            return (number >> 1) ^ -(number & 1)
        if tag == _SAID:
            return self._texts[number]
        value = self.value
        if tag == _TUPLE:
            return tuple([value() for _ in range(number)])
        known = self._made.get(number)
        if known is None:
            return self._record(*self._classes[number])
        made = known[0](*[value() for _ in range(known[1])])
        self._seen.append(made)
        return made

    def _other(self, tag: int) -> Any:
        match tag:
            case Tag.LIST | Tag.SET | Tag.FROZENSET:
                items = [self.value() for _ in range(self._number())]
                return items if tag == Tag.LIST else GATHERED[Tag(tag)](items)
            case Tag.CLASS:
                return self._first_of()
            case Tag.BIG:
                return int.from_bytes(self._raw(), "little", signed=True)
            case Tag.FLOAT:
                self.at += REAL.size
                return REAL.unpack_from(self.text, self.at - REAL.size)[0]
            case Tag.BYTES:
                return self._raw()
            case Tag.DICT:
                return {self.value(): self.value() for _ in range(self._number())}
            case Tag.ARRAY:
                return self._array()
            case Tag.ENUM:
                known: Mapping[str, Any] = self._class(self._text(self._byte())).__members__  # type: ignore[attr-defined]
                return known[self._text(self._byte())]
            case Tag.AGAIN:
                return self._seen[self._number()]
            case Tag.CUSTOM:
                return self._custom()
        raise DamagedError(f"bytes are no value: there is no kind {tag}")

    def _byte(self) -> int:
        self.at += 1
        return self.text[self.at - 1]

    def _number(self) -> int:
        number = self.text[self.at]
        if number < 128:
            self.at += 1
            return number
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def _raw(self) -> bytes:
        size = self._number()
        raw = self.text[self.at : self.at + size]
        if len(raw) != size:
            raise DamagedError("bytes are no value: they end too early")
        self.at += size
        return raw

    def _text(self, tag: int) -> str:
        if tag == Tag.SAID:
            return self._texts[self._number()]
        if tag != Tag.STR:
            raise DamagedError(f"bytes are no value: kind {tag} where a text is")
        self._texts.append(self._raw().decode("utf-8", "surrogatepass"))
        return self._texts[-1]

    def _array(self) -> "np.ndarray[Any, Any]":
        kind = np.dtype(self._text(self._byte()))
        if kind.kind not in KINDS:
            raise DamagedError(f"bytes are no value: an array of {kind}")
        shape = tuple(self._number() for _ in range(self._number()))
        count = 1
        for size in shape:
            count *= size
        start, self.array_at = self.array_at, self.array_at + count * kind.itemsize
        if self.array_at > len(self.data):
            raise DamagedError("bytes are no value: an array ends too early")
        self.array_at += padding(self.array_at)
        if not count:
            return np.empty(shape, kind)
        return np.frombuffer(self.data, kind, count, start).reshape(shape)

    def _class(self, name: str) -> type:
        found = self.codec.by_name.get(name)
        if found is None:
            raise DamagedError(f'"{name}" is not known', hint="a newer kpg may have written it")
        return found

    def _first_of(self) -> Any:
        """An instance of a class that has not been there before."""
        kind, names = self._class(self._text(self._byte())), self.value()
        if names == self.codec.positional.get(kind):
            self._made[len(self._classes)] = kind, len(names)
        self._classes.append((kind, names))
        return self._record(kind, names)

    def _record(self, kind: type, names: tuple[str, ...]) -> Any:
        values = [self.value() for _ in names]
        made = kind(**dict(zip(names, values, strict=True)))
        self._seen.append(made)
        return made

    def _custom(self) -> Any:
        name = self._text(self._byte())
        how = self.codec.custom_by_name.get(name)
        if how is None:
            raise DamagedError(f'"{name}" is not known', hint="a newer kpg may have written it")
        made = how.read(self.value())
        self._seen.append(made)
        return made
