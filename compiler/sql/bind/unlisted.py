"""Names in FROM that are no tables or views: relations of the system, sequences, foreign options."""

from sqlglot import exp

from kpg.compiler.sql.bind.called_items import KEYWORDS, OPTIONS
from kpg.compiler.sql.bind.calls import settled
from kpg.compiler.sql.bind.from_clause import alias_of, enter
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.bind.system import as_number, sequence_row, system_rows
from kpg.compiler.sql.syntax import relation_name
from kpg.compiler.sql.tree import Map, Node, Rows
from kpg.compiler.system.keywords import keywords
from kpg.compiler.system.kin import ancestors, partition_tree
from kpg.compiler.system.kinds import KINDS
from kpg.compiler.system.naming import number_of, system_number
from kpg.compiler.system.objects import find
from kpg.compiler.system.relations import Row
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import BOOLEAN, INTEGER, OID, TEXT, Type

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


def kin_rows(binding: Binding, scope: Scope, node: exp.Table, call: exp.Anonymous) -> Node:
    """Rows of ``pg_partition_ancestors`` and ``pg_partition_tree`` of one table, by name or number."""
    name = str(call.this).lower()
    given = as_number(binding, settled(binding.expression(scope, call.expressions[0])))
    if not isinstance(given, Literal):
        binding.refuse(f"{name} of anything but a constant", node)
    number = None if given.value is None else int(given.value)
    catalog = binding.catalog
    table = next((one.name for one in catalog if number_of("relation", one.name) == number), None)
    rows: list[Row] = []
    if table is not None and name == TREE:
        rows = list(partition_tree(catalog, table))
    elif table is not None:
        rows = [(number_of("relation", one),) for one in ancestors(catalog, table)]
    types: tuple[Type, ...] = (OID, OID, BOOLEAN, INTEGER) if name == TREE else (OID,)
    names = ("relid", "parentrelid", "isleaf", "level")[: len(types)]
    ids = tuple(binding.fresh() for _ in types)
    alias, renamed = alias_of(binding, node, name)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    enter(binding, scope, alias, names, columns, renamed, node)
    values = (tuple(Literal(*one) for one in zip(row, types, strict=True)) for row in rows)
    return Rows(tuple(values), ids, types)
