"""DuckDB as the oracle: a batch is applied as a whole or not at all."""

from pathlib import Path

import pyarrow as pa
import pytest

from kpg.runtime.errors import InternalError
from kpg.tpch.oracle import Oracle
from kpg.tpch.refresh import Batch, TableChange


def test_delete_of_an_absent_row_is_refused_and_changes_nothing(folder: Path) -> None:
    with Oracle(folder) as oracle:
        before, _ = oracle.query("select * from region order by all")
        rows = before.slice(0, 1).set_column(1, "r_name", [["ATLANTIS"]])
        keys = pa.table({"r_regionkey": [0, 99]})
        with pytest.raises(InternalError, match="deletes 2 rows of region"):
            oracle.apply(Batch(1, {"region": TableChange(keys, rows)}))
        after, _ = oracle.query("select * from region order by all")
        assert after == before


def test_update_is_a_delete_and_an_insert(folder: Path) -> None:
    with Oracle(folder) as oracle:
        before, _ = oracle.query("select * from region where r_regionkey = 3")
        renamed = before.set_column(1, "r_name", [["ATLANTIS"]])
        oracle.apply(Batch(1, {"region": TableChange(before.select(["r_regionkey"]), renamed)}))
        answer, seconds = oracle.query("select r_name from region order by r_regionkey")
        assert answer.column(0).to_pylist() == ["AFRICA", "AMERICA", "ASIA", "ATLANTIS", "MIDDLE EAST"]
        assert seconds > 0
