"""Commits that share a step: each with an epoch, an error and a time limit of its own."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import CanceledError
from kpg.session.group_commit import GroupCommit
from kpg.session.session import Session


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as opened:
        opened.sql(
            "create table t (id int primary key, x bigint);"
            "create materialized view v as select sum(x) as s, count(*) as n from t"
        )
        yield opened


def handed_in(session: Session, text: str, values: list[Any] | None = None) -> "Future[Any]":
    """A statement as the server hands it in."""
    engine = session.session_manager.engine
    return session.session_manager.submit(
        session,
        lambda: session.run_text(engine, text, values),
        adds=True,
        rows=lambda engine: session.prepare_change(engine, text, values),
    )


def insert(session: Session, *values: object) -> "Future[Any]":
    return handed_in(session, "insert into t values ($1, $2)", list(values))


def test_each_has_an_epoch_of_its_own(db: kpg.Database) -> None:
    told: list[Any] = []
    db.view("v").subscribe(told.append)
    sessions = [db.session() for _ in range(5)]
    futures = [insert(one, place, 1) for place, one in enumerate(sessions)]
    db.hub.serve()
    assert [future.result().rowcount for future in futures] == [1] * 5
    (changes,) = told
    assert [row for row, _, diff in changes if diff > 0] == [(n, n) for n in range(1, 6)]
    assert len({epoch for _, epoch, _ in changes}) == 5
    db.verify("v")


def test_rows_that_come_together_are_counted(db: kpg.Database) -> None:
    sessions = [db.session() for _ in range(5)]
    for place, one in enumerate(sessions):
        insert(one, place, 1)
    db.hub.serve()
    counts = "n_tup_ins, n_tup_upd, n_tup_del, n_live_tup"
    counted = db.query(f"select {counts} from pg_stat_user_tables where relname = 't'")
    assert counted.fetchall() == [(5, 0, 0, 5)]


def test_each_has_an_error_of_its_own(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    futures = [insert(one, 1, 1), insert(other, 1, 2), insert(other, 2, "x"), insert(one, None, 1)]
    futures += [insert(other, 3, 3), handed_in(one, "insert into t values (4, 4)")]
    db.hub.serve()
    errors = [type(future.exception()) for future in futures]
    fine, key, cast, null = type(None), kpg.IntegrityError, kpg.ProgrammingError, kpg.IntegrityError
    assert errors == [fine, key, cast, null, fine, fine]
    assert one.sql("select id, x from t order by id").fetchall() == [(1, 1), (3, 3), (4, 4)]  # type: ignore[union-attr]
    db.verify("v")


def test_only_those_at_fault_are_done_alone(db: kpg.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[Any] = []
    one_by_one = GroupCommit._run_single
    monkeypatch.setattr(
        GroupCommit, "_run_single", lambda group, job, done: (alone.append(job), one_by_one(group, job, done))
    )
    sessions = [db.session() for _ in range(16)]
    futures = [insert(one, 5 if place == 11 else place, 1) for place, one in enumerate(sessions)]
    db.hub.serve()
    errors = [place for place, future in enumerate(futures) if future.exception() is not None]
    assert (errors, len(alone)) == ([11], 1)
    assert db.sql("select count(*), sum(id) from t").fetchall() == [(15, 120 - 11)]  # type: ignore[union-attr]
    db.verify("v")


def test_epochs_that_nobody_follows_share_a_step_of_one_time(db: kpg.Database) -> None:
    def insert_some(first: int) -> tuple[int, int]:
        """How many epochs there were, and how many of them the step told apart."""
        futures = [insert(one, first + place, 2**62) for place, one in enumerate(sessions)]
        before, executor = db.epoch, db.hub.engine.executor
        apart: list[int] = []
        take = executor._run_step  # type: ignore[attr-defined]

        def taken(step: Any, epoch: int) -> None:
            apart.append(step.upper - step.lower)
            take(step, epoch)

        executor._run_step = taken  # type: ignore[attr-defined]
        db.hub.serve()
        executor._run_step = take  # type: ignore[attr-defined]
        assert all(future.exception() is None for future in futures)
        return db.epoch - before, sum(apart)

    db.sql("drop materialized view v; create materialized view v as select count(*) as n, max(x) as m from t")
    sessions = [db.session() for _ in range(4)]
    assert insert_some(0) == (4, 1)
    told: list[Any] = []
    subscription = db.view("v").subscribe(told.append)
    assert insert_some(10) == (4, 4)
    assert [row[0] for changes in told for row, _, diff in changes if diff > 0] == [5, 6, 7, 8]
    subscription.close()
    insert_some(20)  # after which nobody is told any more
    assert insert_some(30) == (4, 1)
    db.verify("v")


def test_an_error_of_a_view_is_of_whom_it_comes_from(db: kpg.Database) -> None:
    db.sql("create materialized view w as select id, 10 / x as y from t")
    one = db.session()
    futures = [insert(one, 1, 1), insert(one, 2, 0), insert(one, 3, 5)]
    db.hub.serve()
    assert [type(future.exception()) for future in futures] == [type(None), kpg.DataError, type(None)]
    assert db.view("w").fetchall() == [(1, 10), (3, 2)]


def test_one_that_is_cancelled_does_not_take_its_neighbours_with_it(db: kpg.Database) -> None:
    one, other = db.session(), db.session()

    times: list[int] = []

    def cancel_other() -> Any:
        # It is done again once the step has been ended.
        if not times:
            other.cancel()
        times.append(1)
        return one.run_text(one.session_manager.engine, "insert into t values (9, 9)")

    futures = [insert(one, 1, 1), insert(other, 2, 2), db.hub.submit(one, cancel_other, adds=True)]
    db.hub.serve()
    assert futures[0].exception() is None
    assert isinstance(futures[1].exception(), CanceledError)
    assert futures[2].exception() is None
    assert db.query("select id from t").fetchall() == [(1,), (9,)]
    assert len(times) == 2
    assert other.sql("select 1") is not None


def test_a_time_limit_holds_for_the_shared_step(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    other.sql("set statement_timeout = '1us'")
    futures = [insert(one, 1, 1), insert(other, 2, 2), insert(one, 3, 3)]
    db.hub.serve()
    assert futures[0].exception() is None
    assert isinstance(futures[1].exception(), CanceledError)
    assert futures[2].exception() is None
    assert db.query("select id from t").fetchall() == [(1,), (3,)]


def test_an_error_before_the_statement_is_its_own(db: kpg.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = db.session(), db.session()
    enter = db.hub.swap_in

    def entering(session: Session, **how: bool) -> None:
        if session is other:
            raise kpg.OperationalError("no")
        enter(session, **how)

    monkeypatch.setattr(db.hub, "swap_in", entering)
    futures = [handed_in(other, "insert into t values (1, 1)"), handed_in(one, "insert into t values (2, 2)")]
    for future in futures:
        future.add_done_callback(lambda _: None)
    db.hub.serve()
    assert isinstance(futures[0].exception(), kpg.OperationalError)
    assert futures[1].exception() is None
    monkeypatch.undo()
    assert db.query("select id from t").fetchall() == [(2,)]


def test_rows_and_uncommitted_changes_keep_apart(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (7, 7)")
    futures = [insert(other, place, 1) for place in range(3)]
    db.hub.serve()
    assert [future.exception() for future in futures] == [None] * 3
    assert other.sql("select count(*) from t").fetchall() == [(3,)]  # type: ignore[union-attr]
    one.sql("commit")
    assert db.view("v").fetchall() == [(10, 4)]


def test_who_may_not_insert_is_refused_together_too(db: kpg.Database) -> None:
    db.sql("create role ann login; create role bob login; grant insert on t to bob")
    ann, bob = db.session("ann"), db.session("bob")
    texts = ("insert into t values ($1, 1)", "insert into t values ($1, 1) on conflict do nothing")
    texts = (*texts, "insert into t (x, id) values (1, $1)")
    futures = [
        handed_in(one, text, [10 * place + number])
        for place, text in enumerate(texts)
        for number, one in enumerate((ann, bob))
    ]
    db.hub.serve()
    assert [str(future.exception()) for future in futures] == ["permission denied for table t", "None"] * 3
    assert db.query("select id from t order by id").fetchall() == [(1,), (11,), (21,)]


def test_each_reads_moments_in_its_own_style(db: kpg.Database) -> None:
    db.sql("create table d (id int primary key, day date)")
    one, other = db.session(), db.session()
    other.sql("set datestyle = 'ISO, DMY'")
    futures = []
    for place, session in enumerate((one, other, one, other)):
        futures.append(handed_in(session, "insert into d values ($1, $2)", [place, "03/02/2020"]))
    db.hub.serve()
    assert [future.result().rowcount for future in futures] == [1] * 4
    days = one.sql("select day::text from d order by id").fetchall()  # type: ignore[union-attr]
    assert days == [("2020-03-02",), ("2020-02-03",)] * 2
