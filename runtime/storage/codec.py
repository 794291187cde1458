"""The binary codec of catalogs, plans and states.

Values are None, bool, int, float, str, bytes, tuples, lists, sets, dicts, numpy arrays, enum members and
dataclasses. Classes are registered by name on both sides (``Codec``), so data names no code to run, and a
folder may come from an untrusted source. Object identity is preserved, also for values that occur several
times. Fields are written by name; a newer field with a default may be missing.

The encoding is a length, the tagged values, then the bytes of arrays, each aligned to eight bytes, so that
reading copies nothing.
"""

import dataclasses
import enum
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.files import Piece, padding

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


@dataclasses.dataclass(frozen=True, slots=True)
class Custom:
    """How values of a class that is no dataclass are written: as another value, and made of it again."""

    name: str
    type: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Codec:
    """The classes that are known, each by the name that stands in the bytes; and how they are written."""

    def __init__(self, known: Iterable[type] = (), custom: Iterable[Custom] = ()) -> None:
        self.by_name: dict[str, type] = {}
        self.names: dict[type, str] = {}
        self.fields: dict[type, tuple[str, ...]] = {}
        self.positional: dict[type, tuple[str, ...]] = {}
        """The fields of classes that are made of values without names."""
        for one in known:
            self.add(one)
        self.custom = {one.type: one for one in custom}
        self.custom_by_name = {one.name: one for one in self.custom.values()}

    def add(self, known: type, name: str | None = None) -> None:
        """Let instances of a dataclass, or members of an enum, be written, under its name or another."""
        name = known.__name__ if name is None else name
        if self.by_name.get(name, known) is not known:
            raise ValueError(f"two classes are called {name}")
        self.by_name[name] = known
        self.names[known] = name
        if not issubclass(known, enum.Enum):
            fields = dataclasses.fields(known)  # type: ignore[arg-type]
            self.fields[known] = tuple(field.name for field in fields if field.init)
            if not any(field.kw_only for field in fields):
                self.positional[known] = self.fields[known]

    def encode(self, value: Any) -> list[Piece]:
        """The bytes of a value in pieces, each a multiple of eight long; arrays are not copied.

        TypeError for what is not known.
        """
        writer = _Writer(self)
        writer.value(value)
        text = bytes(writer.out)
        pieces: list[Piece] = [SMALL.pack(len(text)), text + bytes(padding(len(text)))]
        for array in writer.arrays:
            pieces.append(array.reshape(-1).view(np.uint8).data if array.size else b"")
            if padding(array.nbytes):
                pieces[-1] = bytes(pieces[-1]) + bytes(padding(array.nbytes))
        return [piece for piece in pieces if len(piece)]

    def dumps(self, value: Any) -> bytes:
        """The bytes of a value."""
        return b"".join(self.encode(value))

    def decode(self, data: Any) -> Any:
        """The value whose bytes begin there, anything with a buffer; arrays are views of it.

        DamagedError if they are no value's, or of a class that is not known.
        """
        try:
            return Reader(self, memoryview(data).cast("B")).whole()
        except DamagedError:
            raise
        except (struct.error, IndexError, ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DamagedError(f"bytes are no value: {type(error).__name__}: {error}") from error


class _Writer:
    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.out = bytearray()
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []
        self._texts: dict[str, int] = {}
        self._classes: dict[type, int] = {}

    def value(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind is bool:
            self.out.append(Tag.NONE if value is None else Tag.TRUE if value else Tag.FALSE)
        elif kind is int or isinstance(value, np.integer):
            self._int(int(value))
        elif kind is str:
            self._text(value)
        elif kind is tuple:
            self._items(Tag.TUPLE, value)
        elif kind in self.codec.names:
            self._known(value, kind)
        elif kind in self.codec.custom:
            self._custom(value, self.codec.custom[kind])
        else:
            self._other(value, kind)

    def _other(self, value: Any, kind: type) -> None:
        if kind is float:
            self.out.append(Tag.FLOAT)
            self.out += REAL.pack(value)
        elif kind is bytes:
            self.out.append(Tag.BYTES)
            self._number(len(value))
            self.out += value
        elif kind is list:
            self._items(Tag.LIST, value)
        elif kind is dict:
            self.out.append(Tag.DICT)
            self._number(len(value))
            for key, one in value.items():
                self.value(key)
                self.value(one)
        elif kind is set or kind is frozenset:
            # In an order of its own: the same sets have the same bytes.
            self._items(Tag.SET if kind is set else Tag.FROZENSET, sorted(value, key=repr))
        elif isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
            self._array(value)
        elif isinstance(value, str):
            self._text(value)
        else:
            raise TypeError(f"a {kind.__module__}.{kind.__qualname__} has no form in bytes")

    def _number(self, number: int) -> None:
        while number >= 128:
            self.out.append(number & 127 | 128)
            number >>= 7
        self.out.append(number)

    def _int(self, value: int) -> None:
        if -(2**63) <= value < 2**63:
            self.out.append(Tag.INT)
            self._number((value << 1) ^ (value >> 63))
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.out.append(Tag.BIG)
            self._number(len(raw))
            self.out += raw

    def _text(self, value: str) -> None:
        known = self._texts.get(value)
        if known is not None:
            self.out.append(Tag.SAID)
            self._number(known)
            return
        self._texts[value] = len(self._texts)
        raw = value.encode("utf-8", "surrogatepass")
        self.out.append(Tag.STR)
        self._number(len(raw))
        self.out += raw

    def _items(self, tag: int, values: Iterable[Any]) -> None:
        items = list(values)
        self.out.append(tag)
        self._number(len(items))
        for one in items:
            self.value(one)

    def _array(self, value: "np.ndarray[Any, Any]") -> None:
        self.out.append(Tag.ARRAY)
        self._text(value.dtype.newbyteorder("<").str)
        self._number(value.ndim)
        for size in value.shape:
            self._number(size)
        little = value.dtype.newbyteorder("<")
        self.arrays.append(np.ascontiguousarray(value, little))

    def _repeated(self, value: object) -> bool:
        known = self._seen.get(id(value))
        if known is not None:
            self.out.append(Tag.AGAIN)
            self._number(known)
        return known is not None

    def _note(self, value: object) -> None:
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)

    def _known(self, value: Any, kind: type) -> None:
        if isinstance(value, enum.Enum):
            self.out.append(Tag.ENUM)
            self._text(self.codec.names[kind])
            self._text(value.name)
            return
        if self._repeated(value):
            return
        number = self._classes.get(kind)
        fields = self.codec.fields[kind]
        if number is None:
            self._classes[kind] = len(self._classes)
            self.out.append(Tag.CLASS)
            self._text(self.codec.names[kind])
            self._items(Tag.TUPLE, fields)
        else:
            self.out.append(Tag.RECORD)
            self._number(number)
        for name in fields:
            self.value(getattr(value, name))
        self._note(value)

    def _custom(self, value: Any, how: Custom) -> None:
        if self._repeated(value):
            return
        self.out.append(Tag.CUSTOM)
        self._text(how.name)
        self.value(how.write(value))
        self._note(value)
