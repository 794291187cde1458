"""AS OF, the changes of a view since an epoch, and what is refused of them."""

import datetime
from decimal import Decimal

import pytest

import kpg
from kpg.session.time_travel import Retention, parse_retention

UTC = datetime.UTC
START = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)
MINUTE = datetime.timedelta(minutes=1)


def minutes(number: int) -> datetime.datetime:
    return START + number * MINUTE


def database(history: "int | str | datetime.timedelta | None" = 100) -> "kpg.Database":
    """A commit a minute: epochs 1 to 4."""
    db = kpg.connect(history=history)
    db.advance_to(START)
    db.sql("create table t (id int primary key, name text, price decimal(8, 2))")
    db.sql("create materialized view totals as select name, sum(price) total from t group by name")
    for number, text in enumerate(
        (
            "insert into t values (1, 'ada', 10), (2, 'bob', 7.50)",
            "insert into t values (3, 'ada', 2.50)",
            "update t set price = 20 where id = 1",
            "delete from t where name = 'bob'",
        ),
        1,
    ):
        db.advance_to(minutes(number))
        db.sql(text)
    return db


ADA, BOB = ("ada", Decimal("12.50")), ("bob", Decimal("7.50"))


def test_a_query_as_of_an_epoch_within_another() -> None:
    db = database()
    gone = "select id from t except select id from (select * from t as of $1) before order by 1"
    assert db.query(gone, [1]).fetchall() == [(3,)]
    assert db.query("select id from (select id from t order by id limit 1 as of 2) x").fetchall() == [(1,)]
    assert db.query("select (select count(*) from t as of 2), count(*) from t").fetchall() == [(3, 2)]
    assert db.query("select id in (select id from t as of epoch 1) from t order by id").fetchall() == [
        (True,),
        (False,),
    ]
    both = "with a as (select * from t as of 1), b as (select * from t as of 3) select a.id, a.price, b.price"
    assert db.query(f"{both} from a join b using (id) order by 1").fetchall() == [
        (1, Decimal(10), Decimal(20)),
        (2, Decimal("7.50"), Decimal("7.50")),
    ]
    nested = "select * from (select id from t where id not in (select id from t as of 1) as of 2) x"
    with pytest.raises(kpg.NotSupportedError, match="AS OF within a query AS OF"):
        db.query(nested)
    then = str(db.sql("explain select name from t where id = 1 as of 1"))
    assert then.startswith("as of 1: computed from all rows that were there then, without indexes\n")
    assert then.partition("\n")[2] == str(db.sql("explain select name from t where id = 1"))
    assert "Linear" in str(db.sql("explain select * from (select * from t as of 1) x"))
    db.sql("create table kept as select * from (select * from t as of 1) x where id = 2")
    db.sql("insert into kept select * from t where id not in (select id from t as of 1)")
    assert db.query("select id from kept order by id").fetchall() == [(2,), (3,)]
    with pytest.raises(kpg.InterfaceError, match="nothing of the past is kept"):
        kpg.connect().query("select * from (select 1 as of 1) x")
    assert {entry.name for entry in db._engine.catalog} == {"t", "totals", "kept"}


def test_a_table_a_view_and_a_query_as_of_an_epoch() -> None:
    db = database()
    assert db.query("select id from t order by id as of 1").fetchall() == [(1,), (2,)]
    assert db.query("select id from t order by id as of 3").fetchall() == [(1,), (2,), (3,)]
    assert db.query("select * from totals order by name as of 2").fetchall() == [ADA, BOB]
    assert db.query("select count(*) from t join totals using (name) as of 1").fetchall() == [(2,)]
    assert db.query("select * from t as of 0").fetchall() == []
    assert db.query("select id from t order by id as of epoch 4").fetchall() == [(1,), (3,)]
    assert db.query("select id from t where id = $2 as of $1", [2, 3]).fetchall() == [(3,)]
    assert db.query("select id from t where id = :id as of :at", {"id": 3, "at": 2}).fetchall() == [(3,)]
    assert db.query("with one as (select * from t) select count(*) from one as of 2").fetchall() == [(3,)]
    assert db.query("select id from t union all select -id from t order by 1 as of 1").fetchall() == [
        (-2,),
        (-1,),
        (1,),
        (2,),
    ]
    assert db.query("(select id from t order by id) as of 1").fetchall() == [(1,), (2,)]


def test_a_query_as_of_a_moment_is_of_the_last_epoch_before() -> None:
    db = database()
    for text in (
        "timestamp '2024-01-01 12:02:30'",
        "timestamptz '2024-01-01 13:02:30+01'",
        "timestamp '2024-01-01 12:02:30'",
        "'2024-01-01 12:02:00'",
        "'2024-01-01T12:02:59Z'",
        "now() - interval '1 minute 30 seconds'",
        "current_timestamp - interval '90 seconds'",
        "cast('2024-01-01 12:02:30' as timestamp)",
        "system time '2024-01-01 12:02:30'",
    ):
        assert db.query(f"select * from totals order by name as of {text}").fetchall() == [ADA, BOB], text
    moment = datetime.datetime(2024, 1, 1, 12, 2, 30)
    assert db.query("select * from totals order by 1 as of ?", [moment]).fetchall() == [ADA, BOB]
    assert db.view("totals").as_of(moment).fetchall() == [ADA, BOB]
    assert db.query("select count(*) from t as of now()").fetchall() == [(2,)]


def test_the_time_of_a_query_as_of_an_epoch_is_that_of_the_epoch() -> None:
    db = database()
    assert db.query("select now() as of 2").fetchall() == [(minutes(2),)]
    db.sql("create view fresh as select * from t where timestamptz '2024-01-01 12:02:00' >= now()")
    assert db.query("select count(*) from fresh as of 2").fetchall() == [(3,)]
    assert db.query("select count(*) from fresh as of 3").fetchall() == [(0,)]


def test_a_view_that_follows_the_clock_shows_what_it_showed() -> None:
    db = kpg.connect(history=1000)
    db.advance_to(START)
    db.sql("create table e (id int, until timestamptz)")
    db.insert("e", [(n, minutes(n)) for n in range(5)])
    db.sql("create materialized view present as select id from e where until > now()")
    seen = {}
    for number in range(6):
        db.advance_to(minutes(number))
        seen[db.epoch] = sorted(db.view("present").fetchall())
    for epoch, rows in seen.items():
        assert sorted(db.query(f"select * from present as of {epoch}").fetchall()) == rows
    assert len({len(rows) for rows in seen.values()}) == 5


def test_what_a_view_was_before_it_was_made_is_computed() -> None:
    db = database()
    db.sql("create materialized view late as select name, count(*) n from t group by name")
    db.sql("create view later as select * from late where n > 1")
    assert db.query("select * from late order by name as of 1").fetchall() == [("ada", 1), ("bob", 1)]
    assert db.query("select * from later as of 2").fetchall() == [("ada", 2)]
    with pytest.raises(
        kpg.ProgrammingError, match="contents of late at epoch 1 are not kept: they begin with epoch 4"
    ):
        db.view("late").as_of(1)
    with pytest.raises(
        kpg.ProgrammingError, match="changes of late since epoch 1 are not kept: they begin after epoch 4"
    ):
        db.view("late").changes(since=1)
    db.sql("insert into t values (9, 'eve', 1)")
    assert list(db.view("late").changes(since=4)) == [(("eve", 1), 5, 1)]
    assert db.view("late").as_of(4).fetchall() == [("ada", 2)]


def test_rows_of_the_past_are_put_back() -> None:
    db = database()
    db.sql("insert into t select * from t where name = 'bob' as of 3")
    assert db.query("select id, name from t order by id").fetchall() == [(1, "ada"), (2, "bob"), (3, "ada")]
    db.sql("create table was as select name, count(*) n from t group by name as of 1")
    assert db.query("select * from was order by name").fetchall() == [("ada", 1), ("bob", 1)]
    db.sql("begin; delete from t")
    db.sql("insert into t (id, name) select id + 100, name from t as of $1", [2])
    db.sql("commit")
    assert db.query("select id from t order by id").fetchall() == [(101,), (102,), (103,)]
    assert [name for name, _ in db.tables().fetchall()] == ["t", "was"]


def test_a_transaction_sees_the_past_without_its_own_changes() -> None:
    db = database()
    db.sql("begin")
    db.sql("delete from t; insert into t values (7, 'x', 1)")
    assert db.query("select id from t order by id as of 4").fetchall() == [(1,), (3,)]
    assert db.query("select id from t order by id as of 1").fetchall() == [(1,), (2,)]
    assert db.query("select id from t").fetchall() == [(7,)]
    db.sql("rollback")
    assert db.query("select id from t order by id as of 4").fetchall() == [(1,), (3,)]


def test_changes_since_an_epoch_go_on_where_a_reader_stopped() -> None:
    db = database()
    view = db.view("totals")
    everything = list(view.changes(since=0))
    assert everything == [
        (("ada", Decimal("10.00")), 1, 1),
        (BOB, 1, 1),
        (("ada", Decimal("10.00")), 2, -1),
        (ADA, 2, 1),
        (ADA, 3, -1),
        (("ada", Decimal("22.50")), 3, 1),
        (BOB, 4, -1),
    ]
    place, heard = 0, []
    for _ in range(3):
        heard += view.changes(since=place)
        place = db.epoch
        db.sql(f"insert into t values ({100 + place}, 'eve', 1)")
    heard += view.changes(since=place)
    assert heard == list(view.changes(since=0))
    assert list(view.changes(since=db.epoch)) == []
    assert [time for _, time, _ in view.changes(since=minutes(2))] == [3, 3, 4, 5, 6, 6, 7, 7]


def test_a_subscriber_is_told_of_what_it_has_missed_first() -> None:
    db = database()
    heard: list[object] = []
    with db.view("totals").subscribe(heard.append, since=3):
        db.sql("insert into t values (8, 'eve', 1)")
    db.sql("insert into t values (9, 'eve', 1)")
    assert heard == [[(BOB, 4, -1)], [(("eve", Decimal("1.00")), 5, 1)]]
    with db.view("totals").subscribe(heard.append, since=db.epoch):
        assert len(heard) == 2
    with pytest.raises(kpg.ProgrammingError, match="epoch 99 has not come"):
        db.view("totals").subscribe(heard.append, since=99)


def test_epochs_that_are_kept_are_told_with_their_moments() -> None:
    db = database(2)
    assert db.epochs().fetchall() == [(2, minutes(2)), (3, minutes(3)), (4, minutes(4))]
    assert db.epochs().columns == ["epoch", "moment"]


@pytest.mark.parametrize("history", [2, "2 epochs", "90 seconds", "1 minute 30 seconds", 1.5 * MINUTE])
def test_what_is_out_of_the_retention_is_refused(history: "int | str | datetime.timedelta") -> None:
    db = database(history)
    for then, what in (
        ("1", "epoch 1"),
        ("timestamp '2024-01-01 12:01:30'", "2024-01-01 12:01:30.000000 UTC"),
    ):
        with pytest.raises(kpg.ProgrammingError, match=f"{what} is not kept: the past begins with epoch 2"):
            db.query(f"select * from t as of {then}")
        assert db.query("select count(*) from t as of 2").fetchall() == [(3,)]


def test_places_of_rows_are_given_up_when_they_are_out_of_the_retention() -> None:
    db = kpg.connect(history=3)
    db.sql("create table t (a int)")
    for number in range(40):
        db.sql(f"insert into t values ({number}); delete from t where a = {number}")
    table = db._engine.executor.store("t")  # type: ignore[attr-defined]
    assert table.history.rows < 10
    assert sum(rowids.shape[0] for _, gone in table.history._retained for rowids in gone) < 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select * from t as of 99", "epoch 99 has not come: the last one is 4"),
        ("select * from t as of -1", "epoch -1 is not kept"),
        ("select * from t as of null", "NULL is neither an epoch nor a moment"),
        ("select * from t as of true", "True is neither an epoch nor a moment"),
        ("select * from t as of 1.5", "1.5 is neither an epoch nor a moment"),
        ("select * from t as of 'soon'", "'soon' is neither an epoch nor a moment"),
        ("select * from t as of timestamp '2030-01-01'", "2030-01-01 00:00:00.000000 UTC has not come"),
        ("select * from t as of 1 where id = 1", 'syntax error at "where"'),
        ("select * from t as of 1 2", 'syntax error at "2"'),
        ("as of 5", "syntax error"),
        ("select count(id as of 1) from t", "AS OF behind anything but a query is not supported"),
        ("select * from (select * from t as of 99) u", "epoch 99 has not come"),
        ("select * from (select * from t as of 1) u as of 2", "AS OF within a query AS OF is not supported"),
        ("create view u as select * from (select * from t as of 1) x", "AS OF within anything but a query"),
        ("delete from t where id in (select id from t as of 1)", "AS OF within anything but a query"),
        ("insert into t select * from t as of 1 on conflict do nothing", 'syntax error at "on"'),
        ("insert into t select * from t as of 99", "epoch 99 has not come"),
        ("create table u as select * from t as of null", "NULL is neither an epoch nor a moment"),
        ("create view u as select * from t as of 1", "AS OF of anything but a query is not supported"),
        ("delete from t as of 1", "AS OF of anything but a query is not supported"),
        ("select * from t as of nothing", 'syntax error at "nothing"'),
    ],
)
def test_a_wrong_as_of_is_refused(text: str, message: str) -> None:
    with pytest.raises(kpg.Error) as caught:
        database().query(text)
    assert message in caught.value.message
    assert caught.value.span is not None


def test_a_prepared_query_is_asked_as_of_its_parameter() -> None:
    db = database()
    db.sql("prepare p as select count(*) from t as of $1")
    assert [db.query(f"execute p({epoch})").fetchall() for epoch in (0, 1, 2, 1)] == [
        [(0,)],
        [(2,)],
        [(3,)],
        [(2,)],
    ]


def test_of_is_a_name_all_the_same() -> None:
    db = database()
    assert db.query("select 1 as of").fetchall() == [(1,)]
    assert db.query("select of.id from t as of where of.id = 1").fetchall() == [(1,)]
    assert db.query("select count(*) from t as of join t as t2 on of.id = t2.id").fetchall() == [(2,)]
    assert db.query("select of from (values (1)) as of (of)").fetchall() == [(1,)]


def test_without_history_nothing_is_kept() -> None:
    db = database(None)
    for ask in (
        lambda: db.query("select * from t as of 1"),
        lambda: db.view("totals").as_of(1),
        lambda: db.view("totals").changes(since=1),
        lambda: db.epochs(),
    ):
        with pytest.raises(kpg.InterfaceError, match="nothing of the past is kept") as caught:
            ask()
        assert "history=" in (caught.value.hint or "")


def test_a_table_is_known_since_it_is_as_it_is() -> None:
    db = database()
    db.sql("create table u (a int)")
    with pytest.raises(kpg.ProgrammingError, match='what "u" was at epoch 3 is not known') as caught:
        db.query("select * from t, u as of 3")
    assert caught.value.hint == "it is there, as it is defined now, since epoch 4"
    assert db.query("select * from u as of 4").fetchall() == []
    db.sql("insert into u values (1); alter table t add column more int default 5")
    with pytest.raises(kpg.ProgrammingError, match='what "t" was at epoch 4 is not known'):
        db.query("select * from t as of 4")
    assert db.query(f"select count(*) from t as of {db.epoch}").fetchall() == [(2,)]
    with pytest.raises(kpg.ProgrammingError, match='what "t" was at epoch 2 is not known'):
        db.query("select * from totals as of 2")


@pytest.mark.parametrize(
    "change",
    ["add column b int", "add column b int default 3", "drop column z", "alter column a type bigint"],
)
def test_rows_are_not_missing_before_their_table_had_other_columns(change: str) -> None:
    """At the epoch right before: the table was there then, and its rows are written anew in the next one."""
    db = kpg.connect(history=100)
    if "type" in change:
        db.sql("create table t (a int, z int)")
    else:
        db.sql("create table t (a int, z int) partition by list (a)")
        db.sql("create table t1 partition of t for values in (1)")
    db.sql("insert into t values (1, 2)")
    before = db.epoch
    db.sql(f"alter table t {change}")
    with pytest.raises(kpg.ProgrammingError, match=f'what "t1?" was at epoch {before} is not known'):
        db.query("select * from t as of ?", [before])
    assert len(db.query("select * from t as of ?", [db.epoch]).fetchall()) == 1


def test_a_rule_that_was_added_later_is_not_taken_for_true_of_before() -> None:
    db = kpg.connect(history=100)
    db.sql("create table t (a int); create table u (a int)")
    db.sql("insert into t values (null), (1); insert into u values (1), (2)")
    assert db.query("select a from u where a not in (select a from t) as of 2").fetchall() == []
    db.sql("delete from t where a is null; alter table t alter a set not null")
    with pytest.raises(kpg.ProgrammingError, match='what "t" was at epoch 2 is not known'):
        db.query("select a from u where a not in (select a from t) as of 2")
    assert db.query("select a from u where a not in (select a from t) as of 3").fetchall() == [(2,)]


def test_a_renamed_table_keeps_its_past() -> None:
    db = database()
    db.sql("alter table t rename to s; alter table s rename column name to who")
    assert db.query("select who from s where id = 1 as of 1").fetchall() == [("ada",)]


def test_an_exported_collection_is_read_as_of_an_epoch() -> None:
    db = kpg.connect(history=100)
    flow = db.dataflow("f")
    numbers = flow.input("n", n=int)
    numbers.export("numbers")
    for number in range(3):
        numbers.insert(number)
        numbers.advance_to(db.epoch + 2)
        db.step()
    first = db.epochs().fetchall()[1][0]
    assert db.query(f"select n from numbers order by n as of {first}").fetchall() == [(0,)]
    assert db.query("select count(*) from numbers as of $1", [db.epoch]).fetchall() == [(3,)]


@pytest.mark.parametrize(
    "history", [0, -1, True, "", "soon", "1 potato", "-1 hour", "0 seconds", "x epochs", 1.5]
)
def test_a_wrong_history_is_refused(history: object) -> None:
    with pytest.raises(kpg.InterfaceError, match="history is") as caught:
        kpg.connect(history=history)  # type: ignore[arg-type]
    assert caught.value.hint == 'it is a time such as "1 hour", or a number of epochs from 1 on'


def test_a_history_is_a_time_or_a_number() -> None:
    assert parse_retention("1 hour") == Retention(None, 3_600_000_000)
    assert parse_retention(2 * MINUTE) == Retention(None, 120_000_000)
    assert parse_retention(7) == parse_retention("7 epochs") == Retention(7, None)


def test_a_clock_that_is_set_back_makes_nothing_later() -> None:
    db = kpg.connect(history="1 hour")
    db.sql("create table t (a int); insert into t values (1)")
    db.advance_to(START)
    db.sql("insert into t values (2)")
    assert db.query("select count(*) from t as of now()").fetchall() == [(2,)]
    assert {moment for _, moment in db.epochs().fetchall()} == {START}
