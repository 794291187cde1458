"""pgbench: its point reads and its TPC-B, in all of the protocol's ways."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.unit.server.conftest import Running, serving
from tests.unit.server.programs import program, run


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        assert "done in" in bench(one, "-i", "-I", "dtgvpf", "-s", "1", "--quiet")
        yield one


def bench(running: Running, *arguments: str) -> str:
    where = ("-h", "127.0.0.1", "-p", str(running.port), "-U", "kpg")
    return run(program("pgbench"), *where, *arguments, "kpg")


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", ["select-only", "simple-update", "tpcb-like"])
def test_pgbench_runs(running: Running, mode: str, script: str) -> None:
    told = bench(running, "-n", "-M", mode, "-b", script, "-c", "3", "-t", "15", "--max-tries", "100")
    assert "number of failed transactions: 0 " in told, told
    assert "number of transactions actually processed: 45/45" in told, told
    with psycopg.connect(running.dsn, autocommit=True) as one:
        sums = [
            one.execute(f"select sum({column}) from pgbench_{table}".encode()).fetchone()
            for table, column in (("tellers", "tbalance"), ("branches", "bbalance"))
        ]
        assert sums[0] == sums[1]


def test_a_script_with_a_view(running: Running, tmp_path: Path) -> None:
    script = tmp_path / "orders.sql"
    script.write_text(
        "\\set customer random(1, 10)\n"
        "insert into orders (customer, amount) values (:customer, :customer * 3);\n"
        "select * from spent where customer = :customer \\gset\n"
    )
    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("create table orders (id int generated always as identity, customer int, amount numeric)")
        one.execute(
            "create materialized view spent as select customer, sum(amount) as total from orders group by 1"
        )
        told = bench(running, "-n", "-M", "prepared", "-f", str(script), "-c", "4", "-t", "25")
        assert re.search(r"actually processed: 100/100", told), told
        differ = (
            "select count(*) from (select customer, sum(amount) from orders group by 1 except table spent) d"
        )
        assert one.execute(differ).fetchone() == (0,)
        assert one.execute("select count(*) from orders").fetchone() == (100,)
