"""Keys whose equal values look different, after a database was opened again."""

from pathlib import Path

import pytest

import kpg
from kpg.runtime.errors import IntegrityError


def test_keys_are_held_after_opening_from_a_checkpoint(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t (k numeric primary key, i interval unique, v int)")
        db.sql("create table r (k numeric references t (k))")
        db.sql("insert into t values (1.5, '1 mon', 1), (2, '2 days', 2); insert into r values (1.500)")
        db.sql("checkpoint")
        db.sql("insert into t values (3.0, '3 days', 3)")
    with kpg.connect(tmp_path / "db") as db:
        for row in ("(1.50, '9 days', 0)", "(9, '30 days', 0)", "(3, '8 days', 0)", "(8, '72 hours', 0)"):
            with pytest.raises(IntegrityError):
                db.sql(f"insert into t values {row}")
        with pytest.raises(IntegrityError):
            db.sql("delete from t where v = 1")
        db.sql("delete from r; delete from t where v = 1; insert into t values (1.50, '30 days', 4)")
        assert sorted(db.query("select v from t").fetchall()) == [(2,), (3,), (4,)]
