"""What else may happen to a database: a life has some themes, each with what it sets up first and actions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numpy.random import Generator

import kpg
from tests.properties.crash_actions import Action, Side, change, sql, together


@dataclass(frozen=True)
class Theme:
    """Statements for the beginning, and who draws actions."""

    start: Sequence[str]
    draw: Callable[[Generator], Action]


def implicit(*texts: str) -> Action:
    """Statements that came together, as a server has them: one transaction, without a word of it."""

    def run(side: Side) -> None:
        transactions = side.db._engine.transactions
        transactions.begin()
        transactions.is_implicit = True
        try:
            for text in texts:
                side.db.sql(text)
        except kpg.Error:
            transactions.rollback()
            raise
        transactions.commit()

    return run


def one_of(random: Generator, *texts: str) -> Action:
    return sql(texts[int(random.integers(len(texts)))])


def some(random: Generator, texts: Sequence[str]) -> list[str]:
    return [texts[place] for place in random.integers(len(texts), size=int(random.integers(1, 4)))]


def drawn(random: Generator, texts: Sequence[str]) -> Action:
    """One of the statements, or some in one transaction, which may end in any way."""
    kind = random.random()
    if kind < 0.6:
        return one_of(random, *texts)
    if kind < 0.75:
        return implicit(*some(random, texts), change(random))
    if kind < 0.85:
        return together(*some(random, texts), "savepoint p", *some(random, texts), "rollback to p")
    return together(change(random), *some(random, texts), end="commit" if kind < 0.95 else "rollback")


def roles(random: Generator) -> Action:
    n, m = (int(one) for one in random.integers(3, size=2))
    right = ("select", "insert", "update", "delete", "all", "select (k), update (v)")[int(random.integers(6))]
    if random.random() < 0.2:
        return together(f"set role r{n}", change(random), change(random), "reset role")
    return drawn(
        random,
        (
            f"create role r{n}",
            f"create role r{n} login password 'secret{m}'",
            f"alter role r{n} createdb",
            f"drop role if exists r{n}",
            f"grant {right} on t to r{n}",
            f"grant {right} on t to r{n} with grant option",
            f"revoke {right} on t from r{n} cascade",
            f"grant select, insert on all tables in schema public to r{n}",
            f"grant usage on sequence s to r{n}",
            f"grant r{n} to r{m}",
            f"revoke r{n} from r{m}",
            f"alter table u owner to r{n}",
            "alter table u owner to current_user",
            f"alter default privileges grant select on tables to r{n}",
            f"create table owned{n} as select k from t",
            f"drop table if exists owned{n}",
            f"reassign owned by r{n} to r{m}",
            f"drop owned by r{n}",
        ),
    )


ROLES = Theme(("create role r0", "create role r1", "grant select, insert on t to r0"), roles)


def functions(random: Generator) -> Action:
    k, g = int(random.integers(12)), int(random.integers(1, 5))
    return drawn(
        random,
        (
            f"select shifted({1000 * k + g})",
            f"insert into t select {100 + k} + x, x % 3, x from counted({g}) x",
            f"create or replace function shifted(n int) returns int language sql as 'select n % 7 + {g}'",
            "create or replace materialized view digit as select k, shifted(k * 17) d from t",
            "create or replace materialized view product as select g, times(v % 3 + 1) p from t group by g",
            "drop view if exists digit",
            "drop view if exists product",
            f"update shown set v = v + 1 where k < {k}",
            f"insert into shown values ({k}, {g})",
            change(random),
        ),
    )


FUNCTIONS = Theme(
    (
        "create function shifted(n int) returns int language sql as 'select n % 7'",
        "create function counted(many int) returns setof int language sql as "
        "'select x from generate_series(1, many) x'",
        "create aggregate times (int) (sfunc = int4mul, stype = int, initcond = '1')",
        "create materialized view digit as select k, shifted(k * 17) d from t",
        "create view shown as select k, v from t",
    ),
    functions,
)


def parted(random: Generator) -> Action:
    n, k, g = int(random.integers(4)), int(random.integers(40)), int(random.integers(4))
    return drawn(
        random,
        (
            f"insert into p values ({k}, {g}, 'x'), ({k + 11}, {g}, null)",
            f"insert into p select n, n % 4, 'many' from generate_series({k}, {k + 25}) s(n)",
            f"delete from p where g = {g}",
            f"update p set name = name || '{g}' where k > {k}",
            f"create table if not exists p{n} partition of p for values from ({10 * n}) to ({10 * n + 10})",
            f"drop table if exists p{n}",
            f"truncate p{n}",
            "create table if not exists pd partition of p default",
            "drop table if exists pd",
            f"alter table p add column c{g} int default {k}",
            f"alter table p drop column if exists c{g}",
            "create or replace materialized view parts as "
            "select g, count(*) n, max(name) m from p group by g",
            "drop view if exists parts",
        ),
    )


PARTED = Theme(
    (
        "create table p (k int, g int, name text) partition by range (k)",
        "create table p0 partition of p for values from (0) to (10)",
        "create table p1 partition of p for values from (10) to (20)",
        "create table pd partition of p default",
        "create materialized view parts as select g, count(*) n, max(name) m from p group by g",
    ),
    parted,
)

EGO = (
    "sum(value) from (select k, g, v from t) last {n} over follows",
    "max(value) from (select k, g, v from t) last {n} over follows in",
    "count(value) from (select k, g, v from t) range 10 over follows both",
    "top_k(value, 2) from (select k, g, v from t) last 2 over follows out 2",
    "avg(value) from (select k, g, v from t) over follows where v > 1",
    "min(value) from (select k, g, v from t) last 3 over follows with (mode = push)",
)


def egos(random: Generator) -> Action:
    n, a, b = int(random.integers(1, 4)), int(random.integers(5)), int(random.integers(5))
    text = EGO[int(random.integers(len(EGO)))].format(n=n)
    return drawn(
        random,
        (
            f"insert into follows values ({a}, {b}, {n}), ({b}, {n}, {a})",
            f"delete from follows where who = {a}",
            f"update follows set whom = {b} where v = {n}",
            f"create ego view e{n} as {text}",
            f"create ego view e{n} as {text}",
            f"drop view if exists e{n} cascade",
            f"create or replace materialized view over_e as "
            f"select value, count(*) c from e{n} group by value",
            "drop view if exists over_e",
            change(random),
            change(random),
            "truncate follows",
        ),
    )


EGOS = Theme(
    (
        "create table follows (who int, whom int, v int)",
        "insert into follows values (1, 2, 1), (1, 3, 2), (2, 1, 3), (3, 0, 1), (0, 1, 2)",
        "create ego view e1 as sum(value) from (select k, g, v from t) last 2 over follows",
    ),
    egos,
)


def sessions(random: Generator) -> Action:
    n, k = int(random.integers(3)), int(random.integers(12))
    return drawn(
        random,
        (
            f"create temp table tmp{n} as select k, v from t",
            f"create temp table if not exists tmp{n} (k serial primary key, v int) on commit delete rows",
            f"insert into tmp{n} (v) values ({k})",
            f"insert into t select k + 200, 1, v from tmp{n} where v < 100 on conflict do nothing",
            f"drop table if exists tmp{n}",
            f"create temp view seen{n} as select count(*) c from t",
            f"create materialized view of_tmp{n} as select count(*) c from tmp{n}",
            f"insert into u (name) select 'c' || c from seen{n}",
            "select nextval('s'), nextval('s')",
            f"insert into t values (nextval('s') % 1000, 1, {k})",
            f"select setval('s', {k + 1}, false)",
            "alter sequence s restart",
            f"alter sequence s increment by {n + 1}",
            "create temp sequence q",
            "create table if not exists ident (k int generated always as identity, v int, "
            "w int generated always as (v * 2) stored)",
            f"insert into ident (v) values ({k}), ({n})",
            f"update ident set v = v + {n}",
            "drop table if exists ident",
            change(random),
        ),
    )


SESSIONS = Theme((), sessions)


def types(random: Generator) -> Action:
    n, k = int(random.integers(3)), int(random.integers(12))
    return drawn(
        random,
        (
            f"alter type mood add value if not exists 'm{k}'",
            f"alter type mood add value 'm{k}' before 'good'",
            f"alter type mood rename value 'm{k}' to 'n{n}'",
            "alter type mood rename to moods",
            "alter type moods rename to mood",
            f"insert into felt values ({k}, 'good', ({n}, 'a'), {k}, array[{n}, {k}], '{{\"a\": {k}}}')",
            f"insert into felt values ({k}, 'm{k}', null, null, null, null)",
            f"delete from felt where k < {k}",
            f"update felt set mood = 'bad', doc['b'] = '{n}' where k > {k}",
            f"alter type pair add attribute c{n} int",
            f"alter type pair drop attribute if exists c{n}",
            f"alter domain small add constraint less{n} check (value < {90 + n})",
            f"alter domain small drop constraint if exists less{n}",
            f"alter domain small set default {n}",
            "create or replace materialized view moody as select mood, count(*) n, max(doc) d "
            "from felt group by mood",
            "drop view if exists moody",
            "alter table felt alter column small type bigint",
            f"create type range{n} as (lower int, upper int)",
            f"drop type if exists range{n}",
        ),
    )


TYPES = Theme(
    (
        "create type mood as enum ('bad', 'good')",
        "create type pair as (a int, b text)",
        "create domain small as int check (value < 100)",
        "create table felt (k int, mood mood, pair pair, small small, list int[], doc jsonb)",
        "create materialized view moody as select mood, count(*) n from felt group by mood",
    ),
    types,
)

LATTICE = (
    """
.decl arc(a: number, b: number, w: number) .input arc
.type Far <: number
.lattice Far<> { Bottom -> 1000000, Lub -> min(_, _), Glb -> max(_, _) }
.decl dist(a: number, d: Far<>) .output dist
dist(1, 0). dist(b, d + w) :- dist(a, d), arc(a, b, w), d < 100.
""",
    """
.decl arc(a: number, b: number, w: number) .input arc
.decl dist(a: number, d: number) .output dist
dist(1, 0). dist(b, min(d + w)) :- dist(a, d), arc(a, b, w).
.decl pick(a: number, b: number) choice-domain a .output pick
pick(a, b) :- arc(a, b, _).
.decl best(a: number, w: number) .output best
best(a, w) :- arc(a, _, w). best(a, w1) <= best(a, w2) :- w1 <= w2.
""",
    """
.decl arc(a: number, b: number, w: number) .input arc
.decl same(a: number, b: number) eqrel .output same
same(a, b) :- arc(a, b, 1).
.decl dist(a: number, d: number) .output dist
dist(a, __ITERATION__()) :- arc(1, a, _).
dist(b, __ITERATION__()) :- dist(a, _), arc(a, b, _), __ITERATION__() < 5.
.decl num(n: number, a: number) .output num
num(autoinc(), a) :- arc(a, _, _).
""",
)


def lattices(random: Generator) -> Action:
    a, b, w = (int(one) for one in random.integers(1, 6, 3))
    kind, text = random.random(), LATTICE[int(random.integers(len(LATTICE)))]
    if kind < 0.2:
        return lambda side: None if "arc" in side.db.names() else side.db.datalog(text)
    if kind < 0.7:
        updates = f"+arc({a}, {b}, {w}). +arc({b}, {w}, {a}). -arc({w}, {a}, {b})."
        return lambda side: side.db.datalog(updates) if "arc" in side.db.names() else None
    return one_of(
        random,
        f"insert into arc values ({a}, {b}, {w})",
        f"delete from arc where a = {a}",
        "create or replace materialized view dists as select d, count(*) n from dist group by d",
        "drop view if exists dists",
        "drop view if exists dist cascade",
        change(random),
    )


LATTICES = Theme((), lattices)

SHAPES = (
    "select g, percentile_cont(0.5) within group (order by v) p, mode() within group (order by v) m "
    "from t group by g",
    "select g, string_agg(name, ',' order by t.k, name) names, count(distinct name) n "
    "from t left join u on t.g = u.k group by g",
    "select k, ntile(3) over (order by v, k) q, first_value(v) over (partition by g order by k desc) f, "
    "sum(v) over (order by k rows between 2 preceding and 1 following) s from t",
    "select k, v, percent_rank() over (partition by g order by v) p, dense_rank() over (order by v) d from t",
    "select g, k, count(*) n, grouping(g, k) o from t group by grouping sets ((g), (k), ())",
    "select coalesce(t.k, u.k) k, t.v, u.name from t full join u on t.k = u.k",
    "select t.k, x.name from t, lateral (select name from u where u.k <= t.g order by k desc limit 1) x",
    "select k from t except all select g from t",
    "select g from t intersect all select v from t",
    "select k, v from t where v >= all (select v from t o where o.g = t.g)",
    "select distinct on (g) g, k, v from t order by g, v desc, k",
    "select g, jsonb_agg(v order by k) j, bool_or(v > 5) b, stddev(v) d, corr(k, v) c from t group by g",
    "with recursive r(k, n) as (select k, 0 from t where v = 1 union all "
    "select t.k, n + 1 from r join t on t.g = r.k where n < 3) select k, count(*) c from r group by k",
    "select k, n from t, generate_series(1, g) s(n)",
    "select k, (select max(v) from t o where o.k < t.k) m, exists (select 1 from u where u.k = t.g) e from t",
    "select upper(left(name, 1)) f, min(name) a, array_agg(distinct length(name)) l from u group by 1",
    "select g, sum(v) filter (where k % 2 = 0) s, every(v < 9) e from t group by g having sum(v) > 3",
    "select k, v from t order by v desc, k offset 1 limit 4",
    "select g, count(*) n from t group by g order by n desc, g limit 2",
    "select t.g, o.g h, count(*) n from t join t o on t.v = o.v and t.k < o.k group by t.g, o.g",
    "select name, row_number() over (order by name nulls first, k) r from u",
    "select g, sum(v * 1.5) s, sum(v::float8) f, max(repeat('x', v)) t from t group by g",
)


def shapes(random: Generator) -> Action:
    n, m = (int(one) for one in random.integers(4, size=2))
    text = SHAPES[int(random.integers(len(SHAPES)))]
    if random.random() < 0.7:
        return sql(change(random)) if random.random() < 0.7 else together(*(change(random) for _ in range(3)))
    return drawn(
        random,
        (
            f"create materialized view s{n} as {text}",
            f"create or replace materialized view s{n} as {text}",
            f"create or replace materialized view s{n} as {text}",
            f"create materialized view over{n} as select count(*) n from s{m}",
            f"drop view if exists s{n}",
            f"drop view if exists over{n}",
        ),
    )


def shaped() -> Theme:
    made = (f"create materialized view s{n} as {text}" for n, text in enumerate(SHAPES[::5]))
    return Theme((*made, "insert into u (name) values ('ab'), ('b'), (null), ('aa')"), shapes)


THEMES = (shaped(), ROLES, FUNCTIONS, PARTED, EGOS, SESSIONS, TYPES, LATTICES)


def themes(random: Generator) -> list[Theme]:
    """Those of a life."""
    places = random.permutation(len(THEMES))[: int(random.integers(1, 3))]
    return [THEMES[place] for place in places]
