"""Immutable sorted batches of updates, their lookup directories, and kernels that read groups from them.

A batch contains the updates at times in advance of ``lower`` and not in advance of ``upper``. Its times may
be compacted up to the frontier ``since``, even beyond ``upper``, so times are never compared with ``lower``
and ``upper`` afterwards.

:func:`collect`, :func:`differences` and :func:`group_times` read the accumulated groups of a trace for top-k,
min, max and basic reduces.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import collect as kernels_collect
from kpg.runtime.kernels import directory as kernels_directory
from kpg.runtime.kernels import layout
from kpg.runtime.progress.antichain import Antichain, Time
from kpg.runtime.trace.head import Head, Tail
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


MAX_ROWS_WITHOUT_DIRECTORY: Final = 64
"""Batches of at most this many rows are searched without a directory."""

ROWS_PER_PROBE: Final = 128
"""A directory is built once a batch has had one probe for every ``ROWS_PER_PROBE`` of its rows."""

ROWS_PER_BUCKET: Final = 4
"""Average rows of a bucket.

A bucket fits a cache line, and a directory takes at most a quarter of its column.
"""

NEXT_ROW, NEXT_BUCKET, END_ROW = range(3)
"""Slots of the state of a directory that a kernel builds."""
NEVER: Final = 2**63 - 1
"""Number of probes that is never reached."""


class Directory:
    """Bucket offsets of a sorted column, built incrementally (see ``runtime/kernels/directory.py``)."""

    __slots__ = ("_column", "_state", "bounds", "offsets")

    def __init__(self, column: Words) -> None:
        n = column.shape[0]
        # Ignore the ends of the range: a NULL or an outlier must not widen the buckets.
        start = int(np.searchsorted(column, -(2**63) + 2))
        start, end = (start, n) if start < n else (0, n)
        margin = (end - start) // 1024
        inner = int(column[end - 1 - margin]) - int(column[start + margin])
        if inner < (int(column[end - 1]) - int(column[start])) // 16:
            start = int(np.searchsorted(column, column[start + margin]))
            end = int(np.searchsorted(column, column[end - 1 - margin], side="right"))
        origin, last = int(column[start]), int(column[end - 1])
        shift = max(0, (last - origin).bit_length() - max(0, ((end - start) // ROWS_PER_BUCKET).bit_length()))
        self.bounds: Words = np.array([origin, last, shift], np.int64)
        self.offsets: NDArray[np.int32] = np.empty(((last - origin) >> shift) + 2, np.int32)
        self._column = column
        self._state: Words = np.array([start, 0, end], np.int64)

    @classmethod
    def from_arrays(cls, column: Words, bounds: Words, offsets: NDArray[np.int32]) -> "Directory":
        """Return a complete directory with existing arrays."""
        directory = cls.__new__(cls)
        directory.bounds, directory.offsets, directory._column = bounds, offsets, column
        directory._state = np.zeros(END_ROW + 1, np.int64)
        return directory

    def build(self, limit: int) -> int:
        """Do at most ``limit`` rows of work and return the rows done; fewer than ``limit`` when complete."""
        before = int(self._state[NEXT_ROW])
        kernels_directory.fill_directory(self._column, self.bounds, self.offsets, self._state, limit)
        return int(self._state[NEXT_ROW]) - before

    @property
    def is_complete(self) -> bool:
        """Whether all buckets are filled; lookups may use only a complete directory."""
        return bool(self._state[NEXT_ROW] == self._state[END_ROW])


class Batch:
    """Immutable updates sorted by (row, time), each pair once, no diff 0; shapes as in
    ``Updates``.
    """

    __slots__ = (
        "_address",
        "_description",
        "_directory",
        "_latest",
        "data",
        "diff",
        "lower",
        "since",
        "time",
        "upper",
    )

    def __init__(
        self,
        updates: Updates,
        lower: Antichain,
        upper: Antichain,
        since: Antichain,
        latest: Time | None = None,
    ) -> None:
        self.data: Words = updates.data
        self.time: Words = updates.time
        self.diff: Words = updates.diff
        self.lower = lower
        self.upper = upper
        self.since = since
        self._latest = latest
        self._directory: Directory | None = None
        self._description: Words | None = None
        self._address = 0

    @classmethod
    def build(cls, updates: Updates, lower: Antichain, upper: Antichain) -> "Batch":
        """Return the batch of ``updates`` in any order, uncompacted: ``since`` is the minimum."""
        return cls(updates.consolidate(), lower, upper, Antichain.minimum(updates.depth))

    def __len__(self) -> int:
        return self.data.shape[1]

    def __repr__(self) -> str:
        return f"Batch({len(self)} rows, {self.lower.elements} to {self.upper.elements})"

    @property
    def updates(self) -> Updates:
        """The contents, without copying."""
        return Updates(self.data, self.time, self.diff, ordered=True)

    @property
    def constant_time(self) -> bool:
        """Whether the time is stored once for all rows."""
        return self.time.shape[1] == 1

    @property
    def constant_diff(self) -> bool:
        """Whether the diff is stored once for all rows."""
        return self.diff.shape[0] == 1

    @property
    def latest(self) -> Time:
        """Upper bound of all times; the least one unless a merge has computed it."""
        if self._latest is None:
            self._latest = tuple(self.description[layout.LATEST :].tolist())
        return self._latest

    @property
    def description(self) -> Words:
        """Description of this batch for kernels, ``int64[LATEST + depth]``: ``runtime.kernels.layout``."""
        if self._description is None:
            description = np.empty(layout.LATEST + self.time.shape[0], np.int64)
            has_latest = self._latest is not None
            if has_latest:
                description[layout.LATEST :] = self._latest
            self._address = kernels_directory.describe(
                self.data, self.time, self.diff, has_latest, description
            )
            self._description = description
            self._describe_directory()
        return self._description

    @property
    def address(self) -> int:
        """Address of the description, valid while this batch is alive."""
        if self._description is None:
            _ = self.description
        return self._address

    def _describe_directory(self) -> None:
        description, directory, n = self._description, self._directory, len(self)
        assert description is not None
        if directory is not None:
            description[layout.OFFSETS] = directory.offsets.ctypes.data
            description[layout.OFFSETS_LENGTH] = directory.offsets.shape[0]
            description[layout.BOUNDS : layout.BOUNDS + 3] = directory.bounds
            description[layout.ENOUGH] = NEVER
        else:
            never = n <= MAX_ROWS_WITHOUT_DIRECTORY or n >= 2**31 or not self.data.shape[0]
            description[layout.ENOUGH] = NEVER if never else -(-n // ROWS_PER_PROBE)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, the directory's included."""
        own = self.data.nbytes + self.time.nbytes + self.diff.nbytes
        return own + (self._directory.offsets.nbytes if self._directory is not None else 0)

    @property
    def probes(self) -> int:
        """Number of rows that lookups have searched here."""
        return 0 if self._description is None else int(self._description[layout.PROBES])

    @property
    def needs_directory(self) -> bool:
        """Whether lookups have searched enough rows for a directory to pay, or have one already."""
        return self._directory is not None or self.probes * ROWS_PER_PROBE >= len(self)

    @property
    def directory(self) -> Directory | None:
        """Directory for lookups, or None."""
        return self._directory

    @property
    def has_directory(self) -> bool:
        """Whether lookups use a directory."""
        return self._directory is not None

    def with_frontiers(self, lower: Antichain, upper: Antichain) -> "Batch":
        """Return the same contents between wider frontiers, which add no updates."""
        batch = Batch(self.updates, lower, upper, self.since, self._latest)
        batch._directory = self._directory
        if self._description is not None:
            # A copy: each of the two batches may build its own directory later.
            batch._description = self._description.copy()
            batch._address = batch._description.ctypes.data
        return batch

    def build_directory(self) -> None:
        """Build the directory now, for faster lookups."""
        directory = Directory(self.data[0])
        directory.build(len(self))
        self.install_directory(directory)

    def install_directory(self, directory: Directory) -> None:
        """Use a complete directory of this batch's first column."""
        self._directory = directory
        if self._description is not None:
            self._describe_directory()


class Layers(tuple[Batch, ...]):
    """Batches, oldest first, with their descriptions for kernels."""

    @cached_property
    def addresses(self) -> Words:
        """Addresses of the batches' descriptions, ``int64[layers]``; valid while this object is alive."""
        return np.array([batch.address for batch in self], np.int64)

    @cached_property
    def descriptions(self) -> Words:
        """Prefixes of the batches' descriptions, ``int64[layers, BEGINNING]``."""
        table = np.empty((len(self), layout.BEGINNING), np.int64)
        for i, batch in enumerate(self):
            table[i] = batch.description[: layout.BEGINNING]
        return table

    def with_batch(self, batch: Batch, description: Words) -> "Layers":
        """Return these layers and one more batch, which has the given description."""
        layers = Layers((*self, batch))
        table = np.empty((len(self) + 1, layout.BEGINNING), np.int64)
        table[:-1] = self.descriptions
        table[-1] = description[: layout.BEGINNING]
        layers.__dict__["descriptions"] = table
        return layers

    @property
    def batches(self) -> "Layers":
        """The layers themselves, as in ``LookupTarget``."""
        return self

    @property
    def head(self) -> None:
        """None: layers have no head."""


class LookupTarget:
    """Everything that lookups by key search: sorted batches, then a tail and a head, if any."""

    __slots__ = ("addresses", "batches", "head", "tail")

    def __init__(self, batches: Layers, head: Head | None, tail: Tail | None = None) -> None:
        self.batches = batches
        self.tail = tail
        self.head = head
        last = [part.address for part in (tail, head) if part is not None]
        self.addresses: Words = np.append(batches.addresses, np.array(last, np.int64))

    def __bool__(self) -> bool:
        """Return whether there are updates."""
        if self.batches or (self.head is not None and self.head.size):
            return True
        return self.tail is not None and self.tail.size > 0


NO_LIMIT = 1 << 62
"""Exceeds the number of rows of any group."""


def collect(
    layers: Layers,
    prefix: Words,
    times: Words,
    visible_layers: Words,
    width: int,
    skip: int = 0,
    limit: int | None = None,
    texts: Sequence[int] = (),
) -> tuple[Words, Words, Words, int]:
    """Return the live rows of many groups.

    The result is (rows int64[width, m], multiplicities, task of each row, updates read). Task i reads
    the group ``prefix[:, i]`` accumulated at ``times[:, i]`` over the first ``visible_layers[i]``
    layers. Rows are in the order of the trace, clipped to ``skip`` and ``limit``. With ``texts``,
    ``skip`` must be 0, and rows beyond the limit follow if their order relative to the last is open.
    ``texts`` has, for each text in the sort order, the column after its prefix words: equal prefix words
    of long texts leave their order open (``ExactOrder``).
    """
    tasks, description = visible_layers.shape[0], layers.descriptions
    max_rows = NO_LIMIT if limit is None else limit
    reading = np.array((0, 0, 0, 0, skip, max_rows, len(texts), *texts))
    out: Words = np.empty((width + 2, max(64, tasks * min(max_rows, 4))), np.int64)
    while kernels_collect.collect(description, prefix, times, visible_layers, reading, out) < tasks:
        out = _double_room(out)
    written, updates_read = reading.item(kernels_collect.WRITTEN), reading.item(kernels_collect.WALKED)
    return (
        np.ascontiguousarray(out[:width, :written]),
        out[width, :written],
        out[width + 1, :written],
        updates_read,
    )


def differences(
    layers: Layers,
    prefix: Words,
    groups: Words,
    times: tuple[Words, Words],
    corners: tuple[Words, Words],
    width: int,
    skip: int = 0,
    limit: int | None = None,
) -> tuple[Words, Words, Words, int]:
    """Return mixed differences of groups' windows.

    The result is (rows int64[width, m], diffs, task of each row, wasted reads). Task i is the group
    ``prefix[:, groups[i]]`` at epoch ``times[0][i]`` and rounds ``times[1]``; prefixes and groups
    ascend. ``corners`` are offsets ``int64[depth, c]`` from that time, with their signs. Each row
    appears once for each task, in the order of the trace. Wasted reads are updates of rows that are not
    live.
    """
    epochs, rounds = times
    tasks, description = groups.shape[0], layers.descriptions
    bound = NO_LIMIT if limit is None else limit
    reading = np.array((0, 0, 0, 0, skip, bound, 0, layers[0].time.shape[0], *rounds.tolist()))
    out: Words = np.empty((width + 2, 2 * tasks + 64), np.int64)
    while kernels_collect.differences(description, prefix, groups, epochs, *corners, reading, out) < tasks:
        out = _double_room(out)
    _, written, walked, live, *_ = reading.tolist()
    rows = np.ascontiguousarray(out[:width, :written])
    return rows, out[width, :written], out[width + 1, :written], walked - live


def later_rounds(layers: Layers, prefix: Words, rounds: Words) -> tuple[Words, Words]:
    """Return the distinct later least upper bounds of ``rounds`` and the update times of many groups.

    For a loop that is not nested, only each group's first. ``prefix int64[group, n]``; at least one
    layer, all of one depth. Returns (rounds ``int64[len(rounds), m]``, group of each, ascending).
    """
    tasks, description = prefix.shape[1], layers.descriptions
    reading = np.array((0, 0, 0, 0, 0, 0, 0, layers[0].time.shape[0]))
    out: Words = np.empty((rounds.shape[0] + 1, 4 * tasks + 65), np.int64)
    while kernels_collect.later_rounds(description, prefix, rounds, reading, out) < tasks:
        out = _double_room(out)
    written = reading.item(kernels_collect.WRITTEN)
    return out[:-1, :written], out[-1, :written]


def group_times(layers: Layers, prefix: Words, closed: int) -> tuple[Words, Words]:
    """Return the distinct times of the updates of many groups.

    The result is (times int64[depth, m], group of each, ascending). ``prefix int64[group, n]``; at
    least one layer, all of one depth. Epochs before ``closed`` appear as ``closed - 1``.
    """
    tasks, description = prefix.shape[1], layers.descriptions
    reading = np.zeros(kernels_collect.WRITTEN + 1, np.int64)
    out: Words = np.empty((layers[0].time.shape[0] + 1, 4 * tasks + 65), np.int64)
    while kernels_collect.group_times(description, prefix, closed, reading, out) < tasks:
        out = _double_room(out)
    written = reading.item(kernels_collect.WRITTEN)
    return np.ascontiguousarray(out[:-1, :written]), out[-1, :written]


def _double_room(out: Words) -> Words:
    """Return a copy of a kernel's output with twice the room."""
    grown: Words = np.empty((out.shape[0], 2 * out.shape[1]), np.int64)
    grown[:, : out.shape[1]] = out
    return grown
