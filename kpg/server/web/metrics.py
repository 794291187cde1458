"""GET /metrics: figures in the text format of Prometheus."""

import os
import time
from typing import TYPE_CHECKING, Any, Final

from kpg.compiler.catalog.entries import TableEntry
from kpg.engine.memory import PAGE, STATUS
from kpg.server.web.connection import Connection, Request

if TYPE_CHECKING:
    from kpg.engine.engine import Engine
    from kpg.server.listen import Server

KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
HELP: Final = {
    "kpg_epoch": ("gauge", "The number of the last commit."),
    "kpg_steps_total": ("counter", "Steps through the views since the server began."),
    "kpg_step_seconds_total": ("counter", "Seconds that all these steps took."),
    "kpg_table_rows": ("gauge", "Rows of a table."),
    "kpg_table_bytes": ("gauge", "Bytes of a table and its own indexes."),
    "kpg_view_rows": ("gauge", "About how many rows a maintained view has."),
    "kpg_view_install_seconds": ("gauge", "What it took to install a view."),
    "kpg_view_last_step_seconds": (
        "gauge",
        "What a view's operators, shared ones too, took in the last step.",
    ),
    "kpg_operators": ("gauge", "Operators of all views."),
    "kpg_arrangements": ("gauge", "Indexes that operators share."),
    "kpg_state_rows": ("gauge", "Rows that operators keep."),
    "kpg_state_bytes": ("gauge", "Bytes of what operators keep."),
    "kpg_connections": ("gauge", "Clients that are connected."),
    "kpg_subscriptions": ("gauge", "Subscriptions of views that are open."),
    "process_resident_memory_bytes": ("gauge", "Memory of the process."),
    "process_cpu_seconds_total": ("counter", "Processor time of the process."),
    "process_start_time_seconds": ("gauge", "When the server began, in seconds since 1970."),
}
"""Of each figure what it is and what it tells."""
STARTED: Final = time.time()
Labels = dict[str, str]
Samples = dict[str, list[tuple[Labels, float]]]


async def answer(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /metrics."""
    found = await server.look(read)
    found["kpg_connections"] = [
        ({"protocol": "postgres"}, len(server.clients)),
        ({"protocol": "http"}, len(server.web)),
    ]
    found |= _process()
    await connection.reply(200, KIND, written(found).encode())


def read(engine: "Engine") -> Samples:
    """The figures of the engine, on its thread."""
    executor, operators = engine.executor, engine.executor.operators()
    tables = [entry.name for entry in engine.catalog if isinstance(entry, TableEntry)]
    views = {name: view.installed.stats for name, view in engine.views.items()}
    steps = engine.steps
    return {
        "kpg_epoch": [({}, executor.epoch)],
        "kpg_steps_total": [({}, steps.count if steps else 0)],
        "kpg_step_seconds_total": [({}, steps.seconds if steps else 0.0)],
        "kpg_table_rows": [({"table": name}, executor.count(name)) for name in tables],
        "kpg_table_bytes": [({"table": name}, executor.table_bytes(name)) for name in tables],
        "kpg_view_rows": [({"view": name}, one.rows) for name, one in views.items()],
        "kpg_view_install_seconds": [({"view": name}, one.install_seconds) for name, one in views.items()],
        "kpg_view_last_step_seconds": [
            ({"view": name}, one.last_step_seconds) for name, one in views.items()
        ],
        "kpg_operators": [({}, len(operators))],
        "kpg_arrangements": [({}, sum(one.arranged for one in operators))],
        "kpg_state_rows": [({}, sum(one.rows for one in operators if one.loop is None))],
        "kpg_state_bytes": [({}, sum(one.bytes for one in operators if one.loop is None))],
        "kpg_subscriptions": [({}, sum(view.feed.listeners for view in engine.views.values()))],
    }


def _process() -> Samples:
    times = os.times()
    found: Samples = {
        "process_cpu_seconds_total": [({}, times.user + times.system)],
        "process_start_time_seconds": [({}, STARTED)],
    }
    if STATUS.exists():
        found["process_resident_memory_bytes"] = [({}, int(STATUS.read_bytes().split()[1]) * PAGE)]
    return found


def written(found: Samples) -> str:
    """Figures as Prometheus reads them."""
    lines = []
    for name, (kind, text) in HELP.items():
        if name in found:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in found[name]]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
