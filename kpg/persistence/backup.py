"""Online backup: a copy of the database in another folder, as of one commit, while commits continue.

All files are opened at the start. Later changes do not affect the copy: a checkpoint may remove a file, and a
commit may append to the log. A thread copies each file up to its length at the start. The manifest is written
last, so that an unfinished copy is not a database.
"""

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kpg.persistence.write_ahead_log import Keeper
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.storage.background_work import Ahead
from kpg.runtime.storage.files import Disk, File, Files, make_folder, size_of
from kpg.runtime.storage.log import segment_name, segment_number
from kpg.runtime.storage.packs import NAME, NEW, pack_name, read_manifest, swap, write_beside

if TYPE_CHECKING:
    from kpg.session.engine import Engine

CHUNK: Final = 1 << 20
"""Bytes that are copied at a time."""


class Backup:
    """A backup under way, or done: of the database as it was after ``epoch``."""

    def __init__(self, folder: Path, epoch: int, work: "Copying") -> None:
        self.folder = folder
        self.epoch = epoch
        self._work = work
        self._ahead = Ahead(work.run)

    def wait(self) -> "Backup":
        """Return when it is done; OperationalError if it has failed, and then nothing is left of it."""
        error = self._ahead.wait()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise OperationalError(f"{self.folder} could not be written to: {reason}") from error
        if error is not None:
            raise error
        return self

    @property
    def bytes(self) -> int:
        """How much has been copied."""
        return self._work.copied


class Copying:
    """Files that are open, on their way into a folder."""

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
        """Copy them all, and have the copy be there whatever happens."""
        made: list[str] = []
        try:
            for file, size in self._files:
                made.append(file.name)
                self._copy(file, size)
            made.append(NEW)
            write_beside(self._target, self._manifest)
            self._target.sync()
            swap(self._target)
        except BaseException:
            with suppress(OSError):
                self._undo(made)
            raise
        finally:
            self._close()

    def _undo(self, made: Sequence[str]) -> None:
        """Leave nothing behind. As long as there may be a manifest, all that it names stays."""
        if NAME in self._target.list():
            self._target.remove(NAME)
            self._target.sync()
        for name in made:
            with suppress(OSError):
                self._target.remove(name)

    def _copy(self, file: File, size: int) -> None:
        copy = self._target.create(file.name)
        try:
            for offset in range(0, size, CHUNK):
                part = file.read(offset, wanted := min(CHUNK, size - offset))
                if len(part) < wanted:
                    raise OSError(errno.EIO, f"{file.name} is shorter than it was")
                copy.write(offset, [part])
                self.copied += len(part)
            copy.sync()
        finally:
            copy.close()

    def _close(self) -> None:
        for file, _ in self._files:
            file.close()


def backup(engine: "Engine", folder: str | Path) -> Backup:
    """Begin a backup into a folder that is empty or not there; see ``Database.backup``."""
    keeper = engine.keeper
    if not isinstance(keeper, Keeper):
        raise NotSupportedError(
            "a backup of a database in memory is not supported",
            hint='open it in a folder: kpg.connect("folder")',
        )
    if not engine.transactions.idle or engine.executor.has_pending:
        raise InterfaceError("a backup is made outside of transactions", hint="commit first")
    path = Path(folder)
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            what = "is not empty" if path.is_dir() else "is a file"
            raise OperationalError(f"{path} {what}", hint="give a folder that is empty, or not there")
        make_folder(path)
        names = _contents(keeper)
        return Backup(path, engine.executor.epoch, Copying(keeper.files, names, Disk(path)))
    except Error:
        raise
    except OSError as error:
        raise OperationalError(f"no backup could be made in {path}: {error.strerror or error}") from error


def _contents(keeper: Keeper) -> list[tuple[str, int]]:
    """The files that are a database after its last commit, manifest apart, each with its bytes."""
    files, log = keeper.files, keeper.log
    if log is not None:
        keeper.record_last()
    if keeper.checkpoints is not None:
        keeper.checkpoints.rest()
    manifest = read_manifest(files)
    assert manifest is not None
    packs = () if manifest.checkpoint is None else manifest.checkpoint.packs
    names = [pack_name(number) for number in sorted({one.number for one in packs} | keeper.loose())]
    numbers = sorted(n for name in files.list() if (n := segment_number(name)) is not None)
    # A segment behind the log is one that could not be made.
    last = numbers[-1] if log is None else log.segment
    names += [segment_name(number) for number in numbers if manifest.segment <= number <= last]
    # Behind records is room, where a log that is opened again may go on.
    ends = {segment_name(number): end for number, end in keeper.ends.items()}
    if log is not None:
        ends[segment_name(log.segment)] = log.end
    return [(name, ends[name] if name in ends else size_of(files, name)) for name in names]
