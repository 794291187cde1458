"""What statements of SQL cost besides what they do, and what a round of a recursion costs.

    python benchmarks/statements.py --json statements.json

One INSERT of a row, one SELECT of a small view, a constant of a long VALUES list; and a recursion that
follows a path of ``--path`` nodes, one round for each.
"""

from _common import Measurement, arguments, report, timed

import kpg
from kpg.database import Database

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


def select(db: Database) -> None:
    for number in range(STATEMENTS):
        db.query(f"select s from v where b = 'x{number % 7}'").fetchall()


def values(db: Database, start: int) -> None:
    rows = ", ".join(f"({number}, 'y', 1.25)" for number in range(start, start + CONSTANTS // 3))
    db.sql(f"insert into t values {rows}")


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
    measured = [
        _each("one INSERT", [timed(lambda: insert(db, next(starts))) for _ in runs], STATEMENTS),
        _each("one SELECT of a view", [timed(lambda: select(db)) for _ in runs], STATEMENTS),
        _each("a constant of VALUES", [timed(lambda: values(db, next(starts))) for _ in runs], CONSTANTS),
        _each("a round of a path", [timed(lambda: follow(db)) for _ in runs], options.path),
    ]
    report("statements", measured, options.json)


def _each(name: str, seconds: list[float], times: int) -> Measurement:
    return Measurement(name, "s", tuple(one / times for one in seconds))


if __name__ == "__main__":
    main()
