"""An index of one large window partition: its rows in order, as leaves of a tree of partial aggregates.

A node stores its number of rows, its number of peer groups, and the partial aggregate of each call. So
finding a position and aggregating any stretch of rows take O(log n). Trees are persistent: a change makes a
new tree that shares all unchanged blocks.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.operators.windows.window_evaluation import Partial, Summary
from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
Key = tuple[object, ...]
BLOCK = 256
"""Rows of a block when it is made; twice as many are split."""
FAN = 16
"""Nodes that are summed up in one node above."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of a stretch of rows, at least one."""

    size: int
    groups: int
    first: tuple[int, ...]
    """What its first row has in common with its peers."""
    last: tuple[int, ...]
    partials: tuple[Partial, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the indexes of a window have in common: how rows are compared, what makes peers, the summaries."""

    width: int
    key: Callable[[list[int]], Key]
    peers: tuple[int, ...]
    summaries: tuple[Summary, ...]

    def node(self, rows: Words) -> Node:
        """The node of a stretch of rows."""
        fresh = np.zeros(rows.shape[1] - 1, np.bool_)
        for column in self.peers:
            fresh |= rows[column, 1:] != rows[column, :-1]
        first, last = (tuple(rows[list(self.peers), at].tolist()) for at in (0, -1))
        partials = tuple(summary.of(rows) for summary in self.summaries)
        return Node(rows.shape[1], int(fresh.sum()) + 1, first, last, partials)

    def merged(self, nodes: Sequence[Node]) -> Node:
        """The node of adjacent stretches together, at least one."""
        result = nodes[0]
        for node in nodes[1:]:
            pairs = zip(self.summaries, result.partials, node.partials, strict=True)
            result = Node(
                result.size + node.size,
                result.groups + node.groups - (result.last == node.first),
                result.first,
                node.last,
                tuple(summary.merge(left, right) for summary, left, right in pairs),
            )
        return result


class Index:
    """The blocks of a partition, and the levels of nodes above them."""

    __slots__ = ("blocks", "firsts", "levels", "shape")

    def __init__(
        self, shape: Shape, blocks: list[Words], firsts: list[Key], levels: list[list[Node]]
    ) -> None:
        self.shape = shape
        self.blocks = blocks
        self.firsts = firsts
        """The key of each block's first row."""
        self.levels = levels
        """A node for each block, then one for each ``FAN`` of those, up to one or none."""

    @classmethod
    def of(cls, shape: Shape, rows: Words) -> "Index":
        """An index of rows that are in order."""
        blocks = [np.ascontiguousarray(part) for part in _cut(rows)]
        return cls._made(
            shape, blocks, [shape.key(part[:, 0].tolist()) for part in blocks], map(shape.node, blocks)
        )

    @classmethod
    def _made(cls, shape: Shape, blocks: list[Words], firsts: list[Key], nodes: "map[Node]") -> "Index":
        levels = [list(nodes)]
        while len(levels[-1]) > 1:
            below = levels[-1]
            levels.append([shape.merged(below[at : at + FAN]) for at in range(0, len(below), FAN)])
        return cls(shape, blocks, firsts, levels)

    @property
    def size(self) -> int:
        """The number of rows."""
        top = self.levels[-1]
        return top[0].size if top else 0

    def place(self, key: Key) -> int:
        """The place of the first row that is not before a key."""
        number, inside = self._sought(key)
        return self._before(number) + inside

    def _before(self, number: int) -> int:
        """How many rows are in the blocks before one."""
        total, at = 0, number
        for level in self.levels:
            start = at - at % FAN
            total += sum(node.size for node in level[start:at])
            at //= FAN
        return total

    def _block_at(self, place: int) -> tuple[int, int]:
        """The block that a place is in, and the place in it."""
        at = 0
        for level in reversed(self.levels):
            at *= FAN if level is not self.levels[-1] else 1
            while at < len(level) - 1 and place >= level[at].size:
                place -= level[at].size
                at += 1
        return at, place

    def _sought(self, key: Key) -> tuple[int, int]:
        """The block of the first row not before a key, and its place there, at most behind the last."""
        if not self.blocks:
            return 0, 0
        number = max(bisect_right(self.firsts, key) - 1, 0)
        while number and self.firsts[number] == key:
            number -= 1
        rows, own = self.blocks[number], self.shape.key
        low, high = 0, rows.shape[1]
        while low < high:
            middle = (low + high) >> 1
            if own(rows[:, middle].tolist()) < key:
                low = middle + 1
            else:
                high = middle
        return number, low

    def changed(self, rows: Words, diffs: Sequence[int]) -> "Index":
        """The index after rows, which are in order, have come or gone so many times."""
        blocks, touched = list(self.blocks), set[int]()
        for column in range(len(diffs) - 1, -1, -1):
            number, inside = self._sought(self.shape.key(rows[:, column].tolist()))
            if diffs[column] > 0:
                part = np.repeat(rows[:, column : column + 1], diffs[column], axis=1)
                if not blocks:
                    blocks.append(part[:, :0])
                here = blocks[number]
                blocks[number] = np.concatenate((here[:, :inside], part, here[:, inside:]), axis=1)
                touched.add(number)
            else:
                touched.update(_removed(blocks, number, inside, -diffs[column]))
        return self._rebuilt(blocks, touched)

    def _rebuilt(self, blocks: list[Words], touched: set[int]) -> "Index":
        shape = self.shape
        if all(0 < blocks[number].shape[1] <= 2 * BLOCK for number in touched) and len(blocks) == len(
            self.blocks
        ):
            firsts, levels = list(self.firsts), [list(level) for level in self.levels]
            for number in touched:
                blocks[number] = np.ascontiguousarray(blocks[number])
                firsts[number] = shape.key(blocks[number][:, 0].tolist())
                levels[0][number] = shape.node(blocks[number])
            above = touched
            for low, high in pairwise(levels):
                above = {number // FAN for number in above}
                for number in above:
                    high[number] = shape.merged(low[number * FAN : (number + 1) * FAN])
            return Index(shape, blocks, firsts, levels)
        parts: list[Words] = []
        firsts = []
        nodes: list[Node] = []
        for number, block in enumerate(blocks):
            if number in touched:
                cut = [np.ascontiguousarray(part) for part in _cut(block)]
                parts += cut
                firsts += [shape.key(part[:, 0].tolist()) for part in cut]
                nodes += map(shape.node, cut)
            else:
                parts.append(block)
                firsts.append(self.firsts[number])
                nodes.append(self.levels[0][number])
        return self._made(shape, parts, firsts, map(_same, nodes))

    def rows(self, start: int, end: int) -> Words:
        """The rows at places ``start <= place < end``."""
        found = [np.empty((self.shape.width, 0), np.int64)]
        if start < end:
            number, inside = self._block_at(start)
            left = end - start
            while left > 0:
                part = self.blocks[number][:, inside : inside + left]
                found.append(part)
                left -= part.shape[1]
                number, inside = number + 1, 0
        return np.concatenate(found, axis=1)

    def row(self, place: int) -> list[int]:
        """The row at a place."""
        number, inside = self._block_at(place)
        row: list[int] = self.blocks[number][:, inside].tolist()
        return row

    def summed(self, start: int, end: int) -> Node | None:
        """What is known of the rows at places ``start <= place < end``; None of no rows."""
        if start >= end:
            return None
        (first, inside), (last, behind) = self._block_at(start), self._block_at(end - 1)
        node = self.shape.node
        if first == last:
            return node(self.blocks[first][:, inside : behind + 1])
        ends = node(self.blocks[first][:, inside:]), node(self.blocks[last][:, : behind + 1])
        return self.shape.merged([ends[0], *self._between(first + 1, last), ends[1]])

    def _between(self, start: int, end: int) -> list[Node]:
        """The fewest nodes that are the blocks ``start <= number < end`` together."""
        left: list[Node] = []
        right: list[Node] = []
        for level in self.levels:
            while start < end and start % FAN:
                left.append(level[start])
                start += 1
            while start < end and end % FAN:
                end -= 1
                right.append(level[end])
            start, end = start // FAN, end // FAN
            if start >= end:
                break
        return left + right[::-1]

    def groups(self, place: int) -> int:
        """How many groups of peers begin before a place."""
        node = self.summed(0, place)
        return 0 if node is None else node.groups

    def first(self, low: int, high: int, test: Callable[[list[int]], bool]) -> int:
        """The first place from ``low`` on whose row passes a test that all later ones pass, or ``high``."""
        while low < high:
            middle = (low + high) >> 1
            if test(self.row(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def group_start(self, number: int) -> int:
        """Where a group of peers begins, the first one being 0; the end where there are fewer."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) >> 1
            if self.groups(middle + 1) > number:
                high = middle
            else:
                low = middle + 1
        return low


def _same(node: Node) -> Node:
    return node


def _cut(rows: Words) -> list[Words]:
    count = rows.shape[1]
    step = count if count <= 2 * BLOCK else BLOCK
    return [rows[:, at : at + step] for at in range(0, count, max(step, 1))]


def _removed(blocks: list[Words], number: int, inside: int, count: int) -> list[int]:
    """Takes ``count`` equal rows away, from one block on; the numbers of the blocks that have changed."""
    touched = []
    while count > 0:
        here = blocks[number]
        part = min(count, here.shape[1] - inside)
        if part:
            blocks[number] = np.concatenate((here[:, :inside], here[:, inside + part :]), axis=1)
            touched.append(number)
        count -= part
        number, inside = number + 1, 0
    return touched
