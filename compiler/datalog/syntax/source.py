"""Texts and the places in them: what the parser reads is pieced together from files and macros."""

import re
from bisect import bisect_right
from dataclasses import field

from kpg.compiler.datalog.syntax.flowlog import is_flowlog
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

BYTE_ORDER_MARK = "\ufeff"
SKIPPED = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|/\*', re.DOTALL)
"""Strings and comments; a comment that does not end last."""


@dataclass(frozen=True, slots=True)
class File:
    """A text that the user wrote; ``name`` is empty if it is in no file."""

    name: str
    text: str

    def span(self, start: int, end: int) -> Span:
        """The stretch of it."""
        return Span(self.text, start, end, self.name)


@dataclass(frozen=True, slots=True)
class Piece:
    """From ``at`` on, the parser's text is ``file``'s from ``start`` on; of a macro, all is at
    ``start..end``.
    """

    at: int
    file: File
    start: int
    end: int
    is_macro: bool = False

    def place(self, offset: int, *, is_end: bool) -> int:
        """Where an offset in the parser's text lies in the file."""
        if self.is_macro:
            return self.end if is_end else self.start
        return min(self.start + offset - self.at, self.end)


@dataclass(slots=True)
class Source:
    """The text that the parser reads; its comments are blanks."""

    text: str
    pieces: list[Piece]
    _starts: list[int] = field(default_factory=list)

    def span(self, start: int, end: int) -> Span:
        """The user's text for a stretch of this one; of one that goes over files, the part in its first
        file.
        """
        if len(self.pieces) == 1:
            return self.pieces[0].file.span(start, end)
        if not self._starts:
            self._starts = [piece.at for piece in self.pieces]
        first = self.pieces[max(0, bisect_right(self._starts, start) - 1)]
        last = self.pieces[max(0, bisect_right(self._starts, max(start, end - 1)) - 1)]
        begin = first.place(start, is_end=False)
        finish = (last if last.file is first.file else first).place(end, is_end=True)
        return first.file.span(begin, max(begin, finish))


NO_COMMENT = re.compile(r"[ \t]*#[ \t]*(?:include|define|undef|if|elif|else|endif|error|warning|line|pragma)")
"""Begins a line that is the preprocessor's."""
MARKED = re.compile(r'\br(#+)".*?"\1|"(?:[^"\\\n]|\\.)*"|#')
"""Strings, raw ones with marks around them too, and what begins a comment."""


def blank_hash_comments(text: str) -> str:
    """The text with blanks for FlowLog's comments, from ``#`` to the end of a line."""
    return "".join(
        line if NO_COMMENT.match(line) else _without_comment(line) for line in text.splitlines(keepends=True)
    )


def _without_comment(line: str) -> str:
    start = next((found.start() for found in MARKED.finditer(line) if found[0] == "#"), None)
    return line if start is None else line[:start] + re.sub(r"[^\n]", " ", line[start:])


def blank_comments(text: str) -> tuple[str, int | None]:
    """The text with blanks for comments and a byte order mark, every other character where it was; the start
    of a comment that does not end.
    """
    unclosed: int | None = None

    def blank(found: re.Match[str]) -> str:
        nonlocal unclosed
        if found[0].startswith('"'):
            return found[0]
        if found[0] == "/*":
            unclosed = found.start() if unclosed is None else unclosed
        return re.sub(r"[^\n]", " ", found[0])

    if text.startswith(BYTE_ORDER_MARK):
        text = " " + text[1:]
    text = SKIPPED.sub(blank, text)
    if unclosed is not None:
        text = text[:unclosed] + re.sub(r"[^\n]", " ", text[unclosed:])
    return blank_hash_comments(text) if "#" in text and is_flowlog(text) else text, unclosed
