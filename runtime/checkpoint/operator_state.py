"""Operator state as data: for each class of operator, the state that it has between steps.

Captured are traces, group tables, history tables, and Python states of groups. Not captured are caches that
can be rebuilt, such as window indexes and memo tables. State of a step in progress is empty between steps. A
merge in progress is captured as its two input batches and starts again.

States are matched to operators by fingerprint. An operator whose state is not data (UncapturableError) is
computed again after a restore.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from weakref import ref

import numpy as np

from kpg.runtime.checkpoint.captured_state import (
    ArrayReader,
    State,
    UncapturableError,
    changing_part,
    dormant_state,
    fixed_part,
    make_dormant,
)
from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import groups as group_kernels
from kpg.runtime.kernels import groups as kernels
from kpg.runtime.kernels import head as head_kernels
from kpg.runtime.kernels import historytable as layout
from kpg.runtime.kernels import layout as head_layout
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.basic_reduce import BasicReduce, Fold, Group, Key
from kpg.runtime.operators.expand import Expand
from kpg.runtime.operators.input import Source
from kpg.runtime.operators.join import DeltaJoin, RangeJoin
from kpg.runtime.operators.linear import Concat, Constant, Linear, Negate
from kpg.runtime.operators.loop import Enter, Leave, Loop, Variable
from kpg.runtime.operators.reduce import LoopReduce, Reduce, Single
from kpg.runtime.operators.topk import TopK
from kpg.runtime.operators.user import Apply
from kpg.runtime.operators.user_reduce import EnterAt, OutputRecord, UserReduce
from kpg.runtime.operators.windows.window_operator import Window
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.batch import Batch, Directory
from kpg.runtime.trace.head import Head, Recent, StepEnds
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates
from kpg.runtime.versions import next_version


def capture_groups(table: GroupTable) -> State:
    """Return the state of a group table, between steps."""
    dormant = dormant_state(table)
    if dormant is not None:
        return dormant
    allotted, freed = int(table.state[kernels.ALLOTTED]), int(table.state[kernels.FREED])
    return {
        "state": tuple(table.state.tolist()),
        "slots": changing_part(table.slots),
        "table": changing_part(table.table, allotted),
        "free": changing_part(table.free, freed),
    }


def restore_groups(table: GroupTable, state: State, read: ArrayReader) -> None:
    """Make a new group table restore a state on first use."""
    make_dormant(table, state, lambda one, found: _fill_groups(one, found, read))


def _fill_groups(table: GroupTable, state: Any, read: ArrayReader) -> None:
    table.state[:] = state["state"]
    table.slots, table.table, free = (read(state[name]) for name in ("slots", "table", "free"))
    free_count = state["state"][kernels.FREED]
    table.free = np.empty(table.table.shape[0], np.int64)
    table.free[:free_count] = free[:free_count]
    table.version = next_version()


def capture_history(table: HistoryTable) -> State:
    """Return the state of a history table, between steps."""
    dormant = dormant_state(table)
    if dormant is not None:
        return dormant
    facts = table.state.tolist()
    return {
        "facts": tuple(facts[: layout.COLUMNS]),
        "slots": changing_part(table.slots),
        "keys": changing_part(table.keys, facts[layout.KEYS]),
        "records": changing_part(table.records, facts[layout.RECORDS]),
    }


def restore_history(table: HistoryTable, state: State, read: ArrayReader) -> None:
    """Make a new history table restore a state on first use."""
    make_dormant(table, state, lambda one, found: _fill_history(one, found, read))


def _fill_history(table: HistoryTable, state: Any, read: ArrayReader) -> None:
    table.state[: layout.COLUMNS] = state["facts"]
    table.adopt_arrays(*(read(state[name]) for name in ("slots", "keys", "records")))


def capture_record(record: OutputRecord) -> State:
    """Return the outputs of a user's reduce."""
    return tuple(
        (group, tuple((time, tuple(output.items())) for time, output in outputs.items()))
        for group, outputs in record.committed.items()
    )


def restore_record(record: OutputRecord, state: State) -> None:
    """Restore the outputs of a user's reduce in a new record."""
    for group, outputs in state:
        record.committed[group] = {time: dict(output) for time, output in outputs}


def capture_fold(groups: dict[Key, Group]) -> State:
    """Return the states of groups of user aggregates.

    Raises:
        UncapturableError: If one of them is not data.
    """
    return tuple(
        (key, group.rows, tuple(map(encode_value, group.states)), group.words)
        for key, group in groups.items()
    )


def restore_fold(groups: dict[Key, Group], state: State) -> None:
    """Restore the states of groups."""
    for key, rows, states, words in state:
        groups[key] = Group(rows, [decode_value(one) for one in states], words)


def encode_value(value: Any) -> State:
    """Return a Python value as data: a tag and its components.

    Raises:
        UncapturableError: For instances of other classes.
    """
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
            return ("list", *map(encode_value, value))
        case tuple() if type(value) is tuple:
            return ("tuple", *map(encode_value, value))
        case dict() if type(value) is dict:
            return ("dict", *((encode_value(key), encode_value(one)) for key, one in value.items()))
        case set():
            return ("set", *map(encode_value, value))
        case Decimal():
            return ("decimal", str(value))
        case Fraction():
            return ("fraction", str(value))
        case _:
            raise UncapturableError(f"{type(value).__qualname__} is not saved")


def decode_value(state: Any) -> Any:
    """Return the value that :func:`encode_value` has encoded."""
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
            return [decode_value(one) for one in rest]
        case "tuple":
            return tuple(decode_value(one) for one in rest)
        case "dict":
            return {decode_value(key): decode_value(one) for key, one in rest}
        case "set":
            return {decode_value(one) for one in rest}
        case "decimal":
            return Decimal(rest[0])
        case "fraction":
            return Fraction(rest[0])
        case _:
            raise InternalError(f"{tag} is not a tag of a value")


def capture_spine(spine: Spine) -> State:
    """Return the state of a trace, between steps."""
    dormant = dormant_state(spine)
    if dormant is not None:
        return dormant
    tiers = spine._tiers
    return {
        "upper": spine.upper.elements,
        "since": tiers.since.elements,
        "inserted": spine.inserted_rows,
        "merged": tiers.merged_rows,
        "owed": spine._owed_rows,
        "final": tuple(map(_capture_batch, tiers.batches())),
        "pending": tuple(map(_capture_batch, spine._pending)),
        "recent": _capture_recent(spine.recent),
    }


def restore_spine(spine: Spine, state: State, read: ArrayReader) -> None:
    """Make a new trace, whose holds are set already, restore a state on first use."""
    make_dormant(spine, state, lambda one, found: _fill_spine(one, found, read))


def _fill_spine(spine: Spine, state: Any, read: ArrayReader) -> None:
    tiers = spine._tiers
    spine.upper = Antichain.of_minimal(state["upper"])
    spine.inserted_rows = state["inserted"]
    spine._owed_rows = state["owed"]
    tiers.since = Antichain.of_minimal(state["since"])
    tiers.merged_rows = state["merged"]
    tiers.nodes = [_make_batch(one, read) for one in state["final"]]
    tiers.has_begun_due_merges = len(tiers.nodes) < 2
    spine._pending = [_make_batch(one, read) for one in state["pending"]]
    _fill_recent(spine.recent, state["recent"], read)
    spine.version = next_version()


def _capture_batch(batch: Batch) -> State:
    directory = batch.directory
    return {
        "data": fixed_part(batch.data),
        "time": fixed_part(batch.time),
        "diff": fixed_part(batch.diff),
        "lower": batch.lower.elements,
        "upper": batch.upper.elements,
        "since": batch.since.elements,
        "latest": batch._latest,
        "offsets": None if directory is None else fixed_part(directory.offsets),
        "bounds": None if directory is None else tuple(directory.bounds.tolist()),
    }


def _make_batch(state: Any, read: ArrayReader) -> Batch:
    updates = Updates(read(state["data"]), read(state["time"]), read(state["diff"]), ordered=True)
    lower, upper, since = (Antichain.of_minimal(state[name]) for name in ("lower", "upper", "since"))
    batch = Batch(updates, lower, upper, since, state["latest"])
    if state["offsets"] is not None:
        batch.install_directory(_make_directory(batch, state, read))
    return batch


def _make_directory(batch: Batch, state: Any, read: ArrayReader) -> Directory:
    return Directory.from_arrays(batch.data[0], np.array(state["bounds"], np.int64), read(state["offsets"]))


def _capture_recent(recent: Recent) -> State:
    tail = recent.tail
    return {
        "lower": recent.lower.elements,
        "crowded": int(recent.is_crowded),
        "direct": recent.ordered_steps,
        "churned": recent.next_churn_check,
        "ends": capture_ends(recent.ends),
        "head": _capture_head(recent.head) if recent.head.size else None,
        "hashed": recent.head.hash_columns,
        "tail": None if tail is None else _capture_updates(tail.updates()),
    }


def capture_ends(ends: StepEnds) -> State:
    """Return the ends of steps in a head.

    A head has up to a hundred thousand of them: as arrays they are faster to describe than as pairs.
    """
    words = ends.words
    if words is None:
        return ends.pairs
    times, sizes = words
    count = len(times)
    if not count:
        return ()
    return {"count": count, "times": changing_part(times, count), "sizes": changing_part(sizes, count)}


def fill_ends(ends: StepEnds, state: Any, read: ArrayReader) -> None:
    """Restore the ends of steps from this format or an earlier one."""
    if isinstance(state, dict):
        count = state["count"]
        ends.adopt_words(read(state["times"])[:count], read(state["sizes"])[:count])
    else:  # packs up to version 3 have pairs
        ends.restore(state)


def _fill_recent(recent: Recent, state: Any, read: ArrayReader) -> None:
    recent.lower = Antichain.of_minimal(state["lower"])
    recent.is_crowded = bool(state["crowded"])
    recent.ordered_steps = state["direct"]
    recent.next_churn_check = state["churned"]
    fill_ends(recent.ends, state["ends"], read)
    recent.head.hash_prefix(state["hashed"])
    if state["head"] is not None:
        _fill_head(recent.head, state["head"], read)
    if state["tail"] is not None:
        recent.make_tail()
        assert recent.tail is not None
        updates = _make_updates(state["tail"], read)
        if len(updates):
            recent.tail.insert(updates)


def _capture_head(head: Head) -> State:
    data, time, diff = head.arrays
    return {
        "size": head.size,
        "counts": int(head.description[head_layout.COUNTS]),
        "met": tuple(head.description[[head_layout.PROBES, head_layout.VISITED, head_layout.VAIN]].tolist()),
        "latest": tuple(head.description[head_layout.LATEST :].tolist()),
        "data": changing_part(data),
        "time": changing_part(time),
        "diff": changing_part(diff),
    }


def _fill_head(head: Head, state: Any, read: ArrayReader) -> None:
    head.adopt_arrays(read(state["data"]), read(state["time"]), read(state["diff"]), state["size"])
    description = head.description
    description[head_layout.COUNTS] = state["counts"]
    description[[head_layout.PROBES, head_layout.VISITED, head_layout.VAIN]] = state["met"]
    description[head_layout.LATEST :] = state["latest"]
    head_kernels.rehash(description)


def _capture_updates(updates: Updates) -> State:
    return {
        "data": changing_part(updates.data),
        "time": changing_part(updates.time),
        "diff": changing_part(updates.diff),
    }


def _make_updates(state: Any, read: ArrayReader) -> Updates:
    return Updates(read(state["data"]), read(state["time"]), read(state["diff"]), ordered=True)


STATELESS: Final = (
    Source, Constant, Linear, Concat, Negate, DeltaJoin, RangeJoin, Expand, Apply, Enter, EnterAt,
    Variable, Leave, TopK, BasicReduce, Window,
)  # fmt: skip
"""Operators without state: their output is computed from their inputs."""


def capture_operator(operator: Operator) -> State:
    """Return the state of an operator between steps; None if it has none.

    Raises:
        UncapturableError: If the state is not data.
    """
    match operator:
        case Arrange():
            hold = operator.handle
            return {
                "spine": capture_spine(operator.spine),
                "logical": hold.logical.elements,
                "physical": hold.physical.elements,
                "bound": operator.bound,
            }
        case Reduce() | Single():
            return {"table": capture_groups(operator.table)}
        case LoopReduce():
            return {"table": capture_history(operator.table), "bound": operator.bound}
        case UserReduce():
            return {"record": capture_record(operator.record)}
        case Fold():
            return {"groups": capture_fold(operator.groups)}
        case Loop():
            return {"body": capture_operators(operator.body)}
        case _ if isinstance(operator, STATELESS):
            return None
        case _:
            raise UncapturableError(operator.place.description)


def capture_operators(operators: tuple[Operator, ...]) -> State:
    """Return the states of operators of one scope by fingerprint, without those that cannot be captured."""
    states: dict[str, State] = {}
    for operator in operators:
        if isinstance(operator, STATELESS):
            continue
        try:
            states[operator.place.fingerprint] = capture_operator(operator)
        except UncapturableError:
            continue
    return states


def version_of_operator(operator: Operator) -> object:
    """Return a value that stays equal while the state of an operator is unchanged; None if unknown.

    Traces that merge and seal on their own change their arrays, not their contents.
    """
    match operator:
        case Arrange():
            spine = operator.spine
            dormant: Any = dormant_state(spine)
            if dormant is None:
                return ref(operator), spine.inserted_rows, spine.merged_rows, operator.bound
            return ref(operator), dormant["inserted"], dormant["merged"], operator.bound
        case Reduce() | Single():
            dormant = dormant_state(operator.table)
            state = operator.table.state if dormant is None else dormant["state"]
            return ref(operator), int(state[group_kernels.MARKER])
        case _:
            return None


def restore_operator(operator: Operator, state: Any, read: ArrayReader) -> None:
    """Restore a new operator, whose inputs are restored; arrays are read on first use."""
    match operator:
        case Arrange():
            operator.handle.restore(
                Antichain.of_minimal(state["logical"]), Antichain.of_minimal(state["physical"])
            )
            restore_spine(operator.spine, state["spine"], read)
            operator.bound = operator.committed_bound = state["bound"]
        case Reduce() | Single():
            restore_groups(operator.table, state["table"], read)
        case LoopReduce():
            restore_history(operator.table, state["table"], read)
            operator.bound = state["bound"]
        case UserReduce():
            restore_record(operator.record, state["record"])
        case Fold():
            restore_fold(operator.groups, state["groups"])
        case Loop():
            scope, step = operator.body_scope, operator.step
            scope.step = Step(step.lower, step.upper, rounds=(0,) * (scope.depth - 1))
            for inner in operator.body:
                if not isinstance(inner, STATELESS):
                    restore_operator(inner, state["body"][inner.place.fingerprint], read)
                inner.is_hydrated = True
        case _ if isinstance(operator, STATELESS):
            pass
        case _:
            raise InternalError(f"{operator.place.description} cannot be restored")
    operator.is_hydrated = True


def has_state(operator: Operator, states: Any) -> bool:
    """Return whether ``states`` (by fingerprint) contain the whole state of an operator."""
    if isinstance(operator, STATELESS):
        return True
    state = states.get(operator.place.fingerprint)
    if state is None:
        return False
    return not isinstance(operator, Loop) or all(has_state(inner, state["body"]) for inner in operator.body)


def restore_operators(
    operators: tuple[Operator, ...], states: Any, read: ArrayReader
) -> tuple[Operator, ...]:
    """Restore those of the new operators, in dependency order, that can be; return the others.

    An operator can be restored if its state is known and all its inputs are hydrated.
    """
    missing = []
    for operator in operators:
        if all(source.is_hydrated for source in operator.inputs) and has_state(operator, states):
            restore_operator(operator, states.get(operator.place.fingerprint), read)
        else:
            missing.append(operator)
    return tuple(missing)
