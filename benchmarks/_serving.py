"""A server of kpg in a process of its own, for programs that measure it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Serving(NamedTuple):
    """Where a server is."""

    port: int
    http: int
    process: int


@contextmanager
def serving(arguments: list[str]) -> Iterator[Serving]:
    """``kpg serve`` with these arguments, on ports that are free; it is told to stop at the end."""
    command = [sys.executable, "-m", "kpg", "serve", *arguments, "--trust"]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            ports = re.findall(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
            yield Serving(int(ports[0]), int(ports[1]), process.pid)
        finally:
            process.terminate()


def used(process: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
