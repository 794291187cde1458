"""EXECUTE with constants gives what it gives without a plan that is there already."""

import pytest

import kpg
from tests.unit.kpg.twins import Twins

SETUP = (
    "create table t (a int primary key, b text, c numeric(6, 2), d date)",
    "insert into t values (1, 'x', 1.5, '2020-01-01'), (2, 'y', 2.25, '2020-02-01'), (3, null, null, null)",
)
PREPARED = (
    "prepare open_one as select * from t where a = $1",
    "prepare by_int (int) as select * from t where a = $1",
    "prepare by_text (text) as select * from t where b = $1",
    "prepare by_short (varchar(1)) as select * from t where b = $1",
    "prepare by_both (int, numeric) as select a, c + $2 from t where a = $1 and 1 = 1",
    "prepare by_date (date) as select * from t where d >= $1 order by a limit 1",
    "prepare shown as select $1, $2 || 'x'",
    "prepare changing (numeric, int) as update t set c = $1 where a = $2 returning *",
    "prepare none as select count(*) from t",
    "prepare adding (int, text) as insert into t (a, b) values ($1, $2)",
)
VALUES = [
    *("1", "2", "'2'", "2.0", "2.5", "null", "true", "'x'", "'it''s'", "'2020-01-15'", "date '2020-01-15'"),
    *("1 + 1", "-1"),
]


@pytest.mark.slow
def test_constants_of_all_kinds() -> None:
    twins = Twins(*SETUP, *PREPARED)
    for text in PREPARED:
        name = text.split()[1]
        for given in VALUES:
            for _ in range(3):
                twins.tell(f"execute {name}({given})")
            for other in ("1", "'y'", "null"):
                twins.tell(f"EXECUTE {name} ({given}, {other});")
        twins.tell(f"execute {name}")
    twins.tell("execute nothing(1)")
    twins.tell("execute open_one($1)", [1])
    twins.tell("deallocate open_one")
    twins.tell("execute open_one(1)")
    twins.tell("prepare open_one as select b from t where a = $1")
    twins.tell("execute open_one(1)")
    twins.tell("select * from t order by a")
    twins.close()


def test_its_plan_is_used_again() -> None:
    with kpg.connect() as db:
        for statement in (*SETUP, *PREPARED):
            db.sql(statement)
        assert [db.query(f"execute by_int({n})").fetchall()[0][1] for n in (1, 2, 3, 1)] == [
            "x",
            "y",
            None,
            "x",
        ]
        assert db._open is not None
        assert db._open.plan_cache.hits == 3
