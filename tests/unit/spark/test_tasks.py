"""What executors run of a load of parquet files; no Spark session needed."""

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kpg.runtime.spark import tasks


def split(path, target, **given):
    made = {"groups": [0], "row": 0, "columns": ["k", "v"], "key": ["k"], "encoded": []}
    return {"target": str(target), "path": str(path), **made, **given}


def handed(path):
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all(), dict(reader.schema.metadata or {})


def test_rows_in_order_stay_as_they_are(tmp_path):
    pq.write_table(pa.table({"v": [7, 8, 9], "k": [1, 1, 2]}), tmp_path / "a.parquet")
    target = tmp_path / "0.arrow"
    assert list(tasks.write_splits(iter([split(tmp_path / "a.parquet", target)]))) == [str(target)]
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
    list(tasks.write_splits(iter([wanted])))
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
    list(
        tasks.write_splits(
            iter([split(tmp_path / "a.parquet", target, columns=list(columns), encoded=["t"])])
        )
    )
    found, _ = handed(target)
    assert found.to_pydict() == {name: array.to_pylist() for name, array in columns.items()}
    assert found.schema.types[1:3] == [pa.decimal64(18, 2), pa.decimal128(19, 2)]
    assert found.schema.types[3].value_type == pa.string()


def test_a_file_that_cannot_be_read_leaves_no_target(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(RuntimeError, match=rf"{tasks.FAILED} {tmp_path}/a\.parquet: Parquet magic bytes"):
        list(tasks.write_splits(iter([split(tmp_path / "a.parquet", tmp_path / "0.arrow")])))
    assert not (tmp_path / "0.arrow").exists()


def test_ascending_agrees_with_sorting_tuples():
    random = np.random.default_rng(5)
    for _ in range(300):
        rows = random.integers(0, 3, (random.integers(0, 5), 2))
        second = pa.array([Decimal(int(b)) for b in rows[:, 1]], pa.decimal128(5, 0))
        table = pa.table({"a": rows[:, 0], "b": second})
        listed = [tuple(row) for row in rows.tolist()]
        assert tasks.is_ascending(table) is (listed == sorted(listed))


def test_executors_need_no_kpg(tmp_path):
    pq.write_table(pa.table({"k": [2, 1], "v": [20, 10]}), tmp_path / "a.parquet")
    code = f"""
import sys
from pyspark import cloudpickle
from kpg.runtime.spark import tasks
cloudpickle.register_pickle_by_value(tasks)
splits = {split(tmp_path / "a.parquet", tmp_path / "0")}
sys.stdout.buffer.write(cloudpickle.dumps((tasks.write_splits, splits)))
"""
    pickled = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    code = """
import pickle, sys
sys.modules["kpg"] = None
write_splits, split = pickle.load(sys.stdin.buffer)
list(write_splits(iter([split])))
"""
    subprocess.run([sys.executable, "-c", code], input=pickled, check=True)
    assert handed(tmp_path / "0")[0].to_pydict() == {"k": [1, 2], "v": [10, 20]}
