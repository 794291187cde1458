"""Datalog text to the tree of ``ast``, by lark's LALR parser; every syntax error is noted.

After an error the statement it is in is blanked and the text parsed again.
"""

import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.build import Builder
from kpg.compiler.datalog.syntax.source import Source

MOST_ERRORS = 20
"""Statements with errors that are left out before a text is given up: each costs one more parse of it."""
BOUNDARY = re.compile(
    r'"(?:[^"\\]|\\(?:.|\n))*"|(?P<end>\.(?=\s|$|[^\w."]))|(?P<directive>\.(?:decl|type|number_type|symbol_type|input|output|printsize|'
    r"limitsize|comp|init|override|pragma|query|functor|lattice|extern|iterative)\b)|(?P<open>\{)|(?P<close>\})"
)
STRING = r'"(?:[^"\\]|\\.)*"'
BRACKET = re.compile(rf"{STRING}|[(\[{{}}\])]", re.DOTALL)
LINES = re.compile(STRING, re.DOTALL)
SQL = re.compile(r"\s*(?:select|insert\s+into|create|with|update|delete\s+from|drop)\s+[\w*]", re.IGNORECASE)
CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
SPELLING = {
    "IDENT": "a name",
    "QUALIFIED": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "$END": "the end of the text",
}


@lru_cache(maxsize=1)
def _grammar() -> str:
    return (files("kpg.grammars") / "datalog.lark").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_grammar(), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(source: Source, diagnostics: Diagnostics, *, takes_tuples: bool = False) -> ast.Module:
    """The statements of the text that have no syntax error; ``takes_tuples``: ``(1, 2)`` is a value."""
    text = source.text
    for _ in range(MOST_ERRORS):
        try:
            tree = _parser().parse(text)
        except UnexpectedInput as error:
            if _is_at_end(error) and (place := _unclosed(text)) is not None:
                message = f'"{text[place]}" is not closed'
                diagnostics.error("syntax", message, source.span(place, place + 1))
                return ast.Module(())
            start, end = _note(error, text, source, diagnostics)
            begin, finish = _statement(text, start, end)
            text = text[:begin] + re.sub(r"[^\n]", " ", text[begin:finish]) + text[finish:]
        else:
            return Builder(source, diagnostics, takes_tuples=takes_tuples).program(tree)
    return ast.Module(())


def _is_at_end(error: UnexpectedInput) -> bool:
    match error:
        case UnexpectedToken(token=Token(type="$END")) | UnexpectedEOF():
            return True
        case _:
            return False


def _unclosed(text: str) -> int | None:
    """The place of the first bracket, of those around the end of the text."""
    places: list[int] = []
    for found in BRACKET.finditer(text):
        if found[0] in CLOSED_BY:
            places.append(found.start())
        elif places and found[0] == CLOSED_BY[text[places[-1]]]:
            places.pop()
    return places[0] if places else None


def _note(error: UnexpectedInput, text: str, source: Source, diagnostics: Diagnostics) -> tuple[int, int]:
    """Notes the error; gives its place in the parser's text."""
    match error:
        case UnexpectedToken(token=Token(type="$END")) | UnexpectedEOF():
            start = max(0, len(text.rstrip()) - 1)
            end = start + 1
            message = "syntax error at the end of the text"
        case UnexpectedToken(token=token) if token.startswith(".") and "_DOT" in (error.accepts or ()):
            start, end = int(token.start_pos or 0), int(token.end_pos or 0)
            message = f'a "." is missing before "{token}"'
            diagnostics.error("syntax", message, source.span(start, end))
            return start - 1, start
        case UnexpectedToken(token=token):
            start, end = int(token.start_pos or 0), int(token.end_pos or 0)
            message = f'syntax error at "{token}"'
        case UnexpectedCharacters():
            start = int(error.pos_in_stream or 0)
            end = start + 1
            message = f'syntax error at "{text[start]}"'
            if text[start] == '"':
                message = "a string does not end"
        case _:
            raise error
    unended = _goes_on(text, start)
    if unended is not None:
        diagnostics.error("syntax", "a string does not end in its line", source.span(unended, unended + 1))
        return unended, unended + 1
    hint = "this is SQL: db.query and db.sql take it" if SQL.match(text) else _expected(error)
    if hint is None and start == len(text.rstrip()) - 1 and "_DOT" in (getattr(error, "accepts", None) or ()):
        hint = 'perhaps a "." is missing'
    diagnostics.error("syntax", message, source.span(start, end), hint=hint)
    return start, end


def _goes_on(text: str, place: int) -> int | None:
    """Where a string began that ends, lines later, in that of a fault, of which it may be the cause."""
    line = text.rfind("\n", 0, place) + 1
    for found in LINES.finditer(text):
        if found.start() > place:
            return None
        if found.end() > line and "\n" in found[0]:
            return found.start()
    return None


def _expected(error: UnexpectedInput) -> str | None:
    """A hint that names what may stand there, if that is few things."""
    names: Any = getattr(error, "accepts", None) or getattr(error, "expected", None)
    names = names or getattr(error, "allowed", None) or ()
    found = {_spelling(name) for name in names}
    shown = sorted(found - {'";"'} if '":-"' in found else found)  # between heads only FlowLog has it
    if not shown or len(shown) > 8:
        return None
    return f"expected {' or '.join(shown)}"


def _spelling(name: str) -> str:
    if name in SPELLING:
        return SPELLING[name]
    pattern = next((terminal.pattern for terminal in _parser().terminals if terminal.name == name), None)
    if pattern is None:
        return name.lower()
    words: dict[str, str] = {
        "LOGICAL_OR": "an operator",
        "LOGICAL_XOR": "an operator",
        "LOGICAL_AND": "an operator",
        "OR": "an operator",
        "XOR": "an operator",
        "AND": "an operator",
        "SHIFT": "an operator",
        "TIMES": "an operator",
        "CAT": "an operator",
        "_DOT": '"."',
    }
    if name in words or pattern.type == "re":
        return words.get(name, name.lower().replace("_", " "))
    return f'"{pattern.value}"'


def _statement(text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch to blank: the statement around an error, of a component only what is wrong in it."""
    begin, depth = 0, 0
    for found in BOUNDARY.finditer(text):
        if found.lastgroup is None:
            continue
        opens_component = found.lastgroup == "open" and _opens_component(text, found.start())
        if found.start() >= max(start, begin) and found.start() >= end - 1:
            if found.lastgroup == "end" and depth == 0:
                return begin, found.end()
            if found.lastgroup == "directive" and found.start() > start:
                return begin, found.start()
        if found.lastgroup == "open":
            depth += 0 if opens_component else 1
        elif found.lastgroup == "close" and depth:
            depth -= 1
            continue
        if found.start() < start and (found.lastgroup in ("end", "close") or opens_component):
            begin, depth = found.end(), 0
        elif found.start() <= start and found.lastgroup == "directive":
            begin, depth = found.start(), 0
    return begin, len(text)


def _opens_component(text: str, brace: int) -> bool:
    header = text.rfind(".comp", 0, brace)
    return header >= 0 and not re.search(r"[{}]", text[header:brace])
