"""Row groups as data. Rows of full groups never change; which of them are live does."""

from typing import Any

from kpg.runtime.data.rowgroups import Group, RowGroups
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.saved.dormant import lull, state_of
from kpg.runtime.saved.form import Part, Read, State, changing, fixed


def columns_path(table: int, group: int) -> str:
    """Where the rows of a group are in the state of a checkpoint."""
    return f"/executor/tables/{table}/groups/groups/{group}/columns"


def capture_groups(groups: RowGroups, count: int) -> State:
    """The groups of a table that has given out ``count`` rowids."""
    asleep = state_of(groups)
    if asleep is not None:
        return asleep
    full = count >> groups.bits
    if full < len(groups.held_groups) and (begun := groups.held_groups[full]) is not None:
        # What memory held before, nobody's rows yet, is not to be written anywhere.
        room = begun.columns[:, count - (full << groups.bits) :]
        if room.any():
            room[:] = 0
    return {
        "bits": groups.bits,
        "capacity": groups.capacity,
        "linked": int(groups.linked),
        "rewritten": int(groups.directory[0, kernels.REWRITTEN]),
        "groups": tuple(
            None
            if group is None
            else _capture_group(groups, number, group, fixed if number < full else changing)
            for number, group in enumerate(groups.held_groups)
        ),
    }


def _capture_group(groups: RowGroups, number: int, group: Group, rows: Any) -> State:
    entry = groups.directory[1 + number]
    part: Part = rows(group.columns)
    return {
        "columns": part,
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
