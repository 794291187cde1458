"""File access of a durable database, behind one protocol: :class:`Files`, which :class:`Disk` implements.

All file access of a database uses this protocol, and every operation may raise OSError. Tests implement it
with a disk that drops, tears and reorders unsynced writes and fails at any operation. A write is visible to
all readers at once. Its bytes survive a power failure once :meth:`File.sync` returns; a file name does once
:meth:`Files.sync` returns.

:func:`checksum_of` is the checksum of log and packs. :func:`prefault` makes the operating system read mapped
pages first: a disk error then raises OSError, where a page fault would kill the process with a signal. Pages
that are evicted later and cannot be read again are not covered. :class:`ScratchFolder` is a temporary folder;
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
"""Unit of direct I/O in bytes: no disk has larger sectors."""
MAX_PIECES = 512
"""Pieces passed to one system call (IOV_MAX is 1024)."""


class File(Protocol):
    """An open file."""

    @property
    def name(self) -> str:
        """Name in the folder when it was opened, for errors."""

    def size(self) -> int:
        """Return the size in bytes."""

    def write(self, offset: int, pieces: Sequence[Piece]) -> None:
        """Write pieces one after the other from ``offset`` on; a gap before them is filled with zeros."""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the file."""

    def sync(self) -> None:
        """Make all earlier writes durable."""

    def truncate(self, size: int) -> None:
        """Set the size of the file."""

    def close(self) -> None:
        """Close the file; closing twice is allowed."""


class Lock(Protocol):
    """Exclusive lock of a folder."""

    def release(self) -> None:
        """Release the lock."""


class Files(Protocol):
    """A folder of files with plain names."""

    @property
    def where(self) -> str:
        """Path of the folder, for errors."""

    def list(self) -> list[str]:
        """Return the names of its files, sorted."""

    def create(self, name: str, *, direct: bool = False) -> File:
        """Create an empty file; with ``direct``, use direct I/O where possible.

        Direct I/O bypasses the page cache for writes of one piece of whole pages, aligned in file and memory.

        Raises:
            FileExistsError: If a file of that name exists.
        """

    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> File:
        """Open an existing file.

        Raises:
            FileNotFoundError: If it does not exist.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of the new name."""

    def remove(self, name: str) -> None:
        """Remove a file; open files and mappings of it stay valid."""

    def sync(self) -> None:
        """Make all names durable."""

    def map(self, name: str) -> Bytes:
        """Map a file copy-on-write: pages are read on access, and writes to them stay in memory."""

    def lock(self, name: str, holder: str) -> Lock | str:
        """Lock the folder for the life of this process, or return the lock owner's ``holder`` text."""


def size_of(files: Files, name: str) -> int:
    """Return the size of a file in bytes."""
    file = files.open(name)
    try:
        return file.size()
    finally:
        file.close()


class DiskFile:
    """A file of the operating system; ``direct`` is its descriptor for direct I/O, or -1.

    ``refused`` is called if the file system does not support direct I/O.
    """

    __slots__ = ("_descriptor", "_direct", "_on_refused", "name")

    def __init__(
        self, name: str, descriptor: int, direct: int = -1, on_refused: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._descriptor = descriptor
        self._direct = direct
        self._on_refused = on_refused

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._descriptor).st_size

    def write(self, offset: int, pieces: Sequence[Piece]) -> None:
        """Write pieces one after the other from ``offset`` on."""
        remaining = [view for view in (memoryview(piece).cast("B") for piece in pieces) if len(view)]
        if self._direct >= 0 and len(remaining) == 1:
            written = self._write_direct(offset, remaining[0])
            offset, remaining = (
                offset + written,
                [remaining[0][written:]] if written < len(remaining[0]) else [],
            )
        while remaining:
            written = os.pwritev(self._descriptor, remaining[:MAX_PIECES], offset)
            offset += written
            while remaining and written >= len(remaining[0]):
                written -= len(remaining.pop(0))
            if written:
                remaining[0] = remaining[0][written:]

    def _write_direct(self, offset: int, pages: memoryview) -> int:
        """Write whole pages by direct I/O; return the number of bytes written, 0 if it is not possible."""
        if (offset | len(pages)) % PAGE:
            return 0
        try:
            written = os.pwrite(self._direct, pages, offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Some file systems accept O_DIRECT and then refuse each write, or have blocks larger than pages.
            descriptor, self._direct = self._direct, -1
            os.close(descriptor)
            self._on_refused()
            return 0
        return written & -PAGE

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the file."""
        parts = []
        while size:
            part = os.pread(self._descriptor, size, offset)
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def sync(self) -> None:
        """Make the bytes and the size durable: fdatasync (fsync)."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """Set the size of the file."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """Close the file."""
        descriptors, self._descriptor, self._direct = (self._descriptor, self._direct), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


class DiskLock:
    """A lock that the operating system releases when the process ends."""

    __slots__ = ("_descriptors",)

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors

    def release(self) -> None:
        """Release the lock."""
        descriptors, self._descriptors = self._descriptors, ()
        for descriptor in descriptors:
            os.close(descriptor)

    __del__ = release


def _preallocate(descriptor: int, size: int) -> bool:
    """Allocate all space of a sparse file; return False if the space is not available."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return False
    return True


def _copy_written_parts(descriptor: int, size: int) -> Bytes:
    """Return a copy of a sparse file; its holes take no memory."""
    data, start = np.zeros(size, np.uint8), 0
    while start < size:
        try:
            start = os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # only a hole follows
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        while start < end and (size_read := os.preadv(descriptor, [data[start:end].data], start)):
            start += size_read
        if start < end:  # the file has been truncated meanwhile
            break
    return data


class Disk:
    """The files of an existing folder, identified by its inode: the folder may be renamed meanwhile."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._tries_direct = True
        """Whether to try direct I/O; False once the file system has refused it."""

    @cached_property
    def _folder_descriptor(self) -> int:
        """Descriptor of the folder, which stays valid if the folder or the working directory changes."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    @property
    def where(self) -> str:
        """Path of the folder."""
        return str(self._folder)

    def list(self) -> list[str]:
        """Return the names of its files, sorted."""
        with os.scandir(self._folder_descriptor) as found:
            return sorted(one.name for one in found if one.is_file())

    def create(self, name: str, *, direct: bool = False) -> File:
        """Create an empty file."""
        return self._file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, direct)

    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> File:
        """Open an existing file."""
        return self._file(name, os.O_RDWR if writing else os.O_RDONLY, direct)

    def _file(self, name: str, flags: int, direct: bool) -> DiskFile:
        descriptor, direct_descriptor = self._descriptor(name, flags), -1
        if direct and self._tries_direct:
            with contextlib.suppress(OSError):  # file systems in memory have no direct I/O
                direct_descriptor = self._descriptor(name, os.O_RDWR | os.O_DIRECT)
        return DiskFile(name, descriptor, direct_descriptor, self._disable_direct)

    def _disable_direct(self) -> None:
        """Open files without direct I/O from now on."""
        self._tries_direct = False

    def _descriptor(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o666, dir_fd=self._folder_descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of the new name."""
        os.replace(old, new, src_dir_fd=self._folder_descriptor, dst_dir_fd=self._folder_descriptor)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self._folder_descriptor)

    def sync(self) -> None:
        """Make all names durable."""
        os.fsync(self._folder_descriptor)

    def map(self, name: str) -> Bytes:
        """Map a file copy-on-write."""
        if not stat.S_ISREG(os.stat(name, dir_fd=self._folder_descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file", name)  # opening a pipe would wait for its writer
        descriptor = self._descriptor(name, os.O_RDONLY)
        try:
            facts = os.fstat(descriptor)
            if not facts.st_size:
                return np.empty(0, np.uint8)
            if 512 * facts.st_blocks < facts.st_size and self._is_in_memory:
                return self._map_sparse(name, descriptor, facts.st_size)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY), np.uint8)
        finally:
            os.close(descriptor)

    def _map_sparse(self, name: str, descriptor: int, size: int) -> Bytes:
        """Return the bytes of a sparse file on a file system in memory."""
        writing = None
        with contextlib.suppress(OSError):
            writing = self._descriptor(name, os.O_RDWR)
        try:
            if writing is None or not _preallocate(writing, size):
                return _copy_written_parts(descriptor, size)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY), np.uint8)
        finally:
            if writing is not None:
                os.close(writing)

    @cached_property
    def _is_in_memory(self) -> bool:
        """Whether the file system is in memory, where reading a hole allocates memory.

        If no memory is left, reading a hole in a mapped file kills the process.
        """
        device = os.fstat(self._folder_descriptor).st_dev
        device_number = f"{os.major(device)}:{os.minor(device)}"
        with contextlib.suppress(OSError), open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == device_number:
                    return fields[fields.index("-") + 1] in ("tmpfs", "ramfs")
        return False

    def lock(self, name: str, holder: str) -> Lock | str:
        """Lock the folder, or return a description of the process that has the lock."""
        import fcntl  # lazy: there is none on Windows

        descriptor = self._descriptor(name, os.O_RDWR | os.O_CREAT)
        # The folder is locked too, since a user may have removed the lock file.
        folder = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder_descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder_text = os.pread(descriptor, 4096, 0).decode(errors="replace").strip()
            os.close(descriptor)
            os.close(folder)
            return holder_text or "another process"
        except BaseException:
            os.close(descriptor)
            os.close(folder)
            raise
        # The holder's text is only informative: a full disk must not prevent reading the database.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{holder}\n".encode(), 0)
        return DiskLock(descriptor, folder)


def make_folder(path: Path) -> None:
    """Create a folder with its parents, durably."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        Disk(folder.parent).sync()


WORD = 8
"""Bytes of a word."""


def checksum_of(pieces: Iterable[Piece], seed: int = 0) -> int:
    """Return a 64-bit checksum of pieces; it depends on how the bytes are divided into pieces."""
    for piece in pieces:
        words = np.frombuffer(piece, np.int64)
        # Kernels do not accept read-only arrays.
        seed = int(checksum(words if words.flags.writeable else words.copy(), seed))
    return seed


def padding(size: int) -> int:
    """Return the number of bytes up to the next multiple of eight."""
    return -size % WORD


POPULATE_READ: Final = 22
"""``MADV_POPULATE_READ`` (Linux 5.14): read pages as if they were accessed."""
POISONED: Final = 133
"""``EHWPOISON``: the memory has failed."""
UNREADABLE: Final = (errno.EFAULT, errno.EIO, POISONED)
"""Errors of the advice where an access would kill the process; other errors are ignored."""


def prefault(data: Bytes) -> None:
    """Read mapped pages into memory.

    Raises:
        OSError: If they cannot be read.
    """
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


LOAD_FOLDER_PREFIX: Final = "kpg-load-"
"""Prefix of folders through which rows are loaded."""
OWNER_FILE: Final = ".owner"
"""File that names the host of a folder's process, which locks it for its whole life."""


class ScratchFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder whose name begins with ``prefix``, in ``directory`` or the system's folder."""

    def __init__(self, prefix: str, directory: str | None = None) -> None:
        remove_abandoned(Path(directory or tempfile.gettempdir()), prefix)
        super().__init__(prefix=prefix, dir=directory, ignore_cleanup_errors=True)
        self._release_lock = weakref.finalize(self, os.close, _lock_owner_file(Path(self.name)))

    def cleanup(self) -> None:
        """Remove the folder; calling it twice is allowed."""
        super().cleanup()
        self._release_lock()


def remove_abandoned(directory: Path, prefix: str) -> None:
    """Remove such folders of this user whose processes, on this machine, have ended."""
    for folder in directory.glob(f"{prefix}*"):
        try:
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            owner = os.open(folder / OWNER_FILE, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # it has just been removed, or is being created
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.read(owner, 1000).decode(errors="replace") == socket.gethostname():
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process is alive
        finally:
            os.close(owner)


def _lock_owner_file(folder: Path) -> int:
    """Create and lock the owner file before it gets its name.

    So an existing unlocked file is that of a dead process.
    """
    path = folder / f"{OWNER_FILE}.new"
    owner = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(owner, socket.gethostname().encode())
        path.rename(folder / OWNER_FILE)
    except OSError:
        pass  # without locks and without this file, no process removes the folder
    return owner
