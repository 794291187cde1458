"""Random schedules: inputs, transactions, late and dropped readers, failing steps; checked at every time."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import kpg
from tests.unit.collections.test_loops import reach, reachable
from tests.unit.collections.watching import Watched, watch

Bag = Counter[tuple[int, int]]
Pair = tuple[int, int]


def hops(edges: Bag, table: Bag) -> Counter[tuple[Any, ...]]:
    return Counter({(a, b, d): m * n for (a, b), m in edges.items() for (c, d), n in table.items() if b == c})


def oracle(kind: str, edges: Bag, table: Bag) -> dict[tuple[Any, ...], int]:
    match kind:
        case "hops":
            found = hops(edges, table)
        case "reach":
            found = Counter((node,) for node in reachable(edges, [0, 1]))
        case "reach table":
            found = Counter((node,) for node in reachable(table, [0, 1]))
        case "biggest":
            found = Counter({(a, max(b for c, b in edges if c == a)): 1 for a, _ in edges})
        case _:
            found = Counter(a for (a, _), n in edges.items() for _ in range(n))
            found = Counter(dict.fromkeys(found.items(), 1))
    return {row: count for row, count in found.items() if count}


class World:
    """One database under a random schedule, and what its inputs held at every time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.db = kpg.connect()
        self.db.sql("CREATE TABLE t (src BIGINT, dst BIGINT)")
        self.flow = self.db.dataflow("base")
        self.armed = False
        self.input = self.flow.input("edges", src=int, dst=int)
        self.idle = self.flow.input("idle", x=int)
        self.kept = self.input.map_rows(self.checked, src=int, dst=int).arrange_by_key("src")
        self.kept.arrange_by_key("dst").export("by_dst")
        self.edges: list[tuple[int, Pair, int]] = []
        self.table: list[tuple[int, Pair, int]] = []
        self.readers: dict[str, tuple[kpg.Dataflow, str, int, Watched]] = {}
        self.made = 0

    def checked(self, src: int, dst: int) -> Pair:
        if self.armed:
            raise ValueError("armed")
        return src, dst

    def at(self, changes: list[tuple[int, Pair, int]], time: int) -> Bag:
        bag: Bag = Counter()
        for when, row, diff in changes:
            if when <= time:
                bag[row] += diff
        return Counter({row: n for row, n in bag.items() if n})

    def change(self) -> None:
        row = self.rng.randrange(5), self.rng.randrange(5)
        present = self.at(self.edges, self.input.time)[row]
        diff = -present if present and self.rng.random() < 0.6 else 1
        self.input.update(row, diff)
        self.edges.append((self.input.time, row, diff))

    def advance(self) -> None:
        self.input.advance_to(self.input.time + self.rng.choice([1, 1, 2, 7]))
        if self.rng.random() < 0.7:
            self.idle.advance_to(max(self.idle.time + 1, self.input.time))

    def step(self) -> None:
        if self.rng.random() < 0.2 and (first := self.input._handle.earliest) is not None:
            due = first < min(self.input.time, self.idle.time)
            self.armed, before = True, self.db.epoch
            if due:
                with pytest.raises(kpg.DataError, match="armed"):
                    self.flow.step()
                assert self.db.epoch == before
            self.armed = False
        self.flow.step()

    def commit(self) -> None:
        row = self.rng.randrange(5), self.rng.randrange(5)
        try:
            if self.at(self.table, self.db.epoch)[row]:
                self.db.delete("t", [row])
                self.table.append((self.db.epoch, row, -1))
            else:
                self.db.insert("t", [row])
                self.table.append((self.db.epoch, row, 1))
        except kpg.InterfaceError as error:
            assert "holds updates" in str(error)

    def read(self) -> None:
        kind = self.rng.choice(["hops", "reach", "reach table", "biggest", "degree"])
        self.made += 1
        flow = self.db.dataflow(f"reader {self.made}")
        edges, table = flow.import_(self.rng.choice([self.kept, "by_dst"])), flow.import_("t")
        roots = flow.constant([0, 1], node=int)
        made: dict[str, Callable[[], kpg.Collection]] = {
            "hops": lambda: edges.join(
                table, {"dst": "src"}, lambda e, t: {"a": e.src, "b": e.dst, "c": t.dst}
            ),
            "reach": lambda: reach(edges, roots),
            "reach table": lambda: reach(table, roots),
            "biggest": lambda: edges.max("dst", key="src"),
            "degree": lambda: edges.reduce(lambda k, rows: [sum(n for _, n in rows)], key="src", n=int),
        }
        self.readers[flow.name] = flow, kind, self.db.epoch, watch(made[kind]())

    def drop(self) -> None:
        if self.readers:
            flow, *_ = self.readers.pop(self.rng.choice(sorted(self.readers)))
            flow.drop()

    def check(self) -> None:
        for _, kind, since, seen in self.readers.values():
            times = {since, self.db.epoch, *(time for time, _, _ in self.edges + self.table)}
            for time in sorted(t for t in times if since <= t <= self.db.epoch):
                expected = oracle(kind, self.at(self.edges, time), self.at(self.table, time))
                assert seen.at(time) == expected, (kind, since, time)


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules(seed: int) -> None:
    world = World(seed)
    actions = [world.change] * 6 + [world.advance] * 3 + [world.step] * 3 + [world.commit] * 2
    actions += [world.read, world.drop]
    for _ in range(120):
        world.rng.choice(actions)()
    world.check()
    world.advance()
    world.idle.close()
    world.flow.step()
    world.check()
    for flow, *_ in world.readers.values():
        flow.drop()
    world.flow.drop()
    assert len(world.db.operators()) == 0
