"""What executors run of a load of parquet files, and how it is split; no Spark session needed."""

import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kpg.runtime.spark import direct, tasks
from kpg.runtime.spark.direct import is_direct
from kpg.runtime.spark.load import Source
from kpg.runtime.types import BIGINT, DATE, INTERVAL_DAY, TEXT, ColumnDef, Schema, decimal

PAIR = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT)), (0,))


def split(path, target, **given):
    made = {"groups": [0], "row": 0, "columns": ["k", "v"], "key": ["k"], "encoded": []}
    return {"target": str(target), "path": str(path), **made, **given}


def handed(path):
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all(), dict(reader.schema.metadata or {})


def test_rows_in_order_stay_as_they_are(tmp_path):
    pq.write_table(pa.table({"v": [7, 8, 9], "k": [1, 1, 2]}), tmp_path / "a.parquet")
    target = tmp_path / "0.arrow"
    assert list(tasks.hand_over(iter([split(tmp_path / "a.parquet", target)]))) == [str(target)]
    table, about = handed(target)
    assert table.to_pydict() == {"k": [1, 1, 2], "v": [7, 8, 9]}
    assert about == {}
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["0.arrow", "a.parquet"]


def test_rows_are_sorted_by_their_key(tmp_path):
    data = {"k": [3, 1, 2, 1], "v": [4, 9, 6, 5], "t": ["c", "b", None, "a"]}
    table = pa.table(data, schema=pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.string_view())]))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    target = tmp_path / "0.arrow"
    wanted = split(tmp_path / "a.parquet", target, groups=[0, 1], columns=["k", "v", "t"], key=["k", "v"])
    list(tasks.hand_over(iter([wanted])))
    found, about = handed(target)
    assert found.to_pydict() == {"k": [1, 1, 2, 3], "v": [5, 9, 6, 4], "t": ["a", "b", None, "c"]}
    assert found.schema.field("t").type == pa.string()
    assert about == {tasks.SORTED: b"yes"}


def test_text_and_decimals_take_their_smallest_form(tmp_path):
    columns = {
        "k": pa.array([1, 2, 3]),
        "v": pa.array([Decimal("1.50"), None, Decimal("-0.05")], pa.decimal128(18, 2)),
        "wide": pa.array([Decimal("1.50"), None, Decimal("-0.05")], pa.decimal128(19, 2)),
        "t": pa.array(["x", None, "x"], pa.large_string()),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    target = tmp_path / "0.arrow"
    list(tasks.hand_over(iter([split(tmp_path / "a.parquet", target, columns=list(columns), encoded=["t"])])))
    found, _ = handed(target)
    assert found.to_pydict() == {name: array.to_pylist() for name, array in columns.items()}
    assert found.schema.types[1:3] == [pa.decimal64(18, 2), pa.decimal128(19, 2)]
    assert found.schema.types[3].value_type == pa.string()


def test_a_file_that_cannot_be_read_leaves_no_target(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(RuntimeError, match=rf"{tasks.FAILED} {tmp_path}/a\.parquet: Parquet magic bytes"):
        list(tasks.hand_over(iter([split(tmp_path / "a.parquet", tmp_path / "0.arrow")])))
    assert not (tmp_path / "0.arrow").exists()


def test_ascending_agrees_with_sorting_tuples():
    random = np.random.default_rng(5)
    for _ in range(300):
        rows = random.integers(0, 3, (random.integers(0, 5), 2))
        second = pa.array([Decimal(int(b)) for b in rows[:, 1]], pa.decimal128(5, 0))
        table = pa.table({"a": rows[:, 0], "b": second})
        listed = [tuple(row) for row in rows.tolist()]
        assert tasks.ascending(table) is (listed == sorted(listed))


def test_executors_need_no_kpg(tmp_path):
    pq.write_table(pa.table({"k": [2, 1], "v": [20, 10]}), tmp_path / "a.parquet")
    code = f"""
import sys
from pyspark import cloudpickle
from kpg.runtime.spark import tasks
cloudpickle.register_pickle_by_value(tasks)
sys.stdout.buffer.write(cloudpickle.dumps((tasks.hand_over, {split(tmp_path / "a.parquet", tmp_path / "0")})))
"""
    pickled = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    code = """
import pickle, sys
sys.modules["kpg"] = None
hand_over, split = pickle.load(sys.stdin.buffer)
list(hand_over(iter([split])))
"""
    subprocess.run([sys.executable, "-c", code], input=pickled, check=True)
    assert handed(tmp_path / "0")[0].to_pydict() == {"k": [1, 2], "v": [10, 20]}


def test_splits_are_row_groups(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"V": range(10), "k": range(10, 0, -1)}), path, row_group_size=4)
    groups = pq.read_metadata(path)
    monkeypatch.setattr(
        direct, "SPLIT_BYTES", groups.row_group(0).total_byte_size + groups.row_group(1).total_byte_size
    )
    found, rows = direct._splits(path, PAIR)
    assert rows == 10
    assert found == [
        (3, split(path, "", groups=[0, 1], columns=["k", "V"])),
        (1, split(path, "", groups=[2], row=8, columns=["k", "V"])),
    ]
    assert [lowest for lowest, _ in direct._by_lowest(found)] == [1, 3]
    assert direct._by_lowest([*found, (None, found[0][1])]) == [*found, (None, found[0][1])]


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
        found = direct._splits(path, dated)
        assert (found and found[1]) == rows
    pq.write_table(pa.table({"k": ["1"], "v": [2]}), path)
    assert direct._splits(path, PAIR) is None
    pq.write_table(pa.table({"k": [1]}), path)
    assert direct._splits(path, PAIR) is None
    assert direct._splits(tmp_path / "none.parquet", PAIR) is None


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
    ((lowest, found),), _ = direct._splits(path, schema)
    assert (lowest, found["key"]) == (None, [])
