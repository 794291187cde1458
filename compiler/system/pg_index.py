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
    Partitioned,
    Unique,
    UniqueIndex,
)
from kpg.compiler.catalog.entries import KEYS, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.system.oids import number_of, quoted, schema_number, shown_name, split, whole
from kpg.compiler.system.relations import Row, System, columns, constraints, entries
from kpg.compiler.system.user_objects import domain_checks
from kpg.runtime.records import dataclass
from kpg.runtime.types import INTEGER, Type

ORDER: Final = re.compile(
    r"(?P<what>.*?)(?P<collate>\s+collate\s+\S+)?(?P<opclass>\s+\w+_ops)?(?P<order>\s+(asc|desc))?"
    r"(?P<nulls>\s+nulls\s+(first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the things that an index is ordered by: a column's place from 1, or 0 and an expression."""

    place: int
    text: str
    type: Type
    order: str = ""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index: ``key`` is the constraint that it belongs to, if there is one."""

    name: str
    entry: Entry
    parts: tuple[Part, ...]
    unique: bool = False
    key: Unique | None = None
    where: str = ""
    distinct: bool = True
    included: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """Its number."""
        return number_of("relation", self.name)

    @property
    def primary(self) -> bool:
        """Whether it is a primary key's."""
        return self.key is not None and self.key.is_primary


def beside(entry: Entry, name: str) -> str:
    """The whole name of what is in the schema of a relation."""
    schema, _, _ = entry.name.rpartition(".")
    return f"{schema}.{name}" if schema and not name.startswith(f"{schema}.") else name


def indexes(catalog: Catalog) -> Iterator[IndexFacts]:
    """All indexes."""
    for entry in catalog:
        if isinstance(entry, TableEntry) and not entry.name.startswith(KEYS):
            for key in entry.constraints.uniques:
                parts = tuple(_column(entry, name) for name in key.columns)
                told = None if key.index else key
                name, distinct, more = beside(entry, key.name), key.nulls_distinct, key.included
                yield IndexFacts(name, entry, parts, True, told, distinct=distinct, included=more)
    uniques = {key[1:]: one for key, one in catalog.others.items() if key[0] == "unique index"}
    made = []
    for index in catalog.indexes.values():
        plain = index.name.rpartition(".")[2].lower()
        made.append(_made(catalog, index, uniques.get((index.table.lower(), plain))))
    yield from made
    heirs = [one for one in catalog.others.values() if isinstance(one, Heir)]
    if heirs:
        yield from _of_partitions(catalog, heirs, made)


def _of_partitions(catalog: Catalog, heirs: list[Heir], made: list[IndexFacts]) -> Iterator[IndexFacts]:
    """What Postgres makes of an index of a whole table: one of each partition that has none such."""
    taken = {one.name.lower() for one in made}
    pending = list(made)
    for index in pending:
        for heir in heirs:
            if heir.parent.lower() != index.entry.name.lower():
                continue
            texts = [part.text.lower() for part in index.parts]
            entry = catalog.get(heir.child)
            own = (one for one in made if one.entry.name.lower() == entry.name.lower())
            if any([part.text.lower() for part in one.parts] == texts for one in own):
                continue
            labels = "_".join((split(catalog, entry.name)[1], *map(label_of, index.parts), "idx"))
            names = (beside(entry, f"{labels}{number or ''}") for number in count())
            name = next(one for one in names if one.lower() not in taken)
            taken.add(name.lower())
            parts = tuple(
                replace(part, place=_column(entry, part.text).place) if part.place else part
                for part in index.parts
            )
            below = replace(index, name=name, entry=entry, parts=parts)
            pending.append(below)
            yield below


def _made(catalog: Catalog, index: Index, rule: UniqueIndex | None) -> IndexFacts:
    """The one of CREATE INDEX; ``rule`` is what keeps its rows apart if it is UNIQUE."""
    entry = catalog.get(index.table)
    inner, rest = _enclosed(index.what)
    parts = tuple(_part(catalog, entry, text) for text in _listed(inner))
    included: tuple[str, ...] = ()
    if re.match(r"\s*include\b", rest, re.IGNORECASE):
        names, rest = _enclosed(rest[rest.index("(") :])
        included = tuple(_listed(names))
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


def _unquoted(text: str) -> Iterator[tuple[int, str, int]]:
    """The letters that are not in quotes, where each is, and how many parentheses are open behind it."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([") - (letter in ")]")
            yield place, letter, depth


def _enclosed(text: str) -> tuple[str, str]:
    """What stands in the parentheses at the beginning of a text, and what comes behind them."""
    for place, letter, depth in _unquoted(text):
        if letter in ")]" and not depth:
            return text[1:place], text[place + 1 :]
    return text.strip("()"), ""


def _listed(text: str) -> list[str]:
    """What stands between the commas of a text, but for those in parentheses and quotes."""
    found, start = [], 0
    for place, letter, depth in _unquoted(text):
        if letter == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    return [*found, text[start:].strip()]


def _part(catalog: Catalog, entry: Entry, text: str) -> Part:
    found = ORDER.fullmatch(text)
    assert found is not None
    what = found["what"].strip()
    falls = (found["order"] or "").strip().lower() == "desc"
    nulls = (found["nulls"] or "").split()[-1:]
    order = " DESC" if falls else ""
    if nulls and (nulls[0].lower() == "first") != falls:
        order += f" NULLS {nulls[0].upper()}"
    name = what[1:-1] if what.startswith('"') and what.endswith('"') else what
    if name.lower() in (one.lower() for one in entry.schema.names):
        part = _column(entry, name)
        return Part(part.place, part.text, part.type, order)
    type_ = catalog.consulted.spelling.type_of(catalog, entry, what)
    return Part(0, what, type_ or INTEGER, order)


def _column(entry: Entry, name: str) -> Part:
    place = [one.lower() for one in entry.schema.names].index(name.lower())
    return Part(place + 1, entry.schema.names[place], entry.schema.types[place])


def included_parts(index: IndexFacts) -> list[Part]:
    """The columns that an index has beside those that it is ordered by."""
    known = {name.lower() for name in index.entry.schema.names}
    return [_column(index.entry, name) for name in index.included if name.lower() in known]


def part_text(catalog: Catalog, index: IndexFacts, part: Part, pretty: bool) -> str:
    """What an index is ordered by, as Postgres writes it."""
    if part.place:
        return quoted(part.text)
    text = catalog.consulted.spelling.expression(catalog, index.entry, part.text, pretty)
    call = re.match(r"[\w.\"]+\(", text) and _enclosed(text[text.index("(") :])[1] == ""
    return text if call or text.startswith("(") else f"({text})"


def expressions_text(catalog: Catalog, index: IndexFacts, *, pretty: bool) -> str:
    """What an index is ordered by that is no column."""
    return ", ".join(part_text(catalog, index, part, pretty) for part in index.parts if not part.place)


def label_of(part: Part) -> str:
    """What Postgres calls a column of an index."""
    call = re.match(r"(?:\w+\.)?(\w+)\s*\(", part.text)
    return part.text if part.place else call[1].lower() if call else "expr"


def definition(catalog: Catalog, index: IndexFacts, pretty: bool = False) -> str:
    """The CREATE INDEX of an index, with whole names unless it is for people."""
    parts = [part_text(catalog, index, part, pretty) + part.order for part in index.parts]
    table = index.entry.name
    shown = shown_name(catalog, table, "relation") if pretty else whole(catalog, table)
    only = "ONLY " if ("partitioned", table.lower(), "") in catalog.others else ""
    name = quoted(split(catalog, index.name)[1])
    text = f"CREATE {'UNIQUE ' if index.unique else ''}INDEX {name} ON {only}{shown}"
    text += f" USING btree ({', '.join(parts)})"
    text += f" INCLUDE ({', '.join(index.included)})" if index.included else ""
    text += "" if index.distinct else " NULLS NOT DISTINCT"
    if not index.where:
        return text
    where = catalog.consulted.spelling.expression(catalog, index.entry, index.where, pretty)
    return f"{text} WHERE {where}"


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


PARTITION_RELATIONS: Final = {
    "pg_inherits": System(columns("inhrelid:o inhparent:o inhseqno:i"), _inherits),
    "pg_partitioned_table": System(
        columns("partrelid:o partstrat partnatts:i partdefid:o partattrs:a"), _partitioned
    ),
    "pg_rewrite": System(
        columns("oid:o rulename ev_class:o ev_type ev_enabled is_instead:b"),
        _rules,
    ),
}


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


KEY_RELATIONS: Final = {
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
