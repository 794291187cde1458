"""Diagnostics collected by a check, and their JSON form.

Editors and tests match codes rather than messages. Errors: ``syntax include directive unsupported
redefinition undefined arity type structure functor fact underscore ungrounded witness stratification
aggregation component inline plan``. Warnings: ``unused-variable no-rules deprecated``.
"""

from dataclasses import field
from typing import Any

from kpg.runtime.errors import DatalogError, Diagnostic, Span
from kpg.runtime.records import dataclass


@dataclass(slots=True)
class Diagnostics:
    """Faults in the order in which they were found; the same one at the same place counts once."""

    found: list[Diagnostic] = field(default_factory=list)
    errors: int = 0
    """How often an error was noted, repetitions included."""

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        hint: str | None = None,
        notes: tuple[tuple[str, Span | None], ...] = (),
    ) -> None:
        """Note an error."""
        self.errors += 1
        self._add(Diagnostic(code, message, span, hint, notes))

    def warning(self, code: str, message: str, span: Span | None, *, hint: str | None = None) -> None:
        """Note a warning."""
        self._add(Diagnostic(code, message, span, hint, severity="warning"))

    def _add(self, diagnostic: Diagnostic) -> None:
        if diagnostic not in self.found:
            self.found.append(diagnostic)

    @property
    def failed(self) -> bool:
        """Whether there is an error among them."""
        return any(one.severity == "error" for one in self.found)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """All of them, by file and place."""

        def place(one: Diagnostic) -> tuple[str, int, str]:
            file, start = (one.span.file, one.span.start) if one.span is not None else ("", -1)
            return file, start, one.severity

        return tuple(sorted(self.found, key=place))

    def raise_errors(self) -> None:
        """Raise DatalogError if there is an error."""
        if self.failed:
            raise DatalogError(self.sorted())


def plural(number: int, noun: str) -> str:
    """The number with the noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def given(number: int) -> str:
    """How many there are instead."""
    return f"{number} {'is' if number == 1 else 'are'} given"


def to_json(diagnostics: tuple[Diagnostic, ...]) -> list[dict[str, Any]]:
    """The diagnostics as JSON objects: lines and columns count from 1, offsets from 0."""
    return [
        {
            "severity": one.severity,
            "code": one.code,
            "message": one.message,
            "hint": one.hint,
            **_place(one.span),
            "notes": [{"message": text, **_place(span)} for text, span in one.notes],
        }
        for one in diagnostics
    ]


def _place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"file": None, "line": None, "column": None, "start": None, "end": None}
    return {
        "file": span.file or None,
        "line": span.line,
        "column": span.column,
        "start": span.start,
        "end": span.end,
    }
