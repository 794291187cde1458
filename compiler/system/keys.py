"""Rows of ``pg_index``, ``pg_indexes`` and ``pg_constraint``."""

import re
from collections.abc import Iterator
from typing import Final, assert_never

from kpg.compiler.catalog import Catalog, Entry, TableEntry
from kpg.compiler.constraints import Check, ForeignKey, Unique
from kpg.compiler.system.indexes import beside, definition, expressions_text, indexes
from kpg.compiler.system.kin import inherited_checks, is_partition
from kpg.compiler.system.naming import number_of, schema_number, split
from kpg.compiler.system.relations import Row, System, columns, constraints
from kpg.compiler.system.users import domain_checks
from kpg.compiler.system.words import quoted, shown_name

ACTIONS: Final = {"NO ACTION": "a", "RESTRICT": "r", "CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d"}
DESCENDING, NULLS_FIRST = 1, 2


def _options(order: str) -> int:
    """DESC and NULLS FIRST as Postgres keeps them."""
    falls = DESCENDING if "DESC" in order else 0
    first = "FIRST" in order or (falls and "LAST" not in order)
    return falls | (NULLS_FIRST if first else 0)


def _index_rows(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        places = [str(part.place) for part in index.parts]
        names = [name.lower() for name in index.entry.schema.names]
        included = [str(names.index(one.lower()) + 1) for one in index.included if one.lower() in names]
        zeros = " ".join("0" for _ in places)
        expressions = expressions_text(catalog, index, pretty=False)
        where = index.where and catalog.consulted.spelling.expression(catalog, index.entry, index.where)
        yield (
            *(
                index.number,
                number_of("relation", index.entry.name),
                len(places) + len(included),
                len(places),
            ),
            *(int(index.unique), int(index.primary), 1, 1, " ".join([*places, *included]), zeros),
            *(" ".join(str(_options(part.order)) for part in index.parts), zeros, expressions or None),
            *(where or None, int(not index.distinct)),
        )


def _pg_indexes(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        schema, table = split(catalog, index.entry.name)
        yield schema, table, split(catalog, index.name)[1], None, definition(catalog, index)


def _constraint_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in constraints(catalog):
        yield _constraint_row(catalog, schema, entry, one)
    for number, check, place, domain in domain_checks(catalog):
        flags = (0, 0, 1, 0, 0, 0, " ", " ", " ", None, None)
        yield number, check.name, place, "c", *flags, domain, 1, 0, check.text, 0


def _constraint_row(
    catalog: Catalog, schema: str, entry: TableEntry, one: Check | Unique | ForeignKey
) -> Row:
    kind, target, theirs, actions, index, waits = "c", 0, "", (" ", " ", " "), 0, (0, 0)
    own, text, local, parent = "", None, 1, 0
    match one:
        case Unique():
            kind, own = "p" if one.is_primary else "u", _places(entry, one.columns)
            index = number_of("relation", beside(entry, one.name))
        case ForeignKey():
            other = catalog.table(one.target)
            kind, target = "f", number_of("relation", other.name)
            own, theirs = _places(entry, one.columns), _places(other, one.target_columns)
            actions = ACTIONS[one.on_update], ACTIONS[one.on_delete], one.match[0].lower()
            index, waits = _index_of_key(other, one), (int(one.deferrable), int(one.deferred))
        case Check():
            own, text = _places(entry, named_in(entry, one.text)), one.text
            local = int(one.name.lower() not in inherited_checks(catalog, entry.name))
        case _:
            assert_never(one)
    if kind in "pu" and is_partition(catalog, entry.name):
        parent = _whole_key(catalog, index)
        local = int(not parent)
    return (
        *(
            number_of("constraint", f"{entry.name} {one.name}"),
            one.name,
            schema_number(schema),
            kind,
            *waits,
            1,
        ),
        *(number_of("relation", entry.name), index, target, *actions, own or None, theirs or None, 0),
        *(local, int(not local), text, parent),
    )


def _whole_key(catalog: Catalog, index: int) -> int:
    """The number of the constraint of the whole table that one of a partition is a part of, or 0."""
    from kpg.compiler.system.kin import attached, heirs_of

    known = list(indexes(catalog))
    for heir in heirs_of(catalog):
        for mine, parent in attached(known, heir):
            if mine.number == index and isinstance(parent.key, Unique):
                return number_of("constraint", f"{parent.entry.name} {parent.key.name}")
    return 0


def named_in(entry: Entry, text: str) -> tuple[str, ...]:
    """The columns of a relation that a text names, in their order."""
    words = {word.lower() for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'", "", text))}
    return tuple(name for name in entry.schema.names if name.lower() in words)


def _index_of_key(target: TableEntry, key: ForeignKey) -> int:
    """The number of the index that a foreign key looks things up in."""
    wanted = set(key.target_columns)
    found = (one for one in target.constraints.uniques if set(one.columns) == wanted)
    return next((number_of("relation", beside(target, one.name)) for one in found), 0)


def _places(entry: TableEntry, names: tuple[str, ...]) -> str:
    return "{" + ",".join(str(entry.schema.names.index(one) + 1) for one in names) + "}" if names else ""


def definition_of(
    catalog: Catalog, entry: Entry | None, one: Check | Unique | ForeignKey, pretty: bool
) -> str:
    """A constraint as ``pg_get_constraintdef`` writes it."""
    match one:
        case Check():
            text = catalog.consulted.spelling.expression(catalog, entry, one.text, pretty)
            return f"CHECK ({text})"
        case Unique():
            listed = ", ".join(map(quoted, one.columns))
            more = f" INCLUDE ({', '.join(map(quoted, one.included))})" if one.included else ""
            if one.is_primary:
                return f"PRIMARY KEY ({listed}){more}"
            return f"UNIQUE {'' if one.nulls_distinct else 'NULLS NOT DISTINCT '}({listed}){more}"
        case ForeignKey():
            text = f"FOREIGN KEY ({', '.join(map(quoted, one.columns))}) "
            text += f"REFERENCES {shown_name(catalog, one.target, 'relation')}"
            text += f"({', '.join(map(quoted, one.target_columns))})"
            text += " MATCH FULL" if one.match == "FULL" else ""
            text += f" ON UPDATE {one.on_update}" if one.on_update != "NO ACTION" else ""
            text += f" ON DELETE {one.on_delete}" if one.on_delete != "NO ACTION" else ""
            text += f" ({', '.join(map(quoted, one.set_columns))})" if one.set_columns else ""
            text += " DEFERRABLE" if one.deferrable else ""
            return text + (" INITIALLY DEFERRED" if one.deferred else "")
        case _:
            assert_never(one)


def check_clause(catalog: Catalog, entry: Entry | None, one: Check) -> str:
    """The condition of a CHECK as ``information_schema`` writes it."""
    return definition_of(catalog, entry, one, pretty=False).removeprefix("CHECK ")


def texts(catalog: Catalog, *, pretty: bool) -> list[tuple[int, str]]:
    """The texts of constraints by their numbers."""
    found = [
        (number_of("constraint", f"{entry.name} {one.name}"), definition_of(catalog, entry, one, pretty))
        for _, entry, one in constraints(catalog)
    ]
    checks = ((one[0], definition_of(catalog, None, one[1], pretty)) for one in domain_checks(catalog))
    return [*found, *checks]


POSTGRES: Final = {
    "pg_index": System(
        columns(
            "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indisprimary:b indisvalid:b "
            "indisready:b indkey:a indclass:a indoption:a indcollation:a indexprs indpred "
            "indnullsnotdistinct:b"
        ),
        _index_rows,
    ),
    "pg_indexes": System(columns("schemaname tablename indexname tablespace indexdef"), _pg_indexes),
    "pg_constraint": System(
        columns(
            "oid:o conname connamespace:o contype condeferrable:b condeferred:b convalidated:b conrelid:o "
            "conindid:o confrelid:o confupdtype confdeltype confmatchtype conkey:a confkey:a contypid:o "
            "conislocal:b coninhcount:i conbin conparentid:o"
        ),
        _constraint_rows,
    ),
}
