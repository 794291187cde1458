"""Operators that users write: messages, notifications, state, errors."""

from typing import Any

import pytest

import kpg
from tests.unit.collections.watching import step, watch


class Log(kpg.Operator):
    """Passes everything on, and notes what happens when."""

    def __init__(self, delay: int = 0) -> None:
        self.calls: list[Any] = []
        self.delay = delay

    def on_recv(self, batch: kpg.Batch, time: Any) -> None:
        self.calls.append(("recv", time, batch.port, sorted(batch)))
        self.send(batch, time)
        self.notify_at(time + self.delay if isinstance(time, int) else time)

    def on_notify(self, time: Any) -> None:
        self.calls.append(("notify", time))


class Windows(kpg.Operator):
    """The sum of every ten time units, sent when the ten are over."""

    def __init__(self) -> None:
        self.sums: dict[int, int] = {}

    def on_recv(self, batch: kpg.Batch, time: int) -> None:
        end = time // 10 * 10 + 10
        (values,) = batch.columns
        self.sums[end] = self.sums.get(end, 0) + int((values * batch.diffs).sum())
        self.notify_at(end)

    def on_notify(self, time: int) -> None:
        self.send([((time, self.sums.pop(time)), 1)], time)


def test_t52_notified_when_no_message_at_or_before_the_time_can_come(flow: kpg.Dataflow) -> None:
    a, b = flow.input("a", x=int), flow.input("b", x=int)
    log = Log()
    seen = watch(a.apply(log, b, x=int))
    a.insert(1)
    a.advance_to(5)
    a.insert(2)
    a.advance_to(9)
    b.advance_to(3)
    flow.step()
    # b may still bring something at 3: nothing of time 5 is shown, and least of all notified.
    assert log.calls == [("recv", 1, 0, [((1,), 1)]), ("notify", 1)]
    log.calls.clear()
    b.insert(7)
    b.advance_to(9)
    flow.step()
    assert log.calls == [
        ("recv", 3, 1, [((7,), 1)]),
        ("notify", 3),
        ("recv", 5, 0, [((2,), 1)]),
        ("notify", 5),
    ]
    assert seen.new() == [((1,), 1, 1), ((2,), 5, 1), ((7,), 3, 1)]


def test_t52_in_order_within_one_step(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    log = Log(delay=3)
    watch(a.apply(log, x=int))
    for time in (1, 2, 4, 6):
        a.update((time,), 1, time=time)
    a.advance_to(8)
    flow.step()
    assert [call[:2] for call in log.calls] == [
        ("recv", 1),
        ("recv", 2),
        ("recv", 4),
        ("notify", 4),
        ("notify", 5),
        ("recv", 6),
        ("notify", 7),
    ]
    a.advance_to(9)
    flow.step()
    assert log.calls[7:] == []
    a.advance_to(10)
    flow.step()
    assert log.calls[7:] == [("notify", 9)]


def test_windows(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    seen = watch(a.apply(Windows(), end=int, total=int))
    probe = a.apply(Windows(), end=int, total=int).probe()
    for time in range(1, 25):
        a.insert(time)
        a.advance_to(time + 1)
        if time % 3 == 0:
            flow.step()
    assert seen.new() == [((10, 45), 10, 1), ((20, 145), 20, 1)]
    assert probe.time == 25
    a.close()
    assert probe.time == 25  # one notification is due
    flow.step()
    assert seen.new() == [((30, 20 + 21 + 22 + 23 + 24), 30, 1)]
    assert (probe.time, flow.epoch) == (None, 30)


class Forward(kpg.Operator):
    """Sends and asks as it is told."""

    def on_recv(self, batch: kpg.Batch, time: int) -> None:
        for (x,), diff in batch:
            if diff > 0:
                self.send([((x, time), diff)], x)
            else:
                self.notify_at(x)


def test_t53_only_forward_in_time(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    seen = watch(a.apply(Forward(), x=int, at=int))
    a.advance_to(5)
    a.insert([5, 6, 100])
    a.remove(6)
    a.advance_to(6)
    flow.step()
    assert seen.new() == [((5, 5), 5, 1), ((6, 5), 6, 1)] or seen.at() == {}
    a.advance_to(7)
    flow.step()
    a.advance_to(101)
    flow.step()
    assert seen.at(99) | seen.at() == seen.at()
    for row, diff in ((3, 1), (3, -1)):
        a.update((row,), diff)
        a.advance_to(a.time + 1)
        with pytest.raises(kpg.InterfaceError, match=r"at 3 from time \d+: time does not go back"):
            flow.step()
        a.discard()


def test_what_is_sent_to_a_later_time_comes_then(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    seen = watch(a.apply(Forward(), x=int, at=int).count("at"))
    a.insert([1, 4, 4])
    a.advance_to(2)
    flow.step()
    assert seen.new() == [((1, 1), 1, 1)]
    a.advance_to(4)
    flow.step()
    assert seen.new() == []
    a.advance_to(5)
    flow.step()
    assert seen.new() == [((1, 1), 4, -1), ((1, 3), 4, 1)]


class Failing(kpg.Operator):
    """Keeps a running total of what it has seen, and fails at thirteen."""

    def __init__(self) -> None:
        self.total = 0
        self.seen: list[int] = []

    def on_recv(self, batch: kpg.Batch, time: int) -> None:
        for (x,), diff in batch:
            self.total += x * diff
            self.seen.append(x)
            if x == 13:
                raise ValueError("thirteen")
        self.notify_at(time + 2)
        self.send([((self.total,), 1)], time)

    def on_notify(self, time: int) -> None:
        self.send([((-time,), 1)], time)


def test_a_failed_step_takes_the_state_back(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    failing = Failing()
    seen = watch(a.apply(failing, total=int))
    a.insert(1)
    a.advance_to(2)
    flow.step()
    a.insert([5, 13])
    a.advance_to(3)
    with pytest.raises(kpg.DataError, match="Failing failed at time 2: ValueError: thirteen") as caught:
        flow.step()
    assert isinstance(caught.value.__cause__, ValueError)
    assert (failing.total, failing.seen) == (1, [1])
    a.discard()
    a.insert(7)
    a.advance_to(5)
    flow.step()
    assert (failing.total, failing.seen) == (8, [1, 7])
    assert seen.new() == [((-3,), 3, 1), ((1,), 1, 1), ((8,), 3, 1)]


class Log10(Failing):
    """Saves and restores by a journal of its own."""

    def save(self) -> Any:
        return self.total, len(self.seen)

    def restore(self, state: Any) -> None:
        self.total, length = state
        del self.seen[length:]


def test_state_saved_by_the_operator_itself(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    failing = Log10()
    watch(a.apply(failing, total=int))
    a.insert([1, 13])
    a.advance_to(2)
    with pytest.raises(kpg.DataError):
        flow.step()
    assert (failing.total, failing.seen) == (0, [])


def test_an_error_elsewhere_takes_the_state_back_too(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    log = Log(delay=5)
    watch(a.apply(log, x=int).map(lambda r: 1 / r.x))
    a.insert(0)
    a.advance_to(2)
    with pytest.raises(kpg.DataError, match="division by zero"):
        flow.step()
    assert log.calls == []
    a.discard()
    a.advance_to(50)
    flow.step()
    assert log.calls == []


class Round(kpg.Operator):
    """In a loop: passes rows below five on, one larger, and notes the times."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_recv(self, batch: kpg.Batch, time: tuple[int, int]) -> None:
        self.calls.append(("recv", time, sorted(batch)))
        self.send([((x + 1,), diff) for (x,), diff in batch if x < 5], time)
        self.notify_at((time[0], time[1] + 2))

    def on_notify(self, time: tuple[int, int]) -> None:
        self.calls.append(("notify", time))


def test_t54_times_in_loops(flow: kpg.Dataflow) -> None:
    """Entering adds a round, the feedback adds one to it, leaving drops it; notifications follow."""
    a = flow.input("a", x=int)
    operator = Round()
    with flow.scope() as loop:
        variable = loop.variable(x=int)
        variable.set(a.concat(variable).apply(operator, x=int))
        end = loop.leave(variable.result)
    seen = watch(end)
    a.insert(3)
    a.advance_to(2)
    a.insert(4)
    a.advance_to(3)
    flow.step()
    assert operator.calls == [
        ("recv", (1, 0), [((3,), 1)]),
        ("recv", (2, 0), [((4,), 1)]),
        ("recv", (1, 1), [((4,), 1)]),
        ("recv", (2, 1), [((5,), 1)]),
        ("recv", (1, 2), [((5,), 1)]),
        ("notify", (1, 2)),
        ("notify", (2, 2)),
        ("notify", (1, 3)),
        ("notify", (2, 3)),
        ("notify", (1, 4)),
    ]
    assert seen.at() == {(4,): 1, (5,): 2}


class Later(kpg.Operator):
    """In a loop: asks to be notified five epochs later, in round 1."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_recv(self, batch: kpg.Batch, time: tuple[int, int]) -> None:
        self.notify_at((time[0] + 5, 1))

    def on_notify(self, time: tuple[int, int]) -> None:
        self.calls.append(time)
        self.send([((time[0],), 1)], (time[0], 3))


def test_t54_later_epochs_in_loops(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    later = Later()
    with flow.scope() as loop:
        variable = loop.variable(x=int)
        variable.set(a.enter(loop).apply(later, x=int).concat(variable).distinct())
        end = loop.leave(variable.result)
    seen = watch(end)
    a.insert(1)
    a.advance_to(4)
    flow.step()
    assert later.calls == []
    a.advance_to(7)
    flow.step()
    assert (later.calls, seen.new()) == ([(6, 1)], [((6,), 6, 1)])


def test_it_gives_a_stream(db: kpg.Database, flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    sent = a.apply(Log(), x=int)
    kept = sent.arrange_by_key()
    a.insert(1)
    step(flow, a)
    with pytest.raises(kpg.InterfaceError, match="operator Log gives a stream"):
        watch(sent.count())
    assert watch(kept.count()).at() == {(1, 1): 1}


def test_it_sees_what_a_table_holds(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1), (2)")
    log = Log()
    seen = watch(flow.import_("t").apply(log, x=int))
    db.sql("INSERT INTO t VALUES (3)")
    assert log.calls == [
        ("recv", 1, 0, [((1,), 1), ((2,), 1)]),
        ("notify", 1),
        ("recv", 2, 0, [((3,), 1)]),
        ("notify", 2),
    ]
    assert seen.at() == {(1,): 1, (2,): 1, (3,): 1}


def test_mistakes(flow: kpg.Dataflow) -> None:
    a = flow.input("a", x=int)
    log = Log()
    with pytest.raises(kpg.InterfaceError, match="no place in a dataflow yet"):
        log.notify_at(3)
    watch(a.apply(log, x=int))
    with pytest.raises(kpg.InterfaceError, match="operator Log has a place in a dataflow already"):
        watch(a.distinct().apply(log, x=int))
    with pytest.raises(kpg.InterfaceError, match="use it only when called"):
        log.send([], 1)
    with pytest.raises(kpg.InterfaceError, match="an instance of a subclass of kpg"):
        a.apply(print, x=int)  # type: ignore[arg-type]

    class Wrong(kpg.Operator):
        def __init__(self, sent: Any) -> None:
            self.sent = sent

        def on_recv(self, batch: kpg.Batch, time: Any) -> None:
            self.send(self.sent, time)

    for wrong, message in (
        ([1], r"must send \(row, multiplicity\) pairs"),
        ([((1, 2), 1)], "sent a wrong row"),
    ):
        seen = watch(a.apply(Wrong(wrong), x=int))
        a.insert(1)
        a.advance_to(a.time + 1)
        with pytest.raises(kpg.DataError, match=message):
            flow.step()
        a.discard()
        seen.inspection.close()
