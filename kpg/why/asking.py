"""Questions about a node of a bound query: its rows that have given values in some columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.algebra.rel import OrderBy
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.sql.bound_tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Join,
    Map,
    Node,
    Query,
    Resolved,
    Rows,
    Scan,
    SetOperation,
    Shared,
    TopK,
    Window,
    free,
    produced,
    used,
    walk,
)
from kpg.compiler.sql.frontend import lowered
from kpg.engine.engine import Engine
from kpg.queries.planning import plan_bound
from kpg.queries.reading import literal_of, permutation
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions.comparison import key_string
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, NULL, Kind, Type, is_loose

Words = NDArray[np.int64]
Values = Mapping[int, int]
"""Words of columns, by the columns' ids."""
UNCOMPARED = frozenset({Kind.JSON})
"""Values that cannot be looked for."""


class Asking:
    """The nodes of one bound query, and what is found for them in the database."""

    def __init__(self, engine: Engine, resolved: Resolved) -> None:
        self.engine = engine
        self.resolved = resolved
        self.dictionary: Dictionary = engine.executor.dictionary
        self.types = dict(_types(resolved))
        self._ids = count(resolved.next_id)

    def fresh(self, type_: Type) -> int:
        """The id of a new column."""
        id_ = next(self._ids)
        self.types[id_] = type_
        return id_

    def column(self, id_: int) -> Column:
        """The column of an id."""
        return Column(id_, self.types[id_])

    def literal(self, word: int, type_: Type) -> Literal:
        """A word as a constant."""
        return literal_of(word, type_, self.dictionary)

    def same(self, scalar: Scalar, word: int) -> Scalar:
        """Whether a scalar is a value, NULL being one."""
        if word == NULL:
            return Call("is_null", (scalar,), BOOLEAN)
        return Call("eq", (scalar, self.literal(word, scalar.type)), BOOLEAN)

    def asked(self, scalars: Sequence[Scalar]) -> frozenset[int]:
        """The columns that scalars need, those of subqueries in them included."""
        return frozenset[int]().union(*(used(one, self.resolved.subqueries) for one in scalars))

    def ordered(self, id_: int, words: Words) -> Words:
        """Words of a column as numbers in the order of its values, equal ones for equal values."""
        if not self.types[id_].is_interned:
            return words
        rows = words.reshape(1, -1)
        order = permutation(rows, (OrderBy(0, False, False),), [self.types[id_]], self.dictionary)
        texts = self.dictionary.decode(words[order])
        if is_loose(self.types[id_]):
            of_key = key_string(self.types[id_])
            texts = [None if text is None else of_key(text) for text in texts]
        new = [int(one != before) for one, before in zip(texts[1:], texts, strict=False)]
        ranks = np.empty(words.shape[0], np.int64)
        ranks[order] = np.cumsum([0, *new])[: words.shape[0]]
        return ranks

    def rows(
        self, node: Node, want: Sequence[int], known: Values, outer: Values, tests: Sequence[Scalar] = ()
    ) -> tuple[Words, Words]:
        """Columns ``int64[w, n]`` of the node's rows with the ``known`` values, and how often each is there.

        ``outer`` are the values of what is around the node. What it does not refer to is left out.
        """
        own = produced(node)
        conditions = [
            self.same(self.column(id_), word)
            for id_, word in known.items()
            if id_ in own and self.types[id_].kind not in UNCOMPARED
        ]
        references = (free(node, self.resolved.subqueries) | self.asked(tests)) - own
        around = sorted(id_ for id_ in references if id_ in outer)
        if around:
            values = tuple(self.literal(outer[id_], self.types[id_]) for id_ in around)
            row = Rows((values,), tuple(around), tuple(self.types[id_] for id_ in around))
            node = Join("inner", row, node, ())
        if conditions or tests:
            node = Filter(node, (*conditions, *tests))
        columns = tuple(self.column(id_) for id_ in dict.fromkeys(want))
        if not columns:
            there = self.fresh(BOOLEAN)
            node, columns = Map(node, (there,), (Literal(1, BOOLEAN),)), (self.column(there),)
        data, diff = self._run(Query(node, columns, tuple(f"c{number}" for number in range(len(columns)))))
        return (data, diff) if want else (data[:0], diff)

    def _run(self, query: Query) -> tuple[Words, Words]:
        asked = replace(self.resolved, query=query, next_id=next(self._ids) + 1)
        engine = self.engine
        bound = lowered(asked, engine.reading_catalog)
        planned = plan_bound(
            bound, engine.reading_catalog, engine.statistics, restricting=not self.resolved.loops
        )
        try:
            data, diff = engine.run(planned)
        except InternalError:
            if not self.resolved.loops:
                raise
            data, diff = engine.recompute(planned)  # as in World._rank_lookup
        return data, np.broadcast_to(diff, (data.shape[1],))


def _types(resolved: Resolved) -> Iterator[tuple[int, Type]]:
    """The types of all columns that nodes make."""
    queries = [resolved.query, *resolved.shared.values()]
    queries += [query for loop in resolved.loops.values() for query in loop.queries]
    queries += [subquery.query for subquery in resolved.subqueries.values()]
    for query in queries:
        for node in walk(query.node):
            yield from _made(resolved, node)


def _made(resolved: Resolved, node: Node) -> Iterator[tuple[int, Type]]:
    match node:
        case Scan(rel=rel, ids=ids):
            yield from zip(ids, rel_types(rel), strict=True)
        case Shared(name=name, ids=ids):
            yield from zip(ids, (column.type for column in resolved.shared[name].columns), strict=True)
        case Rows(ids=ids, types=types):
            yield from zip(ids, types, strict=True)
        case Map(ids=ids, scalars=scalars):
            yield from zip(ids, (scalar.type for scalar in scalars), strict=True)
        case Group(key_ids=key_ids, keys=keys, ids=ids, aggregates=calls):
            yield from zip(key_ids, (key.type for key in keys), strict=True)
            yield from zip(ids, (call.type for call in calls), strict=True)
        case GroupingSets(key_ids=key_ids, keys=keys, ids=ids, aggregates=calls, marks=marks):
            yield from zip(key_ids, (key.type for key in keys), strict=True)
            yield from zip(ids, (call.type for call in calls), strict=True)
            yield from ((mark, BIGINT) for mark in marks)
        case Expand(ids=ids, calls=expanded):
            made = [type_ for call in expanded for type_ in call.types]
            yield from zip(ids, (*made, BIGINT), strict=False)
        case Window(ids=ids, calls=windowed):
            yield from zip(ids, (call.type for call in windowed), strict=True)
        case SetOperation(ids=ids, left=left):
            yield from zip(ids, (column.type for column in left.columns), strict=True)
        case Filter() | Join() | Distinct() | TopK():
            return
        case _:
            assert_never(node)
