"""What is kept of earlier epochs as data: of tables which rows came and went, of views what has changed."""

from typing import Any

from kpg.runtime.data.past import TablePast
from kpg.runtime.installed import Memory
from kpg.runtime.saved.form import Read, State, fixed
from kpg.runtime.trace.updates import Updates


def capture_table_past(past: TablePast) -> State:
    """What a table was, between steps."""
    return {
        "born": past.born,
        "since": past.since,
        "count": past.count,
        "epochs": tuple(past._epochs),
        "counts": tuple(past._counts),
        "gone": tuple(map(fixed, past._gone)),
        "buried": tuple((epoch, tuple(map(fixed, rowids))) for epoch, rowids in past._buried),
    }


def restored_table_past(state: Any, read: Read) -> TablePast:
    """The past of a table."""
    past = TablePast(state["born"])
    past.since, past.count = state["since"], state["count"]
    past._epochs, past._counts = list(state["epochs"]), list(state["counts"])
    past._gone = [read(rowids) for rowids in state["gone"]]
    past._buried = [(epoch, [read(one) for one in rowids]) for epoch, rowids in state["buried"]]
    return past


def capture_memory(memory: Memory) -> State:
    """The changes that a view has had, or, where it is computed late, what it is computed of."""
    changes = ((fixed(one.data), fixed(one.time), fixed(one.diff)) for one in memory.changes)
    return {"since": memory.since, "late": int(memory.late is not None), "changes": tuple(changes)}


def restore_memory(memory: Memory, state: Any, read: Read) -> None:
    """Have a view that is remembered from now on be remembered since before.

    Unless one of the two has what it is computed of, and the other not: versions of kpg may differ in that.
    """
    if state.get("late", 0) != (memory.late is not None):
        return
    memory.since = state["since"]
    memory.changes = [Updates(read(data), read(time), read(diff)) for data, time, diff in state["changes"]]
