"""What histories of concurrent transactions show that their isolation level forbids.

Transactions append unique values to lists, which is to read and to change a row, and add unique values to
sets, which is to give a query one row more; they read whole lists and whole sets. Since nothing is ever
taken away, what a read has found tells which transactions it saw and which it did not, and a list tells the
order of its writers (as Kingsbury's and Alvaro's Elle infers it). Each transaction has an instant of which it
reads, and one at which its changes are there; what was seen says which instants come before which. A history
is allowed if nothing comes before itself:

* a writer's end is before the instant of whoever saw it, or began when it had been told of its commit;
* the instant of a reader is before the end of every writer that it did not see;
* a list's writers end in its order; under REPEATABLE READ one ends before the next one's instant;
* a statement of READ COMMITTED has an instant of its own, so that each statement's answer is of one moment;
* under SERIALIZABLE both instants of a transaction that changes something are one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final

COMMITTED: Final = "read committed"
REPEATABLE: Final = "repeatable read"
SERIALIZABLE: Final = "serializable"
Point = tuple[str, int]
"""An instant: of reading (``s``), of the commit (``c``), or on the clock (``t``)."""


@dataclass
class Read:
    """What one statement has found: of lists in their order, of sets as sets, without the reader's own."""

    lists: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sets: dict[int, frozenset[int]] = field(default_factory=dict)
    begun: float = 0.0


@dataclass
class Transaction:
    """What a client did between BEGIN and COMMIT; times are those of the client's clock."""

    level: str
    begun: float = 0.0
    ended: float = 0.0
    committed: bool = False
    appended: list[tuple[int, int]] = field(default_factory=list)
    """Keys and values, but for those that it undid itself."""
    added: list[tuple[int, int]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)


Contents = Mapping[int, Iterable[int]]


def anomalies(history: list[Transaction], lists: Contents, sets: Contents) -> Iterator[str]:
    """What is wrong with a history that has left these contents; nothing if all is as promised."""
    final = {key: tuple(values) for key, values in lists.items()}
    writers = _writers(history, "appended")
    adders = _writers(history, "added")
    yield from _left(final, writers, "list")
    yield from _left({key: tuple(values) for key, values in sets.items()}, adders, "set")
    for transaction in history:
        for read in transaction.reads:
            yield from _strange(read, final, writers, adders)
    yield from _cycle(_order(history, final, writers, adders))


Writers = dict[tuple[int, int], int]
"""By key and value the committed transaction that wrote it."""


def _writers(history: list[Transaction], what: str) -> Writers:
    return {
        item: number for number, one in enumerate(history) if one.committed for item in getattr(one, what)
    }


def _left(final: dict[int, tuple[int, ...]], writers: Writers, what: str) -> Iterator[str]:
    """What has been committed is there, once, and nothing else."""
    there = [(key, value) for key, values in final.items() for value in values]
    if len(there) != len(set(there)):
        yield f"a value is twice in a {what}"
    for item in writers.keys() - set(there):
        yield f"lost: {item} of transaction {writers[item]} is in no {what}"
    for item in set(there) - writers.keys():
        yield f"{item} is in a {what} and was never committed"


def _strange(
    read: Read, final: dict[int, tuple[int, ...]], writers: Writers, adders: Writers
) -> Iterator[str]:
    """A read saw what was never committed, a list that never was, or half a transaction."""
    for key, values in read.lists.items():
        there = final.get(key, ())
        if there[: len(values)] != values:
            yield f"a read found {values} in list {key}, which became {there}"
        elif values and len(there) > len(values):
            last, after = writers.get((key, values[-1])), writers.get((key, there[len(values)]))
            if last == after:
                yield f"a read found a part of transaction {last} in list {key}"
    for key, found in read.sets.items():
        for value in found:
            if (key, value) not in adders:
                yield f"a read found {value} in set {key}, which was never committed"


Order = dict[Point, set[Point]]
"""For each instant those that come before it."""


def _order(
    history: list[Transaction], final: dict[int, tuple[int, ...]], writers: Writers, adders: Writers
) -> Order:
    before: Order = defaultdict(set)
    added: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (key, value), writer in adders.items():
        added[key].append((value, writer))
    starts: list[tuple[float, Point]] = []
    for number, one in enumerate(history):
        commit = ("c", number)
        if one.committed:
            starts.append((one.begun, commit))
        if one.committed and one.level != COMMITTED:
            before[commit].add(("s", number))
        for place, read in enumerate(one.reads):
            instant = ("s", number) if one.level != COMMITTED else ("s", -1 - number * 1000 - place)
            starts.append((read.begun if one.level == COMMITTED else one.begun, instant))
            _place(before, read, instant, number, final, writers, added)
    _order_of_lists(before, history, final, writers)
    _clock(before, history, starts)
    return _merged(before, history)


def _place(
    before: Order,
    read: Read,
    instant: Point,
    number: int,
    final: dict[int, tuple[int, ...]],
    writers: Writers,
    added: dict[int, list[tuple[int, int]]],
) -> None:
    """A read comes after the writers that it saw and before the others."""
    for key, values in read.lists.items():
        for place, value in enumerate(final.get(key, ())):
            writer = writers.get((key, value), number)
            _compare(before, instant, writer, number, seen=place < len(values))
    for key, found in read.sets.items():
        for value, writer in added[key]:
            _compare(before, instant, writer, number, seen=value in found)


def _compare(before: Order, instant: Point, writer: int, reader: int, *, seen: bool) -> None:
    if writer == reader:
        return
    if seen:
        before[instant].add(("c", writer))
    else:
        before[("c", writer)].add(instant)


def _order_of_lists(
    before: Order, history: list[Transaction], final: dict[int, tuple[int, ...]], writers: Writers
) -> None:
    for key, values in final.items():
        order = [writers[key, value] for value in values if (key, value) in writers]
        for one, other in pairwise(order):
            if one != other:
                kind = "c" if history[other].level == COMMITTED else "s"
                before[(kind, other)].add(("c", one))


def _clock(before: Order, history: list[Transaction], starts: list[tuple[float, Point]]) -> None:
    """Whoever began when a commit had been told of comes after it, by instants of the clock in turn."""
    events = [(one.ended, 1, ("c", number)) for number, one in enumerate(history) if one.committed]
    events += [(begun, 0, instant) for begun, instant in starts]
    now = 0
    for _, ends, point in sorted(events):
        if ends:
            before[("t", now + 1)] |= {("t", now), point}
            now += 1
        else:
            before[point].add(("t", now))


def _merged(before: Order, history: list[Transaction]) -> Order:
    """Under SERIALIZABLE the instant of reading is that of the commit, for whoever has changed something."""
    one = {
        ("s", number): ("c", number)
        for number, each in enumerate(history)
        if each.level == SERIALIZABLE and each.committed and (each.appended or each.added)
    }
    found: Order = defaultdict(set)
    for point, earlier in before.items():
        merged = one.get(point, point)
        found[merged] |= {one.get(each, each) for each in earlier} - {merged}
    return found


def _cycle(before: Order) -> Iterator[str]:
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        yield f"what comes before itself: {error.args[1]}"
