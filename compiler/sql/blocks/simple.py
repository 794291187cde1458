"""The statements of PL/pgSQL that have no others in them, and those of SQL."""

from kpg.compiler.sql.blocks import headers
from kpg.compiler.sql.blocks import tree as ast
from kpg.compiler.sql.blocks.cursor import Cursor

LEVELS = ("DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "EXCEPTION")
COMMANDS = frozenset(
    (
        *("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE", "CREATE", "DROP"),
        *("ALTER", "TRUNCATE", "COMMENT", "CALL", "DO", "COPY", "LOCK", "SET", "RESET", "ANALYZE"),
        *("VACUUM", "GRANT", "REVOKE", "NOTIFY", "LISTEN", "UNLISTEN", "REFRESH", "REINDEX", "CLUSTER"),
        *("SHOW", "DISCARD", "("),
    )
)


def statement(cursor: Cursor) -> ast.Statement:
    """One statement, before its semicolon."""
    assigned = _assignment(cursor)
    if assigned is not None:
        return assigned
    match cursor.peek():
        case "NULL":
            cursor.place += 1
            return ast.End("")
        case "COMMIT" | "ROLLBACK":
            what = cursor.peek()
            cursor.up_to(";")
            return ast.End(what)
        case "EXIT" | "CONTINUE":
            return _exit(cursor)
        case "RETURN":
            return _return(cursor)
        case "RAISE":
            return _raise(cursor)
        case "ASSERT":
            cursor.place += 1
            condition = cursor.up_to(",", ";")
            return ast.Assert(condition, cursor.up_to(";") if cursor.take(",") else "")
        case "PERFORM":
            cursor.place += 1
            return ast.Perform("SELECT " + cursor.up_to(";"))
        case "EXECUTE":
            return _execute(cursor)
        case "GET":
            return _diagnostics(cursor)
        case "OPEN" | "FETCH" | "MOVE" | "CLOSE":
            return _cursor(cursor)
        case word if word in COMMANDS:
            return _sql(cursor)
        case _:
            cursor.wrong("a statement")


def _assignment(cursor: Cursor) -> ast.Assign | None:
    start = cursor.place
    if not cursor.done and cursor.tokens[start].kind in ("word", "quoted"):
        place = cursor.place + 1
        depth = 0
        while place < len(cursor.tokens):
            word = cursor.tokens[place].upper
            if word in (":=", "=") and not depth:
                cursor.place = place + 1
                target = cursor.text[cursor.tokens[start].start : cursor.tokens[place - 1].end]
                return ast.Assign(target, cursor.up_to(";"))
            named = cursor.tokens[place - 1].upper == "." and cursor.tokens[place].kind in ("word", "quoted")
            if not depth and word not in (".", "[", "]") and not named:
                break
            depth += (word == "[") - (word == "]")
            place += 1
    return None


def _exit(cursor: Cursor) -> ast.Exit:
    goes_on = cursor.peek() == "CONTINUE"
    cursor.place += 1
    label = "" if cursor.at("WHEN") or cursor.at(";") else cursor.name()
    condition = cursor.up_to(";") if cursor.take("WHEN") else ""
    return ast.Exit(label, condition, goes_on)


def _return(cursor: Cursor) -> ast.Return | ast.ReturnNext | ast.ReturnQuery:
    cursor.need("RETURN")
    if cursor.take("NEXT"):
        return ast.ReturnNext(cursor.up_to(";", empty=True))
    if cursor.take("QUERY"):
        return ast.ReturnQuery(headers.query(cursor, ";"))
    return ast.Return(cursor.up_to(";", empty=True))


def _raise(cursor: Cursor) -> ast.Raise:
    cursor.need("RAISE")
    level = next((one for one in LEVELS if cursor.take(one)), "EXCEPTION")
    form: str | None = None
    state = ""
    arguments: list[str] = []
    if not cursor.done and cursor.tokens[cursor.place].kind == "string":
        form = cursor.string()
        while cursor.take(","):
            arguments.append(cursor.up_to(",", ";", "USING"))
    elif cursor.take("SQLSTATE"):
        state = cursor.string()
    elif not cursor.at(";") and not cursor.at("USING"):
        state = cursor.name()
    options: list[tuple[str, str]] = []
    if cursor.take("USING"):
        while True:
            name = cursor.name().upper()
            if not cursor.take("="):
                cursor.need(":=")
            options.append((name, cursor.up_to(",", ";")))
            if not cursor.take(","):
                break
    return ast.Raise(level, form, tuple(arguments), state, tuple(options))


def _into(cursor: Cursor) -> tuple[tuple[str, ...], bool]:
    strict = cursor.take("STRICT")
    return headers.targets(cursor), strict


def _execute(cursor: Cursor) -> ast.Sql:
    cursor.need("EXECUTE")
    text = cursor.up_to("USING", "INTO", ";")
    using: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    strict = False
    while not cursor.at(";"):
        if cursor.take("USING"):
            using = cursor.listed("INTO", ";")
        else:
            cursor.need("INTO")
            into, strict = _into(cursor)
    return ast.Sql(ast.Dynamic(text, using), into, strict)


def _sql(cursor: Cursor) -> ast.Sql:
    """A statement of SQL; what it says of INTO is taken out, which places of errors do not notice."""
    start, depth = cursor.place, 0
    defines = cursor.peek() == "CREATE"
    into: tuple[str, ...] = ()
    strict = False
    gone: tuple[int, int] | None = None
    while not cursor.done and (depth or not cursor.at(";")):
        word = cursor.peek()
        before = cursor.tokens[cursor.place - 1].upper if cursor.place > start else ""
        if (
            word == "INTO"
            and not depth
            and gone is None
            and before not in ("INSERT", "MERGE")
            and not defines
        ):
            first = cursor.tokens[cursor.place].start
            cursor.place += 1
            into, strict = _into(cursor)
            gone = first, cursor.tokens[cursor.place - 1].end
            continue
        depth += (word == "(") - (word == ")")
        cursor.place += 1
    text = cursor.since(start)
    if gone is not None:
        begin = cursor.tokens[start].start
        text = text[: gone[0] - begin] + " " * (gone[1] - gone[0]) + text[gone[1] - begin :]
    return ast.Sql(ast.Dynamic(text), into, strict)


def _diagnostics(cursor: Cursor) -> ast.Diagnostics:
    cursor.need("GET")
    stacked = cursor.take("STACKED")
    if not stacked:
        cursor.take("CURRENT")
    cursor.need("DIAGNOSTICS")
    items = []
    while True:
        target = headers.target(cursor)
        if not cursor.take("="):
            cursor.need(":=")
        items.append((target, cursor.name().upper()))
        if not cursor.take(","):
            return ast.Diagnostics(stacked, tuple(items))


def _cursor(cursor: Cursor) -> ast.OpenCursor | ast.FetchCursor | ast.CloseCursor:
    verb = cursor.peek()
    cursor.place += 1
    if verb == "CLOSE":
        return ast.CloseCursor(cursor.name())
    if verb == "OPEN":
        name = cursor.name()
        scroll = cursor.take("NO", "SCROLL") or cursor.take("SCROLL")
        if cursor.take("FOR") or scroll:
            if scroll:
                cursor.need("FOR")
            return ast.OpenCursor(name, headers.query(cursor, ";"))
        return ast.OpenCursor(name, None, arguments(cursor))
    start = cursor.place
    while not cursor.done and not cursor.at("INTO") and not cursor.at(";"):
        cursor.place += 1
    words = cursor.tokens[start : cursor.place]
    if not words:
        cursor.wrong("a cursor")
    direction = " ".join(word.upper for word in words[:-1] if word.upper not in ("FROM", "IN"))
    targets = headers.targets(cursor) if verb == "FETCH" and cursor.take("INTO") else ()
    return ast.FetchCursor(words[-1].name, direction, targets)


def arguments(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Arguments in parentheses, each with its name, "" without one."""
    found: list[tuple[str, str]] = []
    if cursor.take("("):
        while not cursor.take(")"):
            name = ""
            if cursor.peek(1) in (":=", "=>"):
                name = cursor.name()
                cursor.place += 1
            found.append((name, cursor.up_to(",", ")")))
            cursor.take(",")
    return tuple(found)
