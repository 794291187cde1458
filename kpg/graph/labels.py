"""The least label that comes to each node, with small labels let go first.

Where all labels set out at once a node is told of many that it will not keep. So labels that are whole
numbers are let go by the length of their binary numbers: the small ones, few, are some rounds ahead, and most
others find every node taken. The result is the same (as in the shared arrangements paper's programs).
"""

from collections.abc import Callable
from typing import Final

from kpg.collections.collection import Collection
from kpg.collections.expression import Expression, case, literal
from kpg.collections.scope import LoopScope
from kpg.graph.recursion import recursive

SPACING: Final = 2
"""Rounds between labels of one length and those of the next."""


def least_labels(nodes: Collection, *edges: Collection) -> Collection:
    """(node, label): the least of the labels given in ``nodes`` (node, label) that come to a node."""
    release = _release(nodes) if nodes.types[1].is_integer else lambda loop: nodes

    def body(labels: Collection, loop: LoopScope) -> Collection:
        passed = [
            labels.join(some, {"node": "src"}, lambda a, e: {"node": e.dst, "label": a.label})
            for some in edges
        ]
        return release(loop).concat(*passed).min("label", key="node")

    return recursive(nodes, body)


def _release(nodes: Collection) -> Callable[[LoopScope], Collection]:
    """The nodes inside a loop, each from the round that its label gives, by a clock that ticks there."""
    timed = nodes.map(lambda n: {"node": n.node, "label": n.label, "tick": _tick(n.label)})
    last = timed.max("tick").rename(tick="last")
    start = last.map(lambda _: {"tick": 0})

    def released(loop: LoopScope) -> Collection:
        clock = loop.variable(tick=int)
        later = clock.join(last, (), lambda c, end: {"tick": c.tick + 1, "last": end.last})
        now = later.filter(lambda r: r.tick <= r.last).project("tick").concat(start)
        clock.set(now)
        return timed.join(now, "tick").project("node", "label")

    return released


def _tick(label: Expression, least: int = 0, most: int = 63) -> Expression:
    """The round at which a label is let go: SPACING times the length of its binary number."""
    if least == most:
        return literal(least * SPACING)
    middle = (least + most) // 2
    return case(label < 2**middle, _tick(label, least, middle), _tick(label, middle + 1, most))
