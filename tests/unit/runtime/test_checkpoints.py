"""Checkpoints of parsing, binding and planning."""

import sys
import threading
from types import FrameType

import pytest

import kpg
from kpg.runtime.errors import CanceledError
from kpg.runtime.interrupts import EVERY, DeepCalls, checkpoint, install_check
from tests.waiting import PATIENCE

LONGEST = 20_000
"""Most calls of functions, of 0.5 us and more each, between two checkpoints while a statement is planned."""


def end() -> None:
    raise CanceledError("canceling statement due to user request")


def test_one_of_some_calls_asks() -> None:
    asked: list[int] = []
    with install_check(lambda: asked.append(1)):
        for _ in range(10 * (EVERY + 1)):
            checkpoint()
    assert len(asked) == 10
    for _ in range(2 * EVERY):
        checkpoint()
    assert len(asked) == 10


def test_blocks_nest_and_other_threads_are_not_asked() -> None:
    with install_check(end):
        with install_check(lambda: None):
            for _ in range(2 * EVERY):
                checkpoint()

        def beside() -> None:
            for _ in range(2 * EVERY):
                checkpoint()

        other = threading.Thread(target=beside)
        other.start()
        other.join()
        with pytest.raises(CanceledError):
            for _ in range(2 * EVERY):
                checkpoint()


@pytest.mark.parametrize(
    "text",
    [
        " UNION ALL ".join(f"SELECT a FROM t WHERE a = {i}" for i in range(50)),
        "SELECT " + "(SELECT " * 20 + "1" + ")" * 20,
        "SELECT 1 FROM t x0 " + " ".join(f"JOIN t x{i} ON x{i}.a = x{i - 1}.b" for i in range(1, 12)),
    ],
)
def test_planning_passes_checkpoints_often(text: str) -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql(text)
    longest = since = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal longest, since
        if event == "call":
            since = 0 if frame.f_code is checkpoint.__code__ else since + 1
            longest = max(longest, since)

    sys.setprofile(note)
    try:
        db.sql("EXPLAIN " + text)
    finally:
        sys.setprofile(None)
    assert longest <= LONGEST


def test_the_depth_of_calls_is_raised_while_anybody_needs_it() -> None:
    before, deep = sys.getrecursionlimit(), DeepCalls(20_000)
    entered, leave = threading.Event(), threading.Event()

    def beside() -> None:
        with deep:
            entered.set()
            leave.wait(PATIENCE)

    other = threading.Thread(target=beside)
    with DeepCalls(15_000):
        assert sys.getrecursionlimit() == 15_000
        other.start()
        entered.wait(PATIENCE)
    assert sys.getrecursionlimit() == 20_000
    leave.set()
    other.join(PATIENCE)
    assert sys.getrecursionlimit() == before
