"""The indexes that there are, as Postgres' catalogs know them: keys and CREATE INDEX."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Final

from kpg.compiler.catalog import KEYS, Catalog, Entry, TableEntry
from kpg.compiler.constraints import Index, Unique, UniqueIndex
from kpg.compiler.system.naming import number_of, split
from kpg.compiler.system.words import quoted, shown_name, whole
from kpg.compiler.triggers import Heir
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
