"""What the last commit before a kill has defined is so when the folder is opened, and views follow it."""

import pytest

from tests.model.disk import Sim
from tests.model.durable import contents, opened

START = """
    create table p (k int, g int, name text) partition by range (k);
    create table p1 partition of p for values from (0) to (20);
    create table rest partition of p default;
    create table t (k int primary key, g int, name text);
    insert into t values (1, 1, 'a'), (2, 2, 'b');
    create view w as select g, name from t;
    create materialized view parts as select g, count(*) n, max(name) m from p group by g;
    create materialized view v as select g, count(*) n, max(name) m from w group by g;
"""
LAST = {
    "a partition": "create table p2 partition of p for values from (20) to (30)",
    "one attached": """
        create table p2 (k int, g int, name text);
        alter table p attach partition p2 for values from (20) to (30)
    """,
    "one detached": "alter table p detach partition p1",
    "an heir": "create table c (z int) inherits (t)",
    "another name": "alter table t rename to u; alter table u rename to t",
    "a column": "alter table t add column y int default 3",
    "a column's name": "alter table p rename column name to nick; alter table p rename column nick to name",
    "a view below": "create or replace view w as select g, name || '!' as name from t where g > 1",
}


@pytest.mark.parametrize("last", LAST)
def test_views_follow_the_last_commit(last: str) -> None:
    sim = Sim()
    db = opened(sim)
    db.sql(START)
    db.sql(LAST[last])
    expected = contents(db)
    with opened(sim.after_kill()) as again:
        assert contents(again) == expected
        again.sql("insert into t (k, g, name) select n, n % 4, 'n' from generate_series(17, 42) s(n)")
        again.sql("insert into p select n, n % 4, 'n' from generate_series(20, 45) s(n)")
        again.sql("delete from t where k % 3 = 0")
        again.sql("delete from p where k % 3 = 0")
        assert contents(again)["kept"] == ["parts", "v"]  # and both are what their queries give
        found = again.query("select g, n from parts order by g").fetchall()
        assert found == [(0, 5), (1, 4), (2, 4), (3, 4)]


def test_rights_of_what_a_program_has_are_kept() -> None:
    sim = Sim()
    db = opened(sim)
    db.datalog("""
        .decl e(a: number, b: number) .input e .decl tc(a: number, b: number) .output tc
        tc(a, b) :- e(a, b).
    """)
    db.sql("create role r; grant select on tc to r; comment on view tc is 'what is reached'")
    expected = contents(db)
    assert ("RELATION", "tc") in expected["rights: lists"]
    with opened(sim.after_kill()) as again:
        assert contents(again) == expected
