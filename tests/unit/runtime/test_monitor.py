"""Monitors: one thread at a time, in order; deadlocks are errors, and interrupts leave nothing locked."""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import kpg
from kpg.runtime import monitor
from kpg.runtime.monitor import Monitor, synchronized
from tests.waiting import PATIENCE, until


@synchronized("free")
class Counter:
    """Counts in two steps, between which another thread may come."""

    def __init__(self, shared: Monitor | None = None) -> None:
        self._monitor = shared or Monitor()
        self.count = 0

    def add(self) -> int:
        """One more."""
        before = self.count
        time.sleep(0)
        self.count = before + 1
        return self.count

    @property
    def twice(self) -> int:
        """Re-enters."""
        self.add()
        return self.add()

    def free(self) -> bool:
        """Outside of the monitor."""
        return self._monitor.owner == 0

    def inside(self) -> bool:
        """Inside of it."""
        return self._monitor.owner == threading.get_ident()

    def __len__(self) -> int:
        return self._monitor.owner


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads change at any instant."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


def test_calls_come_one_after_another() -> None:
    one = Counter()
    together(*[lambda: [(one.add(), one.twice) for _ in range(300)]] * 4)
    assert one.count == 4 * 300 * 3


def test_what_is_inside_and_what_is_not() -> None:
    one = Counter()
    assert one.inside() and len(one) == threading.get_ident()
    assert one.free()
    assert one.add.__name__ == "add" and one.add.__doc__ == "One more."
    assert Counter.twice.__doc__ == "Re-enters."


def test_an_error_leaves_the_monitor() -> None:
    one = Monitor()
    with pytest.raises(ZeroDivisionError):
        one.run(lambda: 1 // 0)
    assert one.owner == 0 and not one.entry.locked()


def test_a_block_keeps_others_out_until_its_end() -> None:
    one, seen = Counter(), []
    assert one._monitor.enter()
    other = threading.Thread(target=lambda: seen.append(one.add()))
    other.start()
    assert one._monitor.enter() is False
    assert one.twice == 2
    assert one._monitor.try_run(lambda: 7, 0) == 7
    together(lambda: seen.append(one._monitor.try_run(one.add, -1)))
    assert seen == [-1]
    one._monitor.leave()
    other.join(PATIENCE)
    assert seen == [-1, 3]
    assert one._monitor.try_run(one.add, -1) == 4


def test_threads_enter_in_the_order_in_which_they_came() -> None:
    one, order = Monitor(), list[int]()
    one.enter()
    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=partial(one.run, order.append, number)))
        threads[-1].start()
        until(lambda number=number: len(one.queue) > number)
    one.leave()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == [0, 1, 2, 3, 4]


def test_an_iterator_is_used_by_many() -> None:
    one, found = Monitor(), list[int]()

    def numbers() -> Iterator[int]:
        for number in range(2000):
            time.sleep(0)
            yield number

    shared = one.iterate(numbers())
    together(*[lambda: found.extend(shared)] * 4)
    assert sorted(found) == list(range(2000))


def test_threads_that_wait_for_each_other_get_an_error() -> None:
    one, two = Monitor(), Monitor()
    meet, failed = threading.Barrier(2), list[str | None]()

    def cross(first: Monitor, second: Monitor) -> None:
        def inside() -> None:
            meet.wait(PATIENCE)
            try:
                second.run(int)
            except kpg.OperationalError as error:
                failed.append(error.sqlstate)

        first.run(inside)

    together(partial(cross, one, two), partial(cross, two, one))
    assert set(failed) == {"40P01"}
    assert one.owner == two.owner == 0


def test_a_thread_that_ended_inside_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "POLL", 0.01)
    one = Monitor()
    ended = threading.Thread(target=one.enter)
    ended.start()
    ended.join()
    with pytest.raises(kpg.InterfaceError, match="has ended in the middle"):
        one.run(int)


def test_threads_that_wait_do_not_look_at_the_frames_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython can hang there if a garbage collection comes in between, and waiting is no rare thing."""
    monkeypatch.setattr(monitor, "POLL", 0.0001)
    monkeypatch.setattr(monitor.sys, "_current_frames", lambda: pytest.fail("frames were looked at"))
    one = Counter()
    together(*[lambda: [one.add() for _ in range(50)]] * 4)
    assert one.count == 200


def test_frames_are_looked_at_without_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[bool]()
    monkeypatch.setattr(monitor.sys, "_current_frames", lambda: seen.append(gc.isenabled()) or {})
    assert monitor._frame_of(1) is None
    assert (seen, gc.isenabled()) == ([False], True)


def test_a_child_process_knows_that_the_thread_inside_is_its_parents() -> None:
    one, entered, leave = Monitor(), threading.Event(), threading.Event()
    other = threading.Thread(target=one.run, args=(lambda: (entered.set(), leave.wait(PATIENCE)),))
    other.start()
    entered.wait(PATIENCE)
    child = os.fork()
    if not child:
        try:
            one.run(int)
        except kpg.InterfaceError as error:
            os._exit(7 if "has ended in the middle" in str(error) else 1)
        os._exit(2)
    leave.set()
    other.join(PATIENCE)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert one.run(lambda: 5) == 5


def test_who_waits_for_a_block_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback that waits for a thread that calls the database would wait for ever, and say nothing."""
    monkeypatch.setattr(monitor, "POLL", 0.01)
    monkeypatch.setattr(monitor, "PATIENCE", 0.01)
    one, told = Monitor(), list[str]()
    monkeypatch.setattr("kpg.runtime.monitor.warnings.warn", lambda text, *_, **__: told.append(text))
    one.enter()
    other = threading.Thread(target=one.run, args=(int,))
    other.start()
    until(lambda: told)
    one.leave()
    other.join(PATIENCE)
    assert "has waited 0 seconds for thread MainThread, which is in a callback or a block" in told[0]


def test_ctrl_c_while_waiting_leaves_the_queue() -> None:
    one, entered, leave = Monitor(), threading.Event(), threading.Event()

    def keep() -> None:
        entered.set()
        leave.wait(PATIENCE)

    other = threading.Thread(target=one.run, args=(keep,))
    other.start()
    entered.wait(PATIENCE)
    pressing = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        one.run(int)
    assert not one.queue
    leave.set()
    other.join(PATIENCE)
    assert one.run(lambda: 5) == 5


def test_stepping_aside_lets_others_in_and_comes_back() -> None:
    one, order = Monitor(), list[str]()
    other = threading.Thread(target=one.run, args=(order.append, "other"))

    def meanwhile() -> None:
        assert one.owner == 0
        other.start()
        until(lambda: order)

    def work() -> None:
        one.step_aside(meanwhile)
        order.append("back")
        assert one.owner == threading.get_ident()

    one.run(work)
    assert order == ["other", "back"] and one.owner == 0 and not one.entry.locked()


def test_ctrl_c_while_aside_comes_when_the_thread_is_back() -> None:
    one, entered, pressed, seen = Monitor(), threading.Event(), threading.Event(), list[int]()

    def keep() -> None:
        entered.set()
        pressed.wait(PATIENCE)
        time.sleep(0.05)

    def press() -> None:
        until(lambda: len(one.queue) > 0)
        os.kill(os.getpid(), signal.SIGINT)
        pressed.set()

    def meanwhile() -> None:
        threading.Thread(target=one.run, args=(keep,)).start()
        entered.wait(PATIENCE)
        threading.Thread(target=press).start()

    def work() -> None:
        try:
            one.step_aside(meanwhile)
        finally:
            seen.append(one.owner)

    with pytest.raises(KeyboardInterrupt):
        one.run(work)
    assert seen == [threading.get_ident()]
    assert one.owner == 0 and not one.queue and not one.entry.locked()


def test_a_child_process_forgets_who_waited_in_its_parent() -> None:
    one = Monitor()
    one.enter()
    waiting = threading.Thread(target=one.run, args=(int,))
    waiting.start()
    until(lambda: one.queue)
    child = os.fork()
    if not child:
        one.leave()
        os._exit(one.run(lambda: 42))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    one.leave()
    waiting.join(PATIENCE)
