"""Aggregates computed over bindings that were found, by the rules of ``compiler/datalog/lowering``."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.lowering.aggregate import TOTAL, is_total
from kpg.compiler.rules.primitives import WRAPS
from kpg.datalog.proof.bindings import Bindings, Evaluator
from kpg.runtime.functions import sum_type
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import BIGINT, DOUBLE, Type, float_to_word, word_to_float

Words = NDArray[np.int64]


class Aggregates:
    """Combines values as the engine does, so that equal results are equal words."""

    def __init__(self, program: core.Program, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._wraps = WRAPS if program.number_size == 32 else {}

    def values(
        self, literal: core.BodyAggregate, found: Bindings, size: int
    ) -> tuple[Words, NDArray[np.bool_]]:
        """The result for each of ``size`` groups, and where there is one; ``@seed`` in ``found`` is which."""
        results = np.zeros(size, np.int64)
        fine = np.full(size, is_total(literal))
        seeds = found.column("@seed")
        if literal.value is None:
            np.add.at(results, seeds, 1)
            return results, fine
        words, _ = self._evaluator.values(literal.value, found)
        for seed, part in _groups(seeds, words):
            results[seed] = self.combined(literal.function, part, literal.value.type, literal.result.type)
            fine[seed] = True
        return results, fine

    def heads(self, relation: core.Relation, rows: Words) -> Words:
        """The rows that contributions ``int64[1 + w, n]``, a seed first, come to for each seed and key."""
        keys = [0, *(1 + place for place, function in enumerate(relation.aggregates) if function is None)]
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, key in enumerate(zip(*rows[keys].tolist(), strict=True)):
            groups.setdefault(key, []).append(position)
        made = np.array([rows[:, places[0]] for places in groups.values()], np.int64)
        made = made.reshape(len(groups), rows.shape[0])
        for number, places in enumerate(groups.values()):
            for place, function in enumerate(relation.aggregates):
                if function is not None:
                    words = rows[1 + place][places]
                    made[number, 1 + place] = self._head(function, words, relation.columns[place].type)
        return np.ascontiguousarray(made.T)

    def _head(self, function: str, words: Words, column: core.ValueType) -> int:
        word = self.combined(function, words, column.type, column.type)
        if function not in TOTAL or column.domain not in self._wraps:
            return word
        wrapped = Call(self._wraps[column.domain], (Column(0, column.type),), column.type)
        return int(self._evaluator.cast(np.array([word], np.int64), wrapped)[0])

    def combined(self, function: str, words: Words, operand: Type, result: Type) -> int:
        """One aggregate of at least one value."""
        if function == "count":
            return self._cast(words.shape[0], BIGINT, result)
        if function in ("min", "max"):
            return self._extreme(function, words, operand)
        if function == "mean":
            total = math.fsum(self._doubles(words, operand))
            return self._cast(float_to_word(total / words.shape[0]), DOUBLE, result)
        if operand.is_float:
            return self._cast(float_to_word(math.fsum(map(word_to_float, words.tolist()))), DOUBLE, result)
        return self._cast(sum(words.tolist()), sum_type(operand), result)

    def _extreme(self, function: str, words: Words, operand: Type) -> int:
        chosen = min if function == "min" else max
        if operand.is_text:
            return chosen(words.tolist(), key=self._evaluator.dictionary.get)
        return chosen(words.tolist())

    def _doubles(self, words: Words, operand: Type) -> Sequence[float]:
        as_doubles = [self._cast(word, operand, DOUBLE) for word in words.tolist()]
        return [word_to_float(word) for word in as_doubles]

    def _cast(self, word: int, source: Type, target: Type) -> int:
        if source == target:
            return word
        cast = Call("cast", (Column(0, source),), target)
        return int(self._evaluator.cast(np.array([word], np.int64), cast)[0])


def _groups(seeds: Words, words: Words) -> Sequence[tuple[int, Words]]:
    """The words of each seed that there is."""
    if not seeds.shape[0]:
        return []
    order = np.argsort(seeds, kind="stable")
    seeds, words = seeds[order], words[order]
    starts = np.flatnonzero(np.diff(seeds, prepend=-1))
    return list(zip(seeds[starts].tolist(), np.split(words, starts[1:]), strict=True))
