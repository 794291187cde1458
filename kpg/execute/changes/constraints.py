"""Row constraints: CHECKs, generated columns and foreign keys, applied as the rows of a table change."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Check
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.execute.changes.foreign_keys import References
from kpg.runtime.convert.python_values import show
from kpg.runtime.errors import DataError, IntegrityError
from kpg.runtime.executor import Executor
from kpg.runtime.handles import Rules
from kpg.runtime.plan import Mfp
from kpg.runtime.types import ERROR

if TYPE_CHECKING:
    from kpg.execute.changes.expression_keys import ExpressionKey

Words = NDArray[np.int64]


class Guard:
    """The rules of one table. Whatever changes its rows goes through here."""

    def __init__(
        self, executor: Executor, entry: TableEntry, catalog: Catalog, references: References | None
    ) -> None:
        """Without ``references`` the table neither has foreign keys nor is referred to."""
        self._executor = executor
        self._entry = entry
        self._catalog = catalog
        self._references = references
        self.expression_keys: Sequence[ExpressionKey] = ()

    @cached_property
    def _generated(self) -> Mfp | None:
        from kpg.compiler.sql.rewrite.column_expressions import generated  # lazy: the start does without it

        return generated(self._entry, self._catalog)

    @cached_property
    def _checks(self) -> Mfp | None:
        from kpg.compiler.sql.rewrite.column_expressions import checks  # lazy: the start does without it

        return checks(self._entry, self._catalog)

    def insert(self, words: Words) -> Words:
        """Append rows; their rowids."""
        words = self.fitting(words)
        rowids = self._executor.insert(self._entry.name, words)
        for one in self.expression_keys:
            one.inserted(words)
        if self._references is not None:
            self._references.inserted(self._entry.name, rowids, words)
        return rowids

    @property
    def rules(self) -> Rules | None:
        """What workers can hold new rows to; None if there is more to it."""
        if self._generated is not None or self.expression_keys:
            return None
        return Rules(self._checks, self.fitting)

    def landed(self, rowids: tuple[int, int]) -> None:
        """Rows have come that workers have held to ``rules``."""
        if self._references is not None:
            self._references.landed(self._entry.name, rowids)

    def delete(self, rowids: Words) -> None:
        """Delete live rows."""
        if self._references is None and not self.expression_keys:
            self._executor.delete(self._entry.name, rowids)
            return
        old = self._executor.fetch(self._entry.name, rowids)
        self._executor.delete(self._entry.name, rowids)
        for one in self.expression_keys:
            one.deleted(old)
        if self._references is not None:
            self._references.deleted(self._entry.name, old)

    def update(self, rowids: Words, words: Words) -> Words:
        """Put rows in the place of others, one by one; their rowids."""
        words = self.fitting(words)
        name = self._entry.name
        old = self._executor.fetch(name, rowids)
        self._executor.delete(name, rowids)
        new = self._executor.insert(name, words)
        for one in self.expression_keys:
            one.deleted(old)
            one.inserted(words)
        if self._references is not None:
            self._references.updated(name, old, words, new)
        return new

    def fitting(self, words: Words) -> Words:
        """Rows with their generated columns; IntegrityError if one fails a CHECK."""
        if not words.shape[1]:
            return words
        words = np.ascontiguousarray(words)
        if self._generated is not None:
            words, _ = self._executor.evaluate(self._generated, words)
            words = np.ascontiguousarray(words)
            self._refuse_errors(words)
        if self._checks is not None:
            self._refuse_failures(words)
        return words

    def _refuse_errors(self, words: Words) -> None:
        bad = (words == ERROR).any(axis=1)
        if bad.any():
            column = self._entry.schema.names[int(np.argmax(bad))]
            raise DataError(f"the value for column {column} of table {self._entry.name} failed to compute")

    def _refuse_failures(self, words: Words) -> None:
        assert self._checks is not None
        results, _ = self._executor.evaluate(self._checks, words)
        for check, result in zip(self._entry.constraints.checks, results, strict=True):
            bad = np.flatnonzero((result == 0) | (result == ERROR))
            if bad.size:
                columns = zip(words[:, bad[0]].tolist(), self._entry.schema.types, strict=True)
                row = ", ".join(show(word, type_, self._executor.dictionary) for word, type_ in columns)
                if self._is_bound(check):
                    raise _beyond(self._entry.name, row)
                raise IntegrityError(
                    f"row ({row}) of table {self._entry.name} fails CHECK {check.name}: {check.text}",
                    hint="nothing was changed",
                )

    def _is_bound(self, check: Check) -> bool:
        """Whether a check says which rows a partition takes."""
        name = self._entry.name.lower()
        others = self._catalog.others
        return check.name.endswith("_partition") and any(
            key[0] == "inherits" and key[2] == name for key in others
        )


def _beyond(name: str, row: str) -> IntegrityError:
    message = f'new row for relation "{name.rpartition(".")[2]}" violates partition constraint'
    error = IntegrityError(message, hint="nothing was changed").with_detail(f"Failing row contains ({row}).")
    error.sqlstate = "23514"
    return error


def guards(executor: Executor, catalog: Catalog, references: References) -> dict[str, Guard | None]:
    """The guards of all tables, None for those that need none."""
    indexed = {key[1] for key in catalog.others if key[0] == "unique index"}
    found: dict[str, Guard | None] = {}
    for entry in catalog:
        if not isinstance(entry, TableEntry):
            continue
        referring = references if references.concerns(entry.name) else None
        special = entry.name.lower() in indexed
        needed = referring is not None or special or entry.constraints.guarded
        guard = Guard(executor, entry, catalog, referring) if needed else None
        if guard is not None and special:
            from kpg.execute.changes.expression_keys import expression_keys  # lazy: start-up

            guard.expression_keys = expression_keys(executor, entry, catalog)
        found[entry.name] = guard
    return found
