"""A consistent copy of the files of a database while another process writes to it.

That process may swap the manifest and remove files of the previous one, and may be writing a commit. So the
files are read together, and again if a checkpoint was adopted in between.
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
from kpg.runtime.storage.log import COMMITTED_NAME as PROOF
from kpg.runtime.storage.log import Segment, segment_number
from kpg.runtime.storage.packs import MANIFEST_NAME, Manifest, pack_number, read_manifest

MAX_TRIES: Final = 8
"""Tries after which an inconsistency is taken for the actual content."""
PAUSE: Final = 0.002
"""Seconds before the second try; each later pause is twice as long."""


class FilesSnapshot:
    """Read-only files of a folder. Packs are mapped; segments, to which records are appended, are copied."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._files_by_name: dict[str, Bytes] = {}
        self._writable_maps: dict[str, Bytes] = {}
        """Second mappings of packs, for a reader that writes to its mapping."""
        for tried in range(MAX_TRIES):
            if self._take_snapshot():
                return
            time.sleep(PAUSE * 2**tried)
        self._files_by_name, self._writable_maps = {}, {}

    def _take_snapshot(self) -> bool:
        """Read all files; return whether they are complete and did not change meanwhile."""
        files, self._files_by_name = self._files, {}
        self._writable_maps = {}
        try:
            before = files.map(MANIFEST_NAME).tobytes()
            taken = {MANIFEST_NAME: np.frombuffer(bytearray(before), np.uint8)}
            with suppress(FileNotFoundError):  # read before the log, to which records are appended meanwhile
                taken[PROOF] = _copy_file(files, PROOF)
            for name in files.list():
                if segment_number(name) is not None:
                    taken[name] = _copy_file(files, name)
                elif pack_number(name) is not None:
                    taken[name], self._writable_maps[name] = files.map(name), files.map(name)
            if files.map(MANIFEST_NAME).tobytes() != before:
                return False
            self._files_by_name = taken
            manifest = read_manifest(self)
            numbers = [number for name in taken if (number := segment_number(name)) is not None]
            return (
                manifest is not None and manifest.segment in numbers and self._are_adjacent(manifest, numbers)
            )
        except (OSError, OperationalError):
            return False

    def _are_adjacent(self, manifest: Manifest, numbers: Sequence[int]) -> bool:
        """Return whether each segment begins where the previous one ends."""
        end = None
        for number in sorted(numbers):
            segment = Segment(self, number, manifest.database) if number >= manifest.segment else None
            if segment is None or segment.is_empty:
                continue
            if end not in (None, segment.first):
                return False
            end = segment.first
            for record in segment.records():
                end = record.number + 1
        return True

    @property
    def where(self) -> str:
        """Path of the folder."""
        return self._files.where

    def list(self) -> list[str]:
        """Return the names of the files, sorted."""
        return sorted(self._files_by_name) or self._files.list()

    def map(self, name: str) -> Bytes:
        """Return the bytes of a file; the second mapping of a pack can be written."""
        found = self._writable_maps.pop(name, None)
        if found is None:
            found = self._files_by_name.get(name)
        return self._files.map(name) if found is None else found

    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> File:
        """Open a file as it is now."""
        return self._files.open(name, writing=writing, direct=direct)

    def create(self, name: str, *, direct: bool = False) -> File:
        """Raise PermissionError."""
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), name)

    def rename(self, old: str, new: str) -> None:
        """Raise PermissionError."""
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), old, new)

    def remove(self, name: str) -> None:
        """Raise PermissionError."""
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), name)

    def sync(self) -> None:
        """Do nothing: nothing is written."""

    def lock(self, name: str, holder: str) -> Lock | str:
        """Lock the folder."""
        return self._files.lock(name, holder)


def _copy_file(files: Files, name: str) -> Bytes:
    """Return a copy of a file that another process may truncate.

    After a truncation, accessing a mapping would kill this process.
    """
    file = files.open(name)
    try:
        return np.frombuffer(bytearray(file.read(0, file.size())), np.uint8)
    finally:
        file.close()
