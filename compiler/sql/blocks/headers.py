"""Parts of PL/pgSQL's statements: declarations, targets, what is executed."""

from kpg.compiler.sql.blocks import tree as ast
from kpg.compiler.sql.blocks.cursor import Cursor


def declared(cursor: Cursor) -> ast.Declared:
    """One line of DECLARE."""
    name = cursor.name()
    if cursor.take("ALIAS"):
        cursor.need("FOR")
        of = cursor.name()
        cursor.need(";")
        return ast.Declared(name, "", of, kind="alias")
    for words in (("NO", "SCROLL"), ("SCROLL",), ()):
        if cursor.at(*words, "CURSOR"):
            cursor.place += len(words) + 1
            return _cursor(cursor, name)
    constant = cursor.take("CONSTANT")
    type_ = _type(cursor)
    if cursor.take("COLLATE"):
        cursor.name()
    required = cursor.take("NOT", "NULL")
    default = ""
    if cursor.take(":=") or cursor.take("=") or cursor.take("DEFAULT"):
        default = cursor.up_to(";")
    cursor.need(";")
    return ast.Declared(name, type_, default, constant, required)


def _type(cursor: Cursor) -> str:
    start = cursor.place
    depth = 0
    while not cursor.done and (
        depth or cursor.peek() not in (";", ":=", "=", "DEFAULT", "COLLATE", "NOT", ",", ")")
    ):
        depth += (cursor.peek() == "(") - (cursor.peek() == ")")
        cursor.place += 1
    if cursor.place == start:
        cursor.wrong("a type")
    return cursor.since(start)


def _cursor(cursor: Cursor, name: str) -> ast.Declared:
    arguments: list[tuple[str, str]] = []
    if cursor.take("("):
        while not cursor.take(")"):
            arguments.append((cursor.name(), _type(cursor)))
            cursor.take(",")
    if not cursor.take("FOR"):
        cursor.need("IS")
    query_ = cursor.up_to(";")
    cursor.need(";")
    return ast.Declared(name, "", query_, kind="cursor", arguments=tuple(arguments))


def target(cursor: Cursor) -> str:
    """A variable, with fields and elements of it."""
    start = cursor.place
    cursor.name()
    while True:
        if cursor.take("."):
            cursor.name()
        elif cursor.take("["):
            cursor.up_to("]")
            cursor.need("]")
        else:
            return cursor.since(start)


def targets(cursor: Cursor) -> tuple[str, ...]:
    """Variables with commas between them."""
    found = [target(cursor)]
    while cursor.take(","):
        found.append(target(cursor))
    return tuple(found)


def is_range(cursor: Cursor) -> bool:
    """Whether ``low .. high`` follows, and no query."""
    place, depth = cursor.place, 0
    while place < len(cursor.tokens):
        word = cursor.tokens[place].upper
        if word == "LOOP" and not depth:
            return False
        if word == ".." and not depth:
            return True
        depth += (word in ("(", "[")) - (word in (")", "]"))
        place += 1
    return False


def query(cursor: Cursor, *ends: str) -> ast.Dynamic:
    """A query, or EXECUTE with one."""
    if not cursor.take("EXECUTE"):
        return ast.Dynamic(cursor.up_to(*ends))
    text = cursor.up_to("USING", *ends)
    using = cursor.listed(*ends) if cursor.take("USING") else ()
    return ast.Dynamic(text, using)
