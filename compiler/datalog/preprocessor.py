"""The subset of the C preprocessor that Datalog programs use; it runs before parsing.

It handles ``#include``, ``.include``, ``.once``, ``#define`` with and without arguments (and
``##``), ``#undef``, ``#ifdef``, ``#ifndef``, ``#if``, ``#elif``, ``#else``, ``#endif``,
``#error``, ``#warning`` and ``#pragma once``. It ignores ``#line`` and other pragmas. ``#if``
takes integers, names, ``defined`` and C's operators. ``__FILE__`` and ``__LINE__`` are as in C.
``RAM_DOMAIN_SIZE`` is the number of bits of a number.

The result is a :class:`Source` of pieces of files and macros, which maps positions back to their
origin.
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
MAX_DIGITS: Final = 18
"""Maximum number of digits of a number."""


def _quotient(left: int, right: int) -> int:
    """The quotient, truncated toward zero as C does."""
    if right == 0:
        raise ValueError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """The remainder of the truncated quotient: it has the sign of the dividend."""
    return left - right * _quotient(left, right)


OPERATORS_BY_PRECEDENCE: Final[tuple[dict[str, Callable[[int, int], int]], ...]] = (
    {"||": lambda left, right: int(bool(left) or bool(right))},
    {"&&": lambda left, right: int(bool(left) and bool(right))},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": _remainder},
)
"""Binary operators by precedence, the lowest first."""


def expand_defined(text: str, names: Collection[str]) -> str:
    """Replace each ``defined(NAME)`` by 1 or 0."""
    return DEFINED.sub(lambda found: str(int((found[1] or found[2]) in names)), text)


def evaluate(text: str) -> int:
    """Return the value of a condition with expanded macros.

    Remaining names are 0.

    Raises ValueError if the text is not an expression.
    """
    tokens = _CONDITION_TOKEN.findall(text)
    value, rest = _evaluate_binary(tokens, 0, 0)
    if rest != len(tokens):
        raise ValueError(tokens[rest])
    return value


def _evaluate_binary(tokens: list[str], place: int, level: int, live: bool = True) -> tuple[int, int]:
    """Return the value of the operation at a position, and the position behind it."""
    if level == len(OPERATORS_BY_PRECEDENCE):
        return _evaluate_unary(tokens, place, live)
    value, place = _evaluate_binary(tokens, place, level + 1, live)
    while place < len(tokens) and tokens[place] in OPERATORS_BY_PRECEDENCE[level]:
        sign = tokens[place]
        decided = (sign == "&&" and not value) or (sign == "||" and bool(value))
        right, place = _evaluate_binary(tokens, place + 1, level + 1, live and not decided)
        value = int(OPERATORS_BY_PRECEDENCE[level][sign](value, right)) if live else 0
    return value, place


def _evaluate_unary(tokens: list[str], place: int, live: bool) -> tuple[int, int]:
    token = tokens[place] if place < len(tokens) else ""
    if token in ("!", "-", "+"):
        value, place = _evaluate_unary(tokens, place + 1, live)
        return {"!": int(not value), "-": -value, "+": value}[token], place
    if token == "(":
        value, place = _evaluate_binary(tokens, place + 1, 0, live)
        if place == len(tokens) or tokens[place] != ")":
            raise ValueError("a parenthesis is missing")
        return value, place + 1
    if token.isdecimal() and len(token) <= MAX_DIGITS:
        return int(token), place + 1
    if token.isidentifier():
        return 0, place + 1
    raise ValueError(token or "nothing")


_MACRO_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|[^"A-Za-z_]+|"')
DEFINITION = re.compile(r"([A-Za-z_]\w*)(\(([^)]*)\))?\s*(.*)", re.DOTALL)
MAX_CHARACTERS = 20_000_000
"""Maximum length of the text after includes and macros."""
MAX_EXPANSION = 100_000
"""Maximum characters of a macro's expansion.

Its length may double with each level of nested macros.
"""


STRINGIFICATION = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?<!#)#[ \t]*([A-Za-z_]\w*)')
"""Matches ``#name`` in a macro, which becomes the quoted argument.

It also matches strings, to skip them.
"""


class ExpansionTooLong(Exception):
    """An expansion is longer than ``MAX_EXPANSION``."""


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro.

    ``parameters`` is None if it takes no arguments.
    """

    name: str
    parameters: tuple[str, ...] | None
    body: str


def parse_macro(content: str) -> Macro | None:
    """Parse the text after ``#define``.

    Return None if it does not begin with a name.
    """
    found = DEFINITION.fullmatch(content)
    if found is None:
        return None
    parameters = None
    if found[2] is not None:
        parameters = tuple(part.strip() for part in found[3].split(",") if part.strip())
    return Macro(found[1], parameters, found[4].strip())


def mentions_macro(line: str, macros: Mapping[str, Macro]) -> bool:
    """Return whether the name of a macro occurs in the line."""
    return any(name in line for name in macros)


def expand(line: str, macros: Mapping[str, Macro]) -> Iterator[tuple[str, int, int]]:
    """Yield the expanded line in parts, with the bounds of each part's origin in the line."""
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
            arguments_and_end = _parse_arguments(line, end)
            if arguments_and_end is None:
                yield text, start, end
                continue
            arguments, end = arguments_and_end
            while position < len(tokens) and tokens[position][2] <= end:
                position += 1
        yield _expand_macro(macro, arguments, macros, frozenset()), start, end
        if position < len(tokens) and tokens[position][1] < end:
            yield line[end : tokens[position][2]], end, tokens[position][2]
            position += 1


def has_open_call(text: str, macros: Mapping[str, Macro]) -> bool:
    """Return whether the arguments of a macro call in the text do not end in it."""
    return any(
        macros[found[0]].parameters is not None
        and text[found.end() :].lstrip().startswith("(")
        and _parse_arguments(text, found.end()) is None
        for found in _MACRO_TOKEN.finditer(text)
        if found[0] in macros
    )


def _expand_macro(
    macro: Macro, arguments: tuple[str, ...], macros: Mapping[str, Macro], excluded: frozenset[str]
) -> str:
    excluded = excluded | {macro.name}
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    body = STRINGIFICATION.sub(lambda one: _stringify(one, values), macro.body)
    body = "".join(values.get(token, token) for token in _MACRO_TOKEN.findall(body))
    body = re.sub(r"\s*##\s*", "", body)
    visible = {name: other for name, other in macros.items() if name not in excluded}
    if not mentions_macro(body, visible):
        return body
    parts: list[str] = []
    size = 0
    for text, _, _ in _expand_nested(body, macros, excluded):
        size += len(text) + 1
        if size > MAX_EXPANSION:
            raise ExpansionTooLong(f"macro {macro.name} stands for more than {MAX_EXPANSION} characters")
        parts.append(text)
    return "".join(parts)


def _stringify(match_: re.Match[str], values: Mapping[str, str]) -> str:
    if match_[1] is None or match_[1] not in values:
        return match_[0]
    text = values[match_[1]].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _expand_nested(
    text: str, macros: Mapping[str, Macro], excluded: frozenset[str]
) -> Iterator[tuple[str, int, int]]:
    tokens = [(found[0], found.start(), found.end()) for found in _MACRO_TOKEN.finditer(text)]
    consumed = 0
    for token, start, end in tokens:
        if start < consumed:
            if end > consumed:
                yield text[consumed:end], consumed, end
                consumed = end
            continue
        macro = None if token in excluded else macros.get(token)
        arguments_and_end = (
            _parse_arguments(text, end) if macro is not None and macro.parameters is not None else ((), end)
        )
        if macro is None or arguments_and_end is None:
            yield token, start, end
            consumed = end
        else:
            arguments, consumed = arguments_and_end
            yield _expand_macro(macro, arguments, macros, excluded), start, consumed


def _parse_arguments(text: str, start: int) -> tuple[tuple[str, ...], int] | None:
    """Return the arguments in parentheses that begin at ``start``, and their end, or None."""
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
STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|/\*', re.DOTALL)
"""Matches strings and comments.

An unclosed comment is the last alternative.
"""


@dataclass(frozen=True, slots=True)
class File:
    """A text of the user.

    ``name`` is empty if it is not in a file.
    """

    name: str
    text: str

    def span(self, start: int, end: int) -> Span:
        """Return the span of a part of the text."""
        return Span(self.text, start, end, self.name)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the parser's text from offset ``at`` on, and its origin in ``file`` from ``start`` on.

    All text of a macro has the origin ``start..end``.
    """

    at: int
    file: File
    start: int
    end: int
    is_macro: bool = False

    def origin(self, offset: int, *, is_end: bool) -> int:
        """Return the position in the file for an offset in the parser's text."""
        if self.is_macro:
            return self.end if is_end else self.start
        return min(self.start + offset - self.at, self.end)


@dataclass(slots=True)
class Source:
    """The text that the parser reads.

    Comments are blanked.
    """

    text: str
    pieces: list[Piece]
    _starts: list[int] = field(default_factory=list)

    def span(self, start: int, end: int) -> Span:
        """Return the span in the user's text.

        A span over several files is cut to its first file.
        """
        if len(self.pieces) == 1:
            return self.pieces[0].file.span(start, end)
        if not self._starts:
            self._starts = [piece.at for piece in self.pieces]
        first = self.pieces[max(0, bisect_right(self._starts, start) - 1)]
        last = self.pieces[max(0, bisect_right(self._starts, max(start, end - 1)) - 1)]
        begin = first.origin(start, is_end=False)
        finish = (last if last.file is first.file else first).origin(end, is_end=True)
        return first.file.span(begin, max(begin, finish))


DIRECTIVE_LINE = re.compile(
    r"[ \t]*#[ \t]*(?:include|define|undef|if|elif|else|endif|error|warning|line|pragma)"
)
"""Matches the begin of a preprocessor line."""
STRING_OR_HASH = re.compile(r'\br(#+)".*?"\1|"(?:[^"\\\n]|\\.)*"|#')
"""Matches strings, raw strings, and the begin of a hash comment."""


def blank_hash_comments(text: str) -> str:
    """Blank FlowLog's comments, from ``#`` to the end of a line."""
    return "".join(
        line if DIRECTIVE_LINE.match(line) else _blank_comment(line)
        for line in text.splitlines(keepends=True)
    )


def _blank_comment(line: str) -> str:
    start = next((found.start() for found in STRING_OR_HASH.finditer(line) if found[0] == "#"), None)
    return line if start is None else line[:start] + re.sub(r"[^\n]", " ", line[start:])


def blank_comments(text: str) -> tuple[str, int | None]:
    """Blank comments and a byte order mark, and return the start of an unclosed comment.

    All other characters keep their position.
    """
    unclosed_start: int | None = None

    def blank(match_: re.Match[str]) -> str:
        nonlocal unclosed_start
        if match_[0].startswith('"'):
            return match_[0]
        if match_[0] == "/*":
            unclosed_start = match_.start() if unclosed_start is None else unclosed_start
        return re.sub(r"[^\n]", " ", match_[0])

    if text.startswith(BYTE_ORDER_MARK):
        text = " " + text[1:]
    text = STRING_OR_COMMENT.sub(blank, text)
    if unclosed_start is not None:
        text = text[:unclosed_start] + re.sub(r"[^\n]", " ", text[unclosed_start:])
    return blank_hash_comments(text) if "#" in text and is_flowlog(text) else text, unclosed_start


DIRECTIVE = re.compile(r"\s*#\s*(\w*)[ \t]*(.*)", re.DOTALL)
INCLUDE = re.compile(r'\s*\.include\s+(".*)', re.DOTALL)
LINE = re.compile(r"[^\n]*\n|[^\n]+")
CONTINUED = re.compile(r"\\\r?\n")
MAX_INCLUDE_DEPTH = 50
"""Maximum depth of nested includes."""
NEEDS_PREPROCESSING = re.compile(
    r"^\s*(#|\.include\b|\.once\b)|\b(__(FILE|LINE)__|RAM_DOMAIN_SIZE)\b", re.MULTILINE
)
SMALL_NUMBERS = re.compile(r'\.pragma\s+"number-size"\s+"32"')
MAX_ARGUMENT_LINES = 1000
"""Maximum number of lines over which a macro's arguments may extend."""

Read = Callable[[str], str]
"""Returns the text of a file by its path.

Raises OSError or UnicodeDecodeError if it cannot be read.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of the preprocessor: folders for includes, and macros."""

    folders: tuple[str, ...] = ()
    macros: tuple[tuple[str, str], ...] = ()


def preprocess(file: File, read: Read, diagnostics: Diagnostics, setting: Setting | None = None) -> Source:
    """Return the text for the parser.

    Faulty directives are reported and left out.
    """
    text, unclosed = blank_comments(file.text)
    if unclosed is not None:
        _report_unclosed(file, unclosed, diagnostics)
    setting = setting or Setting()
    if not NEEDS_PREPROCESSING.search(text) and not setting.macros:
        return Source(text, [Piece(0, file, 0, len(text))])
    state = _Preprocessor(read, diagnostics, setting.folders)
    bits = "32" if SMALL_NUMBERS.search(text) else "64"
    macros = (("RAM_DOMAIN_SIZE", bits), *setting.macros)
    state.macros = {name: Macro(name, None, body) for name, body in macros}
    state.add_file(file, 0)
    if not state.pieces:
        state.pieces.append(Piece(0, file, 0, len(file.text)))
    return Source("".join(state.output), state.pieces)


def _report_unclosed(file: File, start: int, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "syntax", "a comment does not end", file.span(start, start + 2), hint="comments end with */"
    )


@dataclass(slots=True)
class _Conditional:
    """An open conditional: whether its text is active, whether a branch was taken, and where it began."""

    is_active: bool
    was_taken: bool
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
    once_paths: set[str] = field(default_factory=set)
    is_full: bool = False

    def add_file(self, file: File, depth: int) -> None:
        text, unclosed = blank_comments(file.text)
        if unclosed is not None and depth:
            _report_unclosed(file, unclosed, self.diagnostics)
        branches: list[_Conditional] = []
        offset = 0
        lines = iter(_logical_lines(text))
        for line in lines:
            if _is_active(branches) and not line.lstrip().startswith("#"):
                line = self._join_argument_lines(line, lines)
            start, offset = offset, offset + len(line)
            self._add_line(file, line, start, depth, branches)
        for branch in branches:
            self.diagnostics.error("directive", "#endif is missing", branch.span)
        self._emit("\n", Piece(0, file, max(0, len(text) - 1), len(text), is_macro=True))

    def _add_line(self, file: File, line: str, start: int, depth: int, branches: list[_Conditional]) -> None:
        span = file.span(start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
        found = DIRECTIVE.match(line)
        if found is not None:
            content = CONTINUED.sub("  ", found[2]).strip()
            if not self._handle_conditional(found[1], content, span, branches) and _is_active(branches):
                self._handle_directive(found[1], content, span, file, depth)
        elif not _is_active(branches):
            return
        elif line.strip() == ".once":
            self._mark_once(file)
        elif (included := INCLUDE.match(line)) is not None:
            self._include(included[1].strip(), span, file, depth)
        else:
            self._add_text(file, line, start)

    def _join_argument_lines(self, line: str, lines: Iterator[str]) -> str:
        """Return the line, joined with the lines over which its macro arguments extend."""
        if not mentions_macro(line, self.macros):
            return line
        for _ in range(MAX_ARGUMENT_LINES):
            if not has_open_call(line, self.macros):
                break
            more = next(lines, "")
            line += more
            if not more:
                break
        return line

    def _macros_at(self, file: File, line: str, start: int) -> dict[str, Macro]:
        """Return the macros for a line, with ``__FILE__`` and ``__LINE__``."""
        known = dict(self.macros)
        if "__FILE__" in line:
            known["__FILE__"] = Macro("__FILE__", None, quote(file.name))
        if "__LINE__" in line:
            known["__LINE__"] = Macro("__LINE__", None, str(file.span(start, start).line))
        return known

    def _add_text(self, file: File, line: str, start: int) -> None:
        macros = self._macros_at(file, line, start)
        if not mentions_macro(line, macros):
            self._emit(line, Piece(0, file, start, start + len(line)))
            return
        try:
            for text, begin, end in expand(line, macros):
                exact = text == line[begin:end]
                self._emit(text, Piece(0, file, start + begin, start + end, is_macro=not exact))
        except ExpansionTooLong as error:
            self.diagnostics.error("directive", str(error), file.span(start, start + len(line.rstrip())))

    def _emit(self, text: str, piece: Piece) -> None:
        if not text or self.is_full:
            return
        if self.size + len(text) > MAX_CHARACTERS:
            self.is_full = True
            span = piece.file.span(piece.start, piece.end)
            self.diagnostics.error("directive", f"more than {MAX_CHARACTERS} characters of text", span)
            return
        self.pieces.append(Piece(self.size, piece.file, piece.start, piece.end, piece.is_macro))
        self.output.append(text)
        self.size += len(text)

    def _handle_conditional(self, name: str, content: str, span: Span, branches: list[_Conditional]) -> bool:
        match name:
            case "ifdef" | "ifndef" | "if":
                outer = _is_active(branches)
                holds = outer and self._evaluate_condition(name, content, span)
                branches.append(_Conditional(holds, holds or not outer, span))
            case "elif" | "else" if branches:
                branch = branches[-1]
                branch.is_active = not branch.was_taken and (
                    name == "else" or self._evaluate_condition("if", content, span)
                )
                branch.was_taken = branch.was_taken or branch.is_active
            case "endif" if branches:
                branches.pop()
            case "elif" | "else" | "endif":
                self.diagnostics.error("directive", f"#{name} without #if", span)
            case _:
                return False
        return True

    def _evaluate_condition(self, name: str, content: str, span: Span) -> bool:
        if name != "if":
            return (content in self.macros) == (name == "ifdef")
        try:
            known = expand_defined(content, self.macros)
            return evaluate("".join(text for text, _, _ in expand(known, self.macros))) != 0
        except (ValueError, ExpansionTooLong):
            hint = "#if takes numbers, names, defined(NAME) and the operators of C"
            message = f"#if {content} is not supported" if content else "#if without a condition"
            self.diagnostics.error("directive", message, span, hint=hint)
            return False

    def _handle_directive(self, name: str, content: str, span: Span, file: File, depth: int) -> None:
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
                self._mark_once(file)
            case "" | "line" | "pragma":
                return
            case _ if name.isdecimal():
                return  # A line marker of another preprocessor.
            case _:
                hint = "known: include define undef ifdef ifndef if elif else endif error warning"
                self.diagnostics.error("directive", f"#{name} is not supported", span, hint=hint)

    def _mark_once(self, file: File) -> None:
        self.once_paths.add(os.path.realpath(file.name))

    def _is_skipped(self, path: str) -> bool:
        """Return whether the file, by any path, must not be read again."""
        return bool(self.once_paths) and os.path.realpath(path) in self.once_paths

    def _include(self, content: str, span: Span, file: File, depth: int) -> None:
        found = re.fullmatch(r'"([^"]+)"|<([^>]+)>', content)
        if found is None:
            self.diagnostics.error("include", "include needs a file name in quotes", span)
            return
        if depth >= MAX_INCLUDE_DEPTH:
            self.diagnostics.error("include", f"files include each other {MAX_INCLUDE_DEPTH} deep", span)
            return
        name = found[1] or found[2]
        folders = (PurePath(file.name).parent, *map(PurePath, self.folders))
        path, text = self._read_first([str(folder / name) for folder in folders], span)
        if text is not None and not self._is_skipped(path):
            self.add_file(File(path, text), depth + 1)

    def _read_first(self, paths: list[str], span: Span) -> tuple[str, str | None]:
        """Return the first file that can be read, and its text.

        Report if there is none.
        """
        first: tuple[str, str] | None = None
        for path in paths:
            try:
                return path, "" if self._is_skipped(path) else self.read(path)
            except (OSError, UnicodeDecodeError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                first = first or (path, reason.lower())
        assert first is not None
        self.diagnostics.error("include", f'cannot read "{first[0]}": {first[1]}', span)
        return first[0], None


def _is_active(branches: list[_Conditional]) -> bool:
    return not branches or all(branch.is_active for branch in branches)


def _logical_lines(text: str) -> list[str]:
    """Return the lines with their ends.

    A backslash at the end of a directive's line continues it.
    """
    lines: list[str] = []
    for line in LINE.findall(text):
        previous = lines[-1] if lines else ""
        if previous.lstrip().startswith("#") and previous.endswith(("\\\n", "\\\r\n")):
            lines[-1] += line
        else:
            lines.append(line)
    return lines
