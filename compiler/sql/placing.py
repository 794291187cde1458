"""Queries with the schemas of the relations and functions that are not found without them.

A view's text says ``FROM emp``; a dump is read with an empty search path, and wants ``FROM public.emp``.
"""

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.sql.ddl.reader import tree_of
from kpg.compiler.sql.tokens import tokenize
from kpg.compiler.system.words import path_of, shown_name
from kpg.runtime.errors import Error


def placed(catalog: Catalog, text: str) -> str:
    """The text with whole names where these are needed."""
    if path_of(catalog) == ("public",) and len(catalog.schemas) == 1:
        return text
    try:
        tree = tree_of(tokenize(text), text)
    except Error:
        return text
    changes: dict[int, tuple[int, str]] = {}
    for call in tree.find_all(exp.Anonymous):
        _function(catalog, call, text, changes)
    for node in tree.find_all(exp.Table):
        name = node.this
        if isinstance(name, exp.Identifier) and not node.args.get("db") and not _is_local(node):
            _relation(catalog, name, changes)
    for start in sorted(changes, reverse=True):
        end, shown = changes[start]
        text = text[:start] + shown + text[end:]
    return text


def _is_local(node: exp.Table) -> bool:
    """Whether a name is that of a WITH around it."""
    above: exp.Expr | None = node
    while above is not None:
        with_ = above.args.get("with_") or above.args.get("with")
        if with_ is not None and any(one.alias.lower() == node.name.lower() for one in with_.expressions):
            return True
        above = above.parent
    return False


def _relation(catalog: Catalog, name: exp.Identifier, changes: dict[int, tuple[int, str]]) -> None:
    start, end = name.meta.get("start"), name.meta.get("end")
    entry = catalog.find(name.name) or catalog.find(f"public.{name.name}")
    if entry is not None and start is not None and end is not None:
        shown = shown_name(catalog, entry.name, "relation")
        if "." in shown:
            changes[start] = (end + 1, shown)


def _function(catalog: Catalog, node: exp.Anonymous, text: str, changes: dict[int, tuple[int, str]]) -> None:
    name = str(node.this).lower()
    routines = catalog.routines.get(name)
    start = node.meta.get("start")
    if routines and start is not None and text[start : start + len(name)].lower() == name:
        shown = shown_name(catalog, routines[0].name, "function")
        if "." in shown and not isinstance(node.parent, exp.Dot):
            changes[start] = (start + len(name), shown)
