"""Operator state as data: for each class of operator, what it keeps between steps.

Captured are traces, group tables, history tables, and Python states of groups. Not captured are caches that
can be rebuilt, such as window indexes and memo tables. State of a step in progress is empty between steps. A
merge in progress is captured as its two input batches and starts again.

States are matched to operators by content (what they compute). UnsavedError marks a state that is not data;
that operator is computed again after a restore.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from weakref import ref

import numpy as np

from kpg.runtime.checkpoint.captured_state import Read, State, UnsavedError, changing, fixed, lull, state_of
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
from kpg.runtime.operators.join import Join, RangeJoin
from kpg.runtime.operators.linear import Concat, Constant, Late, Linear, Negate
from kpg.runtime.operators.loop import Enter, Leave, Loop, Variable
from kpg.runtime.operators.reduce import Distinct, LoopDistinct, LoopReduce, Reduce, Single
from kpg.runtime.operators.topk import TopK
from kpg.runtime.operators.user import Apply
from kpg.runtime.operators.user_reduce import EnterAt, Record, UserReduce
from kpg.runtime.operators.windows.window_operator import Window
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.batch import Batch, Directory
from kpg.runtime.trace.head import Ends, Head, Recent
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates
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


def capture_spine(spine: Spine) -> State:
    """The state of a trace, between steps."""
    asleep = state_of(spine)
    if asleep is not None:
        return asleep
    tiers = spine._tiers
    return {
        "upper": spine.upper.elements,
        "since": tiers.since.elements,
        "inserted": spine.inserted_rows,
        "merged": tiers.merged_rows,
        "owed": spine._owed,
        "final": tuple(map(_capture_batch, tiers.batches())),
        "pending": tuple(map(_capture_batch, spine._pending)),
        "recent": _capture_recent(spine.recent),
    }


def restore_spine(spine: Spine, state: State, read: Read) -> None:
    """Have a new trace, whose readers' holds are right already, take on a state once it is needed."""
    lull(spine, state, lambda one, found: _fill_spine(one, found, read))


def _fill_spine(spine: Spine, state: Any, read: Read) -> None:
    tiers = spine._tiers
    spine.upper = Antichain.known(state["upper"])
    spine.inserted_rows = state["inserted"]
    spine._owed = state["owed"]
    tiers.since = Antichain.known(state["since"])
    tiers.merged_rows = state["merged"]
    tiers.nodes = [_batch(one, read) for one in state["final"]]
    tiers.settled = len(tiers.nodes) < 2
    spine._pending = [_batch(one, read) for one in state["pending"]]
    _fill_recent(spine.recent, state["recent"], read)
    spine.version = replaced()


def _capture_batch(batch: Batch) -> State:
    directory = batch.directory
    return {
        "data": fixed(batch.data),
        "time": fixed(batch.time),
        "diff": fixed(batch.diff),
        "lower": batch.lower.elements,
        "upper": batch.upper.elements,
        "since": batch.since.elements,
        "latest": batch._latest,
        "offsets": None if directory is None else fixed(directory.offsets),
        "bounds": None if directory is None else tuple(directory.bounds.tolist()),
    }


def _batch(state: Any, read: Read) -> Batch:
    updates = Updates(read(state["data"]), read(state["time"]), read(state["diff"]), ordered=True)
    lower, upper, since = (Antichain.known(state[name]) for name in ("lower", "upper", "since"))
    batch = Batch(updates, lower, upper, since, state["latest"])
    if state["offsets"] is not None:
        batch.install(_directory(batch, state, read))
    return batch


def _directory(batch: Batch, state: Any, read: Read) -> Directory:
    return Directory.known(batch.data[0], np.array(state["bounds"], np.int64), read(state["offsets"]))


def _capture_recent(recent: Recent) -> State:
    tail = recent.tail
    return {
        "lower": recent.lower.elements,
        "crowded": int(recent.crowded),
        "direct": recent.direct,
        "churned": recent.churned_at,
        "ends": capture_ends(recent.ends),
        "head": _capture_head(recent.head) if recent.head.size else None,
        "hashed": recent.head.hashed,
        "tail": None if tail is None else _capture_updates(tail.updates()),
    }


def capture_ends(ends: Ends) -> State:
    """Where steps end: a head has up to a hundred thousand of them, which would be slow to describe."""
    words = ends.words
    if words is None:
        return ends.pairs
    times, sizes = words
    count = len(times)
    if not count:
        return ()
    return {"count": count, "times": changing(times, count), "sizes": changing(sizes, count)}


def fill_ends(ends: Ends, state: Any, read: Read) -> None:
    """Have them be what was captured, in this format or an earlier one."""
    if isinstance(state, dict):
        count = state["count"]
        ends.adopt(read(state["times"])[:count], read(state["sizes"])[:count])
    else:  # in packs of version 3 and before all of them are pairs
        ends.restore(state)


def _fill_recent(recent: Recent, state: Any, read: Read) -> None:
    recent.lower = Antichain.known(state["lower"])
    recent.crowded = bool(state["crowded"])
    recent.direct = state["direct"]
    recent.churned_at = state["churned"]
    fill_ends(recent.ends, state["ends"], read)
    recent.head.serve(state["hashed"])
    if state["head"] is not None:
        _fill_head(recent.head, state["head"], read)
    if state["tail"] is not None:
        recent.make_tail()
        assert recent.tail is not None
        updates = _updates(state["tail"], read)
        if len(updates):
            recent.tail.insert(updates)


def _capture_head(head: Head) -> State:
    data, time, diff = head.arrays
    return {
        "size": head.size,
        "counts": int(head.description[head_layout.COUNTS]),
        "met": tuple(head.description[[head_layout.PROBES, head_layout.VISITED, head_layout.VAIN]].tolist()),
        "latest": tuple(head.description[head_layout.LATEST :].tolist()),
        "data": changing(data),
        "time": changing(time),
        "diff": changing(diff),
    }


def _fill_head(head: Head, state: Any, read: Read) -> None:
    head.adopt(read(state["data"]), read(state["time"]), read(state["diff"]), state["size"])
    description = head.description
    description[head_layout.COUNTS] = state["counts"]
    description[[head_layout.PROBES, head_layout.VISITED, head_layout.VAIN]] = state["met"]
    description[head_layout.LATEST :] = state["latest"]
    head_kernels.rehash(description)


def _capture_updates(updates: Updates) -> State:
    return {"data": changing(updates.data), "time": changing(updates.time), "diff": changing(updates.diff)}


def _updates(state: Any, read: Read) -> Updates:
    return Updates(read(state["data"]), read(state["time"]), read(state["diff"]), ordered=True)


STATELESS: Final = (
    Source, Constant, Linear, Late, Concat, Negate, Join, RangeJoin, Expand, Apply, Enter, EnterAt, Variable,
    Leave, TopK, BasicReduce, Window,
)  # fmt: skip
"""What keeps nothing: its output is computed of what its inputs hold."""


def capture_operator(operator: Operator) -> State:
    """What an operator keeps, None if nothing; between steps. UnsavedError if it is no data."""
    match operator:
        case Arrange():  # of which ArrangedLeave is a kind
            hold = operator.handle
            return {
                "spine": capture_spine(operator.spine),
                "logical": hold.logical.elements,
                "physical": hold.physical.elements,
                "bound": operator.bound,
            }
        case Reduce() | Distinct() | Single():
            return {"table": capture_groups(operator.table)}
        case LoopReduce() | LoopDistinct():
            return {"table": capture_history(operator.table), "bound": operator.bound}
        case UserReduce():
            return {"record": capture_record(operator.record)}
        case Fold():
            return {"groups": capture_fold(operator.groups)}
        case Loop():
            return {"body": captured(operator.body)}
        case _ if isinstance(operator, STATELESS):
            return None
        case _:
            raise UnsavedError(operator.place.description)


def captured(operators: tuple[Operator, ...]) -> State:
    """What operators of one scope keep, by what they compute; those that cannot be saved are left out."""
    found: dict[str, State] = {}
    for operator in operators:
        if isinstance(operator, STATELESS):
            continue
        try:
            found[operator.place.fingerprint] = capture_operator(operator)
        except UnsavedError:
            continue
    return found


def version_of_operator(operator: Operator) -> object:
    """What is equal as long as an operator keeps the same, between steps; None if that is not known.

    What traces do by themselves, merging and sealing, makes others of what they have, not of what it means.
    """
    match operator:
        case Arrange():
            spine = operator.spine
            asleep: Any = state_of(spine)
            if asleep is None:
                return ref(operator), spine.inserted_rows, spine.merged_rows, operator.bound
            return ref(operator), asleep["inserted"], asleep["merged"], operator.bound
        case Reduce() | Distinct() | Single():
            asleep = state_of(operator.table)
            state = operator.table.state if asleep is None else asleep["state"]
            return ref(operator), int(state[group_kernels.MARKER])
        case _:
            return None


def restore_operator(operator: Operator, state: Any, read: Read) -> None:
    """Have a new operator, whose inputs are restored, keep what it kept: arrays once they are needed."""
    match operator:
        case Arrange():
            operator.handle.restore(Antichain.known(state["logical"]), Antichain.known(state["physical"]))
            restore_spine(operator.spine, state["spine"], read)
            operator.bound = operator.committed_bound = state["bound"]
        case Reduce() | Distinct() | Single():
            restore_groups(operator.table, state["table"], read)
        case LoopReduce() | LoopDistinct():
            restore_history(operator.table, state["table"], read)
            operator.bound = state["bound"]
        case UserReduce():
            restore_record(operator.record, state["record"])
        case Fold():
            restore_fold(operator.groups, state["groups"])
        case Loop():
            scope, step = operator.within, operator.step
            scope.step = Step(step.lower, step.upper, rounds=(0,) * (scope.depth - 1))
            for inner in operator.body:
                if not isinstance(inner, STATELESS):
                    restore_operator(inner, state["body"][inner.place.fingerprint], read)
                inner.hydrated = True
        case _ if isinstance(operator, STATELESS):
            pass
        case _:
            raise InternalError(f"{operator.place.description} cannot be restored")
    operator.hydrated = True


def is_known(operator: Operator, states: Any) -> bool:
    """Whether ``states``, by what operators compute, have all that an operator keeps."""
    if isinstance(operator, STATELESS):
        return True
    state = states.get(operator.place.fingerprint)
    if state is None:
        return False
    return not isinstance(operator, Loop) or all(is_known(inner, state["body"]) for inner in operator.body)


def restore_known(operators: tuple[Operator, ...], states: Any, read: Read) -> tuple[Operator, ...]:
    """Restore of new operators, in dependency order, those that can be; the others, to be computed.

    An operator can be restored if all that it reads is there, or can be.
    """
    left = []
    for operator in operators:
        if all(source.hydrated for source in operator.inputs) and is_known(operator, states):
            restore_operator(operator, states.get(operator.place.fingerprint), read)
        else:
            left.append(operator)
    return tuple(left)
