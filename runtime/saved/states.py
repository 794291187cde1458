"""The private state of operators as data: group tables, history tables, and what Python keeps of groups."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import groups as kernels
from kpg.runtime.kernels import historytable as layout
from kpg.runtime.operators.fold import Group, Key
from kpg.runtime.operators.userreduce import Record
from kpg.runtime.saved.dormant import lull, state_of
from kpg.runtime.saved.form import Read, State, UnsavedError, changing
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.versions import replaced


def capture_groups(table: GroupTable) -> State:
    """The state of a group table, between steps."""
    asleep = state_of(table)
    if asleep is not None:
        return asleep
    allotted, freed = int(table.state[kernels.ALLOTTED]), int(table.state[kernels.FREED])
    return {
        "state": tuple(table.state.tolist()),
        "slots": changing(table.slots),
        "table": changing(table.table, allotted),
        "free": changing(table.free, freed),
    }


def restore_groups(table: GroupTable, state: State, read: Read) -> None:
    """Have a new group table take on a state once it is needed."""
    lull(table, state, lambda one, found: _fill_groups(one, found, read))


def _fill_groups(table: GroupTable, state: Any, read: Read) -> None:
    table.state[:] = state["state"]
    table.slots, table.table, free = (read(state[name]) for name in ("slots", "table", "free"))
    freed = state["state"][kernels.FREED]
    table.free = np.empty(table.table.shape[0], np.int64)
    table.free[:freed] = free[:freed]
    table.version = replaced()


def capture_history(table: HistoryTable) -> State:
    """The state of a history table, between steps."""
    asleep = state_of(table)
    if asleep is not None:
        return asleep
    facts = table.state.tolist()
    return {
        "facts": tuple(facts[: layout.COLUMNS]),
        "slots": changing(table.slots),
        "keys": changing(table.keys, facts[layout.KEYS]),
        "records": changing(table.records, facts[layout.RECORDS]),
    }


def restore_history(table: HistoryTable, state: State, read: Read) -> None:
    """Have a new history table take on a state once it is needed."""
    lull(table, state, lambda one, found: _fill_history(one, found, read))


def _fill_history(table: HistoryTable, state: Any, read: Read) -> None:
    table.state[: layout.COLUMNS] = state["facts"]
    table.adopt(*(read(state[name]) for name in ("slots", "keys", "records")))


def capture_record(record: Record) -> State:
    """What a user's reduce has given."""
    return tuple(
        (group, tuple((time, tuple(output.items())) for time, output in outputs.items()))
        for group, outputs in record.kept.items()
    )


def restore_record(record: Record, state: State) -> None:
    """Have a new record know what was given."""
    for group, outputs in state:
        record.kept[group] = {time: dict(output) for time, output in outputs}


def capture_fold(groups: dict[Key, Group]) -> State:
    """The states that aggregates have of groups, if they are data: UnsavedError if they are not."""
    return tuple(
        (key, group.rows, tuple(map(plain, group.states)), group.words) for key, group in groups.items()
    )


def restore_fold(groups: dict[Key, Group], state: State) -> None:
    """Have the states of groups again."""
    for key, rows, states, words in state:
        groups[key] = Group(rows, [revived(one) for one in states], words)


def plain(value: Any) -> State:
    """A Python value as data: a tag and what it is made of. UnsavedError for objects of other classes."""
    match value:
        case None | str():
            return value
        case bool():
            return ("bool", int(value))
        case int():
            return value if -(2**63) <= value < 2**63 else ("int", str(value))
        case float():
            return ("float", value.hex())
        case list():
            return ("list", *map(plain, value))
        case tuple() if type(value) is tuple:
            return ("tuple", *map(plain, value))
        case dict() if type(value) is dict:
            return ("dict", *((plain(key), plain(one)) for key, one in value.items()))
        case set():
            return ("set", *map(plain, value))
        case Decimal():
            return ("decimal", str(value))
        case Fraction():
            return ("fraction", str(value))
        case _:
            raise UnsavedError(f"{type(value).__qualname__} is not saved")


def revived(state: Any) -> Any:
    """The value of which :func:`plain` made data."""
    if not isinstance(state, tuple):
        return state
    tag, *rest = state
    match tag:
        case "bool":
            return bool(rest[0])
        case "int":
            return int(rest[0])
        case "float":
            return float.fromhex(rest[0])
        case "list":
            return [revived(one) for one in rest]
        case "tuple":
            return tuple(revived(one) for one in rest)
        case "dict":
            return {revived(key): revived(one) for key, one in rest}
        case "set":
            return {revived(one) for one in rest}
        case "decimal":
            return Decimal(rest[0])
        case "fraction":
            return Fraction(rest[0])
        case _:
            raise InternalError(f"{tag} is no kind of value")
