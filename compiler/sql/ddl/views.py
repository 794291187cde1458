"""CREATE VIEW."""

from sqlglot import exp

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl import storage
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.errors import ProgrammingError, Span


def create_view(reader: Reader, words: set[str]) -> ast.CreateView:
    """What follows CREATE VIEW; ``words`` stand between."""
    exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.relation()
    columns = reader.names() if reader.at("(") else ()
    if reader.take("USING"):
        storage.access_method(reader)
    kept = "MATERIALIZED" in words
    known = storage.TABLE if kept else storage.VIEW
    options = storage.parameters(reader, known, toast=kept) if reader.take("WITH") else {}
    check = options.get("CHECK_OPTION", "")
    if reader.take("TABLESPACE"):
        storage.tablespace(reader)
    if reader.done:
        raise ProgrammingError(f"CREATE VIEW {name} needs AS and a query", span=reader.span)
    reader.need("AS")
    texts = [token.text.upper() for token in reader.tokens]
    stop = None
    if texts[-2:] == ["CHECK", "OPTION"] and "WITH" in texts[-4:]:
        stop = len(texts) - 1 - texts[::-1].index("WITH")
        check = texts[stop + 1] if texts[stop + 1] in ("LOCAL", "CASCADED") else "CASCADED"
    if texts[-3:] == ["WITH", "NO", "DATA"]:  # as dumps write it: it is up to date all the same
        stop = len(texts) - 3
    if texts[-2:] == ["WITH", "DATA"]:
        stop = len(texts) - 2
    tree, span = reader.query(stop)
    if "RECURSIVE" in words:
        if not columns:
            raise ProgrammingError(f"CREATE RECURSIVE VIEW {name} needs a list of columns", span=reader.span)
        tree, span = _recursive(name.rpartition(".")[2], columns, span)
    return ast.CreateView(
        name,
        columns,
        ast.Select(tree, span),
        kept,
        "REPLACE" in words,
        exists,
        reader.span,
        bool(words & {"TEMP", "TEMPORARY"}),
        check,
        not kept and is_on(options.get("SECURITY_INVOKER", "OFF")),
    )


def is_on(value: str) -> bool:
    """Whether the value of an option says yes."""
    return value in ("ON", "TRUE", "YES", "1", "T", "Y")


def _recursive(name: str, columns: tuple[str, ...], query: Span) -> tuple[exp.Expr, Span]:
    """The query of a recursive view, which is named by itself."""
    named, listed = _quoted(name), ", ".join(map(_quoted, columns))
    inner = query.source[query.start : query.end]
    text = f"WITH RECURSIVE {named} ({listed}) AS ({inner}) SELECT {listed} FROM {named}"
    return Reader(tokenize(text), text).query()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
