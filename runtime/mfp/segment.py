"""A map-filter-project as machine code with the columns it needs computed beside the machine.

A segment reports errors that count as flags; who runs it decides whether they are raised.
"""

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np

from kpg.runtime.functions.registry import Columns, Memoized, Vector
from kpg.runtime.kernels import vm
from kpg.runtime.mfp.assemble import Code, assemble
from kpg.runtime.mfp.few import FEW, FewRows
from kpg.runtime.mfp.lower import Detached, Lowering, Sources
from kpg.runtime.mfp.memo import apply_memoized
from kpg.runtime.scalar import Call, Scalar, columns

Words = np.ndarray[Any, np.dtype[np.int64]]

NO_WORDS: Words = np.empty(0, dtype=np.int64)
NO_PAIRS: Words = np.empty((2, 0), dtype=np.int64)
NO_BYTES: "np.ndarray[Any, np.dtype[np.uint8]]" = np.empty(0, dtype=np.uint8)
ONE_ROW: Words = np.empty((0, 1), dtype=np.int64)


class Segment:
    """Predicates and outputs that the machine evaluates in one go."""

    def __init__(self, sources: Sources, predicates: Sequence[Scalar], outputs: Sequence[Scalar]) -> None:
        parts = [part for predicate in predicates for part in conjuncts(predicate)]
        reads = [index for scalar in (*parts, *outputs) for index in columns(scalar)]
        lowering = Lowering(sources, max(reads, default=-1) + 1, fold)
        passing = [lowering.lower(part) for part in parts]
        results = [lowering.lower(output) for output in outputs]
        lowering.keep((*passing, *results))
        self.sources = sources
        self.detached = bool(lowering.detached)
        self._width = lowering.width
        self._beside = [
            (detached, Machine(sources, assemble(lowering, (), detached.args)))
            for detached in lowering.detached
        ]
        self._few: dict[Detached, FewRows] = {}
        self.machine = Machine(sources, assemble(lowering, passing, results))

    def run(self, data: Words) -> tuple[Words, Words, int]:
        """Outputs and positions of the rows that passed, and the machine's flags (see ``Machine.run``)."""
        if self._beside:
            data = np.ascontiguousarray(data[: self._width])
            for detached, machine in self._beside:
                args, _, _ = machine.run(data)
                data = np.concatenate((data, self._compute(detached, args).reshape(1, -1)))
        return self.machine.run(data)

    def _compute(self, detached: Detached, args: Words) -> Words:
        how = detached.implementation
        match how:
            case Vector():
                return how.build(detached.call)(*args)
            case Memoized():
                dictionary = self.sources.context.dictionary
                if args.shape[1] > FEW or dictionary.passes:  # what goes into a reply is not remembered
                    return apply_memoized(detached.call, how, args, dictionary)
                few = self._few.get(detached)
                if few is None:
                    few = self._few[detached] = FewRows(detached.call, how, dictionary)
                return few.of(args)
            case Columns():
                from kpg.runtime.mfp.columns import apply_columns

                return apply_columns(detached.call, how, args, self.sources.context.dictionary)
            case _:
                assert_never(how)


class Machine:
    """Code ready to run, with the arrays that it needs at hand."""

    def __init__(self, sources: Sources, code: Code, *, constant: bool = False) -> None:
        """``constant``: it reads no table."""
        self.code = code
        self.sources = sources
        self.status = np.zeros(3, dtype=np.int64)
        self._reads_sources = bool(sources.entries) and not constant

    def run(self, data: Words) -> tuple[Words, Words, int]:
        """Outputs and positions of the rows that passed; flags: 1 an ERROR passed a filter, 2 one is stored.

        Positions are empty if the code does not filter.
        """
        code = self.code
        total = data.shape[1]
        out = np.empty((code.outputs, total), dtype=np.int64)
        kept = np.empty(total, dtype=np.int64) if code.filters else NO_WORDS
        if self._reads_sources or code.text:
            passed = self._run_with_sources(data, out, kept)
        else:
            passed = vm.run(
                code.instructions,
                code.constants,
                data,
                NO_PAIRS,
                NO_BYTES,
                NO_WORDS,
                out,
                kept,
                NO_PAIRS,
                self.status,
            )
        flags = 0
        if passed < 0:
            passed = -1 - passed
            flags = int(self.status[1] + 2 * self.status[2])
        if passed != total:
            out = out.reshape(-1)[: code.outputs * passed].reshape(code.outputs, passed)
            kept = kept[:passed]
            if 2 * passed < total:
                out, kept = out.copy(), kept.copy()
        return out, kept, flags

    def _run_with_sources(self, data: Words, out: Words, kept: Words) -> int:
        """Runs until no memo lacks an entry: each pass finds the strings that the next level needs."""
        code, sources, dictionary = self.code, self.sources, self.sources.context.dictionary
        room = data.shape[1] * sources.memos if code.memos else 0
        missing = np.empty((2, room), dtype=np.int64) if room else NO_PAIRS
        while True:
            addresses = sources.refresh()
            passed = vm.run(
                code.instructions,
                code.constants,
                data,
                addresses,
                dictionary.arena,
                dictionary.offsets,
                out,
                kept,
                missing,
                self.status,
            )
            if passed >= 0 or self.status[0] == 0:
                return int(passed)
            sources.fill(missing[:, : self.status[0]])


def conjuncts(predicate: Scalar) -> list[Scalar]:
    """The conditions that a predicate joins by AND."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for arg in predicate.args for part in conjuncts(arg)]
    return [predicate]


def fold(lowering: Lowering, number: int) -> int:
    """The word of a node that depends on no input."""
    code = assemble(lowering, (), (number,))
    out, _, _ = Machine(lowering.sources, code, constant=not code.memos).run(ONE_ROW)
    return int(out[0, 0])
