"""Constraints, column defaults, domains, sequences, indexes and partitions, as catalog records.

A record names columns instead of numbering them, so columns can be added and dropped. Expressions are stored
as SQL text.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from kpg.runtime.records import dataclass
from kpg.runtime.types import Type


@dataclass(frozen=True, slots=True)
class Rule:
    """How a column gets its value: the text of its DEFAULT or GENERATED expression, "" for none.

    ``identity`` is empty, ``ALWAYS`` or ``BY DEFAULT``. ``sequence`` is owned by the column.
    """

    default: str = ""
    generated: str = ""
    identity: str = ""
    sequence: str = ""
    domain: str = ""
    digits: int = -1
    """Fractional second digits of a date/time or interval; -1 for all."""


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint; ``column`` is set if it was declared with a column."""

    name: str
    text: str
    column: str = ""


@dataclass(frozen=True, slots=True)
class Unique:
    """A UNIQUE or PRIMARY KEY constraint. Without ``nulls_distinct``, NULLs are equal."""

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    nulls_distinct: bool = True
    index: bool = False
    """Whether it comes from CREATE UNIQUE INDEX and so is not a constraint."""
    late: bool = False
    """Whether it became the PRIMARY KEY while views read the table without one. It acts as a UNIQUE key."""
    included: tuple[str, ...] = ()
    """Columns of INCLUDE."""

    @property
    def is_primary(self) -> bool:
        """Whether the catalogs show it as the PRIMARY KEY."""
        return self.primary or self.late


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns whose values, unless one is NULL, are the ``target_columns`` of a row of ``target``.

    Actions are ``NO ACTION``, ``RESTRICT``, ``CASCADE``, ``SET NULL`` or ``SET DEFAULT``.
    ``set_columns`` are the columns that ON DELETE SET changes; all if empty. ``deferred`` is INITIALLY
    DEFERRED.
    """

    name: str
    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"
    set_columns: tuple[str, ...] = ()
    match: str = "SIMPLE"
    deferrable: bool = False
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """A non-unique index; without ``columns`` it is partial or over expressions. ``what`` is its text."""

    name: str
    table: str
    columns: tuple[str, ...]
    what: str
    unique: bool = False
    """Whether it is a unique index of a materialized view."""


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A partial unique index, or one over expressions; ``kept`` is the table that stores its keys."""

    name: str
    elements: tuple[str, ...]
    where: str = ""
    nulls_distinct: bool = True
    table: str = ""
    kept: str = ""


Constraint = Check | Unique | ForeignKey


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a table; ``rules`` has one entry per column, or is empty."""

    rules: tuple[Rule, ...] = ()
    checks: tuple[Check, ...] = ()
    uniques: tuple[Unique, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()

    def __iter__(self) -> Iterator[Constraint]:
        yield from self.checks
        yield from self.uniques
        yield from self.foreign_keys

    def rule(self, position: int) -> Rule:
        """Return the rule of the column at a position."""
        return self.rules[position] if self.rules else NO_RULE

    @property
    def has_row_checks(self) -> bool:
        """Whether rows need checks or computed values beyond what the table itself checks."""
        generated = any(rule.generated or rule.digits >= 0 for rule in self.rules)
        return generated or bool(self.checks or self.foreign_keys)


NO_RULE = Rule()


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain over a type, with a default, NOT NULL (``required``) and CHECKs of VALUE."""

    name: str
    type: Type
    default: str = ""
    required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence as CREATE SEQUENCE defines it; ``owner`` is the table and column that own it."""

    name: str
    start: int = 1
    increment: int = 1
    least: int = 1
    most: int = 2**63 - 1
    cycle: bool = False
    type: str = "bigint"
    owner: tuple[str, str] | None = None


class Deparser(Protocol):
    """Writes stored expressions and queries in Postgres' form. The binder implements it."""

    def expression(
        self,
        catalog: Any,
        entry: Any,
        text: str,
        pretty: bool = False,
        default_type: Type | None = None,
    ) -> str:
        """Return the text of an expression over a relation's columns.

        For a DEFAULT, ``default_type`` is the column's type.
        """
        ...

    def type_of(self, catalog: Any, entry: Any, text: str) -> Type | None:
        """Return the type of an expression; None if it is not known."""
        ...

    def query(self, catalog: Any, text: str) -> str:
        """Return a query with names qualified only where the search path does not find them."""
        ...

    def is_computed(self, catalog: Any, view: Any, place: int) -> bool:
        """Return whether a view's column is an expression. Its type then has no modifier."""
        ...


class VerbatimDeparser:
    """Returns all text unchanged."""

    def expression(
        self,
        catalog: Any,
        entry: Any,
        text: str,
        pretty: bool = False,
        default_type: Type | None = None,
    ) -> str:
        """Return the text unchanged."""
        return text

    def is_computed(self, catalog: Any, view: Any, place: int) -> bool:
        """Return False."""
        return False

    def type_of(self, catalog: Any, entry: Any, text: str) -> Type | None:
        """Return None."""
        return None

    def query(self, catalog: Any, text: str) -> str:
        """Return the text unchanged."""
        return text


@dataclass(frozen=True, slots=True)
class Heir:
    """A partition of a table."""

    parent: str
    child: str
    bound: str
    """Condition that its rows satisfy."""
    default: bool
    """Whether it is the DEFAULT partition."""
    told: "Bound"
    """The declared bound."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A table partitioned by RANGE, LIST or HASH of keys, which are SQL text."""

    table: str
    kind: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a partition: values FROM and TO, values IN a list, or modulus and remainder.

    The DEFAULT partition has no values. Values are SQL text.
    """

    parent: str
    form: str
    values: tuple[tuple[str, ...], ...]


def descendant_tables(partitions: Mapping[str, Heir], name: str) -> tuple[str, ...]:
    """Return the partitions of a table and their partitions, breadth-first, each once."""
    found: list[str] = []
    waiting = [name] if partitions else []
    while waiting:
        parent = waiting.pop(0).lower()
        children = [one.child for one in partitions.values() if one.parent.lower() == parent]
        found += children
        waiting += children
    return tuple(found)
