"""The rows that an aggregate took together."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Group, GroupingSets, produced
from kpg.proof.tree import Kind
from kpg.runtime.functions import aggregate_named
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import NULL
from kpg.why import pieces
from kpg.why.asking import Values, Words
from kpg.why.pieces import Block
from kpg.why.steps import Child, Step

if TYPE_CHECKING:
    from kpg.why.walk import Children, Place, Walk

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
    block = pieces.opened(node.input, walk.asking.fresh)
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
