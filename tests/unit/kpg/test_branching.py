"""Branches: what they begin with, what differs, what is merged, and what is refused."""

from pathlib import Path

import pytest

import kpg

SCRIPT = """
create table account (id int primary key, owner text, amount decimal(10, 2));
insert into account values (1, 'ada', 10), (2, 'bob', 20), (3, 'eve', 30);
create materialized view total as select count(*) n, sum(amount) amount from account;
"""


def database() -> "kpg.Database":
    db = kpg.connect()
    db.sql(SCRIPT)
    return db


def ids(db: "kpg.Database") -> list[int]:
    return [row[0] for row in db.query("select id from account order by id").fetchall()]


def test_changes_flow_through_the_branch_only() -> None:
    db = database()
    heard: list[object] = []
    db.view("total").subscribe(heard.append)
    branch = db.branch()
    branch.sql("delete from account where id = 1; insert into account values (4, 'new', 5)")
    assert (ids(branch), ids(db)) == ([2, 3, 4], [1, 2, 3])
    assert branch.view("total").fetchall() == [(3, 55)]
    assert db.view("total").fetchall() == [(3, 60)]
    assert branch.changed() == {"account": (1, 1)}
    assert db.epoch == 1
    assert branch.epoch == 3
    assert heard == []
    db.sql("delete from account where id = 2")
    assert (ids(branch), ids(db)) == ([2, 3, 4], [1, 3])


def test_rows_that_came_and_went_in_a_commit_are_no_obstacle(tmp_path: Path) -> None:
    for db in (kpg.connect(), kpg.connect(tmp_path / "db")):
        db.sql(SCRIPT)
        db.sql("create table more (a int)")
        db.sql("begin; insert into account values (9, 'x', 1); delete from account where id = 9")
        db.sql("insert into more values (1); commit")
        branch = db.branch()
        branch.sql("insert into account values (9, 'y', 1)")
        assert ids(branch) == [1, 2, 3, 9]
        branch.merge()
        assert ids(db) == [1, 2, 3, 9]
        db.sql("begin; insert into account values (10, 'x', 1); delete from account where id = 10")
        db.sql("insert into more values (1); commit; checkpoint")
        db.close()
    with kpg.connect(tmp_path / "db") as again:
        assert ids(again) == [1, 2, 3, 9]


def test_what_differs() -> None:
    db = database()
    with db.branch() as branch:
        assert branch.diff("account") == branch.diff("total") == []
        branch.sql("update account set amount = 11 where id = 1")
        db.sql("delete from account where id = 3")
        assert [(row[0], float(row[2]), diff) for row, diff in branch.diff("account")] == [
            (1, 10.0, -1),
            (1, 11.0, 1),
            (3, 30.0, 1),
        ]
        assert [(row[0], float(row[1]), diff) for row, diff in branch.diff("total")] == [
            (2, 30.0, -1),
            (3, 61.0, 1),
        ]
    assert branch.closed


def test_a_branch_tells_its_past() -> None:
    db = database()
    branch = db.branch()
    begin = branch.epoch
    branch.sql("delete from account")
    assert branch.query("select count(*) from account as of $1", [begin]).fetchall() == [(3,)]
    assert [(row[0], diff) for row, _, diff in branch.view("total").changes(since=begin)] == [(0, 1), (3, -1)]


def test_a_branch_knows_the_past_of_its_trunk() -> None:
    db = kpg.connect(history=10)
    db.sql(SCRIPT)
    db.sql("delete from account where id = 1")
    branch = db.branch()
    branch.sql("delete from account where id = 2")
    counts = [branch.query(f"select n from total as of {epoch}").fetchall() for epoch in (1, 2, 3)]
    assert counts == [[(3,)], [(2,)], [(1,)]]
    assert [
        branch.query(f"select count(*) from account as of {epoch}").fetchall() for epoch in (1, 2, 3)
    ] == counts
    assert [(row[0], time, diff) for row, time, diff in branch.view("total").changes(since=1)] == [
        (2, 2, 1),
        (3, 2, -1),
        (1, 3, 1),
        (2, 3, -1),
    ]
    assert branch.changed() == {"account": (0, 1)}
    assert branch.merge() == {"account": (0, 1)}


def test_a_merge_is_one_commit() -> None:
    db = database()
    branch = db.branch()
    branch.sql("update account set owner = 'bobby' where id = 2; delete from account where id = 3")
    branch.sql("insert into account values (7, 'zoe', 1); set position 'topic' = 5")
    db.sql("insert into account values (8, 'max', 2); update account set amount = 0 where id = 1")
    epoch = db.epoch
    assert branch.merge() == {"account": (2, 2), "kpg_positions": (1, 0)}
    assert db.positions() == {"topic": 5}
    assert db.epoch == epoch + 1
    assert branch.closed
    assert db.query("select id, owner from account order by id").fetchall() == [
        (1, "ada"),
        (2, "bobby"),
        (7, "zoe"),
        (8, "max"),
    ]
    db.verify("total")


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        (
            "update account set amount = 1 where id = 2",
            "update account set amount = 2 where id = 2",
            r"row (2, 'bob', 20.00) of table account was changed in the trunk too",
        ),
        (
            "delete from account where id = 2",
            "delete from account where id = 2",
            r"row (2, 'bob', 20.00) of table account was changed in the trunk too",
        ),
        (
            "insert into account values (5, 'x', 1)",
            "insert into account values (5, 'y', 2)",
            r"a row with the key of (5, 'x', 1.00) came to table account in the trunk too",
        ),
    ],
)
def test_a_merge_is_refused_where_both_have_changed_a_row(mine: str, theirs: str, message: str) -> None:
    db = database()
    branch = db.branch()
    branch.sql("insert into account values (100, 'other', 1)")
    branch.sql(mine)
    db.sql(theirs)
    before = db.query("select * from account").fetchall()
    with pytest.raises(kpg.IntegrityError) as caught:
        branch.merge()
    assert caught.value.message == message
    assert db.query("select * from account").fetchall() == before
    assert not branch.closed
    assert branch.query("select count(*) from account where id = 100").fetchall() == [(1,)]


def test_constraints_of_the_trunk_hold_after_a_merge() -> None:
    db = database()
    db.sql(
        "create table pay (account int references account, amount int check (amount > 0), code text unique)"
    )
    branch = db.branch()
    with pytest.raises(kpg.IntegrityError, match="amount"):
        branch.sql("insert into pay values (1, -1, 'a')")
    branch.sql("insert into pay values (2, 5, 'a'); update account set amount = 1 where id = 1")
    db.sql("delete from account where id = 2")
    with pytest.raises(kpg.IntegrityError, match="FOREIGN KEY"):
        branch.merge()
    assert ids(db) == [1, 3]
    db.sql("insert into account values (2, 'back', 1); insert into pay values (1, 1, 'a')")
    with pytest.raises(kpg.IntegrityError, match="duplicate key"):
        branch.merge()
    db.sql("delete from pay")
    branch.merge()
    assert db.query("select account from pay").fetchall() == [(2,)]


def test_a_changed_parent_keeps_its_children_in_a_merge() -> None:
    db = database()
    db.sql("create table pay (account int references account on delete cascade)")
    db.sql("insert into pay values (1), (2)")
    branch = db.branch()
    branch.sql("update account set owner = 'x' where id = 1; delete from account where id = 2")
    branch.merge()
    assert db.query("select account from pay").fetchall() == [(1,)]


def test_numbers_of_sequences_are_not_given_again() -> None:
    db = kpg.connect()
    db.sql("create table t (id serial primary key, a int); insert into t (a) values (1)")
    branch = db.branch()
    assert branch.query("insert into t (a) values (2) returning id").fetchall() == [(2,)]
    branch.merge()
    assert db.query("insert into t (a) values (3) returning id").fetchall() == [(3,)]


def test_definitions_stay_in_the_branch_and_are_not_merged() -> None:
    db = database()
    branch = db.branch()
    branch.sql(
        "create materialized view rich as select id from account where amount > 15; create table more (a int)"
    )
    branch.sql("insert into more values (1); drop view total; insert into account values (9, 'q', 99)")
    assert branch.view("rich").fetchall() == [(2,), (3,), (9,)]
    with pytest.raises(kpg.NotSupportedError, match="definitions are not merged, and the branch has changed"):
        branch.merge()
    assert [name for name, _ in db.tables().fetchall()] == ["account"]
    assert db.view("total").fetchall() == [(3, 60)]


def test_a_table_that_the_trunk_has_altered_is_not_merged() -> None:
    for statement in ("alter table account add column x int", "drop table account cascade"):
        db = database()
        branch = db.branch()
        branch.sql("delete from account where id = 1")
        db.sql(statement)
        with pytest.raises(
            kpg.ProgrammingError, match="table account, which the branch has changed, was dropped or"
        ):
            branch.merge()
    db = database()
    branch = db.branch()
    branch.sql("delete from account where id = 1")
    db.sql("alter table account rename to accounts")
    branch.merge()
    assert db.query("select count(*) from accounts").fetchall() == [(2,)]


def test_a_branch_has_what_its_trunk_has() -> None:
    db = database()
    db.create_function("twice", lambda x: 2 * x, [int], int)
    db.sql("create type mood as enum ('sad', 'glad'); create schema s; create table s.m (m mood)")
    db.sql("create view v as select twice(id) from account; prepare p as select 1")
    db.sql("create index on account (owner)")
    db.sql("set search_path = s, public")
    branch = db.branch()
    branch.sql("insert into m values ('glad')")
    assert branch.query("select * from m").fetchall() == [("glad",)]
    assert branch.query("select * from v order by 1").fetchall() == [(2,), (4,), (6,)]
    assert branch.query("execute p").fetchall() == [(1,)]
    assert db.query("select * from m").fetchall() == []


def test_datalog_relations_go_on_in_a_branch() -> None:
    db = kpg.connect()
    db.sql("create table edge (a bigint, b bigint); insert into edge values (1, 2), (2, 3)")
    db.datalog("""
        .decl tc(a: number, b: number)
        .output tc
        tc(a, b) :- edge(a, b).
        tc(a, c) :- tc(a, b), edge(b, c).
    """)
    branch = db.branch()
    branch.sql("insert into edge values (3, 4)")
    assert sorted(branch.view("tc").fetchall()) == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
    assert sorted(db.view("tc").fetchall()) == [(1, 2), (1, 3), (2, 3)]
    assert branch.diff("tc") == [((1, 4), 1), ((2, 4), 1), ((3, 4), 1)]


def test_branches_of_branches() -> None:
    db = database()
    first = db.branch()
    first.sql("delete from account where id = 1")
    second = first.branch()
    second.sql("delete from account where id = 2")
    assert (ids(db), ids(first), ids(second)) == ([1, 2, 3], [2, 3], [3])
    second.merge()
    assert (ids(db), ids(first)) == ([1, 2, 3], [3])
    first.merge()
    assert ids(db) == [3]


def test_what_is_wrong_is_refused() -> None:
    db = database()
    db.sql("begin")
    with pytest.raises(kpg.InterfaceError, match="a branch begins outside of transactions"):
        db.branch()
    db.sql("rollback")
    branch = db.branch()
    with pytest.raises(kpg.ProgrammingError, match='relation "nothing" does not exist'):
        branch.diff("nothing")
    branch.sql("begin; delete from account")
    with pytest.raises(kpg.InterfaceError, match="cannot be merged within a transaction"):
        branch.merge()
    with pytest.raises(kpg.InterfaceError, match="cannot be compared within a transaction"):
        branch.diff("total")
    branch.sql("commit")
    db.sql("drop view total")
    with pytest.raises(kpg.ProgrammingError, match='relation "total" does not exist'):
        branch.diff("total")
    branch.discard()
    branch.discard()
    with pytest.raises(kpg.InterfaceError, match="closed"):
        branch.merge()
    open_branch = db.branch()
    db.close()
    with pytest.raises(kpg.InterfaceError, match="closed"):
        open_branch.merge()
    assert ids(open_branch) == [1, 2, 3]


def test_views_over_inputs_of_a_dataflow_have_no_branches() -> None:
    db = kpg.connect()
    flow = db.dataflow("f")
    flow.input("n", n=int).export("numbers")
    with pytest.raises(
        kpg.NotSupportedError, match='a branch with a view over inputs of a dataflow, such as "numbers"'
    ):
        db.branch()
