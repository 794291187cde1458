"""Sharing: arrangements across dataflows, late readers, and what is freed when readers go."""

import gc
import weakref
from collections.abc import Iterator

import pytest

import kpg
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.loop import iterate_operators
from tests.unit.collections.test_loops import reach
from tests.unit.collections.watching import step, watch


def operators(db: kpg.Database) -> list[Operator]:
    """The operators of all dataflows and views."""
    worker = db._engine.executor
    return list(dict.fromkeys(op for view in worker.views.values() for op in view.operators))


def arrangements(db: kpg.Database) -> list[Arrange]:
    return [operator for operator in operators(db) if isinstance(operator, Arrange)]


@pytest.fixture
def edges(flow: kpg.Dataflow) -> Iterator[kpg.Input]:
    edges = flow.input("edges", src=int, dst=int)
    yield edges


def test_joins_by_one_key_share_an_arrangement(
    db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input
) -> None:
    by_src = edges.arrange_by_key("src")
    watch(by_src.join(by_src, key="src", result=lambda a, b: (a.dst, b.dst + 0)))
    watch(edges.join(edges, key={"src": "src"}, result=lambda a, b: (a.dst, b.dst + 1)))
    watch(by_src.reduce(lambda key, rows: [len(rows)], key="src", n=int))
    assert len(arrangements(db)) == 1


def test_an_arrangement_by_the_same_columns_in_another_order(db: kpg.Database, edges: kpg.Input) -> None:
    both = edges.arrange_by_key("dst", "src")
    watch(both.join(both, key=("src", "dst")))
    watch(edges.join(both, key={"src": "src", "dst": "dst"}))
    assert len(arrangements(db)) == 1


def test_a_late_reader_sees_what_is_there_now_and_then_the_changes(
    db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input
) -> None:
    by_src = edges.arrange_by_key("src")
    edges.insert([(1, 2), (2, 3)])
    step(flow, edges)
    edges.remove(1, 2)
    edges.insert(1, 4)
    step(flow, edges)
    other = db.dataflow("other")
    seen = watch(other.import_(by_src))
    assert seen.new() == [((1, 4), 2, 1), ((2, 3), 2, 1)]
    paths = watch(other.import_(by_src).join(by_src, {"dst": "src"}, lambda a, b: (a.src, b.dst)))
    roots = other.input("roots", node=int)
    found = watch(reach(by_src, roots))
    edges.insert([(4, 2), (3, 9)])
    roots.insert(1)
    step(flow, edges, roots)
    assert (seen.at(), paths.at()) == ({(4, 2): 1, (3, 9): 1}, {(1, 2): 1, (2, 9): 1, (4, 3): 1})
    assert found.at() == {(node,): 1 for node in (1, 4, 2, 3, 9)}


def test_an_input_is_a_stream_that_nobody_reads_later(flow: kpg.Dataflow, edges: kpg.Input) -> None:
    early = watch(edges)
    edges.insert(1, 2)
    step(flow, edges)
    for late in (edges, edges.map(lambda r: r.src), edges.distinct(), edges.join(edges), edges.count("src")):
        with pytest.raises(kpg.InterfaceError, match="input edges is a stream: what it brought up to time 1"):
            watch(late)
    with pytest.raises(kpg.InterfaceError, match="arrange_by_key"):
        edges.arrange_by_key("src")
    edges.insert(3, 4)
    step(flow, edges)
    assert early.at() == {(1, 2): 1, (3, 4): 1}


def test_t24_import_is_one_consistent_snapshot(
    db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input
) -> None:
    """History is moved up to the present, so that nothing passes through states that never were."""
    kept = edges.arrange_by_key()
    for time in range(1, 30):
        edges.insert(time, 0)
        if time > 1:
            edges.remove(time - 1, 0)
        edges.advance_to(time + 1)
        if time % 4 == 0:
            flow.step()
    seen = watch(db.dataflow("other").import_(kept))
    assert seen.new() == [((28, 0), 28, 1)]


def test_t21_t22_readers_of_one_trace_that_come_at_different_times(
    db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input
) -> None:
    """Each pair of a self-join exactly once, whoever came when, many epochs to a step or one."""
    by_src, by_dst = edges.arrange_by_key("src"), edges.arrange_by_key("dst")
    readers = []
    present: set[tuple[int, int]] = set()
    for time in range(1, 25):
        if time % 6 == 1:
            other = db.dataflow(f"reader {time}")
            paths = other.import_(by_dst).join(by_src, {"dst": "src"}, lambda a, b: (a.src, a.dst, b.dst + 0))
            readers.append(watch(paths))
        for edge in ((time % 5, time % 3), (time % 3, time % 4)):
            (edges.remove if edge in present else edges.insert)(edge)
            present ^= {edge}
        edges.advance_to(time + 1)
        if time % 3:
            flow.step()
    flow.step()
    expected = {(a, b, d): 1 for a, b in present for c, d in present if b == c}
    assert [reader.at() for reader in readers] == [expected] * 4


def test_t19_t25_the_last_reader_frees_the_trace(
    db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input
) -> None:
    by_src = edges.arrange_by_key("src")
    other = db.dataflow("other")
    counts = watch(other.import_(by_src).count("src"))
    edges.insert(1, 2)
    step(flow, edges)
    (trace,) = [weakref.ref(arrangement) for arrangement in arrangements(db)]
    spine = weakref.ref(trace().spine)  # type: ignore[union-attr]
    del by_src
    flow.drop()
    assert [type(operator).__name__ for operator in operators(db)].count("Arrange") == 1
    assert counts.at() == {(1, 1): 1}
    other.drop()
    gc.collect()
    assert operators(db) == []
    assert (trace(), spine()) == (None, None)


def test_dropping_a_dataflow_frees_loops_and_functions(db: kpg.Database) -> None:
    with db.dataflow() as flow:
        edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)

        def f(node: int) -> int:
            return node

        watch(reach(edges, roots).map_rows(f, node=int).reduce(lambda k, rows: [len(rows)], key=(), n=int))
        edges.insert(1, 2)
        roots.insert(1)
        step(flow, edges, roots)
        alive = [weakref.ref(operator) for operator in operators(db)]
        function = weakref.ref(f)
        del f, edges, roots
    del flow
    gc.collect()
    assert operators(db) == []
    assert [ref() for ref in alive if ref() is not None] == []
    assert function() is None


def test_closing_an_output_frees_what_only_it_needed(
    db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input
) -> None:
    kept = edges.arrange_by_key("src")
    watched = watch(kept.distinct().count("dst"))
    assert len(operators(db)) == 6
    watched.inspection.close()
    assert [type(operator).__name__ for operator in operators(db)] == ["Input", "Arrange"]


def test_a_dropped_dataflow(db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input) -> None:
    probe, captured = edges.probe(), edges.capture()
    edges.insert(1, 2)
    step(flow, edges)
    flow.drop()
    flow.drop()
    assert repr(flow) == "<Dataflow flow, dropped>"
    assert (probe.time, list(captured)) == (None, [((1, 2), 1, 1)])
    for attempt in (
        flow.step,
        lambda: edges.insert(1, 2),
        lambda: watch(edges),
        flow.scope,
        lambda: flow.input("x", x=int),
    ):
        with pytest.raises(kpg.InterfaceError, match="dataflow flow was dropped"):
            attempt()
    db.dataflow("flow")


def test_another_dataflow_keeps_what_it_reads_of_a_dropped_one(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1), (1), (2)")
    counts = flow.import_("t").count().arrange_by_key("x")
    other = db.dataflow("other")
    seen = watch(other.import_(counts))
    flow.drop()
    db.sql("INSERT INTO t VALUES (2)")
    assert seen.at() == {(1, 2): 1, (2, 2): 1}
    with kpg.connect() as elsewhere, pytest.raises(kpg.InterfaceError, match="of another database"):
        elsewhere.dataflow().import_(counts)


def test_an_output_of_which_nothing_can_be_had_leaves_no_trace(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (0)")
    with pytest.raises(kpg.DataError, match="division by zero"):
        watch(flow.import_("t").map(lambda r: 1 / r.x))
    assert operators(db) == []
    db.sql("INSERT INTO t VALUES (1)")


def test_t55_a_dataflow_retires_when_its_inputs_close(db: kpg.Database, flow: kpg.Dataflow) -> None:
    """What its outputs needed is freed; probes are done, records complete, exports hold what they came to."""
    edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
    found = reach(edges, roots)
    found.export("found")
    degrees = edges.count("src").arrange_by_key("src")
    seen, probe, record = (
        watch(edges.join(edges, {"dst": "src"}, lambda a, b: (a.src, b.dst))),
        found.probe(),
        found.capture(),
    )
    edges.insert([(1, 2), (2, 3), (3, 1), (5, 6)])
    roots.insert(1)
    step(flow, edges, roots)
    edges.remove(3, 1)
    edges.close()
    traces = [weakref.ref(one.spine) for one in arrangements(db)]
    assert len(operators(db)) > 10
    roots.advance_to(3)
    flow.step()
    assert probe.time == 3 and not probe.done(3)  # roots may still bring something
    roots.close()
    assert probe.time is None and probe.done(10**9)
    gc.collect()
    assert sorted(type(one).__name__ for one in operators(db)) == ["Arrange", "Arrange"]
    assert sum(trace() is not None for trace in traces) == 2
    assert (sorted(row for row, _, _ in record), seen.at()) == ([(1,), (2,), (3,)], {(1, 3): 1})
    assert sorted(db.query("SELECT node FROM found")) == [(1,), (2,), (3,)]
    again = watch(found.map(lambda r: r.node + 1))
    late = watch(
        db.dataflow("late").import_(degrees).join(found, {"src": "node"}, lambda d, r: (d.src, d.count))
    )
    assert (again.at(), late.at()) == ({(2,): 1, (3,): 1, (4,): 1}, {(1, 1): 1, (2, 1): 1})
    with pytest.raises(kpg.InterfaceError, match="input edges is a stream"):
        watch(edges.distinct())
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM found")
    db.sql("CREATE TABLE t (node BIGINT); INSERT INTO t VALUES (1), (3), (9)")
    assert watch(flow.import_("t").join(found, "node")).at() == {(1,): 1, (3,): 1}
    with pytest.raises(kpg.ProgrammingError, match='"v" uses "found"'):
        flow.drop()
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("INSERT INTO t VALUES (2)")
    flow.drop()


def test_t55_what_a_closed_input_alone_made_retires_in_the_midst_of_others(
    db: kpg.Database, flow: kpg.Dataflow
) -> None:
    fixed, live = flow.input("fixed", x=int, y=int), flow.input("live", x=int)
    sums = fixed.sum("y", key="x")
    seen = watch(live.join(sums, "x"))
    fixed.insert([(1, 5), (1, 6), (2, 7)])
    live.insert(1)
    step(flow, fixed, live)
    fixed.close()
    names = [type(one).__name__ for one in operators(db)]
    assert names.count("Reduce") == 0 and names.count("Arrange") == 2
    live.insert(2)
    step(flow, live)
    assert seen.at() == {(1, 11): 1, (2, 7): 1}
    live.close()
    assert operators(db) == []


def test_t55_a_dataflow_waits_for_the_notifications_that_were_asked_for(
    db: kpg.Database, flow: kpg.Dataflow
) -> None:
    class Later(kpg.Operator):
        def on_recv(self, batch: kpg.Batch, time: int) -> None:
            self.notify_at(time + 10)

        def on_notify(self, time: int) -> None:
            self.send([((time,), 1)], time)

    a, clock = flow.input("a", x=int), flow.input("clock", x=int)
    probe, seen = a.apply(Later(), at=int).probe(), watch(a.apply(Later(), at=int))
    a.insert(1)
    a.close()
    step(flow, clock)
    assert probe.time == 2 and len(operators(db)) > 2
    clock.advance_to(12)
    flow.step()
    assert probe.time is None and seen.at() == {(11,): 1}
    clock.close()
    assert operators(db) == []


@pytest.mark.parametrize("arranged_first", [True, False])
def test_a_collection_is_arranged_by_a_key_once_however_it_was_come_by(
    db: kpg.Database, flow: kpg.Dataflow, arranged_first: bool
) -> None:
    edges = flow.input("edges", src=int, dst=int)
    ways = [
        lambda: edges,
        lambda: edges.arrange_by_key("src"),
        lambda: edges.rename(src="b", dst="a").rename(b="src", a="dst"),
    ]
    for way in ways if arranged_first else reversed(ways):
        collection = way()
        watch(collection.join(collection, {"dst": "src"}, lambda a, b: (a.src, b.dst)))
        collection.map(lambda e: (e.dst, e.src, e.src + e.dst)).arrange_by_key("dst")
        collection.arrange_by_key("dst")
        collection.distinct().arrange_by_key("dst", "src")
        with flow.scope() as loop:
            variable = loop.variable(node=int)
            variable.set(
                variable.join(collection.filter(lambda e: e.src > 1), {"node": "dst"}, lambda v, e: e.src)
                .rename(src="node")
                .distinct()
            )
            left = loop.leave(variable.result)
        watch(left)
    kinds = [type(one).__name__ for one in operators(db)]
    assert len(arrangements(db)) == 5, [one.place.description for one in arrangements(db)]
    assert kinds.count("DeltaJoin") == 1 and kinds.count("Reduce") == 1 and kinds.count("Loop") == 1
    edges.insert([(1, 2), (2, 3)])
    step(flow, edges)
    late = watch(edges.arrange_by_key("src").arrange_by_key("dst"))  # the index is there, the stream is not
    assert late.at() == {(1, 2): 1, (2, 3): 1}


def test_an_arranged_table_is_arranged_by_another_key_as_the_table_is(
    db: kpg.Database, flow: kpg.Dataflow
) -> None:
    db.sql("CREATE TABLE e (src BIGINT, dst BIGINT)")
    table = flow.import_("e")
    by_src = table.arrange_by_key("src")
    by_src.arrange_by_key("dst")
    table.arrange_by_key("dst")
    watch(by_src.filter(lambda e: e.src > 1).join(by_src, {"dst": "dst"}, lambda a, b: a.src + b.src))
    assert [one.place.description for one in arrangements(db)][:2] == ["e(src)", "e(dst)"]
    assert len(arrangements(db)) == 3  # and of the few that pass the filter


def test_a_column_of_distinct_rows_is_another_collection(flow: kpg.Dataflow) -> None:
    """Identity of a projection goes by the width of what is under it."""
    edges = flow.input("edges", src=int, dst=int, weight=int)
    pairs = edges.project("src", "dst").distinct().arrange_by_key("src")
    ends = watch(pairs.project("src").concat(pairs.map(lambda p: {"src": p.dst})).distinct())
    edges.insert([(1, 2, 7), (1, 2, 8)])
    step(flow, edges)
    assert ends.at() == {(1,): 1, (2,): 1}


def test_a_closed_database_gives_its_memory_back_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        with kpg.connect() as db:
            flow = db.dataflow("reach")
            edges, roots = flow.input("edges", src=int, dst=int), flow.input("roots", node=int)
            found = reach(edges, roots).probe()
            edges.insert([(1, 2), (2, 3)])
            roots.insert(1)
            step(flow, edges, roots)
            states = [
                weakref.ref(getattr(operator, name))
                for operator in iterate_operators(tuple(operators(db)))
                for name in ("spine", "table")
                if hasattr(operator, name)
            ]
        assert len(states) >= 3 and found is not None
        assert [state() for state in states] == [None] * len(states)
    finally:
        gc.enable()
