"""The part of the C preprocessor that Datalog programs use, before parsing.

``#include`` and ``.include``, ``.once``, ``#define`` with and without arguments (``##`` too), ``#undef``,
``#ifdef``, ``#ifndef``, ``#if``, ``#elif``, ``#else``, ``#endif``, ``#error``, ``#warning``, and
``#pragma once``; ``#line`` and other pragmas are passed over. ``__FILE__`` and ``__LINE__`` are what they
are in C, ``RAM_DOMAIN_SIZE`` is the bits of a number.
"""

import os.path
import re
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import PurePath

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.conditions import defined, evaluate
from kpg.compiler.datalog.syntax.macros import (
    MOST_CHARACTERS,
    Macro,
    TooLong,
    expand,
    goes_on,
    mentions,
    parse_macro,
)
from kpg.compiler.datalog.syntax.source import File, Piece, Source, blank_comments
from kpg.runtime.errors import Span
from kpg.runtime.functions.datalog import quote
from kpg.runtime.records import dataclass

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
