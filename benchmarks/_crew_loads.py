"""What several workers are measured with: databases with views, and the steps to take."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _flows import graph_input
from _flows import step as taken
from _graphs import Edges
from _stream import arrived
from _tpch import Encoded, install, worker_of

from kpg import graph
from kpg.tpch.job import apply_batch
from kpg.tpch.refresh import RefreshStream

Step = Callable[[], object]
CLOSURE = (
    "create materialized view p as with recursive p(x, y) as"
    " (select x, y from e union select p.x, e.y from p join e on p.y = e.x) select * from p"
)
GENERATIONS = (
    "create materialized view p as with recursive p(x, y) as"
    " (select a.y, b.y from e a join e b on a.x = b.x union"
    " select a.y, b.y from e a join p on a.x = p.x join e b on p.y = b.x) select * from p"
)
REACHED = (
    "create materialized view p as with recursive p(x) as"
    " (select 0::bigint union select e.y from p join e on p.x = e.x) select * from p"
)
COMPONENTS = (
    "create materialized view p as with recursive p(x, c) as"
    " (select x, x from n union select e.y, p.c from p join e on p.x = e.x)"
    " select x, min(c) from p group by x"
)


def with_data(db: Any, data: Encoded) -> None:
    """Have a database the tables of the data, empty, and its strings, so that their codes are words of it."""
    db._engine.executor.dictionary.append_strings(*data.dictionary.parts(np.arange(len(data.dictionary))))
    for table, schema in data.schemas.items():
        db._engine.tables.create(table, schema)


def stream(data: Encoded, number: int, rows: int, db: Any) -> Iterator[Step]:
    """All rows of the tables of a query, round-robin, so many a step."""
    install(db, number)
    worker = worker_of(db)
    counts = [words.shape[1] for words in data.words.values()]
    before = [0] * len(counts)
    for end in [*range(rows, sum(counts), rows), sum(counts)]:
        now = arrived(counts, end)

        def step(before: Sequence[int] = before, now: Sequence[int] = now) -> None:
            for (table, words), first, last in zip(data.words.items(), before, now, strict=True):
                if last > first:
                    worker.tables.insert(table, np.ascontiguousarray(words[:, first:last]))
            worker.step()

        yield step
        before = now


def refresh(data: Encoded, path: Path, queries: Sequence[int], db: Any) -> Iterator[Step]:
    """All views together, of refreshes of 0.1 % of the orders."""
    worker = worker_of(db)
    for table, words in data.words.items():
        worker.tables.insert(table, words)
    worker.step()
    for number in queries:
        install(db, number)
    orders = max(1, data.words["orders"].shape[1] // 1000)
    refreshes = RefreshStream(path, seed=7, orders=orders)
    for _ in range(5):
        batch = refreshes.next_batch()
        yield lambda batch=batch: apply_batch(db, batch)  # type: ignore[misc]


def recursion(edges: Edges, view: str, db: Any) -> Iterator[Step]:
    """A recursive view over a few edges, to which the others come."""
    db.sql("create table e(x bigint, y bigint); create table n(x bigint)")
    worker = worker_of(db)
    worker.tables.insert("n", np.unique(edges)[None, :])
    worker.tables.insert("e", np.ascontiguousarray(edges[:, :50]))
    worker.step()
    db.sql(view)

    def step(first: int, last: int) -> None:
        worker.tables.insert("e", np.ascontiguousarray(edges[:, first:last]))
        worker.step()

    yield partial(step, 50, 100)
    yield partial(step, 100, edges.shape[1])


def strong_components(edges: Edges, db: Any) -> Iterator[Step]:
    """Edges that come to a dataflow of their strongly connected components, a doubly nested loop."""
    flow = db.dataflow("components")
    given = graph_input(flow, edges[:, :50])
    graph.strongly_connected_components(given.arrange_by_key("src", "dst")).probe()
    yield lambda: taken(flow, given)

    def rest() -> None:
        given.insert_columns({"src": edges[0, 50:], "dst": edges[1, 50:]})
        taken(flow, given)

    yield rest


def indexing(edges: Edges, db: Any) -> Iterator[Step]:
    """Edges that come to a view that indexes them both ways."""
    db.sql("create table e(x bigint, y bigint)")
    db.sql("create materialized view p as select count(*) from e a join e b on a.y = b.x where a.x = -1")
    worker = worker_of(db)

    def step(first: int, last: int) -> None:
        worker.tables.insert("e", np.ascontiguousarray(edges[:, first:last]))
        worker.step()

    yield partial(step, 0, 1000)
    yield partial(step, 1000, edges.shape[1])
