"""The boxes and lines of a database, and of one view."""

from collections.abc import Iterator

import pytest

import kpg
from kpg.api.diagram import operator_graph, view_graph
from kpg.api.svg import Graph

TABLES = """
CREATE TABLE customer (id INT PRIMARY KEY, name TEXT, region TEXT);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount INT);
CREATE TABLE e (a INT, b INT);
INSERT INTO customer VALUES (1, 'Ada', 'EU'), (2, 'Cyd', 'US');
INSERT INTO sale VALUES (1, 1, 10), (2, 2, 20), (3, 1, 30);
INSERT INTO e VALUES (1, 2), (2, 3), (3, 4);
CREATE MATERIALIZED VIEW by_region AS
    SELECT region, sum(amount) AS s FROM customer c JOIN sale s ON s.customer = c.id GROUP BY 1;
CREATE MATERIALIZED VIEW by_name AS
    SELECT name, max(amount) AS m FROM customer c JOIN sale s ON s.customer = c.id GROUP BY 1;
CREATE MATERIALIZED VIEW top AS SELECT * FROM by_region WHERE s > 10;
CREATE MATERIALIZED VIEW tc AS WITH RECURSIVE t(a, b) AS (
    SELECT a, b FROM e UNION SELECT t.a, e.b FROM t JOIN e ON t.b = e.a) SELECT * FROM t;
"""


@pytest.fixture(scope="module")
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as db:
        db.sql(TABLES)
        yield db


def named(graph: Graph) -> set[tuple[str, str]]:
    names = {box.id: box.name for box in graph.boxes}
    return {(names[one], names[other]) for one, other in graph.edges}


def all_of(db: kpg.Database) -> Graph:
    engine = db._engine
    tables = {name: engine.executor.tables.count(name) for name in ("customer", "sale", "e")}
    outputs = {
        view.installation.operator_position: (view.name, view.count()) for view in engine.views.values()
    }
    return operator_graph(engine.executor.operators(), tables, outputs)


def test_a_database_is_tables_shared_indexes_and_views(db: kpg.Database) -> None:
    graph = all_of(db)
    assert {box.name: box.kind for box in graph.boxes} == {
        "customer": "table",
        "sale": "table",
        "e": "table",
        "customer(id)": "index",
        "sale(customer)": "index",
        "by_region": "view",
        "by_name": "view",
        "top": "view",
        "tc": "view",
    }
    assert named(graph) == {
        ("customer", "customer(id)"),
        ("sale", "sale(customer)"),
        ("customer(id)", "by_region"),
        ("sale(customer)", "by_region"),
        ("customer(id)", "by_name"),
        ("sale(customer)", "by_name"),
        ("by_region", "top"),
        ("e", "tc"),
    }
    figures = {box.name: box.statistics for box in graph.boxes}
    assert (figures["sale"], figures["tc"], figures["top"]) == ("3 rows", "6 rows", "2 rows")
    (index,) = (box for box in graph.boxes if box.name == "sale(customer)")
    assert index.tooltip == "sale(customer): shared by by_name, by_region"
    assert index.statistics.endswith(" · 2 views")


def test_a_view_is_its_operators_with_loops_as_boxes(db: kpg.Database) -> None:
    graph = view_graph(db._engine.executor.operators(), "tc")
    (loop,) = (box for box in graph.boxes if box.kind == "loop")
    assert loop.statistics.startswith("4 rounds · ")
    assert loop.body is not None
    inside = {box.name for box in loop.body.boxes}
    assert {"Variable 0", "DeltaJoin", "Distinct"} <= inside
    assert not inside & {box.name for box in graph.boxes if box.kind == "table"}
    assert ("Source e", "e(a)") not in named(graph)  # there is an operator between
    assert ("e(a)", "Loop") in named(graph)
    assert ("Loop", "Leave") in named(graph)


def test_every_operator_of_a_view_is_in_its_picture_once(db: kpg.Database) -> None:
    operators = db._engine.executor.operators()

    def places(graph: Graph | None) -> list[object]:
        return [] if graph is None else [at for box in graph.boxes for at in (box.id, *places(box.body))]

    for name in ("by_region", "by_name", "top", "tc"):
        wanted = sorted(one.position for one in operators if name in one.readers)
        assert sorted(map(int, map(str, places(view_graph(operators, name))))) == wanted
