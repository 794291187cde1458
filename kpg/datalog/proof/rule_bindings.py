"""Bindings of a rule's variables, and the expressions and aggregates evaluated over them.

Aggregates follow the rules of ``compiler/rules/lower``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.core import WRAP_FUNCTIONS, has_identity
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.executor import Executor
from kpg.runtime.functions import compute_aggregate, resolve_aggregate
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, ERROR, Type, float_to_word, word_to_float

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows ``words int64[w, n]`` of values of variables. ``positions`` has the position of each variable."""

    positions: Mapping[str, int]
    words: Words

    def __len__(self) -> int:
        return self.words.shape[1]

    def column(self, name: str) -> Words:
        """Return the values of a variable, ``int64[n]``."""
        return self.words[self.positions[name]]

    def take(self, selection: Words | NDArray[np.bool_]) -> "Bindings":
        """Return some of the rows, by their indexes or a mask."""
        return Bindings(self.positions, np.ascontiguousarray(self.words[:, selection]))

    def bind(self, values: Mapping[str, Words]) -> "Bindings":
        """Return the bindings with values of more variables."""
        if not values:
            return self
        width = self.words.shape[0]
        extended_positions = {**self.positions, **{name: width + i for i, name in enumerate(values)}}
        return Bindings(
            extended_positions, np.concatenate((self.words, np.array(list(values.values()), np.int64)))
        )

    def columns(self, names: Sequence[str]) -> Words:
        """Return the values of some variables, ``int64[k, n]``; for no variables, one row of zeros."""
        if not names:
            return np.zeros((1, len(self)), np.int64)
        return np.ascontiguousarray(self.words[[self.positions[name] for name in names]])


class Evaluator:
    """Evaluates expressions over bindings, by the executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._constants: dict[core.Constant, int] = {}

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of the database."""
        return self._executor.dictionary

    def constant(self, term: core.Constant) -> int:
        """Return the word of a constant."""
        if not isinstance(term.value, str):
            return term.value
        word = self._constants.get(term)
        if word is None:
            word = self._constants[term] = self.dictionary.code(term.value)
        return word

    def values(self, expression: core.Expression, rows: Bindings) -> tuple[Words, NDArray[np.bool_]]:
        """Return the expression's value in each row, and the mask of rows where no operation fails."""
        match expression:
            case core.Variable(name=name):
                return rows.column(name), np.ones(len(rows), np.bool_)
            case core.Constant():
                return np.full(len(rows), self.constant(expression)), np.ones(len(rows), np.bool_)
            case core.Call() | core.Parameter():
                names = _names(expression)
                positions = {name: position for position, name in enumerate(names)}
                return self._evaluate_valid(_to_scalar(expression, positions), rows.columns(names))
            case _:
                assert_never(expression)

    def test(self, literal: core.Comparison, rows: Bindings) -> NDArray[np.bool_]:
        """Return the mask of rows where the comparison holds."""
        names = list(dict.fromkeys((*_names(literal.left), *_names(literal.right))))
        positions = {name: position for position, name in enumerate(names)}
        sides = (_to_scalar(literal.left, positions), _to_scalar(literal.right, positions))
        words, is_valid = self._evaluate_valid(Call(literal.function, sides, BOOLEAN), rows.columns(names))
        holds: NDArray[np.bool_] = is_valid & (words == (0 if literal.negated else 1))
        return holds

    def cast(self, words: Words, scalar: Scalar) -> Words:
        """Evaluate a scalar over the single column ``words``. Raises DataError if an operation fails."""
        return self._evaluate(scalar, words.reshape(1, -1))

    def _evaluate_valid(self, scalar: Scalar, data: Words) -> tuple[Words, NDArray[np.bool_]]:
        try:
            return self._evaluate(scalar, data), np.ones(data.shape[1], np.bool_)
        except DataError:
            return self._evaluate_each(scalar, data)

    def _evaluate_each(self, scalar: Scalar, data: Words) -> tuple[Words, NDArray[np.bool_]]:
        words = np.full(data.shape[1], ERROR)
        is_valid = np.zeros(data.shape[1], np.bool_)
        for position in range(data.shape[1]):
            try:
                words[position] = self._evaluate(scalar, data[:, position : position + 1])[0]
            except DataError:
                continue
            is_valid[position] = True
        return words, is_valid

    def _evaluate(self, scalar: Scalar, data: Words) -> Words:
        return self._executor.evaluate(Mfp((), (scalar,)), np.ascontiguousarray(data))[0][0]


@cache
def _names(expression: core.Expression) -> tuple[str, ...]:
    return tuple(dict.fromkeys(variable.name for variable in core.variables(expression)))


def _to_scalar(expression: core.Expression, positions: Mapping[str, int]) -> Scalar:
    """Return the expression as a scalar over columns, at the positions of its variables."""
    match expression:
        case core.Variable(name=name, type=type_):
            return Column(positions[name], type_)
        case core.Constant(value=value, type=type_):
            return Literal(value, type_)
        case core.Call(function=function, args=args, type=type_):
            return Call(function, tuple(_to_scalar(arg, positions) for arg in args), type_)
        case core.Parameter(name=name):
            raise InternalError(f"parameter ${name} has no value in a rule")
        case _:
            assert_never(expression)


class Aggregates:
    """Computes aggregates as the engine does, so that equal results are equal words."""

    def __init__(self, program: core.Program, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._wraps = WRAP_FUNCTIONS if program.number_size == 32 else {}

    def values(
        self, literal: core.BodyAggregate, rows: Bindings, size: int
    ) -> tuple[Words, NDArray[np.bool_]]:
        """Return the result for each of ``size`` groups, and the mask of groups that have one.

        The column ``@seed`` of ``rows`` is the group of a row.
        """
        results = np.zeros(size, np.int64)
        has_result = np.full(size, has_identity(literal.function))
        seeds = rows.column("@seed")
        if literal.value is None:
            np.add.at(results, seeds, 1)
            return results, has_result
        words, _ = self._evaluator.values(literal.value, rows)
        for seed, part in _words_by_seed(seeds, words):
            results[seed] = self.aggregate(literal.function, part, literal.value.type, literal.result.type)
            has_result[seed] = True
        return results, has_result

    def head_rows(self, relation: core.Relation, rows: Words) -> Words:
        """Return the aggregated head rows of contributions ``int64[1 + w, n]``, whose first column is a seed.

        There is one row per seed and key.
        """
        keys = [0, *(1 + place for place, function in enumerate(relation.aggregates) if function is None)]
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, key in enumerate(zip(*rows[keys].tolist(), strict=True)):
            groups.setdefault(key, []).append(position)
        result = np.array([rows[:, places[0]] for places in groups.values()], np.int64)
        result = result.reshape(len(groups), rows.shape[0])
        for number, members in enumerate(groups.values()):
            for place, function in enumerate(relation.aggregates):
                if function is not None:
                    words = rows[1 + place][members]
                    result[number, 1 + place] = self._head_value(
                        function, words, relation.columns[place].type
                    )
        return np.ascontiguousarray(result.T)

    def _head_value(self, function: str, words: Words, column: core.ValueType) -> int:
        word = self.aggregate(function, words, column.type, column.type)
        if not has_identity(function) or column.domain not in self._wraps:
            return word
        wrapped = Call(self._wraps[column.domain], (Column(0, column.type),), column.type)
        return int(self._evaluator.cast(np.array([word], np.int64), wrapped)[0])

    def aggregate(self, function: str, words: Words, operand: Type, result: Type) -> int:
        """Return the aggregate of one or more values, as a word."""
        resolved = resolve_aggregate(function, (operand,))
        algorithm = resolved.function.algorithm(resolved.arg_types)
        value = compute_aggregate(algorithm, (((value,), 1) for value in self._python_values(words, operand)))
        return self._cast(self._word(value), resolved.result_type, result)

    def _python_values(self, words: Words, type_: Type) -> Iterator[int | float | str]:
        """Yield the words as the values that aggregate algorithms accept."""
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


def _words_by_seed(seeds: Words, words: Words) -> Sequence[tuple[int, Words]]:
    """Return the words of each seed that occurs, in order of the seeds."""
    if not seeds.shape[0]:
        return []
    order = np.argsort(seeds, kind="stable")
    seeds, words = seeds[order], words[order]
    starts = np.flatnonzero(np.diff(seeds, prepend=-1))
    return list(zip(seeds[starts].tolist(), np.split(words, starts[1:]), strict=True))
