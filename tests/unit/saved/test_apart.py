"""Who reads what is stored once more has arrays of its own, and nobody else is woken."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.runtime.checkpoint.captured_state import changing_part, dormant_state, fixed_part
from kpg.runtime.checkpoint.checkpointer import CheckpointStore
from kpg.runtime.checkpoint.pack_store import BranchReader
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.reduce import Reduce
from kpg.runtime.storage.codec import DamagedError
from kpg.runtime.storage.files import Disk
from kpg.runtime.storage.packs import BLOCK, pack_name

NUMBERS = np.arange(3000, dtype=np.int64)


def kept(folder: Path) -> tuple[CheckpointStore, Any]:
    """A checkpoint of two arrays, one with a patch, in two packs."""
    first = CheckpointStore(Disk(folder), 7)
    changes, stays = NUMBERS.copy(), NUMBERS.copy()
    for epoch in (1, 2):
        state = {
            "changes": changing_part(changes),
            "stays": fixed_part(stays),
            "small": changing_part(changes[:3]),
        }
        job = first.prepare(state, epoch, 1)
        first.write(job)
        first.adopt(job)
        changes[1000] = -1
    keeper = CheckpointStore(Disk(folder), 7)
    assert first.checkpoint is not None
    return keeper, keeper.open(first.checkpoint)


def test_each_has_what_is_stored_whatever_the_others_do(tmp_path: Path) -> None:
    keeper, state = kept(tmp_path)
    expected = NUMBERS.copy()
    expected[1000] = -1
    keeper.map_all_packs()
    early = BranchReader(keeper.read)
    mine = keeper.read(state["changes"])
    mine[:] = 0
    others = [
        read(state["changes"]) for read in (early, BranchReader(keeper.read), BranchReader(keeper.read))
    ]
    for one in others:
        assert one.tolist() == expected.tolist()
        one[:] = 5
    assert not mine.any()
    small = early(state["small"])
    small[0] = 9
    assert BranchReader(keeper.read)(state["small"]).tolist() == [0, 1, 2]
    assert early(state["stays"]).tolist() == NUMBERS.tolist()


def test_a_pack_whose_file_is_gone_is_read_where_it_was_mapped(tmp_path: Path) -> None:
    keeper, state = kept(tmp_path)
    keeper.map_all_packs()
    for one in tmp_path.glob("pack-*"):
        one.unlink()
    expected = NUMBERS.copy()
    expected[1000] = -1
    mine, other = keeper.read(state["changes"]), BranchReader(keeper.read)(state["changes"])
    mine[:] = 0
    assert other.tolist() == expected.tolist()


def test_what_is_damaged_is_told_to_each(tmp_path: Path) -> None:
    keeper, state = kept(tmp_path)
    stored = state["changes"]
    with (tmp_path / pack_name(stored.pack)).open("r+b") as file:
        file.seek(stored.block * BLOCK + 100)
        file.write(b"\x07")
    keeper.map_all_packs()
    for read in (keeper.read, BranchReader(keeper.read)):
        with pytest.raises(DamagedError, match=f"is damaged at byte {stored.block * BLOCK}"):
            read(stored)


def asleep(db: kpg.Database) -> list[bool]:
    """Of the traces and tables of groups of a database, whether each sleeps."""
    executor: Any = db._engine.executor
    views = executor.views.values()
    operators = sorted({one for view in views for one in view.operators})
    found = [one.spine for one in operators if isinstance(one, Arrange)]
    found += [one.table for one in operators if isinstance(one, Reduce)]
    return [dormant_state(one) is not None for one in found]


def test_a_branch_wakes_nobody(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql("create table t (id int primary key, k int); create index on t (k)")
    db.sql("create materialized view v as select k, count(*) n from t group by k")
    db.insert("t", [(n, n % 500) for n in range(2000)])
    db.close()
    db = kpg.connect(tmp_path / "db")
    executor: Any = db._engine.executor
    groups = executor.tables.by_name["t"].groups
    branch = db.branch()
    again = branch.branch()
    assert dormant_state(groups) is not None
    for one in (db, branch, again):
        assert len(asleep(one)) > 1 and all(asleep(one))
    branch.sql("delete from t where k = 7")
    assert branch.query("select count(*) from v").fetchall() == [(499,)]
    assert not all(asleep(branch))
    assert dormant_state(groups) is not None
    assert all(asleep(db)) and all(asleep(again))
    db.sql("insert into t values (5000, 7)")
    assert [one.query("select n from v where k = 7").fetchall() for one in (db, again)] == [[(5,)], [(4,)]]
    assert branch.query("select * from v where k = 7").fetchall() == []
