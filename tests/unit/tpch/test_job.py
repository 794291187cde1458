"""The job with DuckDB in the engine's place: a right engine passes, a wrong one is found out."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from rich.console import Console

from kpg.runtime.errors import InterfaceError, NotSupportedError
from kpg.tpch import job as module
from kpg.tpch.data import PRIMARY_KEYS


@dataclass(frozen=True)
class StandInStats:
    install_seconds: float = 0.5
    arrangements_built: int = 2
    arrangements_reused: int = 1
    last_step_seconds: float = 0.001


class StandInView:
    stats = StandInStats()

    def __init__(self, engine: "StandIn", name: str) -> None:
        self._engine = engine
        self._name = name

    def arrow(self) -> pa.Table:
        return self._engine.connection.sql(f"from {self._name}").to_arrow_table()


class StandIn:
    """DuckDB with ordinary views; forgets the deletes of a table on demand."""

    def __init__(self, forgets: str = "", unsupported: str = "") -> None:
        self.connection = duckdb.connect()
        self._forgets = forgets
        self._unsupported = unsupported

    def sql(self, query: str, /) -> None:
        if self._unsupported and query.startswith(f"create materialized view {self._unsupported} "):
            raise NotSupportedError("no such thing")
        self.connection.execute(query.replace("create materialized view", "create view"))

    def load_all(
        self, sources: Mapping[str, object], *, mode: str, progress: Callable[[str, int], None]
    ) -> None:
        for name, source in sources.items():
            progress(name, 0)
            self.connection.execute(f"insert into {name} from read_parquet('{source}')")
            progress(name, 1)

    def view(self, name: str, /) -> StandInView:
        return StandInView(self, name)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.begin()
        yield
        self.connection.commit()

    def delete(self, name: str, keys: pa.Table, /) -> None:
        condition = " and ".join(f"{name}.{column} = keys.{column}" for column in PRIMARY_KEYS[name])
        if name != self._forgets:
            self.connection.execute(f"delete from {name} using keys where {condition}")

    def insert(self, name: str, rows: pa.Table, /) -> None:
        self.connection.execute(f"insert into {name} from rows")


def run(folder: Path, engine: StandIn, monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[int, str]:
    monkeypatch.setattr(module, "connect", lambda: engine)
    monkeypatch.setattr(module, "spark_obstacle", lambda: "Java was not found")
    out = io.StringIO()
    arguments = {"scale": 0.01, "queries": [1, 6], "refreshes": 2, "batch": 20, "data": folder, "json": None}
    code = module.run(**(arguments | options), seed=1, console=Console(file=out, width=200))  # type: ignore[arg-type]
    return code, out.getvalue()


def test_engine_that_agrees_passes(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, text = run(folder, StandIn(), monkeypatch, json=tmp_path / "report.json")
    assert code == 0
    assert "Java was not found: loading through pyarrow instead of Spark" in text
    assert "2 of 2 queries ok" in text.splitlines()[-1]
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert document["orders_per_refresh"] == 20
    assert document["queries"][1]["refresh_seconds"] == [0.001, 0.001]


def test_forgotten_delete_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run(folder, StandIn(forgets="lineitem"), monkeypatch)
    assert code == 1
    assert "after refresh 1: got ('A', 'F', " in text
    assert "0 of 2 queries ok" in text.splitlines()[-1]


def test_query_that_cannot_be_installed_fails_the_job_but_not_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = run(folder, StandIn(unsupported="q1"), monkeypatch)
    assert code == 1
    assert "not installed: no such thing" in text
    assert "1 of 2 queries ok" in text.splitlines()[-1]


def test_no_queries_means_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run(folder, StandIn(), monkeypatch, queries=[], refreshes=1)
    assert code == 0
    assert "22 of 22 queries ok" in text.splitlines()[-1]


def test_scale_below_the_smallest_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InterfaceError, match=r"scale factor 0.001 is too small"):
        run(folder, StandIn(), monkeypatch, scale=0.001)
