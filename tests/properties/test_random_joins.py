"""Random joins are DuckDB's answer after every insert and delete, along every path of their plans."""

import random
from collections.abc import Iterator

import pytest

from kpg.compiler.passes import PIPELINE
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from tests.model.plan import rows_of_plan
from tests.properties.sql_joins import COLUMNS, TABLES, random_join, random_row
from tests.properties.sql_twins import Twins
from tests.unit.compiler.sql.oracle import Data, assert_same, catalog_of, database_of

SCRIPT = "; ".join(
    f"create table {name} ({', '.join([*columns, *([f'primary key ({key})'] if key else [])])})"
    for name, (columns, key) in TABLES.items()
)
CATALOG = catalog_of(SCRIPT)


def small_data(pick: random.Random) -> Data:
    """Few rows, so that a join of five relations without any predicate stays small."""
    data: dict[str, list[tuple[int | None, ...]]] = {}
    for table in TABLES:
        rows = {row[: len(_key(table))]: row for row in (random_row(pick, table) for _ in range(5))}
        data[table] = list(rows.values())
    return data


def _key(table: str) -> list[str]:
    key = TABLES[table][1]
    return key.split(", ") if key else list(COLUMNS[table])


@pytest.mark.parametrize("seed", range(12))
def test_every_path_of_a_random_join_gives_the_answer(seed: int) -> None:
    pick = random.Random(seed)
    data = small_data(pick)
    with database_of(SCRIPT, data) as connection:
        for _ in range(15):
            query = random_join(pick, most=4)
            bound = lower_query(parse_query(query), CATALOG)
            expected = connection.execute(query).fetchall()
            for passes in ((), PIPELINE):
                rows = rows_of_plan(compile_query(bound, passes=passes).plan, data)
                assert_same((row[: bound.visible] for row in rows.elements()), expected)


@pytest.fixture
def twins() -> Iterator[Twins]:
    made = Twins()
    for name, (columns, key) in TABLES.items():
        made.create(name, columns, key)
    yield made
    made.close()


def change(pick: random.Random, twins: Twins) -> None:
    """Insert rows or delete some, the same in both databases."""
    table = pick.choice(list(TABLES))
    twins.db.sql("begin")
    twins.duck.execute("begin")
    if pick.random() < 0.6:
        rows = {row[: len(_key(table))]: row for row in (random_row(pick, table, 6) for _ in range(4))}
        texts = (", ".join("null" if value is None else str(value) for value in row) for row in rows.values())
        fits = twins.run(f"insert into {table} values {', '.join(f'({text})' for text in texts)}")
    else:
        fits = twins.run(f"delete from {table} where b = {pick.randint(0, 6)} or a = {pick.randint(0, 6)}")
    end = "commit" if fits else "rollback"
    twins.db.sql(end)
    twins.duck.execute(end)


@pytest.mark.parametrize("seed", range(4))
def test_random_joins_are_kept_up_to_date(seed: int, twins: Twins) -> None:
    pick = random.Random(seed)
    for step in range(12):
        if step < 8:
            twins.install(f"v{step}", random_join(pick))
        change(pick, twins)
        for name in twins.views:
            twins.compare(name)
