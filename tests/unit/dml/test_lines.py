"""The lines of COPY TO: made a part at a time, in the session's style."""

import kpg
from kpg.api.result import ColumnContents, Result
from kpg.execute.changes.copy import copy_lines
from kpg.runtime.convert.csv_format import CopyFormat
from kpg.runtime.types import BIGINT, TEXT
from kpg.runtime.values.styles import DEFAULT_STYLE


class Counting(ColumnContents):
    """Contents that tell how many of their rows were asked for."""

    asked = 0

    def part(self, start: int, stop: int | None) -> list[tuple[object, ...]]:
        found = super().part(start, stop)
        self.asked += len(found)
        return found


def test_only_the_lines_that_are_asked_for_are_made() -> None:
    names, types = ["n", "a b"], [BIGINT, TEXT]
    contents = Counting(names, types, [list(range(1000)), [f"x{n}" for n in range(1000)]])
    with kpg.connect() as db:
        dictionary = db.hub.engine.executor.dictionary
        lines = copy_lines(
            Result(names, types, contents), CopyFormat(True, ",", "", header=True), dictionary, DEFAULT_STYLE
        )
        assert len(lines) == 1001
        assert lines.part(0, 3) == [("n,a b",), ("0,x0",), ("1,x1",)]
        assert lines.part(999, 1002) == [("998,x998",), ("999,x999",)]
        assert lines.part(1001, 2000) == []
        assert contents.asked == 4
        assert lines.arrow().num_rows == 1001


def test_values_are_written_as_they_are_sent() -> None:
    query = (
        "select true, 'a'::char(3), '::1'::inet, '10.0.0.1/32'::inet, array[false], null::int, "
        "e'a\\tb\\\\', timestamp '2020-01-02 03:04:05', 1.5::real"
    )
    with kpg.connect() as db:
        assert db.query(f"copy ({query}) to stdout").fetchall() == [
            ("t\ta  \t::1\t10.0.0.1\t{f}\t\\N\ta\\tb\\\\\t2020-01-02 03:04:05\t1.5",)
        ]
        db.sql("set datestyle = 'German'; set intervalstyle = 'iso_8601'")
        found = db.query("copy (select date '2020-01-02', interval '1 day') to stdout").fetchall()
        assert found == [("02.01.2020\tP1D",)]


def test_rows_without_columns_and_no_rows() -> None:
    with kpg.connect() as db:
        db.sql("create table none (a int)")
        assert db.query("copy none to stdout").fetchall() == []
        assert db.query("copy none to stdout csv header").fetchall() == [("a",)]
