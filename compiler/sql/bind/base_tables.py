"""Relations in FROM that are not plain catalog tables, and the system columns of tables.

Covers system relations, sequences, foreign options, partitioned tables and TABLESAMPLE. ``*`` does not
include ``tableoid``, the OID of the row's table, and ``ctid``, its rowid in Postgres' notation. A partitioned
table is the union of its partitions, with its own columns.

TABLESAMPLE chooses each row by its rowid and the seed, so a view with a sample is maintained: a row stays in
or out while it exists. Without REPEATABLE a one-time query draws a new seed, and a view keeps one seed. Both
methods choose single rows, because there are no pages.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.constraints import Partitioned, heirs
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.qualified_names import quote_name, written
from kpg.compiler.sql.bind.calls import brought, call, coerce, settled
from kpg.compiler.sql.bind.catalog_functions import as_number
from kpg.compiler.sql.bind.functions import KEYWORDS, OPTIONS
from kpg.compiler.sql.bind.per_row_calls import SALT_BITS
from kpg.compiler.sql.bind.query_output import settled_query
from kpg.compiler.sql.bind.row_security import seen_for, visible
from kpg.compiler.sql.bind.scope import Binding, Field, Scope, enter, relation_alias
from kpg.compiler.sql.bind.system import sequence_row, system_rows
from kpg.compiler.sql.bound_tree import Filter, Map, Node, Query, Rows, Scan, Window
from kpg.compiler.sql.parse.reader import tree_of
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.system.oids import KINDS, number_of, system_number
from kpg.compiler.system.pg_catalog import find, keywords
from kpg.compiler.system.pg_index import ancestors, heirs_of, partition_tree
from kpg.compiler.system.relations import Row
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, OID, ROWID, TEXT, TID, Type
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


def with_heirs(binding: Binding, entry: Entry, alias: str) -> Query | None:
    """The rows of a table, named so in FROM, and of its partitions; None if there are none."""
    found = heirs(binding.catalog.others, entry.name) if isinstance(entry, TableEntry) else ()
    if not found:
        return None
    columns = ", ".join(map(quote_name, entry.schema.names))
    columns = ", ".join((columns, *asked(binding)))
    parts = (f"SELECT {columns} FROM ONLY {written(name)}" for name in (entry.name, *found))
    text = " UNION ALL ".join(parts)
    tree = tree_of(tokenize(text), text)
    for node in tree.walk():
        node.meta.clear()
    # Who may read the table may read what is below it, of that what the policies of the table let him see.
    before = binding.reads, binding.governed
    binding.reads, binding.governed = None, True
    try:
        query = settled_query(binding.query(Scope(), tree))
    finally:
        binding.reads, binding.governed = before
    if not isinstance(entry, TableEntry):
        return query
    seen = visible(binding, entry, query.node, query.columns, seen_for(binding, alias), binding.owner)
    return replace(query, node=seen)


METHODS: Final = ("bernoulli", "system")
TABLES_ONLY: Final = "TABLESAMPLE can only be applied to tables and materialized views"
ALL: Final = 100
FINENESS: Final = 1000
"""Seeds differ that differ by a thousandth."""


def bind_sampled(
    binding: Binding, scope: Scope, node: exp.Table, bind: Callable[[Binding, Scope, exp.Table], Node]
) -> Node:
    """The rows of a table of which a share is taken, in percent; ``bind`` makes all rows of it."""
    sample = node.args["sample"]
    method = sample.args.get("method")
    if method is not None and method.name.lower() not in METHODS:
        binding.wrong(f"tablesample method {method.name.lower()} does not exist", sample)
    whole = node.copy()
    whole.set("sample", None)
    entry = binding.catalog.find(relation_name(node))
    named = node.args.get("db") is None and scope.find_common(node.name) is not None
    if named or (isinstance(entry, ViewEntry) and not entry.materialized):
        binding.wrong(TABLES_ONLY, node)
    rows = bind(binding, scope, whole)
    given = sample.args.get("percent") or sample.args.get("size")
    fixed = _constant(given)
    if fixed is not None:
        if not 0 <= fixed <= ALL:
            binding.wrong("sample percentage must be between 0 and 100", sample)
        if fixed in (0, ALL):
            return rows if fixed else Filter(rows, (Literal(0, BOOLEAN),))
    share = _number(binding, scope, given, "TABLESAMPLE parameter cannot be null")
    rows, row = _numbered(binding, rows, sample)
    drawn: Scalar = Call("$random", (row, _seed(binding, scope, sample)), DOUBLE)
    drawn = call(binding, "mul", [drawn, coerce(Literal(ALL, BIGINT), DOUBLE)], sample)
    return Filter(rows, (call(binding, "lt", [drawn, share], sample),))


def _constant(node: exp.Expr) -> float | None:
    """What a number, or one with a minus, is."""
    if isinstance(node, exp.Neg):
        below = _constant(node.this)
        return None if below is None else -below
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _number(binding: Binding, scope: Scope, node: exp.Expr, no_null: str) -> Scalar:
    value = binding.expression(scope.without_aggregates("TABLESAMPLE"), node)
    if isinstance(value, Literal) and value.value is None:
        binding.wrong(no_null, node)
    return brought(binding, value, DOUBLE, node)


def _numbered(binding: Binding, rows: Node, sample: exp.Expr) -> tuple[Node, Column]:
    """The rows with a number that no two of them share, and that stays theirs in a view."""
    if isinstance(rows, Scan):
        types = rel_types(rows.rel)
        if types[-1] == ROWID:
            return rows, Column(rows.ids[-1], BIGINT)
    if binding.kept:
        binding.refuse(
            "TABLESAMPLE of a share of anything but a plain table in a view", sample, "write a WHERE"
        )
    number = Column(binding.fresh(), BIGINT)
    calls = (WindowCall("row_number", (), BIGINT),)
    return Window(rows, (), (), (), (number.index,), calls), number


def _seed(binding: Binding, scope: Scope, sample: exp.Expr) -> Scalar:
    given = sample.args.get("seed")
    if given is None:
        return Literal(0 if binding.kept else random.getrandbits(SALT_BITS), BIGINT)
    seed = _number(binding, scope, given, "TABLESAMPLE REPEATABLE parameter cannot be null")
    thousandths = call(binding, "mul", [seed, coerce(Literal(FINENESS, BIGINT), DOUBLE)], sample)
    return Call("cast", (thousandths,), BIGINT)


TREE = "pg_partition_tree"


def bind_unlisted(binding: Binding, scope: Scope, node: exp.Table) -> Node | None:
    """The rows of what the catalog does not list; None if the name means nothing of the kind."""
    return _system(binding, scope, node) or _sequence(binding, scope, node)


def _system(binding: Binding, scope: Scope, node: exp.Table) -> Node | None:
    """The rows of a relation of the system; None if the name means none."""
    name = relation_name(node)
    if not name.lower().startswith(("pg_", "information_schema.")):
        return None
    system = find(name)
    if system is None:
        return None
    rows = system_rows(binding, system)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(rows.ids, rows.types, strict=True))
    alias, renamed = relation_alias(binding, node, node.name)
    enter(binding, scope, alias, tuple(one for one, _ in system.columns), columns, renamed, node)
    number = binding.fresh()
    scope.fields.append(Field(alias, "tableoid", Column(number, OID), of_system=True))
    found = Literal(system_number(node.name), OID)
    return Map(rows, (number,), (found,))


def _sequence(binding: Binding, scope: Scope, node: exp.Table) -> Node | None:
    """The one row of a sequence; None if the name means none."""
    sequence = binding.catalog.find_sequence(relation_name(node))
    if sequence is None:
        return None
    rows = sequence_row(binding, sequence)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(rows.ids, rows.types, strict=True))
    alias, renamed = relation_alias(binding, node, node.name)
    enter(binding, scope, alias, ("last_value", "log_cnt", "is_called"), columns, renamed, node)
    return rows


def no_options(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """The options of foreign things, of which there are none."""
    ids = (binding.fresh(), binding.fresh())
    alias, renamed = relation_alias(binding, node, OPTIONS)
    columns = tuple(Column(id_, TEXT) for id_ in ids)
    enter(binding, scope, alias, ("option_name", "option_value"), columns, renamed, node)
    return Rows((), ids, (TEXT, TEXT))


def word_rows(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """The words of the grammar, as ``pg_get_keywords`` tells of them."""
    types: tuple[Type, ...] = (TEXT, KINDS["c"], BOOLEAN, TEXT, TEXT)
    names = ("word", "catcode", "barelabel", "catdesc", "baredesc")
    ids = tuple(binding.fresh() for _ in types)
    alias, renamed = relation_alias(binding, node, KEYWORDS)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    enter(binding, scope, alias, names, columns, renamed, node)
    values = (tuple(Literal(*one) for one in zip(row, types, strict=True)) for row in keywords())
    return Rows(tuple(values), ids, types)


def kin_rows(binding: Binding, scope: Scope, node: exp.Table, sought: exp.Anonymous) -> Node:
    """Rows of ``pg_partition_ancestors`` and ``pg_partition_tree`` of a table, by name or number."""
    name = str(sought.this).lower()
    given = as_number(binding, settled(binding.expression(scope, sought.expressions[0])))
    tree = name == TREE
    numbered = bool(node.args.get("ordinality"))
    types: tuple[Type, ...] = (OID, OID, BOOLEAN, INTEGER) if tree else (OID,)
    names = ("relid", "parentrelid", "isleaf", "level")[: len(types)]
    if numbered:
        types, names = (*types, BIGINT), (*names, "ordinality")
    ids = tuple(binding.fresh() for _ in types)
    alias, renamed = relation_alias(binding, node, name)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    enter(binding, scope, alias, names, columns, renamed, node)
    binding.catalog.consulted.times += 1
    binding.catalog.consulted.steady += 1
    of, whole = binding.fresh(), (OID, *types)
    values = (
        tuple(Literal(*one) for one in zip(row[: len(whole)], whole, strict=True))
        for row in _kin(binding.catalog, tree=tree)
    )
    own = call(binding, "eq", [Column(of, OID), coerce(given, OID)], node)
    return Filter(Rows(tuple(values), (of, *ids), whole), (own,))


def _kin(catalog: Catalog, *, tree: bool) -> Iterator[Row]:
    """The rows of each table that is a partition or has some: the table's number before, the row's behind."""
    heirs = heirs_of(catalog)
    names = {name.lower(): name for one in heirs for name in (one.parent, one.child)}
    names |= {one.table.lower(): one.table for one in catalog.others.values() if isinstance(one, Partitioned)}
    for name in names.values():
        number = number_of("relation", name)
        rows = partition_tree(catalog, name) if tree else _ancestors(catalog, name)
        for place, row in enumerate(rows, 1):
            yield number, *row, place


def _ancestors(catalog: Catalog, name: str) -> Iterator[Row]:
    return ((number_of("relation", one),) for one in ancestors(catalog, name))
