"""GET /metrics, and the record of steps."""

import re
import time

import pytest

from kpg.server.web.site import format_metrics
from kpg.session.engine import StepStatistics
from tests.unit.server.web.conftest import Web


def test_figures_of_a_database(web: Web) -> None:
    web.sql("create table m (a int); create materialized view doubled as select a * 2 x from m where a > 1")
    web.sql("insert into m values (1), (2), (3)")
    status, headers, data = web.ask("GET", "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = data.decode().splitlines()
    assert "kpg_epoch 1" in lines
    assert 'kpg_table_rows{table="m"} 3' in lines
    assert 'kpg_view_rows{view="doubled"} 2' in lines
    assert "# TYPE kpg_steps_total counter" in lines
    assert all(re.fullmatch(r"(# (HELP|TYPE) .+)|([a-z_]+(\{.*\})? [-0-9.e+]+)", line) for line in lines)


def test_names_are_escaped() -> None:
    assert format_metrics({"kpg_table_rows": [({"table": 'a"b\\c\nd'}, 1)]}).splitlines()[2] == (
        r'kpg_table_rows{table="a\"b\\c\nd"} 1'
    )


def test_steps_by_quarters_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 100.1, 100.24, 100.25, 101.0])
    took = iter([0.0, 0.25, 1.0, 1.5, 2.0, 2.125, 3.0, 3.5, 4.0, 4.5])
    monkeypatch.setattr(time, "time", lambda: next(moments))
    monkeypatch.setattr(time, "perf_counter", lambda: next(took))
    steps = StepStatistics()
    for epoch in range(10, 15):
        steps.begin()
        steps.end(epoch)
    assert (steps.count, steps.seconds) == (5, 1.875)
    assert steps.since(401) == [[401, 13, 1, 0.5, 0.5], [404, 14, 1, 0.5, 0.5]]
    assert steps.since(0)[0] == [400, 12, 3, 0.875, 0.5]
