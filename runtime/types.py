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
INTERVAL           months (``INTERVAL_MONTH``) or microseconds (``INTERVAL_DAY``)
CHAR, VARCHAR      code of the string in the engine's dictionary (not ordered)
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
"""The word of NULL in every type: the smallest, so that NULLs come first where words are in order."""
ERROR: Final = NULL + 1
"""The word of a failed operation."""
MIN_WORD: Final = NULL + 2
"""The smallest word of a value."""
MAX_WORD: Final = 2**63 - 1
"""The largest word of a value."""
MAX_DECIMAL_PRECISION: Final = 18
"""Digits that every word can hold."""


T = TypeVar("T")


class HashedOnce:
    """Base of the dataclasses under :func:`hash_once`: where they keep their hash, which is not pickled."""

    __slots__ = ("_hash",)
    _hash: int


def hash_once(cls: type[T]) -> type[T]:
    """Class decorator: instances of a frozen :class:`HashedOnce` dataclass compute their hash once.

    Expressions and plans are keys of many tables, and hashing one anew reads all of it.
    """
    compute, keep = cls.__hash__, object.__setattr__

    def kept(self: HashedOnce) -> int:
        known: int | None = getattr(self, "_hash", None)
        if known is None:
            known = compute(self)
            keep(self, "_hash", known)
        return known

    cls.__hash__ = kept  # type: ignore[method-assign, assignment]
    return cls


class Kind(enum.Enum):
    """The family of a type; its value is the SQL name."""

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
    INTERVAL_MONTH = "INTERVAL MONTH"
    INTERVAL_DAY = "INTERVAL DAY"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    ROWID = "ROWID"

    # Members are singletons; the planner hashes types by the ten thousand.
    __hash__ = object.__hash__


INTEGER_KINDS: Final = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})
FLOAT_KINDS: Final = frozenset({Kind.REAL, Kind.DOUBLE})
EXACT_KINDS: Final = INTEGER_KINDS | {Kind.DECIMAL}
NUMERIC_KINDS: Final = EXACT_KINDS | FLOAT_KINDS
TEXT_KINDS: Final = frozenset({Kind.CHAR, Kind.VARCHAR})


@hash_once
@dataclass(frozen=True, slots=True)
class Type(HashedOnce):
    """A SQL type. ``precision`` is DECIMAL's p or CHAR/VARCHAR's n (0: unlimited); ``scale`` DECIMAL's s."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    table: str = ""
    """A ROWID's table; empty in expressions, which do not say, and for columns that hold nothing but NULL."""

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.table:
            return f"{self.kind.value}({self.table})"
        if self.kind in TEXT_KINDS and self.precision:
            return f"{self.kind.value}({self.precision})"
        return str(self.kind.value)

    @property
    def is_text(self) -> bool:
        return self.kind in TEXT_KINDS

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_KINDS

    @property
    def is_exact(self) -> bool:
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
REAL: Final = Type(Kind.REAL)
DOUBLE: Final = Type(Kind.DOUBLE)
DATE: Final = Type(Kind.DATE)
TIMESTAMP: Final = Type(Kind.TIMESTAMP)
INTERVAL_MONTH: Final = Type(Kind.INTERVAL_MONTH)
INTERVAL_DAY: Final = Type(Kind.INTERVAL_DAY)
TEXT: Final = Type(Kind.VARCHAR)
ROWID: Final = Type(Kind.ROWID)
INTEGER_WIDTHS: Final = (SMALLINT, INTEGER, BIGINT)
"""The integer types, each of which holds what those before it hold."""


def decimal(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale); precision is capped at 18, what a word can hold."""
    return Type(Kind.DECIMAL, min(precision, MAX_DECIMAL_PRECISION), scale)


def rowid(table: str) -> Type:
    """The type of a table's rowids."""
    return Type(Kind.ROWID, table=table)


def same_words(left: Type, right: Type) -> bool:
    """Whether equal values of the two types are equal words."""
    if left.is_text and right.is_text:
        return True
    if left.is_integer and right.is_integer:
        return True
    if left.table and right.table:
        return left.table == right.table
    return left.kind is right.kind and left.scale == right.scale


def common_words(types: Sequence[Type]) -> Type | None:
    """The type of a column that holds words of each of the types, None if they do not mean the same.

    NULL's own type goes with all others, a rowid of no table in particular with one of any.
    """
    known = [type_ for type_ in types if type_.kind is not Kind.NULL] or [UNKNOWN]
    first = next((type_ for type_ in known if type_.table), known[0])
    if not all(same_words(first, type_) for type_ in known):
        return None
    if first.is_text:
        return first if all(type_ == first for type_ in known) else TEXT
    if first.is_integer:
        return max(known, key=INTEGER_WIDTHS.index)
    return first if first.table else max(known, key=lambda type_: type_.precision)


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column of a table or view."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a relation and the positions of its primary key (empty: none)."""

    columns: tuple[ColumnDef, ...]
    primary_key: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.columns)


def float_to_word(value: float) -> int:
    """The order-preserving word of a double; -0.0 becomes 0.0 and every NaN one NaN above infinity."""
    if value != value:
        return 0x7FF8000000000000
    bits = int(struct.unpack("<q", struct.pack("<d", value + 0.0))[0])
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


def word_to_float(word: int) -> float:
    """Inverse of :func:`float_to_word`."""
    bits = word if word >= 0 else word ^ 0x7FFFFFFFFFFFFFFF
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)
