"""The child that writes a checkpoint, in a folder in memory: what it does comes to be a few steps at a time.

What it writes is known as soon as it begins, as the memory that it sees does not change any more. Files
change later, between the commits that go on; any of its operations may fail, and it may be killed.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from numpy.random import Generator

from kpg.api.database import Database
from kpg.runtime.checkpoint.checkpointer import CheckpointJob
from kpg.runtime.storage.files import Bytes, Piece
from tests.model.disk import Sim, SimFile

Doing = Callable[[], object]


class NotedFile:
    """A file that is going to be there."""

    def __init__(self, notes: "Noted", name: str) -> None:
        self.notes, self.name = notes, name

    def write(self, offset: int, pieces: Sequence[Piece]) -> None:
        data = b"".join(bytes(memoryview(piece).cast("B")) for piece in pieces)
        self.notes.then(lambda: self.notes.files[self.name].write(offset, [data]))

    def sync(self) -> None:
        self.notes.then(lambda: self.notes.files[self.name].sync())

    def close(self) -> None:
        pass


class Noted:
    """A folder whose changes are only noted."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.where = sim.where
        self.names = set(sim.names)
        self.files: dict[str, SimFile] = {}
        self.doing: list[Doing] = []

    def then(self, do: Doing) -> None:
        self.doing.append(do)

    def list(self) -> list[str]:
        return sorted(self.names)

    def create(self, name: str, *, direct: bool = False) -> NotedFile:
        self.names.add(name)

        def do() -> None:
            self.files[name] = self.sim.create(name)

        self.then(do)
        return NotedFile(self, name)

    def remove(self, name: str) -> None:
        self.names.discard(name)
        self.then(lambda: self.sim.remove(name))

    def sync(self) -> None:
        self.then(self.sim.sync)

    def map(self, name: str) -> Bytes:
        return self.sim.map(name)


class Child:
    """A checkpoint on its way, as ``kpg.runtime.checkpoint.checkpointer.CheckpointProcess``."""

    def __init__(self, job: CheckpointJob, notes: Noted, pack: str, random: Generator) -> None:
        self.job = replace(job, state=None)
        self.error = ""
        self._notes = notes
        self._pack = pack
        self._random = random
        self._fate = int(random.integers(len(notes.doing))) if random.random() < 0.1 else None

    def poll(self, *, wait: bool) -> bool:
        doing = self._notes.doing
        count = len(doing) if wait else int(self._random.integers(1 + len(doing)))
        for _ in range(count):
            if self._fate is not None and len(doing) <= self._fate:
                self.error = "the process that wrote it was killed"
                return True
            try:
                doing.pop(0)()
            except OSError as error:
                self.error = str(error)
                with suppress(OSError):
                    if self._pack in self._notes.files:
                        self._notes.sim.remove(self._pack)
                return True
        return not doing

    def kill(self) -> None:
        self._notes.doing.clear()

    def go_on(self) -> None:
        """One that was stopped, and goes on when its parent is gone: it tidies nothing up."""
        with suppress(OSError):
            for _ in range(int(self._random.integers(1 + len(self._notes.doing)))):
                self._notes.doing.pop(0)()
            return
        self.kill()


def write_aside(database: Database, sim: Sim, random: Generator) -> None:
    """Have the database's checkpoints be written by such a child."""
    checkpoints: Any = database._engine.write_ahead_log.checkpoints  # type: ignore[union-attr]
    background, packer = checkpoints._background, checkpoints._store

    def forked(job: CheckpointJob) -> Child:
        notes = Noted(sim)
        packer._files = notes
        try:
            packer.write(job)
        finally:
            packer._files = sim
        return Child(job, notes, f"pack-{job.number:08}", random)

    background._forks, background._fork = True, forked
