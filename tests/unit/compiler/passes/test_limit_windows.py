"""A row number that is bounded above makes a top-k, where nothing else needs the rows behind."""

import pytest

import kpg
from kpg.api.result import Rows

NUMBERED = "row_number() over (partition by g order by x) n"


def optimized(query: str) -> str:
    db = kpg.connect()
    db.sql("create table t (g int, x int)")
    found = db.sql(f"explain optimized {query}")
    return str(found)


@pytest.mark.parametrize(
    ("test", "limit"),
    [
        ("n <= 3", 3),
        ("n < 3", 2),
        ("n = 2", 2),
        ("4 >= n", 4),
        ("4 > n", 3),
        ("n between 2 and 5", 5),
        ("n < 1", 0),
    ],
)
def test_the_bound_is_the_limit(test: str, limit: int) -> None:
    plan = optimized(f"select * from (select *, {NUMBERED} from t) q where {test}")
    assert f"TopK group=[0] order=[1 asc last, 2 asc last] limit={limit} offset=0" in plan


@pytest.mark.parametrize("test", ["n >= 2", "n <> 1", "n + 1 < 3", "n < 3 or x = 1", "x < 3"])
def test_other_tests_are_no_bound(test: str) -> None:
    assert "TopK" not in optimized(f"select * from (select *, {NUMBERED} from t) q where {test}")


@pytest.mark.parametrize(
    "other",
    [
        "rank() over w",
        "dense_rank() over w",
        "lag(x) over w",
        "lag(x, 2, 0) over w",
        "sum(x) over (w rows 2 preceding)",
        "max(x) over (w rows between unbounded preceding and 1 preceding)",
    ],
)
def test_what_looks_back_stays(other: str) -> None:
    inner = f"select *, row_number() over w n, {other} o from t window w as (partition by g order by x)"
    assert "limit=2" in optimized(f"select * from ({inner}) q where n <= 2")


@pytest.mark.parametrize(
    "other",
    [
        "lead(x) over w",
        "lag(x, -1) over w",
        "lag(x, g) over w",
        "ntile(2) over w",
        "percent_rank() over w",
        "cume_dist() over w",
        "sum(x) over w",
        "sum(x) over (w rows between current row and 1 following)",
        "count(*) over (w rows between unbounded preceding and current row exclude ties)",
    ],
)
def test_what_looks_further_keeps_the_rows(other: str) -> None:
    inner = f"select *, row_number() over w n, {other} o from t window w as (partition by g order by x)"
    assert "TopK" not in optimized(f"select * from ({inner}) q where n <= 2")


def test_the_rows_are_the_first() -> None:
    db = kpg.connect()
    db.sql("create table t (g int, x int)")
    db.sql("insert into t values (1, 5), (1, 4), (1, 4), (2, 9), (null, 1)")
    db.sql(f"create materialized view v as select g, x, n from (select *, {NUMBERED} from t) q where n <= 2")
    assert sorted(db.view("v"), key=repr) == [(1, 4, 1), (1, 4, 2), (2, 9, 1), (None, 1, 1)]
    db.sql("delete from t where x = 4")
    found = db.sql("select * from v order by g, n")
    assert isinstance(found, Rows)
    assert found.fetchall() == [(1, 5, 1), (2, 9, 1), (None, 1, 1)]
