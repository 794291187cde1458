"""A server's throughput and latency: point reads, single-row inserts and both, with 1, 8 and 64 clients.

    python benchmarks/serve.py [--seconds 3] [--durable] [--pgbench | --postgres]
    python benchmarks/serve.py --subscribe [--rate 1000] [--seconds 10]
    python benchmarks/serve.py --steady MINUTES [--rate 1000]

Clients are psycopg's, asynchronous, in a process of their own; the server is another process, in memory or,
with ``--durable``, with every commit on the disk. A view that counts and adds up over the table is kept up to
date by every insert. With ``--postgres``, the same against a Postgres (package pgserver), which refreshes the
view once at the end of each run. With ``--pgbench`` the clients are those of pgbench (prepared statements),
which take less of the machine; the server's processor time for each statement is shown too.

``--subscribe`` has ten subscribers of a view while rows are inserted, each a commit: the time from before an
INSERT is sent until its row has come to a subscriber. ``--steady`` does the same for minutes, updates and
deletes among it, and shows the server's memory and latency minute by minute.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

ROWS = 10_000
CLIENTS = (1, 8, 64)
SETUP = (
    "create table accounts (id bigint primary key, branch int, balance bigint)",
    f"insert into accounts select i, i % 100, 1000 from generate_series(1, {ROWS}) g(i)",
    "create materialized view branches as select branch, count(*) as n, sum(balance) as total from accounts "
    "group by branch",
)
SCRIPTS = {
    "read": f"\\set id random(1, {ROWS})\nselect balance from accounts where id = :id;\n",
    "insert": "\\set id random(100000, 9000000000000000)\ninsert into accounts values (:id, 7, 1000);\n",
}
SUBSCRIBERS = 10
WRITERS = 4
KEPT = 1000
"""Rows of each writer that a run for minutes keeps."""
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
    parser.add_argument("--pgbench", action="store_true")
    parser.add_argument("--subscribe", action="store_true")
    parser.add_argument("--steady", type=float, default=0, metavar="MINUTES")
    parser.add_argument("--rate", type=int, default=1000)
    options = parser.parse_args()
    if options.postgres and (options.subscribe or options.steady or options.pgbench):
        parser.error("--postgres is for the clients of psycopg")
    if options.subscribe or options.steady or options.pgbench:
        with TemporaryDirectory() as folder, served([folder] if options.durable else []) as (port, process):
            if options.pgbench:
                run_pgbench(port, process, options.seconds)
            else:
                minutes = options.steady or options.seconds / 60
                asyncio.run(steady(port, process, options.rate, minutes, changes=bool(options.steady)))
        return
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
    with served(folder) as (port, _):
        run(f"host=127.0.0.1 port={port} user=kpg dbname=kpg", seconds, refresh=False)


@contextmanager
def served(folder: list[str]) -> Iterator[tuple[str, int]]:
    """A server: its port, and the number of its process."""
    command = [sys.executable, "-m", "kpg", "serve", *folder, "--trust", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        port = serving.stderr.readline().split(":")[1].split(";")[0]
        try:
            yield port, serving.pid
        finally:
            serving.terminate()


def used(process: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> float:
    """Megabytes of a process."""
    line = next(one for one in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in one)
    return int(line.split()[1]) / 1024


def run_pgbench(port: str, process: int, seconds: float) -> None:
    dsn = f"host=127.0.0.1 port={port} user=kpg dbname=kpg"
    with psycopg.connect(dsn, autocommit=True) as one, TemporaryDirectory() as folder:
        for statement in SETUP:
            one.execute(statement.encode())
        print(f"{'work':8}{'clients':>9}{'per s':>10}{'mean ms':>9}{'server us':>11}")
        for name, text in SCRIPTS.items():
            script = Path(folder) / name
            script.write_text(text)
            for clients in CLIENTS:
                command = [
                    "pgbench",
                    "-n",
                    "-M",
                    "prepared",
                    "-j",
                    "1",
                    "-h",
                    "127.0.0.1",
                    "-p",
                    port,
                    "-U",
                    "kpg",
                ]
                command += ["-c", str(clients), "-T", str(max(1, round(seconds))), "-f", str(script), "kpg"]
                before = used(process)
                shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                took = used(process) - before
                count, mean, rate = (
                    float(next(line for line in shown.splitlines() if word in line).split()[place])
                    for word, place in (("processed:", -1), ("latency average", 3), ("tps =", 2))
                )
                each = 1e6 * took / max(count, 1)
                print(f"{name:8}{clients:9}{rate:10.0f}{mean:9.2f}{each:11.0f}", flush=True)


async def steady(port: str, process: int, rate: int, minutes: float, *, changes: bool) -> None:
    """Commit so many rows a second, with ten subscribers; figures minute by minute."""
    dsn = f"host=127.0.0.1 port={port} user=kpg dbname=kpg"
    times: list[float] = []
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one:
        await one.execute("create table events (id bigint primary key, at bigint)")
        await one.execute("create materialized view recent as select id, at from events where at > 0")
        await one.execute(
            "create materialized view sums as select id % 100 as g, count(*) as n from events group by g"
        )
        listening = [asyncio.create_task(subscriber(dsn, times)) for _ in range(SUBSCRIBERS)]
        await asyncio.sleep(1)
        print(f"{'minute':>7}{'commits':>9}{'p50 ms':>9}{'p99 ms':>9}{'MB':>8}")
        first, begun = 0, time.perf_counter()
        while (time.perf_counter() - begun) / 60 < minutes:
            part = min(60.0, 60 * minutes)
            writers = (writer(dsn, first + i, rate / WRITERS, part, changes=changes) for i in range(WRITERS))
            done = sum(await asyncio.gather(*writers))
            await asyncio.sleep(0.5)
            cuts = statistics.quantiles(times, n=100)
            times.clear()
            first += 10**7
            minute = (time.perf_counter() - begun) / 60
            print(
                f"{minute:7.1f}{done:9}{cuts[49] * 1e3:9.2f}{cuts[98] * 1e3:9.2f}{memory(process):8.0f}",
                flush=True,
            )
        for task in listening:
            task.cancel()


async def writer(dsn: str, first: int, rate: float, seconds: float, *, changes: bool) -> int:
    """Insert rows at a rate, each a commit; with ``changes`` all but the last thousand are deleted again."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one:
        begun, count = time.perf_counter(), 0
        while (now := time.perf_counter() - begun) < seconds:
            if count / rate > now:
                await asyncio.sleep(count / rate - now)
            key = first + WRITERS * count
            moment = round(time.perf_counter() * 1e9)
            await one.execute("insert into events values (%s, %s)", (key, moment))
            if changes and count >= KEPT:
                await one.execute("delete from events where id = %s", (key - WRITERS * KEPT,))
            count += 1
    return count


async def subscriber(dsn: str, times: list[float]) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one, one.cursor() as cursor:
        statement = b"copy (subscribe recent with (snapshot = false)) to stdout"
        async with cursor.copy(statement) as copy:
            async for data in copy:
                now = time.perf_counter()
                for line in bytes(data).splitlines():
                    _, count, _, moment = line.split(b"\t")
                    if count == b"1":
                        times.append(now - int(moment) / 1e9)


if __name__ == "__main__":
    main()
