"""The manifest: which files are a database, and from where on its log is to be read again.

It is written beside the one that there is and takes its name, so there always is one, whole.
"""

from typing import Final

import numpy as np

from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.storage.checksum import checksum_of
from kpg.runtime.storage.codec import Codec, DamagedError
from kpg.runtime.storage.files import Files
from kpg.runtime.storage.mapped import read_in

NAME: Final = "manifest"
NEW: Final = "manifest.new"
MAGIC: Final = int.from_bytes(b"kpgmanif", "little")
VERSION: Final = 1
HEADER_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class PackFacts:
    """A pack of a checkpoint: the blocks that were in use when it was written, and those that are now."""

    number: int
    used: int
    live: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is in packs: the state as of an epoch, whose description is at a block of the newest pack."""

    epoch: int
    packs: tuple[PackFacts, ...]
    block: int
    size: int
    """Bytes of the description."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A database, known by a number; its log begins with a segment."""

    database: int
    segment: int
    checkpoint: Checkpoint | None = None


CODEC: Final = Codec((Manifest, Checkpoint, PackFacts))


def write_beside(files: Files, manifest: Manifest, name: str = NEW) -> None:
    """Write a manifest that :func:`swap` makes the one that counts."""
    if name in files.list():
        files.remove(name)
    data = CODEC.dumps(manifest)
    header = np.array([MAGIC, VERSION, len(data)], np.int64).tobytes()
    header += np.array([checksum_of([header, data])], np.int64).tobytes()
    file = files.create(name)
    try:
        file.write(0, [header, data])
        file.sync()
    finally:
        file.close()


def swap(files: Files, name: str = NEW) -> None:
    """Have the manifest written beside be the one that counts, whatever happens."""
    files.rename(name, NAME)
    files.sync()


def read_manifest(files: Files, name: str = NAME) -> Manifest | None:
    """The manifest; None if there is none. OperationalError if it is newer, DamagedError if it is none."""
    where = f"{files.where}/{name}"
    if name not in files.list():
        return None
    data = files.map(name)
    read_in(data)
    header = data[: 8 * HEADER_WORDS].copy().view(np.int64).tolist() if data.shape[0] >= 32 else [0]
    if header[0] != MAGIC:
        raise DamagedError(f"{where} is no manifest of kpg", hint="the folder is damaged, or not kpg's")
    if header[1] > VERSION:
        raise OperationalError(
            f"{where} has format {header[1]}, and this kpg knows formats up to {VERSION}",
            hint="open it with a newer kpg",
        )
    rest = data[8 * HEADER_WORDS :]
    if rest.shape[0] != header[2] or checksum_of([data[:24].tobytes(), rest.tobytes()]) != header[3]:
        raise DamagedError(f"{where} is damaged: it has another checksum", hint="restore a backup")
    manifest = CODEC.decode(rest)
    assert isinstance(manifest, Manifest)
    return manifest
