"""A consistent copy of the files of a database while another process writes to it.

That process may swap the manifest and remove files of the previous one, and may be writing a commit. So the
files are taken together, and again if a checkpoint came in between.
"""

import errno
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.runtime.storage.files import Bytes, File, Files, Lock
from kpg.runtime.storage.log import NAME as PROOF
from kpg.runtime.storage.log import Segment, segment_number
from kpg.runtime.storage.packs import NAME, Manifest, pack_number, read_manifest

TRIES: Final = 8
"""After so many what is wrong is taken for what there is."""
PAUSE: Final = 0.002
"""Seconds before the second try; each waits twice as long as the one before."""


class Still:
    """A folder that is only read. Packs are mapped; segments of the log, which are added to, are read."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._taken: dict[str, Bytes] = {}
        self._once_more: dict[str, Bytes] = {}
        """Packs, mapped a second time for who writes to what it maps."""
        for tried in range(TRIES):
            if self._take():
                return
            time.sleep(PAUSE * 2**tried)
        self._taken, self._once_more = {}, {}

    def _take(self) -> bool:
        """Take what there is; whether it was the same for as long as that took, and whole."""
        files, self._taken = self._files, {}
        self._once_more = {}
        try:
            before = files.map(NAME).tobytes()
            taken = {NAME: np.frombuffer(bytearray(before), np.uint8)}
            with suppress(FileNotFoundError):  # before the log, which goes on
                taken[PROOF] = _read(files, PROOF)
            for name in files.list():
                if segment_number(name) is not None:
                    taken[name] = _read(files, name)
                elif pack_number(name) is not None:
                    taken[name], self._once_more[name] = files.map(name), files.map(name)
            if files.map(NAME).tobytes() != before:
                return False
            self._taken = taken
            manifest = read_manifest(self)
            numbers = [number for name in taken if (number := segment_number(name)) is not None]
            return manifest is not None and manifest.segment in numbers and self._follow(manifest, numbers)
        except (OSError, OperationalError):
            return False

    def _follow(self, manifest: Manifest, numbers: Sequence[int]) -> bool:
        """Whether each segment begins where the one before ends: the log may have gone on in between."""
        end = None
        for number in sorted(numbers):
            segment = Segment(self, number, manifest.database) if number >= manifest.segment else None
            if segment is None or segment.empty:
                continue
            if end not in (None, segment.first):
                return False
            end = segment.first
            for record in segment.records():
                end = record.number + 1
        return True

    @property
    def where(self) -> str:
        """The folder."""
        return self._files.where

    def list(self) -> list[str]:
        """The names of what was taken, sorted."""
        return sorted(self._taken) or self._files.list()

    def map(self, name: str) -> Bytes:
        """What was taken; once, of a pack, in pages that nobody else has."""
        found = self._once_more.pop(name, None)
        if found is None:
            found = self._taken.get(name)
        return self._files.map(name) if found is None else found

    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> File:
        """A file as it is now."""
        return self._files.open(name, writing=writing, direct=direct)

    def create(self, name: str, *, direct: bool = False) -> File:
        """Nothing is written here."""
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), name)

    def rename(self, old: str, new: str) -> None:
        """Nothing is written here."""
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), old, new)

    def remove(self, name: str) -> None:
        """Nothing is written here."""
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), name)

    def sync(self) -> None:
        """There is nothing to sync."""

    def lock(self, name: str, holder: str) -> Lock | str:
        """As the folder does."""
        return self._files.lock(name, holder)


def _read(files: Files, name: str) -> Bytes:
    """The bytes of a file that another process may cut back: if it were mapped, that would end this one."""
    file = files.open(name)
    try:
        return np.frombuffer(bytearray(file.read(0, file.size())), np.uint8)
    finally:
        file.close()
