"""Arrays of what is stored for one more worker, which writes to its own.

Packs are mapped once more for it, so that what it writes to is copied page by page, as it is of those who
opened them. Of a pack whose file is gone, a checkpoint later, arrays are copied when they are asked for.
"""

from contextlib import suppress

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.runtime.saved.form import Array
from kpg.runtime.saved.patches import LINE
from kpg.runtime.saved.stored import Reader, Small, Stored
from kpg.runtime.storage.files import Bytes
from kpg.runtime.storage.packs import BLOCK, blocks_of, pack_name


class Apart:
    """A reader beside another one, which has read some of the same or will."""

    def __init__(self, reader: Reader) -> None:
        """Finds all files that there are: they may be gone later."""
        self._reader = reader
        self._own: dict[int, Bytes] = {}
        for number, pack in list(reader.packs.mapped.items()):  # a checkpoint's thread may map more
            with suppress(OSError, OperationalError):
                own = reader.packs.files.map(pack_name(number))
                if not np.may_share_memory(own, pack.data) and not np.may_share_memory(own, pack.own):
                    self._own[number] = own

    def __call__(self, found: Stored | Small) -> Array:
        """The array, for who asked to keep; DamagedError if it is not what was written."""
        if isinstance(found, Small) or (found.fixed and not found.changes):
            return self._reader(found)
        for pack, first, end in found.places:
            self._reader.packs.get(pack).verify(first, end)
        data = self._bytes(found)
        for change in found.changes:
            self._reader.change(change).onto(data.reshape(-1, LINE))
        return data[: found.room].view(found.dtype).reshape(found.shape)

    def _bytes(self, found: Stored) -> Bytes:
        start, room = found.block * BLOCK, blocks_of(found.room) * BLOCK
        own = self._own.get(found.pack)
        if own is not None:
            return own[start : start + room]
        data, size = np.empty(room, np.uint8), blocks_of(found.size) * BLOCK
        data[:size] = self._reader.packs.get(found.pack).data[start : start + size]
        data[size:] = 0
        return data
