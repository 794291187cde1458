"""What is done a while after it was wanted is done once, and not after the end."""

import threading

import pytest

from kpg.runtime.storage.background_work import Lazy
from tests.waiting import PATIENCE


def test_it_is_done_once_however_often_it_was_wanted() -> None:
    done = threading.Event()
    count: list[int] = []

    def work() -> None:
        count.append(1)
        done.set()

    lazy = Lazy(work, 0.01)
    with lazy.apart:
        for _ in range(3):
            lazy.wanted()
    assert done.wait(PATIENCE)
    with lazy.apart:
        assert count == [1]
    done.clear()
    lazy.wanted()
    assert done.wait(PATIENCE)
    lazy.end()
    assert count == [1, 1]


def test_nothing_is_done_after_the_end() -> None:
    count: list[int] = []
    lazy = Lazy(lambda: count.append(1), 3600)
    lazy.wanted()
    timer = lazy._timer
    assert timer is not None
    lazy.end()
    lazy.wanted()
    assert lazy._timer is None
    timer.join()  # given up, an hour early
    timer.function()  # and had it gone off right before the end, it would find that it is over
    assert count == []


def test_it_is_done_though_once_there_was_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    lazy = Lazy(done.set, 0.001)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no thread"):
        patch.setattr(threading.Timer, "start", no_thread)
        lazy.wanted()
    lazy.wanted()
    assert done.wait(PATIENCE)
    lazy.end()


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("no thread")
