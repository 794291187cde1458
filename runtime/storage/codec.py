"""The binary codec of catalogs, plans and states.

Values are None, bool, int, float, str, bytes, tuples, lists, sets, dicts, numpy arrays, enum members and
dataclasses. Classes are registered by name on both sides (:class:`Codec`), so data names no code to run, and
a folder may come from an untrusted source. Object identity is preserved, also for values that occur several
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

ARRAY_KINDS: Final = frozenset("biuf")
"""Kinds of numpy arrays that are written; none of them holds objects."""
LENGTH = struct.Struct("<q")
DOUBLE = struct.Struct("<d")


class Tag(enum.IntEnum):
    """Kind of the value that follows."""

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
    REFERENCE = 16
    CLASS = 17
    CUSTOM = 18
    STR_REFERENCE = 19


_INT, _STR, _TUPLE, _RECORD, _STR_REFERENCE = (
    int(Tag.INT),
    int(Tag.STR),
    int(Tag.TUPLE),
    int(Tag.RECORD),
    int(Tag.STR_REFERENCE),
)
_HAS_NUMBER: Final = tuple(tag in (_INT, _TUPLE, _RECORD, _STR_REFERENCE) for tag in range(256))
"""Whether a number follows the tag, for the most frequent tags."""
CONSTANTS: Final = (None, True, False)
"""Values of the first tags."""
CONSTRUCTORS: Final[dict[Tag, Callable[[list[Any]], Any]]] = {
    Tag.TUPLE: tuple,
    Tag.SET: set,
    Tag.FROZENSET: frozenset,
}
"""Constructors of collections by tag."""


class DamagedError(OperationalError):
    """Bytes are not what was written."""


class CustomType(Protocol):
    """Constructor of the values of one registered name."""

    @property
    def read(self) -> Callable[[Any], Any]: ...


class Registry(Protocol):
    """Interface of a codec for its readers."""

    by_name: dict[str, type]
    positional: dict[type, tuple[str, ...]]

    @property
    def custom_by_name(self) -> Mapping[str, CustomType]: ...


class Reader:
    """Decodes one value that starts at the beginning of ``data``."""

    def __init__(self, codec: Registry, data: memoryview) -> None:
        self.codec = codec
        self.data = data
        self.at = LENGTH.size
        self._positional_classes: dict[int, tuple[type, int]] = {}
        """Classes by number that are constructed from values in the order of their fields."""
        (size,) = LENGTH.unpack_from(data, 0)
        if not 0 <= size <= len(data) - LENGTH.size:
            raise DamagedError("bytes are no value: they end too early")
        self.array_at = LENGTH.size + size + padding(size)
        self.text = bytes(data[: LENGTH.size + size])
        self._objects: list[object] = []
        self._texts: list[str] = []
        self._classes: list[tuple[type, tuple[str, ...]]] = []

    def read(self) -> Any:
        """Return the value."""
        return self.read_value()

    def read_value(self) -> Any:
        """Return the next value."""
        # Most of the time to open a large catalog is spent here, and lookups of enum members are slow.
        text, at = self.text, self.at
        tag = text[at]
        if not _HAS_NUMBER[tag]:
            self.at = at + 1
            if tag < _INT:
                return CONSTANTS[tag]
            return self._text(tag) if tag == _STR else self._other(tag)
        number = text[at + 1]
        self.at = at + 2
        if number >= 128:
            self.at = at + 1
            number = self._number()
        if tag == _INT:
            return (number >> 1) ^ -(number & 1)
        if tag == _STR_REFERENCE:
            return self._texts[number]
        value = self.read_value
        if tag == _TUPLE:
            return tuple([value() for _ in range(number)])
        positional = self._positional_classes.get(number)
        if positional is None:
            return self._record(*self._classes[number])
        instance = positional[0](*[value() for _ in range(positional[1])])
        self._objects.append(instance)
        return instance

    def _other(self, tag: int) -> Any:
        match tag:
            case Tag.LIST | Tag.SET | Tag.FROZENSET:
                items = [self.read_value() for _ in range(self._number())]
                return items if tag == Tag.LIST else CONSTRUCTORS[Tag(tag)](items)
            case Tag.CLASS:
                return self._first_record()
            case Tag.BIG:
                return int.from_bytes(self._raw(), "little", signed=True)
            case Tag.FLOAT:
                self.at += DOUBLE.size
                return DOUBLE.unpack_from(self.text, self.at - DOUBLE.size)[0]
            case Tag.BYTES:
                return self._raw()
            case Tag.DICT:
                return {self.read_value(): self.read_value() for _ in range(self._number())}
            case Tag.ARRAY:
                return self._array()
            case Tag.ENUM:
                known: Mapping[str, Any] = self._class(self._text(self._byte())).__members__  # type: ignore[attr-defined]
                return known[self._text(self._byte())]
            case Tag.REFERENCE:
                return self._objects[self._number()]
            case Tag.CUSTOM:
                return self._custom()
        raise DamagedError(f"bytes are no value: unknown tag {tag}")

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
        if tag == Tag.STR_REFERENCE:
            return self._texts[self._number()]
        if tag != Tag.STR:
            raise DamagedError(f"bytes are no value: tag {tag} instead of a text")
        self._texts.append(self._raw().decode("utf-8", "surrogatepass"))
        return self._texts[-1]

    def _array(self) -> "np.ndarray[Any, Any]":
        kind = np.dtype(self._text(self._byte()))
        if kind.kind not in ARRAY_KINDS:
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

    def _first_record(self) -> Any:
        """Read the first instance of a class, with the names of its fields."""
        kind, names = self._class(self._text(self._byte())), self.read_value()
        if names == self.codec.positional.get(kind):
            self._positional_classes[len(self._classes)] = kind, len(names)
        self._classes.append((kind, names))
        return self._record(kind, names)

    def _record(self, kind: type, names: tuple[str, ...]) -> Any:
        values = [self.read_value() for _ in names]
        instance = kind(**dict(zip(names, values, strict=True)))
        self._objects.append(instance)
        return instance

    def _custom(self) -> Any:
        name = self._text(self._byte())
        custom = self.codec.custom_by_name.get(name)
        if custom is None:
            raise DamagedError(f'"{name}" is not known', hint="a newer kpg may have written it")
        value = custom.read(self.read_value())
        self._objects.append(value)
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class Custom:
    """Encoding of a class that is no dataclass: ``write`` converts its values, ``read`` converts back."""

    name: str
    type: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Codec:
    """Encodes and decodes values of registered classes, each under a name."""

    def __init__(self, classes: Iterable[type] = (), custom: Iterable[Custom] = ()) -> None:
        self.by_name: dict[str, type] = {}
        self.names: dict[type, str] = {}
        self.fields: dict[type, tuple[str, ...]] = {}
        self.positional: dict[type, tuple[str, ...]] = {}
        """Fields of classes that are constructed from positional arguments."""
        for class_ in classes:
            self.add(class_)
        self.custom = {one.type: one for one in custom}
        self.custom_by_name = {one.name: one for one in self.custom.values()}

    def add(self, class_: type, name: str | None = None) -> None:
        """Register a dataclass or an enum, under its own name or another."""
        name = class_.__name__ if name is None else name
        if self.by_name.get(name, class_) is not class_:
            raise ValueError(f"two classes are called {name}")
        self.by_name[name] = class_
        self.names[class_] = name
        if not issubclass(class_, enum.Enum):
            fields = dataclasses.fields(class_)  # type: ignore[arg-type]
            self.fields[class_] = tuple(field.name for field in fields if field.init)
            if not any(field.kw_only for field in fields):
                self.positional[class_] = self.fields[class_]

    def encode(self, value: Any) -> list[Piece]:
        """Return the encoding in pieces, each a multiple of eight bytes long; arrays are not copied.

        Raises:
            TypeError: For a value of an unregistered class.
        """
        writer = _Writer(self)
        writer.write_value(value)
        text = bytes(writer.out)
        pieces: list[Piece] = [LENGTH.pack(len(text)), text + bytes(padding(len(text)))]
        for array in writer.arrays:
            pieces.append(array.reshape(-1).view(np.uint8).data if array.size else b"")
            if padding(array.nbytes):
                pieces[-1] = bytes(pieces[-1]) + bytes(padding(array.nbytes))
        return [piece for piece in pieces if len(piece)]

    def dumps(self, value: Any) -> bytes:
        """Return the encoding as bytes."""
        return b"".join(self.encode(value))

    def decode(self, data: Any) -> Any:
        """Return the value at the beginning of ``data``, which is any buffer; arrays are views of it.

        Raises:
            DamagedError: If the bytes are no encoding, or have a class that is not registered.
        """
        try:
            return Reader(self, memoryview(data).cast("B")).read()
        except DamagedError:
            raise
        except (struct.error, IndexError, ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DamagedError(f"bytes are no value: {type(error).__name__}: {error}") from error


class _Writer:
    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.out = bytearray()
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._object_numbers: dict[int, int] = {}
        self._references: list[object] = []
        self._texts: dict[str, int] = {}
        self._classes: dict[type, int] = {}

    def write_value(self, value: Any) -> None:
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
            self._write_registered(value, kind)
        elif kind in self.codec.custom:
            self._custom(value, self.codec.custom[kind])
        else:
            self._other(value, kind)

    def _other(self, value: Any, kind: type) -> None:
        if kind is float:
            self.out.append(Tag.FLOAT)
            self.out += DOUBLE.pack(value)
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
                self.write_value(key)
                self.write_value(one)
        elif kind is set or kind is frozenset:
            # Sorted, so that equal sets have equal encodings.
            self._items(Tag.SET if kind is set else Tag.FROZENSET, sorted(value, key=repr))
        elif isinstance(value, np.ndarray) and value.dtype.kind in ARRAY_KINDS:
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
        number = self._texts.get(value)
        if number is not None:
            self.out.append(Tag.STR_REFERENCE)
            self._number(number)
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
            self.write_value(one)

    def _array(self, value: "np.ndarray[Any, Any]") -> None:
        self.out.append(Tag.ARRAY)
        self._text(value.dtype.newbyteorder("<").str)
        self._number(value.ndim)
        for size in value.shape:
            self._number(size)
        little = value.dtype.newbyteorder("<")
        self.arrays.append(np.ascontiguousarray(value, little))

    def _write_reference(self, value: object) -> bool:
        number = self._object_numbers.get(id(value))
        if number is not None:
            self.out.append(Tag.REFERENCE)
            self._number(number)
        return number is not None

    def _add_object(self, value: object) -> None:
        self._object_numbers[id(value)] = len(self._object_numbers)
        self._references.append(value)

    def _write_registered(self, value: Any, kind: type) -> None:
        if isinstance(value, enum.Enum):
            self.out.append(Tag.ENUM)
            self._text(self.codec.names[kind])
            self._text(value.name)
            return
        if self._write_reference(value):
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
            self.write_value(getattr(value, name))
        self._add_object(value)

    def _custom(self, value: Any, custom: Custom) -> None:
        if self._write_reference(value):
            return
        self.out.append(Tag.CUSTOM)
        self._text(custom.name)
        self.write_value(custom.write(value))
        self._add_object(value)
