"""How fast columns go between two processes, over TCP and on one machine: `python benchmarks/lines.py`.

Also how long a meeting takes that has nothing to hand over, which is what a round of a loop costs.
"""

import argparse
import os
import secrets
import time
from typing import Final

import numpy as np

from kpg.runtime.cluster.messages import Line, exchange, packed, pair
from kpg.runtime.cluster.transfer import Card, Door, visit

HERE: Final = "127.0.0.1"
MEETINGS: Final = 2000


def over_tcp() -> tuple[Line, Line]:
    """Two ends that know each other by a secret."""
    secret = secrets.token_bytes(32)
    with Door(HERE, secret) as door:
        one = visit((HERE, door.port), secret, Card(b"p", 0, 0, 0))
        come = door.wait(10)
        assert come is not None
        return Line(one.detach()), Line(come[1].detach())


def other(end: Line, rounds: int) -> None:
    """Take what is sent, and meet."""
    for _ in range(rounds):
        exchange([], [end])
    exchange([(end, packed("done"))], [])
    for _ in range(MEETINGS):
        exchange([(end, packed(([], None, None, [])))], [end])


def measure(name: str, ends: tuple[Line, Line], words: int, rounds: int) -> None:
    """Print what one way brings."""
    here, there = ends
    child = os.fork()
    if not child:
        other(there, rounds)
        os._exit(0)
    columns = np.arange(8 * words, dtype=np.int64).reshape(8, words)
    start = time.perf_counter()
    for _ in range(rounds):
        exchange([(here, packed((0, columns)))], [])
    exchange([], [here])
    seconds = time.perf_counter() - start
    begin = time.perf_counter()
    for _ in range(MEETINGS):
        exchange([(here, packed(([], None, None, [])))], [here])
    each = (time.perf_counter() - begin) / MEETINGS
    os.waitpid(child, 0)
    print(f"{name:8} {rounds * columns.nbytes / seconds / 1e9:5.2f} GB/s, a meeting {1e6 * each:.0f} us")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of eight columns, in a message")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    measure("TCP", over_tcp(), options.rows, options.rounds)
    measure("machine", pair(), options.rows, options.rounds)


if __name__ == "__main__":
    main()
