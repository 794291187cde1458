"""A server at a steady load for an hour: does its memory, its folder or its latency grow?

    python benchmarks/serve_steady.py [--minutes 60] [--rate 100] [--memory] [--tell FILE]

The database is a folder (``--memory``: none). A table has 20,000 rows throughout: so many times a second a
row is inserted and the oldest deleted, each a commit (every tenth pair one explicit transaction with an
UPDATE), and three times sums are read. A view of groups and one of rows follow; one client is subscribed by
COPY and one by server-sent events; once a second a client connects, asks something and leaves. Minute by
minute: commits, the time from before an INSERT is sent until it is answered, until its row has come to each
of the subscribers, a read's, and a connection's; the server's processor time for each INSERT, in ms, with all
that comes beside it; the system's load; the server's resident memory, of that what is its own and what are
mapped files; and the size of the folder. ``--tell`` writes the same lines to a file, too.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from benchmarks._serving import Serving, serving, used

DSN = "host=127.0.0.1 port={} user=kpg dbname=kpg"
ROWS = 20_000
WRITERS = 2
READERS = 3
SETUP = (
    "create table events (id bigint primary key, at bigint, word text)",
    f"insert into events select i, 0, 'word ' || i % 1000 from generate_series(0, {ROWS - 1}) g(i)",
    "create materialized view recent as select id, at from events where at > 0",
    "create materialized view sums as select word, count(*) as n, sum(at) as total from events group by word",
)
KINDS = ("write", "read", "copy", "sse", "connect")
Times = dict[str, list[float]]


async def writer(dsn: str, which: int, rate: float, times: Times) -> None:
    """Insert a row and delete the oldest at a rate; every tenth time in one transaction with an UPDATE."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one:
        begun, count = time.perf_counter(), 0
        while True:
            if (ahead := count / rate - (time.perf_counter() - begun)) > 0:
                await asyncio.sleep(ahead)
            key = ROWS + WRITERS * count + which
            start = time.perf_counter()
            row = (key, round(start * 1e9), f"word {key % 1000}")
            if count % 10:
                await one.execute("insert into events values (%s, %s, %s)", row)
                times["write"].append(time.perf_counter() - start)
                await one.execute("delete from events where id = %s", (key - ROWS,))
            else:
                async with one.transaction():
                    await one.execute("insert into events values (%s, %s, %s)", row)
                    await one.execute("update events set at = at + 1 where id = %s", (key - ROWS // 2,))
                    await one.execute("delete from events where id = %s", (key - ROWS,))
                times["write"].append(time.perf_counter() - start)
            count += 1


async def reader(dsn: str, rate: float, times: Times) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one:
        begun, count = time.perf_counter(), 0
        while True:
            if (ahead := count / rate - (time.perf_counter() - begun)) > 0:
                await asyncio.sleep(ahead)
            start = time.perf_counter()
            word = f"word {random.randrange(1000)}"
            await (await one.execute("select n, total from sums where word = %s", (word,))).fetchall()
            times["read"].append(time.perf_counter() - start)
            count += 1


async def visitor(dsn: str, times: Times) -> None:
    """A client that connects, asks and leaves, once a second."""
    while True:
        start = time.perf_counter()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one:
            await (await one.execute("select count(*) from events")).fetchone()
        times["connect"].append(time.perf_counter() - start)
        await asyncio.sleep(1)


async def copying(dsn: str, times: Times) -> None:
    statement = b"copy (subscribe recent with (snapshot = false)) to stdout"
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as one,
        one.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        async for data in copy:
            now = time.perf_counter()
            for line in bytes(data).splitlines():
                _, count, _, moment = line.split(b"\t")
                if count == b"1" and (lag := now - int(moment) / 1e9) < 60:
                    times["copy"].append(lag)


async def listening(port: int, times: Times) -> None:
    """A subscriber by server-sent events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    request = "GET /subscribe?view=recent&snapshot=false HTTP/1.1\r\nHost: localhost\r\n\r\n"
    writer.write(request.encode())
    while line := await reader.readline():
        if line.startswith(b"data:"):
            now = time.perf_counter()
            told = json.loads(line[5:])
            for count, (_, moment) in told.get("changes", ()) if isinstance(told, dict) else ():
                if count == 1 and (lag := now - int(moment) / 1e9) < 60:
                    times["sse"].append(lag)
    raise EOFError("the server has ended a subscription")


def resident(process: int) -> list[int]:
    """Megabytes that a process has in memory: in all, of its own, of mapped files."""
    lines = [one.split() for one in Path(f"/proc/{process}/status").read_text().splitlines()]
    kilobytes = {line[0]: int(line[1]) for line in lines if len(line) == 3 and line[2] == "kB"}
    return [kilobytes[name] // 1024 for name in ("VmRSS:", "RssAnon:", "RssFile:")]


def size(folder: Path) -> int:
    """Megabytes of the files in a folder."""
    found = 0
    for one in folder.rglob("*"):
        try:
            found += one.stat().st_size
        except FileNotFoundError:
            continue  # a checkpoint has removed it
    return found >> 20


def report(minute: float, times: Times, process: int, folder: Path, took: float) -> str:
    writes = len(times["write"])
    shown = [f"{minute:6.1f}{writes:8}"]
    for name in KINDS:
        cuts = statistics.quantiles(times[name], n=100) if len(times[name]) > 1 else [0.0] * 99
        shown.append(f"{cuts[49] * 1e3:9.2f}{cuts[98] * 1e3:8.1f}")
        times[name].clear()
    shown.append(f"{1e3 * took / max(writes, 1):9.2f}{os.getloadavg()[0]:7.1f}")
    return "".join([*shown, *(f"{one:7}" for one in resident(process)), f"{size(folder):8}"])


async def run(
    server: Serving, folder: Path, rate: float, minutes: float, tell: Callable[[str], None]
) -> None:
    dsn, http = DSN.format(server.port), server.http
    times: Times = {name: [] for name in KINDS}
    tasks = [asyncio.create_task(writer(dsn, i, rate / WRITERS, times)) for i in range(WRITERS)]
    tasks += [asyncio.create_task(reader(dsn, rate, times)) for _ in range(READERS)]
    tasks += [
        asyncio.create_task(one) for one in (visitor(dsn, times), copying(dsn, times), listening(http, times))
    ]
    titles = "".join(f"{name:>9}{'p99':>8}" for name in KINDS)
    tell(
        f"{'minute':>6}{'writes':>8}{titles}{'CPU ms':>9}{'load':>7}"
        f"{'RSS':>7}{'own':>7}{'files':>7}{'folder':>8}"
    )
    begun, before = time.perf_counter(), used(server.process)
    for minute in range(1, round(minutes) + 1):
        ended, _ = await asyncio.wait(
            tasks, timeout=begun + 60 * minute - time.perf_counter(), return_when="FIRST_COMPLETED"
        )
        for one in ended:
            one.result()
        now = used(server.process)
        tell(report((time.perf_counter() - begun) / 60, times, server.process, folder, now - before))
        before = now
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--tell", type=Path)
    options = parser.parse_args()

    def tell(line: str) -> None:
        print(line, flush=True)
        if options.tell:
            with options.tell.open("a") as file:
                file.write(line + "\n")

    with TemporaryDirectory() as folder, serving([] if options.memory else [folder]) as server:
        with psycopg.connect(DSN.format(server.port), autocommit=True) as one:
            for statement in SETUP:
                one.execute(statement.encode())
        asyncio.run(run(server, Path(folder), options.rate, options.minutes, tell))


if __name__ == "__main__":
    main()
