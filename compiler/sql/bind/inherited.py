"""A partitioned table: the rows of its partitions, with its columns."""

from dataclasses import replace

from kpg.compiler.catalog import Entry, TableEntry
from kpg.compiler.resolved import written
from kpg.compiler.sql.bind.output import settled_query
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bind.secured import seen_for, visible
from kpg.compiler.sql.bind.system_columns import asked
from kpg.compiler.sql.ddl.reader import tree_of
from kpg.compiler.sql.tokens import tokenize
from kpg.compiler.sql.tree import Query
from kpg.compiler.triggers import heirs


def with_heirs(binding: Binding, entry: Entry, alias: str) -> Query | None:
    """The rows of a table, named so in FROM, and of its partitions; None if there are none."""
    found = heirs(binding.catalog.others, entry.name) if isinstance(entry, TableEntry) else ()
    if not found:
        return None
    columns = ", ".join(map(_quoted, entry.schema.names))
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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
