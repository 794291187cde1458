"""Statements beside triggers of other tables use plans again, and run the triggers of their own."""

import kpg

SCHEMA = """
    create table plain (a int primary key, b int);
    create table told (a int primary key, b int);
    create table log (what text);
    create table child (a int references plain on delete cascade);
    create function tell() returns trigger language plpgsql as $$
        begin insert into log values (tg_table_name || ' ' || tg_op); return null; end $$;
    create trigger tell after insert or update or delete on told for each row execute function tell();
"""


def test_triggers_are_run_however_often_a_statement_comes() -> None:
    db = kpg.connect()
    db.sql(SCHEMA)
    for number in range(4):
        db.sql(f"insert into plain values ({number}, 0)")
        db.sql(f"insert into told values ({number}, 0)")
        db.sql(f"update plain set b = 1 where a = {number}")
        db.sql(f"update told set b = 1 where a = {number}")
        assert db.query(f"select b from told where a = {number}").fetchall() == [(1,)]
    counts = db.query("select what, count(*) from log group by what order by what").fetchall()
    assert counts == [("told INSERT", 4), ("told UPDATE", 4)]
    assert db._engine.remembered.used >= 3


def test_a_new_trigger_is_run_by_statements_that_came_before_it() -> None:
    db = kpg.connect()
    db.sql(SCHEMA)
    for number in range(3):
        db.sql(f"insert into plain values ({number}, 0)")
        db.sql(f"insert into child values ({number})")
        db.sql(f"delete from plain where a = {number}")
    db.sql("create trigger tell after delete on child for each row execute function tell()")
    db.sql("insert into plain values (9, 0)")
    db.sql("insert into child values (9)")
    db.sql("delete from plain where a = 9")
    db.sql("create trigger tell after insert on plain for each row execute function tell()")
    db.sql("insert into plain values (10, 0)")
    assert db.query("select what from log").fetchall() == [("child DELETE",), ("plain INSERT",)]
