"""Functions run for the few rows of a small step: without arrays, and not again for rows that came lately.

A step asks for the old and the new value of each group that it changes, and the old one was the new one of a
step before. Codes never change their strings, so what was computed stays right.
"""

from typing import Any, Final

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.registry import Memoized
from kpg.runtime.mfp.memo import attempt, value_of, words_of
from kpg.runtime.scalar import Call
from kpg.runtime.types import ERROR, NULL, Kind

Words = np.ndarray[Any, np.dtype[np.int64]]
Row = tuple[int, ...]
FEW: Final = 32
"""Rows that are gone through one by one: for more, arrays cost less."""
MOST: Final = 1024
"""Rows whose results are remembered: some steps' worth. All are forgotten at once."""


class FewRows:
    """One call, over a few rows at a time."""

    __slots__ = ("_call", "_dictionary", "_function", "_known", "_plain", "_spell", "_takes_nulls")

    def __init__(self, call: Call, implementation: Memoized, dictionary: Dictionary) -> None:
        self._call = call
        self._dictionary = dictionary
        self._function = implementation.build(call)
        self._spell = None if implementation.spelled is None else implementation.spelled(call)
        self._takes_nulls = implementation.takes_nulls
        self._plain = not any(
            arg.type.is_interned or arg.type.is_float or arg.type.kind is Kind.BOOLEAN for arg in call.args
        )
        self._known: dict[Row, int] = {}

    def of(self, args: Words) -> Words:
        """The results for columns ``args int64[k, n]``."""
        rows = list(zip(*args.tolist(), strict=True))
        known = self._known
        missing = [row for row in dict.fromkeys(rows) if row not in known]
        if missing:
            if len(known) > MOST:
                known.clear()
                missing = list(dict.fromkeys(rows))
            self._fill(missing)
        return np.array([known[row] for row in rows], dtype=np.int64)

    def _fill(self, missing: list[Row]) -> None:
        known, rows, values = self._known, list[Row](), list[object]()
        function = self._spell or self._function
        for row in missing:
            if ERROR in row:
                known[row] = ERROR
            elif NULL in row and not self._takes_nulls:
                known[row] = NULL
            else:
                rows.append(row)
                values.append(
                    attempt(function, *(row if self._plain and NULL not in row else self._values(row)))
                )
        if rows:
            known.update(zip(rows, self._words(values), strict=True))

    def _values(self, row: Row) -> list[Any]:
        types = (arg.type for arg in self._call.args)
        return [value_of(word, type_, self._dictionary) for word, type_ in zip(row, types, strict=True)]

    def _words(self, values: list[object]) -> list[int]:
        if self._spell is None:
            return words_of(values, self._call.type, self._dictionary).tolist()
        strings = [value if isinstance(value, str) else None for value in values]
        found: list[int] = self._dictionary.intern(strings).tolist()
        return [
            ERROR if isinstance(value, Exception) else word for word, value in zip(found, values, strict=True)
        ]
