"""The figures of a report, worked out by hand."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from kpg.tpch.report import (
    JobReport,
    QueryReport,
    format_duration,
    geometric_mean,
    print_report,
    quantile,
    write_json,
)


@pytest.fixture
def report() -> JobReport:
    good = QueryReport(3, 10, 0.5, 2, 1, [0.001, 0.003, 0.002], [0.02, 0.04, 0.03], installation=True)
    bad = QueryReport(
        6, 1, 0.25, 0, 3, [0.01], [0.01], installation=True, difference="after the load: got (1)"
    )
    return JobReport(0.1, 7, 150, "spark", 4.0, [1600, 1700, 1650], [0.2, 0.1, 0.3], [good, bad])


def test_quantile_interpolates() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([1.0, 2.0], 0.95) == pytest.approx(1.95)
    assert math.isnan(quantile([], 0.5))


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert math.isnan(geometric_mean([]))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.00042, "0.42 ms"), (0.042, "42 ms"), (4.2, "4.2 s"), (math.nan, "-")]
)
def test_duration(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


def test_table_has_a_row_per_query_and_totals_last(report: JobReport) -> None:
    out = io.StringIO()
    print_report(report, Console(file=out, width=240))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert " ".join(lines[0].split()) == "query rows install built reused p50 p95 duckdb ratio result"
    assert " ".join(lines[1].split()) == "q3 10 500 ms 2 1 2.00 ms 2.90 ms 30 ms 15.0x ok"
    assert lines[2].endswith("after the load: got (1)")
    assert lines[3].startswith("1 of 2 queries ok; load 4.0 s (spark); install 750 ms; ")
    assert "refresh of 1,650 rows through all views p50 200 ms" in lines[3]


def test_json_holds_raw_figures(report: JobReport, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.json"
    write_json(report, path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["ok"] is False
    assert document["queries"][0]["refresh_seconds"] == [0.001, 0.003, 0.002]
    assert document["queries"][0]["ratio"] == pytest.approx(15.0)
    assert document["machine"]["cores"] >= 1
    assert "duckdb" in document["versions"]


def test_report_without_refreshes_is_valid_json(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_json(JobReport(0.1, 7, 150, "spark", queries=[QueryReport(1)]), path)
    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert document["queries"][0]["p50"] is None
