"""What may happen to a database: actions, each of which is there as a whole or not at all.

An action is done to a ``Side``, once to a database in a folder and once to one in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

import kpg
from kpg.api.database import Branch, Database

DATALOG = (
    """
.decl edge(a: number, b: number) .input edge
.decl tc(a: number, b: number) .output tc
tc(a, b) :- edge(a, b). tc(a, c) :- tc(a, b), edge(b, c).
edge(1, 2).
?- tc(1, x).
""",
    """
.decl edge(a: number, b: number) .input edge
.decl tc(a: number, b: number) .output tc
.decl far(a: number, n: number)
far(1, min(0)) :- edge(_, _).
far(b, min(n + 1)) :- far(a, n), edge(a, b).
tc(a, b) :- edge(a, b), !far(b, _). tc(a, n) :- far(a, n).
edge(1, 2). edge(2, 3).
""",
    """
.decl edge(a: number, b: number) .input edge
.decl tc(a: number, b: number) .output tc
.decl lone(a: number) .output lone
.decl deg(a: number, n: number)
deg(a, n) :- edge(a, _), n = count : { edge(a, _) }.
lone(a) :- deg(a, 1). lone(a) :- t(a, _, _), !edge(a, _).
tc(a, b) :- deg(a, n), lone(b), n > 1.
""",
)
VIEWS = (
    "select g, count(*) n, sum(v) s from t group by g",
    "select t.k, u.name from t join u on t.g = u.k",
    "select g, max(v) m from t group by g having count(*) > 1",
    "with recursive r(k) as (select g from t where v > 5 union select (r.k + 1) % 7 from r where r.k < 6) "
    "select k from r",
    "select k, v from t order by v desc, k limit 3",
    "select distinct upper(name) n from u",
    "select k, sum(v) over (partition by g order by k) w, lag(v) over (order by k) l from t",
    "select t.k from t where not exists (select 1 from u where u.k = t.g)",
    "select avg(v) a, array_agg(v order by k) vs from t where g > 0 group by g",
    "select k from t union select k from u except select g from t",
    "select source, position from kpg_positions",
    "select t.k, doubled(t.v) d from t",
    "select t.k, tripled(t.v) d from t where g = 1",
    "select a.k, b.k l from t a join t b on b.v between a.v and a.v + 1",
    "select k from t where now() > timestamptz '2030-01-01' + v * interval '1 day'",
)


@dataclass
class Side:
    """A database, and the branch of it that there may be."""

    db: Database
    branch: Branch | None = None


Action = Callable[[Side], object]


def tripled(x: int) -> int:
    """A function that a database finds in its module."""
    return 3 * x


def sql(text: str) -> Action:
    return lambda side: side.db.sql(text)


def together(*texts: str, end: str = "commit") -> Action:
    def run(side: Side) -> None:
        side.db.sql("begin")
        try:
            for text in texts:
                side.db.sql(text)
        except kpg.Error:
            side.db.sql("rollback")
            raise
        side.db.sql(end)

    return run


def batched(*texts: str) -> Action:
    def run(side: Side) -> None:
        with side.db.batch():
            for text in texts:
                side.db.sql(text)

    return run


def change(random: Generator) -> str:
    """A statement that changes rows; it may violate a key, and then does nothing in both databases."""
    k, g, v = int(random.integers(12)), int(random.integers(4)), int(random.integers(10))
    word = random.choice(["x", "yy", "zzz"]) * int(random.choice([1, 1, 200]))
    return str(
        random.choice(
            [
                f"insert into t values ({k}, {g}, {v})",
                f"insert into t select {k} + 100 * n, {g}, n from generate_series(1, 40) s(n)",
                f"insert into t values ({k}, {g}, {v}) on conflict (k) do update set v = excluded.v",
                f"insert into u (name) values ('{word}'), (null)",
                f"delete from t where g = {g}",
                f"delete from u where k % 3 = {k % 3}",
                f"update t set v = v + 1, g = {g} where k < {k}",
                f"update u set name = '{word}' where k = {k}",
                "truncate t",
                "truncate u restart identity",
                "select nextval('s')",
                f"select setval('s', {100 * k + 1})",
                f"merge into t using u on t.k = u.k when matched then update set v = {v} "
                f"when not matched then insert values (u.k, {g}, {v})",
                f"set position 'topic-{g}' = {v}",
                f"update u set name = name || '{k}' where k > {k}",
            ]
        )
    )


def definition(random: Generator) -> str:
    n, m = int(random.integers(3)), int(random.integers(3))
    return str(
        random.choice(
            [
                f"create table if not exists more{n} (a int, b text default 'd')",
                f"create table made{n} as select k, v from t",
                f"drop table if exists more{n}",
                f"drop table if exists made{n}",
                f"drop table if exists more{n} cascade",
                f"alter table more{n} add column c{m} int default 3",
                f"alter table more{n} drop column c{m}",
                f"alter table more{n} rename column c{m} to c{n}",
                f"alter table more{n} rename to more{m}",
                f"alter table more{n} alter column a type bigint",
                f"alter table more{n} alter column b set default 'e{m}'",
                f"alter table more{n} add constraint small{m} check (a < 100)",
                f"alter table more{n} drop constraint if exists small{m}",
                f"alter table more{n} add primary key (a)",
                f"insert into more{n} (a) values ({m})",
                f"insert into more{n} (a) select k from t",
                f"delete from more{n} where a = {m}",
                f"create materialized view of{n} as select a, count(*) n from more{n} group by a",
                f"drop view if exists of{n}",
                f"create index if not exists i{n} on t (g, v)",
                f"create unique index if not exists x{n} on more{m} (a)",
                f"drop index if exists i{n}",
                f"drop index if exists x{n}",
                f"comment on table t is 'number {n}'",
                f"create sequence if not exists q{n} start 7",
                f"select nextval('q{n}')",
                f"drop sequence if exists q{n}",
                f"create type kind{n} as enum ('a', 'b')",
                f"drop type if exists kind{n}",
                f"create or replace function doubled(x int) returns int language sql return x * {2 + n}",
                f"create schema if not exists other{n}",
                f"create table if not exists other{n}.t "
                "(a int primary key references t (k) on delete cascade)",
                f"insert into other{n}.t select min(k) from t",
                f"drop table if exists other{n}.t",
            ]
        )
    )


def view(random: Generator) -> str:
    n = int(random.integers(5))
    text = str(random.choice(VIEWS))
    return str(
        random.choice(
            [
                f"create materialized view v{n} as {text}",
                f"create materialized view v{n} as {text}",
                f"create or replace materialized view v{n} as {text}",
                f"create materialized view if not exists w{n} as select * from v{(n + 1) % 5}",
                f"create view v{n} as {text}",
                f"drop view if exists v{n}",
                f"drop view if exists v{n} cascade",
            ]
        )
    )


def datalog(random: Generator) -> Action:
    a, b = (int(one) for one in random.integers(1, 5, 2))
    kind = random.random()
    text = DATALOG[int(random.integers(len(DATALOG)))]
    if kind < 0.3:
        return lambda side: None if "edge" in side.db.names() else side.db.datalog(text)
    updates = f"+edge({a}, {b}). -edge({b}, {a})." if kind < 0.7 else f"?- tc({a}, x)."
    if kind < 0.85:
        return lambda side: side.db.datalog(updates) if "edge" in side.db.names() else None
    if kind < 0.9:
        return sql("create or replace materialized view tcs as select a, count(*) n from tc group by a")
    return sql(f"drop view if exists {random.choice(['tc', 'tcs'])} cascade")


def function(side: Side) -> None:
    side.db.create_function("tripled", tripled)


def later(random: Generator) -> Action:
    """The time of the database goes forward, or does not."""
    day = int(random.integers(1, 20))

    def run(side: Side) -> None:
        side.db.advance_to(f"2030-01-{day:02}")

    return run


def from_source(random: Generator) -> Action:
    """Rows with their source's position."""
    k, n = int(random.integers(50, 70)), int(random.integers(1000))

    def run(side: Side) -> None:
        side.db.upsert("t", [(k, n % 4, n % 10), (k + 1, n % 3, 5)], position=("rows", n))

    return run


def branching(random: Generator) -> Action:
    """Begin a branch, change something in it, merge it or discard it."""
    kind, text = random.random(), change(random)

    def run(side: Side) -> Any:
        branch = side.branch
        if branch is None or branch.closed:
            side.branch = side.db.branch()
        elif kind < 0.6:
            return branch.sql(text)
        elif kind < 0.9:
            return branch.merge()
        else:
            branch.discard()
        return None

    return run


def aside(side: Side) -> None:
    """A checkpoint in the background, where there is one."""
    keeper: Any = side.db._engine.write_ahead_log
    if keeper is not None and keeper.refuses is None and not keeper.checkpoints._background.is_busy:
        keeper.checkpoints.begin(in_background=True)


def action(random: Generator, views: bool) -> Action:
    """One action, which is all or nothing."""
    kind = random.random()
    changes = [change(random) for _ in range(int(random.integers(1, 4)))]
    if kind < 0.06:
        return sql("checkpoint")
    if kind < 0.1:
        return aside
    if kind < 0.4:
        return sql(changes[0])
    if kind < 0.5:
        return together(*changes)
    if kind < 0.55:
        return together(*changes, definition(random), end="rollback")
    if kind < 0.6:
        return together(changes[0], "savepoint p", *changes[1:], "rollback to p", definition(random))
    if kind < 0.65:
        return batched(*changes)
    if kind < 0.68:
        return from_source(random)
    if kind < 0.74:
        return branching(random)
    if kind < 0.86 or not views:
        return sql(definition(random))
    if kind < 0.88:
        return function
    if kind < 0.9:
        return later(random)
    return sql(view(random)) if kind < 0.96 else datalog(random)
