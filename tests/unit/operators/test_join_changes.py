"""How many rows a delta join meets when all its relations change for the same key."""

import kpg
from kpg.api.database import Database
from kpg.runtime.operators.join import DeltaJoin


def met(db: Database) -> int:
    """The rows that all joins have met up to now."""
    return sum(one.match_count for one in db._engine.executor.all_operators() if isinstance(one, DeltaJoin))


def test_subqueries_that_all_change_meet_their_rows_once_each() -> None:
    """Twelve one-row relations: 3^11 combinations of old and new ones if none of them cancelled early."""
    db = kpg.connect()
    db.sql("create table t (k int, a int)")
    db.sql("insert into t select i, i from generate_series(1, 100) g (i)")
    asked = ", ".join(f"(select sum(a) from t where k % {n} = 0) c{n}" for n in range(2, 14))
    db.sql(f"create materialized view v as select {asked}")
    for step in range(5):
        before = met(db)
        db.sql("update t set a = a + 1")
        assert met(db) - before < 3_000
        expected = tuple(sum(i + step + 1 for i in range(1, 101) if i % n == 0) for n in range(2, 14))
        assert list(db.query("select * from v")) == [expected]


def test_aggregates_of_many_kinds_are_put_together_without_a_join() -> None:
    db = kpg.connect()
    db.sql("create table t (k int, a int, b text, c float8)")
    db.sql("insert into t values (1, 2, 'x', 1.5), (1, 3, 'y', 0.5), (2, null, null, null)")
    asked = (
        "k, min(a) low, max(a) high, min(b) first, max(b) last, min(c) least, max(c) most, count(*) n,"
        " array_agg(a order by a) every, count(distinct b) different, bool_or(a > 2) large"
    )
    db.sql(f"create materialized view v as select {asked} from t group by k")
    assert not any(isinstance(one, DeltaJoin) for one in db._engine.executor.all_operators())
    assert sorted(db.query("select * from v")) == [
        (1, 2, 3, "x", "y", 0.5, 1.5, 2, [2, 3], 2, True),
        (2, None, None, None, None, None, None, 1, [None], 0, None),
    ]
    db.sql("update t set a = a + 1, b = b || 'z' where k = 1; delete from t where k = 2")
    assert list(db.query("select * from v")) == [(1, 3, 4, "xz", "yz", 0.5, 1.5, 2, [3, 4], 2, True)]
    db.sql("delete from t")
    assert list(db.query("select * from v")) == []


def test_outer_joins_whose_padding_nothing_passes_are_inner_ones() -> None:
    db = kpg.connect()
    db.sql("create table a (x int, y int); create table b (x int, z int); create table c (z int, w int)")
    plan = db.explain(
        "select a.y from a left join b using (x) left join c using (z) where c.w = 2 and a.y > 1"
    )
    assert "Distinct" not in plan and "Negate" not in plan
