"""Capture and replay."""

import pytest

import kpg
from tests.unit.collections.watching import step, watch


def test_capture_is_a_record_from_the_present_on(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1), (1)")
    captured = flow.import_("t").capture()
    assert list(captured) == [((1,), 1, 2)]
    db.sql("DELETE FROM t")
    assert list(captured) == list(captured) == [((1,), 1, 2), ((1,), 2, -2)]
    assert (list(captured.columns), captured.time) == (["x"], 3)


def test_a_record_that_grows_is_followed_into_another_database(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int, s=str)
    captured = a.count("s").capture()
    with kpg.connect() as elsewhere:
        copy = elsewhere.dataflow("copy")
        replayed = copy.replay("a", captured)
        assert replayed.columns == ["s", "count"]
        seen, probe = watch(replayed), replayed.probe()
        a.insert([(1, "x"), (2, "x")])
        a.advance_to(5)
        a.insert(3, "y")
        a.advance_to(9)
        flow.step()
        copy.step()
        assert (seen.new(), probe.time) == ([(("x", 2), 1, 1), (("y", 1), 5, 1)], 9)
        a.remove(1, "x")
        a.advance_to(12)
        flow.step()
        copy.step()
        assert (seen.new(), probe.time) == ([(("x", 1), 9, 1), (("x", 2), 9, -1)], 12)
        a.close()
        flow.step()
        copy.step()
        assert (captured.time, probe.time) == (None, None)


def test_a_record_of_any_changes(flow: kpg.Dataflow) -> None:
    replayed = flow.replay("r", [((1,), 3, 1), (2, 4, 5), ((1,), 7, -1)], x=int)
    seen = watch(replayed)
    flow.step()
    assert (seen.new(), flow.epoch) == ([((1,), 3, 1), ((1,), 7, -1), ((2,), 4, 5)], 7)


def test_the_past_cannot_be_replayed(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    captured = a.capture()
    a.insert(1)
    step(flow, a)
    with pytest.raises(kpg.InterfaceError, match="the record begins at time 1, and r is at 2"):
        flow.replay("r", captured)


def test_closing_a_record_keeps_it(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    captured = a.capture()
    a.insert(1)
    step(flow, a)
    captured.close()
    a.insert(2)
    step(flow, a)
    assert list(captured) == [((1,), 1, 1)]
