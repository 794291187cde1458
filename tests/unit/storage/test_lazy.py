"""What is done a while after it was wanted is done once, and not after the end."""

import threading

import pytest

from kpg.runtime.storage.background_work import DebouncedWork
from tests.waiting import PATIENCE


def test_it_is_done_once_however_often_it_was_wanted() -> None:
    done = threading.Event()
    count: list[int] = []

    def work() -> None:
        count.append(1)
        done.set()

    lazy = DebouncedWork(work, 0.01)
    with lazy.lock:
        for _ in range(3):
            lazy.request()
    assert done.wait(PATIENCE)
    with lazy.lock:
        assert count == [1]
    done.clear()
    lazy.request()
    assert done.wait(PATIENCE)
    lazy.stop()
    assert count == [1, 1]


def test_nothing_is_done_after_the_end() -> None:
    count: list[int] = []
    lazy = DebouncedWork(lambda: count.append(1), 3600)
    lazy.request()
    timer = lazy._timer
    assert timer is not None
    lazy.stop()
    lazy.request()
    assert lazy._timer is None
    timer.join()  # given up, an hour early
    timer.function()  # and had it gone off right before the end, it would find that it is over
    assert count == []


def test_it_is_done_though_once_there_was_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    lazy = DebouncedWork(done.set, 0.001)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no thread"):
        patch.setattr(threading.Timer, "start", no_thread)
        lazy.request()
    lazy.request()
    assert done.wait(PATIENCE)
    lazy.stop()


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("no thread")
