"""``GET /dataflow`` and ``GET /relation``: the data that the web page draws.

Statistics are sampled at most about twice a second and shared by all requests.
"""

import asyncio
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kpg.api.ego import describe_overlay as lines_of
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.queries.explain import explain_statement
from kpg.execute.queries.query_plan import explain_export
from kpg.execute.scripts import run_with_external
from kpg.runtime.errors import Error
from kpg.runtime.gc_pause import LazyModule
from kpg.server.web.http import Connection, HttpError, Request
from kpg.server.web.json_results import column_fields, error_fields, http_status
from kpg.session.memory_limit import PAGE, STATUS

if TYPE_CHECKING:
    from kpg.api.view import MaintainedView
    from kpg.datalog import dispatch as datalog_dispatch
    from kpg.runtime.handles import OperatorInfo, WorkerStatistics
    from kpg.server.listener import Server
    from kpg.session.engine import Engine
else:
    datalog_dispatch = LazyModule("kpg.datalog.dispatch")

MAX_AGE: Final = 0.45
"""Seconds for which a sample is reused."""
MAX_COUNTED_ROWS: Final = 1_000
"""Views with a larger estimated size are not counted in each sample."""
STAGES: Final = ("physical", "optimized", "logical", "rules")


class StatisticsSampler:
    """Samples the dataflow's statistics and caches the last sample."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._lock = asyncio.Lock()
        self._sample_time = float("-inf")
        self._shape: object = None
        self._version = int(time.time() * 1000)
        self._sample: dict[str, Any] = {}

    async def statistics(self) -> dict[str, Any]:
        """Return the recent result of :func:`sample_dataflow`; ``version`` changes with ``shape``."""
        async with self._lock:
            if time.monotonic() - self._sample_time > MAX_AGE:
                found = await self._server.read_engine(sample_dataflow)
                shape = json.dumps(found["shape"])
                if shape != self._shape:
                    self._shape = shape
                    self._version += 1
                self._sample = {**found, "version": self._version, "took": time.time()}
                self._sample_time = time.monotonic()
        return self._sample


def _shape(operator: "OperatorInfo") -> dict[str, Any]:
    return {
        "id": operator.position,
        "text": operator.description,
        "inputs": operator.inputs,
        "readers": operator.readers,
        "loop": operator.loop,
        "arranged": operator.arranged,
    }


def _operator_statistics(operator: "OperatorInfo") -> tuple[int, ...]:
    """Return an operator's statistics in the order of the page's columns; times in microseconds."""
    times = round(operator.seconds * 1e6), round(operator.step_seconds * 1e6)
    return (operator.updates_in, operator.updates_out, operator.rows, operator.bytes, *times, operator.rounds)


def sample_dataflow(engine: "Engine") -> dict[str, Any]:
    """Return the operators and relations with their statistics. Runs on the engine's thread."""
    start = time.perf_counter()
    operators = engine.executor.operators()
    relations = [_relation(engine, entry) for entry in engine.catalog]
    views = [engine.views.get(entry.name) for entry in engine.catalog]
    counts = [
        engine.executor.tables.count(entry.name)
        if isinstance(entry, TableEntry)
        else None
        if view is None
        else _row_count(view)
        for entry, view in zip(engine.catalog, views, strict=True)
    ]
    return {
        "shape": {"operators": list(map(_shape, operators)), "relations": relations},
        "figures": list(map(_operator_statistics, operators)),
        "counts": counts,
        "about": [place for place, view in enumerate(views) if view is not None and not _is_countable(view)],
        "sizes": [
            engine.executor.tables.table_bytes(entry.name) if isinstance(entry, TableEntry) else None
            for entry in engine.catalog
        ],
        "workers": _workers(engine),
        "epoch": engine.executor.epoch,
        "steps_in_all": engine.step_statistics.count if engine.step_statistics else 0,
        "sampling": round((time.perf_counter() - start) * 1e6),
    }


def _is_countable(view: "MaintainedView") -> bool:
    """Return whether the rows of a view are counted; large views and ego views show an estimate."""
    return view.installation.size <= MAX_COUNTED_ROWS and view.plan is None


def _row_count(view: "MaintainedView") -> int:
    """Return the number of rows of a view, or an estimate."""
    return view.count() if _is_countable(view) else view.installation.size


def _workers(engine: "Engine") -> list[tuple[int | list[str], ...]]:
    """Return statistics of each worker; empty for a single worker.

    A tuple has rows, bytes, microseconds, rows sent, rows received and exchange barriers. Its last
    element is the texts of the skewed keys, of which the worker has more than its share.
    """
    if engine.workers is None:
        return []
    return [
        (
            one.rows,
            one.bytes,
            round(one.seconds * 1e6),
            one.sent_rows,
            one.received_rows,
            one.barriers,
            _skewed_keys(one),
        )
        for one in engine.workers.measure()
    ]


def _skewed_keys(work: "WorkerStatistics") -> list[str]:
    return [one.description for one in work.skewed_keys]


def _relation(engine: "Engine", entry: TableEntry | ViewEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": entry.name, "kind": "table", "output": None}
    if isinstance(entry, ViewEntry):
        view = engine.views.get(entry.name)
        fields["kind"] = "view" if view is None else "kept"
        fields["output"] = None if view is None else view.installation.operator_position
        program = _program_of(engine, entry.name)
        if program is not None:
            fields |= {"program": program.label, "kind": "relation" if view is None else "kept"}
    return fields


def _program_of(engine: "Engine", name: str) -> Any:
    if not engine.dataflows:
        return None

    return datalog_dispatch.deriving_program(engine, name)


async def dataflow(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /dataflow: statistics, and the shape unless the client has that ``version``."""
    try:
        quarter = int(request.query.get("since", "0"))
        version = int(request.query.get("version", "0"))
    except ValueError:
        raise HttpError(400, "since and version are numbers") from None
    fields = dict(await server.sampler.statistics())
    if version == fields["version"]:
        del fields["shape"]
    steps = server.session_manager.engine.step_statistics
    fields["steps"] = steps.since(quarter) if steps else []
    fields["clients"] = {"postgres": len(server.clients), "http": len(server.http_connections)}
    fields["memory"] = int(STATUS.read_bytes().split()[1]) * PAGE if STATUS.exists() else None
    await connection.respond(200, "application/json", json.dumps(fields).encode())


async def relation(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /relation: a relation's columns, text, plan and dependents."""
    name, stage = request.query.get("name", ""), request.query.get("stage", "physical")
    if stage not in STAGES:
        raise HttpError(400, "there is no such stage", hint=", ".join(STAGES))
    session = await server.open_session(user)
    try:
        fields = await server.run(session, lambda engine: describe_relation(engine, name, stage))
    except Error as error:
        data = json.dumps({"error": error_fields(error)}).encode()
        await connection.respond(http_status(error), "application/json", data)
        return
    finally:
        await server.close_session(session)
    await connection.respond(200, "application/json", json.dumps(fields).encode())


def describe_relation(engine: "Engine", name: str, stage: str) -> dict[str, Any]:
    """Return the fields of GET /relation."""
    entry = engine.catalog.get(name)
    schema = entry.schema
    fields: dict[str, Any] = {
        **_relation(engine, entry),
        "columns": column_fields(schema.names, schema.types),
        "key": [schema.names[place] for place in schema.primary_key or ()],
        "uses": sorted(one for one in engine.views.reads_of(entry.name) if one in engine.catalog),
        "used_by": sorted(one for one in engine.views.dependents(entry.name) if one in engine.catalog),
    }
    view = engine.views.get(entry.name)
    if view is not None:
        stats = view.installation.stats
        fields |= {"install_seconds": stats.install_seconds, "rows": _row_count(view)}
        fields |= {"built": stats.arrangements_built, "reused": stats.arrangements_reused}
    if isinstance(entry, TableEntry):
        fields |= {
            "rows": engine.executor.tables.count(entry.name),
            "bytes": engine.executor.tables.table_bytes(entry.name),
        }
        return fields
    try:
        fields |= _texts(engine, entry, stage)
        if view is not None:
            fields |= _overlay(engine, view, stage)
    except Error as error:
        fields["explain"] = str(error)
    return fields


def _overlay(engine: "Engine", view: "MaintainedView", stage: str) -> dict[str, Any]:
    """Return the overlay of an ego view: its levels, its EXPLAIN lines, and the plan."""
    info = view.installation.overlay()
    if info is None or view.plan is None:
        return {}

    plan = explain_export(view.name, view.plan, stage, engine.catalog, engine.statistics).text()
    return {"overlay": {"levels": info.levels, "lines": lines_of(info)}, "explain": plan}


def _texts(engine: "Engine", entry: ViewEntry, stage: str) -> dict[str, str]:
    """Return the relation's definition and plan."""
    program = _program_of(engine, entry.name)
    if program is not None:
        return {
            "rules": program.explain(entry.name, "rules"),
            "explain": program.explain(entry.name, stage if stage in ("rules", "logical") else "physical"),
        }
    if not entry.sql:
        return {"explain": "a collection that Python defines"}
    (statement,) = parse(f"create view v as {entry.text}")
    explain = partial(explain_statement, stage="physical" if stage == "rules" else stage)
    return {"sql": entry.sql, "explain": run_with_external(engine, statement, explain)}
