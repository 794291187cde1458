"""Which written files need no sorting; no Spark needed."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kpg.runtime.spark import load_jobs
from kpg.runtime.spark.load_jobs import is_ascending, order_files, order_key
from kpg.runtime.types import BIGINT, DATE, DOUBLE, TEXT, ColumnDef, Schema, decimal

KEY = Schema((ColumnDef("a", BIGINT), ColumnDef("b", decimal(5, 2))))


def write(folder, name, rows):
    table = pa.table(
        {
            "a": pa.array([a for a, _ in rows], pa.int64()),
            "b": pa.array([Decimal(b) for _, b in rows], pa.decimal128(5, 2)),
            "other": ["x"] * len(rows),
        }
    )
    pq.write_table(table, folder / name)
    return folder / name


def test_order_key_is_the_primary_key_in_its_order():
    columns = (ColumnDef("a", BIGINT), ColumnDef("b", DATE), ColumnDef("c", TEXT), ColumnDef("d", DOUBLE))
    assert order_key(Schema(columns, (1, 0))).names == ("b", "a")
    assert order_key(Schema(columns)) is None
    assert order_key(Schema(columns, (0, 2))) is None
    assert order_key(Schema(columns, (3,))) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([[]], True),
        ([[5]], True),
        ([[1, 2, 2, 3]], True),
        ([[1, 3, 2]], False),
        ([[1, 1, 2], [7, 8, 0]], True),
        ([[1, 1, 2], [8, 7, 0]], False),
        ([[2, 1], [0, 9]], False),
    ],
)
def test_ascending(words, expected):
    assert is_ascending(np.array(words, np.int64)) is expected


def test_ascending_agrees_with_sorting_tuples():
    random = np.random.default_rng(3)
    for _ in range(300):
        words = random.integers(0, 3, (2, random.integers(0, 5)))
        rows = [tuple(row) for row in words.T]
        assert is_ascending(words) is (rows == sorted(rows))


def test_files_are_put_in_the_order_of_their_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(load_jobs, "CHUNK_ROWS", 2)
    late = write(tmp_path, "0.parquet", [(3, "-1"), (3, "0.50"), (4, "-9")])
    empty = write(tmp_path, "1.parquet", [])
    early = write(tmp_path, "2.parquet", [(-1, "2"), (1, "1"), (3, "-1")])
    assert order_files([late, empty, early], KEY) == [early, late]
    assert order_files([empty], KEY) == []


def test_files_that_no_order_helps(tmp_path, monkeypatch):
    monkeypatch.setattr(load_jobs, "CHUNK_ROWS", 2)
    within = write(tmp_path, "0.parquet", [(1, "1"), (2, "1"), (1, "5")])
    wide = write(tmp_path, "1.parquet", [(0, "0"), (9, "0")])
    inside = write(tmp_path, "2.parquet", [(3, "0"), (4, "0")])
    assert order_files([within], KEY) is None
    assert order_files([wide, inside], KEY) is None


def test_dates_are_ordered(tmp_path):
    days = [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)]
    pq.write_table(pa.table({"d": days}), tmp_path / "d.parquet")
    key = Schema((ColumnDef("d", DATE),))
    assert order_files([tmp_path / "d.parquet"], key) == [tmp_path / "d.parquet"]
