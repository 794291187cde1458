"""What the kernels and traces compute, said with dictionaries and loops."""

from collections.abc import Iterable, Sequence

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.lookup import Order
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates

Row = tuple[int, ...]
Time = tuple[int, ...]
Contents = dict[tuple[Row, Time], int]


def triples(updates: Updates) -> list[tuple[Row, Time, int]]:
    """The updates one by one, in their order."""
    rows = updates.data.T.tolist() if updates.width else [()] * len(updates)
    times, diffs = updates.times().T.tolist(), updates.diffs().tolist()
    return [(tuple(row), tuple(time), diff) for row, time, diff in zip(rows, times, diffs, strict=True)]


def contents(parts: Iterable[Updates], since: Antichain | None = None) -> Contents:
    """Diffs added up by row and time, zeros dropped; with ``since``, by representative of the time."""
    found: Contents = {}
    for updates in parts:
        for row, time, diff in triples(updates):
            key = (row, since.representative(time) if since else time)
            found[key] = found.get(key, 0) + diff
    return {key: diff for key, diff in found.items() if diff}


def finish_merges(spine: Spine) -> None:
    """Finish the step, and all merges that are due."""
    while spine.finish_step():
        pass


def sort_order(updates: Updates) -> list[int]:
    """The stable order by row, then time."""
    keys = [(row, time) for row, time, _ in triples(updates)]
    return sorted(range(len(keys)), key=lambda i: keys[i])


def consolidated(updates: Updates) -> list[tuple[Row, Time, int]]:
    """The updates sorted by row and time, each pair once, no zeros."""
    return [(row, time, diff) for (row, time), diff in sorted(contents([updates]).items())]


def comes_before(other: Time, time: Time, closed: int, floor: int, *, through: bool) -> bool:
    """Whether an arrangement's time is processed before a stream's, or, with ``through``, is equal to it."""
    epoch = max(other[0], floor)
    place = (*other[1:], *(0,) * (len(time) - len(other)), epoch)
    limit = (*time[1:], time[0])
    return epoch < closed or place < limit or (through and place == limit)


def lookup(
    stream: Updates,
    key: Sequence[int],
    layers: Iterable[Updates],
    keep_stream: Sequence[int],
    keep_batch: Sequence[int],
    order: Order,
    closed: int = 0,
    floor: int = 0,
) -> Contents:
    """Every pair tried."""
    found: Contents = {}
    arranged = [triple for layer in layers for triple in triples(layer)]
    for row, time, diff in triples(stream):
        for other, other_time, other_diff in arranged:
            if any(row[column] != other[i] for i, column in enumerate(key)):
                continue
            through = order is Order.THROUGH
            if order is not Order.ANY and not comes_before(other_time, time, closed, floor, through=through):
                continue
            joined = tuple(row[c] for c in keep_stream) + tuple(other[c] for c in keep_batch)
            own_time = other_time + (0,) * (len(time) - len(other_time))
            pair = (joined, tuple(map(max, time, own_time)))
            found[pair] = found.get(pair, 0) + diff * other_diff
    return {pair: diff for pair, diff in found.items() if diff}
