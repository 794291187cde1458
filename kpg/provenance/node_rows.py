"""Queries over a node of a bound query: its rows with given values in some columns.

It splits a block into its joined inputs, and adds markers that show which side of an outer join is absent.
It also looks up the round in which a recursive row appeared, so that only earlier rows explain it.
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
from kpg.execute.queries.query_plan import plan_bound
from kpg.execute.queries.result_rows import literal_of, permutation
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions.comparison import key_string
from kpg.runtime.handles import RankLookup
from kpg.runtime.plan.nodes import call_columns
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, NULL, Kind, Type, is_loose
from kpg.session.engine import Engine

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


NEVER: Final = 1 << 60
"""A round that no row comes in."""


@dataclass(frozen=True, slots=True)
class Below:
    """Rows of the recursive queries ``names`` that came before a round.

    All rows where there are no ``ranks``: then none is a reason of itself."""

    names: frozenset[str]
    round: int
    ranks: Mapping[str, RankLookup | None]

    def allows(self, name: str, rows: Words) -> NDArray[np.bool_]:
        """Which of the rows ``int64[w, n]`` came before."""
        lookup = self.ranks.get(name)
        if lookup is None:
            return np.ones(rows.shape[1], np.bool_)
        ranks = lookup.of(rows)
        return (ranks >= 0) & (ranks < self.round)


EVERY = Below(frozenset(), NEVER, {})


Fresh = Callable[[Type], int]
TRUE = Literal(1, BOOLEAN)


@dataclass(frozen=True, slots=True)
class Piece:
    """What is joined in a block. It is absent, and its columns NULL, where one of the ``marks`` is.

    Of an :class:`Expand` it is what its functions make, not its input.
    """

    node: Node
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """A side of an outer join that is absent where ``mark`` is NULL, for the conditions ``on``."""

    mark: int
    side: Node
    on: tuple[Scalar, ...]
    around: tuple[int, ...]


@dataclass(slots=True)
class Block:
    """A block with its marks as columns, and its scalars with the marks that they are under."""

    node: Node
    pieces: list[Piece] = field(default_factory=list)
    absents: list[Absent] = field(default_factory=list)
    scalars: list[tuple[Scalar, tuple[int, ...]]] = field(default_factory=list)

    @property
    def marks(self) -> list[int]:
        """The columns that tell what is absent."""
        return [absent.mark for absent in self.absents]


def opened(node: Node, fresh: Fresh) -> Block:
    """The largest block that the node is."""
    block = Block(node)
    block.node = _opened(block, node, (), fresh)
    return block


def _opened(block: Block, node: Node, marks: tuple[int, ...], fresh: Fresh) -> Node:
    match node:
        case Filter(input=source, predicates=predicates):
            block.scalars += [(one, marks) for one in predicates]
            return replace(node, input=_opened(block, source, marks, fresh))
        case Map(input=source, scalars=scalars):
            block.scalars += [(one, marks) for one in scalars]
            return replace(node, input=_opened(block, source, marks, fresh))
        case Join():
            return _join(block, node, marks, fresh)
        case Expand(input=source, calls=calls):
            block.scalars += [(arg, marks) for call in calls for arg in call.args]
            # A function that stands alone in FROM is over one row without meaning.
            inner = source if isinstance(source, Rows) else _opened(block, source, marks, fresh)
            block.pieces.append(Piece(node, marks))
            return replace(node, input=inner)
        case Scan() | Shared() | Rows() | Group() | GroupingSets() | Distinct() | TopK() | Window():
            block.pieces.append(Piece(node, marks))
        case SetOperation():
            block.pieces.append(Piece(node, marks))
        case _:
            assert_never(node)
    return node


def _join(block: Block, node: Join, marks: tuple[int, ...], fresh: Fresh) -> Node:
    left_marks = right_marks = marks
    left_mark = fresh(BOOLEAN) if node.kind == "full" else None
    right_mark = fresh(BOOLEAN) if node.kind != "inner" else None
    if left_mark is not None:
        left_marks = (*marks, left_mark)
        block.absents.append(Absent(left_mark, node.left, node.on, marks))
    if right_mark is not None:
        right_marks = (*marks, right_mark)
        block.absents.append(Absent(right_mark, node.right, node.on, marks))
    left = _opened(block, node.left, left_marks, fresh)
    right = _opened(block, node.right, right_marks, fresh)
    block.scalars += [(one, (*left_marks, *right_marks)) for one in node.on]
    if left_mark is not None:
        left = Map(left, (left_mark,), (TRUE,))
    if right_mark is not None:
        right = Map(right, (right_mark,), (TRUE,))
    return replace(node, left=left, right=right)


def wanted(node: Node, needed: Ids) -> list[int]:
    """The columns of a piece by which its row is explained, if the block needs those that are ``needed``.

    Of a LIMIT and a window they are those that the view's own plan has: which of equal rows comes first may
    depend on them.
    """
    match node:
        case Scan(ids=ids) | Shared(ids=ids) | Rows(ids=ids) | SetOperation(ids=ids) | Expand(ids=ids):
            return list(ids)
        case Group(key_ids=key_ids, ids=ids):
            return [*key_ids, *(id_ for id_ in ids if id_ in needed)]
        case GroupingSets(key_ids=key_ids, ids=ids, marks=marks):
            return [*key_ids, *(id_ for id_ in ids if id_ in needed), *marks]
        case Distinct(columns=columns):
            return [column.index for column in columns]
        case TopK(group=group, order=order):
            sorting = [column.index for column in (*group, *(key.column for key in order))]
            return sorted((produced(node) & needed) | set(sorting))
        case Window(partition=partition, order=order, ties=ties, ids=ids, calls=calls):
            sorting = [column.index for column in (*partition, *(key.column for key in (*order, *ties)))]
            chosen = [call for id_, call in zip(ids, calls, strict=True) if id_ in needed]
            read = {id_ for call in chosen for id_ in call_columns(call)}
            return sorted((produced(node) & needed) | set(sorting) | read)
        case Filter() | Map() | Join():
            raise AssertionError(node)
        case _:
            assert_never(node)
