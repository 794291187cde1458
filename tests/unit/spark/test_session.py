"""What is said when Spark or Java is missing; no Spark needed."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kpg
from kpg.runtime.errors import NotSupportedError, OperationalError
from kpg.runtime.spark.session import (
    CLUSTER_VARIABLES,
    java_version,
    match_python,
    may_exist,
    open_session,
    require_java,
    require_pyspark,
    unavailability_error,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', 17),
        ('openjdk version "21" 2023-09-19\n', 21),
        ('java version "1.8.0_371"\n', 8),
        ("no java here", 0),
    ],
)
def test_java_version(banner, version):
    assert java_version(banner) == version


@pytest.mark.parametrize(
    ("source", "there"),
    [
        ("no.csv", False),
        ("no/", False),
        ("n*.csv", False),
        ("my-data.xls", False),
        ("t.csv", True),
        ("*.csv", True),
        (".", True),
        ("nothere.xls", False),
        ("shop.orders", False),
        ("orders", False),
        ("s3a://bucket/no.csv", True),
        ("file:/no.csv", True),
        ("{a,b}.csv", True),
    ],
)
def test_spark_is_not_asked_for_local_files_that_are_not_there(monkeypatch, tmp_path, source, there):
    monkeypatch.chdir(tmp_path)
    for name in CLUSTER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "t.csv").write_text("a\n")
    assert may_exist(source) is there
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert may_exist(source)


def test_a_load_of_no_file_does_not_start_spark(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in CLUSTER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("kpg.runtime.spark.load.open_session", None)
    db = kpg.connect()
    db.sql("create table t (a int); create table u (a int)")
    for mode in (None, "spark", "arrow"):
        with pytest.raises(OperationalError, match=r"^no file nowhere\.csv"):
            db.load("t", "nowhere.csv", mode=mode)
        with pytest.raises(OperationalError, match=r"^no file nowhere\.csv"):
            db.load_all({"t": [(1,)], "u": "nowhere.csv"}, mode=None)
    assert db.query("select * from t").fetchall() == []


@pytest.mark.parametrize("mode", [None, "spark", "arrow"])
def test_a_load_of_an_unknown_ending_does_not_start_spark(monkeypatch, tmp_path, mode):
    monkeypatch.chdir(tmp_path)
    for name in CLUSTER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("kpg.runtime.spark.load.open_session", None)
    (tmp_path / "here.xls").write_text("a\n1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.txt").write_text("a\n1\n")
    db = kpg.connect()
    db.sql("create table t (a int)")
    with pytest.raises(
        OperationalError, match=r"^no file nothere\.xls" if mode != "arrow" else r"^cannot tell"
    ):
        db.load("t", "nothere.xls", mode=mode)
    for name in ("here.xls", "*.xls", "folder"):
        with pytest.raises(OperationalError, match=f"^cannot tell the format of {re.escape(name)}"):
            db.load("t", name, mode=mode)


def test_a_load_gives_up_what_a_killed_one_has_left(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("kpg.runtime.spark.load.open_session", None)
    monkeypatch.setattr("kpg.execute.changes.bulk_load.unavailability_error", lambda: None)
    left = tmp_path / "kpg-load-left"
    left.mkdir()
    (left / ".owner").write_text(socket.gethostname())
    (tmp_path / "t.csv").write_text("a\n1\n")
    db = kpg.connect()
    db.sql("create table t (a int)")
    with pytest.raises(TypeError):
        db.load("t", tmp_path / "t.csv", mode="spark")
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]


def test_missing_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OperationalError, match="there is no java in JAVA_HOME") as caught:
        require_java()
    assert "install Java 17" in caught.value.hint
    assert "pyarrow" in caught.value.hint
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationalError, match="there is no java on PATH"):
        require_java()


def test_unavailable(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "there is no java in JAVA_HOME" in str(unavailability_error())


def test_old_java(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_371\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OperationalError, match="bin/java is Java 8"):
        require_java()


def test_missing_pyspark(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(OperationalError, match="pyspark cannot be imported") as caught:
        require_pyspark()
    assert "pip install 'kpg[spark]'" in caught.value.hint


def test_spark_connect_is_refused():
    with pytest.raises(NotSupportedError, match="Spark Connect"), open_session(object()):
        pass


def test_spark_is_not_imported_before_it_is_needed():
    code = (
        "import sys; import kpg, kpg.runtime.spark.load, kpg.runtime.convert.files;"
        "sys.exit(bool({'pyspark', 'pandas', 'numba'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_old_pyspark(monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "3.5.1")
    with pytest.raises(OperationalError, match=r"pyspark 3\.5\.1 is too old: kpg needs Spark 4 or newer"):
        require_pyspark()


@pytest.mark.parametrize(
    ("master", "chosen", "python"),
    [
        ("local[4]", False, sys.executable),
        ("local[4]", True, "python3"),
        ("spark://a:7077", False, "python3"),
    ],
)
def test_tasks_of_a_local_session_run_the_drivers_python(monkeypatch, master, chosen, python):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    conf = SimpleNamespace(contains=lambda name: chosen)
    context = SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: conf)
    match_python(context)
    assert context.pythonExec == python
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    context.pythonExec = "python3"
    match_python(context)
    assert context.pythonExec == "python3"
