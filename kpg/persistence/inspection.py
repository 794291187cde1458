"""Inspection, check and repair of a database folder.

Inspection only reads the folder's files. It opens no database, takes no lock and writes nothing.
Beside a running process it sees the files as of one moment. ``check`` also opens the database,
read-only. ``repair`` locks the folder, and truncates a damaged log at the first unreadable record.
``check_contents`` compares an open database with itself: indexes with rows, and views with their
queries.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kpg.compiler.catalog.entries import TableEntry
from kpg.execute.statements import install_execution
from kpg.persistence.database_state import make_codec
from kpg.persistence.recovery import LOCK_NAME, open_folder
from kpg.persistence.write_ahead_log import CLOSED_RECORD, COMMIT_RECORD, ROWS_RECORD
from kpg.runtime.errors import Error, OperationalError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import Installation
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import Disk, Files, size_of
from kpg.runtime.storage.log import COMMITTED_NAME as PROOF
from kpg.runtime.storage.log import (
    HEADER_BYTES,
    Log,
    Segment,
    describe_records,
    read_committed,
    segment_name,
    segment_number,
)
from kpg.runtime.storage.packs import (
    BLOCK,
    MANIFEST_NAME,
    Manifest,
    Pack,
    pack_name,
    pack_number,
    packs_of,
    read_manifest,
)
from kpg.runtime.storage.snapshot import FilesSnapshot
from kpg.runtime.trace.updates import Updates
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute.queries import explain
else:
    explain = LazyModule("kpg.execute.queries.explain")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file's name, kind, number of bytes, and details for display."""

    name: str
    kind: str
    bytes: int
    details: str


def open_snapshot(folder: str | Path) -> tuple[Files, Manifest]:
    """Return a snapshot of a database's files, and its manifest.

    Raises OperationalError if the folder is not a database.
    """
    path = Path(folder)
    if not path.is_dir():
        raise OperationalError(f"{path} {'is a file' if path.exists() else 'does not exist'}")
    files = FilesSnapshot(Disk(path))
    try:
        manifest = read_manifest(files)
    except OSError as error:
        raise OperationalError(f"{path} cannot be read: {error.strerror or error}") from error
    if manifest is None:
        raise OperationalError(f"{path} is no database of kpg", hint="it has no manifest")
    return files, manifest


def inspect_files(folder: str | Path) -> list[FileInfo]:
    """Return information on every file of a database. Damaged files are reported as such."""
    files, manifest = open_snapshot(folder)
    others = set(Disk(folder).list()) - set(files.list())
    visible = [_file_info(files, manifest, name) for name in files.list()]
    hidden = [_file_info(files, manifest, name) for name in others if pack_number(name) is None]
    return sorted((*visible, *hidden), key=lambda file: file.name)


def _file_info(files: Files, manifest: Manifest, name: str) -> FileInfo:
    size = 0
    try:
        is_mapped = segment_number(name) is not None or pack_number(name) is not None
        size = files.map(name).shape[0] if is_mapped else size_of(files, name)
        if name == MANIFEST_NAME:
            return FileInfo(name, "manifest", size, _manifest_details(manifest))
        if (segment := segment_number(name)) is not None:
            return FileInfo(name, "log", size, _segment_details(files, manifest, segment))
        if (pack := pack_number(name)) is not None:
            return FileInfo(name, "pack", size, _pack_details(files, manifest, pack))
        if name == PROOF:
            number = read_committed(files, manifest.database)
            return FileInfo(name, "log", size, f"records up to {number} were synced" if number >= 0 else "")
    except Error as error:
        return FileInfo(name, "damaged", size, error.message)
    except OSError as error:
        return FileInfo(name, "damaged", size, f"it cannot be read: {error.strerror or error}")
    return FileInfo(name, "lock" if name == "lock" else "left over", size, "")


def _manifest_details(manifest: Manifest) -> str:
    checkpoint = manifest.checkpoint
    checkpoint_text = "no checkpoint" if checkpoint is None else f"a checkpoint of epoch {checkpoint.epoch}"
    database = f"database {manifest.database & (1 << 64) - 1:016x}"
    return f"{database}, {checkpoint_text}, log from segment {manifest.segment} on"


def _segment_details(files: Files, manifest: Manifest, number: int) -> str:
    if number < manifest.segment:
        return "left over"
    segment = Segment(files, number, manifest.database)
    kinds: Counter[int] = Counter()
    end = 0
    for record in segment.records():
        kinds[record.kind] += 1
        end = record.end
    closed = ", closed" if kinds[CLOSED_RECORD] else ""
    return f"{kinds[COMMIT_RECORD]} commits in {end} bytes{closed}"


def _pack_details(files: Files, manifest: Manifest, number: int) -> str:
    packs = () if manifest.checkpoint is None else manifest.checkpoint.packs
    facts = next((candidate for candidate in packs if candidate.number == number), None)
    if facts is None and number not in _log_packs(files, manifest):
        return "left over"
    pack = Pack(files, number, manifest.database)
    if facts is None:
        return f"{pack.blocks * BLOCK} bytes of rows that the log names"
    return f"{facts.live * BLOCK} bytes live of {pack.blocks * BLOCK}"


def _log_packs(files: Files, manifest: Manifest) -> set[int]:
    """Return the numbers of the packs that log records refer to."""
    packs: set[int] = set()
    codec_ = make_codec(lambda name: name)
    for name in files.list():
        number = segment_number(name)
        if number is not None and number >= manifest.segment:
            for record in Segment(files, number, manifest.database).records():
                if record.kind in (ROWS_RECORD, COMMIT_RECORD):
                    value = codec_.decode(record.payload)
                    packs |= packs_of(value) if record.kind == ROWS_RECORD else packs_of(value[2], value[1])
    return packs


def find_damage(folder: str | Path) -> Iterator[str]:
    """Read all files completely, and yield a line for each damage."""
    try:
        files, manifest = open_snapshot(folder)
        yield from find_file_damage(files, manifest)
    except OperationalError as error:
        yield error.message
    except OSError as error:
        yield f"{folder} cannot be read: {error.strerror or error}"


def find_file_damage(files: Files, manifest: Manifest) -> Iterator[str]:
    """Yield a line for each damage in files with a manifest, as :func:`find_damage` does."""
    packs = () if manifest.checkpoint is None else manifest.checkpoint.packs
    for facts in packs:
        yield from _find_pack_damage(files, manifest, facts.number)
    numbers = sorted(n for name in files.list() if (n := segment_number(name)) is not None)
    segments = [number for number in numbers if number >= manifest.segment]
    for index, number in enumerate(segments or [manifest.segment]):
        if number != manifest.segment + index:
            yield f"{files.where}/log-{manifest.segment + index:08} is missing"
            return
    if not segments:
        yield f"{files.where}/log-{manifest.segment:08} is missing"
    last_synced, next_readable = -1, 0
    try:
        last_synced = read_committed(files, manifest.database)
    except Error as error:
        yield error.message
    for number in segments:
        try:
            segment = Segment(files, number, manifest.database)
            next_readable = max(next_readable, segment.first)
            for record in segment.records():
                next_readable = record.number + 1
                if not segment.has_end_word(record):
                    yield f"{segment.where} is damaged at byte {record.end - 8}: a record has another end"
        except Error as error:
            yield error.message
            return
    if last_synced >= next_readable:
        lost = describe_records(next_readable, last_synced)
        yield f"{files.where}: {lost} of the log had been synced, and cannot be read any more"
    # A missing pack belongs to dropped tables; otherwise opening reports it.
    existing = {pack for name in files.list() if (pack := pack_number(name)) is not None}
    for number in sorted(existing & _log_packs(files, manifest)):
        yield from _find_pack_damage(files, manifest, number)


def _find_pack_damage(files: Files, manifest: Manifest, number: int) -> Iterator[str]:
    if pack_name(number) not in files.list():
        yield f"{files.where}/{pack_name(number)} is missing"
        return
    try:
        pack = Pack(files, number, manifest.database)
    except Error as error:
        yield error.message
        return
    block = 0
    while block < pack.blocks:
        end = min(pack.blocks, block + 4096)
        try:
            pack.verify(block, end)
        except Error as error:
            yield error.message
        block = end


def check(
    folder: str | Path, *, imports: bool = False, skipped: dict[str, str] | None = None
) -> Iterator[str]:
    """Yield a line for each fault of the database in a folder, without writing to it.

    Beside a process that has it open, the last commit is checked. Without ``imports``, no code named by
    the folder runs: views that call user functions are skipped, and ``skipped`` receives the reason for
    each.
    """
    is_damaged = False
    for line in find_damage(folder):
        is_damaged = True
        yield line
    if is_damaged:
        return
    engine = Engine()
    install_execution(engine)
    try:
        skipped_here = open_folder(engine, folder, read_only=True, whole=imports)
    except Error as error:
        yield f"{folder} cannot be opened: {error.message}"
        return
    if skipped is not None:
        skipped.update(skipped_here)
    try:
        yield from check_contents(engine)
    finally:
        engine.close()


def repair(folder: str | Path) -> Iterator[str]:
    """Truncate a damaged log at the first unreadable record. Yields a line on the repair and the loss.

    The rest stays in files with the suffix ``.damaged``. Other damage is not repaired. Raises
    OperationalError if the folder is in use or is not a database.
    """
    if not Path(folder).is_dir():
        raise OperationalError(f"{folder} is no folder")
    files = Disk(folder)
    lock = files.lock(LOCK_NAME, f"process {os.getpid()} (kpg check --repair)")
    if isinstance(lock, str):
        raise OperationalError(f"{folder} is in use by {lock}", hint="close it there first")
    try:
        manifest = read_manifest(files)
        if manifest is None:
            raise OperationalError(f"{folder} is no database of kpg", hint="it has no manifest")
        yield from _truncate_log(files, manifest)
    finally:
        lock.release()


@dataclass(slots=True)
class _LogExtent:
    """The readable part of a log: up to byte ``end`` of a segment, before record ``number``.

    ``next_readable`` is the number after the last readable record; records from ``number`` on belong to no
    commit. ``is_damaged`` tells whether the part ends at damage, instead of the log's end or a torn write.
    """

    segment: int
    end: int = 0
    number: int = 0
    next_readable: int = 0
    is_damaged: bool = False


def _measure_log(files: Files, manifest: Manifest, numbers: list[int]) -> _LogExtent:
    extent = _LogExtent(manifest.segment)
    for index, number in enumerate(numbers):
        try:
            segment = Segment(files, number, manifest.database)
            if segment.is_empty and index and number == numbers[-1]:  # creation was interrupted
                return extent
            if (
                segment.is_empty
                or number != manifest.segment + index
                or (index and segment.first != extent.number)
            ):
                extent.is_damaged = True
                return extent
            extent.segment, extent.end = number, HEADER_BYTES
            extent.number = extent.next_readable = segment.first
            for record in segment.records():
                extent.next_readable = record.number + 1
                if record.kind != ROWS_RECORD:
                    extent.end, extent.number = record.end, record.number + 1
        except DamagedError:
            extent.is_damaged = True
            return extent
    extent.is_damaged = not numbers
    return extent


def _truncate_log(files: Files, manifest: Manifest) -> Iterator[str]:
    names = [(n, name) for name in files.list() if (n := segment_number(name)) is not None]
    segments = sorted((number, name) for number, name in names if number >= manifest.segment)
    extent = _measure_log(files, manifest, [number for number, _ in segments])
    last_known, has_committed = extent.next_readable - 1, True
    try:
        last_known = max(last_known, read_committed(files, manifest.database))
    except Error:
        has_committed = False
    if has_committed and not extent.is_damaged and last_known < extent.next_readable:
        return
    for number, _ in segments:
        with suppress(Error):
            last_known = max(last_known, *Segment(files, number, manifest.database).numbers(), -1)
    for number, name in segments:
        if number >= extent.segment:
            _set_aside(files, name, copies=number == extent.segment and extent.end > 0)
    if PROOF in files.list():
        _set_aside(files, PROOF)
    files.sync()
    name = segment_name(extent.segment)
    if extent.end:
        log = files.open(name, writing=True)
        log.truncate(extent.end)
        log.sync()
        log.close()
    else:
        extent.number = last_known + 1
        Log.create(files, extent.segment, manifest.database, extent.number).close()
    loss = "no record behind it is known"
    if last_known >= extent.number:
        max_commits = last_known - extent.number + 1
        records = describe_records(extent.number, last_known)
        loss = f"{records} lost, at most {max_commits} commit{'s' * (max_commits > 1)}"
    yield f"{files.where}/{name} was cut at byte {extent.end}: {loss}; what it had is in files named .damaged"


def _set_aside(files: Files, name: str, *, copies: bool = False) -> None:
    """Rename a file, or copy it, to a name that no database reads."""
    new_name = next(
        candidate for number in count(1) if (candidate := f"{name}.{number}.damaged") not in files.list()
    )
    if not copies:
        files.rename(name, new_name)
        return
    copy = files.create(new_name)
    copy.write(0, [files.map(name).data])
    copy.sync()
    copy.close()


def check_contents(engine: Engine) -> Iterator[str]:
    """Yield a line for each fault in the tables, indexes and views of an open database."""
    for entry in list(engine.catalog):
        if isinstance(entry, TableEntry):
            try:
                yield from engine.executor.tables.check_indexes(entry.name)
            except Error as error:
                yield f"table {entry.name} cannot be read: {error.message}"
    for name in sorted(engine.tables.indexes):
        yield from _check_index(engine, name, engine.tables.indexes[name])
    for name in sorted(engine.views):
        view = engine.views[name]
        if view.sql:
            try:
                explain.verify(engine, view)
            except Error as error:
                yield f"{error.message}{'' if error.hint is None else f' ({error.hint})'}"


def _check_index(engine: Engine, name: str, installed: Installation) -> Iterator[str]:
    try:
        rebuilt = engine.executor.install(f"check {name}", engine.views.plans[f"index {name}"], isolated=True)
        try:
            (actual, counts), (expected, expected_counts) = installed.rows(), rebuilt.rows()
        finally:
            engine.executor.uninstall(rebuilt)
    except Error as error:
        yield f"index {name} cannot be read: {error.message}"
        return
    parts = [Updates.of(actual, (0,), counts), Updates.of(expected, (0,), -np.asarray(expected_counts))]
    differences = len(Updates.concat(parts).consolidate())
    if differences:
        yield f"index {name} differs from its table in {differences} entries"
