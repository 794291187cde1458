"""Folders that earlier versions have written are opened by this one, go on, and are whole.

``folders/`` has their files as they were when the process was killed: checkpoints with what changed since the
one before, and a log behind them. A folder of the newest format is there too: it has to stay as it is when
there is a newer one.
"""

import tarfile
from decimal import Decimal
from pathlib import Path

import pytest

import kpg
from kpg.durable.checking import check

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
