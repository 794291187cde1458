"""Name qualification: stored definitions that do not depend on the search path of a later session.

A DEFAULT or CHECK is stored as text. A ``nextval('s')`` in it would find another sequence under another path,
so the text is stored with qualified names, ``nextval('public.s')``. Postgres stores trees with OIDs for the
same effect. A function body in quotes is not qualified: its names are resolved at each call, as in Postgres.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlglot import exp

from kpg.compiler.catalog.entries import PUBLIC, Catalog
from kpg.compiler.qualified_names import quote_qualified_name
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parse_tree, split_statements
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.parse.type_names import user_type_name
from kpg.runtime.errors import Error
from kpg.runtime.gc_pause import LazyModule

if TYPE_CHECKING:
    from kpg.compiler.system import oids
else:
    oids = LazyModule("kpg.compiler.system.oids")

T = TypeVar("T")
Replacements = dict[int, tuple[int, str]]
"""Replacements in a text: end offset and new text by start offset."""

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
"""Fields of definitions and their parts that hold SQL text, or parts with SQL text."""
SEQUENCE_FUNCTIONS: Final = frozenset(("nextval", "currval", "setval"))


def qualify_definition(statement: T, catalog: Catalog) -> T:
    """Return a definition with qualified names of relations, sequences, types and functions in its texts."""
    return map_texts(statement, lambda text: qualify_names(text, catalog))


def map_texts(part: T, change: Callable[[str], str]) -> T:
    """Return a definition with each of its SQL texts changed; the same object if no text changes."""
    wanted = TEXTS.get(type(part).__name__)
    if wanted is None:
        return part
    found: Any = part  # a dataclass instance
    names = {one.name for one in fields(found)}
    changes = {}
    for name in wanted:
        old = getattr(part, name) if name in names else None
        new = _map_value(old, change)
        if new is not old:
            changes[name] = new
    return replace(found, **changes) if changes else part


def _map_value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        new = change(value)
        return value if new == value else new
    if isinstance(value, tuple):
        found = tuple(_map_value(element, change) for element in value)
        return found if any(map(is_not, found, value)) else value
    return map_texts(value, change)


def qualify_names(text: str, catalog: Catalog) -> str:
    """Return the text of an expression, query or change with qualified names.

    A text without names of users is returned unchanged. So is a text that cannot be parsed: its error
    is reported when it is used.
    """
    tree, offset = parse_text(text)
    qualifier = _NameQualifier(catalog, text, offset, quote_if_needed)
    for node in tree.walk() if tree is not None else ():
        qualifier.visit(node)
    return apply_replacements(text, qualifier.replacements)


def parse_text(text: str) -> tuple[exp.Expr | None, int]:
    """Return the tree of an expression, query or change, and the offset of the text in the parsed text.

    None for a text without names to qualify, or that cannot be parsed.
    """
    if "(" not in text and "::" not in text and " " not in text:
        return None, 0
    for prefix in ("", "SELECT "):
        try:
            return parse_tree(tokenize(prefix + text), prefix + text), len(prefix)
        except Error:
            continue
    return None, 0


def calls_function(text: str, name: str) -> bool:
    """Return whether a qualified text calls a function; an unqualified call means the schema public."""
    schema, _, plain = name.lower().rpartition(".")
    tree, _ = parse_text(text) if plain in text.lower() else (None, 0)
    for node in tree.find_all(exp.Anonymous) if tree is not None else ():
        above = node.parent
        schema_node = (
            above.this if isinstance(above, exp.Dot) else above.args.get("db") if above is not None else None
        )
        call_schema = schema_node.name.lower() if isinstance(schema_node, exp.Identifier) else ""
        if str(node.this).lower() == plain and (call_schema or PUBLIC) == (schema or PUBLIC):
            return True
    return False


def uses_type(text: str, name: str) -> bool:
    """Return whether a qualified text uses a user-defined type."""
    tree, _ = parse_text(text) if name.rpartition(".")[2].lower() in text.lower() else (None, 0)
    for node in tree.find_all(exp.DataType) if tree is not None else ():
        type_name = user_type_name(node.args.get("kind")).lower()
        if type_name and type_name.removeprefix(f"{PUBLIC}.") == name.lower():
            return True
    return False


def quote_if_needed(name: str) -> str:
    """Return a qualified name as SQL text, quoted only where necessary, as in error messages."""
    schema, _, plain = name.rpartition(".")
    return f"{oids.quote_identifier(schema or PUBLIC)}.{oids.quote_identifier(plain)}"


def qualify_body(text: str, catalog: Catalog) -> str:
    """Return the statements of a SQL function body with qualified names."""

    return "; ".join(qualify_names(statement, catalog) for statement in split_statements(text))


def apply_replacements(text: str, replacements: Replacements) -> str:
    """Return a text with parts replaced."""
    for start in sorted(replacements, reverse=True):
        end, new_text = replacements[start]
        text = text[:start] + new_text + text[end:]
    return text


def is_cte_reference(node: exp.Table) -> bool:
    """Return whether a table name refers to an enclosing WITH query."""
    above: exp.Expr | None = node
    while above is not None:
        with_ = above.args.get("with_") or above.args.get("with")
        if with_ is not None and any(cte.alias.lower() == node.name.lower() for cte in with_.expressions):
            return True
        above = above.parent
    return False


def qualify_query(query: ast.Select, catalog: Catalog) -> str:
    """Return the text of a parsed query with qualified names."""
    qualifier = _NameQualifier(catalog, query.text, query.span.start, quote_qualified_name)
    for node in query.query.walk():
        qualifier.visit(node)
    return apply_replacements(query.text, qualifier.replacements)


class _NameQualifier:
    """Collector of the replacements in a text; the positions of its nodes are shifted by ``offset``."""

    def __init__(self, catalog: Catalog, text: str, offset: int, spell: Callable[[str], str]) -> None:
        self._catalog = catalog
        self._quote = spell
        self._text = text
        self._offset = offset
        self.replacements: Replacements = {}

    def visit(self, node: exp.Expr) -> None:
        """Record the replacement of the name in a node."""
        catalog = self._catalog
        match node:
            case exp.Table(this=exp.Identifier() as name) if not node.args.get("db") and not is_cte_reference(
                node
            ):
                entry = catalog.find(name.name)
                if entry is not None:
                    self._replace(name, name.name, self._quote(entry.name))
            case exp.Anonymous():
                called = str(node.this).lower()
                if called in SEQUENCE_FUNCTIONS and node.expressions:
                    self._replace_literal(node.expressions[0])
                elif not isinstance(node.parent, exp.Dot):
                    routines = catalog.find_routines(called)
                    if routines:
                        self._replace(node, called, quote_if_needed(routines[0].name))
            case exp.DataType(args={"kind": exp.Identifier() as name}):
                known_type = catalog.find_type(name.name) or catalog.find(name.name)
                if known_type is not None:
                    self._replace(name, name.name, quote_if_needed(known_type.name))
            case exp.Cast() if node.to.sql("postgres").lower() == "regclass":
                self._replace_literal(node.this)

    def _replace(self, node: exp.Expr, name: str, qualified_text: str) -> None:
        place = node.meta
        if "start" in place and "end" in place:
            start, end = place["start"] - self._offset, place["end"] + 1 - self._offset
            if self._text[start:end].strip('"').lower() == name.replace('"', '""').lower():
                self.replacements[start] = (end, qualified_text)

    def _replace_literal(self, node: exp.Expr) -> None:
        """Record the replacement of a sequence or relation named by a string constant."""
        while isinstance(node, exp.Cast):
            node = node.this
        if not isinstance(node, exp.Literal) or not node.is_string or "." in node.name:
            return
        name = node.name.replace('"', "")
        found = self._catalog.find_sequence(name) or self._catalog.find(name)
        place = literal_offsets(node, self._text, self._offset)
        if found is not None and place is not None:
            start, end = place
            self.replacements[start] = (end, "'" + self._quote(found.name).replace("'", "''") + "'")


def literal_offsets(node: exp.Literal, text: str, offset: int) -> tuple[int, int] | None:
    """Return the offsets of a string constant in the text; None if it is not in plain quotes there."""
    if "start" not in node.meta or "end" not in node.meta:
        return None
    start, end = node.meta["start"] - offset, node.meta["end"] + 1 - offset
    return (start, end) if text[start:end] == "'" + node.name.replace("'", "''") + "'" else None


def is_sequence_argument(node: exp.Expr) -> bool:
    """Return whether a string constant is the argument of a sequence function, or cast to regclass."""
    above = node.parent
    while isinstance(above, exp.Cast):
        if above.to.sql("postgres").lower() == "regclass":
            return True
        node, above = above, above.parent
    if not isinstance(above, exp.Anonymous) or str(above.this).lower() not in SEQUENCE_FUNCTIONS:
        return False
    return node is above.expressions[0]


def nextval_call(name: str) -> str:
    """Return the DEFAULT that takes the next number of a sequence."""
    return f"nextval({qualified_literal(name)})"


def qualified_literal(name: str) -> str:
    """Return a qualified name as a string constant."""
    return "'" + quote_if_needed(name).replace("'", "''") + "'"


def uses_sequence(text: str, name: str) -> bool:
    """Return whether a DEFAULT refers to a sequence, by its qualified or plain name."""
    return any(one.lower() in text.lower() for one in (f"'{name}'", qualified_literal(name)))


def called_functions(tree: exp.Expr) -> frozenset[str]:
    """Return the names of the functions that a query calls, in lower case, without those of SQL syntax."""
    return frozenset(str(node.this).lower() for node in tree.find_all(exp.Anonymous))
