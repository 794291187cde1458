"""Joins whose equalities are over several relations, and how much work nested subqueries are to plan."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kpg.compiler.algebra.facts import Facts
from kpg.compiler.passes import PIPELINE
from kpg.compiler.physical import plan_query, planner
from kpg.compiler.physical.access_paths import ColumnOrigins
from kpg.compiler.physical.cardinality import CardinalityEstimates, NoStatistics
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from tests.model.plan import rows_of_plan
from tests.unit.compiler.sql.oracle import Data, assert_same, catalog_of, database_of

SCRIPT = """
create table t (a integer primary key, b integer, c integer);
create table u (a integer, b integer)
"""
CATALOG = catalog_of(SCRIPT)
DATA: Data = {
    "t": [(0, 1, 2), (1, 0, 2), (2, 3, 1), (3, None, 0), (4, 4, 4)],
    "u": [(1, 5), (2, None), (2, 6)],
}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(
            "select r0.b from t r0, t r2, t r3, t v where r0.a = r2.b and r2.b + r3.a = v.b",
            id="one of the two is equal to a fourth relation",
        ),
        pytest.param(
            "select w.b from u w, t r2, t r3, t v where r2.b + r3.a = v.b",
            id="one relation is not connected",
        ),
        pytest.param(
            "select x.a, r2.b + r3.a from t r2, t r3, t v, u x where r2.b + r3.a = v.b and v.b = x.a",
            id="the sum is among the outputs",
        ),
        pytest.param(
            "select 1 from t r1, t r2, t r3, t r4 where r1.b + r2.b = r3.b + r4.b",
            id="both sides are over two relations",
        ),
        pytest.param(
            "select r1.a from t r1, t r2, t r3 where r1.b + r2.b = r3.b and r1.b = r3.b",
            id="a part of a member is in its own class",
        ),
        pytest.param(
            "select r1.a, v.n from t r1, t r2, (select b, count(*) as n from u group by b) v"
            " where r1.b + r2.b is not distinct from v.b",
            id="a derived relation",
        ),
    ],
)
def test_equality_over_several_relations(query: str) -> None:
    bound = lower_query(parse_query(query), CATALOG)
    with database_of(SCRIPT, DATA) as connection:
        expected = connection.execute(query).fetchall()
    for passes in ((), PIPELINE):
        rows = rows_of_plan(compile_query(bound, passes=passes).plan, DATA)
        assert_same(rows.elements(), expected)


NESTINGS = {
    "not in": "x{0}.b not in (select x{1}.b from t x{1} where {inner})",
    "or in": "(x{0}.c = 1 or x{0}.b in (select x{1}.b from t x{1} where x{1}.c > x{0}.c and {inner}))",
    "or exists": "(x{0}.c = 1 or exists (select 1 from t x{1} where x{1}.c = x{0}.c and {inner}))",
    "scalar": "x{0}.b = (select max(x{1}.b) from t x{1} where x{1}.c > x{0}.c and {inner})",
}


def nested(kind: str, depth: int) -> str:
    if kind == "full join":
        return full_joins(depth)
    predicate = f"x{depth}.c > 0"
    for level in reversed(range(depth)):
        predicate = NESTINGS[kind].format(level, level + 1, inner=predicate)
    return f"select x0.a from t x0 where {predicate}"


def full_joins(depth: int) -> str:
    """Full joins of cross joins, each of which keeps the unmatched rows of all before it."""
    source = "(select p.a, q.b, p.c from t p cross join u q)"
    joins = "".join(f" full join {source} x{i} on x{i - 1}.a = x{i}.b" for i in range(1, depth))
    return f"select x0.a, x{depth - 1}.c from {source} x0{joins}"


@pytest.mark.parametrize("kind", [*NESTINGS, "full join"])
def test_planning_is_linear_in_the_depth_of_nesting(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level reads the one outside several times: planned anew for each, they would be exponential."""
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any) -> Any:
            calls[name] += 1
            return original(*args)

        monkeypatch.setattr(owner, name, counted)

    for owner, name in (
        (planner, "_lower_node"),
        (planner.join_planner, "plan_join"),
        (Facts, "_keys_of"),
        (Facts, "_nullable_of"),
        (ColumnOrigins, "_compute_origins"),
        (CardinalityEstimates, "_estimate_rows"),
    ):
        count(owner, name)
    work: dict[int, Counter[str]] = {}
    for depth in (4, 6, 8):
        optimized = compile_query(lower_query(parse_query(nested(kind, depth)), CATALOG)).optimized
        calls.clear()
        plan_query(optimized, NoStatistics())
        work[depth] = Counter(calls)
    assert work[8].keys() == {
        "_lower_node",
        "plan_join",
        "_keys_of",
        "_nullable_of",
        "_compute_origins",
        "_estimate_rows",
    }
    for name in work[8]:
        assert work[8][name] - work[6][name] <= work[6][name] - work[4][name] + 2, (name, work)
    assert work[8]["_lower_node"] <= 500
