"""ON CONFLICT: the constraints that a conflicting row meets, with the SQLSTATEs of Postgres."""

import pytest

import kpg
from kpg.postgres.sqlstate import sqlstate_of


def outcome(db: kpg.Database, text: str) -> str:
    """Return the SQLSTATE of a statement, "00000" without an error."""
    try:
        db.sql(text)
    except kpg.Error as error:
        return str(sqlstate_of(error))
    return "00000"


@pytest.mark.parametrize(
    ("rows", "condition", "state"),
    [
        ("(1, 1), (1, 2)", "true", "21000"),
        ("(1, 1), (1, 2)", "t.v > 5", "00000"),
        ("(1, 1), (1, 2)", "excluded.v = 2", "00000"),
        ("(1, 2), (1, 1)", "excluded.v = 2", "21000"),
        ("(7, 1), (7, 2)", "true", "21000"),
        ("(7, 1), (7, 2)", "false", "21000"),
        ("(null, 1), (null, 2)", "true", "00000"),
    ],
)
@pytest.mark.parametrize("key", ["k", "abs(k)"])
def test_do_update_changes_a_row_once(rows: str, condition: str, state: str, key: str) -> None:
    with kpg.connect() as db:
        db.sql(f"create table t (v int, k int); create unique index by_key on t (({key}))")
        db.sql("insert into t (k, v) values (1, 0)")
        action = f"on conflict (({key})) do update set v = excluded.v where {condition}"
        assert outcome(db, f"insert into t (k, v) values {rows} {action}") == state
        if state != "00000":
            assert db.query("select * from t").fetchall() == [(0, 1)]


def test_merge_changes_a_row_once() -> None:
    with kpg.connect() as db:
        db.sql("create table t (k int primary key, v int); insert into t values (1, 0)")
        source = "(values (1, 1), (1, 2)) s (k, v)"
        merge = f"merge into t using {source} on t.k = s.k when matched then update set v = s.v"
        assert outcome(db, merge) == "21000"


@pytest.mark.parametrize("action", ["do nothing", "(k) do update set c = true"])
@pytest.mark.parametrize("partitions", ["", "partition by list (k)"])
def test_a_conflicting_row_meets_not_null(action: str, partitions: str) -> None:
    with kpg.connect() as db:
        db.sql(f"create table t (k int primary key, b text not null, c bool) {partitions}")
        if partitions:
            db.sql("create table t1 partition of t default")
        db.sql("insert into t values (2, 'x', null)")
        for columns, row in (("k, c", "2, true"), ("k, b, c", "2, null, true"), ("b, c", "'y', true")):
            text = f"insert into t ({columns}) values ({row}) on conflict {action}"
            assert outcome(db, text) == "23502", text
        with db.session() as session, pytest.raises(kpg.IntegrityError) as caught:
            session.sql(f"insert into t values ($1, $2, $3) on conflict {action}", [2, None, True])
        assert sqlstate_of(caught.value) == "23502"
        assert db.query("select * from t").fetchall() == [(2, "x", None)]
        db.sql("alter table t alter b drop not null")
        assert outcome(db, f"insert into t (k, c) values (2, true) on conflict {action}") == "00000"
