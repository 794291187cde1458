"""The write-ahead log: a sequence of records in segment files, each record complete or absent.

A segment is a header and records. A record is a header of six words, its bytes, and an end word. The header
has mark, kind and length, number, last synced record, checksum of the content, and checksum of the header.
Zeros follow the last record: space is allocated in advance, so syncing a small record need not change the
file length. Writes cover whole pages; the first page repeats the bytes before the record.

Recovery distinguishes torn writes from damage. A record is torn if a sector of it, or all bytes after some
position, are zeros, because the space held only zeros before. A torn tail is cut off. Anything else that is
not a valid record is damage. A missing record is damage if a later record was written after a sync, or if the
file ``committed`` says that it was synced.

``committed`` (:class:`CommittedFile`) holds the number of the last synced record. It is written after the
sync and before the commit is acknowledged, and is not synced itself, so a commit waits for one sync. The
number is never too high. It is exact after a process crash; after a power failure it may lag by about half a
minute. It has two slots in separate sectors, written alternately. A slot is four words: mark, database,
number, and the number inverted xor the database.
"""

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import OperationalError
from kpg.runtime.kernels.checksum import checksum
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import PAGE, File, Files, Piece, checksum_of, prefault

COMMITTED_NAME: Final = "committed"
COMMITTED_MAGIC: Final = int.from_bytes(b"kpgdone\n", "little")
SLOT: Final = struct.Struct("<4q")
SLOT_OFFSETS: Final = (0, 512)
"""Offsets of the slots, in sectors that a disk writes one by one."""


def read_committed(files: Files, database: int) -> int:
    """Return the number of the last record known to be synced; -1 if it is unknown."""
    where = f"{files.where}/{COMMITTED_NAME}"
    try:
        data = files.map(COMMITTED_NAME).tobytes()
    except FileNotFoundError:  # databases of earlier versions have no such file
        return -1
    numbers = [-1]
    for place in SLOT_OFFSETS:
        sector = data[place : place + SLOT_OFFSETS[1]].ljust(SLOT.size, b"\0")
        if not any(sector):
            continue
        mark, owner, number, inverted = SLOT.unpack_from(sector)
        if (mark, inverted) != (COMMITTED_MAGIC, ~number ^ owner) or any(sector[SLOT.size :]):
            raise DamagedError(
                f"{where} is damaged at byte {place}: it is not what was written",
                hint=f"kpg check --repair {files.where} writes it anew if the log is whole",
            )
        if owner != database:
            raise DamagedError(f"{where} belongs to another database")
        numbers.append(number)
    return max(numbers)


class CommittedFile:
    """The file ``committed`` of an open database; ``number`` is its content."""

    def __init__(self, file: File | None, database: int, number: int) -> None:
        self._file = file
        self._database = database
        self._slot = 0
        self.number = number

    @classmethod
    def open(cls, files: Files, database: int, number: int) -> "CommittedFile":
        """Open the file of a database whose log has been read.

        If the file cannot be created, nothing is recorded.
        """
        if COMMITTED_NAME in files.list():
            return cls(files.open(COMMITTED_NAME, writing=True), database, number)
        with suppress(OSError):
            return cls(files.create(COMMITTED_NAME), database, -1)
        return cls(None, database, -1)

    def advance_to(self, number: int) -> None:
        """Record that the records up to this one have been synced."""
        if self._file is None or number <= self.number:
            return
        self._slot = 1 - self._slot
        with suppress(OSError):  # the number is too low then, which is allowed
            self._write(SLOT_OFFSETS[self._slot], number)
            self.number = number

    def retract_to(self, number: int) -> None:
        """Record durably that the records after this one are about to be removed."""
        if self._file is not None and number < self.number:
            for place in SLOT_OFFSETS:
                self._write(place, number)
            self.number = number
            self._file.sync()

    def _write(self, offset: int, number: int) -> None:
        assert self._file is not None
        slot = SLOT.pack(COMMITTED_MAGIC, self._database, number, ~number ^ self._database)
        self._file.write(offset, [slot])

    def sync(self) -> None:
        """Make the content durable."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Close the file without a sync."""
        if self._file is not None:
            self._file.close()


Words = NDArray[np.int64]

MAGIC: Final = int.from_bytes(b"kpg log\n", "little")
VERSION: Final = 4
"""Version of the format of segments and of the content of records."""
RECORD_MARK: Final = 0x6B706772656300
HEADER_WORDS: Final = 8
HEADER_BYTES: Final = 8 * HEADER_WORDS
RECORD_WORDS: Final = 6
WORD: Final = struct.Struct("<q")
HEADER: Final = struct.Struct("<5q")
SECTOR: Final = 512
"""Bytes that a disk writes atomically."""
ALLOCATION_BYTES: Final = 1 << 20
"""Bytes of zeros that are written at a time after a small record."""
SMALL: Final = 1 << 16
"""Bytes up to which a record is small: more zeros are allocated after it."""
MAX_CACHED_BYTES: Final = 1 << 24
"""Size up to which the memory of a large record is cached for the next one."""
LENGTH_BITS: Final = 48


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its kind, number and bytes, and its start and end in the segment."""

    kind: int
    number: int
    start: int
    end: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position to which a log can be truncated."""

    end: int
    number: int


def segment_name(number: int) -> str:
    """Return the file name of a segment."""
    return f"log-{number:08}"


def segment_number(name: str) -> int | None:
    """Return the number of a segment from its file name; None for other files."""
    return int(name[4:]) if name.startswith("log-") and name[4:].isdigit() else None


class Segment:
    """Read-only content of a segment file.

    Raises:
        OperationalError: If the file is no segment of the database.
    """

    def __init__(self, files: Files, number: int, database: int) -> None:
        self.name = segment_name(number)
        self.where = f"{files.where}/{self.name}"
        self.database = database
        data = files.map(self.name)
        prefault(data)
        self.size = data.shape[0]
        self._words: Words = data[: self.size & -8].view(np.int64)
        self.is_empty = self._is_unfinished()
        """Whether the header was never synced."""
        self.first = 0
        """Number of its first record."""
        self.salt = 0
        if not self.is_empty:
            self._check(number, database)

    def _is_unfinished(self) -> bool:
        header = self._words[:HEADER_WORDS]
        if self._words[HEADER_WORDS:].any() or (header.shape[0] > 1 and header[1] > VERSION):
            return False
        whole = header.shape[0] == HEADER_WORDS and header[0] == MAGIC
        return not whole or header[-1] != checksum_of([header[:-1].tobytes()])

    def _check(self, number: int, database: int) -> None:
        words = self._words[:HEADER_WORDS].tolist()
        if len(words) < HEADER_WORDS or words[0] != MAGIC:
            raise DamagedError(f"{self.where} is no log of kpg", hint="it is damaged, or not kpg's")
        if words[1] > VERSION:
            raise OperationalError(
                f"{self.where} has format {words[1]}, and this kpg knows formats up to {VERSION}",
                hint="open it with a newer kpg",
            )
        if words[-1] != checksum_of([self._words[: HEADER_WORDS - 1].tobytes()]):
            raise DamagedError(f"{self.where} is damaged at byte 0: the checksum of its header is wrong")
        if (words[2], words[3]) != (database, number):
            raise DamagedError(f"{self.where} is a log of another database, or another segment")
        self.first, self.salt = words[4], words[5]

    def bytes(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``, both multiples of eight."""
        return self._words[start // 8 : end // 8].tobytes()

    def records(self) -> Iterator[Record]:
        """Yield the records in order, up to a torn write.

        Raises:
            DamagedError: At damage.
        """
        at, number = HEADER_BYTES, self.first
        while not self.is_empty:
            record = self._record(at, number)
            if record is None:
                self._check_end(at, number)
                return
            yield record
            at, number = record.end, number + 1

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all valid records, including those after damage."""
        for place in np.flatnonzero(self._words == RECORD_MARK ^ self.salt).tolist():
            record = self._record(8 * place, None)
            if record is not None:
                yield record.number

    def has_end_word(self, record: Record) -> bool:
        """Return whether the word at a record's end is valid, or a torn write of a valid one."""
        expected = WORD.pack(~RECORD_MARK ^ self.salt)
        found = self._words[record.end // 8 - 1 : record.end // 8].tobytes()
        written = found.rstrip(b"\0")
        return expected.startswith(written)

    def _header(self, at: int) -> list[int] | None:
        words = self._words[at // 8 : at // 8 + RECORD_WORDS]
        if words.shape[0] < RECORD_WORDS or words[0] != RECORD_MARK ^ self.salt:
            return None
        return words.tolist() if words[-1] == checksum_of([words[:-1].tobytes()]) else None

    def _record(self, at: int, number: int | None) -> Record | None:
        header = self._header(at)
        if header is None or (number is not None and header[2] != number):
            return None
        length = header[1] & (1 << LENGTH_BITS) - 1
        start = at + 8 * RECORD_WORDS
        payload = self._words[start // 8 : (start + length) // 8]
        if payload.nbytes != length or _checksum(payload) != header[4]:
            return None
        kind = header[1] >> LENGTH_BITS
        return Record(kind, header[2], at, start + length + 8, payload.view(np.uint8).data)

    def _check_end(self, at: int, number: int) -> None:
        """Raise DamagedError if the bytes after the last record are not torn, or were a synced record."""
        damaged = damage_error(self, at, f"record {number} is not what was written")
        places = np.flatnonzero(self._words[at // 8 + 1 :] == RECORD_MARK ^ self.salt) + at // 8 + 1
        for place in places.tolist():
            later = self._record(8 * place, None)
            if later is not None and self._words[place + 3] >= number:
                raise damaged
        if self.size - at >= 8 and not self._may_be_torn(at):
            raise damaged

    def _may_be_torn(self, at: int) -> bool:
        """Return whether some sector of a possible record may never have been written."""
        header = self._words[at // 8 : at // 8 + RECORD_WORDS]
        end = at + 8 * RECORD_WORDS
        expected = None
        if self._header(at) is not None:
            end += (int(header[1]) & (1 << LENGTH_BITS) - 1) + 8
            expected = ~RECORD_MARK ^ self.salt
        if end > 8 * self._words.shape[0]:
            return True
        if expected is None:
            # A write that ended within the header: its last byte and all following bytes are zeros.
            if not self._words[end // 8 :].any() and not header[-1:].tobytes()[-1]:
                return True
        else:
            # A write that ended within the record: the rest of its last word is zeros.
            found = self._words[end // 8 - 1 : end // 8].tobytes()
            written = found.rstrip(b"\0")
            if written != found and WORD.pack(expected).startswith(written):
                return True
        while at < end:
            beyond = min(end, at - at % SECTOR + SECTOR)
            if not self._words[at // 8 : beyond // 8].any():
                return True
            at = beyond
        return False


def describe_records(first: int, last: int) -> str:
    """Return a range of record numbers in words."""
    return f"record {first}" if first == last else f"records {first} to {last}"


def damage_error(segment: Segment, at: int, description: str) -> DamagedError:
    """Return the error for damage at a byte of a segment."""
    folder = segment.where.removesuffix(f"/{segment.name}")
    return DamagedError(
        f"{segment.where} is damaged at byte {at}: {description}",
        hint="what is before that byte can be read: restore a backup, or give up what is behind it, "
        f"kpg check --repair {folder}",
    )


class Log:
    """A segment to which records are appended. After an error of a file, call :meth:`truncate_to`."""

    def __init__(
        self, file: File, page: bytes, end: int, room: int, number: int, salt: int, segment: int
    ) -> None:
        """Create the log; ``page`` is the start, up to ``end``, of the page where the next record begins."""
        self._file = file
        self.end = end
        self._allocated_end = room
        """Position up to which zeros are written."""
        self.number = number
        """Number of the next record."""
        self._salt = salt
        self.segment = segment
        self.synced = number - 1
        """Number of the last durable record."""
        self.committed_file: CommittedFile | None = None
        """File that records how far the log was synced."""
        self.failure: OSError | None = None
        """Error of the last sync; later syncs do not make durable what it has lost."""
        self._memory = _allocate_pages(SMALL)
        """Buffer whose beginning equals the page in which the next record begins."""
        self._memory[: len(page)] = page

    @classmethod
    def create(
        cls, files: Files, segment: int, database: int, first: int, *, room: int = 0, direct: bool = False
    ) -> "Log":
        """Create a durable segment with ``room`` bytes allocated; ``direct`` is as in ``Files.create``."""
        salt = _new_salt()
        header = _segment_header(segment, database, first, salt)
        file = files.create(segment_name(segment), direct=direct)
        try:
            file.write(0, [header, bytes(room)])
            file.sync()
            files.sync()
            return cls(file, header, len(header), len(header) + room, first, salt, segment)
        except BaseException:
            file.close()
            raise

    @classmethod
    def resume(
        cls,
        files: Files,
        old: Segment,
        segment: int,
        end: int,
        number: int,
        *,
        direct: bool = False,
        committed_file: CommittedFile | None = None,
    ) -> "Log":
        """Continue a segment from ``end`` on, after cutting off what a crash has left there.

        The whole segment is written again, in this version's format. A sync may have failed before the crash:
        then what is read may be only in memory, and only another write followed by a sync makes it durable.
        """
        file = files.open(old.name, writing=True, direct=direct)
        try:
            if committed_file is not None:
                committed_file.retract_to(number - 1)  # rows of an unfinished commit may have been synced
            file.truncate(end)
            header = _segment_header(segment, old.database, old.first, old.salt)
            memory = _allocate_pages(min(end, ALLOCATION_BYTES))
            for at in range(0, end, ALLOCATION_BYTES):
                part = old.bytes(at, min(end, at + ALLOCATION_BYTES))
                memory[: len(part)] = part
                if not at:
                    memory[: len(header)] = header
                file.write(at, [memory[: len(part)]])
            file.sync()
            page = file.read(end - end % PAGE, end % PAGE)
            log = cls(file, page, end, end, number, old.salt, segment)
            log.committed_file = committed_file
            if committed_file is not None:
                committed_file.advance_to(number - 1)
            return log
        except BaseException:
            file.close()
            raise

    def append(self, kind: int, pieces: Sequence[Piece]) -> int:
        """Append a record of pieces, each a multiple of eight bytes long; return its number."""
        length = sum(map(len, pieces))
        lead, size = self.end % PAGE, 8 * RECORD_WORDS + length + 8
        end = self.end + size
        # At least a page follows a large record, for the small record of its commit.
        total = _round_to_pages(lead + size + (PAGE if length > SMALL and end > self._allocated_end else 0))
        memory = self._memory_for(lead, total)
        at = lead + 8 * RECORD_WORDS
        for piece in pieces:
            memory[at : at + len(piece)] = piece
            at += len(piece)
        memory[at : at + 8] = WORD.pack(~RECORD_MARK ^ self._salt)
        memory[lead + size : total] = bytes(total - lead - size)
        self._fill_header(memory[lead : lead + size], kind, length)
        start = self.end - lead
        self._file.write(start, [memory[:total]])
        if end > self._allocated_end and length <= SMALL:
            self._file.write(start + total, [_zero_pages()])
            total += ALLOCATION_BYTES
        self._allocated_end = max(self._allocated_end, start + total)
        self._copy_last_page(memory, end - start)
        self.end = end
        self.number += 1
        return self.number - 1

    def _fill_header(self, record: memoryview, kind: int, length: int) -> None:
        """Fill in the header of a record."""
        words = np.frombuffer(record, np.int64)
        contents = int(checksum(words[RECORD_WORDS:-1], 0)) if length else 0
        kind_and_length = kind << LENGTH_BITS | length
        HEADER.pack_into(
            record, 0, RECORD_MARK ^ self._salt, kind_and_length, self.number, self.synced, contents
        )
        WORD.pack_into(record, HEADER.size, int(checksum(words[: RECORD_WORDS - 1], 0)))

    def _memory_for(self, lead: int, size: int) -> memoryview:
        """Return memory of at least ``size`` bytes that begins like the page where the next record begins."""
        if size <= len(self._memory):
            return self._memory
        memory = _allocate_pages(size)
        memory[:lead] = self._memory[:lead]
        if size <= MAX_CACHED_BYTES:
            self._memory = memory
        return memory

    def _copy_last_page(self, memory: memoryview, end: int) -> None:
        """Copy the page in which the next record will begin to the beginning of the buffer."""
        lead = end % PAGE
        self._memory[:lead] = memory[end - lead : end]

    def sync(self) -> None:
        """Make all records durable."""
        last = self.number - 1
        try:
            self._file.sync()
        except OSError as error:
            self.failure = error
            raise
        self.synced = last
        if self.committed_file is not None:
            self.committed_file.advance_to(last)

    def position(self) -> LogPosition:
        """Return the current end, for :meth:`truncate_to`."""
        return LogPosition(self.end, self.number)

    def truncate_to(self, mark: LogPosition) -> None:
        """Remove all records after a position, durably.

        After a :attr:`failure`, earlier records may be missing too, unless they were synced before.
        """
        if self.committed_file is not None:
            self.committed_file.retract_to(mark.number - 1)
        self._file.truncate(mark.end)
        self._file.sync()
        self.failure = None
        self.end = self._allocated_end = mark.end
        self.number = mark.number
        self.synced = mark.number - 1
        lead = mark.end % PAGE
        self._memory[:lead] = self._file.read(mark.end - lead, lead)

    def close(self) -> None:
        """Close the file without a sync."""
        self._file.close()


def _allocate_pages(size: int) -> memoryview:
    """Return at least ``size`` bytes of memory in whole pages, which forked children do not copy."""
    return memoryview(mmap.mmap(-1, _round_to_pages(size)))


@cache
def _zero_pages() -> memoryview:
    """Return pages of zeros that occupy no memory."""
    return memoryview(mmap.mmap(-1, ALLOCATION_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _round_to_pages(size: int) -> int:
    """Return the size rounded up to whole pages."""
    return size + -size % PAGE


def _new_salt() -> int:
    salt = int.from_bytes(os.urandom(8), "little", signed=True)
    while ((~RECORD_MARK ^ salt) >> 56 & 0xFF).bit_count() < 2:
        # An end word with one flipped bit must not look like a torn end word.
        salt = int.from_bytes(os.urandom(8), "little", signed=True)
    return salt


def _segment_header(segment: int, database: int, first: int, salt: int) -> bytes:
    """Return the header of a segment."""
    words = np.array([MAGIC, VERSION, database, segment, first, salt, 0, 0], np.int64)
    words[-1] = checksum_of([words[:-1].tobytes()])
    return words.tobytes()


def _checksum(words: Words) -> int:
    return checksum_of([words.data]) if words.shape[0] else 0
