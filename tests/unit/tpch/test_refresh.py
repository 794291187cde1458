"""Refreshes against a model in plain Python, and against the rules that generated data obeys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kpg.tpch.data import PRIMARY_KEYS, TABLES, table_path
from kpg.tpch.oracle import Oracle
from kpg.tpch.refresh import Batch, RefreshStream

Model = dict[str, dict[tuple[Any, ...], tuple[Any, ...]]]


def rows_by_key(table: str, columns: list[str], rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], Any]:
    positions = [columns.index(name) for name in PRIMARY_KEYS[table]]
    keyed = {tuple(row[position] for position in positions): row for row in rows}
    assert len(keyed) == len(rows), f"duplicate key in {table}"
    return keyed


def initial_model(folder: Path) -> Model:
    model: Model = {}
    for table in TABLES:
        read = pq.read_table(table_path(folder, table))
        rows = list(zip(*(column.to_pylist() for column in read.columns), strict=True))
        model[table] = rows_by_key(table, read.column_names, rows)
    return model


def apply_to_model(model: Model, batch: Batch) -> None:
    for table, change in batch.changes.items():
        for key in zip(*(column.to_pylist() for column in change.deletes.columns), strict=True):
            del model[table][key]
        rows = list(zip(*(column.to_pylist() for column in change.inserts.columns), strict=True))
        entering = rows_by_key(table, change.inserts.column_names, rows)
        assert not entering.keys() & model[table].keys()
        model[table] |= entering


@pytest.fixture(scope="module")
def batches(folder: Path) -> list[Batch]:
    stream = RefreshStream(folder, seed=5, orders=30)
    return [stream.next_batch() for _ in range(15)]


def test_oracle_and_model_stay_equal(folder: Path, batches: list[Batch]) -> None:
    model = initial_model(folder)
    with Oracle(folder) as oracle:
        for batch in batches:
            apply_to_model(model, batch)
            oracle.apply(batch)
        for table in TABLES:
            answer, _ = oracle.query(f"select * from {table}")
            rows = set(zip(*(column.to_pylist() for column in answer.columns), strict=True))
            assert rows == set(model[table].values())


def test_equal_seeds_give_equal_streams(folder: Path, batches: list[Batch]) -> None:
    stream = RefreshStream(folder, seed=5, orders=30)
    for batch in batches[:3]:
        assert stream.next_batch() == batch


def test_another_seed_gives_another_stream(folder: Path, batches: list[Batch]) -> None:
    assert RefreshStream(folder, seed=6, orders=30).next_batch() != batches[0]


def test_default_batch_is_a_thousandth_of_the_orders(folder: Path) -> None:
    stream = RefreshStream(folder, seed=1)
    assert stream.orders == 15
    orders = stream.next_batch().changes["orders"]
    assert (orders.deletes.num_rows, orders.inserts.num_rows) == (15, 15)


def test_refresh_may_delete_every_order(folder: Path) -> None:
    orders = RefreshStream(folder, seed=1, orders=16_000).next_batch().changes["orders"]
    assert (orders.deletes.num_rows, orders.inserts.num_rows) == (15_000, 16_000)


def test_refresh_of_no_orders_is_only_updates(folder: Path) -> None:
    changes = RefreshStream(folder, seed=1, orders=0).next_batch().changes
    assert changes["lineitem"].inserts.num_rows == 0
    assert changes["part"].inserts.num_rows == 4


def test_every_table_changes_within_five_refreshes(batches: list[Batch]) -> None:
    assert {table for batch in batches[:5] for table in batch.changes} == set(TABLES)


def test_inserted_rows_have_the_types_of_the_files(folder: Path, batches: list[Batch]) -> None:
    with Oracle(folder) as oracle:
        for table, change in batches[0].changes.items():
            expected, _ = oracle.query(f"select * from {table} limit 0")
            assert change.inserts.schema.types == expected.schema.types
            assert change.inserts.column_names == expected.column_names


VIOLATIONS = {
    "line of no order": """
        from lineitem where l_orderkey not in (select o_orderkey from orders)""",
    "order without lines": """
        from orders where o_orderkey not in (select l_orderkey from lineitem)""",
    "line that nobody offers": """
        from lineitem where (l_partkey, l_suppkey) not in (select (ps_partkey, ps_suppkey) from partsupp)""",
    "order of no customer": """
        from orders where o_custkey not in (select c_custkey from customer)""",
    "order of a customer who never orders": """
        from orders where o_custkey % 3 = 0""",
    "gap in line numbers": """
        from (select count(*) as n, max(l_linenumber) as last from lineitem group by l_orderkey)
        where n <> last or n > 7""",
    "order status": """
        from (
            select o_orderstatus, min(l_linestatus) as first, max(l_linestatus) as last
            from orders join lineitem on o_orderkey = l_orderkey group by o_orderkey, o_orderstatus
        ) where o_orderstatus <> case when first = last then first else 'P' end""",
    "dates": """
        from lineitem join orders on l_orderkey = o_orderkey
        where l_shipdate not between o_orderdate + 1 and o_orderdate + 121
        or l_receiptdate not between l_shipdate + 1 and l_shipdate + 30
        or l_commitdate not between o_orderdate + 30 and o_orderdate + 90""",
    "return flag": """
        from lineitem where (l_returnflag = 'N') <> (l_receiptdate > date '1995-06-17')""",
    "total price": """
        from (
            select o_totalprice, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as wanted
            from orders join lineitem on o_orderkey = l_orderkey group by o_orderkey, o_totalprice
        ) where abs(o_totalprice - wanted) > 0.15""",
    "brand of another manufacturer": """
        from part where p_mfgr[-1] <> p_brand[-2]""",
    "phone of another country": """
        from (
            select c_phone as phone, c_nationkey as nation from customer
            union all select s_phone, s_nationkey from supplier
        ) where phone not like (nation + 10) || '-___-___-____'""",
    "nation of no region": """
        from nation where n_regionkey not in (select r_regionkey from region)""",
    "name that two nations or regions share": """
        from (select n_name as name from nation union all select r_name from region)
        group by name having count(*) > 1""",
}


@pytest.fixture(scope="module")
def refreshed(folder: Path, batches: list[Batch]) -> Callable[[str], int]:
    oracle = Oracle(folder)
    for batch in batches:
        oracle.apply(batch)

    return lambda source: oracle.query(f"select 1 {source}")[0].num_rows


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_refreshed_data_obeys_the_specification(refreshed: Callable[[str], int], violation: str) -> None:
    assert refreshed(VIOLATIONS[violation]) == 0


def test_special_requests_are_among_the_new_comments(batches: list[Batch]) -> None:
    comments = [c for batch in batches for c in batch.changes["orders"].inserts["o_comment"].to_pylist()]
    assert any("special" in comment and "requests" in comment for comment in comments)


def test_complaints_are_among_the_new_supplier_comments(batches: list[Batch]) -> None:
    comments = [c for batch in batches for c in batch.changes["supplier"].inserts["s_comment"].to_pylist()]
    assert any("Customer" in comment and "Complaints" in comment for comment in comments)
