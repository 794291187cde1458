"""Inputs and time: one clock for inputs and transactions."""

import numpy as np
import pytest

import kpg
from tests.unit.collections.watching import step, watch


def test_each_input_advances_on_its_own_and_the_least_counts(flow: kpg.Dataflow) -> None:
    a, b = flow.input("a", x=int), flow.input("b", x=int)
    seen = watch(a.concat(b))
    a.insert(1)
    a.advance_to(5)
    a.insert(2)
    a.advance_to(10)
    flow.step()
    assert (seen.new(), flow.epoch) == ([], 0)
    b.insert(3)
    b.advance_to(6)
    flow.step()
    assert (seen.new(), flow.epoch) == ([((1,), 1, 1), ((2,), 5, 1), ((3,), 1, 1)], 5)
    b.advance_to(20)
    flow.step()
    assert (seen.new(), flow.epoch) == ([], 9)


def test_updates_keep_their_times_and_multiplicities_add_up(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    seen = watch(a)
    a.update((1,), 5)
    a.update((1,), -2)
    a.update((2,), -7, time=4)
    a.update((3,), 0)
    a.flush()
    a.advance_to(3)
    a.remove(1)
    a.advance_to(100)
    flow.step()
    assert seen.new() == [((1,), 1, 3), ((1,), 3, -1), ((2,), 4, -7)]


def test_what_does_not_add_up_stays_in_the_buffer(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    a.insert(7)
    a.update((1,), 2**62)
    a.update((1,), 2**62)
    with pytest.raises(kpg.DataError, match="multiplicity overflow"):
        a.flush()
    assert a.discard() == 3


def test_t67_how_epochs_are_stepped_does_not_change_the_history() -> None:
    histories = []
    for per_step in (1, 2, 100):
        with kpg.connect() as db, db.dataflow() as flow:
            a = flow.input("a", x=int, y=int)
            seen = watch(a.count("x").concat(a.max("y", key="x").rename(y="count")))
            for time in range(1, 21):
                a.insert(time % 3, time * 7 % 11)
                if time > 6:
                    a.remove((time - 6) % 3, (time - 6) * 7 % 11)
                a.advance_to(time + 1)
                if time % per_step == 0 or time == 20:
                    flow.step()
            histories.append(seen.new())
    assert histories[0] == histories[1] == histories[2]


def test_rows_in_all_their_forms(flow: kpg.Dataflow) -> None:
    pair, one = flow.input("pair", x=int, y=str), flow.input("one", x=int)
    pairs, ones = watch(pair), watch(one)
    pair.insert(1, "a")
    pair.insert((2, "b"))
    pair.insert([(3, "c"), [4, "d"]])
    pair.insert((x, "e") for x in (5, 6))
    one.insert(1)
    one.insert((2,))
    one.insert([3, (4,)])
    one.insert(range(5, 7))
    step(flow, pair, one)
    assert sorted(row[0] for row in pairs.at()) == [1, 2, 3, 4, 5, 6]
    assert sorted(row[0] for row in ones.at()) == [1, 2, 3, 4, 5, 6]


def test_columns(flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    seen = watch(edges)
    edges.insert_columns((np.array([1, 2]), [3, 4]))
    edges.insert_columns(
        {"dst": np.array([3, 0], np.int32), "src": np.array([1, 9])}, diff=[2, 0], time=[7, 8]
    )
    edges.insert_columns(([], []))
    edges.advance_to(10)
    flow.step()
    assert seen.new() == [((1, 3), 1, 1), ((1, 3), 7, 2), ((2, 4), 1, 1)]
    for message, wrong in {
        "columns src, dst, not a, b": {"columns": {"a": [1], "b": [2]}},
        "1 arrays for the 2 columns": {"columns": [[1]]},
        "has shape": {"columns": [[1], [2, 3]]},
        "at time 10 and takes no update at 9": {"columns": [[1], [2]], "time": 9},
        "diff is an int or an array of 1 ints": {"columns": [[1], [2]], "diff": 1.5},
    }.items():
        with pytest.raises(kpg.Error, match=message):
            edges.insert_columns(**wrong)  # type: ignore[arg-type]


def test_mistakes_with_rows(flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    for wrong, error, message in (
        ((1,), kpg.InterfaceError, "1 is no row of edges"),
        (("ab",), kpg.InterfaceError, "'ab' is no row"),
        ((1, 2, 3), kpg.InterfaceError, "row 1 has 3 values, expected 2: src, dst"),
        ((1, "x"), kpg.ProgrammingError, "row 1, column dst: value 'x' is a str"),
        ((1, None), kpg.IntegrityError, "column dst cannot be None"),
        ((1, 2**64), kpg.DataError, "does not fit BIGINT"),
        (([1, 2],), kpg.InterfaceError, "a row must be a tuple"),
    ):
        with pytest.raises(error, match=message):
            edges.insert(*wrong)
    with pytest.raises(kpg.InterfaceError, match="multiplicity"):
        edges.update((1, 2), 1.5)  # type: ignore[arg-type]
    with pytest.raises(kpg.ProgrammingError, match="column x has no type"):
        flow.input("other", x="INTEGRE")
    with pytest.raises(kpg.InterfaceError, match="a collection needs columns"):
        flow.input("other")


def test_time_does_not_go_back(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    a.advance_to(5)
    a.advance_to(5)
    with pytest.raises(kpg.InterfaceError, match="cannot advance to 4: it is at 5\n"):
        a.advance_to(4)
    with pytest.raises(kpg.InterfaceError, match="takes no update at 4"):
        a.update((1,), 1, time=4)
    with pytest.raises(kpg.InterfaceError, match="a time is an int"):
        a.advance_to(True)


def test_a_new_input_begins_at_the_clock(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    assert a.time == 1
    a.advance_to(50)
    flow.step()
    assert flow.input("b", x=int).time == 50


def test_t55_closing_differs_from_advancing(flow: kpg.Dataflow) -> None:
    a, b = flow.input("a", x=int), flow.input("b", x=int)
    both, only_b = a.concat(b).probe(), b.probe()
    a.insert(1)
    a.advance_to(10**9)
    b.advance_to(3)
    flow.step()
    assert both.time == only_b.time == 3
    b.close()
    flow.step()
    assert only_b.time is None  # nothing can come any more
    assert both.time == 10**9  # something may come at 10**9
    assert both.less_than(10**9 + 1) and not both.done(10**9)
    a.close()
    assert both.time is None and both.done(10**12) and not both.less_than(10**12)
    with pytest.raises(kpg.InterfaceError, match="input b is closed"):
        b.insert(1)
    with pytest.raises(kpg.InterfaceError, match="input a is closed"):
        a.advance_to(10**10)


def test_what_is_buffered_when_an_input_closes_still_comes(flow: kpg.Dataflow) -> None:
    with flow.input("a", x=int) as a:
        seen, probe = watch(a), a.probe()
        a.insert(1)
        a.update((2,), 1, time=7)
    assert (a.closed, probe.time) == (True, 1)
    flow.step()
    assert (seen.new(), flow.epoch, probe.time) == ([((1,), 1, 1), ((2,), 7, 1)], 7, None)


def test_probe(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    probe = a.count().probe()
    assert probe.time == 1 and probe.less_than(2) and not probe.less_than(1) and not probe.done(1)
    a.advance_to(4)
    assert not probe.done(3)
    flow.step()
    assert probe.done(3) and not probe.done(4)
    probe.close()
    assert probe.time is None
    probe.close()


def test_transactions_and_inputs_share_the_clock(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    a = flow.input("a", x=int)
    seen = watch(a.concat(flow.import_("t")))
    a.advance_to(3)
    db.sql("INSERT INTO t VALUES (10)")
    assert (db.epoch, a.time) == (1, 3)
    a.insert(1)
    a.advance_to(4)
    db.sql("INSERT INTO t VALUES (20)")  # closes epoch 2, not yet 3
    assert seen.new() == [((10,), 1, 1), ((20,), 2, 1)]
    db.sql("INSERT INTO t VALUES (30)")  # closes epoch 3, with what the input has at it
    assert seen.new() == [((1,), 3, 1), ((30,), 3, 1)]
    flow.step()
    assert (seen.new(), db.epoch) == ([], 3)


def test_a_transaction_moves_idle_inputs_on(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    a = flow.input("a", x=int)
    db.sql("INSERT INTO t VALUES (10)")
    assert a.time == 2
    a.insert(1)
    with pytest.raises(
        kpg.InterfaceError, match="cannot advance to 2: it is at 2, where a transaction has moved it"
    ):
        a.advance_to(2)
    with pytest.raises(kpg.InterfaceError, match="epoch 2 cannot be committed: input a holds updates at it"):
        db.sql("INSERT INTO t VALUES (20)")
    assert db.query("SELECT * FROM t").fetchall() == [(10,)]
    a.advance_to(3)
    db.sql("INSERT INTO t VALUES (20)")
    assert db.epoch == 2


def test_steps_and_changes_of_dataflows_stay_outside_of_transactions(
    db: kpg.Database, flow: kpg.Dataflow
) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    a = flow.input("a", x=int)
    with pytest.raises(kpg.InterfaceError, match="holds updates"), db.transaction():
        for attempt in (flow.step, db.step, lambda: a.inspect(print), lambda: a.export("e"), flow.drop):
            with pytest.raises(kpg.NotSupportedError, match="inside a transaction"):
                attempt()
        db.sql("INSERT INTO t VALUES (1)")
        a.insert(5)
    assert db.query("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_batches_close_many_epochs(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    a = flow.input("a", x=int)
    seen = watch(flow.import_("t").concat(a))
    with db.batch():
        db.sql("INSERT INTO t VALUES (1)")
        db.sql("INSERT INTO t VALUES (2)")
    assert (seen.new(), a.time) == ([((1,), 1, 1), ((2,), 2, 1)], 3)


def test_a_failing_callback_does_not_undo_the_step(
    flow: kpg.Dataflow, caplog: pytest.LogCaptureFixture
) -> None:
    a = flow.input("a", x=int)

    def fails(row: object, time: int, diff: int) -> None:
        raise ValueError("no")

    a.inspect(fails)
    seen = watch(a)
    a.insert(1)
    a.advance_to(2)
    flow.step()
    assert (seen.at(), flow.epoch) == ({(1,): 1}, 1)
    assert "a callback of dataflow flow raised ValueError: no" in caplog.text


def test_inspect_columns(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int, s=str)
    seen = []
    inspection = a.inspect_columns(lambda arrays, times, diffs: seen.append((arrays, times, diffs)))
    a.insert([(1, "a"), (2, "b")])
    a.advance_to(3)
    a.remove(1, "a")
    a.advance_to(4)
    flow.step()
    [((x, s), times, diffs)] = seen
    assert sorted(zip(x.tolist(), s.tolist(), times.tolist(), diffs.tolist(), strict=True)) == [
        (1, "a", 1, 1),
        (1, "a", 3, -1),
        (2, "b", 1, 1),
    ]
    inspection.close()
    a.insert(1, "a")
    a.advance_to(5)
    flow.step()
    assert len(seen) == 1


def test_the_database_steps_all_dataflows(db: kpg.Database) -> None:
    one, two = db.dataflow(), db.dataflow()
    a, b = one.input("a", x=int), two.input("a", x=int)
    first, second = watch(a), watch(b)
    a.insert(1)
    b.insert(2)
    a.advance_to(2)
    b.advance_to(2)
    db.step()
    assert (first.at(), second.at()) == ({(1,): 1}, {(2,): 1})
    with pytest.raises(kpg.InterfaceError, match="there is a dataflow 1 already"):
        db.dataflow("1")


def test_functions_of_a_step_leave_the_database_alone(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    a = flow.input("a", x=int)
    attempts = [
        flow.step,
        lambda: a.insert(1),
        lambda: db.sql("INSERT INTO t VALUES (1)"),
        lambda: watch(a.distinct()),
        lambda: db.query("SELECT 1"),
        flow.drop,
        db.close,
    ]

    def f(x: int) -> int:
        attempts[x]()
        return x

    a.map_rows(f, x=int).probe()
    for number in range(len(attempts)):
        a.insert(number)
        a.advance_to(a.time + 1)
        with pytest.raises(kpg.DataError, match="cannot be used by a function that its own step calls"):
            flow.step()
        a.discard()
    assert db.query("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_a_callback_may_use_the_database(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT)")
    a, b = flow.input("a", x=int), flow.input("b", x=int)
    a.inspect(lambda row, time, diff: b.insert(row))
    b.inspect(lambda row, time, diff: db.insert("t", [row]))
    a.insert(1)
    for _ in range(2):
        a.advance_to(a.time + 1)
        b.advance_to(b.time + 1)
        db.step()
    assert db.query("SELECT * FROM t").fetchall() == [(1,)]


def test_a_constant(flow: kpg.Dataflow) -> None:
    constant = flow.constant([(1, "a"), (1, "a"), (2, None)], x=int, s=str | None)
    assert watch(constant).at() == {(1, "a"): 2, (2, None): 1}
    assert watch(constant.count("x").join(constant, key="x")).at() == {(1, 2, "a"): 2, (2, 1, None): 1}
    assert constant.probe().time is None


def test_a_closed_database(flow: kpg.Dataflow, db: kpg.Database) -> None:
    a = flow.input("a", x=int)
    db.close()
    for attempt in (flow.step, lambda: a.insert(1), lambda: watch(a)):
        with pytest.raises(kpg.InterfaceError, match="the database is closed"):
            attempt()
    flow.drop()


def test_functions_that_fill_an_output_leave_the_database_alone(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1)")
    mapped = flow.import_("t").map_rows(lambda x: len(db.query("SELECT 1")) + x, x=int)
    for _ in range(2):
        with pytest.raises(kpg.DataError, match="cannot be used by a function that its own step calls"):
            watch(mapped)
    assert db.query("SELECT x FROM t").fetchall() == [(1,)]


def test_a_dataflow_can_be_dropped_after_its_database_was_closed() -> None:
    db = kpg.connect()
    with db.dataflow() as flow:
        a = flow.input("a", x=int)
        seen = a.capture()
        a.export("kept")
        a.insert(1)
        a.advance_to(2)
        flow.step()
        db.close()
    flow.drop()
    assert list(seen) == [((1,), 1, 1)]
