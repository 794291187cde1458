"""Results as text."""

from decimal import Decimal

import pyarrow as pa

from kpg.api.display import Ends, box, cell, display_width, html
from kpg.api.result import ColumnContents, Result
from kpg.runtime.types import BIGINT, TEXT, Type, decimal


def rendered(names: list[str], types: list[Type], columns: list[pa.Array], width: int = 80) -> list[str]:
    columns = [column.to_pylist() if isinstance(column, pa.Array) else column for column in columns]
    rows = Result(names, types, ColumnContents(names, types, columns))
    return box(names, types, Ends.from_rows(rows), width).splitlines()


def test_box_has_types_under_names_and_numbers_to_the_right() -> None:
    price = pa.array([Decimal("1.50"), Decimal("-20.00"), None], pa.decimal128(15, 2))
    lines = rendered(
        ["id", "name", "price"], [BIGINT, TEXT, decimal(15, 2)], [[1, None, 33], ["x", "日本\n", ""], price]
    )
    assert lines == [
        "┌────────┬─────────┬────────────────┐",
        "│   id   │  name   │     price      │",
        "│ BIGINT │ VARCHAR │ DECIMAL(15, 2) │",
        "├────────┼─────────┼────────────────┤",
        "│      1 │ x       │           1.50 │",
        "│   NULL │ 日本\\n  │         -20.00 │",
        "│     33 │         │           NULL │",
        "├────────┴─────────┴────────────────┤",
        "│ 3 rows, 3 columns                 │",
        "└───────────────────────────────────┘",
    ]


def test_box_of_no_rows() -> None:
    assert rendered(["n"], [BIGINT], [pa.array([], pa.int64())])[-3:] == [
        "├──────────────────┤",
        "│ 0 rows, 1 column │",
        "└──────────────────┘",
    ]


def test_long_results_show_ten_rows_of_each_end() -> None:
    lines = rendered(["n"], [BIGINT], [list(range(1234))])
    numbers = [line.strip("│ ") for line in lines[4:-3]]
    assert numbers == [*map(str, range(10)), "·", *map(str, range(1224, 1234))]
    assert lines[-2].strip("│ ") == "1,234 rows (20 shown), 1 column"


def test_twenty_rows_are_shown_in_full() -> None:
    assert rendered(["n"], [BIGINT], [list(range(20))])[-2].strip("│ ") == "20 rows, 1 column"


def test_wide_results_fit_the_terminal() -> None:
    names = [f"column{index}" for index in range(30)]
    lines = rendered(names, [BIGINT] * 30, [[1]] * 30, width=60)
    assert {display_width(line) for line in lines} == {len(lines[0])}
    assert len(lines[0]) <= 60
    assert lines[1].split("│")[1].strip() == "column0"
    assert "…" in lines[1]
    assert lines[1].split("│")[-2].strip() == "column29"
    assert lines[-2].strip("│ ") == "1 row, 30 columns (5 shown)"


def test_long_text_is_cut() -> None:
    lines = rendered(["t"], [TEXT], [["x" * 300]], width=40)
    assert lines[4] == "│ " + "x" * 35 + "… │"


def test_cells() -> None:
    assert cell(True) == "true"
    assert cell(None) == "NULL"
    assert cell("a\tb\x1b[31m") == "a\\tb\\x1b[31m"
    assert cell(Decimal("1E+3")) == "1000"


def test_html_escapes() -> None:
    names, types = ["<i>", "b"], [TEXT, BIGINT]
    text = html(
        names, types, Ends.from_rows(Result(names, types, ColumnContents(names, types, [["<b>"], [1]])))
    )
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert "<th>&lt;i&gt;<br><small>VARCHAR</small></th>" in text
    assert '<td style="text-align: right">1</td>' in text
