"""Index of one large window partition: its rows in order, as leaves of a tree of partial aggregates.

A node stores its number of rows, its number of peer groups, and the partial aggregate of each call.
So finding a position and aggregating a range of rows take O(log n). Trees are persistent: a change
makes a new tree that shares all unchanged blocks.
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
"""Rows of a new block; a block with more than twice as many is split."""
FAN = 16
"""Children of an inner node."""


@dataclass(frozen=True, slots=True)
class Node:
    """Summary of a nonempty range of rows."""

    size: int
    groups: int
    first: tuple[int, ...]
    """Peer columns of its first row."""
    last: tuple[int, ...]
    """Peer columns of its last row."""
    partials: tuple[Partial, ...]


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """Common properties of a window's indexes: row order, peer columns, and partial aggregates."""

    width: int
    key: Callable[[list[int]], Key]
    peers: tuple[int, ...]
    summaries: tuple[Summary, ...]

    def summarize(self, rows: Words) -> Node:
        """Return the node of a range of rows."""
        fresh = np.zeros(rows.shape[1] - 1, np.bool_)
        for column in self.peers:
            fresh |= rows[column, 1:] != rows[column, :-1]
        first, last = (tuple(rows[list(self.peers), at].tolist()) for at in (0, -1))
        partials = tuple(summary.summarize(rows) for summary in self.summaries)
        return Node(rows.shape[1], int(fresh.sum()) + 1, first, last, partials)

    def merge(self, nodes: Sequence[Node]) -> Node:
        """Return the node of one or more adjacent ranges."""
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


class PartitionIndex:
    """Blocks of a partition, with the levels of nodes above them."""

    __slots__ = ("blocks", "first_keys", "levels", "spec")

    def __init__(
        self, spec: IndexSpec, blocks: list[Words], firsts: list[Key], levels: list[list[Node]]
    ) -> None:
        self.spec = spec
        self.blocks = blocks
        self.first_keys = firsts
        """Key of each block's first row."""
        self.levels = levels
        """A node for each block, then one for each ``FAN`` of those, up to a single one or none."""

    @classmethod
    def build(cls, shape: IndexSpec, rows: Words) -> "PartitionIndex":
        """Return an index of sorted rows."""
        blocks = [np.ascontiguousarray(part) for part in _split_blocks(rows)]
        return cls._from_blocks(
            shape, blocks, [shape.key(part[:, 0].tolist()) for part in blocks], map(shape.summarize, blocks)
        )

    @classmethod
    def _from_blocks(
        cls, shape: IndexSpec, blocks: list[Words], firsts: list[Key], nodes: "map[Node]"
    ) -> "PartitionIndex":
        levels = [list(nodes)]
        while len(levels[-1]) > 1:
            below = levels[-1]
            levels.append([shape.merge(below[at : at + FAN]) for at in range(0, len(below), FAN)])
        return cls(shape, blocks, firsts, levels)

    @property
    def size(self) -> int:
        """Number of rows."""
        top = self.levels[-1]
        return top[0].size if top else 0

    def lower_bound(self, key: Key) -> int:
        """Return the position of the first row that is not before a key."""
        number, inside = self._find_key(key)
        return self._count_before(number) + inside

    def _count_before(self, number: int) -> int:
        """Return the number of rows in the blocks before ``number``."""
        total, at = 0, number
        for level in self.levels:
            start = at - at % FAN
            total += sum(node.size for node in level[start:at])
            at //= FAN
        return total

    def _find_block(self, place: int) -> tuple[int, int]:
        """Return the block of a position, and the position within it."""
        at = 0
        for level in reversed(self.levels):
            at *= FAN if level is not self.levels[-1] else 1
            while at < len(level) - 1 and place >= level[at].size:
                place -= level[at].size
                at += 1
        return at, place

    def _find_key(self, key: Key) -> tuple[int, int]:
        """Return the block of the first row not before a key, and the position within it; at most its end."""
        if not self.blocks:
            return 0, 0
        number = max(bisect_right(self.first_keys, key) - 1, 0)
        while number and self.first_keys[number] == key:
            number -= 1
        rows, own = self.blocks[number], self.spec.key
        low, high = 0, rows.shape[1]
        while low < high:
            middle = (low + high) >> 1
            if own(rows[:, middle].tolist()) < key:
                low = middle + 1
            else:
                high = middle
        return number, low

    def apply_changes(self, rows: Words, diffs: Sequence[int]) -> "PartitionIndex":
        """Return the index after sorted rows were inserted or deleted as often as ``diffs`` says."""
        blocks, touched = list(self.blocks), set[int]()
        for column in range(len(diffs) - 1, -1, -1):
            number, inside = self._find_key(self.spec.key(rows[:, column].tolist()))
            if diffs[column] > 0:
                part = np.repeat(rows[:, column : column + 1], diffs[column], axis=1)
                if not blocks:
                    blocks.append(part[:, :0])
                here = blocks[number]
                blocks[number] = np.concatenate((here[:, :inside], part, here[:, inside:]), axis=1)
                touched.add(number)
            else:
                touched.update(_remove_rows(blocks, number, inside, -diffs[column]))
        return self._rebuild(blocks, touched)

    def _rebuild(self, blocks: list[Words], touched: set[int]) -> "PartitionIndex":
        shape = self.spec
        if all(0 < blocks[number].shape[1] <= 2 * BLOCK for number in touched) and len(blocks) == len(
            self.blocks
        ):
            firsts, levels = list(self.first_keys), [list(level) for level in self.levels]
            for number in touched:
                blocks[number] = np.ascontiguousarray(blocks[number])
                firsts[number] = shape.key(blocks[number][:, 0].tolist())
                levels[0][number] = shape.summarize(blocks[number])
            above = touched
            for low, high in pairwise(levels):
                above = {number // FAN for number in above}
                for number in above:
                    high[number] = shape.merge(low[number * FAN : (number + 1) * FAN])
            return PartitionIndex(shape, blocks, firsts, levels)
        parts: list[Words] = []
        firsts = []
        nodes: list[Node] = []
        for number, block in enumerate(blocks):
            if number in touched:
                cut = [np.ascontiguousarray(part) for part in _split_blocks(block)]
                parts += cut
                firsts += [shape.key(part[:, 0].tolist()) for part in cut]
                nodes += map(shape.summarize, cut)
            else:
                parts.append(block)
                firsts.append(self.first_keys[number])
                nodes.append(self.levels[0][number])
        return self._from_blocks(shape, parts, firsts, map(_identity, nodes))

    def rows(self, start: int, end: int) -> Words:
        """Return the rows at positions ``start <= position < end``."""
        parts = [np.empty((self.spec.width, 0), np.int64)]
        if start < end:
            number, inside = self._find_block(start)
            left = end - start
            while left > 0:
                part = self.blocks[number][:, inside : inside + left]
                parts.append(part)
                left -= part.shape[1]
                number, inside = number + 1, 0
        return np.concatenate(parts, axis=1)

    def row(self, place: int) -> list[int]:
        """Return the row at a position."""
        number, inside = self._find_block(place)
        row: list[int] = self.blocks[number][:, inside].tolist()
        return row

    def summarize(self, start: int, end: int) -> Node | None:
        """Return the node of the rows at positions ``start <= position < end``; None if there are none."""
        if start >= end:
            return None
        (first, inside), (last, behind) = self._find_block(start), self._find_block(end - 1)
        node = self.spec.summarize
        if first == last:
            return node(self.blocks[first][:, inside : behind + 1])
        ends = node(self.blocks[first][:, inside:]), node(self.blocks[last][:, : behind + 1])
        return self.spec.merge([ends[0], *self._cover(first + 1, last), ends[1]])

    def _cover(self, start: int, end: int) -> list[Node]:
        """Return the fewest nodes that cover the blocks ``start <= number < end``."""
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

    def count_groups(self, place: int) -> int:
        """Return the number of peer groups that begin before a position."""
        node = self.summarize(0, place)
        return 0 if node is None else node.groups

    def find_first(self, low: int, high: int, test: Callable[[list[int]], bool]) -> int:
        """Return the first position from ``low`` on whose row passes a monotone test; ``high`` if none."""
        while low < high:
            middle = (low + high) >> 1
            if test(self.row(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def group_start(self, number: int) -> int:
        """Return the start of a peer group, numbered from 0; the end if there are fewer."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) >> 1
            if self.count_groups(middle + 1) > number:
                high = middle
            else:
                low = middle + 1
        return low


def _identity(node: Node) -> Node:
    return node


def _split_blocks(rows: Words) -> list[Words]:
    count = rows.shape[1]
    step = count if count <= 2 * BLOCK else BLOCK
    return [rows[:, at : at + step] for at in range(0, count, max(step, 1))]


def _remove_rows(blocks: list[Words], number: int, inside: int, count: int) -> list[int]:
    """Delete ``count`` equal rows from block ``number`` on and return the numbers of the changed blocks."""
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
