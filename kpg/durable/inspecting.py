"""What is in the folder of a database, by its files alone: nothing is opened, locked or written.

Beside a process that goes on with it, they are as they were at one moment.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kpg.durable.keeper import CLOSED, COMMIT, ROWS
from kpg.durable.known import codec
from kpg.runtime.errors import Error, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.storage.files import Disk, Files, size_of
from kpg.runtime.storage.log import NAME as PROOF
from kpg.runtime.storage.log import Segment, read_proof, records_between, segment_number
from kpg.runtime.storage.packs import (
    BLOCK,
    NAME,
    Manifest,
    Pack,
    pack_name,
    pack_number,
    packs_of,
    read_manifest,
)
from kpg.runtime.storage.snapshot import Still


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file: its name, what it is, its bytes, and what else there is to say."""

    name: str
    kind: str
    bytes: int
    details: str


def files_of(folder: str | Path) -> tuple[Files, Manifest]:
    """The files of a database, and its manifest; OperationalError if the folder is none."""
    path = Path(folder)
    if not path.is_dir():
        raise OperationalError(f"{path} {'is a file' if path.exists() else 'does not exist'}")
    files = Still(Disk(path))
    try:
        manifest = read_manifest(files)
    except OSError as error:
        raise OperationalError(f"{path} cannot be read: {error.strerror or error}") from error
    if manifest is None:
        raise OperationalError(f"{path} is no database of kpg", hint="it has no manifest")
    return files, manifest


def inspected(folder: str | Path) -> list[FileFacts]:
    """Every file of a database. What is damaged says so, and does not keep the others from being told."""
    files, manifest = files_of(folder)
    others = set(Disk(folder).list()) - set(files.list())
    known = [_facts(files, manifest, name) for name in files.list()]
    more = [_facts(files, manifest, name) for name in others if pack_number(name) is None]
    return sorted((*known, *more), key=lambda one: one.name)


def _facts(files: Files, manifest: Manifest, name: str) -> FileFacts:
    size = 0
    try:
        taken = segment_number(name) is not None or pack_number(name) is not None
        size = files.map(name).shape[0] if taken else size_of(files, name)
        if name == NAME:
            return FileFacts(name, "manifest", size, _of_manifest(manifest))
        if (segment := segment_number(name)) is not None:
            return FileFacts(name, "log", size, _of_segment(files, manifest, segment))
        if (pack := pack_number(name)) is not None:
            return FileFacts(name, "pack", size, _of_pack(files, manifest, pack))
        if name == PROOF:
            number = read_proof(files, manifest.database)
            return FileFacts(name, "log", size, f"records up to {number} were synced" if number >= 0 else "")
    except Error as error:
        return FileFacts(name, "damaged", size, error.message)
    except OSError as error:
        return FileFacts(name, "damaged", size, f"it cannot be read: {error.strerror or error}")
    return FileFacts(name, "lock" if name == "lock" else "left over", size, "")


def _of_manifest(manifest: Manifest) -> str:
    checkpoint = manifest.checkpoint
    made = "no checkpoint" if checkpoint is None else f"a checkpoint of epoch {checkpoint.epoch}"
    return (
        f"database {manifest.database & (1 << 64) - 1:016x}, {made}, log from segment {manifest.segment} on"
    )


def _of_segment(files: Files, manifest: Manifest, number: int) -> str:
    if number < manifest.segment:
        return "left over"
    found = Segment(files, number, manifest.database)
    kinds: Counter[int] = Counter()
    end = 0
    for record in found.records():
        kinds[record.kind] += 1
        end = record.end
    closed = ", closed" if kinds[CLOSED] else ""
    return f"{kinds[COMMIT]} commits in {end} bytes{closed}"


def _of_pack(files: Files, manifest: Manifest, number: int) -> str:
    packs = () if manifest.checkpoint is None else manifest.checkpoint.packs
    facts = next((one for one in packs if one.number == number), None)
    if facts is None and number not in _named(files, manifest):
        return "left over"
    pack = Pack(files, number, manifest.database)
    if facts is None:
        return f"{pack.blocks * BLOCK} bytes of rows that the log names"
    return f"{facts.live * BLOCK} bytes live of {pack.blocks * BLOCK}"


def _named(files: Files, manifest: Manifest) -> set[int]:
    """The packs that records of the log name."""
    found: set[int] = set()
    known = codec(lambda name: name)
    for name in files.list():
        number = segment_number(name)
        if number is not None and number >= manifest.segment:
            for record in Segment(files, number, manifest.database).records():
                if record.kind in (ROWS, COMMIT):
                    value = known.decode(record.payload)
                    found |= packs_of(value) if record.kind == ROWS else packs_of(value[2], value[1])
    return found


def damage(folder: str | Path) -> Iterator[str]:
    """What is wrong with the files, read to their last bit: a line for each thing."""
    try:
        files, manifest = files_of(folder)
        yield from damage_of(files, manifest)
    except OperationalError as error:
        yield error.message
    except OSError as error:
        yield f"{folder} cannot be read: {error.strerror or error}"


def damage_of(files: Files, manifest: Manifest) -> Iterator[str]:
    """As :func:`damage`, of files and their manifest."""
    packs = () if manifest.checkpoint is None else manifest.checkpoint.packs
    for facts in packs:
        yield from _damage_of_pack(files, manifest, facts.number)
    numbers = sorted(n for name in files.list() if (n := segment_number(name)) is not None)
    found = [number for number in numbers if number >= manifest.segment]
    for place, number in enumerate(found or [manifest.segment]):
        if number != manifest.segment + place:
            yield f"{files.where}/log-{manifest.segment + place:08} is missing"
            return
    if not found:
        yield f"{files.where}/log-{manifest.segment:08} is missing"
    synced, whole = -1, 0
    try:
        synced = read_proof(files, manifest.database)
    except Error as error:
        yield error.message
    for number in found:
        try:
            segment = Segment(files, number, manifest.database)
            whole = max(whole, segment.first)
            for record in segment.records():
                whole = record.number + 1
                if not segment.is_ended(record):
                    yield f"{segment.where} is damaged at byte {record.end - 8}: a record has another end"
        except Error as error:
            yield error.message
            return
    if synced >= whole:
        lost = records_between(whole, synced)
        yield f"{files.where}: {lost} of the log had been synced, and cannot be read any more"
    # One that is missing was of tables that are gone: opening tells if it was not.
    there = {pack for name in files.list() if (pack := pack_number(name)) is not None}
    for number in sorted(there & _named(files, manifest)):
        yield from _damage_of_pack(files, manifest, number)


def _damage_of_pack(files: Files, manifest: Manifest, number: int) -> Iterator[str]:
    if pack_name(number) not in files.list():
        yield f"{files.where}/{pack_name(number)} is missing"
        return
    try:
        pack = Pack(files, number, manifest.database)
    except Error as error:
        yield error.message
        return
    at = 0
    while at < pack.blocks:
        end = min(pack.blocks, at + 4096)
        try:
            pack.verify(at, end)
        except Error as error:
            yield error.message
        at = end
