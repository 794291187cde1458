"""What Postgres' catalogs have of partitions, and of the rules that views are."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.system.indexes import IndexFacts, indexes
from kpg.compiler.system.naming import number_of
from kpg.compiler.system.relations import Row, System, columns, entries
from kpg.compiler.system.words import quoted
from kpg.compiler.triggers import Bound, Heir, Partitioned

BTREE_KINDS: Final = {"RANGE": "r", "LIST": "l", "HASH": "h"}


def heirs_of(catalog: Catalog) -> list[Heir]:
    """All partitions."""
    return [one for one in catalog.others.values() if isinstance(one, Heir)]


def is_partitioned(catalog: Catalog, name: str) -> bool:
    """Whether a table's rows are in partitions."""
    return ("partitioned", name.lower(), "") in catalog.others


def _heir(catalog: Catalog, name: str) -> Heir | None:
    return next((one for one in heirs_of(catalog) if one.child.lower() == name.lower()), None)


def is_partition(catalog: Catalog, name: str) -> bool:
    """Whether a table is a partition of another one."""
    return _heir(catalog, name) is not None


def bound_text(catalog: Catalog, name: str) -> str | None:
    """What a partition is there for, as it is written behind PARTITION OF."""
    heir = _heir(catalog, name)
    return None if heir is None else bound_words(heir.told)


def bound_words(bound: Bound) -> str:
    """The words of a bound."""
    values = [", ".join(one) for one in bound.values]
    match bound.form:
        case "FROM":
            return f"FOR VALUES FROM ({values[0]}) TO ({values[1]})"
        case "IN":
            return f"FOR VALUES IN ({', '.join(values)})"
        case "WITH":
            modulus, remainder = (part for one in bound.values for part in one)
            return f"FOR VALUES WITH (modulus {modulus}, remainder {remainder})"
        case _:
            return "DEFAULT"


def inherited(catalog: Catalog, name: str) -> frozenset[str]:
    """The columns that a table has from others."""
    parents = [one.parent for one in heirs_of(catalog) if one.child.lower() == name.lower()]
    return frozenset(column.lower() for parent in parents for column in catalog.get(parent).schema.names)


def inherited_checks(catalog: Catalog, name: str) -> frozenset[str]:
    """The CHECKs that a table has from others."""
    parents = [one.parent for one in heirs_of(catalog) if one.child.lower() == name.lower()]
    tables = (catalog.table(parent) for parent in parents)
    return frozenset(check.name.lower() for table in tables for check in table.constraints.checks)


def _inherits(catalog: Catalog) -> Iterator[Row]:
    places: dict[str, int] = {}
    known = list(indexes(catalog))
    for one in heirs_of(catalog):
        places[one.child] = places.get(one.child, 0) + 1
        yield number_of("relation", one.child), number_of("relation", one.parent), places[one.child]
        for index, parent in attached(known, one):
            yield index.number, parent.number, 1


def attached(known: list[IndexFacts], heir: Heir) -> Iterator[tuple[IndexFacts, IndexFacts]]:
    """The indexes of a partition that are parts of those of the whole table, with these."""
    mine = [one for one in known if one.entry.name.lower() == heir.child.lower()]

    def texts(index: IndexFacts) -> list[str]:
        return [part.text.lower() for part in index.parts]

    for parent in known:
        if parent.entry.name.lower() == heir.parent.lower():
            for one in mine:
                same = [part.text.lower() for part in one.parts] == [
                    part.text.lower() for part in parent.parts
                ]
                if same and one.unique == parent.unique and one.primary == parent.primary:
                    yield one, parent
                    break


def partition_keys(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The number of each table with partitions, and by what its rows are in them."""
    for one in catalog.others.values():
        if isinstance(one, Partitioned):
            entry = catalog.get(one.table)
            named = {name.lower(): name for name in entry.schema.names}
            spelling = catalog.consulted.spelling
            keys = (
                quoted(named[key.lower()])
                if key.lower() in named
                else spelling.expression(catalog, entry, key)
                for key in one.keys
            )
            yield number_of("relation", one.table), f"{one.kind} ({', '.join(keys)})"


def _partitioned(catalog: Catalog) -> Iterator[Row]:
    for one in catalog.others.values():
        if isinstance(one, Partitioned):
            names = [name.lower() for name in catalog.get(one.table).schema.names]
            places = (names.index(key.lower()) + 1 if key.lower() in names else 0 for key in one.keys)
            default = (heir for heir in heirs_of(catalog) if heir.default and heir.parent == one.table)
            number = next((number_of("relation", heir.child) for heir in default), 0)
            kind = BTREE_KINDS[one.kind.upper()]
            listed = " ".join(map(str, places))
            yield number_of("relation", one.table), kind, len(one.keys), number, listed


def bound_conditions(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The number of each partition, and what holds for its rows, of one key without DEFAULT."""
    for heir in heirs_of(catalog):
        whole_ = catalog.others.get(("partitioned", heir.parent.lower(), ""))
        if not isinstance(whole_, Partitioned) or len(whole_.keys) != 1:
            continue
        key, told, entry = whole_.keys[0], heir.told, catalog.get(heir.child)
        spelling, parts = catalog.consulted.spelling, [f"{key} IS NOT NULL"]
        if told.form == "FROM":
            (low,), (high,) = told.values
            parts += [] if low.upper() == "MINVALUE" else [f"{key} >= {low}"]
            parts += [] if high.upper() == "MAXVALUE" else [f"{key} < {high}"]
        elif told.form == "IN" and not any(one.upper() == "NULL" for one in told.values[0]):
            parts.append(f"{key} IN ({', '.join(told.values[0])})")
        else:
            continue
        text = " AND ".join(spelling.expression(catalog, entry, part) for part in parts)
        yield number_of("relation", heir.child), f"({text})"


def ancestors(catalog: Catalog, name: str) -> list[str]:
    """A partition, and the tables that it is within, from the inside."""
    heir = _heir(catalog, name)
    return [name] if heir is None else [name, *ancestors(catalog, heir.parent)]


def partition_tree(catalog: Catalog, name: str, level: int = 0) -> Iterator[Row]:
    """A table and those below it by number: of what each is a partition, whether it has none, how deep."""
    heir = _heir(catalog, name)
    parent = None if heir is None or not level else number_of("relation", heir.parent)
    yield number_of("relation", name), parent, int(not is_partitioned(catalog, name)), level
    for one in heirs_of(catalog):
        if one.parent.lower() == name.lower():
            yield from partition_tree(catalog, one.child, level + 1)


def _rules(catalog: Catalog) -> Iterator[Row]:
    for _, _, entry in entries(catalog):
        if isinstance(entry, ViewEntry):
            yield (
                rule_number(entry.name, "_RETURN"),
                "_RETURN",
                number_of("relation", entry.name),
                "1",
                "O",
                1,
            )


def rule_number(table: str, name: str) -> int:
    """The number of the rule that Postgres keeps a view as."""
    return number_of("rule", f"{table}.{name}")


POSTGRES: Final = {
    "pg_inherits": System(columns("inhrelid:o inhparent:o inhseqno:i"), _inherits),
    "pg_partitioned_table": System(
        columns("partrelid:o partstrat partnatts:i partdefid:o partattrs:a"), _partitioned
    ),
    "pg_rewrite": System(
        columns("oid:o rulename ev_class:o ev_type ev_enabled is_instead:b"),
        _rules,
    ),
}
