"""Macros of the preprocessor: ``#define NAME text`` and ``#define NAME(a, b) text``."""

import re
from collections.abc import Iterator, Mapping

from kpg.runtime.records import dataclass

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|[^"A-Za-z_]+|"')
DEFINITION = re.compile(r"([A-Za-z_]\w*)(\(([^)]*)\))?\s*(.*)", re.DOTALL)
MOST_CHARACTERS = 20_000_000
"""The longest text that includes and macros may make."""
LONGEST_EXPANSION = 100_000
"""Characters that a macro may stand for: its length doubles with each level of macros in each other."""


AS_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?<!#)#[ \t]*([A-Za-z_]\w*)')
"""``#name`` in a macro: its argument in quotes; strings are gone over."""


class TooLong(Exception):
    """A macro stands for more text than is allowed."""


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro; ``parameters`` is None for one that takes no arguments."""

    name: str
    parameters: tuple[str, ...] | None
    body: str


def parse_macro(content: str) -> Macro | None:
    """What follows ``#define``; None if it begins with no name."""
    found = DEFINITION.fullmatch(content)
    if found is None:
        return None
    parameters = None
    if found[2] is not None:
        parameters = tuple(part.strip() for part in found[3].split(",") if part.strip())
    return Macro(found[1], parameters, found[4].strip())


def mentions(line: str, macros: Mapping[str, Macro]) -> bool:
    """Whether a name of a macro occurs in the line."""
    return any(name in line for name in macros)


def expand(line: str, macros: Mapping[str, Macro]) -> Iterator[tuple[str, int, int]]:
    """The line in parts, each with the stretch of the line that it comes from."""
    tokens = [(found[0], found.start(), found.end()) for found in TOKEN.finditer(line)]
    position = 0
    while position < len(tokens):
        text, start, end = tokens[position]
        macro = macros.get(text)
        position += 1
        if macro is None:
            yield text, start, end
            continue
        arguments: tuple[str, ...] = ()
        if macro.parameters is not None:
            called = _arguments(line, end)
            if called is None:
                yield text, start, end
                continue
            arguments, end = called
            while position < len(tokens) and tokens[position][2] <= end:
                position += 1
        yield _expansion(macro, arguments, macros, frozenset()), start, end
        if position < len(tokens) and tokens[position][1] < end:
            yield line[end : tokens[position][2]], end, tokens[position][2]
            position += 1


def goes_on(text: str, macros: Mapping[str, Macro]) -> bool:
    """Whether the arguments of a macro in the text do not end in it."""
    return any(
        macros[found[0]].parameters is not None
        and text[found.end() :].lstrip().startswith("(")
        and _arguments(text, found.end()) is None
        for found in TOKEN.finditer(text)
        if found[0] in macros
    )


def _expansion(
    macro: Macro, arguments: tuple[str, ...], macros: Mapping[str, Macro], hidden: frozenset[str]
) -> str:
    hidden = hidden | {macro.name}
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    body = AS_STRING.sub(lambda one: _string(one, values), macro.body)
    body = "".join(values.get(token, token) for token in TOKEN.findall(body))
    body = re.sub(r"\s*##\s*", "", body)
    visible = {name: other for name, other in macros.items() if name not in hidden}
    if not mentions(body, visible):
        return body
    parts: list[str] = []
    size = 0
    for text, _, _ in _expand_hidden(body, macros, hidden):
        size += len(text) + 1
        if size > LONGEST_EXPANSION:
            raise TooLong(f"macro {macro.name} stands for more than {LONGEST_EXPANSION} characters")
        parts.append(text)
    return "".join(parts)


def _string(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found[1] is None or found[1] not in values:
        return found[0]
    text = values[found[1]].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _expand_hidden(
    text: str, macros: Mapping[str, Macro], hidden: frozenset[str]
) -> Iterator[tuple[str, int, int]]:
    tokens = [(found[0], found.start(), found.end()) for found in TOKEN.finditer(text)]
    past = 0
    for token, start, end in tokens:
        if start < past:
            if end > past:
                yield text[past:end], past, end
                past = end
            continue
        macro = None if token in hidden else macros.get(token)
        called = _arguments(text, end) if macro is not None and macro.parameters is not None else ((), end)
        if macro is None or called is None:
            yield token, start, end
            past = end
        else:
            arguments, past = called
            yield _expansion(macro, arguments, macros, hidden), start, past


def _arguments(text: str, start: int) -> tuple[tuple[str, ...], int] | None:
    """The arguments in parentheses from ``start`` on, and where they end; None if there are none."""
    opening = re.compile(r"\s*\(").match(text, start)
    if opening is None:
        return None
    depth, parts, current = 1, [], opening.end()
    for found in re.compile(r'"(?:[^"\\\n]|\\.)*"|[()\[\]{},]').finditer(text, opening.end()):
        mark = found[0]
        if mark == "," and depth == 1:
            parts.append(text[current : found.start()].strip())
            current = found.end()
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth == 0:
                parts.append(text[current : found.start()].strip())
                return tuple(parts), found.end()
    return None
