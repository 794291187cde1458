"""How Postgres stores the values of types: what its catalogs tell of it, column by column."""

from typing import Final

from kpg.compiler.catalog import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.constraints import NO_RULE, Domain, Rule
from kpg.compiler.system.naming import modifier, number_of, type_facts
from kpg.runtime.types import Type

COLLATED: Final = frozenset(("text", "varchar", "bpchar", "_text", "_varchar", "_bpchar"))
DOUBLE: Final = frozenset(
    ("int8", "float8", "timestamp", "timestamptz", "time", "timetz", "interval", "pg_lsn")
)
BY_REFERENCE: Final = frozenset(("uuid", "interval", "timetz", "macaddr", "macaddr8"))
ANY_DIGITS: Final = {"timestamp", "timestamptz", "time", "timetz"}
DEFAULT_COLLATION: Final = 100


def physical(short: str, length: int) -> tuple[int, str, str, int]:
    """Of a type's short name and length: passed by value, alignment, storage and collation."""
    collation = DEFAULT_COLLATION if short in COLLATED else 0
    if length < 0:
        main = {"numeric": "m", "inet": "m", "cidr": "m"}.get(short, "x")
        return 0, "d" if short in ("_int8", "_timestamptz") else "i", main, collation
    align = "d" if short in DOUBLE else {1: "c", 2: "s", 4: "i"}.get(length, "c")
    return int(length in (1, 2, 4, 8) and short not in BY_REFERENCE), align, "p", collation


def rule_of(entry: Entry, place: int) -> Rule:
    """How a column gets a value."""
    return entry.constraints.rule(place) if isinstance(entry, TableEntry) else NO_RULE


def domain_at(catalog: Catalog, entry: Entry, place: int) -> Domain | None:
    """The domain that a column is of."""
    found = catalog.types.get(rule_of(entry, place).domain.lower())
    return found if isinstance(found, Domain) else None


def type_at(catalog: Catalog, entry: Entry, place: int) -> tuple[int, int]:
    """The number and the length of a column's type: of a domain, if it is of one."""
    facts = type_facts(entry.schema.types[place])
    domain = domain_at(catalog, entry, place)
    return (facts[2] if domain is None else number_of("type", domain.name)), facts[3]


def modifier_at(catalog: Catalog, entry: Entry, place: int) -> int:
    """What a column's type has of a length, or digits."""
    if domain_at(catalog, entry, place) is not None:
        return -1
    if isinstance(entry, ViewEntry) and catalog.consulted.spelling.is_computed(catalog, entry, place):
        return -1
    return with_digits(entry.schema.types[place], rule_of(entry, place).digits)


def with_digits(type_: Type, digits: int) -> int:
    """A modifier, if the digits of a second are told too."""
    short = type_facts(type_)[1]
    if digits >= 0 and short in ANY_DIGITS:
        return digits
    return modifier(type_)
