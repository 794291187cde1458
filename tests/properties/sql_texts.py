"""Texts that are nearly SQL: statements of our own, with words left out, repeated, exchanged and put in.

Every text gives rows or an error of kpg's that names a place, whatever it is.
"""

import random
import re
from collections.abc import Sequence
from typing import Final

SCHEMA: Final = (
    "create table t (a int, b text, c decimal(8, 2), d date)",
    "create table u (a int primary key, f double precision, g boolean not null, h timestamp)",
    "insert into t values (1, 'x', 1.50, '2001-01-01'), (2, null, null, null), (2, 'y', 0, '1999-12-31')",
    "insert into u values (1, 0.5, true, '2001-01-01 10:00'), (3, null, false, null)",
    "create view w as select a, count(*) as n from t group by a",
    "create materialized view m as select t.a, f from t join u on t.a = u.a",
)
SEEDS: Final = (
    "select * from t",
    "select a, b as x, t.c from t where a > 1 and b like 'x%' or not (c is null) order by a desc limit 3",
    "select distinct on (a) a, b from t order by a, b",
    "select t.a, u.f from t join u on t.a = u.a left join w on w.a = t.a where u.g",
    "select * from t natural join u cross join (values (1), (2)) v(z)",
    "select a from t full join u using (a) where a in (1, 2) and b not in ('x', 'z')",
    "select a, sum(c), count(distinct b) filter (where a > 1) from t group by a having count(*) > 0",
    "select case a when 1 then 'one' else 'many' end, coalesce(b, 'none'), nullif(a, 2) from t",
    "select cast(a as text) || '!', c::int, -a + 2 * (3 - a) % 5 from t",
    "with q as (select a from t), r (x) as (select a + 1 from q) select * from q, r where x = a",
    "with recursive r (n) as (values (1) union select n * 3 + 1 from r where n < 50) select * from r",
    "with mutually recursive e (n int) as (select 1 union select n * 3 + 1 from e where n < 30) table e",
    "select a from t union all select a from u except select 1 intersect select 2",
    "select exists (select 1 from u where u.a = t.a), (select max(f) from u), a = any (select a from u)",
    "select * from t, lateral (select f from u where u.a = t.a) l",
    "select extract(year from d), date_trunc('month', h), d + interval '1 month' from t, u",
    "select substring(b from 1 for 2), trim(both 'x' from b), position('x' in b), b ilike '_' from t",
    "select a between 1 and 2, (a, b) = (1, 'x'), b is distinct from 'x', g is true from t, u",
    "select 1, -1.5, 1e3, 'it''s', null, true, date '2001-01-01', interval '2 days', \"a\" from t",
    "values (1, 'a'), (2, null) order by 1 limit 1 offset 1",
    "select string_agg(b, ',' order by b), avg(c), stddev(a), bool_and(a > 0) from t",
    "insert into t values (1, 'x', 2.5, null), (7, 'y', 1, '2000-02-29')",
    "insert into t (a, b) select a, 'n' from u where g",
    "insert into u values (1, 1, true, null) on conflict (a) do update set f = excluded.f + u.f where u.g",
    "insert into u (a, g) values (9, false) on conflict do nothing",
    "update t set a = a + 1, b = upper(b) where a < 2",
    "update t set c = u.f from u where u.a = t.a and u.f is not null",
    "delete from t using u where t.a = u.a",
    "delete from t where a = 1",
    "create table n (x int primary key, y varchar(10) not null, z numeric(6, 2))",
    "create table k as select a, b from t where a = 1",
    "create view v (x, y) as select a, b from t",
    "create materialized view mv as select b, count(*) from t group by b",
    "drop view if exists w",
    "drop table k",
    "explain select * from t join u on t.a = u.a",
    "explain logical select a from t where a = 1",
    "describe t",
    "begin",
    "rollback",
    "verify view m",
    "show tables",
    "select generate_series(1, 3), * from t",
    "select row_number() over (partition by a order by b) from t",
    "select a from t group by grouping sets ((a), ()) order by 1",
    "select count(*) from (select a from t order by a limit 2) s where a <> 1 offset 0",
)
POOL: Final = (
    *[
        "(",
        ")",
        ",",
        ";",
        ".",
        "*",
        "+",
        "-",
        "/",
        "%",
        "=",
        "<>",
        "<",
        ">",
        "<=",
        ">=",
        "||",
        "::",
        "[",
        "]",
        ":",
        "'",
        '"',
        "$1",
        "?",
        "--",
        "/*",
        "*/",
        "^",
        "~",
        "!",
    ],
    *[
        "select",
        "from",
        "where",
        "group",
        "by",
        "having",
        "order",
        "limit",
        "offset",
        "union",
        "all",
        "distinct",
        "on",
        "using",
        "join",
        "left",
    ],
    *[
        "with",
        "recursive",
        "as",
        "values",
        "insert",
        "into",
        "update",
        "set",
        "delete",
        "create",
        "table",
        "view",
        "materialized",
        "drop",
        "if",
    ],
    *[
        "exists",
        "not",
        "null",
        "in",
        "is",
        "like",
        "between",
        "and",
        "or",
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast",
        "interval",
        "date",
        "any",
        "over",
    ],
    *[
        "primary",
        "key",
        "default",
        "references",
        "check",
        "lateral",
        "natural",
        "cross",
        "full",
        "outer",
        "inner",
        "filter",
        "within",
        "array",
    ],
    *[
        "0",
        "1",
        "2.5",
        "1e9",
        "99999999999999999999",
        "'x'",
        "''",
        "'it''s'",
        "a",
        "b",
        "t",
        "u",
        "x.y",
        "f()",
        "count(*)",
        "true",
        "int",
        "text",
    ],
)
WORDS: Final = re.compile(r"\s*(\"[^\"]*\"|'(?:[^']|'')*'|\w+|\S)")


def words_of(text: str) -> list[str]:
    """The text's words and signs."""
    return WORDS.findall(text)


def mutated(pick: random.Random, seeds: Sequence[str] = SEEDS) -> str:
    """A seed with some words changed."""
    words = words_of(pick.choice(seeds))
    for _ in range(pick.choice((1, 1, 1, 2, 2, 3, 5))):
        place = pick.randrange(len(words) + 1)
        match pick.randrange(8):
            case 0 | 1:
                del words[place : place + pick.choice((1, 1, 2, 4))]
            case 2:
                words[place:place] = words[place : place + pick.choice((1, 2, 3))]
            case 3:
                words[place : place + 2] = reversed(words[place : place + 2])
            case 4:
                words[place : place + 1] = [pick.choice(POOL)]
            case 5:
                words.insert(place, pick.choice(POOL))
            case 6:
                other = words_of(pick.choice(seeds))
                words[place:] = other[pick.randrange(len(other)) :]
            case _:
                other = words_of(pick.choice(seeds))
                start = pick.randrange(len(other))
                words[place : place + 1] = other[start : start + pick.randint(1, 5)]
        if not words:
            words = words_of(pick.choice(seeds))
    return " ".join(words)
