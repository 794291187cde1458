"""When to give magic sets up: what is asked has become a large share of all that could be asked."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kpg.compiler.rules import core
from kpg.compiler.rules.magic import is_finite, origins
from kpg.engine.table import Table

SHARE: Final = 0.5
"""The share of the values that could be asked for from which on all answers are computed."""
LEAST: Final = 64
"""With fewer values to ask for, asking is cheap in any case."""


class Guard:
    """What could be asked of a program's relations, by its tables as they are."""

    def __init__(self, program: core.Program, tables: Mapping[str, Table]) -> None:
        self._program = program
        self._tables = tables
        self._is_finite = is_finite(program)

    def limit(self, relation: str, bound: Sequence[bool]) -> int | None:
        """So many values for the bound columns are too many to be asked for one by one.

        None if that is not known: the program makes values of its own, or reads what is no table.
        """
        if not self._is_finite or self._program.relations[relation].demanded:
            return None
        possible = 1
        for place in (place for place, one in enumerate(bound) if one):
            count = self._values(relation, place)
            if count is None:
                return None
            possible *= count
        return int(SHARE * possible) if possible >= LEAST else None

    def _values(self, relation: str, place: int) -> int | None:
        """At most so many values are in a column."""
        found = origins(self._program, relation, place)
        if found is None or any(name not in self._tables for name, _ in found):
            return None
        parts = [self._tables[name].scan((column,))[0] for name, column in found]
        return int(np.unique(np.concatenate(parts)).shape[0]) if parts else 0
