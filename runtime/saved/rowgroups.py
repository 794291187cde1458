"""Row groups as data. Rows of full groups never change; which of them are live does."""

from typing import Any

from kpg.runtime.data.rowgroups import Group, RowGroups
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.saved.dormant import lull, state_of
from kpg.runtime.saved.form import Life, Part, Read, State, changing, fixed


def columns_path(table: int, group: int) -> str:
    """Where the rows of a group are in the state of a checkpoint."""
    return f"/executor/tables/{table}/groups/groups/{group}/columns"


def capture_groups(groups: RowGroups, count: int) -> State:
    """The groups of a table that has given out ``count`` rowids."""
    asleep = state_of(groups)
    if asleep is not None:
        return asleep
    full = count >> groups.bits
    return {
        "bits": groups.bits,
        "capacity": groups.capacity,
        "linked": int(groups.linked),
        "rewritten": int(groups.directory[0, kernels.REWRITTEN]),
        "groups": tuple(
            None
            if group is None
            else _capture_group(
                groups, number, group, None if number < full else count - (number << groups.bits)
            )
            for number, group in enumerate(groups.held_groups)
        ),
    }


def _capture_group(groups: RowGroups, number: int, group: Group, rows: int | None) -> State:
    """A group, full unless it has so many ``rows``: behind them is what memory held before."""
    entry = groups.directory[1 + number]
    columns = group.columns
    return {
        "columns": fixed(columns) if rows is None else Part(columns, Life.CHANGING, rows=max(rows, 0)),
        "live": changing(group.live),
        "chart": None if group.chart is None else fixed(group.chart),
        "links": None if group.links is None else changing(group.links),
        "dead": int(entry[kernels.DEAD]),
        "waiting": int(entry[kernels.WAITING]),
    }


def restore_groups(groups: RowGroups, state: State, read: Read) -> RowGroups:
    """Have new groups take on a state once they are needed."""
    return lull(groups, state, lambda one, found: _fill(one, found, read))


def _fill(groups: RowGroups, state: Any, read: Read) -> None:
    groups.bits, groups.linked = state["bits"], bool(state["linked"])
    groups.directory[0, 0] = groups.bits
    for number, one in enumerate(state["groups"]):
        if one is None:
            groups.add_nothing()
            continue
        chart, links = (None if one[name] is None else read(one[name]) for name in ("chart", "links"))
        groups.add(Group(read(one["columns"]), read(one["live"]), chart, links))
        entry = groups.directory[1 + number]
        entry[kernels.DEAD], entry[kernels.WAITING] = one["dead"], one["waiting"]
    groups.directory[0, kernels.REWRITTEN] = state["rewritten"]
    groups.capacity = state["capacity"]
