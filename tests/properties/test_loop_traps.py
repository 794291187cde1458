"""How loops go wrong, one test each; T38 .. T51 are numbers of docs/explanation/traps.md."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from kpg.runtime.errors import DataError
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.plan import Plan
from kpg.runtime.trace.head import CHURN_ROWS
from tests.properties import loop_shapes as shapes
from tests.properties import loops
from tests.properties.engine import Engine, chain, edges
from tests.properties.plans import Builder, add, col, compare, number


def test_t38_times_in_a_loop_are_not_totally_ordered() -> None:
    """The reduce in the body changes at (epoch 2, round 1) what neither (1, 1) nor (2, 0) alone says (T1)."""
    engine = Engine({"core": loops.core(2), "counted": shapes.counted()})
    engine.insert("root", (0,))
    engine.insert("edge", (0, 1, 1))
    engine.step()
    assert engine.rows("counted") == Counter([(2, 1), (0, 0)])
    engine.insert("root", (2,))
    engine.step()
    assert engine.rows("counted") == Counter([(3, 3), (-1, 1), (0, 0)])
    engine.insert("edge", (1, 2, 1), (2, 0, 1))
    engine.step()
    assert engine.rows("core") == Counter([(0,), (1,), (2,)])
    engine.check()


def test_t41_the_input_of_iterate_is_not_added_again_in_every_round() -> None:
    engine = Engine({"same": shapes.unchanged(), "grown": shapes.grown()})
    engine.insert("root", (0,), (0,), (5,))
    engine.insert("edge", *chain(4))
    engine.step()
    assert engine.rows("same") == Counter({(0,): 2, (5,): 1})
    assert engine.rows("grown") == Counter([(0,), (1,), (2,), (3,), (4,), (5,)])
    engine.delete("root", (0,))
    engine.step()
    assert engine.rows("same") == Counter({(0,): 1, (5,): 1})


def test_t42_leave_sums_all_rounds() -> None:
    engine = Engine({"reach": loops.reach()})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(6))
    engine.step()
    assert engine.rows("reach") == Counter((node,) for node in range(7))


def test_t43_cancelling_updates_do_not_go_round_for_ever() -> None:
    engine = Engine({"view": shapes.cancelling()})
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 0)))
    engine.step()
    assert engine.rows("view") == Counter([(0,), (1,)])


@pytest.mark.parametrize("name", ["reach", "grown", "reach by rowid", "distances", "three deep", "parity"])
@pytest.mark.parametrize("one_step", [False, True])
def test_t44_a_cycle_does_not_support_itself(name: str, one_step: bool) -> None:
    """a -> b, b -> c, c -> b; without a -> b, b and c are gone."""
    engine = Engine({name: loops.LOOPS[name]()})
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 2), (2, 1)))
    engine.worker.close_epoch()
    if not one_step:
        engine.step()
        assert sum(engine.rows(name).values()) >= 3
    engine.delete("edge", (0, 1, 1))
    engine.step()
    assert sum(engine.rows(name).values()) == 1
    engine.check()


def test_t45_closed_epochs_are_compacted_and_rounds_are_kept_apart() -> None:
    """A chain is cut and mended in turn: what is held stays in proportion to what is there."""
    engine = Engine({"reach": loops.reach(), "distances": loops.distances(weighted=False)})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(10))
    engine.step()
    sizes = []
    for index in range(60):
        cut = (index % 10, index % 10 + 1, 1)
        engine.delete("edge", cut)
        engine.step()
        engine.insert("edge", cut)
        engine.step()
        sizes.append(sum(info.rows for info in engine.worker.operators()))
    assert max(sizes[30:]) <= 1.5 * max(sizes[10:30])
    # In each of four arrangements a head, no larger than the batches but for its least rows and a step's.
    assert max(sizes) < 2 * 40 * 11 + 4 * (CHURN_ROWS + 11)
    engine.check()


def test_t46_mutual_recursion_shares_one_count_of_rounds() -> None:
    engine = Engine({"parity": loops.parity()})
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 2), (2, 0)))
    engine.step()
    assert engine.rows("parity") == Counter((tag, node) for tag in (0, 1) for node in range(3))
    engine.delete("edge", (2, 0, 1))
    engine.step()
    assert engine.rows("parity") == Counter([(0, 0), (1, 1), (0, 2)])


def test_t47_a_stratum_reads_the_one_below_when_that_is_done() -> None:
    """What is reached for a while within the first loop's rounds never shows in the second."""
    engine = Engine({"unreached": loops.unreached()})
    engine.worker.watch(engine.views["unreached"])
    engine.insert("root", (0,))
    engine.insert("edge", *chain(6), (6, 7, 1), (9, 3, 1))
    engine.step()
    assert engine.drain("unreached")[1] == Counter([(node,) for node in (3, 4, 5, 6, 7, 9)])
    engine.delete("edge", (2, 3, 1))
    engine.step()
    assert engine.drain("unreached") == {}
    engine.insert("edge", (0, 9, 1))
    engine.step()
    assert engine.rows("unreached") == Counter()
    engine.check()


def test_t49_only_recursion_relates_a_node_to_itself() -> None:
    """sg's base rule asks for x != y; in a diamond 3 is of one generation with itself, through 1 and 2."""
    engine = Engine({"same": loops.same_generation(), "delta": loops.same_generation_delta()})
    engine.insert("edge", *edges((0, 1), (0, 2), (1, 3), (2, 3)))
    engine.step()
    for name in engine.views:
        assert engine.rows(name) == Counter([(1, 2), (2, 1), (3, 3)])
    engine.delete("edge", (2, 3, 1))
    engine.step()
    for name in engine.views:
        assert engine.rows(name) == Counter([(1, 2), (2, 1)])


def test_t51_what_is_known_is_not_computed_again() -> None:
    """An edge at the far end of a long chain is a handful of updates, and a round of its own."""
    engine = Engine({"reach": loops.reach(), "grown": shapes.grown(), "tc": loops.transitive_closure("left")})
    engine.insert("root", (0,))
    engine.insert("edge", *chain(40))
    engine.step()
    before = engine.work()
    engine.insert("edge", (40, 41, 1))
    engine.step()
    assert engine.work() - before < 41 * 8 + 80
    engine.uninstall("tc")
    before = engine.work()
    engine.delete("edge", (40, 41, 1))
    engine.step()
    assert engine.work() - before < 60
    engine.check()


def test_the_limit_of_an_inner_loop_holds_in_every_round_of_the_outer() -> None:
    """The outer loop follows edges of weight 1, the inner one those of weight 0, at most two in a row."""
    build = Builder()
    every, roots = build.distinct(build.table("edge")), build.roots()
    outer = build.body()
    reached = outer.variable(1)
    far = outer.filter(outer.enter(every), compare("eq", col(2), number(1)))
    near = outer.linear(outer.enter(every), (0, 1), compare("eq", col(2), number(0)))
    start = outer.distinct(outer.concat(outer.enter(roots), outer.join(reached, far, [(0, 0)], (2,))))
    inside = loops.closure(outer, near, start, limit=4, error_at_limit=True)
    (left,) = build.loop(outer, outer.distinct(outer.concat(inside, start)))
    engine = Engine({"view": build.plan(left)})
    engine.insert("root", (0,))
    engine.insert("edge", (0, 1, 0), (1, 2, 0), (2, 3, 1), (3, 4, 0), (4, 5, 0), (5, 6, 1))
    engine.step()
    assert engine.rows("view") == Counter((node,) for node in range(7))
    engine.insert("edge", (6, 7, 0), (7, 8, 0), (8, 9, 0))
    with pytest.raises(DataError, match="4 rounds"):
        engine.step()
    assert engine.rows("view") == Counter((node,) for node in range(7))
    engine.insert("edge", (6, 7, 0), (7, 8, 0))
    engine.delete("edge", (2, 3, 1))
    engine.step()
    engine.check()


def endless() -> Plan:
    """Numbers that grow for ever, from the roots."""
    build = Builder()
    body = build.body()
    here = body.variable(1, body.enter(build.table("root")))
    (left,) = build.loop(body, body.linear(here, (add(col(0), number(1)),)))
    return build.plan(left)


@contextmanager
def interrupted() -> Iterator[None]:
    """Ctrl-C comes after a while: between the hundredth look whether it has come and the next."""
    check, looks = DeferredInterrupt.check, count()

    def pressed(self: DeferredInterrupt) -> None:
        check(self)
        if next(looks) == 100:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(DeferredInterrupt, "check", pressed)
        yield


def test_a_step_without_end_can_be_interrupted() -> None:
    engine = Engine({"endless": endless(), "reach": loops.reach()})
    engine.insert("root", (0,))
    with interrupted():
        engine.step()
    assert engine.contents("root") == []
    assert engine.rows("reach") == engine.rows("endless") == Counter()
    engine.insert("edge", *chain(3))
    engine.step()
    engine.check()


def test_an_installation_without_end_can_be_interrupted() -> None:
    engine = Engine({"reach": loops.reach()})
    engine.insert("root", (0,))
    engine.step()
    before = len(engine.worker.operators())
    with interrupted():
        engine.worker.install("endless", endless())
    assert len(engine.worker.operators()) == before
    engine.insert("edge", *chain(3))
    engine.step()
    engine.check()


def test_bag_recursion_on_a_cycle_overflows_and_is_undone() -> None:
    """Two ways round: twice as many paths with every edge, until a count does not fit."""
    build = Builder()
    step = build.linear(build.table("edge"), (0, 1))
    body = build.body()
    path = body.variable(1)
    longer = body.join(path, body.enter(step), [(0, 0)], (2,))
    (left,) = build.loop(body, body.concat(body.enter(build.table("root")), longer))
    engine = Engine({"paths": build.plan(left)})
    engine.insert("root", (0,))
    engine.insert("edge", *edges((0, 1), (1, 2)))
    engine.step()
    engine.insert("edge", *edges((2, 0), (2, 0)))
    with pytest.raises(DataError, match="multiplicity overflow"):
        engine.step()
    assert engine.rows("paths") == Counter([(0,), (1,), (2,)])
    engine.insert("edge", *edges((0, 1), (2, 3)))
    engine.step()
    assert engine.rows("paths") == Counter({(0,): 1, (1,): 2, (2,): 2, (3,): 2})


def test_a_sum_that_overflows_in_a_loop_is_undone() -> None:
    engine = Engine({"control": loops.control(2)})
    engine.insert("edge", (0, 1, 5), (1, 2, 2**62))
    engine.step()
    engine.insert("edge", (0, 2, 2**62))
    with pytest.raises(DataError, match="sum"):
        engine.step()
    assert engine.rows("control") == Counter([(0, 1), (1, 2), (0, 2)])
    engine.insert("edge", (0, 2, 2))
    engine.step()
    engine.check()


def test_what_a_failing_round_leaves_undone_is_forgotten() -> None:
    """Round 0 fails when it has put off to round 1 that 0 no longer controls 2 through 1."""
    engine = Engine({"control": loops.control(2)})
    engine.insert("edge", (0, 1, 5), (1, 2, 5), (2, 3, 5))
    engine.step()
    engine.delete("edge", (1, 2, 5))
    engine.insert("edge", (7, 8, 2**62), (7, 8, 2**62 + 1))
    with pytest.raises(DataError, match="sum"):
        engine.step()
    engine.insert("edge", (4, 5, 5))
    engine.step()
    engine.check()
