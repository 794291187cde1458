"""``tableoid``: the number of the table that a row is of, a column that ``*`` does not mean."""

from kpg.compiler.catalog import Entry, ViewEntry
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.tree import Map, Node
from kpg.compiler.system.naming import number_of
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import OID

NAME = "tableoid"


def is_asked(binding: Binding) -> bool:
    """Whether a text has the column's name."""
    return NAME in binding.source.lower()


def with_oid(binding: Binding, scope: Scope, alias: str, entry: Entry, node: Node) -> Node:
    """The rows of a table with the column."""
    if isinstance(entry, ViewEntry):
        return node
    number = binding.fresh()
    scope.fields.append(Field(alias, NAME, Column(number, OID), of_system=True))
    return Map(node, (number,), (Literal(number_of("relation", entry.name), OID),))
