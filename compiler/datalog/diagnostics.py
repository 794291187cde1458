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
    """Distinct diagnostics, in the order in which they were reported."""

    entries: list[Diagnostic] = field(default_factory=list)
    error_count: int = 0
    """Number of reported errors, repetitions included."""

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        hint: str | None = None,
        notes: tuple[tuple[str, Span | None], ...] = (),
    ) -> None:
        """Report an error."""
        self.error_count += 1
        self._add(Diagnostic(code, message, span, hint, notes))

    def warning(self, code: str, message: str, span: Span | None, *, hint: str | None = None) -> None:
        """Report a warning."""
        self._add(Diagnostic(code, message, span, hint, severity="warning"))

    def _add(self, diagnostic: Diagnostic) -> None:
        if diagnostic not in self.entries:
            self.entries.append(diagnostic)

    @property
    def has_errors(self) -> bool:
        """Whether there is an error."""
        return any(diagnostic.severity == "error" for diagnostic in self.entries)

    def in_text_order(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics, sorted by file and position."""

        def position(diagnostic: Diagnostic) -> tuple[str, int, str]:
            file, start = (
                (diagnostic.span.file, diagnostic.span.start) if diagnostic.span is not None else ("", -1)
            )
            return file, start, diagnostic.severity

        return tuple(sorted(self.entries, key=position))

    def raise_errors(self) -> None:
        """Raise DatalogError if there is an error."""
        if self.has_errors:
            raise DatalogError(self.in_text_order())


def plural(number: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_text(number: int) -> str:
    """Return a phrase such as "2 are given"."""
    return f"{number} {'is' if number == 1 else 'are'} given"


def to_json(diagnostics: tuple[Diagnostic, ...]) -> list[dict[str, Any]]:
    """Return the diagnostics as JSON objects.

    Lines and columns count from 1, offsets from 0.
    """
    return [
        {
            "severity": diagnostic.severity,
            "code": diagnostic.code,
            "message": diagnostic.message,
            "hint": diagnostic.hint,
            **_place(diagnostic.span),
            "notes": [{"message": text, **_place(span)} for text, span in diagnostic.notes],
        }
        for diagnostic in diagnostics
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
