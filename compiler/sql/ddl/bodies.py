"""DO and CALL."""

from kpg.compiler.sql import session as ast
from kpg.compiler.sql.blocks.parser import block_of
from kpg.compiler.sql.ddl.functions import text_of
from kpg.compiler.sql.ddl.reader import TEXTS, Reader
from kpg.compiler.sql.syntax import construct_name
from kpg.runtime.errors import NotSupportedError


def run(word: str, reader: Reader) -> ast.Do | ast.CallProcedure:
    """One of both."""
    reader.need(word)
    return _do(reader) if word == "DO" else _call(reader)


def _do(reader: Reader) -> ast.Do:
    body, language = "", "plpgsql"
    while not reader.done:
        if reader.take("LANGUAGE"):
            language = reader.name().lower()
        elif reader.tokens[reader.place].token_type in TEXTS:
            body = text_of(reader)
        else:
            reader.unexpected("a body in quotes")
    if language != "plpgsql":
        reader.skip(-1)
        reader.refuse(f"DO in {language}", "write it in plpgsql")
    if not body:
        reader.unexpected("a body in quotes")
    block_of(body)
    return ast.Do(body, reader.span)


def _call(reader: Reader) -> ast.CallProcedure:
    from sqlglot import exp

    node = reader.expression()
    reader.end()
    if not isinstance(node, exp.Func | exp.Dot):
        message = f"CALL of {construct_name(node)} is not supported"
        raise NotSupportedError(message, span=reader.span, hint="write CALL name(arguments)")
    return ast.CallProcedure(node, reader.span)
