"""Inspection, check and repair of a database folder.

Inspection reads the folder's files only: it opens no database, takes no lock and writes nothing. Beside a
running process it sees the files as of one moment. ``check`` also opens the database, read-only. ``repair``
locks the folder, and truncates a damaged log at the first unreadable record. ``check_contents``
compares an open database with itself: indexes with rows, and views with their queries.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np

from kpg.compiler.catalog.entries import TableEntry
from kpg.execute.statements import provide_statements
from kpg.persistence.database_state import codec
from kpg.persistence.recovery import LOCK, open_folder
from kpg.persistence.write_ahead_log import CLOSED, COMMIT, ROWS
from kpg.runtime.errors import Error, OperationalError
from kpg.runtime.handles import Installation
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import Disk, Files, size_of
from kpg.runtime.storage.log import (
    HEADER_BYTES,
    Log,
    Segment,
    read_proof,
    records_between,
    segment_name,
    segment_number,
)
from kpg.runtime.storage.log import NAME as PROOF
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
from kpg.runtime.trace.updates import Updates
from kpg.session.engine import Engine


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


def check(folder: str | Path, *, imports: bool = False, left: dict[str, str] | None = None) -> Iterator[str]:
    """What is wrong with the database in a folder, a line for each thing; it is not written to.

    Beside a process that has it open this is about its last commit. No code that the folder names is run but
    with ``imports``: views that call users' functions are ``left`` out, and why is told there.
    """
    found = False
    for line in damage(folder):
        found = True
        yield line
    if found:
        return
    engine = Engine()
    provide_statements(engine)
    try:
        found_left = open_folder(engine, folder, read_only=True, whole=imports)
    except Error as error:
        yield f"{folder} cannot be opened: {error.message}"
        return
    if left is not None:
        left.update(found_left)
    try:
        yield from check_contents(engine)
    finally:
        engine.close()


def repair(folder: str | Path) -> Iterator[str]:
    """Cut a damaged log off where it can be read no further: a line for what was done, and is lost.

    What is cut off stays in files whose names end in ``.damaged``. OperationalError if the folder is in use,
    or is no database; what else is damaged stays so.
    """
    if not Path(folder).is_dir():
        raise OperationalError(f"{folder} is no folder")
    files = Disk(folder)
    lock = files.lock(LOCK, f"process {os.getpid()} (kpg check --repair)")
    if isinstance(lock, str):
        raise OperationalError(f"{folder} is in use by {lock}", hint="close it there first")
    try:
        manifest = read_manifest(files)
        if manifest is None:
            raise OperationalError(f"{folder} is no database of kpg", hint="it has no manifest")
        yield from _repaired(files, manifest)
    finally:
        lock.release()


@dataclass(slots=True)
class _Readable:
    """How far a log can be read: up to a byte of a segment, and to the record before ``number``.

    ``whole`` is the number behind the last record that can be read: from ``number`` on no commit has them.
    ``damaged`` says whether damage ends it, not the end of the log, or what a crash left of a record.
    """

    segment: int
    end: int = 0
    number: int = 0
    whole: int = 0
    damaged: bool = False


def _readable(files: Files, manifest: Manifest, numbers: list[int]) -> _Readable:
    found = _Readable(manifest.segment)
    for place, number in enumerate(numbers):
        try:
            segment = Segment(files, number, manifest.database)
            if segment.empty and place and number == numbers[-1]:  # made in part
                return found
            if (
                segment.empty
                or number != manifest.segment + place
                or (place and segment.first != found.number)
            ):
                found.damaged = True
                return found
            found.segment, found.end = number, HEADER_BYTES
            found.number = found.whole = segment.first
            for record in segment.records():
                found.whole = record.number + 1
                if record.kind != ROWS:
                    found.end, found.number = record.end, record.number + 1
        except DamagedError:
            found.damaged = True
            return found
    found.damaged = not numbers
    return found


def _repaired(files: Files, manifest: Manifest) -> Iterator[str]:
    names = [(n, name) for name in files.list() if (n := segment_number(name)) is not None]
    there = sorted((number, name) for number, name in names if number >= manifest.segment)
    found = _readable(files, manifest, [number for number, _ in there])
    known, proved = found.whole - 1, True
    try:
        known = max(known, read_proof(files, manifest.database))
    except Error:
        proved = False
    if proved and not found.damaged and known < found.whole:
        return
    for number, _ in there:
        with suppress(Error):
            known = max(known, *Segment(files, number, manifest.database).numbers(), -1)
    for number, name in there:
        if number >= found.segment:
            _set_aside(files, name, copies=number == found.segment and found.end > 0)
    if PROOF in files.list():
        _set_aside(files, PROOF)
    files.sync()
    name = segment_name(found.segment)
    if found.end:
        log = files.open(name, writing=True)
        log.truncate(found.end)
        log.sync()
        log.close()
    else:
        found.number = known + 1
        Log.create(files, found.segment, manifest.database, found.number).close()
    told = "no record behind it is known"
    if known >= found.number:
        most = known - found.number + 1
        told = f"{records_between(found.number, known)} lost, at most {most} commit{'s' * (most > 1)}"
    yield f"{files.where}/{name} was cut at byte {found.end}: {told}; what it had is in files named .damaged"


def _set_aside(files: Files, name: str, *, copies: bool = False) -> None:
    """Have a file, or a copy of it, have a name that no database reads."""
    aside = next(one for place in count(1) if (one := f"{name}.{place}.damaged") not in files.list())
    if not copies:
        files.rename(name, aside)
        return
    copy = files.create(aside)
    copy.write(0, [files.map(name).data])
    copy.sync()
    copy.close()


def check_contents(engine: Engine) -> Iterator[str]:
    """What is wrong with the indexes and views of a database."""
    for entry in list(engine.catalog):
        if isinstance(entry, TableEntry):
            try:
                yield from engine.executor.check(entry.name)
            except Error as error:
                yield f"table {entry.name} cannot be read: {error.message}"
    for name in sorted(engine.tables.indexes):
        yield from _check_index(engine, name, engine.tables.indexes[name])
    for name in sorted(engine.views):
        view = engine.views[name]
        if view.sql:
            from kpg.execute.queries.explain import verify  # lazy: the start does without it

            try:
                verify(engine, view)
            except Error as error:
                yield f"{error.message}{'' if error.hint is None else f' ({error.hint})'}"


def _check_index(engine: Engine, name: str, installed: Installation) -> Iterator[str]:
    try:
        again = engine.executor.install(f"check {name}", engine.views.plans[f"index {name}"], isolated=True)
        try:
            (kept, counts), (expected, counted) = installed.rows(), again.rows()
        finally:
            engine.executor.uninstall(again)
    except Error as error:
        yield f"index {name} cannot be read: {error.message}"
        return
    parts = [Updates.of(kept, (0,), counts), Updates.of(expected, (0,), -np.asarray(counted))]
    wrong = len(Updates.concat(parts).consolidate())
    if wrong:
        yield f"index {name} differs from its table in {wrong} entries"
