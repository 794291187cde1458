"""A real file system whose power goes: ext4 in a file of its own, shut down under load as by a power cut.

What was not synced is gone then, as the system has it, not as a model does. Each time a process commits as in
``kills``, and nothing that it told of may be missing; ``--mode normal`` and ``off`` may lose the end, and
nothing else. ``python -m tests.properties.power --times 100``, by root on Linux.
"""

import argparse
import fcntl
import gc
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.random import Generator

import kpg
from kpg.persistence.inspection import check_contents
from tests.properties.kills import Writer, check

SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN."""
WITHOUT_LOG = 2
"""What the file system's own log has not written is gone, too."""


class Mounted:
    """A file system in a file."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self.image, self.folder = place / "image", place / "mounted"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        """As after a start of the machine: who else sees what was mounted before has to be gone."""
        for _ in range(100):
            run("mount", "-o", "loop", str(self.image), str(self.folder))
            with open("/proc/mounts") as mounts:
                if not any(str(self.folder) in line and "shutdown" in line for line in mounts):
                    return
            self.unmount()
            time.sleep(0.1)
        raise AssertionError(f"{self.image} stays shut down")

    def unmount(self) -> None:
        """As soon as nobody has a file of it: a child may be about to end, a mapped array to be collected."""
        for _ in range(100):
            gc.collect()
            try:
                return run("umount", str(self.folder))
            except subprocess.CalledProcessError:
                time.sleep(0.1)
        raise AssertionError(f"{self.folder} stays in use")

    def cut(self) -> None:
        """The power goes."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUT_DOWN, struct.pack("I", WITHOUT_LOG))
        finally:
            os.close(descriptor)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def life(disk: Mounted, told: int, mode: str, random: Generator) -> int:
    """A process writes until the power goes; the last commit that is found then."""
    folder = disk.folder / "db"
    writer = Writer(folder, mode, "fork")
    if random.random() < 0.9:
        writer.hear()
        time.sleep(float(random.exponential(0.4)))
    else:
        time.sleep(float(random.exponential(0.03)))
    # What is told of while the power goes may not be there: the system's own journal is given up just then.
    writer.listen()
    told = max(told, writer.last("commit") or 0)
    disk.cut()
    time.sleep(0.02)
    writer.kill()
    beyond = max(told, writer.last("commit") or 0) - told + 1
    disk.unmount()
    disk.mount()
    if not (folder / "manifest").exists():
        assert not told
        return 0
    if mode == "full":
        return check(folder, told, beyond)
    with kpg.connect(folder, read_only=True) as db:
        if not db.tables().fetchall():
            return 0
        ((count, last),) = db.query("select count(*), coalesce(max(k), 0) from t").fetchall()
        assert count == last <= told + beyond
        assert not (wrong := list(check_contents(db._engine))), wrong
        return int(last)


def main() -> None:
    """Cut the power as often as is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", default="full")
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    with tempfile.TemporaryDirectory() as place:
        disk, told = Mounted(Path(place), 512), 0
        try:
            for count in range(given.times):
                told = life(disk, told, given.mode, random)
                if count % 10 == 9:
                    print(f"cut {count + 1} times, {told} commits", flush=True)
        finally:
            disk.unmount()
    print(f"cut {given.times} times, {told} commits, none lost")


if __name__ == "__main__":
    main()
