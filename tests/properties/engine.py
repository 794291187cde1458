"""A worker with the tables that the hand-built loops read, and the same rows in plain lists for the model."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.plan import Import, Plan
from kpg.runtime.types import NULL
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker
from tests.model.plan import rows_of_plan
from tests.properties.plans import SCHEMAS

Row = tuple[Any, ...]


def plain(data: NDArray[np.int64]) -> list[Row]:
    """Rows of words as rows of numbers."""
    return [tuple(None if word == NULL else word for word in row) for row in data.T.tolist()]


class Engine:
    """Tables and views of one worker."""

    def __init__(self, plans: dict[str, Plan] | None = None) -> None:
        self.worker = Worker()
        self.tables = {name: self.worker.create_table(name, schema) for name, schema in SCHEMAS.items()}
        self.views: dict[str, LocalInstallation] = {}
        self.plans: dict[str, Plan] = {}
        for name, plan in (plans or {}).items():
            self.install(name, plan)

    def install(self, name: str, plan: Plan, *, isolated: bool = False) -> LocalInstallation:
        self.plans[name] = plan
        self.views[name] = self.worker.install(name, plan, isolated=isolated)
        return self.views[name]

    def uninstall(self, name: str) -> None:
        self.worker.uninstall(self.views.pop(name))
        del self.plans[name]

    def insert(self, table: str, *rows: Row) -> None:
        if rows:
            self.tables[table].insert(np.array(rows, np.int64).T.copy())

    def delete(self, table: str, *rows: Row) -> None:
        stored = self.tables[table]
        stored.delete(stored.match(np.array(rows, np.int64).T.copy()))

    def step(self) -> None:
        self.worker.step()

    def contents(self, table: str) -> list[Row]:
        stored = self.tables[table]
        return [tuple(row) for row in stored.read(stored.live()).T.tolist()]

    def rows(self, view: str) -> Counter[Row]:
        data, diff = self.views[view].rows()
        return Counter(dict(zip(plain(data), diff.tolist(), strict=True)))

    def expected(self, view: str) -> Counter[Row]:
        """What the model makes of the tables as they are, uncommitted changes included."""
        plan = self.plans[view]
        imported = [node.view for node in plan.nodes if isinstance(node, Import)]
        tables = {name: self.contents(name) for name in self.tables}
        return rows_of_plan(plan, tables, {name: self.expected(name) for name in imported})

    def check(self, views: Iterable[str] | None = None) -> None:
        for view in self.views if views is None else views:
            assert self.rows(view) == self.expected(view), (
                view,
                self.contents("edge"),
                self.contents("root"),
            )

    def drain(self, view: str) -> dict[int, Counter[Row]]:
        """The captured changes of a view by epoch."""
        changes: dict[int, Counter[Row]] = {}
        for updates in self.views[view].drain():
            times, diffs = updates.times()[0].tolist(), updates.diffs().tolist()
            for row, time, diff in zip(plain(updates.data), times, diffs, strict=True):
                changes.setdefault(time, Counter())[row] += diff
        return changes

    def work(self) -> int:
        """Updates that operators have received since they were made."""
        return sum(info.updates_in for info in self.worker.operators())


def change_randomly(rng: random.Random, engine: Engine, nodes: int, most: int) -> None:
    """Insert and delete a few edges and roots; about ``most`` edges remain."""
    edges = engine.contents("edge")
    if rng.random() < 0.75:
        count = rng.randint(1, 3)
        engine.insert(
            "edge", *((rng.randrange(nodes), rng.randrange(nodes), rng.randrange(3)) for _ in range(count))
        )
    if edges and rng.random() < len(edges) / most:
        engine.delete("edge", *rng.sample(edges, rng.randint(1, min(4, len(edges)))))
    roots = engine.contents("root")
    if rng.random() < 0.4 / (1 + len(roots)):
        engine.insert("root", (rng.randrange(nodes),))
    elif roots and rng.random() < 0.2:
        engine.delete("root", rng.choice(roots))


def edges(*pairs: Sequence[int]) -> list[Row]:
    """Edges of weight 1."""
    return [(x, y, 1) for x, y in pairs]


def chain(length: int) -> list[Row]:
    """Edges from 0 to 1, from 1 to 2, and so on."""
    return edges(*((node, node + 1) for node in range(length)))
