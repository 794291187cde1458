"""``GET /dataflow`` and ``GET /relation``: the data that the web page draws.

The figures are sampled at most about twice a second and shared by all requests.
"""

import asyncio
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kpg.api.ego import described as lines_of
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.queries.explain import explain_statement
from kpg.execute.queries.query_plan import explain_export
from kpg.execute.scripts import reading
from kpg.runtime.errors import Error
from kpg.server.web.http import Connection, Refused, Request
from kpg.server.web.json_results import columns_of, error_of, status_of
from kpg.session.memory_limit import PAGE, STATUS

if TYPE_CHECKING:
    from kpg.api.view import Maintained
    from kpg.runtime.handles import OperatorInfo, Work
    from kpg.server.listener import Server
    from kpg.session.engine import Engine

FRESH: Final = 0.45
"""Seconds for which figures are given again instead of being read anew."""
COUNTED: Final = 1_000
"""Views of at most so many rows, as is guessed, are counted for each sample."""
STAGES: Final = ("physical", "optimized", "logical", "rules")


class Sampler:
    """The figures of the dataflow, as of not long ago."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._lock = asyncio.Lock()
        self._read = float("-inf")
        self._shape: object = None
        self._version = int(time.time() * 1000)
        self._found: dict[str, Any] = {}

    async def figures(self) -> dict[str, Any]:
        """What :func:`read` gives; ``version`` is another number whenever ``shape`` is another."""
        async with self._lock:
            if time.monotonic() - self._read > FRESH:
                found = await self._server.look(read)
                shape = json.dumps(found["shape"])
                if shape != self._shape:
                    self._shape = shape
                    self._version += 1
                self._found = {**found, "version": self._version, "took": time.time()}
                self._read = time.monotonic()
        return self._found


def _shape(one: "OperatorInfo") -> dict[str, Any]:
    return {
        "id": one.position,
        "text": one.description,
        "inputs": one.inputs,
        "readers": one.readers,
        "loop": one.loop,
        "arranged": one.arranged,
    }


def _figures(one: "OperatorInfo") -> tuple[int, ...]:
    """What the operator has done and has, as the page's columns have it; microseconds."""
    took = round(one.seconds * 1e6), round(one.step_seconds * 1e6)
    return (one.updates_in, one.updates_out, one.rows, one.bytes, *took, one.rounds)


def read(engine: "Engine") -> dict[str, Any]:
    """The operators and relations, on the engine's thread: what they are, and how much they have done."""
    begun = time.perf_counter()
    operators = engine.executor.operators()
    relations = [_relation(engine, entry) for entry in engine.catalog]
    views = [engine.views.get(entry.name) for entry in engine.catalog]
    counts = [
        engine.executor.count(entry.name)
        if isinstance(entry, TableEntry)
        else None
        if view is None
        else _rows(view)
        for entry, view in zip(engine.catalog, views, strict=True)
    ]
    return {
        "shape": {"operators": list(map(_shape, operators)), "relations": relations},
        "figures": list(map(_figures, operators)),
        "counts": counts,
        "about": [place for place, view in enumerate(views) if view is not None and not _is_counted(view)],
        "sizes": [
            engine.executor.table_bytes(entry.name) if isinstance(entry, TableEntry) else None
            for entry in engine.catalog
        ],
        "workers": _workers(engine),
        "epoch": engine.executor.epoch,
        "steps_in_all": engine.steps.count if engine.steps else 0,
        "sampling": round((time.perf_counter() - begun) * 1e6),
    }


def _is_counted(view: "Maintained") -> bool:
    """Whether a view's rows are counted: of large ones an estimate is shown, and ego views would be read."""
    return view.installed.size <= COUNTED and view.plan is None


def _rows(view: "Maintained") -> int:
    """How many rows a view has, or about how many."""
    return view.count() if _is_counted(view) else view.installed.size


def _workers(engine: "Engine") -> list[tuple[int | list[str], ...]]:
    """Of each worker, if there are several: rows, bytes, microseconds, rows sent and received, meetings.

    Then the keys of which it has more than its share, in words.
    """
    if engine.workers is None:
        return []
    return [
        (one.rows, one.bytes, round(one.seconds * 1e6), one.sent, one.received, one.meetings, _heavy(one))
        for one in engine.workers.work()
    ]


def _heavy(work: "Work") -> list[str]:
    return [one.shown for one in work.heavy]


def _relation(engine: "Engine", entry: TableEntry | ViewEntry) -> dict[str, Any]:
    found: dict[str, Any] = {"name": entry.name, "kind": "table", "output": None}
    if isinstance(entry, ViewEntry):
        view = engine.views.get(entry.name)
        found["kind"] = "view" if view is None else "kept"
        found["output"] = None if view is None else view.installed.place
        program = _program_of(engine, entry.name)
        if program is not None:
            found |= {"program": program.label, "kind": "relation" if view is None else "kept"}
    return found


def _program_of(engine: "Engine", name: str) -> Any:
    if not engine.dataflows:
        return None
    from kpg.datalog.dispatch import program_of  # lazy: Datalog loads on first use

    return program_of(engine, name)


async def dataflow(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /dataflow: figures, and the shape unless the client has that ``version`` already."""
    try:
        quarter = int(request.query.get("since", "0"))
        version = int(request.query.get("version", "0"))
    except ValueError:
        raise Refused(400, "since and version are numbers") from None
    found = dict(await server.sampler.figures())
    if version == found["version"]:
        del found["shape"]
    steps = server.hub.engine.steps
    found["steps"] = steps.since(quarter) if steps else []
    found["clients"] = {"postgres": len(server.clients), "http": len(server.web)}
    found["memory"] = int(STATUS.read_bytes().split()[1]) * PAGE if STATUS.exists() else None
    await connection.reply(200, "application/json", json.dumps(found).encode())


async def relation(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /relation: what a relation is, its text, its plan, and who uses it."""
    name, stage = request.query.get("name", ""), request.query.get("stage", "physical")
    if stage not in STAGES:
        raise Refused(400, "there is no such stage", hint=", ".join(STAGES))
    session = await server.open_session(user)
    try:
        found = await server.run(session, lambda engine: described(engine, name, stage))
    except Error as error:
        data = json.dumps({"error": error_of(error)}).encode()
        await connection.reply(status_of(error), "application/json", data)
        return
    finally:
        await server.close_session(session)
    await connection.reply(200, "application/json", json.dumps(found).encode())


def described(engine: "Engine", name: str, stage: str) -> dict[str, Any]:
    """What there is to say of one relation."""
    entry = engine.catalog.get(name)
    schema = entry.schema
    found: dict[str, Any] = {
        **_relation(engine, entry),
        "columns": columns_of(schema.names, schema.types),
        "key": [schema.names[place] for place in schema.primary_key or ()],
        "uses": sorted(one for one in engine.views.used_by(entry.name) if one in engine.catalog),
        "used_by": sorted(one for one in engine.views.dependents(entry.name) if one in engine.catalog),
    }
    view = engine.views.get(entry.name)
    if view is not None:
        stats = view.installed.stats
        found |= {"install_seconds": stats.install_seconds, "rows": _rows(view)}
        found |= {"built": stats.arrangements_built, "reused": stats.arrangements_reused}
    if isinstance(entry, TableEntry):
        found |= {"rows": engine.executor.count(entry.name), "bytes": engine.executor.table_bytes(entry.name)}
        return found
    try:
        found |= _texts(engine, entry, stage)
        if view is not None:
            found |= _overlay(engine, view, stage)
    except Error as error:
        found["explain"] = str(error)
    return found


def _overlay(engine: "Engine", view: "Maintained", stage: str) -> dict[str, Any]:
    """By what an ego view is computed: its levels, what EXPLAIN tells of it, and the plan with it."""
    info = view.installed.overlay()
    if info is None or view.plan is None:
        return {}

    plan = explain_export(view.name, view.plan, stage, engine.catalog, engine.statistics).text()
    return {"overlay": {"levels": info.levels, "lines": lines_of(info)}, "explain": plan}


def _texts(engine: "Engine", entry: ViewEntry, stage: str) -> dict[str, str]:
    program = _program_of(engine, entry.name)
    if program is not None:
        return {
            "rules": program.explain(entry.name, "rules"),
            "explain": program.explain(entry.name, stage if stage in ("rules", "logical") else "physical"),
        }
    if not entry.sql:
        return {"explain": "a collection of a program: it has no text"}
    (statement,) = parse(f"create view v as {entry.text}")
    explain = partial(explain_statement, stage="physical" if stage == "rules" else stage)
    return {"sql": entry.sql, "explain": reading(engine, statement, explain)}
