"""Row constraints: CHECKs, generated columns and foreign keys, applied as the rows of a table change."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Check
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.execute.changes.foreign_keys import References
from kpg.runtime.convert.python_values import show_plain, show_word
from kpg.runtime.errors import DataError, IntegrityError, Violation
from kpg.runtime.executor import Executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import LoadRules
from kpg.runtime.plan import Mfp
from kpg.runtime.types import ERROR

if TYPE_CHECKING:
    from kpg.compiler.sql.rewrite import column_expressions
    from kpg.execute.changes import expression_keys as unique_expressions
    from kpg.execute.changes.expression_keys import ExpressionKey
else:
    column_expressions = LazyModule("kpg.compiler.sql.rewrite.column_expressions")
    unique_expressions = LazyModule("kpg.execute.changes.expression_keys")

Words = NDArray[np.int64]


class ConstraintGuard:
    """Applies the constraints of one table to every change of its rows."""

    def __init__(
        self, executor: Executor, entry: TableEntry, catalog: Catalog, references: References | None
    ) -> None:
        """Make the guard of a table. Without ``references`` it has no foreign keys and none refer to it."""
        self._executor = executor
        self._entry = entry
        self._catalog = catalog
        self._references = references
        self.expression_keys: Sequence[ExpressionKey] = ()

    @cached_property
    def _generated_columns(self) -> Mfp | None:
        return column_expressions.bind_generated_columns(self._entry, self._catalog)

    @cached_property
    def _checks(self) -> Mfp | None:
        return column_expressions.bind_checks(self._entry, self._catalog)

    def insert(self, words: Words) -> Words:
        """Append checked rows and return their rowids."""
        rowids = self._executor.tables.insert(self._entry.name, words)
        for key in self.expression_keys:
            key.insert_keys(words)
        if self._references is not None:
            self._references.record_insert(self._entry.name, rowids, words)
        return rowids

    @property
    def rules(self) -> LoadRules | None:
        """The rules that workers can check; None if the table needs more."""
        if self._generated_columns is not None or self.expression_keys:
            return None
        return LoadRules(self._checks, self.check)

    def record_load(self, rowids: tuple[int, int]) -> None:
        """Record rows that were loaded into the workers, which have checked ``rules``."""
        if self._references is not None:
            self._references.record_load(self._entry.name, rowids)

    def delete(self, rowids: Words) -> None:
        """Delete live rows."""
        if self._references is None and not self.expression_keys:
            self._executor.tables.delete(self._entry.name, rowids)
            return
        old = self._executor.tables.fetch(self._entry.name, rowids)
        self._executor.tables.delete(self._entry.name, rowids)
        for key in self.expression_keys:
            key.delete_keys(old)
        if self._references is not None:
            self._references.record_delete(self._entry.name, old)

    def update(self, rowids: Words, words: Words) -> Words:
        """Replace completed rows and return the new rowids, in the same order."""
        self.check(words)
        name = self._entry.name
        old = self._executor.tables.fetch(name, rowids)
        self._executor.tables.delete(name, rowids)
        new = self._executor.tables.insert(name, words)
        for key in self.expression_keys:
            key.delete_keys(old)
            key.insert_keys(words)
        if self._references is not None:
            self._references.record_update(name, old, words, new)
        return new

    def check(self, words: Words) -> Words:
        """Return rows that satisfy all CHECKs; IntegrityError if one does not."""
        if self._checks is not None and words.shape[1]:
            self._check_rows(np.ascontiguousarray(words))
        return words

    def complete(self, words: Words) -> Words:
        """Return rows with their generated columns."""
        words = np.ascontiguousarray(words)
        if self._generated_columns is not None and words.shape[1]:
            words, _ = self._executor.evaluate(self._generated_columns, words)
            words = np.ascontiguousarray(words)
            self._check_errors(words)
        return words

    def _check_errors(self, words: Words) -> None:
        bad = (words == ERROR).any(axis=1)
        if bad.any():
            column = self._entry.schema.names[int(np.argmax(bad))]
            raise DataError(f"the value for column {column} of table {self._entry.name} failed to compute")

    def _check_rows(self, words: Words) -> None:
        assert self._checks is not None
        results, _ = self._executor.evaluate(self._checks, words)
        for check, result in zip(self._entry.constraints.checks, results, strict=True):
            bad = np.flatnonzero((result == 0) | (result == ERROR))
            if bad.size:
                pairs = list(zip(words[:, bad[0]].tolist(), self._entry.schema.types, strict=True))
                row, plain_row = (
                    ", ".join(show(word, type_, self._executor.dictionary) for word, type_ in pairs)
                    for show in (show_word, show_plain)
                )
                if self._is_partition_bound(check):
                    raise _partition_error(self._entry.name, plain_row)
                message = (
                    f'new row for relation "{self._entry.name.rpartition(".")[2]}" '
                    f'violates check constraint "{check.name}"'
                )
                detail = f"Failing row contains ({plain_row})."
                raise IntegrityError(
                    f"row ({row}) of table {self._entry.name} fails CHECK {check.name}: {check.text}",
                    hint="nothing was changed",
                ).of_constraint(Violation("23514", message, detail, self._entry.name, check.name))

    def _is_partition_bound(self, check: Check) -> bool:
        """Whether a check is the bound of a partition."""
        return check.name.endswith("_partition") and self._entry.name.lower() in self._catalog.partitions


def _partition_error(name: str, row: str) -> IntegrityError:
    message = f'new row for relation "{name.rpartition(".")[2]}" violates partition constraint'
    error = IntegrityError(message, hint="nothing was changed").with_detail(f"Failing row contains ({row}).")
    error.sqlstate = "23514"
    return error


def make_guards(
    executor: Executor, catalog: Catalog, references: References
) -> dict[str, ConstraintGuard | None]:
    """Return the guards of all tables, None for those without constraints."""
    indexed = {table for table, _ in catalog.unique_indexes}
    found: dict[str, ConstraintGuard | None] = {}
    for entry in catalog:
        if not isinstance(entry, TableEntry):
            continue
        referring = references if references.has_foreign_keys(entry.name) else None
        special = entry.name.lower() in indexed
        needed = referring is not None or special or entry.constraints.has_row_checks
        guard = ConstraintGuard(executor, entry, catalog, referring) if needed else None
        if guard is not None and special:
            guard.expression_keys = unique_expressions.expression_keys(executor, entry, catalog)
        found[entry.name] = guard
    return found
