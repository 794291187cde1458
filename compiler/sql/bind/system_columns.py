"""``tableoid`` and ``ctid``: columns of every table that ``*`` does not mean.

The first is the number of the table that a row is of, the second where the row is in it: its rowid, told as
Postgres tells places.
"""

import re
from typing import Final

from kpg.compiler.algebra.rel import Get
from kpg.compiler.catalog import Entry, ViewEntry
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.tree import Map, Node, Scan
from kpg.compiler.system.naming import number_of
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, OID, TID, Type
from kpg.runtime.values.words import BLOCK, SPAN

TYPES: Final[dict[str, Type]] = {"tableoid": OID, "ctid": TID}
NAMES: Final = re.compile("tableoid|ctid", re.IGNORECASE)


def asked(binding: Binding) -> tuple[str, ...]:
    """Those of the columns whose names the text has; both where rows are to be locked."""
    if binding.located:
        return tuple(TYPES)
    return tuple(sorted({found.lower() for found in NAMES.findall(binding.source)}, reverse=True))


def with_system(
    binding: Binding, scope: Scope, alias: str, entry: Entry, node: Node, scan: Node | None = None
) -> Node:
    """The rows of a table, ``node`` over its ``scan``, with the columns of the system that the text names."""
    if isinstance(entry, ViewEntry):
        return node
    shown = {name.lower() for name in entry.schema.names}
    for name in asked(binding):
        value = _value(name, entry, scan or node)
        if value is None or name in shown:
            continue
        number = binding.fresh()
        scope.fields.append(Field(alias, name, Column(number, TYPES[name]), of_system=True))
        node = Map(node, (number,), (value,))
    return node


def _value(name: str, entry: Entry, scan: Node) -> Scalar | None:
    if name == "tableoid":
        return Literal(number_of("relation", entry.name), OID)
    if isinstance(scan, Scan) and isinstance(scan.rel, Get) and scan.rel.is_table:
        return place_of(Column(scan.ids[-1], BIGINT))
    return None


def place_of(rowid: Column) -> Scalar:
    """The word of the place that a rowid is told as."""
    block = Call("$floor_div", (rowid, Literal(BLOCK, BIGINT)), BIGINT)
    gaps = Call("$mul", (block, Literal(SPAN - BLOCK, BIGINT)), BIGINT)
    return Call("$add", (Call("$add", (rowid, gaps), BIGINT), Literal(1, BIGINT)), TID)
