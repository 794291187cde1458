"""A server that is used on and on keeps no more than it kept: objects, texts, bytes of traces."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

PROGRAM = """
import gc, socket
from tests.unit.server.conftest import serving
from tests.unit.server.test_lane import bound, connected, prepare, query, replies

def work(one, first):
    for key in range(first, first + 75):
        name = str(key).encode()
        one.sendall(bound("insert", name, b"text %d" % (key % 7)) + bound("read", name))
        one.sendall(query("begin") + query(f"update t set x = 'y' where id = {key}") + query("commit"))
        one.sendall(query(f"delete from t where id = {key}") + query("select nothing"))
        replies(one, 7)

with serving() as running:
    running.db.session().sql(
        "create table t (id int primary key, x text);"
        "create materialized view v as select x, count(*) n from t group by x"
    )
    counts = []
    for turn in range(4):
        with connected(running) as one:
            prepare(one)
            work(one, 1000 * turn)
        gc.collect()
        counts.append(len(gc.get_objects()))
    print(counts)
"""

BYTES = """
import psycopg
from tests.unit.server.conftest import serving

with serving() as running:
    running.db.session().sql(
        "create table t (id bigint primary key, at bigint, word text);"
        "insert into t select i, i, 'word ' || i % 10 from generate_series(0, 99) g(i);"
        "create materialized view sums as select word, count(*) as n, sum(at) as total from t group by word;"
        "create materialized view recent as select id, at from t where at > 0"
    )
    worker = running.db._engine.executor
    held = []
    with psycopg.connect(running.dsn, autocommit=True) as one:
        for key in range(100, 4100):
            one.execute("insert into t values (%s, %s, %s)", (key, 10**12 + key * key, f"word {key % 10}"))
            one.execute("delete from t where id = %s", (key - 100,))
            row = one.execute("select n, total from sums where word = %s", (f"word {key % 10}",)).fetchone()
            expected = sum(k if k < 100 else 10**12 + k * k for k in range(key - 90, key + 1, 10))
            assert row == (10, expected), (key, row)
            if key % 1000 == 99:
                made = {one for view in worker.views.values() for one in view.operators}
                traces = sum(one.spine.bytes for one in made if hasattr(one, "spine"))
                held.append((len(worker.dictionary), traces))
    print(held)
"""


def printed(program: str) -> Any:
    """What a program prints, in a process of its own."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


def test_objects_do_not_grow_with_transactions() -> None:
    # What is remembered of statements grows at first, and now and then. There are 525 statements a turn: one
    # object that each leaves would be as many more in every turn.
    counts = printed(PROGRAM)
    assert min(later - before for before, later in pairwise(counts)) < 250, counts


def test_what_is_held_does_not_grow_with_steps_or_reads() -> None:
    # A read of a sum makes a NUMERIC, which is a text; a head is sealed once it outweighs what is there.
    held = printed(BYTES)
    assert len(held) == 4
    assert held[-1][0] - held[0][0] <= 3, held
    assert max(traces for _, traces in held) < 400_000, held
