"""Calls in order, all of them made whatever one of them raises."""

import pytest

from kpg.listeners.notifications import Notifications
from kpg.runtime.errors import OperationalError


def test_in_order_and_once() -> None:
    told: list[str] = []
    queue = Notifications()
    queue.add([("a", lambda: told.append("first")), ("b", lambda: told.append("second"))])
    queue.add([("c", lambda: told.append("third"))])
    queue.deliver()
    queue.deliver()
    assert told == ["first", "second", "third"]


def test_the_others_are_told_of_what_one_fails_to_hear() -> None:
    told: list[str] = []
    queue = Notifications()
    queue.add([("a", lambda: 1 // 0), ("b", lambda: told.append("b")), ("c", lambda: [][0])])
    with pytest.raises(
        OperationalError, match=r"^a raised ZeroDivisionError: integer division or modulo by zero"
    ):
        queue.deliver()
    assert told == ["b"]
    queue.deliver()


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
