"""Views over partitioned tables, whose partitions come and go."""

import kpg


def test_views_follow_partitions_that_come_and_go() -> None:
    db = kpg.connect()
    db.sql("""
        create table p (k int, v int) partition by range (k);
        create table p1 partition of p for values from (0) to (10);
        create materialized view total as select count(*) n, sum(v) s from p;
        create view evens as select * from p where v % 2 = 0;
        create materialized view n_even as select count(*) n from evens;
        insert into p values (1, 2), (2, 3);
        create table p2 partition of p for values from (10) to (20);
        insert into p values (11, 4);
    """)
    assert db.query("select * from total").fetchall() == [(3, 9)]
    assert db.query("select * from n_even").fetchall() == [(2,)]
    db.sql("alter table p detach partition p1; insert into p values (12, 6)")
    assert db.query("select * from total").fetchall() == [(2, 10)]
    assert db.query("select * from n_even").fetchall() == [(2,)]
    db.sql("update p1 set v = 8; alter table p attach partition p1 for values from (0) to (10)")
    assert db.query("select * from total").fetchall() == [(4, 26)]
    db.sql("begin; alter table p detach partition p1; rollback; update p set v = v + 1")
    assert db.query("select * from total").fetchall() == [(4, 30)]
    db.sql("verify view total; verify view n_even")


def test_partitions_are_there_again_after_opening(tmp_path: object) -> None:
    folder = f"{tmp_path}/db"
    with kpg.connect(folder) as db:
        db.sql("""
            create table p (k int, v int) partition by list (k);
            create table p1 partition of p for values in (1, 2);
            create table p2 (v int, k int);
            alter table p attach partition p2 for values in (3);
            create materialized view total as select sum(v) s from p;
            insert into p values (1, 10), (3, 30);
        """)
    with kpg.connect(folder) as db:
        db.sql("update p set k = 2 where k = 3; insert into p values (3, 5)")
        assert db.query("select * from p1 order by v").fetchall() == [(1, 10), (2, 30)]
        assert db.query("select * from total").fetchall() == [(45,)]
