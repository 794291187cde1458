"""What links know of arrays that may be replaced: of traces and group tables, which have versions."""

from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import layout
from kpg.runtime.kernels import links as tables
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.records import dataclass
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.trace.batch import Sought
from kpg.runtime.trace.recent import Place
from kpg.runtime.trace.spine import Spine

Words = NDArray[np.int64]

NONE: Final = np.zeros(1, np.int64)
"""Where nothing is read or written."""


@dataclass(slots=True, eq=False)
class Traced:
    """A trace that links append to or look keys up in."""

    spine: Spine
    templates: list[tuple[Words, int]] = field(default_factory=list)
    """Of the slots of links that look keys up, and where the layers' addresses are in them."""
    appends: int = -1
    """The link that appends to it, behind the one that tidies; -1 if none does."""
    appending: Words = field(default_factory=lambda: NONE)
    """The template of its slots."""
    arrange: Arrange | None = None
    """The operator that these links are of."""
    place: Words = field(default_factory=lambda: np.zeros(tables.PLACE_FIELDS, np.int64))
    """Where updates go, as links have it."""
    read: list[tuple[Words, Words, int]] = field(default_factory=list)
    """What links that read in order know, the templates of their slots, and where the layers are in them."""
    layers: Words = field(default_factory=lambda: NONE)
    """What these have of the batches and the tail, ``int64[batches + 1, BEGINNING]``."""
    latest: Words = field(default_factory=lambda: NONE)
    """In a loop the latest rounds of the batches."""
    version: int = -1
    """Of the spine as links know it; -1 if they are to be brought up to date in any case."""
    sought: Sought | None = None
    """Kept, for links have its address."""

    def renew(self, table: Words) -> None:
        """Bring the links, rows of ``table``, up to date with a trace that has changed."""
        spine = self.spine
        if self.templates:
            sought = self.sought = spine.sought()
            for template, at in self.templates:
                fill(template, at, sought.addresses)
        recent = spine.recent
        if self.appends >= 0:
            # Whether a step is small enough, and whether there is room, links find out by themselves.
            place = spine.place(1)
            there = place is Place.HEAD or (place is Place.TAIL and recent.tail is not None)
            fits = there and not recent.is_mixed
            if recent.tail is not None:
                fill(self.appending, slot.APPENDING_TAIL, recent.tail.description)
                self.appending[slot.APPENDING_SPARE] = recent.tail.spare.ctypes.data
            self.place[tables.PLACE_GOES_TO] = tables.TO_TAIL if place is Place.TAIL else tables.TO_HEAD
            assert self.arrange is not None
            self.place[tables.PLACE_BOUND] = self.arrange.bound
            table[self.appends - 1 : self.appends + 1, tables.LINK_SKIPPED] = not fits
        if self.read and recent.tail is not None:
            batches = spine.batches_in_order.descriptions
            self.layers = np.concatenate((batches, np.zeros((1, layout.BEGINNING), np.int64)))
            if spine.depth > 1:
                self.latest = np.array([batch.latest[1:] for batch in spine.batches_in_order], np.int64)
                self.latest = self.latest.reshape(-1, spine.depth - 1).max(axis=0, initial=0)
            for known, template, at in self.read:
                known[tables.READ_TAIL] = 0 if recent.is_mixed else recent.tail.address
                known[tables.READ_LAST] = self.layers[-1:].ctypes.data
                if spine.depth > 1:
                    known[tables.TOP_LATEST] = self.latest.ctypes.data
                fill(template, at, self.layers)
        self.version = spine.version


@dataclass(slots=True, eq=False)
class Refreshed:
    """A group table and the template of the slots of the link that refreshes it."""

    table: GroupTable
    template: Words
    version: int = -1

    def renew(self) -> None:
        """Bring the template up to date with arrays that were replaced."""
        table, template = self.table, self.template
        fill(template, slot.REFRESH_SPEC, table.spec)
        fill(template, slot.REFRESH_SLOTS, table.slots)
        fill(template, slot.REFRESH_ROWS, table.table)
        fill(template, slot.REFRESH_FREE, table.free)
        fill(template, slot.REFRESH_TOUCHED, table.touched)
        fill(template, slot.REFRESH_OLD, table.old)
        fill(template, slot.REFRESH_STATE, table.state)
        self.version = table.version


def fill(template: Words, at: int, array: NDArray[Any]) -> None:
    """Let the slots from ``at`` on be an array's, which the caller keeps."""
    template[at] = array.ctypes.data
    template[at + 1 : at + 1 + array.ndim] = array.shape
