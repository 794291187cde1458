"""The row that a window function looked from, and the rows that it looked at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kpg.compiler.algebra.rel import OrderBy
from kpg.compiler.sql.bound_tree import Window
from kpg.proof.tree import Kind
from kpg.queries.reading import expand, permutation
from kpg.why import pieces
from kpg.why.asking import Values, Words
from kpg.why.frames import Partition, looked_at
from kpg.why.steps import Child, Step

if TYPE_CHECKING:
    from kpg.why.walk import Children, Place, Walk


def window(walk: "Walk", node: Window, known: Values, place: "Place") -> "Children | None":
    """The row of the input, and for each call that is asked for the rows it looked at. O(partition)."""
    want = pieces.wanted(node, frozenset(known))
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
            few = _few(walk, node, ids, rows, places, place)
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


def _few(
    walk: "Walk", node: Window, ids: Sequence[int], rows: Words, places: Sequence[int], place: "Place"
) -> "Children":
    """Some of the rows that were looked at, with what they come from."""
    found: list[Child] = []
    for number in places[: walk.world.sample]:
        values = dict(zip(ids, rows[:, number].tolist(), strict=True))
        children = walk.of(node.input, values, place.counting(walk.world.sample)) or ()
        found.append(children[0] if len(children) == 1 else Step(Kind.STEP, "together", children))
    return tuple(found)
