"""Workers in processes of this machine that have nothing in common: as they are on many, over TCP."""

import pickle
import subprocess
import sys

from kpg.database import Database
from kpg.engine.working import Workers
from kpg.runtime.trace.tiers import EFFORT
from kpg.runtime.workers.network import Calling, Network

CODE = """
import pickle, sys
index, calling = pickle.load(sys.stdin.buffer)
from kpg.runtime.workers.guest import attend
from kpg.runtime.workers.network import Calling
attend(index, Calling(*calling))
"""


class Apart:
    """A ``network.Starter`` of processes."""

    host = ("127.0.0.1", "127.0.0.1")

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, calling: Calling) -> None:
        for index in range(calling.workers):
            process = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((index, tuple(calling))))
            process.stdin.close()
            self.running.append(process)

    def failure(self) -> str | None:
        for index, process in enumerate(self.running):
            if process.poll() is not None:
                return f"worker {index} ended with status {process.returncode}"
        return None

    def end(self) -> None:
        for process in self.running:
            process.wait()
        self.running.clear()


def apart(count: int, small: int = 1000, **options: object) -> Database:
    """A database of so many."""
    return Database(workers=Workers(Network(count, EFFORT, Apart()), small), **options)  # type: ignore[arg-type]
