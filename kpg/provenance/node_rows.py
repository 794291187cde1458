"""Queries over a node of a bound query: its rows with given values in some columns.

It splits a block into its joined inputs. It adds markers that show which side of an outer join is
absent. It also looks up the round in which a recursive row appeared, so that only earlier rows
explain it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.algebra.rel import OrderBy
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.sql.bound_tree import (
    BoundQuery,
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Ids,
    Join,
    Map,
    Node,
    Query,
    Rows,
    Scan,
    SetOperation,
    SharedScan,
    TopK,
    Window,
    free_ids,
    output_ids,
    referenced_ids,
    walk,
)
from kpg.compiler.sql.frontend import lower_bound_query
from kpg.execute.queries.query_plan import plan_bound
from kpg.execute.queries.result_rows import literal_of, permutation
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions.comparison import equality_key_encoder
from kpg.runtime.handles import RankLookup
from kpg.runtime.plan.nodes import call_columns
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, NULL, Kind, Type, is_loose
from kpg.session.engine import Engine

Words = NDArray[np.int64]
Values = Mapping[int, int]
"""Words of columns, by the columns' ids."""
INCOMPARABLE_KINDS = frozenset({Kind.JSON})
"""Kinds of values that have no equality, so that rows cannot be looked up by them."""


class NodeEvaluator:
    """Evaluates the nodes of one bound query in the database."""

    def __init__(self, engine: Engine, resolved: BoundQuery) -> None:
        self.engine = engine
        self.resolved = resolved
        self.dictionary: Dictionary = engine.executor.dictionary
        self.types = dict(_column_types(resolved))
        self._ids = count(resolved.next_id)

    def new_column(self, type_: Type) -> int:
        """Return the id of a new column."""
        id_ = next(self._ids)
        self.types[id_] = type_
        return id_

    def column(self, id_: int) -> Column:
        """Return the column with an id."""
        return Column(id_, self.types[id_])

    def literal(self, word: int, type_: Type) -> Literal:
        """Return a word as a constant."""
        return literal_of(word, type_, self.dictionary)

    def equals(self, scalar: Scalar, word: int) -> Scalar:
        """Return the condition that a scalar equals a word; NULL equals NULL."""
        if word == NULL:
            return Call("is_null", (scalar,), BOOLEAN)
        return Call("eq", (scalar, self.literal(word, scalar.type)), BOOLEAN)

    def used_columns(self, scalars: Sequence[Scalar]) -> frozenset[int]:
        """Return the columns that the scalars use, including those in their subqueries."""
        return frozenset[int]().union(
            *(referenced_ids(scalar, self.resolved.subqueries) for scalar in scalars)
        )

    def rank_words(self, id_: int, words: Words) -> Words:
        """Return words of a column as numbers in the order of its values. Equal values get equal numbers."""
        if not self.types[id_].is_interned:
            return words
        rows = words.reshape(1, -1)
        order = permutation(rows, (OrderBy(0, False, False),), [self.types[id_]], self.dictionary)
        texts = self.dictionary.decode(words[order])
        if is_loose(self.types[id_]):
            to_key = equality_key_encoder(self.types[id_])
            texts = [None if text is None else to_key(text) for text in texts]
        differs = [int(current != previous) for current, previous in zip(texts[1:], texts, strict=False)]
        ranks = np.empty(words.shape[0], np.int64)
        ranks[order] = np.cumsum([0, *differs])[: words.shape[0]]
        return ranks

    def rows(
        self, node: Node, ids: Sequence[int], bound: Values, outer: Values, tests: Sequence[Scalar] = ()
    ) -> tuple[Words, Words]:
        """Return columns ``int64[w, n]`` of the node's rows with the ``bound`` values, and multiplicities.

        ``outer`` are the values of outer columns; those that the node does not reference are ignored.
        """
        produced_ids = output_ids(node)
        conditions = [
            self.equals(self.column(id_), word)
            for id_, word in bound.items()
            if id_ in produced_ids and self.types[id_].kind not in INCOMPARABLE_KINDS
        ]
        references = (free_ids(node, self.resolved.subqueries) | self.used_columns(tests)) - produced_ids
        outer_ids = sorted(id_ for id_ in references if id_ in outer)
        if outer_ids:
            values = tuple(self.literal(outer[id_], self.types[id_]) for id_ in outer_ids)
            row = Rows((values,), tuple(outer_ids), tuple(self.types[id_] for id_ in outer_ids))
            node = Join("inner", row, node, ())
        if conditions or tests:
            node = Filter(node, (*conditions, *tests))
        columns = tuple(self.column(id_) for id_ in dict.fromkeys(ids))
        if not columns:
            dummy = self.new_column(BOOLEAN)
            node, columns = Map(node, (dummy,), (Literal(1, BOOLEAN),)), (self.column(dummy),)
        data, diff = self._run(Query(node, columns, tuple(f"c{number}" for number in range(len(columns)))))
        return (data, diff) if ids else (data[:0], diff)

    def _run(self, query: Query) -> tuple[Words, Words]:
        bound_query = replace(self.resolved, query=query, next_id=next(self._ids) + 1)
        engine = self.engine
        bound = lower_bound_query(bound_query, engine.reading_catalog)
        planned = plan_bound(
            bound, engine.reading_catalog, engine.statistics, restricting=not self.resolved.loops
        )
        try:
            data, diff = engine.run(planned)
        except InternalError:
            if not self.resolved.loops:
                raise
            data, diff = engine.recompute(planned)  # as in ExplanationState._rank_lookup
        return data, np.broadcast_to(diff, (data.shape[1],))


def _column_types(resolved: BoundQuery) -> Iterator[tuple[int, Type]]:
    """Yield the types of all columns that nodes produce."""
    queries = [resolved.query, *resolved.shared_queries.values()]
    queries += [query for loop in resolved.loops.values() for query in loop.queries]
    queries += [subquery.query for subquery in resolved.subqueries.values()]
    for query in queries:
        for node in walk(query.node):
            yield from _node_types(resolved, node)


def _node_types(resolved: BoundQuery, node: Node) -> Iterator[tuple[int, Type]]:
    match node:
        case Scan(rel=rel, ids=ids):
            yield from zip(ids, rel_types(rel), strict=True)
        case SharedScan(name=name, ids=ids):
            yield from zip(
                ids, (column.type for column in resolved.shared_queries[name].columns), strict=True
            )
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
            call_types = [type_ for call in expanded for type_ in call.types]
            yield from zip(ids, (*call_types, BIGINT), strict=False)
        case Window(ids=ids, calls=windowed):
            yield from zip(ids, (call.type for call in windowed), strict=True)
        case SetOperation(ids=ids, left=left):
            yield from zip(ids, (column.type for column in left.columns), strict=True)
        case Filter() | Join() | Distinct() | TopK():
            return
        case _:
            assert_never(node)


NO_ROUND: Final = 1 << 60
"""A round after all others."""


@dataclass(frozen=True, slots=True)
class RoundLimit:
    """The rows of recursive queries ``names`` that appeared before a round.

    Without ``ranks``, all rows: then no row can be its own reason.
    """

    names: frozenset[str]
    round: int
    ranks: Mapping[str, RankLookup | None]

    def allows(self, name: str, rows: Words) -> NDArray[np.bool_]:
        """Return the mask of the rows ``int64[w, n]`` that appeared before the round."""
        lookup = self.ranks.get(name)
        if lookup is None:
            return np.ones(rows.shape[1], np.bool_)
        ranks = lookup.ranks_of(rows)
        return (ranks >= 0) & (ranks < self.round)


NO_ROUND_LIMIT = RoundLimit(frozenset(), NO_ROUND, {})


ColumnFactory = Callable[[Type], int]
TRUE = Literal(1, BOOLEAN)


@dataclass(frozen=True, slots=True)
class BlockInput:
    """A joined input of a block. Its columns are NULL if one of the ``marks`` is.

    The input of an :class:`Expand` is the result of its functions, not their argument rows.
    """

    node: Node
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OptionalSide:
    """A side of an outer join, which is absent if ``mark`` is NULL. The join conditions are ``on``."""

    mark: int
    side: Node
    on: tuple[Scalar, ...]
    outer_marks: tuple[int, ...]


@dataclass(slots=True)
class Block:
    """A block whose marks are columns of its node.

    ``scalars`` are its expressions, each with the marks of the outer join sides that contain it.
    """

    node: Node
    inputs: list[BlockInput] = field(default_factory=list)
    optional_sides: list[OptionalSide] = field(default_factory=list)
    scalars: list[tuple[Scalar, tuple[int, ...]]] = field(default_factory=list)

    @property
    def marks(self) -> list[int]:
        """The columns that tell which sides are absent."""
        return [side.mark for side in self.optional_sides]


def split_block(node: Node, new_column: ColumnFactory) -> Block:
    """Split the largest block that begins at the node into its inputs."""
    block = Block(node)
    block.node = _split(block, node, (), new_column)
    return block


def _split(block: Block, node: Node, marks: tuple[int, ...], new_column: ColumnFactory) -> Node:
    match node:
        case Filter(input=source, predicates=predicates):
            block.scalars += [(scalar, marks) for scalar in predicates]
            return replace(node, input=_split(block, source, marks, new_column))
        case Map(input=source, scalars=scalars):
            block.scalars += [(scalar, marks) for scalar in scalars]
            return replace(node, input=_split(block, source, marks, new_column))
        case Join():
            return _split_join(block, node, marks, new_column)
        case Expand(input=source, calls=calls):
            block.scalars += [(arg, marks) for call in calls for arg in call.args]
            # A function alone in FROM has a dummy row as its input.
            inner = source if isinstance(source, Rows) else _split(block, source, marks, new_column)
            block.inputs.append(BlockInput(node, marks))
            return replace(node, input=inner)
        case Scan() | SharedScan() | Rows() | Group() | GroupingSets() | Distinct() | TopK() | Window():
            block.inputs.append(BlockInput(node, marks))
        case SetOperation():
            block.inputs.append(BlockInput(node, marks))
        case _:
            assert_never(node)
    return node


def _split_join(block: Block, node: Join, marks: tuple[int, ...], new_column: ColumnFactory) -> Node:
    left_marks = right_marks = marks
    left_mark = new_column(BOOLEAN) if node.kind == "full" else None
    right_mark = new_column(BOOLEAN) if node.kind != "inner" else None
    if left_mark is not None:
        left_marks = (*marks, left_mark)
        block.optional_sides.append(OptionalSide(left_mark, node.left, node.on, marks))
    if right_mark is not None:
        right_marks = (*marks, right_mark)
        block.optional_sides.append(OptionalSide(right_mark, node.right, node.on, marks))
    left = _split(block, node.left, left_marks, new_column)
    right = _split(block, node.right, right_marks, new_column)
    block.scalars += [(condition, (*left_marks, *right_marks)) for condition in node.on]
    if left_mark is not None:
        left = Map(left, (left_mark,), (TRUE,))
    if right_mark is not None:
        right = Map(right, (right_mark,), (TRUE,))
    return replace(node, left=left, right=right)


def explaining_columns(node: Node, needed: Ids) -> list[int]:
    """Return the columns of a block's input that explain its rows.

    ``needed`` are the columns that the block uses. LIMIT and windows have the columns of the view's own
    plan, because the order of ties may depend on them.
    """
    match node:
        case Scan(ids=ids) | SharedScan(ids=ids) | Rows(ids=ids) | SetOperation(ids=ids) | Expand(ids=ids):
            return list(ids)
        case Group(key_ids=key_ids, ids=ids):
            return [*key_ids, *(id_ for id_ in ids if id_ in needed)]
        case GroupingSets(key_ids=key_ids, ids=ids, marks=marks):
            return [*key_ids, *(id_ for id_ in ids if id_ in needed), *marks]
        case Distinct(columns=columns):
            return [column.index for column in columns]
        case TopK(group=group, order=order):
            sorting = [column.index for column in (*group, *(key.column for key in order))]
            return sorted((output_ids(node) & needed) | set(sorting))
        case Window(partition=partition, order=order, ties=ties, ids=ids, calls=calls):
            sorting = [column.index for column in (*partition, *(key.column for key in (*order, *ties)))]
            needed_calls = [call for id_, call in zip(ids, calls, strict=True) if id_ in needed]
            read_ids = {id_ for call in needed_calls for id_ in call_columns(call)}
            return sorted((output_ids(node) & needed) | set(sorting) | read_ids)
        case Filter() | Map() | Join():
            raise AssertionError(node)
        case _:
            assert_never(node)
