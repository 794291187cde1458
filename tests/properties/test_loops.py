"""Loops are what the model makes of them from scratch: after every step, and at every epoch in it.

Random histories of inserts and deletes over small graphs, cut into epochs, and epochs into steps, at
random; views come, go and fail in between.
"""

import gc
import random
import weakref
from collections import Counter

import pytest

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.plan import Aggregate, Arrange, Plan, Reduce
from kpg.runtime.types import BIGINT
from tests.model.plan import rows_of_plan
from tests.model.relation import RecursionLimitError
from tests.properties import loop_shapes as shapes
from tests.properties import loops
from tests.properties.engine import Engine, Row, chain, change_randomly, edges
from tests.properties.plans import Builder

LATE = 10
"""Steps after which the last view is installed."""


@pytest.mark.parametrize(("seed", "group_bits"), [(0, 16), (1, 1), (3, 2)])
def test_every_view_at_every_epoch(seed: int, group_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << group_bits)
    monkeypatch.setattr("kpg.runtime.operators.loop.PATIENCE", 0 if seed else 64)
    rng = random.Random(seed)
    engine = Engine()
    waiting = list(loops.LOOPS)
    rng.shuffle(waiting)
    state: dict[str, Counter[Row]] = {}
    for _ in range(24):
        for _ in range(min(len(waiting), len(loops.LOOPS) // LATE + 1)):
            name = waiting.pop()
            engine.worker.watch(engine.install(name, loops.LOOPS[name]()))
            engine.check([name])
            state[name] = engine.rows(name)
        expected: dict[int, dict[str, Counter[Row]]] = {}
        for _ in range(rng.choice((1, 1, 2, 5))):
            change_randomly(rng, engine, 7, 14)
            if engine.worker.close_epoch():
                truth = {name: engine.expected(name) for name in engine.views}
                expected[engine.worker.epoch + len(expected) + 1] = truth
        if rng.random() < 0.2:
            engine.worker.tables.rollback()
            continue
        engine.step()
        for name in engine.views:
            changes = engine.drain(name)
            for epoch, truth in expected.items():
                state[name].update(changes.pop(epoch, Counter()))
                assert +state[name] == truth[name] and not -state[name], (name, epoch)
            assert not changes, name
            assert engine.rows(name) == +state[name], name


@pytest.mark.parametrize("name", loops.LOOPS)
def test_installed_late_is_installed_early(name: str) -> None:
    """A view that is hydrated has the history that it needs: afterwards it changes as one that was there."""
    rng = random.Random(name)
    early, late = Engine({"view": loops.LOOPS[name]()}), Engine()
    for engine in (early, late):
        engine.insert("root", (0,), (1,))
        engine.insert("edge", *((x % 5, (3 * x + 1) % 6, x % 3) for x in range(9)))
        engine.step()
    late.install("view", loops.LOOPS[name]())
    assert late.rows("view") == early.rows("view")
    for _ in range(6):
        seed = rng.random()
        for engine in (early, late):
            change_randomly(random.Random(seed), engine, 6, 10)
            engine.step()
            engine.check()


@pytest.mark.parametrize("name", loops.LOOPS)
def test_a_second_identical_loop_shares_the_first(name: str) -> None:
    engine = Engine({"first": loops.LOOPS[name]()})
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 2), (2, 0), (2, 3)))
    engine.step()
    before = len(engine.worker.operators())
    second = engine.install("second", loops.LOOPS[name]())
    assert second.arrangements_built == 0
    assert len(engine.worker.operators()) == before
    engine.delete("edge", (2, 0, 1))
    engine.step()
    engine.check()
    engine.uninstall("first")
    engine.insert("edge", (3, 1, 1))
    engine.step()
    engine.check()


def multiplicities(plan: Plan) -> Plan:
    """The rows of a plan, each with how often it occurs: another reader of the same collection."""
    *nodes, output = plan.nodes
    assert isinstance(output, Arrange)
    count = Reduce(output.input, output.key, (Aggregate("count", None, BIGINT),))
    return Plan((*nodes, count, Arrange(len(nodes), output.key + 1)), len(nodes) + 1)


@pytest.mark.parametrize("name", loops.LOOPS)
def test_another_reader_of_a_shared_loop(name: str) -> None:
    """A view that reads the results of a loop that is there gets what it has left so far."""
    engine = Engine({"first": loops.LOOPS[name]()})
    engine.insert("root", (0,), (0,))
    engine.insert("edge", *chain(6), *edges((2, 0), (0, 3)))
    engine.step()
    engine.delete("edge", (2, 0, 1))
    engine.step()
    engine.install("second", multiplicities(engine.plans["first"]))
    engine.check()
    engine.insert("edge", *edges((6, 1), (1, 2), (2, 2)))
    engine.step()
    engine.check()
    engine.uninstall("first")
    engine.delete("edge", (0, 1, 1))
    engine.step()
    engine.check()


@pytest.mark.parametrize("name", loops.LOOPS)
def test_an_isolated_installation_sees_what_is_not_committed(name: str) -> None:
    engine = Engine({"first": loops.LOOPS[name]()})
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 2), (2, 0)))
    engine.step()
    engine.delete("edge", (1, 2, 1))
    engine.insert("edge", (0, 2, 2))
    engine.install("second", engine.plans["first"], isolated=True)
    engine.check(["second"])
    engine.uninstall("second")
    engine.step()
    engine.check()


def test_a_loop_over_the_result_of_a_loop_of_another_view() -> None:
    """Who can come back to a root: the closure against the edges, of what is reached."""
    engine = Engine({"reach": loops.reach()})
    build = Builder()
    there, edge = build.view("reach", 1), build.edges()
    within = build.semijoin(build.semijoin(edge, there, 0), there, 1)
    back = loops.closure(build, build.linear(within, (1, 0)), build.roots())
    engine.install("back", build.plan(back))
    rng = random.Random(5)
    for _ in range(15):
        change_randomly(rng, engine, 7, 14)
        engine.step()
        engine.check()


def test_loops_that_differ_are_not_shared() -> None:
    """The limit, and which result is left, are part of what a loop is."""
    plans = {
        "endless": loops.reach(),
        "two": loops.reach(limit=2),
        "three": loops.reach(limit=3),
        "copy": loops.reach(copy=True),
        "grown": shapes.grown(),
        "parity": loops.parity(),
    }
    engine = Engine(plans)
    engine.insert("root", (0,))
    engine.insert("edge", *chain(5))
    engine.step()
    engine.check()
    assert [sum(engine.rows(name).values()) for name in ("endless", "two", "three")] == [6, 2, 3]


class Failing:
    """An engine with every loop, and one more that fails when its table holds a path."""

    def __init__(self, *, last: bool) -> None:
        self.engine = Engine()
        build = Builder()
        poison = build.linear(build.table("poison"), (0, 1))
        bad = loops.closure(build, poison, build.constant((0,)), limit=3, error_at_limit=True)
        if not last:
            self.engine.install("failing", build.plan(bad))
        for name, plan in loops.LOOPS.items():
            self.engine.install(name, plan())
        if last:
            self.engine.install("failing", build.plan(bad))

    def fail(self) -> None:
        self.engine.insert("poison", (0, 1), (1, 2), (2, 3))
        with pytest.raises(DataError, match="3 rounds"):
            self.engine.step()


@pytest.mark.parametrize("last", [False, True])
def test_a_failing_step_leaves_everything_as_it_was(last: bool) -> None:
    failing = Failing(last=last)
    engine, rng = failing.engine, random.Random(last)
    engine.insert("root", (0,), (3,))
    for _ in range(8):
        change_randomly(rng, engine, 7, 12)
        engine.step()
        before = {name: engine.rows(name) for name in engine.views}
        for _ in range(rng.choice((1, 3))):
            change_randomly(rng, engine, 7, 12)
            engine.worker.close_epoch()
        failing.fail()
        assert {name: engine.rows(name) for name in engine.views} == before
        engine.check()


def test_a_failing_installation_leaves_no_trace() -> None:
    engine = Engine({"reach": loops.reach()})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(5))
    engine.step()
    before = len(engine.worker.operators())
    for _ in range(2):
        with pytest.raises(DataError, match="5 rounds"):
            engine.worker.install("bad", loops.reach(limit=5, error_at_limit=True))
    assert len(engine.worker.operators()) == before
    engine.insert("edge", (5, 6, 1))
    engine.step()
    engine.check()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_the_limit_is_the_number_of_rounds(limit: int) -> None:
    """0 -> 1 -> 2: rounds 0, 1 and 2 add a node each, and it takes a fourth to know that this is the end."""
    plan = loops.reach(limit=limit, error_at_limit=True)
    rows = {"edge": chain(2), "root": [(0,)]}
    engine = Engine({"view": plan})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(2))
    try:
        truth = rows_of_plan(plan, rows)
    except RecursionLimitError:
        with pytest.raises(DataError, match=f"{limit} rounds"):
            engine.step()
        assert engine.rows("view") == Counter()
    else:
        engine.step()
        assert engine.rows("view") == truth == Counter([(0,), (1,), (2,)])


@pytest.mark.parametrize("name", loops.LOOPS)
def test_insert_and_delete_is_nothing(name: str) -> None:
    engine = Engine({"view": loops.LOOPS[name]()})
    engine.insert("root", (0,), (2,))
    engine.insert("edge", *edges((0, 1), (1, 2), (2, 3), (3, 1), (4, 5)))
    engine.step()
    before = engine.rows("view")
    extra = [(1, 4, 0), (5, 0, 2), (2, 2, 1), (0, 1, 1)]
    for together in (True, False, True):
        engine.insert("edge", *extra)
        engine.insert("root", (4,))
        engine.worker.close_epoch()
        if not together:
            engine.step()
            engine.check()
        engine.delete("edge", *extra)
        engine.delete("root", (4,))
        engine.step()
        assert engine.rows("view") == before


@pytest.mark.parametrize("name", loops.LOOPS)
def test_how_epochs_are_grouped_into_steps_does_not_matter(name: str) -> None:
    """The changes of every epoch are the same whether each is a step or all are one (T67)."""
    histories = []
    for group in (1, 4, 12):
        rng = random.Random(name)
        engine = Engine({"view": loops.LOOPS[name]()})
        engine.worker.watch(engine.views["view"])
        for index in range(12):
            change_randomly(rng, engine, 6, 9)
            engine.worker.close_epoch()
            if (index + 1) % group == 0:
                engine.step()
        changes = engine.drain("view")
        histories.append({epoch: {row: n for row, n in rows.items() if n} for epoch, rows in changes.items()})
    assert histories[0] == histories[1] == histories[2]


def test_dropping_the_last_reader_frees_the_loop() -> None:
    engine = Engine()
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 2), (2, 0)))
    engine.step()
    held: list[weakref.ref[Operator]] = []
    for plan in loops.LOOPS.values():
        engine.install("first", plan())
        engine.install("second", plan())
        engine.insert("edge", (2, 3, 1))
        engine.step()
        engine.uninstall("first")
        engine.delete("edge", (2, 3, 1))
        engine.step()
        engine.check()
        held += [weakref.ref(operator) for operator in engine.views["second"].operators]
        engine.uninstall("second")
        engine.step()
        assert engine.worker.arrangements() == []
        assert len(engine.worker._registry) == 0
    gc.collect()
    assert [ref for ref in held if ref() is not None] == []
