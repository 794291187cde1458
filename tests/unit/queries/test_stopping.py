"""LIMIT ends a recursion that is asked once."""

import pytest

import kpg
from kpg.api.result import Rows

NUMBERS = "with recursive t (n) as (values (1) union all select n + 1 from t)"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"{NUMBERS} select * from t limit 10", list(range(1, 11))),
        (f"{NUMBERS} select n * 2 from t where n % 100 = 0 limit 3", [200, 400, 600]),
        (f"{NUMBERS} select * from t limit 0", []),
        (NUMBERS.replace("from t)", "from t where n < 5)") + " select * from t limit 10", [1, 2, 3, 4, 5]),
        (
            "with recursive t (n) as (values (1) union select n + 1 from t) select n from t limit 3 offset 2",
            [3, 4, 5],
        ),
        (
            "with recursive t (n) as (values (1) union all select n * 2 from t) select * from t limit 5",
            [1, 2, 4, 8, 16],
        ),
        (
            "with recursive f (a, b) as (values (0, 1) union all select b, a + b from f) "
            "select a from f limit 9",
            [0, 1, 1, 2, 3, 5, 8, 13, 21],
        ),
        (
            f"{NUMBERS} select t.n from t join (values (7), (3000)) v (n) on v.n = t.n limit 2",
            [7, 3000],
        ),
        (
            f"{NUMBERS.replace('from t)', 'from t where n < 9)')} select n from t order by n desc limit 2",
            [9, 8],
        ),
    ],
)
def test_limit_ends_a_recursion(query: str, expected: list[int]) -> None:
    with kpg.connect() as db:
        found = db.sql(query)
        assert isinstance(found, Rows)
        assert sorted(row[0] for row in found.fetchall()) == sorted(expected)
