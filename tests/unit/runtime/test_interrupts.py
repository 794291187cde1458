"""Ctrl-C is put off while something is half done, and then handled by whoever handles it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from kpg.api.database import Database
from kpg.runtime.interrupts import DeferredInterrupt
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Python's own handler before each test, whatever it leaves behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    """Press Ctrl-C: the process gets a real signal."""
    os.kill(os.getpid(), signal.SIGINT)


def counting(pressed: list[int]) -> Callable[[int, FrameType | None], None]:
    """A handler that does not raise."""
    return lambda number, frame: pressed.append(number)


def test_it_waits_for_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), DeferredInterrupt():
        press()
        done.append("all")
    assert done == ["all"]


def test_it_is_noticed_at_a_check() -> None:
    done = []
    interrupt = DeferredInterrupt()
    with pytest.raises(KeyboardInterrupt), interrupt:
        press()
        done.append("before")
        interrupt.check()
        done.append("after")
    assert done == ["before"]


def test_what_is_noticed_is_over() -> None:
    interrupt = DeferredInterrupt()
    with pytest.raises(KeyboardInterrupt), interrupt:
        press()
        interrupt.check()
    with interrupt:
        interrupt.check()


def test_only_the_outermost_ends_it() -> None:
    done = []
    interrupt = DeferredInterrupt()
    with pytest.raises(KeyboardInterrupt), interrupt:
        with interrupt:
            press()
        done.append("between")
        with interrupt:
            done.append("second")
    assert done == ["between", "second"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_two_of_them() -> None:
    """As of two databases, one used by the other's functions: each ends where it began."""
    outer, inner = DeferredInterrupt(), DeferredInterrupt()
    done = []
    with pytest.raises(KeyboardInterrupt), outer:
        with inner:
            press()
        done.append("between")
    assert done == ["between"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_does_not_swallow_it() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, DeferredInterrupt():
        press()
        raise ValueError("something else")
    assert isinstance(caught.value.__context__, ValueError)


def test_nothing_is_left_behind() -> None:
    handler = counting([])
    signal.signal(signal.SIGINT, handler)
    with DeferredInterrupt():
        assert signal.getsignal(signal.SIGINT) is not handler
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_does_not_raise() -> None:
    pressed: list[int] = []
    signal.signal(signal.SIGINT, counting(pressed))
    interrupt = DeferredInterrupt()
    with interrupt:
        press()
        assert pressed == []
        interrupt.check()
        assert pressed == [signal.SIGINT]
        press()
    assert pressed == [signal.SIGINT, signal.SIGINT]


def test_a_handler_that_is_installed_between_two_calls() -> None:
    pressed: list[int] = []
    interrupt = DeferredInterrupt()
    with interrupt:
        pass
    signal.signal(signal.SIGINT, counting(pressed))
    with interrupt:
        press()
    assert pressed == [signal.SIGINT]


def test_a_handler_that_is_installed_inside_stays() -> None:
    """As by a function of the user's that a step calls."""
    pressed: list[int] = []
    handler = counting(pressed)
    with DeferredInterrupt():
        signal.signal(signal.SIGINT, handler)
        press()
        assert pressed == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_is_put_back_too_late() -> None:
    """What somebody took for the handler, inside, must not swallow Ctrl-C when he puts it back outside."""
    interrupt = DeferredInterrupt()
    with interrupt:
        seen = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, seen)
    with pytest.raises(KeyboardInterrupt):
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, seen)
    with pytest.raises(KeyboardInterrupt), interrupt:
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_is_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt = DeferredInterrupt()
    with interrupt:
        press()
        interrupt.check()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_pressed_as_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is handled at once, nothing has begun, and the next time all is as ever."""
    interrupt = DeferredInterrupt()
    begin = DeferredInterrupt._begin

    def pressed(self: DeferredInterrupt) -> None:
        press()
        begin(self)

    monkeypatch.setattr(DeferredInterrupt, "_begin", pressed)
    with pytest.raises(KeyboardInterrupt), interrupt:
        raise AssertionError("the block was entered")
    monkeypatch.undo()
    done = []
    with pytest.raises(KeyboardInterrupt), interrupt:
        press()
        done.append("all")
    assert done == ["all"]


def test_a_thread_of_its_own() -> None:
    """Only the main thread gets signals, and what another thread is in the middle of is not its affair."""
    entered, pressed = threading.Event(), threading.Event()
    done = []

    def work() -> None:
        with DeferredInterrupt() as interrupt:
            entered.set()
            assert pressed.wait(PATIENCE)
            interrupt.check()
            done.append("all")

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(PATIENCE)
    with pytest.raises(KeyboardInterrupt):
        press()
    pressed.set()
    thread.join()
    assert done == ["all"]


def test_a_database_of_another_thread() -> None:
    counts: list[int] = []

    def work() -> None:
        with Database() as db:
            db.sql("create table t (a integer)")
            db.insert("t", [(1,), (2,)])
            counts.append(len(db.query("select * from t")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert counts == [2]


def test_a_process_that_ends_by_ctrl_c_ends_at_once() -> None:
    """With the handler of the operating system there is nothing to put off: nobody would be told."""
    code = (
        "import os, signal\n"
        "from kpg.runtime.interrupts import DeferredInterrupt\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "with DeferredInterrupt():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('still there')\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (-signal.SIGINT, "")


def test_between_a_commit_and_its_end_subscribers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    db = Database()
    db.sql("create table t (a integer); create materialized view v as select a from t")
    told: list[object] = []
    db.view("v").subscribe(told.extend)
    step = db._engine.executor.step

    def pressed() -> None:
        step()
        press()

    monkeypatch.setattr(db._engine.executor, "step", pressed)
    with pytest.raises(KeyboardInterrupt):
        db.insert("t", [(1,)])
    assert told == [((1,), 1, 1)]
    assert db.query("select * from t").fetchall() == [(1,)]
