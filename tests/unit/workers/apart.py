"""Workers in processes of this machine that have nothing in common: as they are on many, over TCP."""

import pickle
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from kpg.api.database import Database
from kpg.runtime.cluster.transport import MemberConfig, NetworkMembers
from kpg.runtime.trace.merge import EFFORT
from kpg.session.distribution import Workers

CODE = """
import pickle, sys
index, calling = pickle.load(sys.stdin.buffer)
from kpg.runtime.cluster.member_process import run_member
from kpg.runtime.cluster.transport import MemberConfig
run_member(index, MemberConfig(*calling))
"""


class Apart:
    """A ``network.MemberStarter`` of processes."""

    addresses = ("127.0.0.1", "127.0.0.1")

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, config: MemberConfig) -> None:
        for index in range(config.workers):
            command = [*self.where(index), sys.executable, "-c", CODE]
            process = subprocess.Popen(command, stdin=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((index, tuple(config))))
            process.stdin.close()
            self.running.append(process)

    def where(self, index: int) -> list[str]:
        """What is said before the command that is a worker."""
        return []

    def failure(self) -> str | None:
        for index, process in enumerate(self.running):
            if process.poll() is not None:
                return f"worker {index} ended with status {process.returncode}"
        return None

    def end(self) -> None:
        for process in self.running:
            process.wait()
        self.running.clear()


class Through(Apart):
    """Members whose connections to the coordinator go through another place, which may cut them."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: list[socket.socket] = []
        self.between: socket.socket | None = None

    def start(self, config: MemberConfig) -> None:
        self.between = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, args=(self.between, config.port), daemon=True).start()
        super().start(config._replace(port=self.between.getsockname()[1]))

    def _serve(self, between: socket.socket, port: int) -> None:
        while True:
            try:
                here, _ = between.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", port))
            self.ways += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=_carry, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        for way in self.ways:
            with suppress(OSError):
                way.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        if self.between is not None:
            self.between.shutdown(socket.SHUT_RDWR)
            self.between.close()
            self.between = None
        super().end()
        for way in self.ways:
            way.close()
        self.ways.clear()


def _carry(one: socket.socket, other: socket.socket) -> None:
    try:
        while said := one.recv(1 << 16):
            other.sendall(said)
        other.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def apart(count: int, small: int = 1000, **options: object) -> Database:
    """A database of so many."""
    return Database(workers=Workers(NetworkMembers(count, EFFORT, Apart()), small), **options)  # type: ignore[arg-type]
