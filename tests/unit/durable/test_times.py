"""The past and positions of a database in a folder: what was kept is there when it is opened again."""

import datetime
import shutil
from pathlib import Path

import pytest

import kpg
from kpg.persistence.write_ahead_log import WriteAheadLog
from tests.model.disk import Sim
from tests.model.durable import opened as opened_files

UTC = datetime.UTC
START = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)
MINUTE = datetime.timedelta(minutes=1)


def opened(path: Path, history: "int | str | None" = 100) -> "kpg.Database":
    return kpg.connect(path, history=history)


def after_a_kill(db: "kpg.Database", path: Path) -> "kpg.Database":
    """What another process finds if this one is killed now."""
    copy = path.with_name(path.name + "_killed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    db.close()
    return opened(copy)


def after_closing(db: "kpg.Database", path: Path) -> "kpg.Database":
    db.close()
    return opened(path)


def made(path: Path) -> "kpg.Database":
    db = opened(path)
    db.advance_to(START)
    db.sql("create table t (id int primary key, name text)")
    db.sql("create materialized view names as select name, count(*) n from t group by name")
    for number in range(1, 6):
        db.advance_to(START + number * MINUTE)
        db.sql(
            f"begin; insert into t values ({number}, 'n{number % 2}'); set position 's' = {number}; commit"
        )
    db.sql("delete from t where id = 1")
    return db


@pytest.mark.parametrize("again", [after_closing, after_a_kill])
def test_a_reader_of_changes_goes_on_after_a_restart(again: object, tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    assert callable(again)
    changes = {since: list(db.view("names").changes(since=since)) for since in range(7)}
    tables = [db.query(f"select * from t order by id as of {epoch}").fetchall() for epoch in range(1, 7)]
    views = [sorted(db.view("names").as_of(epoch).fetchall()) for epoch in range(1, 7)]
    moments = db.epochs().fetchall()[1:]
    for folder in ("db", "db" if again is after_closing else "db_killed"):
        db = again(db, tmp_path / folder)
        assert {since: list(db.view("names").changes(since=since)) for since in range(7)} == changes
        assert [db.query(f"select * from t order by id as of {e}").fetchall() for e in range(1, 7)] == tables
        assert [sorted(db.view("names").as_of(epoch).fetchall()) for epoch in range(1, 7)] == views
        assert db.epochs().fetchall()[1:] == moments
        assert db.query("select count(*) from t as of timestamp '2024-01-01 12:03:30'").fetchall() == [(3,)]
        assert db.positions() == {"s": 5}
    db.sql("insert into t values (100, 'new')")
    assert list(db.view("names").changes(since=6)) == [(("new", 1), 7, 1)]
    db.close()


def test_what_a_table_was_before_it_was_as_it_is_stays_unknown(tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    db.sql("create table u (a int); alter table t alter name set not null")
    db.sql("insert into u values (1)")
    for _ in range(2):
        with pytest.raises(kpg.ProgrammingError, match='what "t" was at epoch 5 is not known'):
            db.query("select * from t as of 5")
        with pytest.raises(kpg.ProgrammingError, match='what "u" was at epoch 5 is not known'):
            db.query("select * from u as of 5")
        assert db.query("select count(*) from t as of 6").fetchall() == [(4,)]
        db = after_closing(db, tmp_path / "db")
    db.close()


def test_history_can_come_and_go(tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    db.close()
    with opened(tmp_path / "db", None) as db:
        db.sql("insert into t values (50, 'x')")
        with pytest.raises(kpg.InterfaceError, match="nothing of the past is kept"):
            db.query("select * from t as of 3")
        with pytest.raises(kpg.InterfaceError, match="nothing of the past is kept"):
            db.view("names").changes(since=3)
    with opened(tmp_path / "db") as db:
        now = db.epoch
        db.sql("insert into t values (51, 'x')")
        assert list(db.view("names").changes(since=now)) == [(("x", 1), 8, -1), (("x", 2), 8, 1)]
        assert db.query(f"select count(*) from t as of {now}").fetchall() == [(5,)]


def test_a_shorter_history_forgets(tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    db.close()
    with opened(tmp_path / "db", 2) as db:
        assert [epoch for epoch, _ in db.epochs().fetchall()] == [4, 5, 6]
        with pytest.raises(kpg.ProgrammingError, match="epoch 3 is not kept: the past begins with epoch 4"):
            db.query("select * from t as of 3")
        assert db.query("select count(*) from t as of 4").fetchall() == [(4,)]


def test_positions_are_those_of_the_rows_that_are_there(tmp_path: Path) -> None:
    db = opened(tmp_path / "db", None)
    db.sql("create table t (a int)")
    for number in range(20):
        db.insert("t", [(number,)], position=("s", number))
        copy = tmp_path / f"killed{number}"
        if number % 5 == 0:
            shutil.copytree(tmp_path / "db", copy)
            with opened(copy, None) as other:
                assert other.positions() == {"s": number}
                assert other.query("select count(*) from t").fetchall() == [(number + 1,)]
    db.close()


def test_what_a_table_was_with_other_partitions_is_not_known(tmp_path: Path) -> None:
    """Rows of one that is not below it any more, or was not yet, would be left out, or be too many."""
    folder = tmp_path / "db"
    db = opened(folder)
    db.sql("""
        create table p (k int) partition by range (k); create table q (k int); create table r (k int);
        create table p0 partition of p for values from (0) to (10); insert into p values (1);
        insert into q values (11)
    """)
    for change, table in (
        ("alter table p attach partition q for values from (10) to (20)", "p"),
        ("alter table p detach partition q", "p"),
        ("drop table p0", "p"),
    ):
        before = db.epoch
        db.sql(f"insert into r values (0); {change}; insert into r values (1)")
        for _ in range(2):
            with pytest.raises(kpg.ProgrammingError, match=f'what "{table}" was at epoch {before} is not'):
                db.query(f"select * from {table} as of {before}")
            now = db.query(f"select count(*) from {table} as of {db.epoch}").fetchone()
            assert now == db.query(f"select count(*) from {table}").fetchone()
            db = after_closing(db, folder)
    db.close()


def test_moments_are_as_they_were_where_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was committed before had been later than the clock was then."""
    now = [1_700_000_000_000_000]
    monkeypatch.setattr("kpg.session.clock.Clock.read", lambda clock: now[0])
    with opened(tmp_path / "db", "1 hour") as db:
        db.sql("create table t (a int)")
        for number, moment in enumerate((100, 200, 50, 60)):
            now[0] = 1_700_000_000_000_000 + moment
            db.sql(f"insert into t values ({number})")
        now[0] += 10
        known = db.epochs().fetchall()
        assert [moment.microsecond for _, moment in known] == [0, 50, 50, 50, 60]
        shutil.copytree(tmp_path / "db", tmp_path / "killed")
    for name in ("killed", "db"):
        with opened(tmp_path / name, "1 hour") as db:
            assert db.epochs().fetchall() == known, name


def test_a_commit_takes_as_much_of_the_log_however_much_of_the_past_is_kept() -> None:
    ends = []
    for history in (None, 1000):
        with opened_files(Sim(), history=history) as db:
            db.sql("create table t (id serial, a int)")
            for number in range(50):
                db.sql(f"insert into t (a) values ({number})")
            keeper = db._engine.write_ahead_log
            assert isinstance(keeper, WriteAheadLog) and keeper.log is not None
            ends.append(keeper.log.end)
    assert ends[0] == ends[1]


def test_a_life_without_history_that_was_killed_forgets_nothing(tmp_path: Path) -> None:
    made(tmp_path / "db").close()
    db = opened(tmp_path / "db", None)
    db.sql("insert into t values (50, 'x')")
    shutil.copytree(tmp_path / "db", tmp_path / "killed")
    db.close()
    with opened(tmp_path / "killed") as db:
        for epoch, count in enumerate((1, 2, 3, 4, 5, 4, 5), 1):
            assert db.query(f"select count(*) from t as of {epoch}").fetchall() == [(count,)]
