"""The words of PL/pgSQL, each with its place in the body."""

import re
from typing import Final

from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.records import dataclass

FORMS: Final = re.compile(
    r"""(?P<gone>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>[eE]'(?:[^'\\]|''|\\.)*'|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    |(?P<word>[^\W\d][\w$]*|\$\d+)
    |(?P<sign>:=|::|\.\.|<<|>>|=>|<>|<=|>=|!=|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word as written; ``upper`` is it in capitals if it is neither quoted nor a string."""

    text: str
    upper: str
    start: int
    end: int
    kind: str

    @property
    def name(self) -> str:
        """What it names."""
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text.lower()


def tokens_of(text: str) -> list[Token]:
    """The words of a body, without comments."""
    found = []
    place = 0
    while place < len(text):
        match = FORMS.match(text, place)
        if match is None:
            raise ProgrammingError("syntax error", span=Span(text, place, place + 1))
        place = match.end()
        kind = match.lastgroup or ""
        kind = "string" if match["string"] is not None else kind
        if kind != "gone":
            word = match[0]
            upper = word.upper() if kind in ("word", "sign", "number") else ""
            found.append(Token(word, upper, match.start(), match.end(), kind))
    return found
