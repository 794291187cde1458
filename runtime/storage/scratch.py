"""Folders for a while: given up at the end and, where their process was killed, when the next one is made."""

import fcntl
import os
import shutil
import socket
import stat
import tempfile
import weakref
from pathlib import Path
from typing import Final

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
