"""Aggregates computed over bindings that were found, by the rules of ``compiler/rules/lowering``."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.core import WRAPS, is_total
from kpg.datalog.proof.bindings import Bindings, Evaluator
from kpg.runtime.functions import aggregated, resolve_aggregate
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import Type, float_to_word, word_to_float

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
        fine = np.full(size, is_total(literal.function))
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
        if not is_total(function) or column.domain not in self._wraps:
            return word
        wrapped = Call(self._wraps[column.domain], (Column(0, column.type),), column.type)
        return int(self._evaluator.cast(np.array([word], np.int64), wrapped)[0])

    def combined(self, function: str, words: Words, operand: Type, result: Type) -> int:
        """One aggregate of at least one value."""
        meaning = resolve_aggregate(function, (operand,))
        algorithm = meaning.function.algorithm(meaning.arg_types)
        value = aggregated(algorithm, (((value,), 1) for value in self._values(words, operand)))
        return self._cast(self._word(value), meaning.result_type, result)

    def _values(self, words: Words, type_: Type) -> Iterator[int | float | str]:
        """The words as aggregates' algorithms take them."""
        if type_.is_text:
            return map(self._evaluator.dictionary.get, words.tolist())
        return map(word_to_float, words.tolist()) if type_.is_float else iter(words.tolist())

    def _word(self, value: int | float | str) -> int:
        if isinstance(value, str):
            return self._evaluator.dictionary.code(value)
        return float_to_word(value) if isinstance(value, float) else value

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
