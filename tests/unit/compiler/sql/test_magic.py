"""Recursion in SQL is computed for what the query asks of it: how much is derived, and what EXPLAIN says."""

import datetime
from collections.abc import Iterator

import pytest

import kpg

LENGTH = 1000
LEFT = "select a, b from edge union select r.x, e.b from r join edge e on r.y = e.a"
RIGHT = "select a, b from edge union select e.a, r.y from edge e join r on e.b = r.x"
SQUARE = "select a, b from edge union select p.x, q.y from r p join r q on p.y = q.x"
NEAR = LENGTH - 10


@pytest.fixture
def chain() -> Iterator[kpg.Database]:
    """A path of edges: its closure has half a million rows, of which ten begin at ``NEAR``."""
    with kpg.connect() as db:
        db.sql("create table edge (a int, b int); create table root (n int)")
        db.insert("edge", [(i, i + 1) for i in range(LENGTH)])
        db.insert("root", [(NEAR,), (None,)])
        yield db


def closure(db: kpg.Database, definition: str = LEFT) -> None:
    db.sql(f"create view tc as with recursive r (x, y) as ({definition}) select * from r")


def derived(db: kpg.Database, query: str) -> int:
    """The rows that all loops and distincts of a view of the query derive."""
    db.sql(f"create materialized view derived as {query}")
    kept = [
        row
        for row in db.operators().fetchall()
        if row[-1] == "derived" and row[1].startswith(("Distinct", "Leave"))
    ]
    db.sql("drop view derived")
    return sum(row[3] for row in kept)


AFTER = [(n,) for n in range(NEAR + 1, LENGTH + 1)]


@pytest.mark.parametrize("definition", [LEFT, RIGHT, SQUARE])
@pytest.mark.parametrize(
    "query",
    [
        f"select y from tc where x = {NEAR}",
        f"select y from tc where x in ({NEAR}, null, -1)",
        f"select y from tc where x = {NEAR} or x = {NEAR}::bigint + 0",
        f"select y from (select y, x from tc) t where {NEAR} = x and y > 0",
        f"select distinct y from tc group by x, y having x = {NEAR}",
        "select tc.y from tc join root on tc.x = root.n",
        "select tc.y from root left join tc on tc.x = root.n where root.n is not null",
    ],
)
def test_only_what_is_asked_for_is_derived(chain: kpg.Database, definition: str, query: str) -> None:
    closure(chain, definition)
    assert sorted(chain.query(query).fetchall()) == AFTER
    assert derived(chain, query) <= 60


def test_the_other_end_can_be_asked_for(chain: kpg.Database) -> None:
    closure(chain)
    assert sorted(chain.query("select x from tc where y = 3").fetchall()) == [(0,), (1,), (2,)]
    assert derived(chain, "select x from tc where y = 3") <= 20
    assert derived(chain, "select 1 from tc where x = 2 and y = 5") <= 40


def test_a_with_query_is_restricted_from_outside(chain: kpg.Database) -> None:
    query = f"with recursive r (x, y) as ({RIGHT}) select y from r where x = ?"
    assert sorted(chain.query(query, [NEAR]).fetchall()) == AFTER
    assert derived(chain, query.replace("?", str(NEAR))) <= 60


def test_views_over_recursive_views_pass_it_on(chain: kpg.Database) -> None:
    closure(chain)
    chain.sql(
        "create view back as with recursive s (x, y) as ("
        "select y, x from tc where y > x union select s.x, tc.y from s join tc on tc.x = s.y) select * from s"
    )
    query = f"select x, y from back where x = {LENGTH - 1} and y = {LENGTH}"
    assert chain.explain(query, "magic").count("recursion ") == 1
    chain.delete("edge", [(i, i + 1) for i in range(LENGTH - 20)])
    assert chain.query(query).fetchall() == [(LENGTH - 1, LENGTH)]


def test_an_answer_asks_for_more(chain: kpg.Database) -> None:
    closure(chain)
    query = f"select p.x, q.y from tc p join tc q on p.y = q.x where p.x = {LENGTH - 3}"
    expected = [(LENGTH - 3, LENGTH - 1), (LENGTH - 3, LENGTH), (LENGTH - 3, LENGTH)]
    assert sorted(chain.query(query).fetchall()) == expected
    assert derived(chain, query) <= 40


@pytest.mark.parametrize(
    "rest",
    [
        f"where not exists (select 1 from root where n = e.b and n <> {NEAR})",
        f"left join root on n = e.b and n <> {NEAR} where n is null",
    ],
)
def test_steps_that_leave_rows_out(chain: kpg.Database, rest: str) -> None:
    chain.sql(f"insert into root values ({NEAR + 4}), ({NEAR + 4})")
    closure(chain, f"{LEFT} {rest}")
    query = f"select y from tc where x = {NEAR}"
    assert sorted(chain.query(query).fetchall()) == AFTER[:3]
    assert derived(chain, query) <= 60
    chain.sql(f"create materialized view v as {query}; delete from root where n = {NEAR + 4}")
    assert sorted(chain.view("v").fetchall()) == AFTER
    chain.sql(f"insert into root values ({NEAR + 2})")
    assert sorted(chain.view("v").fetchall()) == AFTER[:1]


def test_counts_of_groups_that_are_asked_for(chain: kpg.Database) -> None:
    closure(chain)
    query = "select n, c from root join (select x, count(*) as c from tc group by x) g on g.x = n"
    assert chain.query(query).fetchall() == [(NEAR, 10)]
    assert derived(chain, query) <= 60


@pytest.mark.parametrize(
    "query",
    [
        "select y from tc where x = (select max(n) from root)",
        "select y from tc where x in (select n from root)",
        "select y from root, lateral (select y from tc where x = n) t",
        f"select y from (select * from tc union all select n, n from root where n < 0) u where x = {NEAR}",
        f"select y from tc where x = {NEAR} intersect select y from tc where x = {NEAR - 1}",
    ],
)
def test_subqueries_ask_too(chain: kpg.Database, query: str) -> None:
    closure(chain)
    assert sorted(chain.query(query).fetchall()) == AFTER
    assert "as a whole" not in chain.explain(query, "magic")


def test_a_relation_of_datalog(chain: kpg.Database) -> None:
    program = chain.datalog("""
        .decl path(x: number, y: number)
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
    """)
    query = f"select y from path where x = {NEAR}"
    assert sorted(chain.query(query).fetchall()) == AFTER
    assert derived(chain, query) <= 60
    joined = "select y from root join path on x = n"
    assert sorted(chain.query(joined).fetchall()) == AFTER
    assert derived(chain, joined) <= 60
    chain.sql(f"delete from edge where a < {NEAR - 5}")
    assert len(program["path"]) == 15 * 16 // 2
    assert "Loop" not in chain.explain(query)
    assert sorted(chain.query(query).fetchall()) == AFTER


def test_what_is_maintained_is_looked_up(chain: kpg.Database) -> None:
    closure(chain)
    chain.sql(f"delete from edge where a < {NEAR - 5}; create materialized view kept as select * from tc")
    query = f"select y from kept where x = {NEAR}"
    assert sorted(chain.query(query).fetchall()) == AFTER
    assert "Loop" not in chain.explain(query)
    assert chain.explain(query, "magic") == "the query has no recursion of its own"
    with chain.transaction():
        chain.sql(f"delete from edge where a = {NEAR + 1}")
        assert chain.query(query).fetchall() == [(NEAR + 1,)]
        assert "from what is asked" in chain.explain(query)


def test_changes_are_followed(chain: kpg.Database) -> None:
    closure(chain, RIGHT)
    chain.sql(f"create materialized view v as select y from tc where x = {NEAR}")
    chain.sql(f"delete from edge where a = {NEAR + 2}")
    assert sorted(chain.view("v").fetchall()) == AFTER[:2]
    chain.sql(f"insert into edge values ({NEAR + 2}, 2), (1, {NEAR}); delete from edge where a = 4")
    assert sorted(chain.view("v").fetchall()) == [(2,), (3,), (4,), *AFTER[:2]]
    chain.verify("v")


def test_statements_that_change_tables(chain: kpg.Database) -> None:
    closure(chain)
    chain.sql(f"insert into root select y from tc where x = {LENGTH - 2}")
    assert sorted(chain.query("select n from root where n is not null").fetchall()) == [
        (NEAR,),
        (LENGTH - 1,),
        (LENGTH,),
    ]
    chain.sql(f"delete from root using tc where tc.x = {LENGTH - 1} and tc.y = root.n")
    assert chain.query("select count(*) from root").fetchall() == [(3,)]


NOT_RESTRICTED = {
    f"with recursive r (x, y) as ({LEFT}) select * from r where x > 5": "nothing is given where l0 is read",
    f"with recursive r (x, y) as ({LEFT}) select p.y from r p, r q where p.x = 1": "nothing is given",
    f"with recursive r (x, y) as ({LEFT.replace('union', 'union all')}) select * from r where x = 1": (
        "it counts repeated rows (UNION ALL)"
    ),
    f"with mutually recursive (return at recursion limit 9) r (x int, y int) as ({LEFT})"
    " select * from r where x = 1": "its number of rounds is limited",
    f"with mutually recursive (error at recursion limit 9999) r (x int, y int) as ({LEFT})"
    " select * from r where x = 1": "its number of rounds is limited",
    "with mutually recursive r (x int, n bigint) as (select a, count(*) from edge left join r on b = x"
    " group by a) select * from r where x = 1": "it counts repeated rows",
    f"with mutually recursive r (x int, y int) as ({LEFT} except select 1, 2) select * from r where x = 1": (
        "it counts repeated rows"
    ),
    f"with recursive r (x, y) as ({LEFT} where e.b not in (select n from root)) select * from r"
    " where x = 1": "it takes rows away (NOT, EXCEPT or an outer join)",
    "with mutually recursive r (x int, y int) as (select a, b from edge union select x, max(y) from r"
    " group by x) select * from r where x = 1": "it aggregates",
    "with recursive r (n) as (select 1 union select b from r join edge on a = n)"
    " select * from r where n = 7": (
        "it starts from few rows, and what is asked for would have to be found too"
    ),
    "with recursive r (x, d) as (select a, 0 from edge union select x, d + 1 from r where d < 3)"
    " select * from r where d = 2": "it is asked for as a whole in a rule for l0",
    f"with recursive r (x, y) as ({LEFT}) select r.y from r join edge on r.x = edge.a": "nothing is given",
    f"with recursive r (x, y) as ({LEFT} where 9 / r.x > 1) select * from r where x = 1": (
        "a test of its rows may fail"
    ),
    "with recursive r (x, y) as (select a, b from edge union select r.x, 9 / e.b from r, edge e"
    " where e.a = r.y) select * from r where x = 1": "it computes what may fail",
}


@pytest.mark.parametrize("query", NOT_RESTRICTED)
def test_what_is_computed_as_a_whole(chain: kpg.Database, query: str) -> None:
    text = chain.explain(query, "magic")
    assert text.startswith(f"recursion l0: as a whole: {NOT_RESTRICTED[query]}"), text
    assert text.splitlines()[0] in chain.explain(query)


def test_explain_shows_rules(chain: kpg.Database) -> None:
    closure(
        chain,
        "select a, b from edge union select e.a, f.b from edge e, r, edge f"
        " where e.b = r.x and f.a - 1 = r.y",
    )
    text = "\n".join(row[0] for row in chain.query("explain magic select * from tc where x = 7").fetchall())
    assert text == (
        "recursion l0: from what is asked, by magic sets; #0 from 7\n"
        "  l0[bf]: magic sets\n"
        "  demand l0[bf](@ask0) :- seed l0[bf](@ask0).\n"
        "  l0[bf](v0, v1) :- demand l0[bf](v0), edge 0(v0, v1).\n"
        "  demand l0[bf](v3) :- demand l0[bf](v2), edge 0(v2, v3).\n"
        "  l0[bf](v2, v8) :- demand l0[bf](v2), edge 0(v2, v3), l0[bf](v3, v6), edge 0(v7, v8),"
        " $scalar0(v6, v7) = 1.\n"
        "  answer l0[bf](c0, c1) :- seed l0[bf](c0), l0[bf](c0, c1).\n"
        "  $scalar0(#0, ...) is (#1 - 1) = #0"
    )


def test_nothing_fails_that_the_query_does_not_need(chain: kpg.Database) -> None:
    """Demand is not made by what may fail: 3000 / (a - ...) is an error only if the answers need it."""
    quotient = f"(select a, b, 3000 / (a - {NEAR + 3}) as q from edge)"
    step = f"select e.a, r.y from {quotient} e, r where e.b = r.x and e.q <> 0 and r.y > {LENGTH}"
    base = f"select a, b from edge where b > {LENGTH - 2}"
    closure(chain, f"{base} union {step}")
    assert chain.query(f"select y from tc where x = {LENGTH - 1}").fetchall() == [(LENGTH,)]
    assert chain.query(f"select y from tc where x = {NEAR}").fetchall() == []
    assert "from what is asked" in chain.explain(f"select y from tc where x = {NEAR}")


def test_null_is_never_asked_for(chain: kpg.Database) -> None:
    chain.sql("insert into edge values (null, 1), (8, null)")
    chain.sql("delete from edge where a > 8; delete from edge where a = 8 and b = 9")
    closure(chain, RIGHT)
    assert sorted(chain.query("select y from tc where x = 7").fetchall(), key=repr) == [(8,), (None,)]
    assert chain.query("select * from tc where x = null").fetchall() == []
    assert len(chain.query("select * from tc where x is null").fetchall()) == 1 + 7 + 1
    assert chain.query("select n, y from root left join tc on x = n where n is null").fetchall() == [
        (None, None)
    ]
    assert sorted(chain.query("select x from tc where y = 2").fetchall(), key=repr) == [(0,), (1,), (None,)]


def test_text_and_dates_can_be_asked_for() -> None:
    with kpg.connect() as db:
        ask_for_text_and_dates(db)


def ask_for_text_and_dates(db: kpg.Database) -> None:
    db.sql("create table flight (origin varchar(3), goal text, day date)")
    db.insert("flight", [(f"A{i}", f"A{i + 1}", datetime.date(2020, 1, 1)) for i in range(50)])
    db.sql(
        "create view trip as with recursive r (origin, goal, day) as (select origin::text, goal, day"
        " from flight"
        " union select r.origin, f.goal, f.day from r join flight f on f.origin = r.goal) select * from r"
    )
    query = "select goal from trip where origin = 'A48' and day = '2020-01-01'"
    assert sorted(db.query(query).fetchall()) == [("A49",), ("A50",)]
    assert "from what is asked" in db.explain(query)
