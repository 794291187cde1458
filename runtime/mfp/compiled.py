"""A map-filter-project, compiled once and run over batches of rows.

A row passes when every predicate is true; one that is false or NULL rejects the row whatever error
another has. An error raises DataError only in a row that no predicate rejects.
"""

from typing import Any

import numpy as np

from kpg.runtime.mfp.errors import failure
from kpg.runtime.mfp.lower import Sources
from kpg.runtime.mfp.memo import Context
from kpg.runtime.mfp.segment import Machine, Segment, conjuncts
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Scalar, columns, remap, walk
from kpg.runtime.types import ERROR

Words = np.ndarray[Any, np.dtype[np.int64]]


class CompiledMfp:
    """An ``Mfp`` ready to run; with ``later``, it is made ready when it is first run."""

    __slots__ = ("_context", "_first", "_last", "_leading", "_mfp", "_selected", "_simple")

    def __init__(self, mfp: Mfp, context: Context, *, later: bool = False) -> None:
        self._mfp = mfp
        self._context = context
        self._selected: Words | None = None
        self._first: Segment | None = None
        self._last: Segment | None = None
        self._simple = False
        plain = [output.index for output in mfp.outputs if isinstance(output, Column)]
        self._leading = plain == list(range(len(plain)))
        if not mfp.predicates and len(plain) == len(mfp.outputs):
            self._selected = np.array(plain, dtype=np.int64)
        elif not later:
            self._compile()

    def _compile(self) -> Segment:
        context, outputs = self._context, self._mfp.outputs
        predicates = [part for predicate in self._mfp.predicates for part in conjuncts(predicate)]
        self._last = Segment(Sources(context), predicates, outputs)
        self._simple = not self._last.detached
        if self._simple:
            return self._last
        late = [part for part in predicates if Segment(Sources(context), (part,), ()).detached]
        early = [part for part in predicates if part not in late]
        if not early:
            return self._last
        needed = sorted(frozenset().union(*map(columns, (*late, *outputs))))
        types = {node.index: node for scalar in (*late, *outputs) for node in _columns(scalar)}
        place = {column: position for position, column in enumerate(needed)}
        self._first = Segment(Sources(context), early, [types[column] for column in needed])
        rest, results = ([remap(s, place.__getitem__) for s in part] for part in (late, outputs))
        self._last = Segment(Sources(context), rest, results)
        return self._last

    @property
    def source(self) -> Mfp:
        """What it runs."""
        return self._mfp

    def another(self, mfp: Mfp) -> "CompiledMfp":
        """Another one that reads the same tables and strings."""
        return CompiledMfp(mfp, self._context)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The input columns that it reads, ascending."""
        scalars = (*self._mfp.predicates, *self._mfp.outputs)
        return tuple(sorted(frozenset().union(*map(columns, scalars))))

    @property
    def simple(self) -> bool:
        """Whether it selects columns, or runs on the machine at once."""
        if self._selected is None and self._last is None:
            self._compile()
        return self._selected is not None or self._simple

    @property
    def selected(self) -> Words | None:
        """The columns that it selects, if that is all it does."""
        return self._selected

    @property
    def machine(self) -> Machine | None:
        """What runs all of it at once, if it can be run so."""
        if self._selected is not None:
            return None
        last = self._last or self._compile()
        return last.machine if self._simple else None

    def run(self, data: Words) -> tuple[Words, Words | None]:
        """Maps, filters and projects rows ``data int64[w, n]``.

        Returns the outputs ``int64[m, k]`` and the ascending positions of the k rows that passed, None
        if all did. Raises DataError when an operation that counts fails.
        """
        if self._selected is not None:
            return self._select(data, self._selected), None
        total = data.shape[1]
        if total == 0:
            return np.empty((len(self._mfp.outputs), 0), dtype=np.int64), None
        last = self._last or self._compile()
        if self._simple:
            out, kept, flags = last.machine.run(data)
        else:
            out, kept, flags = self._run_in_two(data, last)
        if flags:
            self._check(data, out, kept)
        return out, None if out.shape[1] == total else kept

    def _select(self, data: Words, selected: Words) -> Words:
        if self._leading and selected.shape[0] == data.shape[0]:
            return data
        return data[selected]

    def _run_in_two(self, data: Words, last: Segment) -> tuple[Words, Words, int]:
        if self._first is None:
            return last.run(data)
        needed, first_kept, first_flags = self._first.run(data)
        if needed.shape[1] == 0:
            return np.empty((len(self._mfp.outputs), 0), dtype=np.int64), first_kept, 0
        out, kept, flags = last.run(needed)
        return out, first_kept[kept] if len(kept) else first_kept[: out.shape[1]], first_flags | flags

    def _check(self, data: Words, out: Words, kept: Words) -> None:
        """Raises the error of the first row that passed and has one, if there is such a row."""
        passed = data[:, kept] if self._mfp.predicates else data
        checks = Segment(Sources(self._context), (), self._mfp.predicates)
        verdicts, _, _ = checks.run(np.ascontiguousarray(passed))
        failed = (verdicts == ERROR).any(axis=0) | (out == ERROR).any(axis=0)
        for position in np.flatnonzero(failed)[:1]:
            row = np.ascontiguousarray(passed[:, position : position + 1])
            raise failure(self._mfp, self._context, row)


def _columns(scalar: Scalar) -> list[Column]:
    return [node for node in walk(scalar) if isinstance(node, Column)]
