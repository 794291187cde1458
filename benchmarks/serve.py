"""A server's throughput and latency: point reads, single-row inserts and both, with 1, 8 and 64 clients.

    python benchmarks/serve.py [--seconds 3] [--durable | --postgres]

Clients are psycopg's, asynchronous, in a process of their own; the server is another process, in memory or,
with ``--durable``, with every commit on the disk. A view that counts and adds up over the table is kept up to
date by every insert. With ``--postgres``, the same against a Postgres (package pgserver), which refreshes the
view once at the end of each run.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

ROWS = 10_000
CLIENTS = (1, 8, 64)
SETUP = (
    "create table accounts (id int primary key, branch int, balance bigint)",
    f"insert into accounts select i, i % 100, 1000 from generate_series(1, {ROWS}) g(i)",
    "create materialized view branches as select branch, count(*) as n, sum(balance) as total from accounts "
    "group by branch",
)
Work = Callable[[psycopg.AsyncConnection, int], Awaitable[object]]


async def read(one: psycopg.AsyncConnection, _: int) -> object:
    cursor = await one.execute("select balance from accounts where id = %s", (random.randint(1, ROWS),))
    return await cursor.fetchone()


async def insert(one: psycopg.AsyncConnection, number: int) -> object:
    return await one.execute("insert into accounts values (%s, %s, %s)", (number, number % 100, 1000))


async def mixed(one: psycopg.AsyncConnection, number: int) -> object:
    return await (insert if number % 5 == 0 else read)(one, number)


async def client(dsn: str, work: Work, first: int, end: float, times: list[float]) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one:
        number = first
        while time.perf_counter() < end:
            start = time.perf_counter()
            await work(one, number)
            times.append(time.perf_counter() - start)
            number += 1


async def measure(dsn: str, work: Work, clients: int, seconds: float, first: int) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    await asyncio.gather(*(client(dsn, work, first + 10**6 * i, end, times) for i in range(clients)))
    return times


def run(dsn: str, seconds: float, *, refresh: bool) -> None:
    with psycopg.connect(dsn, autocommit=True) as one:
        for statement in SETUP:
            one.execute(statement.encode())
        first = 10**8
        print(f"{'work':8}{'clients':>9}{'per s':>10}{'p50 ms':>9}{'p99 ms':>9}")
        for name, work in (("read", read), ("insert", insert), ("mixed", mixed)):
            for clients in CLIENTS:
                times = asyncio.run(measure(dsn, work, clients, seconds, first))
                first += 10**8
                if refresh:
                    one.execute("refresh materialized view branches")
                cuts = statistics.quantiles(times, n=100)
                rate = len(times) / seconds
                print(
                    f"{name:8}{clients:9}{rate:10.0f}{cuts[49] * 1e3:9.2f}{cuts[98] * 1e3:9.2f}", flush=True
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--durable", action="store_true")
    options = parser.parse_args()
    if options.postgres:
        import pgserver

        with TemporaryDirectory() as folder:
            server = pgserver.get_server(Path(folder), cleanup_mode="stop")
            run(server.get_uri(), options.seconds, refresh=True)
            server.cleanup()
        return
    with TemporaryDirectory() as folder:
        serve([folder] if options.durable else [], options.seconds)


def serve(folder: list[str], seconds: float) -> None:
    command = [sys.executable, "-m", "kpg", "serve", *folder, "--trust", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        port = serving.stderr.readline().split(":")[1].split(";")[0]
        try:
            run(f"host=127.0.0.1 port={port} user=kpg dbname=kpg", seconds, refresh=False)
        finally:
            serving.terminate()


if __name__ == "__main__":
    main()
