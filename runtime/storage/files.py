"""File access of a durable database, behind one protocol: :class:`Files`, which :class:`Disk` implements.

All file access of a database goes through this protocol, and every operation may raise OSError. Tests
implement it with a disk that drops, tears and reorders unsynced writes and fails at any operation. A write is
visible to all readers at once. Its bytes survive a power failure once :meth:`File.sync` returns; a file name
does once :meth:`Files.sync` returns.

:func:`checksum_of` is the checksum of log and packs. :func:`read_in` asks the operating system to read mapped
pages first: a disk error then raises OSError, where a page fault would kill the process with a signal. Pages
that are evicted later and cannot be read again are not covered. :class:`Scratch` is a temporary folder;
folders left by killed processes are removed when the next one is created.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import socket
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels.checksum import checksum

Bytes = NDArray[np.uint8]
Piece = bytes | bytearray | memoryview
PAGE = 4096
"""What is written past the system's memory begins and ends with whole ones: no disk has larger sectors."""
MOST_PIECES = 512
"""What one call of the operating system takes (IOV_MAX is 1024)."""


class File(Protocol):
    """An open file."""

    @property
    def name(self) -> str:
        """Its name in the folder when it was opened, for errors."""

    def size(self) -> int:
        """Its bytes."""

    def write(self, offset: int, pieces: Sequence[Piece]) -> None:
        """Write pieces one after the other; a gap before them is filled with zeros."""

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes, fewer at the end of the file."""

    def sync(self) -> None:
        """Have everything written before be there whatever happens."""

    def truncate(self, size: int) -> None:
        """Have the file end there."""

    def close(self) -> None:
        """Give it up; closing twice is allowed."""


class Lock(Protocol):
    """A folder that is held."""

    def release(self) -> None:
        """Let others have it."""


class Files(Protocol):
    """A folder of files with plain names."""

    @property
    def where(self) -> str:
        """The folder, for errors."""

    def list(self) -> list[str]:
        """The names of its files, sorted."""

    def create(self, name: str, *, direct: bool = False) -> File:
        """A new, empty file; FileExistsError if there is one of the name.

        If ``direct``, whole pages that are written in one piece, from the beginning of one of memory, go past
        the system's memory, where it has a way for that.
        """

    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> File:
        """A file that is there; FileNotFoundError if it is not."""

    def rename(self, old: str, new: str) -> None:
        """Have a file take another name, from the one that has it if any."""

    def remove(self, name: str) -> None:
        """Remove a file; who has it open or mapped keeps it."""

    def sync(self) -> None:
        """Have all names be as they are whatever happens."""

    def map(self, name: str) -> Bytes:
        """The bytes of a file, read when they are looked at; what is written to them stays in memory."""

    def lock(self, name: str, holder: str) -> Lock | str:
        """Hold the folder as long as this process lives, or tell who does: what it wrote as ``holder``."""


def size_of(files: Files, name: str) -> int:
    """How many bytes a file has."""
    file = files.open(name)
    try:
        return file.size()
    finally:
        file.close()


class DiskFile:
    """A file of the operating system. ``direct`` is its descriptor for whole pages, -1 if it has none.

    ``refused`` is called where there is no such way after all.
    """

    __slots__ = ("_descriptor", "_direct", "_refused", "name")

    def __init__(
        self, name: str, descriptor: int, direct: int = -1, refused: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._descriptor = descriptor
        self._direct = direct
        self._refused = refused

    def size(self) -> int:
        """Its bytes."""
        return os.fstat(self._descriptor).st_size

    def write(self, offset: int, pieces: Sequence[Piece]) -> None:
        """Write pieces one after the other."""
        waiting = [view for view in (memoryview(piece).cast("B") for piece in pieces) if len(view)]
        if self._direct >= 0 and len(waiting) == 1:
            done = self._write_past(offset, waiting[0])
            offset, waiting = offset + done, [waiting[0][done:]] if done < len(waiting[0]) else []
        while waiting:
            done = os.pwritev(self._descriptor, waiting[:MOST_PIECES], offset)
            offset += done
            while waiting and done >= len(waiting[0]):
                done -= len(waiting.pop(0))
            if done:
                waiting[0] = waiting[0][done:]

    def _write_past(self, offset: int, pages: memoryview) -> int:
        """Write whole pages past the system's memory; how many bytes were written, 0 if there is no way."""
        if (offset | len(pages)) % PAGE:
            return 0
        try:
            done = os.pwrite(self._direct, pages, offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Some file systems open a file so and then refuse each write, or have larger blocks than pages.
            descriptor, self._direct = self._direct, -1
            os.close(descriptor)
            self._refused()
            return 0
        return done & -PAGE

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        parts = []
        while size:
            part = os.pread(self._descriptor, size, offset)
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def sync(self) -> None:
        """The file's bytes, and its length."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """Have the file end there."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """Give it up."""
        descriptors, self._descriptor, self._direct = (self._descriptor, self._direct), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


class DiskLock:
    """A lock that the operating system gives up when the process ends, however it does."""

    __slots__ = ("_descriptors",)

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors

    def release(self) -> None:
        """Let others have the folder."""
        descriptors, self._descriptors = self._descriptors, ()
        for descriptor in descriptors:
            os.close(descriptor)

    __del__ = release


def _allocated(descriptor: int, size: int) -> bool:
    """Have a file take all the room that it ever will; whether there was some."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True


def _copied(descriptor: int, size: int) -> Bytes:
    """What has been written to a file, in this process' memory, which takes none for the rest."""
    data, start = np.zeros(size, np.uint8), 0
    while start < size:
        try:
            start = os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # there is no more of it
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        while start < end and (done := os.preadv(descriptor, [data[start:end].data], start)):
            start += done
        if start < end:  # somebody has cut it off meanwhile
            break
    return data


class Disk:
    """The files of a folder, which is there: of this one, whatever becomes of its name meanwhile."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._past_memory = True
        """Whether a way past the system's memory is looked for: none has turned out to be none."""

    @cached_property
    def _at(self) -> int:
        """The folder, open: the process may go to another one, and somebody move it."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder)

    def list(self) -> list[str]:
        """The names of its files."""
        with os.scandir(self._at) as found:
            return sorted(one.name for one in found if one.is_file())

    def create(self, name: str, *, direct: bool = False) -> File:
        """A new, empty file."""
        return self._file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, direct)

    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> File:
        """A file that is there."""
        return self._file(name, os.O_RDWR if writing else os.O_RDONLY, direct)

    def _file(self, name: str, flags: int, direct: bool) -> DiskFile:
        descriptor, past = self._descriptor(name, flags), -1
        if direct and self._past_memory:
            with contextlib.suppress(OSError):  # file systems in memory have no such way
                past = self._descriptor(name, os.O_RDWR | os.O_DIRECT)
        return DiskFile(name, descriptor, past, self._refuse)

    def _refuse(self) -> None:
        """Files that are opened from now on have no way past the system's memory."""
        self._past_memory = False

    def _descriptor(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o666, dir_fd=self._at)

    def rename(self, old: str, new: str) -> None:
        """Have a file take another name."""
        os.replace(old, new, src_dir_fd=self._at, dst_dir_fd=self._at)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self._at)

    def sync(self) -> None:
        """The names."""
        os.fsync(self._at)

    def map(self, name: str) -> Bytes:
        """The bytes of a file, in pages that are this process' own once it has written to them."""
        if not stat.S_ISREG(os.stat(name, dir_fd=self._at).st_mode):
            raise OSError(
                errno.EINVAL, "it is no file", name
            )  # to open a pipe would wait for who writes to it
        descriptor = self._descriptor(name, os.O_RDONLY)
        try:
            facts = os.fstat(descriptor)
            if not facts.st_size:
                return np.empty(0, np.uint8)
            if 512 * facts.st_blocks < facts.st_size and self._in_memory:
                return self._whole(name, descriptor, facts.st_size)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY), np.uint8)
        finally:
            os.close(descriptor)

    def _whole(self, name: str, descriptor: int, size: int) -> Bytes:
        """The bytes of a file in memory, of which some were never written."""
        writing = None
        with contextlib.suppress(OSError):
            writing = self._descriptor(name, os.O_RDWR)
        try:
            if writing is None or not _allocated(writing, size):
                return _copied(descriptor, size)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY), np.uint8)
        finally:
            if writing is not None:
                os.close(writing)

    @cached_property
    def _in_memory(self) -> bool:
        """Whether files are in memory: to read what was never written to them takes some.

        Where there is none left, a process that does so in a mapped file is ended by the system.
        """
        device = os.fstat(self._at).st_dev
        mounted = f"{os.major(device)}:{os.minor(device)}"
        with contextlib.suppress(OSError), open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == mounted:
                    return fields[fields.index("-") + 1] in ("tmpfs", "ramfs")
        return False

    def lock(self, name: str, holder: str) -> Lock | str:
        """Hold the folder, or tell who does."""
        import fcntl  # lazy: there is none on Windows

        descriptor = self._descriptor(name, os.O_RDWR | os.O_CREAT)
        # The folder too: the file of the lock might have been removed by somebody who tidied up.
        folder = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._at)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = os.pread(descriptor, 4096, 0).decode(errors="replace").strip()
            os.close(descriptor)
            os.close(folder)
            return told or "another process"
        except BaseException:
            os.close(descriptor)
            os.close(folder)
            raise
        # Who holds it is told to others in words; a full disk must not keep anybody from reading.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{holder}\n".encode(), 0)
        return DiskLock(descriptor, folder)


def make_folder(path: Path) -> None:
    """Have a folder be there whatever happens, with those above it."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        Disk(one.parent).sync()


WORD = 8


def checksum_of(pieces: Iterable[Piece], seed: int = 0) -> int:
    """64 bits that are others if a bit is; the same for the same bytes only if they are cut the same."""
    for piece in pieces:
        words = np.frombuffer(piece, np.int64)
        # A kernel takes no memory that must not be written to.
        seed = int(checksum(words if words.flags.writeable else words.copy(), seed))
    return seed


def padding(size: int) -> int:
    """How many bytes are missing to a multiple of eight."""
    return -size % WORD


POPULATE_READ: Final = 22
"""Linux' advice, from 5.14 on, by which pages are read as if they were looked at."""
POISONED: Final = 133
"""Linux' number for memory that has failed."""
UNREADABLE: Final = (errno.EFAULT, errno.EIO, POISONED)
"""What it ends in where to look would end the process. Who has no such advice, or no memory, looks."""


def read_in(data: Bytes) -> None:
    """Have bytes be read that are mapped; OSError if they cannot be."""
    base: Any = data
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if not isinstance(base, mmap.mmap) or not data.shape[0] or not hasattr(base, "madvise"):
        return
    start = data.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
    first = start & -PAGE
    try:
        base.madvise(POPULATE_READ, first, start + data.shape[0] - first)
    except OSError as error:
        if error.errno in UNREADABLE:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error


LOADS: Final = "kpg-load-"
"""How names of folders begin through which rows come."""
OWNER: Final = ".owner"
"""The file that names the machine of a folder's process, which has it locked for as long as it lives."""


class Scratch(tempfile.TemporaryDirectory[str]):
    """A folder whose name begins with ``prefix``, among those of ``directory`` or of the system."""

    def __init__(self, prefix: str, directory: str | None = None) -> None:
        sweep(Path(directory or tempfile.gettempdir()), prefix)
        super().__init__(prefix=prefix, dir=directory, ignore_cleanup_errors=True)
        self._let_go = weakref.finalize(self, os.close, _owned(Path(self.name)))

    def cleanup(self) -> None:
        """Give it up; twice is allowed."""
        super().cleanup()
        self._let_go()


def sweep(directory: Path, prefix: str) -> None:
    """Give up the folders of processes of ours on this machine that are no more; others are let be."""
    for folder in directory.glob(f"{prefix}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            owner = os.open(folder / OWNER, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # it has just gone, or is being made
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.read(owner, 1000).decode(errors="replace") == socket.gethostname():
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(owner)


def _owned(folder: Path) -> int:
    """Lock a folder's file before it has its name: one that is there and not locked is a dead process'."""
    path = folder / f"{OWNER}.new"
    owner = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(owner, socket.gethostname().encode())
        path.rename(folder / OWNER)
    except OSError:
        pass  # a file system without locks: nobody takes the folder for a dead process'
    return owner
