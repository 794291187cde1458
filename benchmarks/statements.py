"""What statements of SQL cost besides what they do, and what a round of a recursion costs.

    python benchmarks/statements.py --json statements.json

One INSERT, UPDATE and DELETE of a row, one SELECT of a small view and one of a row by its key, as texts and
with parameters, and each again by a plan made anew; a constant of a long VALUES list; and a recursion that
follows a path of ``--path`` nodes, one round for each.
"""

from collections.abc import Iterable, Iterator

from _common import Measurement, arguments, report, timed

import kpg
from kpg.api.database import Database

STATEMENTS = 300
CONSTANTS = 6_000
"""In one INSERT: 2,000 rows of three."""


def database() -> Database:
    """A table with a key, and a view over it."""
    db = kpg.connect()
    db.sql("create table t (a int primary key, b text, c numeric(10, 2))")
    db.sql("create materialized view v as select b, sum(c) as s from t group by b")
    return db


def insert(db: Database, start: int) -> None:
    for number in range(start, start + STATEMENTS):
        db.sql(f"insert into t values ({number}, 'x{number % 7}', {number}.5)")


def update(db: Database, start: int) -> None:
    for number in range(start, start + STATEMENTS):
        db.sql(f"update t set c = c + 1 where a = {number}")


def delete(db: Database, start: int) -> None:
    for number in range(start, start + STATEMENTS):
        db.sql(f"delete from t where a = {number}")


def point(db: Database) -> None:
    for number in range(STATEMENTS):
        db.query(f"select b, c from t where a = {number}").fetchall()


def with_parameters(db: Database) -> None:
    for number in range(STATEMENTS):
        db.query("select b, c from t where a = $1", [number]).fetchall()


def api(db: Database, start: int) -> None:
    for number in range(start, start + STATEMENTS):
        db.insert("t", [(number, f"x{number % 7}", 1.5)])


def select(db: Database) -> None:
    for number in range(STATEMENTS):
        db.query(f"select s from v where b = 'x{number % 7}'").fetchall()


def values(db: Database, start: int) -> None:
    rows = ", ".join(f"({number}, 'y', 1.25)" for number in range(start, start + CONSTANTS // 3))
    db.sql(f"insert into t values {rows}")


def from_values(db: Database) -> None:
    rows = ", ".join(f"({number}, 'y', 1.25)" for number in range(CONSTANTS // 3))
    db.query(f"select count(*) from (values {rows}) v (a, b, c)").fetchall()


def follow(db: Database) -> None:
    step = "select 0 as n union select b from path, edge where a = n"
    db.query(f"with recursive path as ({step}) select count(*) from path").fetchall()


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--path", type=int, default=100_000, help="nodes of the path")
    options = parser.parse_args()
    db = database()
    db.sql("create table edge (a int, b int)")
    db.sql(f"insert into edge select n, n + 1 from generate_series(0, {options.path - 1}) n")
    starts = iter(range(0, 10**9, 10**5))
    insert(db, next(starts))
    select(db)
    runs = range(options.runs)
    measured = [*_small(db, starts, runs, "")]
    measured += [
        _each("a constant of INSERT", [timed(lambda: values(db, next(starts))) for _ in runs], CONSTANTS),
        _each("a constant of VALUES in FROM", [timed(lambda: from_values(db)) for _ in runs], CONSTANTS),
        _each("a row by insert()", [timed(lambda: api(db, next(starts))) for _ in runs], STATEMENTS),
    ]
    db.sql("set plan_cache_mode = force_custom_plan")
    measured += _small(db, starts, runs, ", planned anew")
    measured.append(_each("a round of a path", [timed(lambda: follow(db)) for _ in runs], options.path))
    report("statements", measured, options.json)


def _small(db: Database, starts: Iterator[int], runs: Iterable[int], how: str) -> list[Measurement]:
    """Statements about one row."""
    inserted, made, changed, gone = [], [], [], []
    for _ in runs:
        start = next(starts)
        inserted.append(start)
        made.append(timed(lambda: insert(db, inserted[-1])))
        changed.append(timed(lambda: update(db, inserted[-1])))
        gone.append(timed(lambda: delete(db, inserted[-1])))
    return [
        _each(f"one INSERT{how}", made, STATEMENTS),
        _each(f"one UPDATE by key{how}", changed, STATEMENTS),
        _each(f"one DELETE by key{how}", gone, STATEMENTS),
        _each(f"one SELECT of a view{how}", [timed(lambda: select(db)) for _ in runs], STATEMENTS),
        _each(f"one SELECT by key{how}", [timed(lambda: point(db)) for _ in runs], STATEMENTS),
        _each(f"the same with $1{how}", [timed(lambda: with_parameters(db)) for _ in runs], STATEMENTS),
    ]


def _each(name: str, seconds: list[float], times: int) -> Measurement:
    return Measurement(name, "s", tuple(one / times for one in seconds))


if __name__ == "__main__":
    main()
