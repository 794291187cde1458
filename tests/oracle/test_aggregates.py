"""Random grouped queries beside a real Postgres: asked once, and kept as views while rows come and go."""

from collections.abc import Iterator
from random import Random

import pytest

from tests.oracle.postgres import Beside, serving

SEEDS = range(3)
QUERIES = 20
TABLES = (
    "create table r (id int primary key, g text, h int, n int, m int, f float8, t text, b boolean,"
    " d numeric(8, 2))",
    "create table s (k int)",
    "insert into s values (1), (2), (4), (null)",
)
VALUES = (
    ("'a'", "'b'", "null"),
    ("1", "2", "3", "null"),
    ("0", "1", "2", "3", "-1", "5", "null"),
    ("0", "1", "7", "null"),
    ("0.5", "-1.25", "1e3", "2", "null"),
    ("'x'", "'y'", "'zz'", "''", "null"),
    ("true", "false", "null"),
    ("1.5", "0", "-2.25", "null", "10"),
)
KEYS = ("g", "h", "n", "b", "g || 'x'", "n % 2", "d")
NUMBERS = ("n", "m", "f", "d", "n + m", "abs(n)", "d * 2", "n % 3")
CONDITIONS = (
    "n > 2",
    "b",
    "t is not null",
    "m < 3 or g = 'a'",
    "id % 2 = 0",
    "h in (1, 2)",
    "exists (select 1 from s where s.k = r.h)",
)
HAVING = ("count(*) > 1", "sum(n) > 2", "max(t) is not null", "bool_or(b)", "count(distinct n) < 3")
PAIRS = ("corr", "regr_slope", "regr_r2", "covar_pop", "covar_samp", "regr_count", "regr_intercept")
TRUTHS = ("b", "n > 1", "t is null")
FRACTIONS = ("percentile_cont(0.3)", "percentile_disc(0.3)")
SOURCES = ("r", "r", "r left join s on s.k = r.h", "(select * from r order by n, id) r")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield found


def order(pick: Random) -> str:
    """Keys by which no two rows are equal."""
    keys = pick.sample(("n", "m", "t", "d", "b", "g"), pick.randint(1, 2))
    shown = [key + pick.choice(("", " desc", " nulls first", " desc nulls last")) for key in keys]
    return ", ".join([*shown, "id" + pick.choice(("", " desc"))])


def aggregate(pick: Random) -> str:
    """A call, some with DISTINCT, ORDER BY and FILTER."""
    distinct = "distinct " if pick.random() < 0.25 else ""
    number, down = pick.choice(NUMBERS), pick.choice(("", " desc"))
    listed = distinct + pick.choice(("n", "t", "b")) if distinct else f"n order by {order(pick)}"
    call = pick.choice(
        (
            "count(*)",
            f"count({distinct}{pick.choice(('n', 't', 'b', 'd'))})",
            f"{pick.choice(('sum', 'avg'))}({distinct}{number})",
            f"{pick.choice(('min', 'max'))}({distinct}{pick.choice(('n', 't', 'f', 'd', 'g'))})",
            f"{pick.choice(('stddev', 'variance', 'var_pop', 'stddev_pop'))}({distinct}{number})",
            f"{pick.choice(('bool_and', 'bool_or', 'every'))}({distinct}{pick.choice(TRUTHS)})",
            f"{pick.choice(('bit_and', 'bit_or', 'bit_xor'))}({distinct}{pick.choice(('n', 'm'))})",
            f"{pick.choice(PAIRS)}({number}, {pick.choice(NUMBERS)})",
            f"string_agg(t, '-' order by {order(pick)})",
            f"array_agg({listed})",
            f"jsonb_agg({pick.choice(('n', 't', 'b'))} order by {order(pick)})",
            f"{pick.choice(FRACTIONS)} within group (order by {pick.choice(('n', 'f'))}{down})",
            f"mode() within group (order by {pick.choice(('n', 't', 'b'))}{down})",
            f"{pick.choice(('rank', 'dense_rank', 'cume_dist'))}(2, null) within group (order by n{down}, f)",
        )
    )
    return call + (f" filter (where {pick.choice(CONDITIONS)})" if pick.random() < 0.3 else "")


def grouping(pick: Random, keys: list[str]) -> str:
    """A GROUP BY clause."""
    listed = ", ".join(keys)
    sets = [pick.sample(keys, pick.randint(0, len(keys))) for _ in range(pick.randint(1, 3))]
    written = ", ".join(f"({', '.join(one)})" for one in [*sets, keys])
    chosen = (listed, listed, f"rollup ({listed})", f"cube ({listed})", f"grouping sets ({written})")
    return f" group by {pick.choice(chosen)}" if keys else ""


def query(pick: Random) -> str:
    """A grouped query, or one with a grouped subquery for each row."""
    if pick.random() < 0.15:
        return f"select s.k, (select {aggregate(pick)} from r where r.h = s.k) from s"
    keys = list(dict.fromkeys(pick.choice(KEYS) for _ in range(pick.randint(0, 3))))
    items = [*keys, *(aggregate(pick) for _ in range(pick.randint(1, 3)))]
    if keys and pick.random() < 0.3:
        items.append(f"grouping({', '.join(pick.sample(keys, pick.randint(1, len(keys))))})")
    having = f" having {pick.choice(HAVING)}" if pick.random() < 0.25 else ""
    where = f" where {pick.choice(CONDITIONS)}" if pick.random() < 0.2 else ""
    return f"select {', '.join(items)} from {pick.choice(SOURCES)}{where}{grouping(pick, keys)}{having}"


def rows(pick: Random, first: int, count: int) -> str:
    """An INSERT of so many rows."""
    made = (f"({first + place}, {', '.join(map(pick.choice, VALUES))})" for place in range(count))
    return f"insert into r values {', '.join(made)}"


@pytest.mark.parametrize("seed", SEEDS)
def test_grouped_queries_are_what_postgres_says(address: str, seed: int) -> None:
    pick = Random(seed)
    beside = Beside(address)
    for statement in (*TABLES, rows(pick, 0, 12)):
        beside.run(statement)
    queries = [query(pick) for _ in range(QUERIES)]
    for one in queries:
        beside.ask(one)
        beside.keep(one)
    changes = (
        rows(pick, 12, 4),
        f"update r set n = n + 1, g = 'b' where id % 3 = {pick.randint(0, 2)}",
        f"delete from r where id % 4 = {pick.randint(0, 3)}",
        "delete from s where k = 1",
        "delete from r",
    )
    for change in changes:
        beside.run(change)
        beside.compare(change)
    beside.check()
    beside.close()
