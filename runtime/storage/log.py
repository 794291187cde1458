"""The write-ahead log: a sequence of records in segment files, each record complete or absent.

A segment is a header and records. A record has a header of six words (mark, kind and length, number, how far
the log was synced, checksum of the content, checksum of the header), then its bytes, then an end word. Zeros
follow the last record: space is allocated in advance, so syncing a small record need not change the file
length. Writes cover whole pages; the first page repeats what precedes the record.

Recovery distinguishes torn writes from damage. A record is torn if a sector of it, or all bytes after some
position, are zeros, because the space held only zeros before. A torn tail is cut off. Anything else that is
not a valid record is damage. A missing record is damage if a later record was written after a sync, or if the
file ``committed`` says that it was synced.

``committed`` (:class:`Proof`) holds the number of the last synced record. It is written after the sync and
before the commit is acknowledged, and is not synced itself, so a commit waits for one sync. The number is
never too high. It is exact after a process crash; after a power failure it may lag by about half a minute. It
has two slots in separate sectors, written alternately. A slot is four words: mark, database, number, and the
number inverted xor the database.
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
from kpg.runtime.storage.files import PAGE, File, Files, Piece, checksum_of, read_in

NAME: Final = "committed"
PROOF_MAGIC: Final = int.from_bytes(b"kpgdone\n", "little")
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
        if (mark, inverted) != (PROOF_MAGIC, ~number ^ owner) or any(sector[SLOT.size :]):
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
        slot = SLOT.pack(PROOF_MAGIC, self._database, number, ~number ^ self._database)
        self._file.write(place, [slot])

    def sync(self) -> None:
        """Have it say so on the disk."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Give the file up, without a sync."""
        if self._file is not None:
            self._file.close()


Words = NDArray[np.int64]

MAGIC: Final = int.from_bytes(b"kpg log\n", "little")
VERSION: Final = 4
"""Of the format of segments and of what stands in records."""
RECORD: Final = 0x6B706772656300
HEADER_WORDS: Final = 8
HEADER_BYTES: Final = 8 * HEADER_WORDS
RECORD_WORDS: Final = 6
WORD: Final = struct.Struct("<q")
HEADER: Final = struct.Struct("<5q")
SECTOR: Final = 512
"""Bytes that a disk writes all or not at all."""
ROOM: Final = 1 << 20
"""Zeros are written so many at a time, behind a small record."""
SMALL: Final = 1 << 16
KEPT: Final = 1 << 24
"""Bytes of memory up to which that of a large record is kept for the next one."""
LENGTH_BITS: Final = 48


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its kind, number and bytes, and where it begins and ends in its segment."""

    kind: int
    number: int
    start: int
    end: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a log to cut it back to."""

    end: int
    number: int


def segment_name(number: int) -> str:
    """The file of a segment."""
    return f"log-{number:08}"


def segment_number(name: str) -> int | None:
    """The number of the segment that a file is, None if it is none."""
    return int(name[4:]) if name.startswith("log-") and name[4:].isdigit() else None


class Segment:
    """What a segment's file has, as it is. OperationalError for a file that is no segment of the database."""

    def __init__(self, files: Files, number: int, database: int) -> None:
        self.name = segment_name(number)
        self.where = f"{files.where}/{self.name}"
        self.database = database
        data = files.map(self.name)
        read_in(data)
        self.size = data.shape[0]
        self._words: Words = data[: self.size & -8].view(np.int64)
        self.empty = self._is_unfinished()
        """Whether not even its header was ever synced."""
        self.first = 0
        """The number of its first record."""
        self.salt = 0
        if not self.empty:
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
            raise DamagedError(f"{self.where} is damaged at byte 0: its header has another checksum")
        if (words[2], words[3]) != (database, number):
            raise DamagedError(f"{self.where} is a log of another database, or another part of this one's")
        self.first, self.salt = words[4], words[5]

    def bytes(self, start: int, end: int) -> bytes:
        """What is there, from one byte to another, at multiples of eight."""
        return self._words[start // 8 : end // 8].tobytes()

    def records(self) -> Iterator[Record]:
        """The records, in order, up to where a crash may have left something torn. DamagedError at damage."""
        at, number = HEADER_BYTES, self.first
        while not self.empty:
            record = self._record(at, number)
            if record is None:
                self._check_end(at, number)
                return
            yield record
            at, number = record.end, number + 1

    def numbers(self) -> Iterator[int]:
        """The numbers of all records that are whole, those behind damage too."""
        for place in np.flatnonzero(self._words == RECORD ^ self.salt).tolist():
            record = self._record(8 * place, None)
            if record is not None:
                yield record.number

    def is_ended(self, record: Record) -> bool:
        """Whether the word at a record's end is the one that was written, as far as it came: the rest has."""
        expected = WORD.pack(~RECORD ^ self.salt)
        found = self._words[record.end // 8 - 1 : record.end // 8].tobytes()
        came = found.rstrip(b"\0")
        return expected.startswith(came)

    def _header(self, at: int) -> list[int] | None:
        words = self._words[at // 8 : at // 8 + RECORD_WORDS]
        if words.shape[0] < RECORD_WORDS or words[0] != RECORD ^ self.salt:
            return None
        return words.tolist() if words[-1] == checksum_of([words[:-1].tobytes()]) else None

    def _record(self, at: int, number: int | None) -> Record | None:
        header = self._header(at)
        if header is None or (number is not None and header[2] != number):
            return None
        length = header[1] & (1 << LENGTH_BITS) - 1
        start = at + 8 * RECORD_WORDS
        payload = self._words[start // 8 : (start + length) // 8]
        if payload.nbytes != length or _sum(payload) != header[4]:
            return None
        kind = header[1] >> LENGTH_BITS
        return Record(kind, header[2], at, start + length + 8, payload.view(np.uint8).data)

    def _check_end(self, at: int, number: int) -> None:
        """DamagedError if what is no record there was one that had been synced, or cannot be torn."""
        damaged = damage_at(self, at, f"record {number} is not what was written")
        places = np.flatnonzero(self._words[at // 8 + 1 :] == RECORD ^ self.salt) + at // 8 + 1
        for place in places.tolist():
            later = self._record(8 * place, None)
            if later is not None and self._words[place + 3] >= number:
                raise damaged
        if self.size - at >= 8 and not self._may_be_torn(at):
            raise damaged

    def _may_be_torn(self, at: int) -> bool:
        """Whether some sector of the record there, if it is one, may never have come."""
        header = self._words[at // 8 : at // 8 + RECORD_WORDS]
        end = at + 8 * RECORD_WORDS
        expected = None
        if self._header(at) is not None:
            end += (int(header[1]) & (1 << LENGTH_BITS) - 1) + 8
            expected = ~RECORD ^ self.salt
        if end > 8 * self._words.shape[0]:
            return True
        if expected is None:
            # A write that ended within the header: its last byte, and all behind it, are zeros.
            if not self._words[end // 8 :].any() and not header[-1:].tobytes()[-1]:
                return True
        else:
            # A write that ended within the record: the rest of its last word is zeros, not other bytes.
            found = self._words[end // 8 - 1 : end // 8].tobytes()
            came = found.rstrip(b"\0")
            if came != found and WORD.pack(expected).startswith(came):
                return True
        while at < end:
            beyond = min(end, at - at % SECTOR + SECTOR)
            if not self._words[at // 8 : beyond // 8].any():
                return True
            at = beyond
        return False


def records_between(first: int, last: int) -> str:
    """These records, in words."""
    return f"record {first}" if first == last else f"records {first} to {last}"


def damage_at(segment: Segment, at: int, what: str) -> DamagedError:
    """The error of a log that is damaged at a byte."""
    folder = segment.where.removesuffix(f"/{segment.name}")
    return DamagedError(
        f"{segment.where} is damaged at byte {at}: {what}",
        hint="what is before that byte can be read: restore a backup, or give up what is behind it, "
        f"kpg check --repair {folder}",
    )


class Log:
    """A segment that records are added to. After an error of a file, :meth:`cut` has to be called."""

    def __init__(
        self, file: File, page: bytes, end: int, room: int, number: int, salt: int, segment: int
    ) -> None:
        """``page`` is what the file has of the page that the next record begins in, at ``end``."""
        self._file = file
        self.end = end
        self._room = room
        """Up to where zeros are written."""
        self.number = number
        """The number of the next record."""
        self._salt = salt
        self.segment = segment
        self.synced = number - 1
        """The last record that is there whatever happens."""
        self.proof: Proof | None = None
        """What tells afterwards how far the log was synced."""
        self.failure: OSError | None = None
        """What the last sync ended in, if not well: no later one would have there what it has lost."""
        self._memory = _pages(SMALL)
        """Begins as the page does that the next record begins in."""
        self._memory[: len(page)] = page

    @classmethod
    def create(
        cls, files: Files, segment: int, database: int, first: int, *, room: int = 0, direct: bool = False
    ) -> "Log":
        """A new segment, whose file is there whatever happens, and has ``room`` for so many bytes.

        If ``direct``, records go past the system's memory, where it has a way for that.
        """
        salt = _new_salt()
        header = _header(segment, database, first, salt)
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
        found: Segment,
        segment: int,
        end: int,
        number: int,
        *,
        direct: bool = False,
        proof: Proof | None = None,
    ) -> "Log":
        """A segment that ends there, from now on; what a crash has left behind is cut off.

        All of it is written again, as a segment of this version. A sync may have failed before the crash:
        then what is read may only be in memory, and no sync but one after another write would have it be on
        the disk.
        """
        file = files.open(found.name, writing=True, direct=direct)
        try:
            if proof is not None:
                proof.lower_to(number - 1)  # rows whose commit never came may have been synced
            file.truncate(end)
            header = _header(segment, found.database, found.first, found.salt)
            memory = _pages(min(end, ROOM))
            for at in range(0, end, ROOM):
                part = found.bytes(at, min(end, at + ROOM))
                memory[: len(part)] = part
                if not at:
                    memory[: len(header)] = header
                file.write(at, [memory[: len(part)]])
            file.sync()
            page = file.read(end - end % PAGE, end % PAGE)
            log = cls(file, page, end, end, number, found.salt, segment)
            log.proof = proof
            if proof is not None:
                proof.raise_to(number - 1)
            return log
        except BaseException:
            file.close()
            raise

    def write(self, kind: int, pieces: Sequence[Piece]) -> int:
        """Add a record of pieces, each a multiple of eight bytes long; its number."""
        length = sum(map(len, pieces))
        lead, size = self.end % PAGE, 8 * RECORD_WORDS + length + 8
        end = self.end + size
        # Behind a large record there is a page at least: what follows is its commit's record, which is small.
        total = _whole(lead + size + (PAGE if length > SMALL and end > self._room else 0))
        memory = self._memory_for(lead, total)
        at = lead + 8 * RECORD_WORDS
        for piece in pieces:
            memory[at : at + len(piece)] = piece
            at += len(piece)
        memory[at : at + 8] = WORD.pack(~RECORD ^ self._salt)
        memory[lead + size : total] = bytes(total - lead - size)
        self._head(memory[lead : lead + size], kind, length)
        start = self.end - lead
        self._file.write(start, [memory[:total]])
        if end > self._room and length <= SMALL:
            self._file.write(start + total, [_zeros()])
            total += ROOM
        self._room = max(self._room, start + total)
        self._keep_page(memory, end - start)
        self.end = end
        self.number += 1
        return self.number - 1

    def _head(self, whole: memoryview, kind: int, length: int) -> None:
        """Fill in the header of a record."""
        words = np.frombuffer(whole, np.int64)
        contents = int(checksum(words[RECORD_WORDS:-1], 0)) if length else 0
        kind_and_length = kind << LENGTH_BITS | length
        HEADER.pack_into(whole, 0, RECORD ^ self._salt, kind_and_length, self.number, self.synced, contents)
        WORD.pack_into(whole, HEADER.size, int(checksum(words[: RECORD_WORDS - 1], 0)))

    def _memory_for(self, lead: int, size: int) -> memoryview:
        """Memory for so many bytes, which begins as the page does that the next record begins in."""
        if size <= len(self._memory):
            return self._memory
        memory = _pages(size)
        memory[:lead] = self._memory[:lead]
        if size <= KEPT:
            self._memory = memory
        return memory

    def _keep_page(self, memory: memoryview, end: int) -> None:
        """Have the memory begin as the page does that the next record will begin in."""
        lead = end % PAGE
        self._memory[:lead] = memory[end - lead : end]

    def sync(self) -> None:
        """Have all records be there whatever happens."""
        upto = self.number - 1
        try:
            self._file.sync()
        except OSError as error:
            self.failure = error
            raise
        self.synced = upto
        if self.proof is not None:
            self.proof.raise_to(upto)

    def mark(self) -> Mark:
        """The present end, for :meth:`cut`."""
        return Mark(self.end, self.number)

    def cut(self, mark: Mark) -> None:
        """Have no record after a mark; when this returns, none of them can come back.

        After a :attr:`failure` those before it may not be there if they had not been synced before.
        """
        if self.proof is not None:
            self.proof.lower_to(mark.number - 1)
        self._file.truncate(mark.end)
        self._file.sync()
        self.failure = None
        self.end = self._room = mark.end
        self.number = mark.number
        self.synced = mark.number - 1
        lead = mark.end % PAGE
        self._memory[:lead] = self._file.read(mark.end - lead, lead)

    def close(self) -> None:
        """Give the file up, without a sync."""
        self._file.close()


def _pages(size: int) -> memoryview:
    """Memory of so many bytes at least, in whole pages, which no child that is forked has copied."""
    return memoryview(mmap.mmap(-1, _whole(size)))


@cache
def _zeros() -> memoryview:
    """Pages of zeros, which take no memory."""
    return memoryview(mmap.mmap(-1, ROOM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _whole(size: int) -> int:
    """Bytes of the pages that so many are in."""
    return size + -size % PAGE


def _new_salt() -> int:
    salt = int.from_bytes(os.urandom(8), "little", signed=True)
    while ((~RECORD ^ salt) >> 56 & 0xFF).bit_count() < 2:
        # With one bit flipped, the word at a record's end is to be no such word that came in part.
        salt = int.from_bytes(os.urandom(8), "little", signed=True)
    return salt


def _header(segment: int, database: int, first: int, salt: int) -> bytes:
    """What a segment begins with."""
    words = np.array([MAGIC, VERSION, database, segment, first, salt, 0, 0], np.int64)
    words[-1] = checksum_of([words[:-1].tobytes()])
    return words.tobytes()


def _sum(words: Words) -> int:
    return checksum_of([words.data]) if words.shape[0] else 0
