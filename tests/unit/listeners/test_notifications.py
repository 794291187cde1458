"""Calls in order, all of them made whatever one of them raises."""

import threading

import pytest

from kpg.session.notification_queue import GuardedCallback, Notifications


def test_in_order_and_once() -> None:
    told: list[str] = []
    queue = Notifications()
    queue.add([("a", lambda: told.append("first")), ("b", lambda: told.append("second"))])
    queue.add([("c", lambda: told.append("third"))])
    queue.deliver()
    queue.deliver()
    assert told == ["first", "second", "third"]


def test_the_others_are_told_of_what_one_fails_to_hear(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    queue = Notifications()
    queue.add([("a", lambda: 1 // 0), ("b", lambda: told.append("b")), ("c", lambda: [][0])])
    queue.deliver()
    assert told == ["b"]
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "a raised ZeroDivisionError: integer division or modulo by zero"
    assert messages[1] == "c raised IndexError: list index out of range"


def test_ctrl_c_is_raised_as_it_is() -> None:
    def press() -> None:
        raise KeyboardInterrupt

    told: list[str] = []
    queue = Notifications()
    queue.add([("a", press), ("b", lambda: told.append("b"))])
    with pytest.raises(KeyboardInterrupt):
        queue.deliver()
    assert told == ["b"]


def test_what_a_call_brings_about_comes_after_all_others() -> None:
    told: list[str] = []
    queue = Notifications()

    def first() -> None:
        queue.add([("c", lambda: told.append("later"))])
        queue.deliver()
        told.append("first")

    queue.add([("a", first), ("b", lambda: told.append("second"))])
    queue.deliver()
    assert told == ["first", "second", "later"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_goes_on_in_the_main_thread_only(kind: type[BaseException]) -> None:
    def stop(*_: object) -> None:
        raise kind

    closed: list[bool] = []
    guarded = GuardedCallback("it", stop, lambda: closed.append(True))
    for _ in range(20):
        with pytest.raises(kind):
            guarded([])
    assert (guarded.failures, closed) == (0, [])  # whoever presses Ctrl-C keeps the subscriber

    def elsewhere() -> None:
        for _ in range(10):
            guarded([])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert (guarded.failures, closed) == (10, [True])


def test_an_interrupt_between_a_commit_and_its_calls_comes_last() -> None:
    told: list[str] = []
    queue = Notifications()
    queue.interrupt(KeyboardInterrupt("pressed"))
    queue.add([("a", lambda: told.append("a"))])
    with pytest.raises(KeyboardInterrupt, match="pressed"):
        queue.deliver()
    queue.deliver()
    assert told == ["a"]
