"""Aggregates that users write in SQL: the functions of arrays that plans call."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpg.compiler.catalog.routines import ArrayFold
from kpg.queries.reading import plain_value, word_of
from kpg.runtime.errors import Error
from kpg.runtime.executor import Executor
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, ScalarFunction, Signature
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Named
from kpg.runtime.types import NULL, array


class Folds:
    """The folds of a database, each with the name by which plans call it."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._named: dict[ArrayFold, Named[Any]] = {}

    def find(self, fold: ArrayFold) -> Named[Any] | None:
        """The name of a fold that has one."""
        return self._named.get(fold)

    def adopt(self, fold: ArrayFold, name: Named[Any]) -> None:
        """Let a name that plans have carry what it calls."""
        name.definition = self._definition(fold, name)
        self._named[fold] = name

    def _definition(self, fold: ArrayFold, name: Named[Any]) -> ScalarFunction:
        dictionary = self._executor.dictionary

        def call(*arrays: Any) -> object:
            try:
                return plain_value(self._word(fold, arrays), fold.result, dictionary)
            except Error as error:
                raise ValueError(error.message) from error

        types = tuple(array(item) for item in fold.items)
        overload = Overload(
            lambda _: Signature(types, fold.result), Memoized(lambda _: call, takes_nulls=True)
        )
        return ScalarFunction(name, fold.label, "", {}, (overload,), NullRule.OWN)

    def _word(self, fold: ArrayFold, arrays: Sequence[Any]) -> int:
        """The result of arrays, which are None for no rows."""
        dictionary = self._executor.dictionary
        state, start = self._evaluate(fold.first, []), fold.start
        columns = [
            [word_of(item, type_, dictionary) for item in (() if values is None else values.items)]
            for values, type_ in zip(arrays, fold.items, strict=True)
        ]
        for items in zip(*columns, strict=True):
            if fold.strict and NULL in items:
                continue
            if start is not None:
                state, start = self._evaluate(start, list(items)), None
                continue
            if fold.strict and state == NULL:
                break
            state = self._evaluate(fold.step, [state, *items])
        return self._evaluate(fold.final, [state])

    def _evaluate(self, mfp: Mfp, words: list[int]) -> int:
        row = np.array([words or [0]], np.int64).T
        results, _ = self._executor.evaluate(mfp, np.ascontiguousarray(row))
        return int(results[0, 0])
