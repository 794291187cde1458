"""Bindings of a rule's variables, and the expressions and aggregates evaluated over them.

Aggregates follow the rules of ``compiler/rules/lowering``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.core import WRAPS, is_total
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.executor import Executor
from kpg.runtime.functions import aggregated, resolve_aggregate
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, ERROR, Type, float_to_word, word_to_float

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows ``words int64[w, n]`` with a value for each of the variables at ``places``."""

    places: Mapping[str, int]
    words: Words

    def __len__(self) -> int:
        return self.words.shape[1]

    def column(self, name: str) -> Words:
        """The values of a variable."""
        return self.words[self.places[name]]

    def take(self, positions: Words | NDArray[np.bool_]) -> "Bindings":
        """Some of the rows."""
        return Bindings(self.places, np.ascontiguousarray(self.words[:, positions]))

    def extended(self, values: Mapping[str, Words]) -> "Bindings":
        """With values for more variables."""
        if not values:
            return self
        width = self.words.shape[0]
        places = {**self.places, **{name: width + i for i, name in enumerate(values)}}
        return Bindings(places, np.concatenate((self.words, np.array(list(values.values()), np.int64))))

    def columns(self, names: Sequence[str]) -> Words:
        """The values of some variables, ``int64[k, n]``; of none, zeros of one."""
        if not names:
            return np.zeros((1, len(self)), np.int64)
        return np.ascontiguousarray(self.words[[self.places[name] for name in names]])


def bindings(values: Mapping[str, int]) -> Bindings:
    """The one row with these values."""
    words = np.array(list(values.values()), np.int64).reshape(-1, 1)
    return Bindings({name: place for place, name in enumerate(values)}, words)


class Evaluator:
    """Expressions over the values of variables, computed by the executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._constants: dict[core.Constant, int] = {}

    @property
    def dictionary(self) -> Dictionary:
        """Where texts have their words."""
        return self._executor.dictionary

    def constant(self, term: core.Constant) -> int:
        """The word of a constant."""
        if not isinstance(term.value, str):
            return term.value
        found = self._constants.get(term)
        if found is None:
            found = self._constants[term] = self.dictionary.code(term.value)
        return found

    def values(self, expression: core.Expression, rows: Bindings) -> tuple[Words, NDArray[np.bool_]]:
        """The expression's value in each row, and where it has one: not where an operation fails."""
        match expression:
            case core.Variable(name=name):
                return rows.column(name), np.ones(len(rows), np.bool_)
            case core.Constant():
                return np.full(len(rows), self.constant(expression)), np.ones(len(rows), np.bool_)
            case core.Call() | core.Parameter():
                names = _names(expression)
                places = {name: place for place, name in enumerate(names)}
                return self._run(_scalar(expression, places), rows.columns(names))
            case _:
                assert_never(expression)

    def test(self, literal: core.Comparison, rows: Bindings) -> NDArray[np.bool_]:
        """Where the comparison holds."""
        names = list(dict.fromkeys((*_names(literal.left), *_names(literal.right))))
        places = {name: place for place, name in enumerate(names)}
        sides = (_scalar(literal.left, places), _scalar(literal.right, places))
        words, fine = self._run(Call(literal.function, sides, BOOLEAN), rows.columns(names))
        holds: NDArray[np.bool_] = fine & (words == (0 if literal.negated else 1))
        return holds

    def cast(self, words: Words, scalar: Scalar) -> Words:
        """A scalar over the one column ``words``; an operation that fails raises DataError."""
        return self._evaluated(scalar, words.reshape(1, -1))

    def _run(self, scalar: Scalar, data: Words) -> tuple[Words, NDArray[np.bool_]]:
        try:
            return self._evaluated(scalar, data), np.ones(data.shape[1], np.bool_)
        except DataError:
            return self._one_by_one(scalar, data)

    def _one_by_one(self, scalar: Scalar, data: Words) -> tuple[Words, NDArray[np.bool_]]:
        words = np.full(data.shape[1], ERROR)
        fine = np.zeros(data.shape[1], np.bool_)
        for position in range(data.shape[1]):
            try:
                words[position] = self._evaluated(scalar, data[:, position : position + 1])[0]
            except DataError:
                continue
            fine[position] = True
        return words, fine

    def _evaluated(self, scalar: Scalar, data: Words) -> Words:
        return self._executor.evaluate(Mfp((), (scalar,)), np.ascontiguousarray(data))[0][0]


@cache
def _names(expression: core.Expression) -> tuple[str, ...]:
    return tuple(dict.fromkeys(variable.name for variable in core.variables(expression)))


def _scalar(expression: core.Expression, places: Mapping[str, int]) -> Scalar:
    """The expression over columns in place of variables."""
    match expression:
        case core.Variable(name=name, type=type_):
            return Column(places[name], type_)
        case core.Constant(value=value, type=type_):
            return Literal(value, type_)
        case core.Call(function=function, args=args, type=type_):
            return Call(function, tuple(_scalar(arg, places) for arg in args), type_)
        case core.Parameter(name=name):
            raise InternalError(f"parameter ${name} has no value in a rule")
        case _:
            assert_never(expression)


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
