"""Queries with the schemas of the relations and functions that are not found without them, and no others.

A view's text says ``FROM public.emp``, whose reader wants ``FROM emp``; but a dump is read with an empty
search path, and wants the first.
"""

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.sql.anchoring import Changes, changed, is_local
from kpg.compiler.sql.ddl.reader import tree_of
from kpg.compiler.sql.syntax import relation_name
from kpg.compiler.sql.tokens import tokenize
from kpg.compiler.system.words import shown_name
from kpg.runtime.errors import Error


def placed(catalog: Catalog, text: str) -> str:
    """The text with whole names where these are needed."""
    try:
        tree = tree_of(tokenize(text), text)
    except Error:
        return text
    changes: Changes = {}
    for call in tree.find_all(exp.Anonymous):
        _function(catalog, call, text, changes)
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not is_local(node):
            _relation(catalog, node, changes)
    return changed(text, changes)


def _relation(catalog: Catalog, node: exp.Table, changes: Changes) -> None:
    schema, name = node.args.get("db"), node.this
    start, end = (schema or name).meta.get("start"), name.meta.get("end")
    entry = catalog.find(relation_name(node)) or catalog.find(f"public.{name.name}")
    if entry is not None and start is not None and end is not None:
        shown = shown_name(catalog, entry.name, "relation")
        if "." in shown or schema is not None:
            changes[start] = (end + 1, shown)


def _function(catalog: Catalog, node: exp.Anonymous, text: str, changes: Changes) -> None:
    name = str(node.this).lower()
    schema = node.parent.this if isinstance(node.parent, exp.Dot) else None
    whole = f"{schema.name}.{name}" if isinstance(schema, exp.Identifier) else name
    routines = catalog.whole_routines(whole)
    start, at = (schema or node).meta.get("start"), node.meta.get("start")
    if routines and start is not None and at is not None and text[at : at + len(name)].lower() == name:
        shown = shown_name(catalog, routines[0].name, "function")
        if "." in shown or schema is not None:
            changes[start] = (at + len(name), shown)
