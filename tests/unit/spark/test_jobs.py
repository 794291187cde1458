"""Several tables through one Spark session: how much work that is, and that it is all or nothing."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.runtime.errors import DataError, IntegrityError
from kpg.runtime.spark.load import load_tables
from kpg.runtime.spark.load_jobs import Jobs
from kpg.runtime.spark.source import Source
from kpg.runtime.types import BIGINT, ColumnDef, Schema

pytestmark = pytest.mark.java

PAIR = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT)), (0,))


def write(path, keys, values=None):
    pq.write_table(pa.table({"k": keys, "v": [7 * k for k in keys] if values is None else values}), path)
    return str(path)


def database():
    db = kpg.connect()
    for name in ("a", "b", "c"):
        db.sql(f"create table {name} (k bigint primary key, v integer)")
    return db


def contents(db):
    return {name: sorted(db.sql(f"select * from {name}").fetchall()) for name in ("a", "b", "c")}


EMPTY = {"a": [], "b": [], "c": []}


@pytest.fixture
def files(tmp_path):
    """In order, in reverse, and of many row groups."""
    many = [i * 37 % 1000 for i in range(1000)]
    return {
        "a": write(tmp_path / "a.parquet", list(range(3000))),
        "b": write(tmp_path / "b.parquet", [3, 2, 1]),
        "c": write(tmp_path / "c.parquet", many),
    }


def loaded(spark, sources, folder):
    """The keys of each source, and how many jobs it took to load them all."""
    folder.mkdir()
    with ThreadPoolExecutor() as pool:
        found = {
            coming.source.table: [k for chunk in coming.chunks() for k in chunk.rows["k"].to_pylist()]
            for coming in Jobs(spark, folder, pool).start(sources)
        }
    return found, len(spark.sparkContext.statusTracker().getJobIdsForGroup(folder.name))


def test_one_job_for_all_parquet_files(spark, files, tmp_path):
    sources = [Source(name, files[name], PAIR) for name in ("a", "b", "c")]
    found, jobs = loaded(spark, sources, tmp_path / "together")
    assert jobs == 1
    assert found == {"a": list(range(3000)), "b": [1, 2, 3], "c": list(range(1000))}


def test_jobs_of_a_table_through_spark_sql(spark, files, tmp_path):
    """One that reads the file's footer, one that writes; one more where rows must be sorted."""
    for name, most in (("a", 2), ("b", 3)):
        source = Source(name, files[name], PAIR, options={"mergeSchema": "false"})
        found, jobs = loaded(spark, [source], tmp_path / f"group-{name}")
        assert jobs == most
        assert found == {name: sorted(pq.read_table(files[name])["k"].to_pylist())}


def test_the_largest_table_comes_first(spark, files):
    sources = [Source(name, files[name], PAIR) for name in ("b", "c", "a")]
    told = []
    order = [chunk.table for chunk in load_tables(sources, spark, told.append)]
    assert order == ["a", "c", "b"]
    assert [(each.table, each.stage, each.rows, each.total) for each in told] == [
        ("a", "writing", 0, 0),
        ("a", "reading", 3000, 3000),
        ("c", "writing", 0, 0),
        ("c", "reading", 1000, 1000),
        ("b", "writing", 0, 0),
        ("b", "reading", 3, 3),
    ]


def test_tables_together_are_tables_one_by_one(spark, files):
    together, alone, plain = database(), database(), database()
    counts = together.load_all(files, mode="spark")
    assert counts == {"a": 3000, "b": 3, "c": 1000}
    assert counts == {name: alone.load(name, path, mode="spark") for name, path in files.items()}
    plain.load_all(files, mode="arrow")
    assert contents(together) == contents(alone) == contents(plain)
    assert contents(together)["b"] == [(1, 7), (2, 14), (3, 21)]


def test_a_bad_value_in_the_last_table_leaves_nothing(spark, files, tmp_path):
    db = database()
    bad = write(tmp_path / "bad.parquet", [1, 2], [5, 1 << 40])
    seen = []
    with pytest.raises(
        DataError, match=r"table b, /.*bad\.parquet, row 2, key k=2, column v: value 1099511627776 does"
    ):
        db.load_all({**files, "b": bad}, mode="spark", progress=lambda *told: seen.append(told))
    assert ("a", 3000) in seen
    assert contents(db) == EMPTY
    assert db.load_all(files, mode="spark") == {"a": 3000, "b": 3, "c": 1000}


def test_a_key_given_twice_leaves_nothing(spark, files, tmp_path):
    db = database()
    twice = write(tmp_path / "twice.parquet", [1, 2, 1])
    with pytest.raises(IntegrityError):
        db.load_all({**files, "b": twice}, mode="spark")
    assert contents(db) == EMPTY


def test_ctrl_c_between_tables_leaves_nothing_and_no_jobs(spark, files):
    db = database()

    def interrupt(_, rows):
        if rows:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db.load_all(files, mode="spark", progress=interrupt)
    assert contents(db) == EMPTY
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert db.load("b", files["b"], mode="spark") == 3
