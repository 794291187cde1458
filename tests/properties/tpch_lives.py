"""CHECKPOINT, and another life, between refreshes of TPC-H: all 22 views equal DuckDB's answers after each.

Lives end by a close, which makes a checkpoint, and without one, with commits in the log since the last.

python -m tests.properties.tpch_lives --scale 1 --lives 5 FOLDER
"""

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import kpg
from kpg.api.database import Database
from kpg.tpch.data import QUERIES, TABLES, create_statements, data_folder, query_text, table_path
from kpg.tpch.job import apply_batch
from kpg.tpch.oracle import Oracle, Order, find_difference, remove_limit
from kpg.tpch.refresh import RefreshStream

REFRESHES = 2
"""Refreshes in a life."""
IN_THE_LOG = 2
"""The life, of those that end by a kill, that makes no checkpoint."""


def compare(db: Database, oracle: Oracle, moment: str) -> None:
    """AssertionError unless every view is what DuckDB answers."""
    for number in QUERIES:
        text = query_text(number)
        actual, (expected, _) = db.view(f"q{number}").arrow(), oracle.query(text)
        found = find_difference(actual, expected, Order.of(text), partial(_without_limit, oracle, text))
        assert found is None, (moment, number, found)


def _without_limit(oracle: Oracle, text: str) -> pa.Table:
    return oracle.query(remove_limit(text))[0]


def _killed(db: Database) -> None:
    """Have a database be no more, as after ``kill -9``: nothing is written."""
    keeper: Any = db._engine.write_ahead_log
    keeper._lock.release()
    db._engine.write_ahead_log = None


def made(data: Path, folder: Path) -> Database:
    """A database of all tables, with the 22 views."""
    db = kpg.connect(folder)
    for statement in create_statements().values():
        db.sql(statement)
    db.load_all({table: str(table_path(data, table)) for table in TABLES}, mode="arrow")
    for number in QUERIES:
        db.sql(f"create materialized view q{number} as {query_text(number)}")
    return db


def run(
    data: Path, folder: Path, *, lives: int, orders: int | None, say: Callable[[str], None] = lambda _: None
) -> None:
    """Lives of a database, each with two refreshes of so many orders; AssertionError if one is wrong."""
    stream = RefreshStream(data, seed=3, orders=orders)
    with Oracle(data) as oracle:
        db = made(data, folder)
        say("made")
        for life in range(lives):
            for _ in range(REFRESHES):
                batch = stream.next_batch()
                apply_batch(db, batch)
                oracle.apply(batch)
                if life != IN_THE_LOG:
                    db.sql("checkpoint")
                    say("CHECKPOINT after a refresh")
                compare(db, oracle, f"in life {life}")
                say(f"life {life}: 22 of 22 equal")
            if life % 2:
                db.close()
            else:
                _killed(db)
            del db
            gc.collect()
            db = kpg.connect(folder)
            say("closed and opened" if life % 2 else "killed and opened")
            compare(db, oracle, f"after life {life}")
            say(f"after life {life}: 22 of 22 equal")
        db.close()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--lives", type=int, default=5)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()

    def say(what: str) -> None:
        seconds = time.perf_counter() - started
        used = sum(os.times()[:2])
        print(f"{seconds:8,.0f} s, {used:7,.0f} s of processor time: {what}", flush=True)

    run(data_folder(options.scale, None), options.folder, lives=options.lives, orders=None, say=say)
    sys.exit(0)


if __name__ == "__main__":
    main()
