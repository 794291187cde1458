"""A standalone cluster of this machine: a master, two worker daemons of Spark, and an executor at each."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import OperationalError
from kpg.runtime.spark import session
from tests.waiting import until

pytestmark = pytest.mark.java

SCHEMA = """
    create table orders(k bigint primary key, customer bigint, state text);
    create table items(k bigint, n int, cents bigint, primary key (k, n));
    create materialized view sums as
        select o.customer, count(*) as items, sum(i.cents) as cents from orders o join items i on i.k = o.k
        where o.state <> 'gone' group by o.customer;
    create table beats(k int);
    create materialized view beaten as select count(*) as n from beats;
    create materialized view states as select state, count(*) as n from orders group by state
"""


def daemon(stack: ExitStack, folder: Path, name: str, *arguments: str) -> None:
    """A daemon of Spark, ended when the stack is left."""
    import pyspark

    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
    env = os.environ | {"SPARK_DAEMON_MEMORY": "128m", "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / f"{name}.log").open("ab") as log:
        running = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip

    def end() -> None:
        running.terminate()
        running.wait()

    stack.callback(end)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose executors are processes of their own, with two cores each."""
    folder = tmp_path_factory.mktemp("cluster")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        daemon(stack, folder, "master.Master", "--port", str(port))
        for number in range(2):
            place = ("--work-dir", str(folder / f"work{number}"))
            daemon(stack, folder, "worker.Worker", "--cores", "2", "--memory", "600m", *place, master)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        settings = {
            "spark.master": master,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executorEnv.PYTHONPATH": str(Path(kpg.__file__).parents[1]),
        }
        for name, value in settings.items():
            patch.setitem(session.SETTINGS, name, value)
        mine = stack.enter_context(session.own_session(session.SessionWork.BRIEF))
        yield mine.get()


def contents(db: Any) -> list[list[Any]]:
    return [sorted(db.sql(f"select * from {view}").fetchall()) for view in ("sums", "states")]


def executor_of(process: int) -> int:
    """The executor whose task a process is: its daemon's parent."""
    for _ in range(2):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def refresh(db: Any, number: int) -> None:
    """A new order with two items, and an old one that goes."""
    k = 100_000 + number
    db.sql(f"insert into orders values ({k}, {number % 7}, 'new')")
    db.sql(f"insert into items values ({k}, 1, 100), ({k}, 2, {number})")
    db.sql(f"delete from items where k = {number * 3}; update orders set state = 'gone' where k = {number}")


def test_views_are_those_of_one_worker_and_outlive_an_executor(spark: Any, tmp_path: Path) -> None:
    orders = spark.range(3000).selectExpr("id as k", "id % 50 as customer", "concat('s', id % 4) as state")
    items = spark.range(9000).selectExpr("id div 3 as k", "cast(id % 3 as int) as n", "id % 1000 as cents")
    with kpg.connect() as one, kpg.connect(spark=spark, workers=2) as db:
        for each in (one, db):
            each.sql(SCHEMA)
        one.load("orders", orders.toArrow())
        one.load("items", items.toArrow())
        assert db.load_all({"orders": orders, "items": items}) == {"orders": 3000, "items": 9000}
        executor: Any = db._engine.executor
        assert [len(executor.tables.by_name[name].ranges) for name in ("orders", "items")] == [1, 1]
        assert contents(db) == contents(one)
        assert sorted(map(tuple, db.view("sums").to_spark().collect())) == contents(one)[0]
        told: dict[Any, int] = {}

        def hear(changes: list[tuple[Any, int, int]]) -> None:
            for row, _, diff in changes:
                told[row] = told.get(row, 0) + diff

        hear(list(db.view("sums").changes()))
        db.view("sums").subscribe(hear)
        lost = executor_of(executor.crew.processes[1])
        os.kill(lost, signal.SIGKILL)
        with pytest.raises(OperationalError, match=r"Spark stage of the workers has|has broken"):
            until(lambda: db.sql("insert into beats values (1)") and False)
        assert contents(db) == contents(one)
        assert executor_of(executor.crew.processes[1]) != lost
        assert [len(executor.tables.by_name[name].ranges) for name in ("orders", "items")] == [1, 1]
        for number in range(3):
            for each in (one, db):
                refresh(each, number)
            assert contents(db) == contents(one)
        assert sorted(row for row, count in told.items() if count) == contents(one)[0]
        assert set(told.values()) <= {0, 1}
