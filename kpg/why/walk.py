"""What a row of each kind of node comes from, in one bound query."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Node, Query, produced
from kpg.proof.tree import Kind
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, columns
from kpg.runtime.types import NULL
from kpg.why import groups, pieces, texts, windows
from kpg.why.asking import Asking, Values, Words
from kpg.why.pieces import Absent, Block, Piece
from kpg.why.recursion import EVERY, NEVER, Below
from kpg.why.steps import Child, Key, Step

if TYPE_CHECKING:
    from kpg.why.world import World

Children = tuple[Child, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a query a row is: the values around it, and which rows of a recursion may explain it.

    ``every``: of rows that are there several times all are explained, since what is asked for counts them.
    """

    outer: Values
    below: Below = EVERY
    every: bool = False

    def counting(self, sample: int | None) -> "Place":
        """That of rows which are counted: every one is explained if no sample of them is enough."""
        return replace(self, every=sample is None)


class Walk:
    """Explanations of rows of one bound query's nodes."""

    def __init__(self, world: "World", asking: Asking, number: int) -> None:
        self.world = world
        self.asking = asking
        self.number = number
        self.names = texts.Names(asking.resolved, asking.dictionary, world.columns_of)
        for query in (asking.resolved.query, *asking.resolved.shared.values()):
            self.names.note(query.node)
        for subquery in asking.resolved.subqueries.values():
            self.names.note(subquery.query.node)

    def query(self, query: Query, row: Sequence[int], place: Place) -> Children | None:
        """What a row of a query comes from; None if there is no such row."""
        pairs = zip(query.columns, row, strict=False)
        return self.of(query.node, {column.index: word for column, word in pairs}, place)

    def of(self, node: Node, known: Values, place: Place) -> Children | None:
        """What a row of a node with ``known`` values comes from; None if there is none (in that place)."""
        match node:
            case bound_tree.Filter() | bound_tree.Map() | bound_tree.Join() | bound_tree.Expand():
                return self._block(node, known, place)
            case bound_tree.Scan() | bound_tree.Shared() | bound_tree.Rows():
                return self._block(node, known, place)
            case bound_tree.Group() | bound_tree.GroupingSets():
                return groups.group(self, node, known, place)
            case bound_tree.Distinct(input=source, columns=kept):
                chosen = {column.index for column in kept}
                only = {id_: known[id_] for id_ in known if id_ in chosen}
                return self.of(source, only, replace(place, every=False))
            case bound_tree.TopK():
                return self._top(node, known, place)
            case bound_tree.Window():
                return windows.window(self, node, known, place)
            case bound_tree.SetOperation():
                return self._set_operation(node, known, place)
            case _:
                assert_never(node)

    # Blocks

    def _block(self, node: Node, known: Values, place: Place) -> Children | None:
        """What is joined, by the first way in which the row comes about, or by every one."""
        block = pieces.opened(node, self.asking.fresh)
        want = self.wanted(block, frozenset(known))
        data, diff = self.asking.rows(block.node, want, known, place.outer)
        number = int(diff.sum())
        ways: list[Child] = []
        for values in self.candidates(block, want, data, place):
            found = self.joined(block, values, place)
            if found is None:
                continue
            if number == 1:
                return found
            if not place.every:
                return (Step(Kind.STEP, f"one of {number} such rows", found, count=number),)
            ways += found if len(found) == 1 else (Step(Kind.STEP, "together", found),)
        return (Step(Kind.STEP, f"{number} such rows", tuple(ways), count=number),) if ways else None

    def wanted(self, block: Block, needed: frozenset[int]) -> list[int]:
        """The columns of a block's rows that explain them."""
        asked = self.asking.asked([scalar for scalar, _ in block.scalars])
        inside = frozenset(id_ for piece in block.pieces for id_ in produced(piece.node))
        lateral = frozenset[int]().union(
            *(bound_tree.free(piece.node, self.asking.resolved.subqueries) for piece in block.pieces)
        )
        needed = needed | (asked & inside)
        want = [id_ for piece in block.pieces for id_ in pieces.wanted(piece.node, needed)]
        return list(dict.fromkeys((*want, *block.marks, *sorted((needed | lateral) & inside))))

    def candidates(self, block: Block, want: Sequence[int], data: Words, place: Place) -> Iterator[Values]:
        """The rows of a block as values, without those that the place in a recursion forbids."""
        fine = np.ones(data.shape[1], np.bool_)
        places = {id_: number for number, id_ in enumerate(want)}
        for piece in block.pieces:
            node = piece.node
            if isinstance(node, bound_tree.Shared) and node.name in place.below.names:
                rows = np.ascontiguousarray(data[[places[id_] for id_ in node.ids]])
                absent = self._absent(piece, data, places)
                fine &= absent | place.below.allows(node.name, rows)
        for position in np.flatnonzero(fine).tolist():
            yield dict(zip(want, data[:, position].tolist(), strict=True))

    def _absent(self, piece: Piece, data: Words, places: Mapping[int, int]) -> NDArray[np.bool_]:
        gone = np.zeros(data.shape[1], np.bool_)
        for mark in piece.marks:
            gone |= data[places[mark]] == NULL
        return gone

    def joined(self, block: Block, values: Values, place: Place) -> Children | None:
        """What one row of a block was joined of; None if a part of it has no explanation in its place."""
        around = {**place.outer, **values}
        found: dict[object, Child] = {}
        for piece in block.pieces:
            if any(values[mark] == NULL for mark in piece.marks):
                continue
            children = self._piece(piece.node, values, replace(place, outer=around))
            if children is None:
                return None
            found.update((child if isinstance(child, Key) else id(child), child) for child in children)
        steps = [*self._missing(block, values, around), *self._subqueries(block, values, around, place)]
        return (*found.values(), *steps)

    def _missing(self, block: Block, values: Values, around: Values) -> Iterator[Step]:
        for absent in block.absents:
            if values[absent.mark] == NULL and all(values[mark] != NULL for mark in absent.around):
                yield Step(Kind.NEGATION, self._absence(absent, around))

    def _absence(self, absent: Absent, around: Values) -> str:
        own = produced(absent.side)
        known = {id_: word for id_, word in around.items() if id_ not in own}
        tests = " AND ".join(self.names.scalar(test, known) for test in absent.on if columns(test))
        return f"no row of {texts.title(absent.side)}" + (f" with {tests}" if tests else "")

    def _piece(self, node: Node, values: Values, place: Place) -> Children | None:
        """What the row of a piece is, or comes from."""
        own = {id_: values[id_] for id_ in produced(node) if id_ in values}
        if isinstance(node, bound_tree.Scan):
            return self.world.scanned(node, tuple(own[id_] for id_ in node.ids), every=place.every)
        if isinstance(node, bound_tree.Shared):
            return self._shared(node, own, place)
        if isinstance(node, bound_tree.Rows):
            row = tuple(self.shown(id_, own[id_]) for id_ in node.ids)
            return (Step(Kind.CONSTRAINT, f"VALUES ({', '.join(row)})"),)
        if isinstance(node, bound_tree.Expand):
            made = ", ".join(self.shown(id_, own[id_]) for id_ in node.ids)
            text = ", ".join(call.text or call.function for call in node.calls)
            return (Step(Kind.CONSTRAINT, f"{text} gives {made}"),)
        return self.of(node, own, place)

    def _shared(self, node: bound_tree.Shared, own: Values, place: Place) -> Children | None:
        row = tuple(own[id_] for id_ in node.ids)
        if node.name.startswith("view "):
            return self.world.viewed(node.name.removeprefix("view "), row, every=place.every)
        if node.name in self.asking.resolved.loops:
            known = place.below.ranks.get(node.name) is not None
            below = 0 if known or place.below.round == NEVER else place.below.round
            return (Key(self.number, node.name, row, below, every=place.every),)
        query = self.asking.resolved.shared[node.name]
        found = self.query(query, row, replace(place, outer={}))
        return None if found is None else (self.row_step(node.name, query, row, found),)

    def row_step(self, name: str, query: Query, row: Sequence[int], children: Children) -> Step:
        """A row of a WITH query with what it comes from."""
        values = [
            texts.value_of(word, column.type, self.asking.dictionary)
            for word, column in zip(row, query.columns, strict=True)
        ][: len(query.names)]
        title = texts.label(name)
        text = texts.row_text(title, query.names, values)
        return Step(Kind.VIEW, text, children, title, tuple(values), query.names)

    def shown(self, id_: int, word: int) -> str:
        """A value as text."""
        return texts.shown(texts.value_of(word, self.asking.types[id_], self.asking.dictionary))

    # Subqueries

    def _subqueries(self, block: Block, values: Values, around: Values, place: Place) -> Iterator[Step]:
        """What the subqueries in a block's expressions found for a row."""
        seen: set[int] = set()
        for scalar, marks in block.scalars:
            if any(values[mark] == NULL for mark in marks):
                continue
            for id_ in sorted(columns(scalar)):
                if id_ in self.asking.resolved.subqueries and id_ not in seen:
                    seen.add(id_)
                    yield self._subquery(self.asking.resolved.subqueries[id_], Place(around, place.below))

    def _subquery(self, subquery: bound_tree.Subquery, place: Place) -> Step:
        node = subquery.query.node
        own = produced(node)
        tests: tuple[Scalar, ...] = subquery.comparison
        if tests:
            node = bound_tree.Filter(node, tests)
        found = self.of(node, {}, place)
        text = self._subquery_text(subquery)
        if found is None:
            known = {id_: word for id_, word in place.outer.items() if id_ not in own}
            where = " AND ".join(self.names.scalar(test, known) for test in tests)
            return Step(Kind.NEGATION, f"no row in {text}" + (f" with {where}" if where else ""))
        return Step(Kind.STEP, f"a row in {text}", found)

    def _subquery_text(self, subquery: bound_tree.Subquery) -> str:
        span = subquery.place()
        if span is None:
            return f"the subquery of {texts.title(subquery.query.node)}"
        text = " ".join(span.source[span.start : span.end].split())
        return text if len(text) <= 2 * texts.MOST else f"{text[: 2 * texts.MOST]}…"

    # LIMIT and sets

    def _top(self, node: bound_tree.TopK, known: Values, place: Place) -> Children | None:
        """The row of the input, by the columns that decided on it, and some of those OFFSET leaves out."""
        want = pieces.wanted(node, frozenset(known))
        data, _ = self.asking.rows(node, want, known, place.outer)
        if data.shape[1]:
            known = dict(zip(want, data[:, 0].tolist(), strict=True))
        found = self.of(node.input, known, place)
        if found is None:
            return None
        before = self._before(node, want, known, place) if node.offset else ()
        return (Step(Kind.STEP, self._top_text(node, known), (*found, *before)),)

    def _before(self, node: bound_tree.TopK, want: Sequence[int], known: Values, place: Place) -> Children:
        """The rows that OFFSET leaves out, a few of them."""
        tests = [self.asking.same(column, known[column.index]) for column in node.group]
        left_out = replace(node, limit=node.offset, offset=0)
        data, diff = self.asking.rows(left_out, want, {}, place.outer, tests)
        few = list[Child]()
        for row in data[:, : self.world.sample].T.tolist():
            found = self.of(node.input, dict(zip(want, row, strict=True)), place.counting(self.world.sample))
            if found is not None:
                few += found if len(found) == 1 else (Step(Kind.STEP, "together", found),)
        return (Step(Kind.GROUP, f"OFFSET {node.offset}", tuple(few), count=int(diff.sum())),)

    def _top_text(self, node: bound_tree.TopK, known: Values) -> str:
        limit = "" if node.limit is None else f"among the first {node.limit}"
        if node.offset:
            limit += f" after {node.offset}" if limit else f"after the first {node.offset}"
        keys = [self._key_text(key, known) for key in node.order]
        return limit + (f" by {', '.join(keys)}" if keys else "")

    def _key_text(self, key: bound_tree.SortKey, known: Values) -> str:
        id_ = key.column.index
        text = self.names.scalar(key.column, {}) + (" DESC" if key.descending else "")
        return f"{text} = {self.shown(id_, known[id_])}" if id_ in known else text

    def _set_operation(self, node: bound_tree.SetOperation, known: Values, place: Place) -> Children | None:
        sides = [
            {query.columns[node.ids.index(id_)].index: word for id_, word in known.items()}
            for query in (node.left, node.right)
        ]
        place = replace(place, every=place.every and node.all)
        # The second query may have some of the rows that the first has: which are left over is not known.
        left_over = node.kind == "except" and node.all and self.world.sample is None
        left = self.of(node.left.node, sides[0], replace(place, every=place.every or left_over))
        word = node.kind.upper() + (" ALL" if node.all else "")
        if node.kind == "union":
            if left is not None and not place.every:
                return (Step(Kind.STEP, f"{word}: the first query", left),)
            right = self.of(node.right.node, sides[1], place)
            both = (("first", left), ("second", right))
            steps = [Step(Kind.STEP, f"{word}: the {which} query", side) for which, side in both if side]
            return tuple(steps) or None
        if left is None:
            return None
        if node.kind == "intersect":
            right = self.of(node.right.node, sides[1], place) or ()
            first, second = (
                Step(Kind.STEP, f"{word}: the {which} query", side)
                for which, side in (("first", left), ("second", right))
            )
            return (first, second)
        fewer = "fewer such rows" if node.all else "no such row"
        return (*left, Step(Kind.NEGATION, f"{fewer} in the second query of {word}"))

    def column(self, id_: int) -> Column:
        """The column of an id."""
        return self.asking.column(id_)
