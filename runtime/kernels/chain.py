"""A chain: the operators of a small step, run one after another without going back to Python.

A *stream* is what flows along an edge in the step, all at the step's one time. A *link* is one call: it reads
one stream, and writes one. Links are in the order in which operators run; those of one operator are adjacent.
What a link calls is another kernel, by its address and the slots in which compiled code takes its arguments
(see ``runtime/native/emit.py``); a template of the slots has what does not depend on the step.
``kernels.links`` says what the tables of streams and links hold.

A link that meets what is rare (no room, an error, a batch without a directory) changes nothing and says so:
its operator then runs in Python.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, invoke_intrinsic, kernel, load_intrinsic
from kpg.runtime.kernels.calls import append, follow, meet, refresh, run_program, tidy, top
from kpg.runtime.kernels.links import (
    APPENDING,
    CHAIN_CARRIES,
    CHAIN_CHANGED,
    CHAIN_CLOCK,
    CHAIN_LIMIT,
    CHAIN_NEXT,
    CHAIN_TIME,
    CHAIN_TOLD,
    CHANGE_ADDED,
    CHANGE_APPENDED,
    CHANGE_FIELDS,
    CHANGE_LINK,
    CHANGE_VERDICT,
    DONE,
    DOUBTS,
    EVALUATING,
    FAILED,
    GATHERING,
    INSERTED,
    LACKS,
    LEAVES,
    LEAVING,
    LINK_EPOCH,
    LINK_EXTRA,
    LINK_HEARD,
    LINK_INPUT,
    LINK_KIND,
    LINK_LATEST,
    LINK_NANOSECONDS,
    LINK_OUTPUT,
    LINK_POSITION,
    LINK_READ,
    LINK_SKIPPED,
    LINK_UPDATES_IN,
    LINK_UPDATES_OUT,
    MEETING,
    MOST_SLOTS,
    NARROW,
    NEGATING,
    NOBODY,
    OWES,
    RANGE_THRESHOLDS,
    RANGING,
    READING_TOP,
    REFRESHING,
    RUNNING,
    SELECTING,
    STREAM_ROWS,
    TIDYING,
    WAITS,
)
from kpg.runtime.kernels.rounding import carry_on, evaluate, leave
from kpg.runtime.kernels.streams import gather, negate, select

Words = NDArray[np.int64]
Table = NDArray[np.int64]

invoke = invoke_intrinsic()
load = load_intrinsic()


@device
def run_link(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """DONE, DOUBTS when it is done, or FAILED or NARROW when nothing has changed."""
    kind = link[LINK_KIND]
    if kind == RUNNING:
        return run_program(link, streams, state, slots)
    if kind == SELECTING:
        return select(link, streams, state)
    if kind == MEETING:
        return meet(link, streams, state, slots)
    if kind == GATHERING:
        return gather(link, streams, state)
    if kind == NEGATING:
        return negate(link, streams, state)
    if kind == TIDYING:
        return tidy(link, streams, state, slots)
    if kind == APPENDING:
        return append(link, streams, state, slots, change)
    if kind == REFRESHING:
        return refresh(link, streams, state, slots)
    if kind == READING_TOP:
        return top(link, streams, state, slots, change)
    if kind == RANGING:
        return follow(link, streams, state, slots, change)
    if kind == EVALUATING:
        return evaluate(link, streams, state, slots, change)
    if kind == LEAVING:
        return leave(link, streams)
    streams[link[LINK_OUTPUT]] = streams[link[LINK_INPUT]]
    return DONE


@device
def is_fed(link: Words, streams: Table) -> bool:
    """Whether there may be something for a link to do."""
    if link[LINK_KIND] == GATHERING or streams[link[LINK_INPUT], STREAM_ROWS] > 0:
        return True
    return link[LINK_KIND] == RANGING and streams[load(link[LINK_EXTRA], RANGE_THRESHOLDS), STREAM_ROWS] > 0


@device
def now(state: Words, slots: Words) -> int:
    """Nanoseconds, 0 if nobody counts."""
    if state[CHAIN_CLOCK] == 0:
        return 0
    invoke(state[CHAIN_CLOCK], slots.ctypes.data)
    return int(slots[0])


@device
def count_updates(link: Words, streams: Table) -> None:
    """Count what an operator was given and has put out."""
    given = 0
    for k in range(load(link[LINK_READ], 0)):
        given += streams[load(link[LINK_READ], 1 + k), STREAM_ROWS]
    link[LINK_UPDATES_IN] += given
    if given > 0:
        link[LINK_UPDATES_OUT] += streams[link[LINK_OUTPUT], STREAM_ROWS]


@device
def note(at: int, change: Words, state: Words, changed: Table) -> None:
    """List what a link that has state did; in a loop, add it to what it did in other rounds."""
    if state[CHAIN_CARRIES] == 0:
        changed[state[CHAIN_CHANGED]] = change
        changed[state[CHAIN_CHANGED], CHANGE_LINK] = at
        state[CHAIN_CHANGED] += 1
        return
    changed[at, CHANGE_LINK] += 1
    if change[CHANGE_VERDICT] == INSERTED:
        changed[at, CHANGE_VERDICT] = INSERTED  # one call has all that it appends go to one place
    else:
        changed[at, CHANGE_VERDICT] = max(changed[at, CHANGE_VERDICT], change[CHANGE_VERDICT])
    changed[at, CHANGE_APPENDED] += change[CHANGE_APPENDED]
    changed[at, CHANGE_ADDED] += change[CHANGE_ADDED]


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1])")
def run(links: Table, streams: Table, state: Words, changed: Table, told: Words) -> int:
    """Run links from CHAIN_NEXT on, while their operators' positions are below CHAIN_LIMIT.

    ``changed int64[links, CHANGE_FIELDS]`` takes what links did that have state,
    ``told int64[links]`` the numbers of links whose output somebody outside hears, who lowers CHAIN_LIMIT.
    In a loop, goes on with the next round if nobody has heard anything; ``changed`` has a row for each link
    then, to which the rounds add.

    Returns WAITS, NARROW, LACKS, LEAVES, CRAMPED, DOUBTS, OWES, or the link, then CHAIN_NEXT, whose operator
    is to run in Python.
    """
    slots = np.empty(MOST_SLOTS, np.int64)
    change = np.empty(CHANGE_FIELDS, np.int64)
    state[CHAIN_CHANGED] = 0
    state[CHAIN_TOLD] = 0
    epoch = load(state[CHAIN_TIME], 0)
    before = now(state, slots)
    while True:
        at = state[CHAIN_NEXT]
        if at == links.shape[0]:
            if state[CHAIN_CARRIES] == 0 or state[CHAIN_TOLD] > 0 or state[CHAIN_LIMIT] != NOBODY:
                return WAITS
            verdict = carry_on(streams, state)
            if verdict != DONE:
                return verdict
            continue
        link = links[at]
        if link[LINK_POSITION] >= state[CHAIN_LIMIT]:
            break
        verdict = DONE
        if is_fed(link, streams):
            if link[LINK_SKIPPED] != 0:
                return int(at)
            change[:] = 0
            verdict = run_link(link, streams, state, slots, change)
            if verdict == FAILED:
                return int(at)
            if verdict in (NARROW, LACKS, LEAVES):
                return verdict
            after = now(state, slots)
            link[LINK_NANOSECONDS] += after - before
            if link[LINK_EPOCH] != epoch:
                link[LINK_EPOCH] = epoch
                link[LINK_LATEST] = 0
            link[LINK_LATEST] += after - before
            before = after
            if link[LINK_KIND] >= APPENDING:
                note(at, change, state, changed)
            if link[LINK_HEARD] != NOBODY and streams[link[LINK_OUTPUT], STREAM_ROWS] > 0:
                told[state[CHAIN_TOLD]] = at
                state[CHAIN_TOLD] += 1
                state[CHAIN_LIMIT] = min(state[CHAIN_LIMIT], link[LINK_HEARD])
        if link[LINK_READ] != 0:
            count_updates(link, streams)
        state[CHAIN_NEXT] = at + 1
        if verdict in (DOUBTS, OWES):
            return verdict
    return WAITS
