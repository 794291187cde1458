"""How far the log was synced, beside the log: what tells a lost record from one that was never synced.

The file ``committed`` has the number of the last record of the log whose sync has returned. It is written
after that sync, before the commit is acknowledged, and is not synced itself: a commit waits for one sync. So
the number is never too high, and after the end of the process it is exact. After a power cut it may be as old
as the operating system lets it be, half a minute.

There are two slots, in sectors of their own, written by turns: what ends a process while it writes one leaves
the other. A slot is four words: a mark, the database, the number, and its bits inverted, xor the database.
"""

import struct
from contextlib import suppress
from typing import Final

from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import File, Files

NAME: Final = "committed"
MAGIC: Final = int.from_bytes(b"kpgdone\n", "little")
SLOT: Final = struct.Struct("<4q")
PLACES: Final = (0, 512)
"""Where the slots are, in sectors that a disk writes one by one."""


def read_proof(files: Files, database: int) -> int:
    """The number of the last record that is known to have been synced; -1 if nothing tells."""
    where = f"{files.where}/{NAME}"
    try:
        data = files.map(NAME).tobytes()
    except FileNotFoundError:  # as of earlier versions
        return -1
    numbers = [-1]
    for place in PLACES:
        sector = data[place : place + PLACES[1]].ljust(SLOT.size, b"\0")
        if not any(sector):
            continue
        mark, owner, number, inverted = SLOT.unpack_from(sector)
        if (mark, inverted) != (MAGIC, ~number ^ owner) or any(sector[SLOT.size :]):
            raise DamagedError(
                f"{where} is damaged at byte {place}: it is not what was written",
                hint=f"kpg check --repair {files.where} writes it anew if the log is whole",
            )
        if owner != database:
            raise DamagedError(f"{where} is of another database")
        numbers.append(number)
    return max(numbers)


class Proof:
    """The file of a database that is open. ``number`` is what it says."""

    def __init__(self, file: File | None, database: int, number: int) -> None:
        self._file = file
        self._database = database
        self._turn = 0
        self.number = number

    @classmethod
    def open(cls, files: Files, database: int, number: int) -> "Proof":
        """That of a database whose log has been read; without one if there is no room for it."""
        if NAME in files.list():
            return cls(files.open(NAME, writing=True), database, number)
        with suppress(OSError):
            return cls(files.create(NAME), database, -1)
        return cls(None, database, -1)

    def raise_to(self, number: int) -> None:
        """The records up to this one have been synced."""
        if self._file is None or number <= self.number:
            return
        self._turn = 1 - self._turn
        with suppress(OSError):  # then it says less than is true
            self._write(PLACES[self._turn], number)
            self.number = number

    def lower_to(self, number: int) -> None:
        """The records behind this one are about to be given up. When this returns, it says so on the disk."""
        if self._file is not None and number < self.number:
            for place in PLACES:
                self._write(place, number)
            self.number = number
            self._file.sync()

    def _write(self, place: int, number: int) -> None:
        assert self._file is not None
        slot = SLOT.pack(MAGIC, self._database, number, ~number ^ self._database)
        self._file.write(place, [slot])

    def sync(self) -> None:
        """Have it say so on the disk."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Give the file up, without a sync."""
        if self._file is not None:
            self._file.close()
