"""SQL types, and how each of their values becomes one int64 *word*.

Every value in the engine is one word, so that one kernel signature serves every type and arity:

=================  ======================================================================
type               word
=================  ======================================================================
BOOLEAN            0 or 1
SMALLINT .. BIGINT the integer
DECIMAL(p, s)      the value times 10**s
REAL, DOUBLE       the IEEE bits, negatives flipped, so that words order as the values do
DATE               days since 1970-01-01
TIMESTAMP          microseconds since 1970-01-01 00:00:00
TIMESTAMPTZ        the same in UTC
TIME               microseconds since midnight
INTERVAL DAY, ...  microseconds (``INTERVAL_DAY``) or months (``INTERVAL_MONTH``) only
ENUM, TID          position among the labels; block and place of a row
EXTENSION          what the extension's ``parse`` returns; values order as their words
CHAR, VARCHAR      code of the string in the engine's dictionary (not ordered)
all others         code of a string that stands for the value: see ``runtime.values``
ROWID              position of a row in its table's row store
=================  ======================================================================

Two words are reserved in every type: ``NULL`` and ``ERROR``, the result of a failed operation on its
way to the place where it is known whether anybody needs it.
"""

import enum
import struct
from collections.abc import Sequence
from typing import Final, TypeVar

from kpg.runtime.records import dataclass

NULL: Final = -(2**63)
"""Word of NULL in every type: the smallest one, so NULLs sort first."""
ERROR: Final = NULL + 1
"""Word of a failed operation."""
MIN_WORD: Final = NULL + 2
MAX_WORD: Final = 2**63 - 1
"""The smallest and the largest word of a value."""
MAX_DECIMAL_PRECISION: Final = 18
"""Decimal digits that every word can hold."""


T = TypeVar("T")


class CachedHash:
    """Base of the dataclasses under :func:`hash_once`: holds the cached hash, which is not pickled."""

    __slots__ = ("_columns", "_hash", "_text")
    _hash: int
    _text: str
    _columns: frozenset[int]


def hash_once(cls: type[T]) -> type[T]:
    """Cache the hash of instances of a frozen :class:`CachedHash` dataclass (class decorator).

    Expressions and plans are keys of many tables, and computing a hash reads the whole expression.
    """
    compute, keep = cls.__hash__, object.__setattr__

    def cached_hash(self: CachedHash) -> int:
        try:
            return self._hash
        except AttributeError:
            value = compute(self)
            keep(self, "_hash", value)
            return value

    cls.__hash__ = cached_hash  # type: ignore[method-assign, assignment]
    return cls


class Kind(enum.Enum):
    """Family of a type; its value is the SQL name."""

    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMPTZ"
    TIME = "TIME"
    INTERVAL_MONTH = "INTERVAL MONTH"
    INTERVAL_DAY = "INTERVAL DAY"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    NUMERIC = "NUMERIC"
    INTERVAL = "INTERVAL"
    ARRAY = "ARRAY"
    JSON = "JSON"
    JSONB = "JSONB"
    UUID = "UUID"
    BYTEA = "BYTEA"
    BIT = "BIT"
    VARBIT = "BIT VARYING"
    TIMETZ = "TIMETZ"
    INET = "INET"
    CIDR = "CIDR"
    MACADDR = "MACADDR"
    MACADDR8 = "MACADDR8"
    RANGE = "RANGE"
    MULTIRANGE = "MULTIRANGE"
    PG_LSN = "PG_LSN"
    RECORD = "RECORD"
    ENUM = "ENUM"
    TID = "TID"
    ROWID = "ROWID"
    EXTENSION = "EXTENSION"

    # Members are singletons, and the planner hashes tens of thousands of types.
    __hash__ = object.__hash__


INTEGER_KINDS: Final = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})
FLOAT_KINDS: Final = frozenset({Kind.REAL, Kind.DOUBLE})
EXACT_KINDS: Final = INTEGER_KINDS | {Kind.DECIMAL}
"""Numbers whose words are the values times a power of ten."""
NUMERIC_KINDS: Final = EXACT_KINDS | FLOAT_KINDS | {Kind.NUMERIC}
TEXT_KINDS: Final = frozenset({Kind.CHAR, Kind.VARCHAR})
BIT_KINDS: Final = frozenset({Kind.BIT, Kind.VARBIT})
NETWORK_KINDS: Final = frozenset({Kind.INET, Kind.CIDR})
TEXT_FORM_KINDS: Final = (
    BIT_KINDS
    | NETWORK_KINDS
    | {Kind.TIMETZ, Kind.MACADDR, Kind.MACADDR8, Kind.RANGE, Kind.MULTIRANGE, Kind.PG_LSN}
)
"""Types whose values are exchanged with Python as SQL text."""
VALUE_KINDS: Final = TEXT_FORM_KINDS | frozenset(
    {Kind.NUMERIC, Kind.INTERVAL, Kind.ARRAY, Kind.JSON, Kind.JSONB, Kind.UUID, Kind.BYTEA, Kind.RECORD}
)
"""Types whose values are stored as strings of the dictionary."""
INTERNED_KINDS: Final = TEXT_KINDS | VALUE_KINDS

RANGE_NAMES: Final = {
    Kind.INTEGER: "INT4",
    Kind.BIGINT: "INT8",
    Kind.NUMERIC: "NUM",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TS",
    Kind.TIMESTAMPTZ: "TSTZ",
}
"""Prefixes of range type names, by the kind of the bounds."""


@hash_once
@dataclass(frozen=True, slots=True)
class Type(CachedHash):
    """SQL type. ``precision`` is DECIMAL's p or CHAR/VARCHAR's n (0: unlimited); ``scale`` is DECIMAL's s."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    table: str = ""
    """ROWID's table; empty in expressions, which do not specify it, and for columns of NULLs only."""
    parts: "tuple[Type, ...]" = ()
    """Element type of an ARRAY; field types of a RECORD."""
    labels: tuple[str, ...] = ()
    """Labels of an ENUM, in order; field names of a RECORD; the extension of an EXTENSION type."""
    name: str = ""
    """Name of an ENUM, of a named RECORD, or of an extension's type."""

    def __repr__(self) -> str:
        try:
            return self._text  # fingerprints of plans have it for every column
        except AttributeError:
            names = ("kind", "precision", "scale", "table", "parts", "labels", "name")
            text = f"Type({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"
            object.__setattr__(self, "_text", text)
            return text

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL or (self.kind is Kind.NUMERIC and self.precision):
            return f"{self.kind.value}({self.precision}, {self.scale})"
        if self.kind is Kind.ARRAY:
            return f"{self.parts[0]}[]"
        if self.kind in (Kind.RANGE, Kind.MULTIRANGE):
            return f"{RANGE_NAMES[self.parts[0].kind]}{self.kind.value}"
        if self.kind in BIT_KINDS and self.precision:
            return f"{self.kind.value}({self.precision})"
        if self.name:
            return self.name
        if self.table:
            return f"{self.kind.value}({self.table})"
        if self.kind in TEXT_KINDS and self.precision:
            return f"{self.kind.value}({self.precision})"
        return str(self.kind.value)

    @property
    def is_text(self) -> bool:
        """Whether functions of text apply."""
        return self.kind in TEXT_KINDS

    @property
    def has_length_limit(self) -> bool:
        """Whether it is a text type with a length, or an array of such texts or of bit strings with one."""
        if self.kind is Kind.ARRAY:
            (element,) = self.parts
            return element.has_length_limit or (element.kind in BIT_KINDS and element.precision > 0)
        return self.is_text and self.precision > 0

    @property
    def is_padded(self) -> bool:
        """Whether values are displayed padded with blanks to their length."""
        return self.kind is Kind.CHAR and self.precision > 0

    @property
    def is_interned(self) -> bool:
        """Whether a word is the code of a string: equal for equal values, but not ordered."""
        return self.kind in INTERNED_KINDS

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_KINDS

    @property
    def is_exact(self) -> bool:
        """Whether it is a number whose word is the value times a power of ten."""
        return self.kind in EXACT_KINDS

    @property
    def is_float(self) -> bool:
        return self.kind in FLOAT_KINDS

    @property
    def is_numeric(self) -> bool:
        return self.kind in NUMERIC_KINDS


UNKNOWN: Final = Type(Kind.NULL)
BOOLEAN: Final = Type(Kind.BOOLEAN)
SMALLINT: Final = Type(Kind.SMALLINT)
INTEGER: Final = Type(Kind.INTEGER)
BIGINT: Final = Type(Kind.BIGINT)
OID: Final = Type(Kind.BIGINT, name="oid")  # object numbers in catalogs
XID: Final = Type(Kind.BIGINT, name="xid")  # transaction numbers in catalogs
ONE_BYTE: Final = Type(Kind.VARCHAR, name='"char"')  # single letters in catalogs
REGPROC: Final = Type(Kind.VARCHAR, name="regproc")  # function names in catalogs, "-" for none
REAL: Final = Type(Kind.REAL)
DOUBLE: Final = Type(Kind.DOUBLE)
DATE: Final = Type(Kind.DATE)
TIMESTAMP: Final = Type(Kind.TIMESTAMP)
TIMESTAMPTZ: Final = Type(Kind.TIMESTAMPTZ)
TIME: Final = Type(Kind.TIME)
INTERVAL: Final = Type(Kind.INTERVAL)
INTERVAL_MONTH: Final = Type(Kind.INTERVAL_MONTH)
INTERVAL_DAY: Final = Type(Kind.INTERVAL_DAY)
TEXT: Final = Type(Kind.VARCHAR)
NUMERIC: Final = Type(Kind.NUMERIC)
JSON: Final = Type(Kind.JSON)
JSONB: Final = Type(Kind.JSONB)
UUID: Final = Type(Kind.UUID)
BYTEA: Final = Type(Kind.BYTEA)
VARBIT: Final = Type(Kind.VARBIT)
TIMETZ: Final = Type(Kind.TIMETZ)
INET: Final = Type(Kind.INET)
CIDR: Final = Type(Kind.CIDR)
MACADDR: Final = Type(Kind.MACADDR)
MACADDR8: Final = Type(Kind.MACADDR8)
PG_LSN: Final = Type(Kind.PG_LSN)
TID: Final = Type(Kind.TID)
ROWID: Final = Type(Kind.ROWID)
INTEGER_WIDTHS: Final = (SMALLINT, INTEGER, XID, OID, BIGINT)
"""Integer types in ascending order of their ranges."""


def decimal(precision: int, scale: int) -> Type:
    """Return DECIMAL(precision, scale); precision is capped at 18, which fits a word."""
    return Type(Kind.DECIMAL, min(precision, MAX_DECIMAL_PRECISION), scale)


def array(element: Type) -> Type:
    """Return the array type of ``element``; arrays of any number of dimensions have the same type."""
    return element if element.kind is Kind.ARRAY else Type(Kind.ARRAY, parts=(element,))


def range_of(bound: Type) -> Type:
    """Return the type of ranges of ``bound`` values."""
    return Type(Kind.RANGE, parts=(bound,))


def multirange_of(bound: Type) -> Type:
    """Return the type of multiranges of ``bound`` values."""
    return Type(Kind.MULTIRANGE, parts=(bound,))


def record(fields: Sequence[Type], names: Sequence[str] = ()) -> Type:
    """Return the type of rows with these fields."""
    return Type(Kind.RECORD, parts=tuple(fields), labels=tuple(names))


def rowid(table: str) -> Type:
    """Return the type of a table's rowids."""
    return Type(Kind.ROWID, table=table)


def is_loose(type_: Type) -> bool:
    """Return whether equal values may be different words, such as 1.0 and 1.00.

    See ``functions.comparison``.
    """
    if type_.kind is Kind.NUMERIC:
        return not type_.precision
    return type_.kind in (Kind.INTERVAL, Kind.JSONB) or any(map(is_loose, type_.parts))


def have_same_words(left: Type, right: Type) -> bool:
    """Return whether equal values of the two types are equal words."""
    if left.is_text and right.is_text:
        return True
    if left.is_integer and right.is_integer:
        return True
    if left.table and right.table:
        return left.table == right.table
    if {left.kind, right.kind} in (BIT_KINDS, NETWORK_KINDS):
        return True
    if left.kind is not right.kind or left.name != right.name:
        return False
    if left.parts or right.parts:
        same_width = len(left.parts) == len(right.parts)
        return same_width and all(map(have_same_words, left.parts, right.parts))
    return left.kind is not Kind.DECIMAL or left.scale == right.scale


def common_word_type(types: Sequence[Type]) -> Type | None:
    """Return the type of a column with words of all these types; None if the words are incompatible.

    NULL's type is compatible with every type, and a rowid without a table with every rowid.
    """
    typed = [type_ for type_ in types if type_.kind is not Kind.NULL] or [UNKNOWN]
    first = next((type_ for type_ in typed if type_.table), typed[0])
    if not all(have_same_words(first, type_) for type_ in typed):
        return None
    if first.is_text:
        return first if all(type_ == first for type_ in typed) else TEXT
    if first.is_integer:
        return max(typed, key=INTEGER_WIDTHS.index)
    if first.kind in VALUE_KINDS:
        return first if all(type_ == first for type_ in typed) else _widest_type(typed)
    return first if first.table else max(typed, key=lambda type_: type_.precision)


def _widest_type(types: Sequence[Type]) -> Type:
    """Return, of types with the same words, one without precision whose fields hold the values of all."""
    first = types[0]
    parts = tuple(
        common_word_type(fields) or fields[0] for fields in zip(*(t.parts for t in types), strict=True)
    )
    return Type(first.kind, parts=parts, labels=first.labels, name=first.name)


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column of a table or view."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns of a relation and positions of its primary key (empty: none)."""

    columns: tuple[ColumnDef, ...]
    primary_key: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.columns)


def float_to_word(value: float) -> int:
    """Return the order-preserving word of a double.

    -0.0 becomes 0.0, and every NaN one NaN above infinity.
    """
    if value != value:
        return 0x7FF8000000000000
    bits = int(struct.unpack("<q", struct.pack("<d", value + 0.0))[0])
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


def word_to_float(word: int) -> float:
    """Return the double of a word, the inverse of :func:`float_to_word`."""
    bits = word if word >= 0 else word ^ 0x7FFFFFFFFFFFFFFF
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)


def plan_assumptions(schema: Schema) -> object:
    """Return the properties of a table's rows that plans rely on."""
    return schema.primary_key, schema.types, [column.nullable for column in schema.columns]
