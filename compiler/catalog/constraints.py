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
    """How a column gets a value: the texts of its DEFAULT or of its GENERATED expression, empty if none.

    ``identity`` is empty, ``ALWAYS`` or ``BY DEFAULT``; ``sequence`` goes with the column.
    """

    default: str = ""
    generated: str = ""
    identity: str = ""
    sequence: str = ""
    domain: str = ""
    digits: int = -1
    """Digits of a second, of a moment or an interval; -1 for all."""


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that no row may fail; ``column`` if it was written behind one."""

    name: str
    text: str
    column: str = ""


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns in which no two rows are the same; without ``nulls_distinct`` NULLs are the same, too."""

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    nulls_distinct: bool = True
    index: bool = False
    """Made by CREATE UNIQUE INDEX, and no constraint by name."""
    late: bool = False
    """Said to be the PRIMARY KEY when views knew the table without one: kept as any other key is."""
    included: tuple[str, ...] = ()
    """Columns that INCLUDE names."""

    @property
    def is_primary(self) -> bool:
        """Whether it is the PRIMARY KEY for who asks the catalogs."""
        return self.primary or self.late


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns whose values, unless one is NULL, are those of ``target_columns`` in a row of ``target``.

    Actions are ``NO ACTION``, ``RESTRICT``, ``CASCADE``, ``SET NULL`` or ``SET DEFAULT``; ``set_columns`` are
    those that ON DELETE SET takes, all if empty. ``deferred``: checked at the commit unless told otherwise.
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
    """An index that is no key; without ``columns`` over expressions or of some rows. ``what`` is its text."""

    name: str
    table: str
    columns: tuple[str, ...]
    what: str
    unique: bool = False
    """Of a kept view's: whether its rows are unique in these."""


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index over expressions, or of the rows of ``where``; ``kept`` is the table of its keys."""

    name: str
    elements: tuple[str, ...]
    where: str = ""
    nulls_distinct: bool = True
    table: str = ""
    kept: str = ""


Constraint = Check | Unique | ForeignKey


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that a table has of them; ``rules`` by column, none if empty."""

    rules: tuple[Rule, ...] = ()
    checks: tuple[Check, ...] = ()
    uniques: tuple[Unique, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()

    def __iter__(self) -> Iterator[Constraint]:
        yield from self.checks
        yield from self.uniques
        yield from self.foreign_keys

    def rule(self, place: int) -> Rule:
        """How the column at a position gets a value."""
        return self.rules[place] if self.rules else NO_RULE

    @property
    def guarded(self) -> bool:
        """Whether there is more to them than the table itself checks."""
        generated = any(rule.generated or rule.digits >= 0 for rule in self.rules)
        return generated or bool(self.checks or self.foreign_keys)


NO_RULE = Rule()


@dataclass(frozen=True, slots=True)
class Domain:
    """A type of a user's: another one, with a default, NOT NULL (``required``) and CHECKs of VALUE."""

    name: str
    type: Type
    default: str = ""
    required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence of numbers as CREATE SEQUENCE defines it; ``owner`` is the table and column it goes with."""

    name: str
    start: int = 1
    increment: int = 1
    least: int = 1
    most: int = 2**63 - 1
    cycle: bool = False
    type: str = "bigint"
    owner: tuple[str, str] | None = None


class Spelling(Protocol):
    """How Postgres writes what users have written: the binder's knowledge, lent to the system's relations."""

    def expression(
        self,
        catalog: Any,
        entry: Any,
        text: str,
        pretty: bool = False,
        given: Type | None = None,
    ) -> str:
        """An expression over a relation's columns; ``given`` is the type of a column whose DEFAULT it is."""
        ...

    def type_of(self, catalog: Any, entry: Any, text: str) -> Type | None:
        """The type of an expression, if it is known."""
        ...

    def query(self, catalog: Any, text: str) -> str:
        """A query with the schemas of what is not found without, and no others."""
        ...

    def is_computed(self, catalog: Any, view: Any, place: int) -> bool:
        """Whether a column of a view is computed, so that its type has neither length nor digits."""
        ...


class AsWritten:
    """Leaves all as it is."""

    def expression(
        self,
        catalog: Any,
        entry: Any,
        text: str,
        pretty: bool = False,
        given: Type | None = None,
    ) -> str:
        """The expression as it was written."""
        return text

    def is_computed(self, catalog: Any, view: Any, place: int) -> bool:
        """Not known."""
        return False

    def type_of(self, catalog: Any, entry: Any, text: str) -> Type | None:
        """Not known."""
        return None

    def query(self, catalog: Any, text: str) -> str:
        """The query as it was written."""
        return text


@dataclass(frozen=True, slots=True)
class Heir:
    """A partition of a table: its rows are among that one's, too."""

    parent: str
    child: str
    bound: str
    """What holds for its rows."""
    default: bool
    """Whether it is the partition of all rows that no other has."""
    told: "Bound"
    """The bound as it was written."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A table whose rows are in partitions, by RANGE, LIST or HASH of the keys, which are texts."""

    table: str
    kind: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """What PARTITION OF says: rows of values FROM and TO, those IN a list, or a modulus and a remainder.

    Without any it is the DEFAULT one. Values are texts.
    """

    parent: str
    form: str
    values: tuple[tuple[str, ...], ...]


def heirs(others: Mapping[tuple[str, ...], Any], name: str) -> tuple[str, ...]:
    """The tables whose rows are among those of a table, each once, without itself."""
    found: list[str] = []
    waiting = [name]
    while waiting:
        parent = waiting.pop(0).lower()
        for key, one in others.items():
            if key[0] == "inherits" and key[1] == parent and one.child not in found:
                found.append(one.child)
                waiting.append(one.child)
    return tuple(found)


def is_plain(others: Mapping[tuple[str, ...], Any], name: str) -> bool:
    """Whether a change of a table is of that one only: it has no partition."""
    lower = name.lower()
    return not any(
        key[1] == lower or (key[0] == "inherits" and key[2] == lower)
        for key in others
        if key[0] not in ("aggregate", "unique index")
    )
