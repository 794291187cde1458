"""Name qualification: stored definitions that do not depend on the search path of a later session.

A DEFAULT or CHECK is stored as text. A ``nextval('s')`` in it would find another sequence under another path,
so the text is stored with qualified names, ``nextval('public.s')``. Postgres stores trees with OIDs for the
same effect. A function body in quotes is not qualified: its names are resolved at each call, as in Postgres.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import is_not
from typing import Any, Final, TypeVar

from sqlglot import exp

from kpg.compiler.catalog.entries import PUBLIC, Catalog
from kpg.compiler.qualified_names import written
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import texts_of, tree_of
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.parse.type_names import user_name
from kpg.runtime.errors import Error

T = TypeVar("T")
Changes = dict[int, tuple[int, str]]
"""By where a part of a text begins: where it ends, and what comes there."""

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Rule": ("default", "generated"),
    "Check": ("text",),
    "UniqueIndex": ("elements", "where"),
    "Domain": ("default", "checks"),
    "Partitioned": ("keys",),
    "Constraints": ("rules", "checks"),
    "CreateTable": ("constraints", "partitioned"),
    "Alter": ("actions",),
    "AddColumn": ("rule", "constraints"),
    "SetRule": ("text",),
    "AddConstraint": ("constraint",),
    "AlterDomain": ("action",),
    "CreateDomain": ("domain",),
    "CreateIndex": ("elements", "where", "what"),
    "CreateFunction": ("parameters",),
    "Parameter": ("default",),
    "DefinePolicy": ("using", "check"),
    "Policy": ("using", "check"),
    "Routine": ("parameters",),
}
"""Where definitions, and what they are made of, have texts of SQL, or parts that have some."""
SEQUENCES: Final = frozenset(("nextval", "currval", "setval"))


def anchored(statement: T, catalog: Catalog) -> T:
    """A definition with the whole names of the relations, sequences and functions that its texts name."""
    return with_texts(statement, lambda text: whole_names(text, catalog))


def with_texts(part: T, change: Callable[[str], str]) -> T:
    """A definition with each of its texts changed; it itself if none is another then."""
    wanted = TEXTS.get(type(part).__name__)
    if wanted is None:
        return part
    found: Any = part  # a record: all that TEXTS names are
    names = {one.name for one in fields(found)}
    changes = {}
    for name in wanted:
        old = getattr(part, name) if name in names else None
        new = _value(old, change)
        if new is not old:
            changes[name] = new
    return replace(found, **changes) if changes else part


def _value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        new = change(value)
        return value if new == value else new
    if isinstance(value, tuple):
        found = tuple(_value(one, change) for one in value)
        return found if any(map(is_not, found, value)) else value
    return with_texts(value, change)


def whole_names(text: str, catalog: Catalog) -> str:
    """An expression, a query or a change with the whole names of what it means now.

    A text without anything of users in it is returned as it is; so is one that cannot be read, for whoever
    reads it next to say what is wrong.
    """
    tree, offset = tree_of_text(text)
    naming = _Naming(catalog, text, offset, spelled)
    for node in tree.walk() if tree is not None else ():
        naming.note(node)
    return changed(text, naming.changes)


def tree_of_text(text: str) -> tuple[exp.Expr | None, int]:
    """The tree of an expression, a query or a change, and where the text begins in its places."""
    if "(" not in text and "::" not in text and " " not in text:
        return None, 0
    for before in ("", "SELECT "):
        try:
            return tree_of(tokenize(before + text), before + text), len(before)
        except Error:
            continue
    return None, 0


def calls(text: str, name: str) -> bool:
    """Whether a text with whole names calls a function; one of before there were such has none of public."""
    schema, _, plain = name.lower().rpartition(".")
    tree, _ = tree_of_text(text) if plain in text.lower() else (None, 0)
    for node in tree.find_all(exp.Anonymous) if tree is not None else ():
        above = node.parent
        given = (
            above.this if isinstance(above, exp.Dot) else above.args.get("db") if above is not None else None
        )
        whose = given.name.lower() if isinstance(given, exp.Identifier) else ""
        if str(node.this).lower() == plain and (whose or PUBLIC) == (schema or PUBLIC):
            return True
    return False


def casts(text: str, name: str) -> bool:
    """Whether a text that has whole names names a type of a user's."""
    tree, _ = tree_of_text(text) if name.rpartition(".")[2].lower() in text.lower() else (None, 0)
    for node in tree.find_all(exp.DataType) if tree is not None else ():
        given = user_name(node.args.get("kind")).lower()
        if given and given.removeprefix(f"{PUBLIC}.") == name.lower():
            return True
    return False


def spelled(name: str) -> str:
    """A whole name as people write it: users see these texts in errors."""
    from kpg.compiler.system.oids import quoted  # lazy: the system catalogs

    schema, _, plain = name.rpartition(".")
    return f"{quoted(schema or PUBLIC)}.{quoted(plain)}"


def whole_body(text: str, catalog: Catalog) -> str:
    """The statements of a function that is written in SQL, with whole names."""

    return "; ".join(whole_names(one, catalog) for one in texts_of(text))


def changed(text: str, changes: Changes) -> str:
    """A text with others in the place of some of its parts."""
    for start in sorted(changes, reverse=True):
        end, shown = changes[start]
        text = text[:start] + shown + text[end:]
    return text


def is_local(node: exp.Table) -> bool:
    """Whether a name is that of a WITH around it."""
    above: exp.Expr | None = node
    while above is not None:
        with_ = above.args.get("with_") or above.args.get("with")
        if with_ is not None and any(one.alias.lower() == node.name.lower() for one in with_.expressions):
            return True
        above = above.parent
    return False


def whole_query(query: ast.Select, catalog: Catalog) -> str:
    """The text of a query that was just parsed, with whole names."""
    naming = _Naming(catalog, query.text, query.span.start, written)
    for node in query.query.walk():
        naming.note(node)
    return changed(query.text, naming.changes)


class _Naming:
    """Finds what of a text is to be replaced; its nodes say places from ``offset`` on."""

    def __init__(self, catalog: Catalog, text: str, offset: int, spell: Callable[[str], str]) -> None:
        self._catalog = catalog
        self._spell = spell
        self._text = text
        self._offset = offset
        self.changes: Changes = {}

    def note(self, node: exp.Expr) -> None:
        """Note what a node names."""
        catalog = self._catalog
        match node:
            case exp.Table(this=exp.Identifier() as name) if not node.args.get("db") and not is_local(node):
                entry = catalog.find(name.name)
                if entry is not None:
                    self._put(name, name.name, self._spell(entry.name))
            case exp.Anonymous():
                called = str(node.this).lower()
                if called in SEQUENCES and node.expressions:
                    self._sequence(node.expressions[0])
                elif not isinstance(node.parent, exp.Dot):
                    known = catalog.find_routines(called)
                    if known:
                        self._put(node, called, spelled(known[0].name))
            case exp.DataType(args={"kind": exp.Identifier() as name}):
                known_type = catalog.find_type(name.name) or catalog.find(name.name)
                if known_type is not None:
                    self._put(name, name.name, spelled(known_type.name))
            case exp.Cast() if node.to.sql("postgres").lower() == "regclass":
                self._sequence(node.this)

    def _put(self, node: exp.Expr, given: str, shown: str) -> None:
        place = node.meta
        if "start" in place and "end" in place:
            start, end = place["start"] - self._offset, place["end"] + 1 - self._offset
            if self._text[start:end].strip('"').lower() == given.replace('"', '""').lower():
                self.changes[start] = (end, shown)

    def _sequence(self, node: exp.Expr) -> None:
        """The name in quotes of a sequence, or of a relation."""
        while isinstance(node, exp.Cast):
            node = node.this
        if not isinstance(node, exp.Literal) or not node.is_string or "." in node.name:
            return
        name = node.name.replace('"', "")
        found = self._catalog.find_sequence(name) or self._catalog.find(name)
        place = literal_at(node, self._text, self._offset)
        if found is not None and place is not None:
            start, end = place
            self.changes[start] = (end, "'" + self._spell(found.name).replace("'", "''") + "'")


def literal_at(node: exp.Literal, text: str, offset: int) -> tuple[int, int] | None:
    """Where a text in quotes is, and no other that is the same: None unless it is written as usual."""
    if "start" not in node.meta or "end" not in node.meta:
        return None
    start, end = node.meta["start"] - offset, node.meta["end"] + 1 - offset
    return (start, end) if text[start:end] == "'" + node.name.replace("'", "''") + "'" else None


def is_asked(node: exp.Expr) -> bool:
    """Whether a text in quotes is the first argument of a function of sequences, or a regclass."""
    above = node.parent
    while isinstance(above, exp.Cast):
        if above.to.sql("postgres").lower() == "regclass":
            return True
        node, above = above, above.parent
    if not isinstance(above, exp.Anonymous) or str(above.this).lower() not in SEQUENCES:
        return False
    return node is above.expressions[0]


def sequence_call(name: str) -> str:
    """The DEFAULT that gives the next number of a sequence of the catalog."""
    return f"nextval({in_quotes(name)})"


def in_quotes(name: str) -> str:
    return "'" + spelled(name).replace("'", "''") + "'"


def asks_sequence(text: str, name: str) -> bool:
    """Whether a DEFAULT names a sequence of the catalog, with its schema or, as of old, without."""
    return any(one.lower() in text.lower() for one in (f"'{name}'", in_quotes(name)))


def names_called(tree: exp.Expr) -> frozenset[str]:
    """The names of functions that a query calls, in lower case, of those that SQL does not have."""
    return frozenset(str(node.this).lower() for node in tree.find_all(exp.Anonymous))
