"""The body of a function in PL/pgSQL as a tree."""

from functools import lru_cache

from kpg.compiler.sql.blocks import headers, simple
from kpg.compiler.sql.blocks import tree as ast
from kpg.compiler.sql.blocks.cursor import Cursor


@lru_cache(maxsize=512)
def block_of(text: str) -> ast.Block:
    """The outermost block of a body; ProgrammingError, with its place in the body, if it is none."""
    cursor = Cursor(text)
    while cursor.take("#"):
        cursor.place += 2
    found = _block(cursor, _label(cursor))
    cursor.take(";")
    if not cursor.done:
        cursor.wrong("the end of the function")
    return found


def _label(cursor: Cursor) -> str:
    if not cursor.take("<<"):
        return ""
    name = cursor.name()
    cursor.need(">>")
    return name


def _block(cursor: Cursor, label: str) -> ast.Block:
    declarations: list[ast.Declared] = []
    while cursor.take("DECLARE"):
        while not cursor.at("BEGIN") and not cursor.at("DECLARE"):
            declarations.append(headers.declared(cursor))
    cursor.need("BEGIN")
    body = _body(cursor, "END", "EXCEPTION")
    handlers: list[ast.Handler] = []
    if cursor.take("EXCEPTION"):
        while cursor.take("WHEN"):
            conditions = [_condition(cursor)]
            while cursor.take("OR"):
                conditions.append(_condition(cursor))
            cursor.need("THEN")
            handlers.append(ast.Handler(tuple(conditions), _body(cursor, "WHEN", "END")))
    cursor.need("END")
    if not cursor.done and not cursor.at(";"):
        cursor.name()
    return ast.Block(label, tuple(declarations), body, tuple(handlers))


def _condition(cursor: Cursor) -> str:
    return cursor.string() if cursor.take("SQLSTATE") else cursor.name()


def _body(cursor: Cursor, *ends: str) -> ast.Body:
    found: list[ast.Statement] = []
    while cursor.peek() not in ends:
        if cursor.done:
            cursor.wrong(" or ".join(ends))
        statement = _statement(cursor)
        if statement is not None:
            found.append(statement)
    return tuple(found)


def _statement(cursor: Cursor) -> ast.Statement | None:
    label = _label(cursor)
    match cursor.peek():
        case ";":
            found: ast.Statement | None = None
        case "DECLARE" | "BEGIN":
            found = _block(cursor, label)
        case "IF":
            found = _if(cursor)
        case "CASE":
            found = _case(cursor)
        case "LOOP" | "WHILE":
            found = _loop(cursor, label)
        case "FOR" | "FOREACH":
            found = _for(cursor, label)
        case _:
            found = simple.statement(cursor)
    cursor.need(";")
    return found


def _if(cursor: Cursor) -> ast.If:
    branches: list[tuple[str, ast.Body]] = []
    while cursor.take("IF") or cursor.take("ELSIF") or cursor.take("ELSEIF"):
        condition = cursor.up_to("THEN")
        cursor.need("THEN")
        branches.append((condition, _body(cursor, "ELSIF", "ELSEIF", "ELSE", "END")))
        if cursor.at("ELSE") or cursor.at("END"):
            break
    otherwise = _body(cursor, "END") if cursor.take("ELSE") else None
    cursor.need("END", "IF")
    return ast.If(tuple(branches), otherwise)


def _case(cursor: Cursor) -> ast.If | ast.Case:
    cursor.need("CASE")
    operand = cursor.up_to("WHEN", empty=True)
    branches: list[tuple[str, ast.Body]] = []
    while cursor.take("WHEN"):
        condition = cursor.up_to("THEN")
        cursor.need("THEN")
        branches.append((condition, _body(cursor, "WHEN", "ELSE", "END")))
    otherwise = _body(cursor, "END") if cursor.take("ELSE") else None
    cursor.need("END", "CASE")
    if not operand:
        return ast.If(tuple(branches), otherwise, strict=True)
    return ast.Case(operand, tuple(branches), otherwise)


def _repeated(cursor: Cursor) -> ast.Body:
    cursor.need("LOOP")
    found = _body(cursor, "END")
    cursor.need("END", "LOOP")
    if not cursor.at(";"):
        cursor.name()
    return found


def _loop(cursor: Cursor, label: str) -> ast.Loop:
    condition = cursor.up_to("LOOP") if cursor.take("WHILE") else ""
    return ast.Loop(label, condition, _repeated(cursor))


def _for(cursor: Cursor, label: str) -> ast.ForNumbers | ast.ForRows | ast.ForEach:
    if cursor.take("FOREACH"):
        targets = headers.targets(cursor)
        slices = 0
        if cursor.take("SLICE"):
            slices = int(cursor.peek())
            cursor.place += 1
        cursor.need("IN", "ARRAY")
        array = cursor.up_to("LOOP")
        return ast.ForEach(label, targets, slices, array, _repeated(cursor))
    cursor.need("FOR")
    targets = headers.targets(cursor)
    cursor.need("IN")
    reverse = cursor.take("REVERSE")
    if not reverse and not headers.is_range(cursor):
        query = headers.query(cursor, "LOOP")
        return ast.ForRows(label, targets, query, _repeated(cursor))
    low = cursor.up_to("..")
    cursor.need("..")
    high = cursor.up_to("LOOP", "BY")
    step = cursor.up_to("LOOP") if cursor.take("BY") else ""
    return ast.ForNumbers(label, targets[0], low, high, step, reverse, _repeated(cursor))
