"""Values of a rule's variables, and expressions over them evaluated."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.executor import Executor
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, ERROR

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
