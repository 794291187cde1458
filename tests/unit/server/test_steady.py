"""A server that is used on and on keeps no more than it kept: objects are counted, not bytes."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, socket
from tests.unit.server.conftest import serving
from tests.unit.server.test_lane import bound, connected, prepare, query, replies

def work(one, first):
    for key in range(first, first + 150):
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


def test_objects_do_not_grow_with_transactions() -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    # What is remembered of statements grows at first. There are 1,050 statements a turn.
    _, second, third, fourth = eval(done.stdout)
    assert max(third, fourth) - second < 500, done.stdout
