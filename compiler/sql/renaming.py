"""Texts of definitions in which something has another name: what is kept as text follows what it names.

These texts have whole names (:mod:`kpg.compiler.sql.anchoring`), so nothing is looked up: a name in a text
either is the one that changes or it is not. Postgres keeps the numbers of what is named, to the same effect.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlglot import exp

from kpg.compiler.catalog import PUBLIC
from kpg.compiler.sql.anchoring import (
    Changes,
    changed,
    in_quotes,
    is_asked,
    is_local,
    literal_at,
    spelled,
    tree_of_text,
)
from kpg.compiler.sql.type_names import user_name

Kind = str
Names = Mapping[tuple[Kind, str], str]
"""New names by kind (RELATION, SEQUENCE, TYPE, FUNCTION) and whole name in lower case."""
RELATION: Final = "RELATION"
SEQUENCE: Final = "SEQUENCE"
TYPE: Final = "TYPE"
FUNCTION: Final = "FUNCTION"


def with_names(text: str, names: Names) -> str:
    """A text with other names in the place of some."""
    lower = text.lower()
    if not any(name.rpartition(".")[2] in lower for _, name in names):
        return text
    tree, offset = tree_of_text(text)
    if tree is None:
        return text
    renaming = _Renaming(names, text, offset, tree)
    for node in tree.walk():
        renaming.note(node)
    return changed(text, renaming.changes)


class _Renaming:
    """Finds what of a text is to be replaced; its nodes say places from ``offset`` on."""

    def __init__(self, names: Names, text: str, offset: int, tree: exp.Expr) -> None:
        self._names = names
        self._text = text
        self._offset = offset
        self._qualified = {
            (one.table or one.name).lower() for one in tree.find_all(exp.Column) if not one.args.get("db")
        } | {one.table.lower() for one in tree.find_all(exp.Column) if one.args.get("db")}
        self.changes: Changes = {}

    def _new(self, name: str, *kinds: Kind) -> str | None:
        whole = name.lower().removeprefix(f"{PUBLIC}.")
        return next((self._names[kind, whole] for kind in kinds if (kind, whole) in self._names), None)

    def note(self, node: exp.Expr) -> None:
        """Note what a node names."""
        match node:
            case exp.Table(this=exp.Identifier()):
                self._table(node)
            case exp.Column(args={"db": exp.Identifier() as schema, "table": exp.Identifier() as table}):
                if self._new(f"{schema.name}.{table.name}", RELATION) is not None:
                    self._put(schema, table, self._alias(table.name))
            case exp.Anonymous():
                schema = _schema_of(node)
                whole = f"{schema.name}.{node.this}" if schema is not None else str(node.this)
                new = self._new(whole, FUNCTION)
                if new is not None:
                    self._put(schema or node, node, spelled(new))
            case exp.DataType(args={"kind": exp.Expr() as kind}):
                new = self._new(user_name(kind), TYPE, RELATION)
                if new is not None:
                    first, last = (kind.this, kind.expression) if isinstance(kind, exp.Dot) else (kind, kind)
                    self._put(first, last, spelled(new))
            case exp.Literal() if node.is_string and is_asked(node):
                place = literal_at(node, self._text, self._offset)
                new = self._new(node.name.replace('"', ""), SEQUENCE, RELATION)
                if new is not None and place is not None:
                    self.changes[place[0]] = (place[1], in_quotes(new))

    def _table(self, node: exp.Table) -> None:
        schema = node.args.get("db")
        if schema is None and is_local(node):
            return
        plain = node.name
        new = self._new(f"{schema.name}.{plain}" if schema is not None else plain, RELATION)
        if new is None:
            return
        shown = spelled(new)
        known = node.args.get("alias") is not None
        if not known and plain.lower() in self._qualified and new.rpartition(".")[2] != plain:
            shown += f" AS {self._alias(plain)}"  # columns are named by it
        self._put(schema or node.this, node.this, shown)

    @staticmethod
    def _alias(plain: str) -> str:
        from kpg.compiler.system.words import quoted

        return quoted(plain)

    def _put(self, first: exp.Expr, last: exp.Expr, shown: str) -> None:
        if "start" in first.meta and "end" in last.meta:
            start = first.meta["start"] - self._offset
            self.changes[start] = (last.meta["end"] + 1 - self._offset, shown)


def _schema_of(node: exp.Anonymous) -> Any:
    """The identifier of the schema of a function that is called, None without one."""
    above = node.parent
    if isinstance(above, exp.Dot) and above.expression is node:
        return above.this if isinstance(above.this, exp.Identifier) else None
    return above.args.get("db") if isinstance(above, exp.Table) else None
