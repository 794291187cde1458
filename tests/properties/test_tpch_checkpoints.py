"""CHECKPOINT, and another life, between refreshes of TPC-H: all 22 views equal DuckDB's answers after each.

Lives end by a close, which makes a checkpoint, and without one, with commits in the log since the last.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kpg
from kpg.database import Database
from kpg.tpch.compare import Order, difference, without_limit
from kpg.tpch.engine import apply
from kpg.tpch.generate import generate, table_path
from kpg.tpch.oracle import Oracle
from kpg.tpch.refresh import RefreshStream
from kpg.tpch.schema import QUERIES, TABLES, create_statements, query_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tpch")
    generate(0.01, path)
    return path


def compare(db: Database, oracle: Oracle, moment: str) -> None:
    for number in QUERIES:
        text = query_text(number)
        actual, (expected, _) = db.view(f"q{number}").arrow(), oracle.query(text)
        found = difference(actual, expected, Order.of(text), partial(without_limit_of, oracle, text))
        assert found is None, (moment, number, found)


def without_limit_of(oracle: Oracle, text: str) -> pa.Table:
    return oracle.query(without_limit(text))[0]


def killed(db: Database) -> None:
    """Have a database be no more, as after ``kill -9``: nothing is written."""
    keeper: Any = db._engine.keeper
    keeper._lock.release()
    db._engine.keeper = None


def test_refreshes_in_several_lives(folder: Path, tmp_path: Path) -> None:
    stream = RefreshStream(folder, seed=3, orders=20)
    with Oracle(folder) as oracle:
        db = kpg.connect(tmp_path / "db")
        for statement in create_statements().values():
            db.sql(statement)
        db.load_all({table: str(table_path(folder, table)) for table in TABLES}, mode="arrow")
        for number in QUERIES:
            db.sql(f"create materialized view q{number} as {query_text(number)}")
        for life in range(5):
            for _ in range(2):
                batch = stream.next_batch()
                apply(db, batch)
                oracle.apply(batch)
                if life != 2:
                    db.sql("checkpoint")
            compare(db, oracle, f"in life {life}")
            if life % 2:
                db.close()
            else:
                killed(db)
            db = kpg.connect(tmp_path / "db")
            compare(db, oracle, f"after life {life}")
        db.close()
