"""How fast columns go between two processes, over TCP and on one machine: `python benchmarks/lines.py`.

Also how long a meeting takes that has nothing to hand over, which is what a round of a loop costs.
"""

import argparse
import os
import secrets
import time
from typing import Final

import numpy as np

from kpg.runtime.cluster.messages import Connection, connection_pair, encode_message, exchange
from kpg.runtime.cluster.transfer import Hello, Listener, connect

HERE: Final = "127.0.0.1"
MEETINGS: Final = 2000


def over_tcp() -> tuple[Connection, Connection]:
    """Two ends that know each other by a secret."""
    secret = secrets.token_bytes(32)
    with Listener(HERE, secret) as door:
        one = connect((HERE, door.port), secret, Hello(b"p", 0, 0, 0))
        come = door.accept(10)
        assert come is not None
        return Connection(one.detach()), Connection(come[1].detach())


def other(end: Connection, rounds: int) -> None:
    """Take what is sent, and meet."""
    for _ in range(rounds):
        exchange([], [end])
    exchange([(end, encode_message("done"))], [])
    for _ in range(MEETINGS):
        exchange([(end, encode_message(([], None, None, [])))], [end])


def measure(name: str, ends: tuple[Connection, Connection], words: int, rounds: int) -> None:
    """Print what one way brings."""
    here, there = ends
    child = os.fork()
    if not child:
        other(there, rounds)
        os._exit(0)
    columns = np.arange(8 * words, dtype=np.int64).reshape(8, words)
    start = time.perf_counter()
    for _ in range(rounds):
        exchange([(here, encode_message((0, columns)))], [])
    exchange([], [here])
    seconds = time.perf_counter() - start
    begin = time.perf_counter()
    for _ in range(MEETINGS):
        exchange([(here, encode_message(([], None, None, [])))], [here])
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
    measure("machine", connection_pair(), options.rows, options.rounds)


if __name__ == "__main__":
    main()
