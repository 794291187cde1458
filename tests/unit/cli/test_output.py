"""Results for other programs, and the text that the prompt collects."""

import datetime
import io
from decimal import Decimal

import pytest

from kpg.api.result import Result, listing
from kpg.cli.output import Format, write
from kpg.cli.script import is_complete
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, decimal

ROWS = listing(
    {
        "n": (BIGINT, [1, None]),
        "t,u": (TEXT, ['a "quoted"\ttext\n', ""]),
        "d": (decimal(10, 2), [Decimal("1.50"), None]),
        "day": (DATE, [datetime.date(1998, 12, 1), None]),
        "f": (DOUBLE, [float("nan"), 0.1]),
        "b": (BOOLEAN, [True, None]),
    }
)


def written(form: Format, rows: Result = ROWS) -> str:
    out = io.StringIO()
    write(rows, form, out)
    return out.getvalue()


def test_csv_tells_null_from_empty_text() -> None:
    assert written(Format.CSV) == (
        'n,"t,u",d,day,f,b\n1,"a ""quoted""\ttext\n",1.50,1998-12-01,nan,true\n,"",,,0.1,\n'
    )


def test_csv_of_a_lone_null() -> None:
    rows = listing({"t": (TEXT, ["a", None, "", "b"])})
    assert written(Format.CSV, rows) == 't\na\n\n""\nb\n'


def test_tsv_escapes() -> None:
    assert written(Format.TSV) == (
        "n\tt,u\td\tday\tf\tb\n"
        '1\ta "quoted"\\ttext\\n\t1.50\t1998-12-01\tnan\ttrue\n'
        "\\N\t\t\\N\t\\N\t0.1\t\\N\n"
    )


def test_json_keeps_digits() -> None:
    assert written(Format.JSON) == (
        '[{"n": 1, "t,u": "a \\"quoted\\"\\ttext\\n", "d": 1.50, "day": "1998-12-01", '
        '"f": "nan", "b": true},\n'
        ' {"n": null, "t,u": "", "d": null, "day": null, "f": 0.1, "b": null}]\n'
    )


def test_table_is_the_box() -> None:
    assert written(Format.TABLE).startswith("┌")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        (".tables", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT ';';", True),
        ("SELECT 'it''s;';", True),
        ('SELECT ";', False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1 -- ;", False),
        ("/* a */", True),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
