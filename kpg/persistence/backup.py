"""Online backup: a copy of the database in another folder, as of one commit, while commits continue.

All files are opened at the start, so later changes do not affect the copy: a checkpoint may remove
a file, and a commit may append to the log. A thread copies each file up to its length at the start.
The manifest is written last, so that an unfinished copy is not a database.
"""

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kpg.persistence.write_ahead_log import WriteAheadLog
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.storage.background_work import BackgroundWork
from kpg.runtime.storage.files import Disk, File, Files, make_folder, size_of
from kpg.runtime.storage.log import segment_name, segment_number
from kpg.runtime.storage.packs import (
    MANIFEST_NAME,
    NEW_MANIFEST_NAME,
    activate_manifest,
    pack_name,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from kpg.session.engine import Engine

CHUNK_BYTES: Final = 1 << 20
"""Number of bytes that are copied at a time."""


class Backup:
    """A backup of the database as of ``epoch``, running or complete."""

    def __init__(self, folder: Path, epoch: int, copier: "FileCopier") -> None:
        self.folder = folder
        self.epoch = epoch
        self._copier = copier
        self._background_work = BackgroundWork(copier.run)

    def wait(self) -> "Backup":
        """Wait for the end of the backup. Raises OperationalError if it fails; then the copy is removed."""
        error = self._background_work.wait()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise OperationalError(f"{self.folder} could not be written to: {reason}") from error
        if error is not None:
            raise error
        return self

    @property
    def bytes(self) -> int:
        """Number of bytes copied so far."""
        return self._copier.copied


class FileCopier:
    """Copies open files into a folder."""

    def __init__(self, source: Files, names: Sequence[tuple[str, int]], target: Files) -> None:
        manifest = read_manifest(source)
        assert manifest is not None
        self._manifest = manifest
        self._target = target
        self._files: list[tuple[File, int]] = []
        self.copied = 0
        try:
            for name, size in names:
                self._files.append((source.open(name), size))
        except BaseException:
            self._close()
            raise

    def run(self) -> None:
        """Copy and sync all files, then activate the manifest."""
        names: list[str] = []
        try:
            for file, size in self._files:
                names.append(file.name)
                self._copy(file, size)
            names.append(NEW_MANIFEST_NAME)
            write_manifest(self._target, self._manifest)
            self._target.sync()
            activate_manifest(self._target)
        except BaseException:
            with suppress(OSError):
                self._remove_copies(names)
            raise
        finally:
            self._close()

    def _remove_copies(self, names: Sequence[str]) -> None:
        """Remove the copied files.

        The manifest is removed and synced first, so that it never names a missing file.
        """
        if MANIFEST_NAME in self._target.list():
            self._target.remove(MANIFEST_NAME)
            self._target.sync()
        for name in names:
            with suppress(OSError):
                self._target.remove(name)

    def _copy(self, file: File, size: int) -> None:
        copy = self._target.create(file.name)
        try:
            for offset in range(0, size, CHUNK_BYTES):
                data = file.read(offset, length := min(CHUNK_BYTES, size - offset))
                if len(data) < length:
                    raise OSError(errno.EIO, f"{file.name} is shorter than it was")
                copy.write(offset, [data])
                self.copied += len(data)
            copy.sync()
        finally:
            copy.close()

    def _close(self) -> None:
        for file, _ in self._files:
            file.close()


def start_backup(engine: "Engine", folder: str | Path) -> Backup:
    """Start a backup into an empty or a new folder; see ``Database.backup``."""
    recorder = engine.write_ahead_log
    if not isinstance(recorder, WriteAheadLog):
        raise NotSupportedError(
            "a backup of a database in memory is not supported",
            hint='open it in a folder: kpg.connect("folder")',
        )
    if not engine.transactions.is_idle or engine.executor.tables.has_pending:
        raise InterfaceError("a backup is made outside of transactions", hint="commit first")
    path = Path(folder)
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            reason = "is not empty" if path.is_dir() else "is a file"
            raise OperationalError(f"{path} {reason}", hint="give an empty or a new folder")
        make_folder(path)
        names = _files_to_copy(recorder)
        return Backup(path, engine.executor.epoch, FileCopier(recorder.files, names, Disk(path)))
    except Error:
        raise
    except OSError as error:
        raise OperationalError(f"no backup could be made in {path}: {error.strerror or error}") from error


def _files_to_copy(recorder: WriteAheadLog) -> list[tuple[str, int]]:
    """Return the files of the database after its last commit, except the manifest, with their lengths."""
    files, log = recorder.files, recorder.log
    if log is not None:
        recorder.record_pending()
    if recorder.checkpoints is not None:
        recorder.checkpoints.wait_for_adoption()
    manifest = read_manifest(files)
    assert manifest is not None
    packs = () if manifest.checkpoint is None else manifest.checkpoint.packs
    names = [pack_name(number) for number in sorted({pack.number for pack in packs} | recorder.log_packs())]
    numbers = sorted(n for name in files.list() if (n := segment_number(name)) is not None)
    # A later segment is one whose creation failed.
    last = numbers[-1] if log is None else log.segment
    names += [segment_name(number) for number in numbers if manifest.segment <= number <= last]
    # Preallocated space follows the records, so the file is longer than its content.
    ends = {segment_name(number): end for number, end in recorder.segment_ends.items()}
    if log is not None:
        ends[segment_name(log.segment)] = log.end
    return [(name, ends[name] if name in ends else size_of(files, name)) for name in names]
