"""A socket in a folder of this machine, as Postgres has one: what clients call ``-h /folder``."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kpg.runtime.errors import OperationalError


def path_in(folder: Path, port: int) -> Path:
    """Where clients look for the server of a port."""
    return folder / f".s.PGSQL.{port}"


@contextmanager
def local_socket(folder: Path, port: int, *, trusted: bool) -> Iterator[socket.socket]:
    """A socket to listen on, which is taken away at the end.

    ``trusted``: nobody but this user may connect, else everybody of this machine. OperationalError where that
    cannot be, or another server has it.
    """
    path = path_in(folder, port)
    _make_room(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177 if trusted else 0o111)
        try:
            made.bind(str(path))
        finally:
            os.umask(before)
    except OSError as error:
        made.close()
        raise OperationalError(f"cannot listen on {path}: {error.strerror or error}") from error
    here = path.stat().st_ino
    try:
        yield made
    finally:
        made.close()
        with suppress(OSError):
            if path.stat().st_ino == here:
                path.unlink()


def _make_room(path: Path) -> None:
    """Take away what a server that was killed has left."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise OperationalError(f"another server listens on {path}")
