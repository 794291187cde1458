"""Whether a database is what it should be: files to the last bit, indexes by rows, views by their queries."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np

from kpg.compiler.catalog.entries import TableEntry
from kpg.durable.inspecting import damage
from kpg.durable.keeper import ROWS
from kpg.durable.opening import LOCK, open_folder
from kpg.engine.engine import Engine
from kpg.runtime.errors import Error, OperationalError
from kpg.runtime.handles import Installation
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import Disk, Files
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
from kpg.runtime.storage.packs import Manifest, read_manifest
from kpg.runtime.trace.updates import Updates


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
    for name in sorted(engine._indexes):
        yield from _check_index(engine, name, engine._indexes[name])
    for name in sorted(engine.views):
        view = engine.views[name]
        if view.sql:
            from kpg.statements.verify import verify

            try:
                verify(engine, view)
            except Error as error:
                yield f"{error.message}{'' if error.hint is None else f' ({error.hint})'}"


def _check_index(engine: Engine, name: str, installed: Installation) -> Iterator[str]:
    try:
        again = engine.executor.install(f"check {name}", engine._plans[f"index {name}"], isolated=True)
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
