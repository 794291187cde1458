"""Explanations of rows of random views after every commit: what they name is there, and is enough for DuckDB.

A row is explained with every row that its aggregates count; then DuckDB has the same tables with nothing but
the rows that the explanation names, as often as it names them, and the same views: the row must come out.
A row that is not there has no explanation, and is told to lack something.
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import duckdb
import pytest

import kpg
from kpg.runtime.errors import ProgrammingError
from tests.properties.sql_twins import Row, oracle, plain
from tests.properties.test_random_sql import World, world
from tests.properties.why_histories import live

Named = dict[str, Counter[Row]]
ROWS = 2
"""Rows of a view that are explained after each commit."""


def named_by(proof: Any, tables: Iterable[str], kinds: Iterable[str] = ("source",)) -> Named:
    """The rows of tables that an explanation names, and how often."""
    found: Named = {name: Counter() for name in tables}
    for node in proof.nodes():
        if node.kind.value in kinds and node.relation in found:
            found[node.relation][node.row] += 1
    return found


def answers(here: World, named: Named, view: str) -> set[Row]:
    """The view's rows over these rows of tables only."""
    with oracle() as duck:
        for name, shape in here.tables.items():
            duck.execute(f"create table {name} ({', '.join(shape.definitions())})")
            rows = list(named[name].elements())
            if rows:
                duck.executemany(f"insert into {name} values ({', '.join('?' * len(shape.columns))})", rows)
        for name, query in here.made:
            duck.execute(f"create view {name} as {query.text}")
        return set(map(plain, duck.execute(f"select * from {view}").fetchall()))


def check(here: World, pick: random.Random) -> int:
    """Explain some rows of each view; how many."""
    db, checked = here.twins.db, 0
    contents = {name: Counter(db.query(f"select * from {name}").fetchall()) for name in here.tables}
    for name, query in here.made:
        if name not in here.twins.views:
            continue
        rows = sorted(set(db.view(name).fetchall()), key=str)
        for row in pick.sample(rows, min(ROWS, len(rows))):
            named = named_by(db.explain_row(name, row, sample=None), here.tables)
            assert all(named[table] <= contents[table] for table in named), (query.text, row)
            assert plain(row) in answers(here, named, name), (query.text, row, named)
            checked += 1
        for row in rows[:1]:
            other = tuple(
                None if place == 0 and value is not None else value for place, value in enumerate(row)
            )
            if plain(other) not in set(map(plain, rows)):
                with pytest.raises(ProgrammingError, match="there is no row"):
                    db.explain_row(name, other)
                assert db.explain_absence(name, other).relation == name
    return checked


@pytest.mark.parametrize("seed", [9, 16, 113])
def test_what_is_named_is_enough(seed: int) -> None:
    with world(seed) as here:
        pick = random.Random(seed)
        for _ in range(3):
            here.install(pick.choice((1, 1, 2)))
        checked = 0
        for _ in range(4):
            here.step()
            checked += check(here, pick)
        assert checked


PROGRAM = """
.decl reach(a: number, b: number)
.output reach
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
VIEWS = {
    "far": "select r.a, n.name from reach r join node n on n.id = r.b where r.a <> r.b",
    "many": "select name, count(*) as times, max(a) as most from far group by name",
    "alone": "select id from node where not exists (select 1 from reach where a = id)",
    "next": "select a, b, lag(b) over (partition by a order by b) as before from reach",
}
REACH = (
    "with recursive reach(a, b) as (select a, b from edge union"
    " select reach.a, edge.b from reach join edge on reach.b = edge.a) select a, b from reach"
)


@pytest.mark.parametrize("seed", [1, 2])
def test_across_datalog_too(seed: int) -> None:
    pick = random.Random(seed)
    with kpg.connect() as db:
        db.sql("create table edge (a bigint, b bigint, primary key (a, b))")
        db.sql("create table node (id bigint primary key, name text)")
        db.insert("node", [(number, "uvw"[number % 3]) for number in range(6)])
        db.datalog(PROGRAM)
        for name, query in VIEWS.items():
            db.sql(f"create materialized view {name} as {query}")
        for _ in range(4):
            a, b = pick.randrange(6), pick.randrange(6)
            db.sql(f"insert into edge values ({a}, {b}), ({b}, {(a + 1) % 6}) on conflict do nothing")
            db.sql(f"delete from edge where a = {pick.randrange(6)}")
            contents = {
                table: Counter(db.query(f"select * from {table}").fetchall()) for table in ("edge", "node")
            }
            for name in VIEWS:
                rows = db.view(name).fetchall()
                for row in pick.sample(rows, min(3, len(rows))):
                    proof = db.explain_row(name, row, sample=None)
                    named = named_by(proof, contents, ("source", "external", "fact"))
                    named = {table: Counter(set(found)) for table, found in named.items()}
                    assert all(named[table] <= contents[table] for table in contents)
                    assert row in over(named, name), (name, row, named)


def over(named: Named, view: str) -> list[Row]:
    """A view's rows in DuckDB over these rows of tables."""
    with duckdb.connect() as duck:
        duck.execute("create table edge (a bigint, b bigint); create table node (id bigint, name text)")
        for table, rows in named.items():
            if rows:
                duck.executemany(f"insert into {table} values (?, ?)", list(rows))
        duck.execute(f"create view reach as {REACH}")
        for name, query in VIEWS.items():
            duck.execute(f"create view {name} as {query}")
        return duck.execute(f"select * from {view}").fetchall()


@pytest.mark.parametrize("seed", [35, 1008, 1013])
def test_over_all_of_the_sql(seed: int) -> None:
    """More by ``python -m tests.properties.why_histories``."""
    lived = live(seed, views=4, steps=1)
    assert not lived.failures, lived.failures[0]
    assert lived.counts["explained"]
