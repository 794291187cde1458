"""The next segment of the log, made in advance by a thread: a file of zeros that is there whatever happens.

A sync of what is written over zeros has nothing to tell the file system, which may have much to do for others
before it is told: no commit waits for that. The file has the name that the segment will have, and is none as
long as its header is missing, as after a crash.
"""

from contextlib import suppress
from typing import Final

from kpg.runtime.storage.ahead import Ahead
from kpg.runtime.storage.files import Files
from kpg.runtime.storage.log import ROOM, Log, segment_name

CHUNK: Final = 1 << 20
"""Bytes that are written at a time."""
PORTION: Final = 4
"""Chunks that are synced at a time: what others sync meanwhile waits for so many."""
FIRST: Final = 2
"""The first one has room for so many large records, each later one twice as much as the one before,"""
MOST: Final = 1 << 25
"""up to so many bytes."""
SOON: Final = 6
"""One is made when there is room for fewer than so many large records."""


class Spare:
    """At most one such file, of one log. If it cannot be made, there is none."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._number = 0
        self._wanted = self._last = 0
        self._size = 0
        self._making: Ahead | None = None

    def tend(self, log: Log) -> bool:
        """Before large records: have one be made soon if the log wants it; whether to go on in it now."""
        making = self._making
        if making is None:
            if log.room < SOON * log.largest:
                self._number, self._size = log.segment + 1, 0
                self._wanted = self._last = min(max(FIRST * log.largest, 2 * self._last), MOST)
                self._making = Ahead(self._make)
            return False
        return log.room < log.largest and making.done

    def _make(self) -> None:
        file = self._files.create(segment_name(self._number))
        try:
            zeros, written = bytes(CHUNK), 0
            while written < self._wanted:
                for _ in range(PORTION):
                    file.write(written, [zeros])
                    written += CHUNK
                file.sync()
                self._size = written
        finally:
            file.close()
        self._files.sync()

    def after(self, log: Log, database: int) -> Log:
        """The segment after a log's: this one, as far as it is made, or a new one. OSError if files fail."""
        files, number = self._files, log.segment + 1
        making, self._making, self._wanted = self._making, None, 0
        if making is not None and making.wait() is None and number == self._number:
            file = files.open(segment_name(number), writing=True)
            new = Log.begin(file, self._size, number, database, log.number)
        else:
            if segment_name(number) in files.list():
                files.remove(segment_name(number))
            # Room is made before a child begins to write, which a commit would have to wait for.
            new = Log.create(files, number, database, log.number, room=ROOM)
        new.large, new.largest = log.large, log.largest
        return new

    def drop(self) -> None:
        """Have there be none, as far as that can be done: the next segment's file would be removed first."""
        making, self._making, self._wanted = self._making, None, 0
        if making is not None:
            making.wait()
            with suppress(OSError):
                self._files.remove(segment_name(self._number))
