"""A folder in memory whose power is cut: what was not synced is lost, torn, or there, as it happens.

``Sim`` is a ``Files``. Every operation is counted; ``fails`` says which of them fail, and how, ``cut_at`` at
which the power goes. :meth:`Sim.after_cut` gives the folder as one might find it then: of the names that
changed since the folder was synced any did, and of each file's writes since it was synced any came, in
sectors. A sync that failed may have written anything, and what it did not write no later sync does.
"""

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator

from tests.model.turns import Turns

SECTOR = 512
Operation = TypeVar("Operation", bound=Callable[..., Any])


def alone(method: Operation) -> Operation:
    """An operation that none is beside: threads write files, and what a cut leaves is of one moment."""

    @wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        sim: Sim = self if isinstance(self, Sim) else self.sim
        if sim.turns is not None and not sim.under_way:
            sim.turns.pause()
        with sim.one_by_one:
            sim.under_way += 1
            try:
                return method(self, *args, **options)
            finally:
                sim.under_way -= 1

    return run  # type: ignore[return-value]


class PowerCut(BaseException):
    """The power is gone."""


@dataclass(eq=False)
class Node:
    """A file's bytes as they are read, as they are kept, and what is between."""

    now: bytearray = field(default_factory=bytearray)
    kept: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list)


def put(data: bytearray, offset: int, part: bytes) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(part)] = part


def some_of(data: bytearray, waiting: list[tuple[int, bytes | None]], random: Generator) -> None:
    """Some of the changes come to be kept, in sectors."""
    order = list(waiting)
    share = random.choice([0.0, 0.3, 0.7, 0.97, 1.0])
    for offset, part in order:
        if part is None:
            if random.random() < share:
                del data[offset:]
                data.extend(bytes(offset - len(data)))
            continue
        at = 0
        while at < len(part):
            size = min(len(part) - at, SECTOR - (offset + at) % SECTOR)
            if random.random() < share:
                put(data, offset + at, part[at : at + size])
            at += size
        if random.random() < share / 2:
            data.extend(bytes(max(0, offset + len(part) - len(data))))


class SimFile:
    """An open file of a folder in memory."""

    def __init__(self, sim: "Sim", name: str, node: Node) -> None:
        self.sim, self.name, self.node = sim, name, node

    def size(self) -> int:
        return len(self.node.now)

    @alone
    def write(self, offset: int, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        data = b"".join(bytes(memoryview(piece).cast("B")) for piece in pieces)
        failed = self.sim.operation(f"write {self.name}")
        if failed:
            done = int(self.sim.random.integers(len(data) + 1))
            if offset // SECTOR == (offset + len(data) - 1) // SECTOR:
                done = len(data) if 2 * done > len(data) else 0  # what is in one sector is written at once
            data = data[:done]
        put(self.node.now, offset, data)
        self._wait(offset, offset + len(data))
        self.sim.settle(failed)

    def _wait(self, start: int, end: int) -> None:
        """What was written waits in whole sectors: beside it is what they had in memory, written or not."""
        start -= start % SECTOR
        end = min(len(self.node.now), end + -end % SECTOR)
        self.node.waiting.append((start, bytes(self.node.now[start:end])))

    @alone
    def read(self, offset: int, size: int) -> bytes:
        self.sim.settle(self.sim.operation(f"read {self.name}"))
        return bytes(self.node.now[offset : offset + size])

    @alone
    def sync(self) -> None:
        failed = self.sim.operation(f"sync {self.name}")
        if failed:
            some_of(self.node.kept, self.node.waiting, self.sim.random)
            self.node.waiting.clear()
            self.sim.settle(failed)
        for offset, part in self.node.waiting:
            if part is None:
                del self.node.kept[offset:]
                self.node.kept.extend(bytes(offset - len(self.node.kept)))
            else:
                put(self.node.kept, offset, part)
        self.node.waiting.clear()

    @alone
    def truncate(self, size: int) -> None:
        self.sim.settle(self.sim.operation(f"truncate {self.name}"))
        del self.node.now[size:]
        self.node.now.extend(bytes(size - len(self.node.now)))
        self.node.waiting.append((size, None))

    def close(self) -> None:
        pass


class SimLock:
    def __init__(self, sim: "Sim") -> None:
        self.sim = sim

    def release(self) -> None:
        self.sim.holder = None


class Sim:
    """A folder in memory."""

    where = "sim"

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.one_by_one = threading.RLock()
        self.under_way = 0
        self.turns: Turns | None = None
        """Who decides which thread goes on before an operation, if that is not left to the system."""
        self.names: dict[str, Node] = {}
        self.kept: dict[str, Node] = {}
        self.changed: list[tuple[str, Node | None]] = []
        self.count = 0
        self.done: list[str] = []
        self.cut_at: int | None = None
        self.fails: Callable[[int, str], int] = lambda count, what: 0
        """An errno for an operation that fails, by its number and what it does."""
        self.holder: str | None = None
        self.look: Callable[[str], None] | None = None
        """Called before each operation, when the power might go."""

    def operation(self, what: str) -> int:
        """Count an operation; the error that it ends in, or 0."""
        self.count += 1
        self.done.append(what)
        if self.look is not None:
            self.look(what)
        if self.cut_at is not None and self.count > self.cut_at:
            raise PowerCut(what)
        return self.fails(self.count, what)

    def settle(self, failed: int) -> None:
        if failed:
            raise OSError(failed, errno.errorcode[failed])

    def _there(self, name: str) -> None:
        if name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)

    @alone
    def list(self) -> list[str]:
        self.settle(self.operation("list"))
        return sorted(self.names)

    @alone
    def create(self, name: str, *, direct: bool = False) -> SimFile:
        self.settle(self.operation(f"create {name}"))
        if name in self.names:
            raise FileExistsError(errno.EEXIST, "exists", name)
        node = self.names[name] = Node()
        self.changed.append((name, node))
        return SimFile(self, name, node)

    @alone
    def open(self, name: str, *, writing: bool = False, direct: bool = False) -> SimFile:
        self.settle(self.operation(f"open {name}"))
        self._there(name)
        return SimFile(self, name, self.names[name])

    @alone
    def rename(self, old: str, new: str) -> None:
        self.settle(self.operation(f"rename {old} {new}"))
        self._there(old)
        node = self.names[new] = self.names.pop(old)
        self.changed += [(new, node), (old, None)]

    @alone
    def remove(self, name: str) -> None:
        self.settle(self.operation(f"remove {name}"))
        self._there(name)
        del self.names[name]
        self.changed.append((name, None))

    @alone
    def sync(self) -> None:
        self.settle(self.operation("sync folder"))
        self.kept = dict(self.names)
        self.changed.clear()

    @alone
    def map(self, name: str) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        self.settle(self.operation(f"map {name}"))
        self._there(name)
        return np.frombuffer(bytearray(self.names[name].now), np.uint8)

    @alone
    def lock(self, name: str, holder: str) -> SimLock | str:
        self.settle(self.operation("lock"))
        if self.holder is not None:
            return self.holder
        self.holder = holder
        return SimLock(self)

    @alone
    def after_cut(self, seed: int) -> "Sim":
        """The folder as it may be found when the power is back."""
        random = np.random.default_rng(seed)
        names = dict(self.kept)
        share = random.choice([0.0, 0.5, 1.0])
        for name, node in self.changed:
            if random.random() < share:
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node
        return self._found(names, random, seed)

    @alone
    def after_kill(self, seed: int = 0) -> "Sim":
        """The folder as it is found when only the process is gone."""
        found = Sim(seed)
        found.names = {
            name: Node(bytearray(node.now), bytearray(node.now)) for name, node in self.names.items()
        }
        found.kept = dict(found.names)
        return found

    def _found(self, names: dict[str, Node], random: Generator, seed: int) -> "Sim":
        found = Sim(seed)
        for name, node in names.items():
            data = bytearray(node.kept)
            some_of(data, node.waiting, random)
            found.names[name] = Node(bytearray(data), data)
        found.kept = dict(found.names)
        return found
