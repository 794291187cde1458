"""Who hears the rows of an ego view, and of which readers: filters on the reader alone tell."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.ego.followed import EVERYBODY, NONE, Followed, Test
from kpg.runtime.errors import DataError
from kpg.runtime.mfp.compiled import CompiledMfp
from kpg.runtime.mfp.segment import conjuncts
from kpg.runtime.operators.input import Hearer
from kpg.runtime.operators.linear import Linear, apply_one
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, columns, remap, walk
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Way:
    """Maps from an operator on: at which place the reader is, and what is asked of it."""

    place: int | None
    asked: tuple[Scalar, ...]
    map: CompiledMfp | None


def hearing(operator: Operator, known: Followed) -> Followed:
    """The readers whose changes somebody is to be told, by way of maps or not: one that nobody reads is none.

    ``known`` is what this was before, and is again if it still is.
    """
    chosen: list[Words] = []
    tests: list[tuple[tuple[Scalar, ...], CompiledMfp]] = []
    name: list[object] = []
    waiting = [(operator, _Way(0, (), None))]
    while waiting:
        source, way = waiting.pop()
        for consumer, _ in source.consumers:
            if isinstance(consumer, Linear):
                waiting.append((consumer, _through(way, consumer)))
            elif isinstance(consumer, Hearer) and consumer.chosen is not None and way.place == 0:
                chosen.append(consumer.chosen)
                name.append(consumer.chosen.tobytes())
            elif way.asked and way.map is not None:
                tests.append((way.asked, way.map))
                name.append(way.asked)
            else:
                return EVERYBODY
    if tuple(name) == known.name and not known.every:
        return known
    words = np.unique(np.concatenate((NONE, *chosen)))
    return Followed(False, words, tuple(_test(*one) for one in tests), tuple(name))


def _through(way: _Way, linear: Linear) -> _Way:
    """The way by one map more."""
    if way.place is None:
        return way
    place, mfp = way.place, linear.mfp.source
    parts = [part for predicate in mfp.predicates for part in conjuncts(predicate)]
    asked = [remap(one, lambda column: 0) for one in parts if columns(one) == frozenset({place})]
    after = [at for at, one in enumerate(mfp.outputs) if isinstance(one, Column) and one.index == place]
    return _Way(after[0] if after else None, (*way.asked, *asked), linear.mfp)


def _test(asked: tuple[Scalar, ...], like: CompiledMfp) -> Test:
    reader = next(one for scalar in asked for one in walk(scalar) if isinstance(one, Column))
    made = like.another(Mfp(asked, (reader,)))

    def test(words: Words) -> Words:
        updates = Updates(words.reshape(1, -1), np.zeros((1, 1), np.int64), ONE)
        try:
            return apply_one(made, updates).data[0]
        except DataError:  # it may be that whoever asks never sees such a reader
            return words

    return test
