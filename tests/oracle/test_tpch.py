"""All 22 TPC-H queries, installed together, equal to DuckDB after the load and after every refresh."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.tpch.data import QUERIES, create_statements, query_text, table_path
from kpg.tpch.job import apply_batch
from kpg.tpch.oracle import Oracle, Order, find_difference, remove_limit
from kpg.tpch.refresh import RefreshStream

REFRESHES = 10
ORDERS = 60


def first_difference(actual: pa.Table, oracle: Oracle, number: int) -> str | None:
    text = query_text(number)
    expected, _ = oracle.query(text)
    return find_difference(actual, expected, Order.of(text), lambda: oracle.query(remove_limit(text))[0])


@pytest.fixture(scope="module")
def differences(folder: Path) -> dict[int, list[str]]:
    """What was wrong with each view, and when."""
    found: dict[int, list[str]] = {number: [] for number in QUERIES}
    database = kpg.connect()
    for table, statement in create_statements().items():
        database.sql(statement)
        database.load(table, pq.read_table(table_path(folder, table)))
    for number in QUERIES:
        database.sql(f"create materialized view q{number} as {query_text(number)}")
    stream = RefreshStream(folder, seed=22, orders=ORDERS)
    with Oracle(folder) as oracle:
        for moment in range(REFRESHES + 1):
            if moment > 0:
                batch = stream.next_batch()
                apply_batch(database, batch)
                oracle.apply(batch)
            for number in QUERIES:
                wrong = first_difference(database.view(f"q{number}").arrow(), oracle, number)
                found[number] += [] if wrong is None else [f"after refresh {moment}: {wrong}"]
    return found


@pytest.mark.parametrize("number", QUERIES)
def test_view_is_always_the_query(differences: dict[int, list[str]], number: int) -> None:
    assert differences[number] == []


def test_refreshes_change_every_answer(folder: Path) -> None:
    """The stream reaches every query, so that the test above tests something."""
    stream = RefreshStream(folder, seed=22, orders=ORDERS)
    changed: set[int] = set()
    with Oracle(folder) as oracle:
        before = {number: oracle.query(query_text(number))[0] for number in QUERIES}
        for _ in range(REFRESHES):
            oracle.apply(stream.next_batch())
            for number in QUERIES:
                after, _seconds = oracle.query(query_text(number))
                if find_difference(after, before[number], Order()) is not None:
                    changed.add(number)
                before[number] = after
    assert changed == set(QUERIES)


@pytest.mark.java
def test_load_through_spark_gives_the_same_answers(folder: Path) -> None:
    database = kpg.connect()
    tables = ("orders", "lineitem")
    for table in tables:
        database.sql(create_statements()[table])
    database.load_all({table: table_path(folder, table) for table in tables}, mode="spark")
    for number in (4, 6, 12):
        database.sql(f"create materialized view q{number} as {query_text(number)}")
    with Oracle(folder) as oracle:
        for number in (4, 6, 12):
            assert first_difference(database.view(f"q{number}").arrow(), oracle, number) is None
