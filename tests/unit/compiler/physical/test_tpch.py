"""Plans of the 22 TPC-H queries: right by the model of plans, and of the expected shape."""

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from kpg.compiler.explain import arranged_table
from kpg.compiler.passes import PIPELINE
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import LoweredQuery, lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.runtime import plan
from kpg.runtime.plan import Plan
from kpg.tpch.data import QUERIES, create_statements, query_text
from tests.model.plan import rows_of_plan
from tests.unit.compiler.physical.tiny import tiny_data
from tests.unit.compiler.sql.oracle import assert_same, catalog_of, database_of

SCRIPT = "; ".join(create_statements().values())
CATALOG = catalog_of(SCRIPT)
DATA = tiny_data(seed=6)

Shape = tuple[tuple[int, ...], int, int, int, int, int, int]
SHAPES: dict[int, Shape] = {
    1: ((), 0, 0, 0, 1, 0, 0),
    2: ((5, 6), 8, 3, 0, 0, 0, 2),
    3: ((3,), 4, 1, 0, 1, 0, 1),
    4: ((2,), 2, 0, 1, 1, 0, 0),
    5: ((6,), 9, 0, 0, 1, 0, 0),
    6: ((), 0, 0, 0, 1, 0, 0),
    7: ((6,), 9, 0, 0, 1, 0, 0),
    8: ((8,), 13, 0, 0, 1, 0, 0),
    9: ((6,), 9, 0, 0, 1, 0, 0),
    10: ((4,), 6, 1, 0, 1, 0, 1),
    11: ((3,), 4, 3, 0, 2, 1, 0),
    12: ((2,), 2, 0, 0, 1, 0, 0),
    13: ((2,), 2, 0, 1, 2, 0, 0),
    14: ((2,), 2, 0, 0, 1, 0, 0),
    15: ((3,), 1, 5, 0, 1, 0, 1),
    16: ((2, 3), 4, 0, 1, 1, 0, 0),
    17: ((2, 3), 2, 1, 0, 2, 0, 0),
    18: ((4,), 4, 2, 0, 2, 0, 1),
    19: ((2,), 2, 0, 0, 1, 0, 0),
    20: ((3, 5), 7, 1, 1, 1, 0, 0),
    21: ((5, 2), 6, 2, 2, 1, 0, 1),
    22: ((2,), 2, 2, 1, 2, 1, 0),
}
"""Inputs of the joins; arrangements of base tables, other ones; distincts, reduces, range joins, top-ks."""


def bound(number: int) -> LoweredQuery:
    return lower_query(parse_query(query_text(number)), CATALOG)


def planned(number: int) -> Plan:
    return compile_query(bound(number)).plan


def shared(query: Plan) -> list[tuple[str, tuple[int, ...]]]:
    found = (arranged_table(query, ref) for ref in range(len(query.nodes)))
    return [key for key in found if key is not None]


def shape(query: Plan) -> Shape:
    kinds = Counter(type(node) for node in query.nodes)
    joins = tuple(len(node.paths) for node in query.nodes if isinstance(node, plan.DeltaJoin))
    base = len(shared(query))
    stateful = (plan.Distinct, plan.Reduce, plan.RangeJoin, plan.TopK)
    distinct, reduce, range_join, topk = (kinds[kind] for kind in stateful)
    return joins, base, kinds[plan.Arrange] - base, distinct, reduce, range_join, topk


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with database_of(SCRIPT, DATA) as connection:
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("number", QUERIES)
def test_agrees_with_duckdb(number: int, database: duckdb.DuckDBPyConnection) -> None:
    query = bound(number)
    expected = database.execute(query_text(number)).fetchall()
    assert expected
    for passes in ((), PIPELINE):
        rows = rows_of_plan(compile_query(query, passes=passes).plan, DATA)
        assert_same((row[: query.visible] for row in rows.elements()), expected)


@pytest.mark.parametrize("number", QUERIES)
def test_shape(number: int) -> None:
    assert shape(planned(number)) == SHAPES[number]


@pytest.mark.parametrize("number", QUERIES)
def test_planning_is_deterministic(number: int) -> None:
    assert planned(number) == planned(number)


def test_q3_is_one_delta_join_over_shared_arrangements() -> None:
    query = planned(3)
    (join,) = (node for node in query.nodes if isinstance(node, plan.DeltaJoin))
    paths = plan.paths_of(query.nodes, join)
    assert [type(query.nodes[path.delta.input]) for path in paths] == [plan.Source] * 3
    looked = {half.arrangement for path in paths for half in path.half_joins}
    assert sorted(key for ref in looked if (key := arranged_table(query, ref)) is not None) == [
        ("customer", (0,)),
        ("lineitem", (0, 3)),
        ("orders", (0,)),
        ("orders", (1,)),
    ]
    assert len(looked) == 4


@pytest.mark.parametrize("number", [11, 22])
def test_comparison_with_a_global_aggregate_is_a_range_join(number: int) -> None:
    query = planned(number)
    (node,) = (node for node in query.nodes if isinstance(node, plan.RangeJoin))
    assert (node.key, node.comparison) == (0, ">")


def test_q15_keeps_its_maximum_in_order() -> None:
    (node,) = (node for node in planned(15).nodes if isinstance(node, plan.TopK))
    assert (node.group, node.limit, node.offset) == (0, 1, 0)


def test_queries_share_arrangements() -> None:
    """What all 22 need of the base tables, each planned by itself."""
    keys = sorted({key for number in QUERIES for key in shared(planned(number))})
    assert keys == [
        ("customer", (0,)),
        ("customer", (3,)),
        ("lineitem", (0, 3)),
        ("lineitem", (1,)),
        ("lineitem", (2,)),
        ("nation", (0,)),
        ("nation", (2,)),
        ("orders", (0,)),
        ("orders", (1,)),
        ("part", (0,)),
        ("partsupp", (0, 1)),
        ("partsupp", (1,)),
        ("region", (0,)),
        ("supplier", (0,)),
        ("supplier", (3,)),
    ]
