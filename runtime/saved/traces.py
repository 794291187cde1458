"""Traces as data: batches, what came lately, and how far times are compacted.

A merge under way is captured as the two batches that it is of, and begins anew.
"""

from typing import Any

import numpy as np

from kpg.runtime.kernels import head as head_kernels
from kpg.runtime.kernels import layout
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.saved.dormant import lull, state_of
from kpg.runtime.saved.form import Read, State, changing, fixed
from kpg.runtime.trace.batch import Batch, Directory
from kpg.runtime.trace.ends import Ends
from kpg.runtime.trace.head import Head
from kpg.runtime.trace.recent import Recent
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates
from kpg.runtime.versions import replaced


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
        "counts": int(head.description[layout.COUNTS]),
        "met": tuple(head.description[[layout.PROBES, layout.VISITED, layout.VAIN]].tolist()),
        "latest": tuple(head.description[layout.LATEST :].tolist()),
        "data": changing(data),
        "time": changing(time),
        "diff": changing(diff),
    }


def _fill_head(head: Head, state: Any, read: Read) -> None:
    head.adopt(read(state["data"]), read(state["time"]), read(state["diff"]), state["size"])
    description = head.description
    description[layout.COUNTS] = state["counts"]
    description[[layout.PROBES, layout.VISITED, layout.VAIN]] = state["met"]
    description[layout.LATEST :] = state["latest"]
    head_kernels.rehash(description)


def _capture_updates(updates: Updates) -> State:
    return {"data": changing(updates.data), "time": changing(updates.time), "diff": changing(updates.diff)}


def _updates(state: Any, read: Read) -> Updates:
    return Updates(read(state["data"]), read(state["time"]), read(state["diff"]), ordered=True)
