"""The present time: a constant in a statement, in a view a bound that moves."""

import datetime
import random
from collections import Counter

import pytest

import kpg

UTC = datetime.UTC
START = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)
MINUTE = datetime.timedelta(minutes=1)


def database() -> "kpg.Database":
    db = kpg.connect()
    db.advance_to(START)
    db.sql("create table e (id int, at timestamptz)")
    return db


def test_a_statement_has_one_time_and_a_transaction_too() -> None:
    db = database()
    (row,) = db.sql(
        "select now(), current_date, localtimestamp, current_timestamp(0), clock_timestamp()"
    ).fetchall()
    assert row == (START, datetime.date(2024, 1, 1), START.replace(tzinfo=None), START, START)
    real = kpg.connect()
    before = datetime.datetime.now(UTC)
    ((found,),) = real.sql("select now()").fetchall()
    assert before <= found <= datetime.datetime.now(UTC)
    real.sql("begin")
    first = real.sql("select now()").fetchall()
    assert real.sql("select now()").fetchall() == first


def test_rows_leave_and_come_as_the_clock_is_advanced() -> None:
    db = database()
    condition = "at between now() - interval '5 minutes' and now()"
    db.sql(f"create materialized view v as select id from e where {condition}")
    told: list[object] = []
    db.view("v").subscribe(told.extend)
    db.sql("insert into e values (1, '2024-01-01 11:58+00'), (2, '2024-01-01 12:02+00'), (3, null)")
    seen = []
    for minutes in (1, 2, 3, 4, 7, 8):
        db.advance_to(START + minutes * MINUTE)
        seen.append(sorted(db.view("v")))
    assert seen == [[(1,)], [(1,), (2,)], [(1,), (2,)], [(2,)], [(2,)], []]
    assert [(row, diff) for row, _, diff in told] == [((1,), 1), ((2,), 1), ((1,), -1), ((2,), -1)]  # type: ignore[misc]
    db.verify("v")


def test_views_over_plain_views_and_of_days() -> None:
    db = database()
    db.sql("create view recent as select * from e where at > now() - interval '1 hour'")
    db.sql("create materialized view n as select count(*) from recent")
    condition = "at::date = current_date and not at < localtimestamp"
    db.sql(f"create materialized view today as select id from e where {condition}")
    db.sql("insert into e values (1, '2024-01-01 11:30+00'), (2, '2024-01-02 10:00+00')")
    assert sorted(db.view("n")) == [(2,)] and sorted(db.view("today")) == []
    db.advance_to("2024-01-02 09:00")
    assert sorted(db.view("n")) == [(1,)] and sorted(db.view("today")) == [(2,)]
    assert db.sql("select id from recent").fetchall() == [(2,)]
    assert "RangeJoin" in db.view("n").explain()


def test_the_clock_follows_the_system_with_every_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_700_000_000_000_000_000]
    monkeypatch.setattr("kpg.session.clock.time.time_ns", lambda: now[0])
    db = kpg.connect()
    db.sql("create table t (x timestamptz)")
    db.sql("create materialized view v as select x from t where x > now()")
    db.sql("insert into t select now() + interval '1 minute'")
    assert len(db.view("v")) == 1
    now[0] += 61 * 10**9
    assert db.sql("select count(*) from v").fetchall() == [(0,)]
    now[0] -= 120 * 10**9
    assert len(db.view("v")) == 0  # it never goes back


def test_a_step_that_fails_takes_the_time_back() -> None:
    db = database()
    db.sql("create materialized view v as select 1 / id from e where at > now()")
    db.sql("insert into e values (1, '2024-01-01 12:10+00')")
    with pytest.raises(kpg.DataError, match="division by zero"):
        db.sql("insert into e values (0, '2024-01-01 12:20+00')")
    db.advance_to(START + 10 * MINUTE)
    assert sorted(db.view("v")) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_views_are_what_their_queries_give_at_the_time(seed: int) -> None:
    rng = random.Random(seed)
    db = database()
    conditions = (
        "at > now() - interval '7 minutes'",
        "at <= now() and at + interval '3 minutes' > now()",
        "at::date = current_date",
        "id > 2 and now() >= at",
        "exists (select 1 from e f where f.id = e.id + 1 and f.at > now())",
    )
    for number, condition in enumerate(conditions):
        db.sql(f"create materialized view v{number} as select id, at from e where {condition}")
    now = START
    for _ in range(25):
        moment = now + rng.randrange(-10, 10) * MINUTE
        if rng.random() < 0.6:
            db.sql(f"insert into e values ({rng.randrange(6)}, '{moment}')")
        elif rng.random() < 0.5:
            db.sql(f"delete from e where id = {rng.randrange(6)}")
        else:
            now += rng.choice((1, 3, 400)) * MINUTE
            db.advance_to(now)
        for number, condition in enumerate(conditions):
            wanted = Counter(db.sql(f"select id, at from e where {condition}").fetchall())
            assert Counter(db.view(f"v{number}")) == wanted, condition


@pytest.mark.parametrize(
    "query",
    [
        "select now() from e",
        "select id from e where now() - at < interval '1 hour'",
        "select id from e where at > now() or id = 1",
        "select id from e where at <> now()",
        "select count(*) filter (where at > now()) from e",
        "select id from e group by id having max(at) > now()",
        "select e.id from e join e f on f.at > now()",
        "select id from e where at > current_timestamp(0)",
    ],
)
def test_other_uses_in_views_are_refused(query: str) -> None:
    db = database()
    with pytest.raises(kpg.NotSupportedError, match="the present time"):
        db.sql(f"create materialized view v as {query}")
    db.sql(query)


def test_what_advancing_refuses() -> None:
    db = database()
    with pytest.raises(kpg.InterfaceError, match=r"the time is 2024-01-01 12:00:00\+00:00 already"):
        db.advance_to("2023-01-01")
    db.sql("begin")
    with pytest.raises(kpg.NotSupportedError, match="advance_to inside a transaction"):
        db.advance_to("2025-01-01")


def test_time_does_not_go_back_behind_what_views_have_seen() -> None:
    with kpg.connect() as db:
        db.sql(
            "create table e (id int, at timestamptz); "
            "insert into e values (1, '2000-01-01'), (2, '2010-01-01')"
        )
        db.sql("create materialized view v as select id from e where at < now()")
        with pytest.raises(kpg.InterfaceError, match="already"):
            db.advance_to("2005-01-01")
        db.sql("insert into e values (3, '2006-01-01')")
        query = "select id from e where at < now()"
        assert (
            sorted(db.query("table v").fetchall()) == sorted(db.query(query).fetchall()) == [(1,), (2,), (3,)]
        )


def test_a_view_made_in_the_past_follows_from_there() -> None:
    with kpg.connect() as db:
        db.advance_to("2001-01-01")
        db.sql(
            "create table e (id int, at timestamptz); "
            "insert into e values (1, '2000-01-01'), (2, '2010-01-01')"
        )
        db.sql("create materialized view v as select id from e where at < now()")
        assert db.query("table v").fetchall() == [(1,)]
        db.advance_to("2011-01-01")
        assert sorted(db.query("table v").fetchall()) == [(1,), (2,)]
