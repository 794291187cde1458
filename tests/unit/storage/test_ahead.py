"""Work that a thread does while others go on."""

import gc
import threading

import pytest

from kpg.runtime.storage.background_work import BackgroundWork, TaskThread


def test_work_ends_well_or_in_an_error() -> None:
    assert BackgroundWork(lambda: None).wait() is None
    error = BackgroundWork(lambda: 1 // 0).wait()
    assert isinstance(error, ZeroDivisionError)


def test_a_hand_does_one_thing_after_the_other() -> None:
    hand, done, go = TaskThread(), list[tuple[int, str]](), threading.Event()

    def work(number: int) -> None:
        assert go.wait(60)
        done.append((number, threading.current_thread().name))
        if number == 1:
            raise ValueError("no")

    tasks = [hand.submit(lambda number=number: work(number)) for number in range(3)]  # type: ignore[misc]
    assert done == []
    go.set()
    assert [str(task.wait()) for task in tasks] == ["None", "no", "None"]
    assert done == [(0, "kpg files"), (1, "kpg files"), (2, "kpg files")]
    assert str(tasks[1].wait()) == "no"


def test_its_thread_ends_with_it() -> None:
    hand, found = TaskThread(), list[threading.Thread]()
    hand.submit(lambda: found.append(threading.current_thread())).wait()
    assert found[0].is_alive()
    del hand
    gc.collect()
    found[0].join(60)
    assert not found[0].is_alive()


def test_a_hand_for_which_there_was_no_thread_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("no thread")

    hand = TaskThread()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no thread"):
        patch.setattr(threading.Thread, "start", no_thread)
        hand.submit(lambda: 1)
    assert hand.submit(lambda: 2).result() == 2
