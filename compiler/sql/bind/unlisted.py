"""Names in FROM that are no tables or views: relations of the system, sequences, foreign options."""

from collections.abc import Iterator

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.sql.bind.called_items import KEYWORDS, OPTIONS
from kpg.compiler.sql.bind.calls import call, coerce, settled
from kpg.compiler.sql.bind.from_clause import alias_of, enter
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.bind.system import as_number, sequence_row, system_rows
from kpg.compiler.sql.syntax import relation_name
from kpg.compiler.sql.tree import Filter, Map, Node, Rows
from kpg.compiler.system.keywords import keywords
from kpg.compiler.system.kin import ancestors, heirs_of, partition_tree
from kpg.compiler.system.kinds import KINDS
from kpg.compiler.system.naming import number_of, system_number
from kpg.compiler.system.objects import find
from kpg.compiler.system.relations import Row
from kpg.compiler.triggers import Partitioned
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, TEXT, Type

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
    alias, renamed = alias_of(binding, node, node.name)
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
    alias, renamed = alias_of(binding, node, node.name)
    enter(binding, scope, alias, ("last_value", "log_cnt", "is_called"), columns, renamed, node)
    return rows


def no_options(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """The options of foreign things, of which there are none."""
    ids = (binding.fresh(), binding.fresh())
    alias, renamed = alias_of(binding, node, OPTIONS)
    columns = tuple(Column(id_, TEXT) for id_ in ids)
    enter(binding, scope, alias, ("option_name", "option_value"), columns, renamed, node)
    return Rows((), ids, (TEXT, TEXT))


def word_rows(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """The words of the grammar, as ``pg_get_keywords`` tells of them."""
    types: tuple[Type, ...] = (TEXT, KINDS["c"], BOOLEAN, TEXT, TEXT)
    names = ("word", "catcode", "barelabel", "catdesc", "baredesc")
    ids = tuple(binding.fresh() for _ in types)
    alias, renamed = alias_of(binding, node, KEYWORDS)
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
    alias, renamed = alias_of(binding, node, name)
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
