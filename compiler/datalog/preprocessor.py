"""The subset of the C preprocessor that Datalog programs use; it runs before parsing.

It handles ``#include``, ``.include``, ``.once``, ``#define`` with and without arguments (and ``##``),
``#undef``, ``#ifdef``, ``#ifndef``, ``#if``, ``#elif``, ``#else``, ``#endif``, ``#error``, ``#warning`` and
``#pragma once``. It ignores ``#line`` and other pragmas. ``#if`` takes integers, names, ``defined`` and C's
operators. ``__FILE__`` and ``__LINE__`` are as in C; ``RAM_DOMAIN_SIZE`` is the bits of a number.

The result is a :class:`Source` of pieces of files and macros, which maps positions back to where they came
from.
"""

import operator
import os.path
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from pathlib import PurePath
from typing import Final

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.flowlog.translation import is_flowlog
from kpg.runtime.errors import Span
from kpg.runtime.functions.datalog import quote
from kpg.runtime.records import dataclass

_CONDITION_TOKEN: Final = re.compile(r"\s*(\d+|\w+|\|\||&&|[=!<>]=|[-+*/%!<>()]|\S)")
DEFINED: Final = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
DIGITS: Final = 18
"""Of the largest number that may be written."""


def _quotient(left: int, right: int) -> int:
    """The quotient, truncated toward zero as C does."""
    if right == 0:
        raise ValueError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """The remainder of the truncated quotient: it has the sign of the dividend."""
    return left - right * _quotient(left, right)


LEVELS: Final[tuple[dict[str, Callable[[int, int], int]], ...]] = (
    {"||": lambda left, right: int(bool(left) or bool(right))},
    {"&&": lambda left, right: int(bool(left) and bool(right))},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": _remainder},
)
"""The binary operators, those that bind least first."""


def defined(text: str, names: Collection[str]) -> str:
    """The text with 1 or 0 for each question whether a name is defined."""
    return DEFINED.sub(lambda found: str(int((found[1] or found[2]) in names)), text)


def evaluate(text: str) -> int:
    """The value of an expression whose macros are expanded; a name that is left is 0.

    ValueError if it is none.
    """
    tokens = _CONDITION_TOKEN.findall(text)
    value, rest = _binary(tokens, 0, 0)
    if rest != len(tokens):
        raise ValueError(tokens[rest])
    return value


def _binary(tokens: list[str], place: int, level: int, live: bool = True) -> tuple[int, int]:
    """The value from a place on, and the place behind it.

    An operand that ``&&`` or ``||`` skips is parsed but not evaluated: ``live`` is false, its value is 0.
    """
    if level == len(LEVELS):
        return _unary(tokens, place, live)
    value, place = _binary(tokens, place, level + 1, live)
    while place < len(tokens) and tokens[place] in LEVELS[level]:
        sign = tokens[place]
        decided = (sign == "&&" and not value) or (sign == "||" and bool(value))
        right, place = _binary(tokens, place + 1, level + 1, live and not decided)
        value = int(LEVELS[level][sign](value, right)) if live else 0
    return value, place


def _unary(tokens: list[str], place: int, live: bool) -> tuple[int, int]:
    token = tokens[place] if place < len(tokens) else ""
    if token in ("!", "-", "+"):
        value, place = _unary(tokens, place + 1, live)
        return {"!": int(not value), "-": -value, "+": value}[token], place
    if token == "(":
        value, place = _binary(tokens, place + 1, 0, live)
        if place == len(tokens) or tokens[place] != ")":
            raise ValueError("a parenthesis is missing")
        return value, place + 1
    if token.isdecimal() and len(token) <= DIGITS:
        return int(token), place + 1
    if token.isidentifier():
        return 0, place + 1
    raise ValueError(token or "nothing")


_MACRO_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|[^"A-Za-z_]+|"')
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
    tokens = [(found[0], found.start(), found.end()) for found in _MACRO_TOKEN.finditer(line)]
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
        for found in _MACRO_TOKEN.finditer(text)
        if found[0] in macros
    )


def _expansion(
    macro: Macro, arguments: tuple[str, ...], macros: Mapping[str, Macro], hidden: frozenset[str]
) -> str:
    hidden = hidden | {macro.name}
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    body = AS_STRING.sub(lambda one: _string(one, values), macro.body)
    body = "".join(values.get(token, token) for token in _MACRO_TOKEN.findall(body))
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
    tokens = [(found[0], found.start(), found.end()) for found in _MACRO_TOKEN.finditer(text)]
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


DIRECTIVE = re.compile(r"\s*#\s*(\w*)[ \t]*(.*)", re.DOTALL)
INCLUDE = re.compile(r'\s*\.include\s+(".*)', re.DOTALL)
LINE = re.compile(r"[^\n]*\n|[^\n]+")
CONTINUED = re.compile(r"\\\r?\n")
DEEPEST = 50
"""Files that include each other: one that includes itself has no end."""
ANYTHING = re.compile(r"^\s*(#|\.include\b|\.once\b)|\b(__(FILE|LINE)__|RAM_DOMAIN_SIZE)\b", re.MULTILINE)
SMALL_NUMBERS = re.compile(r'\.pragma\s+"number-size"\s+"32"')
MOST_LINES = 1000
"""That the arguments of one macro may go over."""

Read = Callable[[str], str]
"""The text of a file by its path; OSError or UnicodeDecodeError if it cannot be had."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the caller gives besides the text: folders to look for files in, and macros."""

    folders: tuple[str, ...] = ()
    macros: tuple[tuple[str, str], ...] = ()


def preprocess(file: File, read: Read, diagnostics: Diagnostics, setting: Setting | None = None) -> Source:
    """The text for the parser; faults are noted, and what they are about is left out."""
    text, unclosed = blank_comments(file.text)
    if unclosed is not None:
        _unclosed(file, unclosed, diagnostics)
    setting = setting or Setting()
    if not ANYTHING.search(text) and not setting.macros:
        return Source(text, [Piece(0, file, 0, len(text))])
    state = _Preprocessor(read, diagnostics, setting.folders)
    bits = "32" if SMALL_NUMBERS.search(text) else "64"
    macros = (("RAM_DOMAIN_SIZE", bits), *setting.macros)
    state.macros = {name: Macro(name, None, body) for name, body in macros}
    state.file(file, 0)
    if not state.pieces:
        state.pieces.append(Piece(0, file, 0, len(file.text)))
    return Source("".join(state.output), state.pieces)


def _unclosed(file: File, start: int, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "syntax", "a comment does not end", file.span(start, start + 2), hint="comments end with */"
    )


@dataclass(slots=True)
class _Branch:
    """An open conditional: whether its text counts now, whether one of its branches did, where it began."""

    active: bool
    taken: bool
    span: Span


@dataclass(slots=True)
class _Preprocessor:
    read: Read
    diagnostics: Diagnostics
    folders: tuple[str, ...] = ()
    output: list[str] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    macros: dict[str, Macro] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)
    full: bool = False

    def file(self, file: File, depth: int) -> None:
        text, unclosed = blank_comments(file.text)
        if unclosed is not None and depth:
            _unclosed(file, unclosed, self.diagnostics)
        branches: list[_Branch] = []
        offset = 0
        lines = iter(_logical_lines(text))
        for line in lines:
            if _active(branches) and not line.lstrip().startswith("#"):
                line = self._whole(line, lines)
            start, offset = offset, offset + len(line)
            self._line(file, line, start, depth, branches)
        for branch in branches:
            self.diagnostics.error("directive", "#endif is missing", branch.span)
        self._emit("\n", Piece(0, file, max(0, len(text) - 1), len(text), is_macro=True))

    def _line(self, file: File, line: str, start: int, depth: int, branches: list[_Branch]) -> None:
        span = file.span(start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
        found = DIRECTIVE.match(line)
        if found is not None:
            content = CONTINUED.sub("  ", found[2]).strip()
            if not self._conditional(found[1], content, span, branches) and _active(branches):
                self._directive(found[1], content, span, file, depth)
        elif not _active(branches):
            return
        elif line.strip() == ".once":
            self._once(file)
        elif (included := INCLUDE.match(line)) is not None:
            self._include(included[1].strip(), span, file, depth)
        else:
            self._text(file, line, start)

    def _whole(self, line: str, lines: Iterator[str]) -> str:
        """The line with those after it that the arguments of its macros go on in."""
        if not mentions(line, self.macros):
            return line
        for _ in range(MOST_LINES):
            if not goes_on(line, self.macros):
                break
            more = next(lines, "")
            line += more
            if not more:
                break
        return line

    def _known(self, file: File, line: str, start: int) -> dict[str, Macro]:
        """The macros in a line, those of its place among them."""
        known = dict(self.macros)
        if "__FILE__" in line:
            known["__FILE__"] = Macro("__FILE__", None, quote(file.name))
        if "__LINE__" in line:
            known["__LINE__"] = Macro("__LINE__", None, str(file.span(start, start).line))
        return known

    def _text(self, file: File, line: str, start: int) -> None:
        macros = self._known(file, line, start)
        if not mentions(line, macros):
            self._emit(line, Piece(0, file, start, start + len(line)))
            return
        try:
            for text, begin, end in expand(line, macros):
                exact = text == line[begin:end]
                self._emit(text, Piece(0, file, start + begin, start + end, is_macro=not exact))
        except TooLong as error:
            self.diagnostics.error("directive", str(error), file.span(start, start + len(line.rstrip())))

    def _emit(self, text: str, piece: Piece) -> None:
        if not text or self.full:
            return
        if self.size + len(text) > MOST_CHARACTERS:
            self.full = True
            span = piece.file.span(piece.start, piece.end)
            self.diagnostics.error("directive", f"more than {MOST_CHARACTERS} characters of text", span)
            return
        self.pieces.append(Piece(self.size, piece.file, piece.start, piece.end, piece.is_macro))
        self.output.append(text)
        self.size += len(text)

    def _conditional(self, name: str, content: str, span: Span, branches: list[_Branch]) -> bool:
        match name:
            case "ifdef" | "ifndef" | "if":
                outer = _active(branches)
                holds = outer and self._condition(name, content, span)
                branches.append(_Branch(holds, holds or not outer, span))
            case "elif" | "else" if branches:
                branch = branches[-1]
                branch.active = not branch.taken and (name == "else" or self._condition("if", content, span))
                branch.taken = branch.taken or branch.active
            case "endif" if branches:
                branches.pop()
            case "elif" | "else" | "endif":
                self.diagnostics.error("directive", f"#{name} without #if", span)
            case _:
                return False
        return True

    def _condition(self, name: str, content: str, span: Span) -> bool:
        if name != "if":
            return (content in self.macros) == (name == "ifdef")
        try:
            known = defined(content, self.macros)
            return evaluate("".join(text for text, _, _ in expand(known, self.macros))) != 0
        except (ValueError, TooLong):
            hint = "#if takes numbers, names, defined(NAME) and the operators of C"
            message = f"#if {content} is not supported" if content else "#if without a condition"
            self.diagnostics.error("directive", message, span, hint=hint)
            return False

    def _directive(self, name: str, content: str, span: Span, file: File, depth: int) -> None:
        match name:
            case "include":
                self._include(content, span, file, depth)
            case "define":
                macro = parse_macro(content)
                if macro is None:
                    self.diagnostics.error("directive", "#define needs a name", span)
                else:
                    self.macros[macro.name] = macro
            case "undef":
                self.macros.pop(content, None)
            case "error":
                self.diagnostics.error("directive", content or "#error", span)
            case "warning":
                self.diagnostics.warning("directive", content or "#warning", span)
            case "pragma" if content == "once":
                self._once(file)
            case "" | "line" | "pragma":
                return
            case _ if name.isdecimal():
                return  # Where a preprocessor that ran before says a line came from.
            case _:
                hint = "known: include define undef ifdef ifndef if elif else endif error warning"
                self.diagnostics.error("directive", f"#{name} is not supported", span, hint=hint)

    def _once(self, file: File) -> None:
        self.once.add(os.path.realpath(file.name))

    def _is_done(self, path: str) -> bool:
        """Whether the file, by whatever path, is not to be read again."""
        return bool(self.once) and os.path.realpath(path) in self.once

    def _include(self, content: str, span: Span, file: File, depth: int) -> None:
        found = re.fullmatch(r'"([^"]+)"|<([^>]+)>', content)
        if found is None:
            self.diagnostics.error("include", "include needs a file name in quotes", span)
            return
        if depth >= DEEPEST:
            self.diagnostics.error("include", f"files include each other {DEEPEST} deep", span)
            return
        name = found[1] or found[2]
        folders = (PurePath(file.name).parent, *map(PurePath, self.folders))
        path, text = self._found([str(folder / name) for folder in folders], span)
        if text is not None and not self._is_done(path):
            self.file(File(path, text), depth + 1)

    def _found(self, paths: list[str], span: Span) -> tuple[str, str | None]:
        """The first of the files that can be read, and its text; noted if none can."""
        first: tuple[str, str] | None = None
        for path in paths:
            try:
                return path, "" if self._is_done(path) else self.read(path)
            except (OSError, UnicodeDecodeError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                first = first or (path, reason.lower())
        assert first is not None
        self.diagnostics.error("include", f'cannot read "{first[0]}": {first[1]}', span)
        return first[0], None


def _active(branches: list[_Branch]) -> bool:
    return not branches or all(branch.active for branch in branches)


def _logical_lines(text: str) -> list[str]:
    """The lines with their ends; a directive goes on after a backslash at its line's end."""
    lines: list[str] = []
    for line in LINE.findall(text):
        previous = lines[-1] if lines else ""
        if previous.lstrip().startswith("#") and previous.endswith(("\\\n", "\\\r\n")):
            lines[-1] += line
        else:
            lines.append(line)
    return lines
