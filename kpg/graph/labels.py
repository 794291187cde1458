"""The least label that comes to each node, with small labels let go first.

Where all labels set out at once a node is told of many that it will not keep. So labels that are whole
numbers are let go by the length of their binary numbers: the small ones, few, are some rounds ahead, and most
others find every node taken. The result is the same (as in the shared arrangements paper's programs).
"""

from typing import Final

from kpg.collections import Collection, Expression, LoopScope, case, literal, recursive

SPACING: Final = 2
"""Rounds between labels of one length and those of the next."""


def least_labels(nodes: Collection, *edges: Collection) -> Collection:
    """(node, label): the least of the labels given in ``nodes`` (node, label) that come to a node."""
    ordered = nodes.types[1].is_integer

    def body(labels: Collection, loop: LoopScope) -> Collection:
        passed = [
            labels.join(some, {"node": "src"}, lambda a, e: {"node": e.dst, "label": a.label})
            for some in edges
        ]
        released = loop.enter_at(nodes, lambda n: _round(n.label)) if ordered else nodes
        return released.concat(*passed).min("label", key="node")

    return recursive(nodes, body)


def _round(label: Expression, least: int = 0, most: int = 63) -> Expression:
    """The round at which a label is let go: SPACING times the length of its binary number."""
    if least == most:
        return literal(least * SPACING)
    middle = (least + most) // 2
    return case(label < 2**middle, _round(label, least, middle), _round(label, middle + 1, most))
