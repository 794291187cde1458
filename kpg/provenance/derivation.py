"""Derivation of a row by each kind of node of a bound query: the input rows that produce it.

It covers groups and grouping sets (the rows of the group) and windows (the current row and the rows of its
frame). ``Walk`` descends through the nodes of one query.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.algebra.rel import OrderBy
from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Group, GroupingSets, Node, Query, Window, produced
from kpg.execute.queries.result_rows import expand, permutation
from kpg.provenance import node_rows, row_text
from kpg.provenance.node_rows import EVERY, NEVER, Absent, Asking, Below, Block, Piece, Values, Words
from kpg.provenance.proof_tree import Kind
from kpg.provenance.row_text import Child, Key, Step
from kpg.runtime.functions import Answer, aggregate_named, window_function
from kpg.runtime.plan.nodes import Bound, Edge, Exclude, Frame, Ranged, Unit, WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar, columns
from kpg.runtime.types import NULL

Fresh = dict[Scalar, int]


def group(walk: "Walk", node: Group | GroupingSets, known: Values, place: "Place") -> "Children | None":
    """A group with such values, or every one: how many rows it has, and some of them. O(group)."""
    found = _wholes(walk, node, known, place)
    chosen = found if place.every else found[:1]
    return tuple(_group(walk, node, whole, known, place) for whole in chosen) or None


def _group(walk: "Walk", node: Group | GroupingSets, whole: Values, known: Values, place: "Place") -> Step:
    every = range(len(node.keys))
    chosen = every if isinstance(node, Group) else _set_of(walk, node, whole, place)
    tests = [walk.asking.same(node.keys[number], whole[node.key_ids[number]]) for number in chosen]
    block = node_rows.opened(node.input, walk.asking.fresh)
    args: dict[Scalar, None] = {
        arg: None for call in node.aggregates for arg in call.args if not isinstance(arg, Literal)
    }
    block.scalars += [(scalar, ()) for scalar in (*node.keys, *args)]  # for the subqueries in them
    fresh = {arg: walk.asking.fresh(arg.type) for arg in args}
    asked = walk.asking.asked([*node.keys, *args]) & produced(node.input)
    want = list(dict.fromkeys((*walk.wanted(block, asked), *fresh.values())))
    source = bound_tree.Map(block.node, tuple(fresh.values()), tuple(fresh)) if fresh else block.node
    data, diff = walk.asking.rows(source, want, {}, place.outer, tests)
    order = _order(node, known, fresh, want, data)
    few = tuple(_few(walk, block, want, data[:, order], place))
    return Step(Kind.GROUP, _text(walk, node, whole, known), few, count=int(diff.sum()))


def _wholes(walk: "Walk", node: Group | GroupingSets, known: Values, place: "Place") -> list[dict[int, int]]:
    """The known values with all keys, and the marks of grouping sets: of each group that has them."""
    marks = node.marks if isinstance(node, GroupingSets) else ()
    missing = [id_ for id_ in (*node.key_ids, *marks) if id_ not in known]
    if not missing and known:
        return [dict(known)]
    data, _ = walk.asking.rows(node, missing or list(node.ids), known, place.outer)
    return [{**known, **dict(zip(missing or node.ids, row, strict=True))} for row in data.T.tolist()]


def _set_of(walk: "Walk", node: GroupingSets, whole: Values, place: "Place") -> Sequence[int]:
    """Which keys a group of several sets is by: those of the first set that has such a group."""
    for number, places in enumerate(node.sets):
        others = [id_ for at, id_ in enumerate(node.key_ids) if at not in places]
        if any(whole[mark] != node.marked[i][number] for i, mark in enumerate(node.marks)):
            continue
        if any(whole[id_] != NULL for id_ in others):
            continue
        ids = tuple(node.key_ids[at] for at in places)
        alone = Group(node.input, ids, tuple(node.keys[at] for at in places), node.ids, node.aggregates)
        known = {id_: whole[id_] for id_ in whole if id_ in {*ids, *node.ids}}
        if walk.asking.rows(alone, [*ids, *known], known, place.outer)[0].shape[1]:
            return places
    return node.sets[0]


def _order(
    node: Group | GroupingSets, known: Values, fresh: Fresh, want: Sequence[int], data: Words
) -> NDArray[np.int64]:
    """Which rows are shown first: those with the least or greatest value, and those that count at all."""
    worse = np.zeros(data.shape[1], np.int64)
    for id_, call in zip(node.ids, node.aggregates, strict=True):
        if not call.args or call.args[0] not in fresh:
            continue
        words = data[want.index(fresh[call.args[0]])]
        worse += words == NULL
        if aggregate_named(call.function).selects and id_ in known:
            worse += words != known[id_]
    return np.argsort(worse, kind="stable")


def _few(walk: "Walk", block: Block, want: Sequence[int], data: Words, place: "Place") -> Iterator[Child]:
    """The first rows of a group with what each comes from."""
    left = walk.world.sample
    for values in walk.candidates(block, want, data, place):
        if left == 0:
            return
        found = walk.joined(block, values, place.counting(walk.world.sample))
        if found is None:
            continue
        left = left if left is None else left - 1
        if len(found) == 1:
            yield found[0]
        else:
            yield Step(Kind.STEP, "together", found)


def _text(walk: "Walk", node: Group | GroupingSets, whole: Values, known: Values) -> str:
    """``sum(total) = 12, count(*) = 3``, of those whose values are asked for."""
    parts = [
        f"{call.text or call.function} = {walk.shown(id_, known[id_])}"
        for id_, call in zip(node.ids, node.aggregates, strict=True)
        if id_ in known
    ]
    keys = [walk.shown(id_, whole[id_]) for id_ in node.key_ids]
    by = f"GROUP BY {', '.join(keys)}" if keys else ""
    return "; ".join(part for part in (by, ", ".join(parts)) if part) or "a group"


Ordered = Callable[[int, Words], Words]
"""Words of a column as numbers in the order of its values, both of a row and of all rows."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of a partition in order: columns by their ids, and the number of each row's group of peers."""

    columns: Mapping[int, Words]
    peers: Words
    ordered: Ordered

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.peers.shape[0])


def looked_at(call: WindowCall, partition: Partition, position: int) -> Sequence[int]:
    """The places of the rows that a call's answer for the row at ``position`` depends on most directly."""
    known = window_function(call.function)
    every = range(partition.size)
    if known is None:
        return framed(call.frame, partition, position)
    match known.answer:
        case Answer.ROW_NUMBER:
            return range(position + 1)
        case Answer.RANK | Answer.DENSE_RANK:
            return np.flatnonzero(partition.peers < partition.peers[position]).tolist()
        case Answer.PERCENT_RANK | Answer.CUME_DIST | Answer.NTILE:
            return every
        case Answer.LAG | Answer.LEAD:
            offset = _number(call, partition, position, 1)
            if offset is None:
                return ()
            place = position - offset if known.answer is Answer.LAG else position + offset
            return (place,) if 0 <= place < partition.size else ()
        case Answer.FIRST_VALUE:
            return framed(call.frame, partition, position)[:1]
        case Answer.LAST_VALUE:
            return framed(call.frame, partition, position)[-1:]
        case Answer.NTH_VALUE:
            number = _number(call, partition, position, 1)
            rows = framed(call.frame, partition, position)
            return rows[number - 1 : number] if number else ()
        case _:
            assert_never(known.answer)


def _number(call: WindowCall, partition: Partition, position: int, default: int) -> int | None:
    """The second argument: how far, or which."""
    arg = call.args[1] if len(call.args) > 1 else Literal(default, call.type)
    if isinstance(arg, Column):
        word = int(partition.columns[arg.index][position])
        return None if word == NULL else word
    return arg.value if isinstance(arg, Literal) and isinstance(arg.value, int) else None


def framed(frame: Frame, partition: Partition, position: int) -> list[int]:
    """The places of the rows in the frame of a row."""
    first, last = (_edge(frame, bound, partition, position) for bound in (frame.start, frame.end))
    start, stop = max(first[0], 0), min(last[1], partition.size)
    rows = np.arange(start, max(stop, start))
    others = partition.peers[rows] != partition.peers[position]
    match frame.exclude:
        case Exclude.NO_OTHERS:
            return rows.tolist()
        case Exclude.CURRENT_ROW:
            return rows[rows != position].tolist()
        case Exclude.GROUP:
            return rows[others].tolist()
        case Exclude.TIES:
            return rows[others | (rows == position)].tolist()
        case _:
            assert_never(frame.exclude)


def _edge(frame: Frame, bound: Bound, partition: Partition, position: int) -> tuple[int, int]:
    """Where a bound is: the first place of it, for a start, and the place after it, for an end."""
    if bound.edge is Edge.UNBOUNDED_PRECEDING:
        return 0, 0
    if bound.edge is Edge.UNBOUNDED_FOLLOWING:
        return partition.size, partition.size
    if frame.unit is Unit.ROWS:
        place = position + _distance(bound, partition, position)
        return place, place + 1
    if frame.unit is Unit.RANGE and bound.edge is not Edge.CURRENT_ROW and frame.ranged is not None:
        return _ranged(frame.ranged, bound, partition, position)
    number = int(partition.peers[position])
    if bound.edge is not Edge.CURRENT_ROW:
        number += _distance(bound, partition, position)
    return (
        int(np.searchsorted(partition.peers, number, "left")),
        int(np.searchsorted(partition.peers, number, "right")),
    )


def _distance(bound: Bound, partition: Partition, position: int) -> int:
    if bound.edge is Edge.CURRENT_ROW:
        return 0
    far = bound.offset if bound.column is None else int(partition.columns[bound.column][position])
    return -far if bound.edge is Edge.PRECEDING else far


def _ranged(ranged: Ranged, bound: Bound, partition: Partition, position: int) -> tuple[int, int]:
    """By values: NULLs are peers of each other and nobody's neighbours."""
    words = partition.columns[ranged.column]
    there = np.flatnonzero(words != NULL)
    if words[position] == NULL:
        number = partition.peers[position]
        left = np.searchsorted(partition.peers, number, "left")
        return int(left), int(np.searchsorted(partition.peers, number, "right"))
    if bound.column is not None:
        value = partition.columns[bound.column][position : position + 1]
        both = partition.ordered(ranged.column, np.concatenate((words[there], value)))
        values, limit = both[:-1], int(both[-1])
    else:
        sign = 1 if (bound.edge is Edge.FOLLOWING) != ranged.descending else -1
        values, limit = words[there], int(words[position]) + sign * bound.offset
    if ranged.descending:
        values, limit = -values, -limit
    offset = int(there[0])
    return (
        offset + int(np.searchsorted(values, limit, "left")),
        offset + int(np.searchsorted(values, limit, "right")),
    )


def window(walk: "Walk", node: Window, known: Values, place: "Place") -> "Children | None":
    """The row of the input, and for each call that is asked for the rows it looked at. O(partition)."""
    want = node_rows.wanted(node, frozenset(known))
    data, _ = walk.asking.rows(node, want, known, place.outer)
    if not data.shape[1]:
        return None
    whole = dict(zip(want, data[:, 0].tolist(), strict=True))
    row = {id_: word for id_, word in whole.items() if id_ not in node.ids}
    own = walk.of(node.input, row, place)
    if own is None:
        return None
    ids = list(row)
    rows = _sorted(walk, node, ids, row, place)
    partition = Partition(
        dict(zip(ids, rows, strict=True)), _peers(walk, node, ids, rows), walk.asking.ordered
    )
    position = int(np.argmax(np.all(rows == np.array([[row[id_]] for id_ in ids], np.int64), axis=0)))
    found = list[Child](own)
    for id_, call in zip(node.ids, node.calls, strict=True):
        if id_ in known:
            places = looked_at(call, partition, position)
            if walk.world.sample is None:
                places = _between(places, position)
            few = _few_rows(walk, node, ids, rows, places, place)
            text = f"{call.text or call.function} = {walk.shown(id_, known[id_])}"
            found.append(Step(Kind.GROUP, text, few, count=len(places)))
    return tuple(found)


def _between(places: Sequence[int], position: int) -> Sequence[int]:
    """With those between them and the row: by how many there are, some frames know how far away a row is."""
    if not places:
        return places
    every = range(min(position, *places), max(position, *places) + 1)
    return [place for place in every if place != position or place in places]


def _sorted(walk: "Walk", node: Window, ids: Sequence[int], row: Values, place: "Place") -> Words:
    """The rows of the partition in its order."""
    known = {column.index: row[column.index] for column in node.partition}
    rows = expand(*walk.asking.rows(node.input, ids, known, place.outer))
    keys = (*node.order, *node.ties)
    if not keys:
        return rows
    order = tuple(OrderBy(ids.index(key.column.index), key.descending, key.nulls_first) for key in keys)
    types = [walk.asking.types[id_] for id_ in ids]
    return np.ascontiguousarray(rows[:, permutation(rows, order, types, walk.asking.dictionary)])


def _peers(walk: "Walk", node: Window, ids: Sequence[int], rows: Words) -> Words:
    """The number of the group of peers of each of the rows, which are in order."""
    size = rows.shape[1]
    new = np.zeros(size, np.bool_)
    for key in node.order:
        words = walk.asking.ordered(key.column.index, rows[ids.index(key.column.index)])
        new[1:] |= words[1:] != words[:-1]
    return np.cumsum(new)


def _few_rows(
    walk: "Walk", node: Window, ids: Sequence[int], rows: Words, places: Sequence[int], place: "Place"
) -> "Children":
    """Some of the rows that were looked at, with what they come from."""
    found: list[Child] = []
    for number in places[: walk.world.sample]:
        values = dict(zip(ids, rows[:, number].tolist(), strict=True))
        children = walk.of(node.input, values, place.counting(walk.world.sample)) or ()
        found.append(children[0] if len(children) == 1 else Step(Kind.STEP, "together", children))
    return tuple(found)


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


class Explained(Protocol):
    """The relations that an explanation reads."""

    @property
    def sample(self) -> int | None:
        """The number of rows of an aggregate that are explained; None for all."""

    def columns_of(self, name: str) -> Sequence[str]:
        """The names of a relation's columns."""

    def scanned(self, node: bound_tree.Scan, row: tuple[int, ...], *, every: bool = False) -> Children:
        """A row of what is scanned."""

    def viewed(self, name: str, row: tuple[int, ...], *, every: bool = False) -> Children:
        """A row of a view."""


class Walk:
    """Explanations of rows of one bound query's nodes."""

    def __init__(self, world: Explained, asking: Asking, number: int) -> None:
        self.world = world
        self.asking = asking
        self.number = number
        self.names = row_text.Names(asking.resolved, asking.dictionary, world.columns_of)
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
                return group(self, node, known, place)
            case bound_tree.Distinct(input=source, columns=kept):
                chosen = {column.index for column in kept}
                only = {id_: known[id_] for id_ in known if id_ in chosen}
                return self.of(source, only, replace(place, every=False))
            case bound_tree.TopK():
                return self._top(node, known, place)
            case bound_tree.Window():
                return window(self, node, known, place)
            case bound_tree.SetOperation():
                return self._set_operation(node, known, place)
            case _:
                assert_never(node)

    # Blocks

    def _block(self, node: Node, known: Values, place: Place) -> Children | None:
        """What is joined, by the first way in which the row comes about, or by every one."""
        block = node_rows.opened(node, self.asking.fresh)
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
        want = [id_ for piece in block.pieces for id_ in node_rows.wanted(piece.node, needed)]
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
        return f"no row of {row_text.title(absent.side)}" + (f" with {tests}" if tests else "")

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
            row_text.value_of(word, column.type, self.asking.dictionary)
            for word, column in zip(row, query.columns, strict=True)
        ][: len(query.names)]
        title = row_text.label(name)
        text = row_text.row_text(title, query.names, values)
        return Step(Kind.VIEW, text, children, title, tuple(values), query.names)

    def shown(self, id_: int, word: int) -> str:
        """A value as text."""
        return row_text.shown(row_text.value_of(word, self.asking.types[id_], self.asking.dictionary))

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
            return f"the subquery of {row_text.title(subquery.query.node)}"
        text = " ".join(span.source[span.start : span.end].split())
        return text if len(text) <= 2 * row_text.MOST else f"{text[: 2 * row_text.MOST]}…"

    # LIMIT and sets

    def _top(self, node: bound_tree.TopK, known: Values, place: Place) -> Children | None:
        """The row of the input, by the columns that decided on it, and some of those OFFSET leaves out."""
        want = node_rows.wanted(node, frozenset(known))
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
