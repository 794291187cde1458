"""Rows of ``pg_index``, ``pg_indexes``, ``pg_constraint``, and of the catalogs of partitions and view rules.

The indexes are those of keys and of CREATE INDEX.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.catalog.constraints import (
    Bound,
    Check,
    ForeignKey,
    Heir,
    Index,
    Unique,
    UniqueIndex,
)
from kpg.compiler.catalog.entries import KEY_TABLE_PREFIX, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.system.oids import (
    display_name,
    oid_of,
    qualified_name,
    quote_identifier,
    schema_oid,
    split_name,
)
from kpg.compiler.system.relations import Row, SystemRelation, columns, listed_constraints, listed_entries
from kpg.compiler.system.user_objects import domain_checks
from kpg.runtime.records import dataclass
from kpg.runtime.types import INTEGER, Type

INDEX_ELEMENT: Final = re.compile(
    r"(?P<what>.*?)(?P<collate>\s+collate\s+\S+)?(?P<opclass>\s+\w+_ops)?(?P<order>\s+(asc|desc))?"
    r"(?P<nulls>\s+nulls\s+(first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)
"""The text of an index element: expression, collation, operator class, order."""


@dataclass(frozen=True, slots=True)
class IndexElement:
    """An element of an index: the column's position from 1, or 0 and an expression."""

    place: int
    text: str
    type: Type
    order: str = ""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """An index; ``key`` is its constraint, if there is one."""

    name: str
    entry: Entry
    parts: tuple[IndexElement, ...]
    unique: bool = False
    key: Unique | None = None
    where: str = ""
    distinct: bool = True
    included: tuple[str, ...] = ()

    @property
    def oid(self) -> int:
        """The OID."""
        return oid_of("relation", self.name)

    @property
    def is_primary(self) -> bool:
        """Whether it belongs to a primary key."""
        return self.key is not None and self.key.is_primary


def in_schema_of(entry: Entry, name: str) -> str:
    """Return the qualified name of an object in the schema of a relation."""
    schema, _, _ = entry.name.rpartition(".")
    return f"{schema}.{name}" if schema and not name.startswith(f"{schema}.") else name


def indexes(catalog: Catalog) -> Iterator[IndexFacts]:
    """Yield all indexes: of keys, of CREATE INDEX, and those of partitions."""
    for entry in catalog:
        if isinstance(entry, TableEntry) and not entry.name.startswith(KEY_TABLE_PREFIX):
            for key in entry.constraints.uniques:
                parts = tuple(_column_element(entry, name) for name in key.columns)
                told = None if key.index else key
                name, distinct, more = in_schema_of(entry, key.name), key.nulls_distinct, key.included
                yield IndexFacts(name, entry, parts, True, told, distinct=distinct, included=more)
    made = []
    for index in catalog.indexes.values():
        plain = index.name.rpartition(".")[2].lower()
        made.append(created_index(catalog, index, catalog.unique_indexes.get((index.table.lower(), plain))))
    yield from made
    if catalog.partitions:
        yield from _partition_indexes(catalog, all_partitions(catalog), made)


def _partition_indexes(
    catalog: Catalog, partitions: list[Heir], created: list[IndexFacts]
) -> Iterator[IndexFacts]:
    """Yield the indexes that Postgres creates on partitions for an index of the partitioned table."""
    taken = {one.name.lower() for one in created}
    pending = list(created)
    for index in pending:
        for heir in partitions:
            if heir.parent.lower() != index.entry.name.lower():
                continue
            texts = [part.text.lower() for part in index.parts]
            entry = catalog.get(heir.child)
            own = (one for one in created if one.entry.name.lower() == entry.name.lower())
            if any([part.text.lower() for part in one.parts] == texts for one in own):
                continue
            labels = "_".join((split_name(catalog, entry.name)[1], *map(element_name, index.parts), "idx"))
            names = (in_schema_of(entry, f"{labels}{number or ''}") for number in count())
            name = next(one for one in names if one.lower() not in taken)
            taken.add(name.lower())
            parts = tuple(
                replace(part, place=_column_element(entry, part.text).place) if part.place else part
                for part in index.parts
            )
            below = replace(index, name=name, entry=entry, parts=parts)
            pending.append(below)
            yield below


def created_index(catalog: Catalog, index: Index, rule: UniqueIndex | None) -> IndexFacts:
    """Return the index of CREATE INDEX; ``rule`` is its record if it is UNIQUE."""
    entry = catalog.get(index.table)
    inner, rest = _split_parentheses(index.what)
    parts = tuple(_parse_element(catalog, entry, text) for text in _split_at_commas(inner))
    included: tuple[str, ...] = ()
    if re.match(r"\s*include\b", rest, re.IGNORECASE):
        names, rest = _split_parentheses(rest[rest.index("(") :])
        included = tuple(_split_at_commas(names))
    where = re.split(r"\bwhere\b", rest, maxsplit=1, flags=re.IGNORECASE)
    distinct = rule is None or rule.nulls_distinct
    return IndexFacts(
        index.name,
        entry,
        parts,
        rule is not None or index.unique,
        None,
        where[1].strip() if len(where) > 1 else "",
        distinct,
        included=included,
    )


def _scan_unquoted(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, character and depth of parentheses after it, for characters outside quotes."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([") - (letter in ")]")
            yield place, letter, depth


def _split_parentheses(text: str) -> tuple[str, str]:
    """Return the content of the leading parentheses and the text after them."""
    for place, letter, depth in _scan_unquoted(text):
        if letter in ")]" and not depth:
            return text[1:place], text[place + 1 :]
    return text.strip("()"), ""


def _split_at_commas(text: str) -> list[str]:
    """Split text at commas outside parentheses and quotes."""
    found, start = [], 0
    for place, letter, depth in _scan_unquoted(text):
        if letter == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    return [*found, text[start:].strip()]


def _parse_element(catalog: Catalog, entry: Entry, text: str) -> IndexElement:
    found = INDEX_ELEMENT.fullmatch(text)
    assert found is not None
    what = found["what"].strip()
    falls = (found["order"] or "").strip().lower() == "desc"
    nulls = (found["nulls"] or "").split()[-1:]
    order = " DESC" if falls else ""
    if nulls and (nulls[0].lower() == "first") != falls:
        order += f" NULLS {nulls[0].upper()}"
    name = what[1:-1] if what.startswith('"') and what.endswith('"') else what
    if name.lower() in (one.lower() for one in entry.schema.names):
        part = _column_element(entry, name)
        return IndexElement(part.place, part.text, part.type, order)
    type_ = catalog.system_reads.deparser.type_of(catalog, entry, what)
    return IndexElement(0, what, type_ or INTEGER, order)


def _column_element(entry: Entry, name: str) -> IndexElement:
    place = [one.lower() for one in entry.schema.names].index(name.lower())
    return IndexElement(place + 1, entry.schema.names[place], entry.schema.types[place])


def included_elements(index: IndexFacts) -> list[IndexElement]:
    """Return the INCLUDE columns of an index."""
    known = {name.lower() for name in index.entry.schema.names}
    return [_column_element(index.entry, name) for name in index.included if name.lower() in known]


def element_text(catalog: Catalog, index: IndexFacts, element: IndexElement, pretty: bool) -> str:
    """Return the text of an index element without its order."""
    if element.place:
        return quote_identifier(element.text)
    text = catalog.system_reads.deparser.expression(catalog, index.entry, element.text, pretty)
    call = re.match(r"[\w.\"]+\(", text) and _split_parentheses(text[text.index("(") :])[1] == ""
    return text if call or text.startswith("(") else f"({text})"


def expressions_text(catalog: Catalog, index: IndexFacts, *, pretty: bool) -> str:
    """Return the texts of the index elements that are expressions."""
    return ", ".join(element_text(catalog, index, part, pretty) for part in index.parts if not part.place)


def element_name(element: IndexElement) -> str:
    """Return Postgres' name for an index element."""
    call = re.match(r"(?:\w+\.)?(\w+)\s*\(", element.text)
    return element.text if element.place else call[1].lower() if call else "expr"


def index_definition(catalog: Catalog, index: IndexFacts, pretty: bool = False) -> str:
    """Return the CREATE INDEX statement. Without ``pretty``, names are qualified."""
    parts = [element_text(catalog, index, part, pretty) + part.order for part in index.parts]
    table = index.entry.name
    shown = display_name(catalog, table, "relation") if pretty else qualified_name(catalog, table)
    only = "ONLY " if table.lower() in catalog.partitioned else ""
    name = quote_identifier(split_name(catalog, index.name)[1])
    text = f"CREATE {'UNIQUE ' if index.unique else ''}INDEX {name} ON {only}{shown}"
    text += f" USING btree ({', '.join(parts)})"
    text += f" INCLUDE ({', '.join(index.included)})" if index.included else ""
    text += "" if index.distinct else " NULLS NOT DISTINCT"
    if not index.where:
        return text
    where = catalog.system_reads.deparser.expression(catalog, index.entry, index.where, pretty)
    return f"{text} WHERE {where}"


PARTITION_STRATEGIES: Final = {"RANGE": "r", "LIST": "l", "HASH": "h"}


def all_partitions(catalog: Catalog) -> list[Heir]:
    """Return all partitions."""
    return list(catalog.partitions.values())


def is_partitioned(catalog: Catalog, name: str) -> bool:
    """Return whether a table is partitioned."""
    return name.lower() in catalog.partitioned


def _partition_entry(catalog: Catalog, name: str) -> Heir | None:
    return catalog.partitions.get(name.lower())


def is_partition(catalog: Catalog, name: str) -> bool:
    """Return whether a table is a partition."""
    return _partition_entry(catalog, name) is not None


def partition_bound(catalog: Catalog, name: str) -> str | None:
    """Return the bound of a partition as text; None if the table is not a partition."""
    heir = _partition_entry(catalog, name)
    return None if heir is None else deparse_bound(heir.told)


def deparse_bound(bound: Bound) -> str:
    """Return a bound as SQL."""
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


def inherited_columns(catalog: Catalog, name: str) -> frozenset[str]:
    """Return the lower-case names of the columns that a partition inherits."""
    parents = [one.parent for one in all_partitions(catalog) if one.child.lower() == name.lower()]
    return frozenset(column.lower() for parent in parents for column in catalog.get(parent).schema.names)


def inherited_checks(catalog: Catalog, name: str) -> frozenset[str]:
    """Return the lower-case names of the CHECKs that a partition inherits."""
    parents = [one.parent for one in all_partitions(catalog) if one.child.lower() == name.lower()]
    tables = (catalog.table(parent) for parent in parents)
    return frozenset(check.name.lower() for table in tables for check in table.constraints.checks)


def _pg_inherits_rows(catalog: Catalog) -> Iterator[Row]:
    places: dict[str, int] = {}
    known = list(indexes(catalog))
    for one in all_partitions(catalog):
        places[one.child] = places.get(one.child, 0) + 1
        yield oid_of("relation", one.child), oid_of("relation", one.parent), places[one.child]
        for index, parent in attached_indexes(known, one):
            yield index.oid, parent.oid, 1


def attached_indexes(
    candidates: list[IndexFacts], partition: Heir
) -> Iterator[tuple[IndexFacts, IndexFacts]]:
    """Yield the indexes of a partition that are attached to indexes of its parent, with these."""
    mine = [one for one in candidates if one.entry.name.lower() == partition.child.lower()]

    def texts(index: IndexFacts) -> list[str]:
        return [part.text.lower() for part in index.parts]

    for parent in candidates:
        if parent.entry.name.lower() == partition.parent.lower():
            for one in mine:
                same = [part.text.lower() for part in one.parts] == [
                    part.text.lower() for part in parent.parts
                ]
                if same and one.unique == parent.unique and one.is_primary == parent.is_primary:
                    yield one, parent
                    break


def partition_keys(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """Yield the OID of each partitioned table and its strategy and keys as text."""
    for one in catalog.partitioned.values():
        entry = catalog.get(one.table)
        named = {name.lower(): name for name in entry.schema.names}
        spelling = catalog.system_reads.deparser
        keys = (
            quote_identifier(named[key.lower()])
            if key.lower() in named
            else spelling.expression(catalog, entry, key)
            for key in one.keys
        )
        yield oid_of("relation", one.table), f"{one.kind} ({', '.join(keys)})"


def _pg_partitioned_table_rows(catalog: Catalog) -> Iterator[Row]:
    for one in catalog.partitioned.values():
        names = [name.lower() for name in catalog.get(one.table).schema.names]
        places = (names.index(key.lower()) + 1 if key.lower() in names else 0 for key in one.keys)
        default = (heir for heir in all_partitions(catalog) if heir.default and heir.parent == one.table)
        number = next((oid_of("relation", heir.child) for heir in default), 0)
        kind = PARTITION_STRATEGIES[one.kind.upper()]
        listed = " ".join(map(str, places))
        yield oid_of("relation", one.table), kind, len(one.keys), number, listed


def partition_conditions(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """Yield the OID of each partition and the condition on its rows.

    Only partitions by one key are included, and not DEFAULT partitions.
    """
    for heir in all_partitions(catalog):
        whole = catalog.partitioned.get(heir.parent.lower())
        if whole is None or len(whole.keys) != 1:
            continue
        key, told, entry = whole.keys[0], heir.told, catalog.get(heir.child)
        spelling, parts = catalog.system_reads.deparser, [f"{key} IS NOT NULL"]
        if told.form == "FROM":
            (low,), (high,) = told.values
            parts += [] if low.upper() == "MINVALUE" else [f"{key} >= {low}"]
            parts += [] if high.upper() == "MAXVALUE" else [f"{key} < {high}"]
        elif told.form == "IN" and not any(one.upper() == "NULL" for one in told.values[0]):
            parts.append(f"{key} IN ({', '.join(told.values[0])})")
        else:
            continue
        text = " AND ".join(spelling.expression(catalog, entry, part) for part in parts)
        yield oid_of("relation", heir.child), f"({text})"


def ancestors(catalog: Catalog, name: str) -> list[str]:
    """Return a partition and its ancestors, from the innermost."""
    heir = _partition_entry(catalog, name)
    return [name] if heir is None else [name, *ancestors(catalog, heir.parent)]


def partition_tree(catalog: Catalog, name: str, level: int = 0) -> Iterator[Row]:
    """Yield OID, parent OID, whether it is a leaf, and level, of a table and its partitions."""
    heir = _partition_entry(catalog, name)
    parent = None if heir is None or not level else oid_of("relation", heir.parent)
    yield oid_of("relation", name), parent, int(not is_partitioned(catalog, name)), level
    for one in all_partitions(catalog):
        if one.parent.lower() == name.lower():
            yield from partition_tree(catalog, one.child, level + 1)


def _pg_rewrite_rows(catalog: Catalog) -> Iterator[Row]:
    for _, _, entry in listed_entries(catalog):
        if isinstance(entry, ViewEntry):
            yield (
                rule_oid(entry.name, "_RETURN"),
                "_RETURN",
                oid_of("relation", entry.name),
                "1",
                "O",
                1,
            )


def rule_oid(table: str, name: str) -> int:
    """Return the OID of a rule of a relation. A view is its rule ``_RETURN``."""
    return oid_of("rule", f"{table}.{name}")


PARTITION_RELATIONS: Final = {
    "pg_inherits": SystemRelation(columns("inhrelid:o inhparent:o inhseqno:i"), _pg_inherits_rows),
    "pg_partitioned_table": SystemRelation(
        columns("partrelid:o partstrat partnatts:i partdefid:o partattrs:a"), _pg_partitioned_table_rows
    ),
    "pg_rewrite": SystemRelation(
        columns("oid:o rulename ev_class:o ev_type ev_enabled is_instead:b"),
        _pg_rewrite_rows,
    ),
}


ACTIONS: Final = {"NO ACTION": "a", "RESTRICT": "r", "CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d"}
DESCENDING, NULLS_FIRST = 1, 2


def _order_flags(order: str) -> int:
    """Return the bits of DESC and NULLS FIRST."""
    falls = DESCENDING if "DESC" in order else 0
    first = "FIRST" in order or (falls and "LAST" not in order)
    return falls | (NULLS_FIRST if first else 0)


def _pg_index_rows(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        places = [str(part.place) for part in index.parts]
        names = [name.lower() for name in index.entry.schema.names]
        included = [str(names.index(one.lower()) + 1) for one in index.included if one.lower() in names]
        zeros = " ".join("0" for _ in places)
        expressions = expressions_text(catalog, index, pretty=False)
        where = index.where and catalog.system_reads.deparser.expression(catalog, index.entry, index.where)
        yield (
            *(
                index.oid,
                oid_of("relation", index.entry.name),
                len(places) + len(included),
                len(places),
            ),
            *(int(index.unique), int(index.is_primary), 1, 1, " ".join([*places, *included]), zeros),
            *(" ".join(str(_order_flags(part.order)) for part in index.parts), zeros, expressions or None),
            *(where or None, int(not index.distinct)),
        )


def _pg_indexes_rows(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        schema, table = split_name(catalog, index.entry.name)
        yield schema, table, split_name(catalog, index.name)[1], None, index_definition(catalog, index)


def _pg_constraint_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in listed_constraints(catalog):
        yield _constraint_row(catalog, schema, entry, one)
    for number, check, place, domain in domain_checks(catalog):
        flags = (0, 0, 1, 0, 0, 0, " ", " ", " ", None, None)
        yield number, check.name, place, "c", *flags, domain, 1, 0, check.text, 0


def _constraint_row(
    catalog: Catalog, schema: str, entry: TableEntry, constraint: Check | Unique | ForeignKey
) -> Row:
    kind, target, theirs, actions, index, waits = "c", 0, "", (" ", " ", " "), 0, (0, 0)
    own, text, local, parent = "", None, 1, 0
    match constraint:
        case Unique():
            kind, own = "p" if constraint.is_primary else "u", _column_numbers(entry, constraint.columns)
            index = oid_of("relation", in_schema_of(entry, constraint.name))
        case ForeignKey():
            other = catalog.table(constraint.target)
            kind, target = "f", oid_of("relation", other.name)
            own, theirs = (
                _column_numbers(entry, constraint.columns),
                _column_numbers(other, constraint.target_columns),
            )
            actions = (
                ACTIONS[constraint.on_update],
                ACTIONS[constraint.on_delete],
                constraint.match[0].lower(),
            )
            index, waits = (
                _referenced_index_oid(other, constraint),
                (int(constraint.deferrable), int(constraint.deferred)),
            )
        case Check():
            own, text = _column_numbers(entry, referenced_columns(entry, constraint.text)), constraint.text
            local = int(constraint.name.lower() not in inherited_checks(catalog, entry.name))
        case _:
            assert_never(constraint)
    if kind in "pu" and is_partition(catalog, entry.name):
        parent = _parent_constraint_oid(catalog, index)
        local = int(not parent)
    return (
        *(
            oid_of("constraint", f"{entry.name} {constraint.name}"),
            constraint.name,
            schema_oid(schema),
            kind,
            *waits,
            1,
        ),
        *(oid_of("relation", entry.name), index, target, *actions, own or None, theirs or None, 0),
        *(local, int(not local), text, parent),
    )


def _parent_constraint_oid(catalog: Catalog, index: int) -> int:
    """Return the OID of the parent's constraint for an index of a partition; 0 if there is none."""

    known = list(indexes(catalog))
    for heir in all_partitions(catalog):
        for mine, parent in attached_indexes(known, heir):
            if mine.oid == index and isinstance(parent.key, Unique):
                return oid_of("constraint", f"{parent.entry.name} {parent.key.name}")
    return 0


def referenced_columns(entry: Entry, text: str) -> tuple[str, ...]:
    """Return the columns of a relation whose names occur in a text, in their order."""
    words = {word.lower() for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'", "", text))}
    return tuple(name for name in entry.schema.names if name.lower() in words)


def _referenced_index_oid(target: TableEntry, key: ForeignKey) -> int:
    """Return the OID of the index on the columns that a foreign key references."""
    wanted = set(key.target_columns)
    found = (one for one in target.constraints.uniques if set(one.columns) == wanted)
    return next((oid_of("relation", in_schema_of(target, one.name)) for one in found), 0)


def _column_numbers(entry: TableEntry, names: tuple[str, ...]) -> str:
    return "{" + ",".join(str(entry.schema.names.index(one) + 1) for one in names) + "}" if names else ""


def constraint_definition(
    catalog: Catalog, entry: Entry | None, constraint: Check | Unique | ForeignKey, pretty: bool
) -> str:
    """Return a constraint as ``pg_get_constraintdef`` writes it."""
    match constraint:
        case Check():
            text = catalog.system_reads.deparser.expression(catalog, entry, constraint.text, pretty)
            return f"CHECK ({text})"
        case Unique():
            listed = ", ".join(map(quote_identifier, constraint.columns))
            more = (
                f" INCLUDE ({', '.join(map(quote_identifier, constraint.included))})"
                if constraint.included
                else ""
            )
            if constraint.is_primary:
                return f"PRIMARY KEY ({listed}){more}"
            return f"UNIQUE {'' if constraint.nulls_distinct else 'NULLS NOT DISTINCT '}({listed}){more}"
        case ForeignKey():
            text = f"FOREIGN KEY ({', '.join(map(quote_identifier, constraint.columns))}) "
            text += f"REFERENCES {display_name(catalog, constraint.target, 'relation')}"
            text += f"({', '.join(map(quote_identifier, constraint.target_columns))})"
            text += " MATCH FULL" if constraint.match == "FULL" else ""
            text += f" ON UPDATE {constraint.on_update}" if constraint.on_update != "NO ACTION" else ""
            text += f" ON DELETE {constraint.on_delete}" if constraint.on_delete != "NO ACTION" else ""
            text += (
                f" ({', '.join(map(quote_identifier, constraint.set_columns))})"
                if constraint.set_columns
                else ""
            )
            text += " DEFERRABLE" if constraint.deferrable else ""
            return text + (" INITIALLY DEFERRED" if constraint.deferred else "")
        case _:
            assert_never(constraint)


def check_clause(catalog: Catalog, entry: Entry | None, check: Check) -> str:
    """Return the condition of a CHECK as ``information_schema`` writes it."""
    return constraint_definition(catalog, entry, check, pretty=False).removeprefix("CHECK ")


def constraint_definitions(catalog: Catalog, *, pretty: bool) -> list[tuple[int, str]]:
    """Return the definitions of all constraints by OID."""
    found = [
        (oid_of("constraint", f"{entry.name} {one.name}"), constraint_definition(catalog, entry, one, pretty))
        for _, entry, one in listed_constraints(catalog)
    ]
    checks = (
        (one[0], constraint_definition(catalog, None, one[1], pretty)) for one in domain_checks(catalog)
    )
    return [*found, *checks]


KEY_RELATIONS: Final = {
    "pg_index": SystemRelation(
        columns(
            "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indisprimary:b indisvalid:b "
            "indisready:b indkey:a indclass:a indoption:a indcollation:a indexprs indpred "
            "indnullsnotdistinct:b"
        ),
        _pg_index_rows,
    ),
    "pg_indexes": SystemRelation(
        columns("schemaname tablename indexname tablespace indexdef"), _pg_indexes_rows
    ),
    "pg_constraint": SystemRelation(
        columns(
            "oid:o conname connamespace:o contype condeferrable:b condeferred:b convalidated:b conrelid:o "
            "conindid:o confrelid:o confupdtype confdeltype confmatchtype conkey:a confkey:a contypid:o "
            "conislocal:b coninhcount:i conbin conparentid:o"
        ),
        _pg_constraint_rows,
    ),
}
