"""Folders that earlier versions have written are opened by this one, go on, and are whole.

``folders/`` has their files as they were when the process was killed: checkpoints with what changed since the
one before, and a log behind them. A folder of the newest format is there too: it has to stay as it is when
there is a newer one.
"""

import tarfile
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest

import kpg
from kpg.compiler.triggers import Bound, Heir
from kpg.durable import known
from kpg.durable.checking import check
from kpg.runtime.records import dataclass

FOLDERS = Path(__file__).parent / "folders"


@pytest.mark.parametrize(
    "written",
    ["log1_pack1", "log2_pack1", "log2_pack2", "log3_pack2", "log3_pack3", "log3_pack4", "log4_pack5"],
)
def test_a_folder_of_an_earlier_format(written: str, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with tarfile.open(FOLDERS / f"{written}.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # early versions of 3.11 have none
        packed.extractall(folder)
    assert list(check(folder)) == []
    with kpg.connect(folder, read_only=True) as reader:
        assert reader.query("select count(*) from t").fetchall() == [(414,)]
    for life in range(2):
        with kpg.connect(folder) as db:
            found = db.query(
                "select count(*), sum(k), sum(amount), max(name) from t where k < 5000"
            ).fetchall()
            assert found == [(414, 143611, Decimal("117620.5"), "name 9")]
            assert (
                db.query("select x from reach order by x").fetchall() == [(1,), (2,), (3,), (5,)][: 4 - life]
            )
            assert db.query("select n, s, m from sums where g = 99").fetchall() == [
                (1, Decimal("12.0"), "name 8")
            ]
            assert db.query("select d from plain where k = 8").fetchall() == [(198,)]
            assert db.query("select nextval('s')").fetchall() == [(2 + life,)]
            if written == "log4_pack5":  # two workers have loaded rows, before the checkpoint and behind it
                whole = db.query("select count(*), sum(k), sum(v), max(g) from loaded where k < 100")
                assert whole.fetchall() == [(100, 4950, 4950, "g6")]
                db.sql(f"insert into loaded values ({100 + life}, 'new', 1)")
            db.sql(f"insert into t values ({5000 + life}, 3, 'new', 1); delete from edge where b = 5")
            for view in ("sums", "reach"):
                db.verify(view)
    assert list(check(folder)) == []


@dataclass(frozen=True, slots=True)
class Deed:
    """A rewrite rule, as earlier versions kept it."""

    table: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """EXCLUDE or a unique index over expressions, as earlier versions kept both."""

    name: str
    elements: tuple[str, ...]
    operators: tuple[str, ...]
    where: str = ""
    nulls_distinct: bool = True
    index: bool = False
    table: str = ""
    kept: str = ""


def _write(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, made: object) -> None:
    """Make a folder with a definition of an earlier version for table t."""
    with monkeypatch.context() as patch:
        patch.setattr(known, "EARLIER", {})
        patch.setattr(known, "MORE", known.MORE | {"trigger.Deed": Deed, "rule.Exclusion": Exclusion})
        with kpg.connect(folder) as db:
            db.sql("create table t (a int); create table r (a int); insert into t values (1)")
            db.sql("create unique index i on t (abs(a))")
            db._engine.catalog.others.pop((kind, "t", name), None)
            db._engine.catalog.others.pop(("unique index", "t", name), None)
            db._engine.catalog.others[kind, "t", name] = made
            db.sql("insert into t values (2)")


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("rule", Deed("t")),
        ("exclusion", Exclusion("r", ("a",), ("=",), table="t", kept="k")),
        ("inherits", Heir("t", "r", "", False, cast("Bound", None))),
    ],
)
def test_a_folder_with_a_removed_definition_names_it(
    kind: str, made: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "db", monkeypatch, kind, "r", made)
    with pytest.raises(kpg.OperationalError, match=f'the folder has {kind} "r" of "t"'):
        kpg.connect(tmp_path / "db")


def test_a_unique_index_of_an_earlier_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); create unique index i on t (abs(a))")
        kept = db._engine.catalog.others["unique index", "t", "i"].kept
    made = Exclusion("i", ("abs(a)",), ("=",), index=True, table="t", kept=kept)
    _write(tmp_path / "db", monkeypatch, "exclusion", "i", made)
    for _ in range(2):
        with kpg.connect(tmp_path / "db") as db:
            with pytest.raises(kpg.IntegrityError, match='"i"'):
                db.sql("insert into t values (-1)")
            db.sql("create table if not exists more (a int)")
