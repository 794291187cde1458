"""Rounds in one compiled call give what operators one by one give, errors, rollback and Ctrl-C included."""

import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

import kpg
from kpg import graph
from kpg.runtime.chain import chain, chain_selection, links
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.operators import loop

RECURSIONS = {
    "count": "select 0::bigint as n union all select n + 1 from r where n < {0}",
    "cycle": "select 0::bigint as n union select (n + 1) % {0} from r",
    "reached": "select 0::bigint as n union select e.b from r, e where e.a = r.n",
    "both ways": "select 0::bigint as n union select x.b from r,"
    " (select a, b from e union all select b, a from e) as x where x.a = r.n",
    "odd": "select 1::bigint as n union select f.b from r, e, e as f"
    " where e.a = r.n and f.a = e.b and f.b <> 7",
}


READY = chain_selection.load_kernels((*chain_selection.CHAIN_KERNELS, *chain_selection.LOOP_KERNELS))
"""Whether kernels are compiled ahead of time; otherwise all of this runs in Python."""


def view(database: kpg.Database, name: str, size: int) -> None:
    """A view of a recursion."""
    body = RECURSIONS[name].format(size)
    database.sql(f"create materialized view v as with recursive r(n) as ({body}) select * from r")


def rows(database: kpg.Database) -> list[Any]:
    """The view's rows in order."""
    return sorted(database.sql("select * from v").fetchall())


def connected(edges: list[tuple[int, int]]) -> kpg.Database:
    """A database with edges."""
    database = kpg.connect()
    database.sql("create table e (a bigint, b bigint)")
    database.insert("e", edges)
    return database


class Watched:
    """How often rounds were followed, and operators flushed in Python, from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.followed = 0
        self.handed = 0
        patch.setattr(chain.Rounds, "follow", self.counting(chain.Rounds.follow, "followed"))
        patch.setattr(chain.Rounds, "hand_over", self.counting(chain.Rounds.hand_over, "handed"))

    def counting(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            setattr(self, name, getattr(self, name) + 1)
            return function(*given)

        return counted


def test_many_rounds_take_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    database = connected([(i, i + 1) for i in range(5000)])
    watched = Watched(monkeypatch)
    view(database, "reached", 0)
    assert rows(database) == [(i,) for i in range(5001)]
    if READY:
        assert 0 < watched.followed < 100  # operators run in Python where arrays of state are full
        assert watched.handed < 100
    database.sql("delete from e where a = 2500")
    assert rows(database) == [(i,) for i in range(2501)]
    database.sql("insert into e values (2500, 2501), (5000, 2000)")
    assert rows(database) == [(i,) for i in range(5001)]


def test_counters_are_those_of_operators_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    for patience in (0, 10**9):
        monkeypatch.setattr(loop, "PATIENCE", patience)
        database = connected([(i, i + 1) for i in range(300)])
        view(database, "reached", 0)
        operators = database._engine.executor.operators()
        counted.append([(one.description, one.updates_in, one.updates_out, one.rows) for one in operators])
    assert counted[0] == counted[1]


@pytest.mark.parametrize("name", RECURSIONS)
@pytest.mark.parametrize("seed", range(4))
def test_what_comes_of_changes(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"{name} {seed}")
    for module, constant, values in (
        (loop, "PATIENCE", (0, 1, 5)),
        (chain, "MEMORY", (64, 1 << 14)),
        (links, "LEAVE_ROOM", (1, 4, 1 << 12)),
        (chain, "AT_ONCE", (1, 3, 1 << 12)),
    ):
        monkeypatch.setattr(module, constant, rng.choice(values))
    edges = [(rng.randrange(40), rng.randrange(40)) for _ in range(rng.choice((10, 40, 60)))]
    followed = connected(edges)
    view(followed, name, 200)
    monkeypatch.setattr(loop, "PATIENCE", 10**9)
    plain = connected(edges)
    view(plain, name, 200)
    for _ in range(12):
        gone = rng.choice(edges)
        come = (rng.randrange(40), rng.randrange(40))
        for database, patience in ((followed, rng.choice((0, 0, 1, 3))), (plain, 10**9)):
            monkeypatch.setattr(loop, "PATIENCE", patience)
            with database.transaction():
                database.sql(f"delete from e where a = {gone[0]} and b = {gone[1]}")
                database.sql(f"insert into e values {come}")
        edges = [edge for edge in edges if edge != gone] + [come]
        assert rows(followed) == rows(plain)


def test_memory_follows_what_a_round_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often rounds are begun anew, as where an operator runs in Python now and then."""
    monkeypatch.setattr(loop, "PATIENCE", 0)
    monkeypatch.setattr(chain, "MEMORY", 64)
    start, sizes = chain.Rounds._start, [0]

    def started(self: chain.Rounds, step: Step) -> None:
        sizes.append(self._memory.shape[0] + self._other_memory.shape[0])
        start(self, step)

    monkeypatch.setattr(chain.Rounds, "_start", started)
    monkeypatch.setattr(chain.Rounds, "_last", lambda self: self._scope.step.rounds[-1] + 3)
    database = connected([(a, b) for a in range(0, 4000, 40) for b in range(a + 40, a + 80)])
    view(database, "reached", 0)
    assert len(rows(database)) == 4040 - 39
    assert max(sizes) < 1 << 15


def test_a_limit_of_rounds_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 3)
    for limit, fits in ((100, False), (1000, True)):
        program = f'.pragma "max-rounds" "{limit}"\n.decl n(x: number)\nn(0).\nn(x + 1) :- n(x), x < 500.'
        database = kpg.connect()
        if fits:
            assert len(database.datalog(program)["n"].fetchall()) == 501
        else:
            with pytest.raises(kpg.DataError, match=f"after {limit} rounds"):
                database.datalog(program)["n"].fetchall()


def test_ctrl_c_and_errors_take_all_rounds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 2)
    monkeypatch.setattr(chain, "AT_ONCE", 10)
    database = connected([(i, i + 1) for i in range(60) if i != 30])
    view(database, "reached", 0)
    before = rows(database)
    assert before == [(i,) for i in range(31)]
    go_on, left = chain.Rounds._go_on, [2]

    def pressing(self: chain.Rounds) -> None:
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(signal.SIGINT)
        go_on(self)

    monkeypatch.setattr(chain.Rounds, "_go_on", pressing)
    if READY:
        with pytest.raises(KeyboardInterrupt):
            database.sql("insert into e values (30, 31)")
        assert rows(database) == before
    left[0] = -1
    database.sql("insert into e values (30, 31)")
    assert rows(database) == [(i,) for i in range(61)]
    database.sql("delete from e where a = 30")
    assert rows(database) == before


def test_rounds_of_a_minimum_take_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    database = kpg.connect()
    flow = database.dataflow("paths")
    edges, roots = flow.input("edges", src=int, dst=int, weight=int), flow.input("roots", node=int)
    found: dict[Any, int] = {}

    def change(row: Any, _: object, diff: int) -> None:
        found[tuple(row)] = found.get(tuple(row), 0) + diff
        if not found[tuple(row)]:
            del found[tuple(row)]

    graph.shortest_paths(edges, roots).inspect(change)

    def step() -> list[Any]:
        time = max(edges.time, roots.time) + 1
        edges.advance_to(time)
        roots.advance_to(time)
        flow.step()
        return sorted(found)

    watched = Watched(monkeypatch)
    edges.insert([(i, i + 1, 2) for i in range(3000)])
    roots.insert([(0,)])
    assert step() == [(i, 2 * i) for i in range(3001)]
    if READY:
        assert 0 < watched.followed < 100
        assert watched.handed < 200
    edges.remove(1500, 1501, 2)
    assert step() == [(i, 2 * i) for i in range(1501)]
    edges.insert([(1500, 1501, 1), (0, 2900, 5)])
    assert step() == [(i, min(2 * i - (i > 1500), 2 * i - 5795 if i >= 2900 else 9999)) for i in range(3001)]
    edges.remove(0, 2900, 5)
    assert step() == [(i, 2 * i - (i > 1500)) for i in range(3001)]
