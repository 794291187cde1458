"""Relations in FROM that are not plain catalog tables, and the system columns of tables.

Covers system relations, sequences, foreign options, partitioned tables and TABLESAMPLE. ``*`` does not
include ``tableoid``, the OID of the row's table, and ``ctid``, its rowid in Postgres' notation. A partitioned
table is the union of its partitions, with its own columns.

TABLESAMPLE chooses each row by its rowid and the seed, so a view with a sample is maintained: a row stays in
or out while it exists. Without REPEATABLE a one-time query draws a new seed, and a view keeps one seed. Both
methods choose single rows, because there are no pages.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.constraints import descendant_tables
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.qualified_names import quote_name, quote_qualified_name
from kpg.compiler.sql.bind.calls import call, coerce, coerce_at, default_to_text
from kpg.compiler.sql.bind.catalog_functions import as_relation_oid
from kpg.compiler.sql.bind.functions import KEYWORDS_FUNCTION, OPTIONS_FUNCTION
from kpg.compiler.sql.bind.per_row_calls import SALT_BITS
from kpg.compiler.sql.bind.query_output import default_query_to_text
from kpg.compiler.sql.bind.row_security import filter_table, policy_commands
from kpg.compiler.sql.bind.scope import Binding, Field, Scope, add_relation, relation_alias
from kpg.compiler.sql.bind.system import sequence_row, system_rows
from kpg.compiler.sql.bound_tree import Filter, Map, Node, Query, Rows, Scan, Window
from kpg.compiler.sql.parse.reader import parse_tree
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.system.oids import COLUMN_TYPES, oid_of, system_relation_oid
from kpg.compiler.system.pg_catalog import find_system_relation, keyword_rows
from kpg.compiler.system.pg_index import all_partitions, ancestors, partition_tree
from kpg.compiler.system.relations import Row, extension_relation
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, OID, ROWID, TEXT, TID, Type
from kpg.runtime.values.words import BLOCK, TID_OFFSETS

SYSTEM_COLUMNS: Final[dict[str, Type]] = {"tableoid": OID, "ctid": TID}
"""Supported system columns and their types."""


def requested_system_columns(binding: Binding) -> tuple[str, ...]:
    """Return the system columns that the statement names, or all if rows are locked."""
    return tuple(SYSTEM_COLUMNS) if binding.needs_row_location else binding.features.system_columns


def with_system_columns(
    binding: Binding, scope: Scope, alias: str, entry: Entry, node: Node, scan: Node | None = None
) -> Node:
    """Add the requested system columns to the rows of a table. ``node`` is the table over its ``scan``."""
    if isinstance(entry, ViewEntry):
        return node
    shown = {name.lower() for name in entry.schema.names}
    for name in requested_system_columns(binding):
        value = _system_column_value(name, entry, scan or node)
        if value is None or name in shown:
            continue
        number = binding.new_id()
        scope.fields.append(Field(alias, name, Column(number, SYSTEM_COLUMNS[name]), is_system=True))
        node = Map(node, (number,), (value,))
    return node


def _system_column_value(name: str, entry: Entry, scan: Node) -> Scalar | None:
    if name == "tableoid":
        return Literal(oid_of("relation", entry.name), OID)
    if isinstance(scan, Scan) and isinstance(scan.rel, Get) and scan.rel.is_table:
        return ctid_of(Column(scan.ids[-1], BIGINT))
    return None


def ctid_of(rowid: Column) -> Scalar:
    """Return the TID of a rowid, in Postgres' notation of block and offset."""
    block = Call("$floor_div", (rowid, Literal(BLOCK, BIGINT)), BIGINT)
    gaps = Call("$mul", (block, Literal(TID_OFFSETS - BLOCK, BIGINT)), BIGINT)
    return Call("$add", (Call("$add", (rowid, gaps), BIGINT), Literal(1, BIGINT)), TID)


def bind_partitions(binding: Binding, entry: Entry, alias: str) -> Query | None:
    """Return the rows of a table and its partitions; None if it has no partition."""
    found = descendant_tables(binding.catalog.partitions, entry.name) if isinstance(entry, TableEntry) else ()
    if not found:
        return None
    columns = ", ".join(map(quote_name, entry.schema.names))
    columns = ", ".join((columns, *requested_system_columns(binding)))
    parts = (f"SELECT {columns} FROM ONLY {quote_qualified_name(name)}" for name in (entry.name, *found))
    text = " UNION ALL ".join(parts)
    tree = parse_tree(tokenize(text), text)
    for node in tree.walk():
        node.meta.clear()
    # A privilege on the table covers its partitions. The policies of the table apply to their rows.
    before = binding.reads, binding.skips_policies
    binding.reads, binding.skips_policies = None, True
    try:
        query = default_query_to_text(binding.query(Scope(), tree))
    finally:
        binding.reads, binding.skips_policies = before
    if not isinstance(entry, TableEntry):
        return query
    seen = filter_table(
        binding, entry, query.node, query.columns, policy_commands(binding, alias), binding.policy_role
    )
    return replace(query, node=seen)


SAMPLING_METHODS: Final = ("bernoulli", "system")
TABLES_ONLY: Final = "TABLESAMPLE can only be applied to tables and materialized views"
FULL_PERCENTAGE: Final = 100
SEED_UNITS: Final = 1000
"""Seeds are distinguished to a thousandth."""


def bind_tablesample(
    binding: Binding, scope: Scope, node: exp.Table, bind_table: Callable[[Binding, Scope, exp.Table], Node]
) -> Node:
    """Bind TABLESAMPLE, a percentage of a table's rows. ``bind_table`` returns all of them."""
    sample = node.args["sample"]
    method = sample.args.get("method")
    if method is not None and method.name.lower() not in SAMPLING_METHODS:
        binding.fail(f"tablesample method {method.name.lower()} does not exist", sample)
    whole = node.copy()
    whole.set("sample", None)
    entry = binding.catalog.find(relation_name(node))
    named = node.args.get("db") is None and scope.find_common_table(node.name) is not None
    if named or (isinstance(entry, ViewEntry) and not entry.materialized):
        binding.fail(TABLES_ONLY, node)
    rows = bind_table(binding, scope, whole)
    given = sample.args.get("percent") or sample.args.get("size")
    fixed = _constant_number(given)
    if fixed is not None:
        if not 0 <= fixed <= FULL_PERCENTAGE:
            binding.fail("sample percentage must be between 0 and 100", sample)
        if fixed in (0, FULL_PERCENTAGE):
            return rows if fixed else Filter(rows, (Literal(0, BOOLEAN),))
    share = _bind_sample_argument(binding, scope, given, "TABLESAMPLE parameter cannot be null")
    rows, row = _sample_identity(binding, rows, sample)
    drawn: Scalar = Call("$random", (row, _bind_seed(binding, scope, sample)), DOUBLE)
    drawn = call(binding, "mul", [drawn, coerce(Literal(FULL_PERCENTAGE, BIGINT), DOUBLE)], sample)
    return Filter(rows, (call(binding, "lt", [drawn, share], sample),))


def _constant_number(node: exp.Expr) -> float | None:
    """Return the value of an optionally negative number; None for any other expression."""
    if isinstance(node, exp.Neg):
        below = _constant_number(node.this)
        return None if below is None else -below
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _bind_sample_argument(binding: Binding, scope: Scope, node: exp.Expr, no_null: str) -> Scalar:
    value = binding.expression(scope.without_aggregates("TABLESAMPLE"), node)
    if isinstance(value, Literal) and value.value is None:
        binding.fail(no_null, node)
    return coerce_at(binding, value, DOUBLE, node)


def _sample_identity(binding: Binding, rows: Node, sample: exp.Expr) -> tuple[Node, Column]:
    """Return the rows with a unique number per row, which is stable in a view."""
    if isinstance(rows, Scan):
        types = rel_types(rows.rel)
        if types[-1] == ROWID:
            return rows, Column(rows.ids[-1], BIGINT)
    if binding.is_view:
        binding.refuse("TABLESAMPLE of anything but a base table in a view", sample, "write a WHERE")
    number = Column(binding.new_id(), BIGINT)
    calls = (WindowCall("row_number", (), BIGINT),)
    return Window(rows, (), (), (), (number.index,), calls), number


def _bind_seed(binding: Binding, scope: Scope, sample: exp.Expr) -> Scalar:
    given = sample.args.get("seed")
    if given is None:
        return Literal(0 if binding.is_view else random.getrandbits(SALT_BITS), BIGINT)
    seed = _bind_sample_argument(binding, scope, given, "TABLESAMPLE REPEATABLE parameter cannot be null")
    thousandths = call(binding, "mul", [seed, coerce(Literal(SEED_UNITS, BIGINT), DOUBLE)], sample)
    return Call("cast", (thousandths,), BIGINT)


PARTITION_TREE = "pg_partition_tree"


def bind_system_or_sequence(binding: Binding, scope: Scope, node: exp.Table) -> Node | None:
    """Return the rows of a system relation or sequence; None if the name means neither."""
    return _bind_system_relation(binding, scope, node) or _bind_sequence(binding, scope, node)


def _bind_system_relation(binding: Binding, scope: Scope, node: exp.Table) -> Node | None:
    """Return the rows of a system relation; None if there is none of that name."""
    name = relation_name(node)
    system = extension_relation(name, binding.catalog)
    if system is None and name.lower().startswith(("pg_", "information_schema.")):
        system = find_system_relation(name)
    if system is None:
        return None
    rows = system_rows(binding, system)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(rows.ids, rows.types, strict=True))
    alias, renamed = relation_alias(binding, node, node.name)
    add_relation(binding, scope, alias, tuple(one for one, _ in system.columns), columns, renamed, node)
    number = binding.new_id()
    scope.fields.append(Field(alias, "tableoid", Column(number, OID), is_system=True))
    found = Literal(system_relation_oid(node.name), OID)
    return Map(rows, (number,), (found,))


def _bind_sequence(binding: Binding, scope: Scope, node: exp.Table) -> Node | None:
    """Return the single row of a sequence; None if there is none of that name."""
    sequence = binding.catalog.find_sequence(relation_name(node))
    if sequence is None:
        return None
    rows = sequence_row(binding, sequence)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(rows.ids, rows.types, strict=True))
    alias, renamed = relation_alias(binding, node, node.name)
    add_relation(binding, scope, alias, ("last_value", "log_cnt", "is_called"), columns, renamed, node)
    return rows


def bind_options_table(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """Return ``pg_options_to_table``, which is empty: foreign objects have no options."""
    ids = (binding.new_id(), binding.new_id())
    alias, renamed = relation_alias(binding, node, OPTIONS_FUNCTION)
    columns = tuple(Column(id_, TEXT) for id_ in ids)
    add_relation(binding, scope, alias, ("option_name", "option_value"), columns, renamed, node)
    return Rows((), ids, (TEXT, TEXT))


def bind_keywords(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """Return the rows of ``pg_get_keywords``."""
    types: tuple[Type, ...] = (TEXT, COLUMN_TYPES["c"], BOOLEAN, TEXT, TEXT)
    names = ("word", "catcode", "barelabel", "catdesc", "baredesc")
    ids = tuple(binding.new_id() for _ in types)
    alias, renamed = relation_alias(binding, node, KEYWORDS_FUNCTION)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    add_relation(binding, scope, alias, names, columns, renamed, node)
    values = (tuple(Literal(*one) for one in zip(row, types, strict=True)) for row in keyword_rows())
    return Rows(tuple(values), ids, types)


def bind_partition_function(binding: Binding, scope: Scope, node: exp.Table, function: exp.Anonymous) -> Node:
    """Return the rows of ``pg_partition_ancestors`` or ``pg_partition_tree`` of a table."""
    name = str(function.this).lower()
    given = as_relation_oid(binding, default_to_text(binding.expression(scope, function.expressions[0])))
    tree = name == PARTITION_TREE
    numbered = bool(node.args.get("ordinality"))
    types: tuple[Type, ...] = (OID, OID, BOOLEAN, INTEGER) if tree else (OID,)
    names = ("relid", "parentrelid", "isleaf", "level")[: len(types)]
    if numbered:
        types, names = (*types, BIGINT), (*names, "ordinality")
    ids = tuple(binding.new_id() for _ in types)
    alias, renamed = relation_alias(binding, node, name)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    add_relation(binding, scope, alias, names, columns, renamed, node)
    binding.catalog.system_reads.count += 1
    binding.catalog.system_reads.cacheable_count += 1
    of, whole = binding.new_id(), (OID, *types)
    values = (
        tuple(Literal(*one) for one in zip(row[: len(whole)], whole, strict=True))
        for row in _partition_rows(binding.catalog, tree=tree)
    )
    own = call(binding, "eq", [Column(of, OID), coerce(given, OID)], node)
    return Filter(Rows(tuple(values), (of, *ids), whole), (own,))


def _partition_rows(catalog: Catalog, *, tree: bool) -> Iterator[Row]:
    """Yield the rows of each table with partitions or a parent: table OID, row, position."""
    heirs = all_partitions(catalog)
    names = {name.lower(): name for one in heirs for name in (one.parent, one.child)}
    names |= {key: one.table for key, one in catalog.partitioned.items()}
    for name in names.values():
        number = oid_of("relation", name)
        rows = partition_tree(catalog, name) if tree else _ancestor_rows(catalog, name)
        for place, row in enumerate(rows, 1):
            yield number, *row, place


def _ancestor_rows(catalog: Catalog, name: str) -> Iterator[Row]:
    return ((oid_of("relation", one),) for one in ancestors(catalog, name))
