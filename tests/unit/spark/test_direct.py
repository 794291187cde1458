"""Which sources are read by tasks, and in what splits; no Spark session needed."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from kpg.runtime.spark import load_jobs
from kpg.runtime.spark.load_jobs import is_direct
from kpg.runtime.spark.source import Source
from kpg.runtime.types import BIGINT, DATE, INTERVAL_DAY, TEXT, ColumnDef, Schema, decimal

PAIR = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT)), (0,))


def split(path, **given):
    made = {"groups": [0], "row": 0, "columns": ["k", "v"], "key": ["k"], "encoded": []}
    return {"target": "", "path": str(path), **made, **given}


def test_splits_are_row_groups(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"V": range(10), "k": range(10, 0, -1)}), path, row_group_size=4)
    groups = pq.read_metadata(path)
    monkeypatch.setattr(
        load_jobs, "SPLIT_BYTES", groups.row_group(0).total_byte_size + groups.row_group(1).total_byte_size
    )
    found, rows = load_jobs._split_file(path, PAIR)
    assert rows == 10
    assert found == [
        (3, split(path, groups=[0, 1], columns=["k", "V"])),
        (1, split(path, groups=[2], row=8, columns=["k", "V"])),
    ]
    assert [lowest for lowest, _ in load_jobs._sort_by_min_key(found)] == [1, 3]
    assert load_jobs._sort_by_min_key([*found, (None, found[0][1])]) == [*found, (None, found[0][1])]


def test_files_that_spark_has_to_read(tmp_path):
    path = tmp_path / "a.parquet"
    dated = Schema((ColumnDef("d", DATE),))
    day = [datetime.date(1500, 1, 1)]
    for about, rows in (
        ({}, 1),
        ({"org.apache.spark.version": "4.0.0"}, 1),
        ({"org.apache.spark.version": "2.4.8"}, None),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, None),
    ):
        pq.write_table(pa.table({"d": day}).replace_schema_metadata(about), path)
        found = load_jobs._split_file(path, dated)
        assert (found and found[1]) == rows
    pq.write_table(pa.table({"k": ["1"], "v": [2]}), path)
    assert load_jobs._split_file(path, PAIR) is None
    pq.write_table(pa.table({"k": [1]}), path)
    assert load_jobs._split_file(path, PAIR) is None
    assert load_jobs._split_file(tmp_path / "none.parquet", PAIR) is None


def test_sources_that_look_direct(tmp_path):
    (tmp_path / "part-0.parquet").touch()
    assert is_direct(Source("t", tmp_path, PAIR))
    assert is_direct(Source("t", "s3a://bucket/*.parquet", PAIR))
    assert is_direct(Source("t", "x", PAIR, "parquet", {"pathGlobFilter": "*.parquet"}))
    assert not is_direct(Source("t", "x", PAIR, "parquet", {"mergeSchema": "true"}))
    assert not is_direct(Source("t", "x.csv", PAIR))
    assert not is_direct(Source("t", "x", PAIR))
    assert not is_direct(Source("t", "x.parquet", Schema((ColumnDef("i", INTERVAL_DAY),))))


def test_no_order_is_asked_for_text_keys(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": ["b", "a"], "v": [Decimal("1.5")] * 2}), path)
    schema = Schema((ColumnDef("k", TEXT), ColumnDef("v", decimal(5, 2))), (0,))
    ((lowest, found),), _ = load_jobs._split_file(path, schema)
    assert (lowest, found["key"]) == (None, [])
