"""Rows on their way to the workers that own them: from a task of a load, as Arrow streams, into files.

A task sends each worker one stream. A worker keeps what comes in a file, under the number of the task's
attempt, which the driver hears of only if the attempt has succeeded: nobody looks at what others have sent.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from kpg.runtime.workers.door import Card, Door, visit

LOOKS: Final = 0.1
"""Seconds after which it is seen that nobody is to come any more."""
PIECE: Final = 1 << 20
ATTEMPT: Final = struct.Struct("<q")
KEPT: Final = b"k"
"""What a worker says once it has a stream."""
LOAD: Final = b"l"
"""The kind of these connections."""


def ship(
    places: Sequence[tuple[str, int]], secret: bytes, attempt: int, batches: "Iterable[pa.RecordBatch]"
) -> int:
    """Send rows to the places that their last column tells by number; how many.

    OSError or StrangerError if one is not there, or goes away.
    """
    rows = 0
    with ExitStack() as stack:
        connections = [stack.enter_context(_opened(place, secret, attempt)) for place in places]
        files = [stack.enter_context(connection.makefile("wb")) for connection in connections]
        writers: list[pa.RecordBatchStreamWriter] = []
        for batch in batches:
            owners = batch.column(batch.num_columns - 1).to_numpy()
            batch = batch.select(range(batch.num_columns - 1))
            writers = writers or [pa.ipc.new_stream(file, batch.schema) for file in files]
            for number, writer in enumerate(writers):
                writer.write_batch(batch.take(pa.array(np.flatnonzero(owners == number))))
            rows += batch.num_rows
        for writer in writers:
            writer.close()
        for file, connection in zip(files, connections, strict=True):
            file.flush()
            connection.shutdown(socket.SHUT_WR)
        for connection in connections:
            if connection.recv(1) != KEPT:
                raise ConnectionError("a worker has not kept what was sent to it")
    return rows


def _opened(place: tuple[str, int], secret: bytes, attempt: int) -> socket.socket:
    connection = visit(place, secret, Card(LOAD, 0, 0, os.getpid()))
    connection.sendall(ATTEMPT.pack(attempt))
    return connection


class Dock:
    """Where a worker takes what tasks send it, until it is closed."""

    def __init__(self, host: str, secret: bytes, folder: Path, name: str) -> None:
        """``name`` begins those of files, and no other worker's."""
        self._folder = folder
        self._name = name
        self._door = Door(host, secret)
        self.port = self._door.port
        self._over = False
        self._server = threading.Thread(target=self._serve, name="kpg-dock", daemon=True)
        self._server.start()

    def file(self, attempt: int) -> Path:
        """Where what an attempt has sent is."""
        return self._folder / f"{self._name}-{attempt}.arrow"

    def _serve(self) -> None:
        while not self._over:
            come = self._door.wait(LOOKS)
            if come is not None:
                threading.Thread(target=self._take, args=(come[1],), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        with connection:
            try:
                head = connection.recv(ATTEMPT.size, socket.MSG_WAITALL)
                if len(head) < ATTEMPT.size:
                    return
                target = self.file(*ATTEMPT.unpack(head))
                with target.open("wb") as file:
                    while piece := connection.recv(PIECE):
                        file.write(piece)
                connection.sendall(KEPT)
            except OSError:
                return  # the task hears that, and its attempt does not count

    def close(self) -> None:
        """Take nothing more."""
        if not self._over:
            self._over = True
            self._server.join()
            self._door.close()

    def keep(self, attempts: Sequence[int]) -> list[Path]:
        """The files of attempts, in their order; those of all others are removed."""
        kept = [self.file(attempt) for attempt in attempts]
        for path in set(self._folder.glob(f"{self._name}-*.arrow")) - set(kept):
            path.unlink()
        return kept


def read(paths: Iterable[Path], least: int) -> Iterator[pa.Table]:
    """What files have, at least so many rows at a time if they follow each other alike; none of tasks that

    had no rows.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for path in paths:
        if not path.stat().st_size:
            continue
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                if held and (rows >= least or batch.schema != held[0].schema):
                    yield pa.Table.from_batches(held)
                    held, rows = [], 0
                if batch.num_rows:
                    held.append(batch)
                    rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)
