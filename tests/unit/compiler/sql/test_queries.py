"""Small queries over small tables full of NULLs and duplicates, against DuckDB."""

import random
from collections.abc import Iterator

import duckdb
import pytest

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from tests.unit.compiler.sql.oracle import Data, assert_same, catalog_of, check, database_of, model_rows

TABLES = """
create table r (k integer primary key, a integer, b integer, s varchar, d date, p decimal(8, 2));
create table q (a integer, b integer not null, c integer);
create table u (a integer, x integer);
create table e (a integer, x integer)
"""


def random_data(seed: int) -> Data:
    """Rows with few distinct values, so that they meet, repeat and are often NULL."""
    pick = random.Random(seed)

    def small() -> int | None:
        return pick.choice([None, 1, 2, 3, 4])

    texts = [None, "", "apple", "Apricot", "a%b", "banana"]
    days = [None, "1994-01-01", "1994-02-28", "1995-12-31"]
    prices = [None, "0.00", "1.50", "-2.25", "100.00"]
    data: dict[str, list[tuple[object, ...]]] = {
        "r": [
            (k, small(), small(), pick.choice(texts), pick.choice(days), pick.choice(prices))
            for k in range(9)
        ],
        "q": [(small(), pick.randint(1, 4), small()) for _ in range(8)],
        "u": [(small(), small()) for _ in range(7)],
        "e": [],
    }
    with database_of(TABLES, data) as connection:
        return {table: connection.execute(f"select * from {table}").fetchall() for table in data}


SEEDS = (1, 2, 3)
CATALOG = catalog_of(TABLES)
Oracle = tuple[Catalog, list[tuple[Data, duckdb.DuckDBPyConnection]]]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    databases = [(data, database_of(TABLES, data)) for data in map(random_data, SEEDS)]
    yield CATALOG, databases
    for _, connection in databases:
        connection.close()


def agree(query: str, oracle: Oracle) -> None:
    catalog, databases = oracle
    for data, connection in databases:
        check(query, catalog, data, connection)


SIMPLE = [
    "select * from r",
    "select x, b from u, q",
    "select 1, 'x', null, true, 1.5, cast(date '1994-01-31' + interval '1' month as date)",
    "select a + 1, -a, a * 2.5, b % 2, abs(a - 3) from q",
    "select r.*, q.c from r join q on r.a = q.a and r.b < q.b",
    "select * from r where a = 1 or (b > 2 and not s = 'apple')",
    "select * from r where a is null or b is not null and s is not distinct from null",
    "select a is distinct from b, (a > b) is true, (a > b) is not false from r",
    "select * from r where s like 'a%' or upper(s) like 'AP%'",
    "select case a when 1 then 'one' when 2 then null else s end, case when b > 2 then a end from r",
    "select * from r where a in (1, 3, null) or b not in (2, 4)",
    "select * from r where a between 2 and b or p between -1 and 1.5",
    "select coalesce(a, b, 0), nullif(a, b), greatest(a, b), least(a, 2) from r",
    "select upper(s) || '!', length(s), substring(s from 2 for 3) from r",
    "select extract(year from d), extract(month from d), d < date '1994-02-01' - interval '1' day from r",
    "select * from r where d >= '1994-01-01' and d < date '1994-01-01' + interval '3' month",
    "select cast(a as varchar), a::bigint, cast(p as integer), cast('12' as integer), p::double from r",
    "select distinct a from q",
    "select distinct on (a) a, b, c from q order by a, b desc, c",
    "select x.a as first, y.a from q x join q y on x.b = y.b and x.a <> y.a",
    "select (a, b) = (1, 2), (a, b) in ((1, 2), (3, 4)) from q",
    "values (1, 'a'), (2, null), (null, 'c')",
    "select * from (values (1, date '1994-01-01'), (2, null)) as v(n, day) where n > 1 or day is not null",
    "select concat(a, '-', s, null, p, d) from r",
    "select s || a, a || s, 'k' || k, k || '!', s || p || d, null || k, 1 + k || 'x', true || s from r",
    "select a as b, b as a from q order by a",
    "select a, b from q order by 2 desc, a nulls first limit 3 offset 1",
]
JOINS = [
    "select * from r left join q on r.a = q.a",
    "select * from r left join q on r.a = q.a and r.b > 2 and q.b < 4",
    "select * from u left join q on u.a = q.a",
    "select * from u right join q on u.a = q.a and u.x > 1",
    "select * from u full join q on u.a = q.a and u.x < q.b",
    "select * from r full outer join u on r.a = u.a",
    "select * from u left join e on u.a = e.a left join q on q.a = e.a",
    "select * from q left join r on q.c = r.k left join u on u.a = r.a",
    "select * from u left join (r join q on r.b = q.b) on u.a = r.a",
    "select * from u left join q on u.x > q.b",
    "select * from u left join q on true",
    "select a, x, b from u join q using (a)",
    "select * from u full join q using (a)",
    "select * from u natural join q",
    "select * from u left join q using (a) where b is null",
    "select * from u cross join e",
    "select u.a, v.m from u, lateral (select max(b) as m from q where q.a = u.a) v",
    "select v.n from u, lateral (select u.a + 1 as n) v where v.n < (select max(b) from q)",
    "select u.x, v.n from u, lateral (select u.a + 1 as n) v where v.n + u.x < (select max(b) from q)",
    "select a, (select count(*) from (select u.a + 1 as n) v where v.n < (select max(b) from q)) from u",
    """select a, (select sum(n) from q, (select u.a + 1 as n) v where v.n < (select avg(c) from q) + q.b)
        from u""",
    """select a, (select count(*) from (select u.a + c as n from q) v where v.n < (select max(b) from q))
        from u""",
    """select * from u where x in (
        select v.n from (select u.a + c as n, b from q) v where v.b < (select max(a) from r))""",
    """select r.k, v.n from r, lateral (select r.a + c as n from q where q.b = r.b) v
        where v.n = (select max(c) from q where q.b = v.n) or v.n > (select min(x) from u where u.a = r.a)""",
    "select u.a, v.b from u left join lateral (select b from q where q.a = u.a order by b limit 1) v on true",
    "select u.a, v.b from u join lateral (select b from q where q.a < u.a union all select u.x) v on v.b > 1",
]
GROUPS = [
    "select count(*), count(a), sum(a), min(s), max(d), avg(p) from r",
    "select count(*), sum(a), max(x) from e",
    "select count(distinct (a, c)), count(distinct (a, b, c)) from q",
    "select a, count(distinct (b, c)), count(distinct b), sum(distinct c), count(*) from q group by a",
    "select count(distinct (a, x)) from e",
    "select a, count(distinct (b, c)) filter (where c > 1) from q group by a",
    "select a, count(*) from e group by a",
    "select a, count(*), sum(b), avg(c), min(c) from q group by a",
    "select a + 1, sum(b) + 1, count(*) * 2 from q group by a + 1 having sum(b) > 2",
    "select b, a from q group by 2, 1 order by count(*) desc, a, b limit 3",
    "select a as g, count(distinct b), sum(distinct c) from q group by g",
    "select count(*) filter (where a > 1), sum(b) filter (where c is null) from q",
    "select bool_and(a > 1), bool_or(b > 3) from q",
    "select a, stddev(b), stddev_samp(c), stddev_pop(b + 0.5) from q group by a",
    "select a, variance(c), var_pop(b), var_samp(b) from q group by a",
    "select stddev_pop(p), var_samp(p) filter (where p > 0) from r",
    "select variance(a), stddev_pop(a) from e",
    "select a, string_agg(s, ',' order by s), string_agg(distinct s, ';' order by s) from r group by a",
    "select a from q group by a having count(*) > 1 and min(b) < 3",
    "select sum(n) from (select count(*) as n from q group by a) t",
    "select a, sum(b) from q group by a order by sum(b) desc, a nulls last limit 2",
]
DETERMINED = [
    (
        "select k, s, a + b, count(*) from r group by k",
        "select k, s, a + b, count(*) from r group by k, s, a, b",
    ),
    (
        "select s, count(q.b) from r left join q on r.a = q.a group by r.k having p > 0 order by d, k",
        "select s, count(q.b) from r left join q on r.a = q.a group by r.k, s, p, d having p > 0",
    ),
    (
        "select r.s, count(*) from q left join r on r.k = q.c group by r.k",
        "select r.s, count(*) from q left join r on r.k = q.c group by r.k, r.s",
    ),
    (
        "select (select max(b) from q where q.a = r.a) from r group by k",
        "select (select max(b) from q where q.a = r.a) from r group by k, a",
    ),
]
ROWS_WITHOUT_NULLS = [
    (
        "select count(distinct a, c) from q",
        "select count(*) from (select distinct a, c from q where a is not null and c is not null)",
    ),
    (
        "select b, count(distinct a, c) filter (where a > 1) from q group by b",
        """select b, count(distinct (a, c)) filter (where a > 1 and a is not null and c is not null)
        from q group by b""",
    ),
]
SETS = [
    "select a from q union select x from u",
    "select a from q union all select x from u order by 1 limit 5",
    "select a, b from q intersect select a, x from u",
    "select a from q intersect all select x from u",
    "select a from q except select x from u",
    "select a from q except all select x from u",
    "select a from q union select null union select 7.5",
    "(select a from q order by a limit 2) union all (select x from u order by x limit 2)",
]
WITH = [
    "with t as (select a, count(*) as n from q group by a) select x.a, y.n from t x, t y where x.n = y.n",
    "with t(m) as (select max(b) from q), w as (select m + 1 as n from t) select * from t, w",
    "select u.a, (with t as (select b from q where q.a = u.a) select min(x.b + y.b) from t x, t y) from u",
]
SUBQUERIES = [
    "select * from u where exists (select * from q where q.a = u.a)",
    "select * from u where not exists (select * from q where q.a = u.a)",
    "select * from r where exists (select * from q where q.a = r.a and q.b > r.b)",
    "select * from u where not exists (select * from q where q.a = u.a and q.b > u.x)",
    "select * from u where exists (select * from e)",
    "select * from u where not exists (select * from e) and exists (select 1 from q where b > 100)",
    "select * from u where a in (select a from q)",
    "select * from u where a not in (select a from q)",
    "select * from u where a not in (select b from q)",
    "select * from u where a not in (select a from e)",
    "select * from u where a in (select c from q where q.b = u.x)",
    "select * from u where a not in (select c from q where q.b = u.x)",
    "select * from r where a not in (select c from q where q.b > r.b)",
    "select * from r where (a, b) in (select a, b from q)",
    "select * from r where (a, b) not in (select a, c from q)",
    "select a, a in (select c from q), a not in (select x from u where u.a = r.a) from r",
    "select a, exists (select * from q where q.a = u.a), x in (1, 2) from u",
    "select * from u where a in (select a from q) or x not in (select c from q)",
    "select * from u where not (exists (select * from q where q.a = u.a) and x > 1)",
    "select a, (select max(b) from q) from u",
    "select a, (select max(b) from q where q.a = u.a), (select count(*) from q where q.a = u.a) from u",
    "select a, (select b from r where k = u.a) from u",
    "select * from u where x > (select avg(b) from q where q.a = u.a)",
    "select * from u where 0 = (select count(*) from q where q.a = u.a)",
    "select * from u where coalesce((select sum(b) from q where q.a = u.a), 0) < 3",
    "select * from u where x = (select max(x) from u v where v.a = u.a)",
    "select * from r, q where r.a = q.a and q.b > (select avg(x) from u where u.a = r.b)",
    "select a from q group by a having sum(b) > (select avg(x) from u)",
    "select a, sum(b) from q group by a having count(*) > (select count(*) from u where u.a = q.a)",
    "select a from q group by a having exists (select * from u where u.a = q.a)",
    "select (select count(*) from u where u.a = q.a) as n, count(*) from q group by 1",
    "select count(*), sum((select max(x) from u where u.a = q.a)) from q",
    "select * from u where x > all (select b from q where q.a = u.a)",
    "select * from u where x <= any (select c from q)",
    "select * from u where x <> all (select c from q where q.b = u.a)",
    "select * from u where x = any (select c from q) is null",
    "select * from u where a > all (select a from e)",
    *(
        f"select * from u where x {comparison} {quantifier} ((select b from q) {operation} (select c from q))"
        for comparison in ("=", "<>", "<", "<=", ">", ">=")
        for quantifier in ("all", "any", "some")
        for operation in ("union", "except", "intersect")
    ),
    "select a, x > all ((select b from q where q.a = u.a) union all (select c from q)) from u",
    "select a, x <= any ((select b from q where q.a = u.a) except all (select c from q)) from u",
    "select a, x in ((select b from q) intersect (select c from q where q.a = u.a)) from u",
    "select * from u where x not in ((select b from q) except (select x from u where x is not null))",
    "select * from u where x <> all (((select b from q) except (select 1)) union (select c from q))",
    "select * from u where (a, x) in ((select a, b from q) union (select c, a from q))",
    "select * from u where x >= all ((select b from q where b < 3))",
    """select * from u where exists (
        select * from q where q.a = u.a and exists (select * from r where r.b = u.x))""",
    """select * from u where exists (
        select * from q where q.a = u.a and q.b > (select avg(r.b) from r where r.a = q.a and r.b < u.x))""",
    """select a, (
        select sum(b) from q where q.a = u.a and q.c in (select r.b from r where r.a = u.x)) from u""",
    """select a, (
        select (select max(r.b) from r where r.a = u.a or r.a = q.c)
        from q where q.a = u.x order by q.b, q.c limit 1) from u""",
    "select * from u where a in (select a from q where b = u.x union select b from r where r.a = u.a)",
    "select * from u where a in (select a from q where b > u.x group by a having count(*) > 1)",
    "select * from u where x in (select b from q where q.a = u.a order by b desc limit 1)",
    "select * from u left join q on u.a = q.a and q.b > (select avg(x) from u)",
    "select * from u left join q on u.a = q.a and exists (select * from r where r.a = q.b)",
    "select * from u left join q on exists (select * from r where r.a = q.b and r.b = u.x)",
    "select * from u full join q on u.a = q.a and q.b in (select r.b from r where r.a = u.x)",
    "select * from u where exists (select * from q left join r on q.a = r.a and r.b = u.x where r.k is null)",
    """select * from (select a, x from u union all select a, b from q) t
        where exists (select * from r where r.a > t.x)""",
    """select * from (select a, x from u union all select a, b from q) t
        where t.a not in (select b from r where r.a < t.x)""",
    """select * from u
        where (select count(*) from q where q.a = u.a) = (select count(*) from r where r.a = u.x)""",
    "select * from u where case when x > 1 then exists (select * from q where q.a = u.a) else true end",
    "select * from u where a = (select min(a) from q) and x > (select min(b) from q where b > a)",
    "select t.n, (select count(*) from u where u.a = t.n) from (select distinct a as n from q) t",
    "select * from u where exists (select a from q where q.a = u.a group by a having sum(b) > u.x)",
    "select * from q where b >= (select max(v.b) from q v where v.a is not distinct from q.a)",
]


@pytest.mark.parametrize("query", [*SIMPLE, *JOINS, *GROUPS, *SETS, *WITH])
def test_query(query: str, oracle: Oracle) -> None:
    agree(query, oracle)


@pytest.mark.parametrize("query", SUBQUERIES)
def test_subquery(query: str, oracle: Oracle) -> None:
    agree(query, oracle)


@pytest.mark.parametrize(("query", "spelt_out"), ROWS_WITHOUT_NULLS)
def test_count_of_distinct_lists_skips_nulls(query: str, spelt_out: str, oracle: Oracle) -> None:
    agree_with(query, spelt_out, oracle)


@pytest.mark.parametrize(("query", "spelt_out"), DETERMINED)
def test_group_by_a_primary_key_determines_the_table(query: str, spelt_out: str, oracle: Oracle) -> None:
    agree_with(query, spelt_out, oracle)


def agree_with(query: str, spelt_out: str, oracle: Oracle) -> None:
    """Asserts that DuckDB answers ``spelt_out`` as kpg answers ``query``."""
    catalog, databases = oracle
    for data, connection in databases:
        rows = model_rows(lower_query(parse_query(query), catalog), data)
        assert_same(rows, connection.execute(spelt_out).fetchall())
