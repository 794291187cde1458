"""Lines behind COPY ... FROM STDIN in a script, as dumps have them: a backslash and a dot end them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.sql import statements as ast

COPY: Final = re.compile(
    r"^[ \t]*copy\s[^;']*?\sfrom\s+stdin\b(?:[^;']|'[^']*')*;[^\n]*\n", re.IGNORECASE | re.MULTILINE
)
END: Final = re.compile(r"^\\\.[ \t\r]*$", re.MULTILINE)


def without_data(text: str) -> tuple[str, list[str]]:
    """The script with blanks in the place of such lines, so that places stay what they are; and the lines."""
    if "stdin" not in text.lower():
        return text, []
    blocks: list[str] = []
    parts: list[str] = []
    place = 0
    for found in COPY.finditer(text):
        if found.start() < place:
            continue
        end = END.search(text, found.end())
        if end is None:
            continue
        data = text[found.end() : end.start()]
        blocks.append(data)
        parts += [text[place : found.end()], re.sub(r"[^\n]", " ", text[found.end() : end.end()])]
        place = end.end()
    return "".join((*parts, text[place:])), blocks


def with_data(statements: Sequence[ast.Statement], blocks: Sequence[str]) -> list[ast.Statement]:
    """The statements with their lines."""
    rest = list(blocks)
    found: list[ast.Statement] = []
    for statement in statements:
        if isinstance(statement, ast.CopyFrom) and not statement.path and rest:
            statement = replace(statement, text=rest.pop(0))
        found.append(statement)
    return found
