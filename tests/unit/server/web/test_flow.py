"""GET /dataflow and /relation: what the page draws."""

import json
from typing import Any

import pytest

import kpg
from kpg.server.web import dataflow_page
from tests.unit.server.web.conftest import Web


def asked(web: Web, path: str) -> Any:
    status, _, data = web.ask("GET", path)
    assert status == 200, data
    return json.loads(data)


def test_shape_and_figures(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow_page, "MAX_AGE", -1.0)
    web.sql("create table f (a int primary key, b int); insert into f values (1, 2), (2, 2)")
    web.sql("create materialized view f_sum as select b, count(*) n from f group by b")
    web.sql("create view f_plain as select * from f_sum")
    found = asked(web, "/dataflow")
    relations = {one["name"]: one for one in found["shape"]["relations"]}
    assert [relations[name]["kind"] for name in ("f", "f_sum", "f_plain")] == ["table", "kept", "view"]
    operators = {one["id"]: one for one in found["shape"]["operators"]}
    output = operators[relations["f_sum"]["output"]]
    assert (output["text"], output["readers"]) == ("Reduce", ["f_sum"])
    places = [one["name"] for one in found["shape"]["relations"]]
    assert [found["counts"][places.index(name)] for name in ("f", "f_sum", "f_plain")] == [2, 1, None]
    assert len(found["figures"]) == len(operators)
    again = asked(web, f"/dataflow?version={found['version']}")
    assert "shape" not in again
    web.sql("drop view f_plain")
    assert asked(web, f"/dataflow?version={found['version']}")["version"] > found["version"]


def test_loops_and_their_rounds(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow_page, "MAX_AGE", -1.0)
    web.sql("create table hop (a int, b int); insert into hop values (1, 2), (2, 3), (3, 4)")
    web.sql(
        "create materialized view far as with recursive far(a, b) as (select a, b from hop union "
        "select far.a, hop.b from far join hop on far.b = hop.a) select * from far"
    )
    web.sql("insert into hop values (4, 5)")
    found = asked(web, "/dataflow")
    operators = found["shape"]["operators"]
    (loop,) = [place for place, one in enumerate(operators) if one["text"] == "Loop"]
    assert found["figures"][loop][6] >= 3
    assert sum(one["loop"] == operators[loop]["id"] for one in operators) >= 4


def test_rows_of_small_views_are_counted_and_tables_have_their_bytes(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataflow_page, "MAX_AGE", -1.0)
    web.sql("create table c1 (a int primary key, b int)")
    web.sql("insert into c1 select i, i % 7 from generate_series(1, 900) t(i)")
    web.sql("create materialized view c_top as select a from c1 order by a limit 3")
    web.sql("create materialized view c_few as select a from c1 where b = 100")
    monkeypatch.setattr(dataflow_page, "MAX_COUNTED_ROWS", 899)
    web.sql("create materialized view c_all as select a, b + 1 as c from c1")
    found = asked(web, "/dataflow")
    places = {one["name"]: place for place, one in enumerate(found["shape"]["relations"])}
    monkeypatch.setattr(dataflow_page, "MAX_COUNTED_ROWS", 1000)
    counted = asked(web, "/dataflow")
    assert [counted["counts"][places[name]] for name in ("c_top", "c_few", "c_all")] == [3, 0, 900]
    assert not {places["c_top"], places["c_few"], places["c_all"]} & set(counted["about"])
    assert places["c_all"] in found["about"]
    assert found["sizes"][places["c1"]] > 900 * 8
    assert found["sizes"][places["c_all"]] is None
    assert found["workers"] == []


def test_what_workers_keep_is_told() -> None:
    with kpg.connect(workers=2) as db:
        db.sql("create table w (a int primary key, b int)")
        db.sql("create materialized view by_b as select b, count(*) n from w group by b")
        db.sql("insert into w select i, i % 7 from generate_series(1, 100) t(i)")
        found = dataflow_page.sample_dataflow(db._engine)
        rows, sent = zip(*((one[0], one[3]) for one in found["workers"]), strict=True)
        assert len(rows) == 2
        assert sum(rows) >= 7
        assert sum(sent) > 0


def test_figures_are_read_seldom(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow_page, "MAX_AGE", 1000.0)
    asked(web, "/dataflow")
    monkeypatch.setattr(dataflow_page, "sample_dataflow", None)  # would fail if it were called
    assert asked(web, "/dataflow")["figures"] == asked(web, "/dataflow")["figures"]


def test_a_relation(web: Web) -> None:
    web.sql("create table r1 (a int primary key, b text); insert into r1 values (1, 'x')")
    web.sql("create materialized view r2 as select b, count(*) n from r1 group by b")
    web.sql("create materialized view r3 as select n from r2")
    table = asked(web, "/relation?name=R1")
    assert (table["kind"], table["rows"], table["key"], table["used_by"]) == ("table", 1, ["a"], ["r2", "r3"])
    view = asked(web, "/relation?name=r2")
    assert view["sql"] == "select b, count(*) n from r1 group by b"
    assert (view["uses"], view["used_by"]) == (["r1"], ["r3"])
    assert "O(change)" in view["explain"]
    assert "Get r1" in asked(web, "/relation?name=r2&stage=logical")["explain"]
    web.datalog(".decl r4(n: number)\nr4(n) :- r3(n), n > 0.\n.output r4")
    assert asked(web, "/relation?name=r4")["rules"] == "r4(n) :- r3(n), n > 0."


def test_an_ego_view_has_its_overlay(web: Web) -> None:
    web.sql("create table follows (who int, whom int); create table posts (id int, author int, likes int)")
    web.sql(
        "insert into follows values (1, 7), (1, 8), (2, 7); insert into posts values (1, 7, 3), (2, 8, 4)"
    )
    web.sql(
        "create ego view liked as sum(value) from (select id, author, likes from posts) last 2"
        " over follows out with (overlay = none, mode = push)"
    )
    found = asked(web, "/relation?name=liked")
    assert found["overlay"]["levels"] == [[2, 0, 0], [2, 0, 3]]
    assert found["overlay"]["lines"][0].startswith(
        "overlay by none: 2 writers, 2 readers, 0 partial aggregates"
    )
    assert "Ego" in found["explain"]
    assert found["sql"].startswith("SELECT p.reader AS node")


@pytest.mark.parametrize(
    "path", ["/relation?name=nosuch", "/relation", "/relation?name=r&stage=x", "/dataflow?since=x"]
)
def test_what_is_refused(web: Web, path: str) -> None:
    assert web.ask("GET", path)[0] == 400
