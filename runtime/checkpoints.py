"""Cancellation points of parsing, binding and planning, which take long for long texts and change nothing.

They go as deep as a text is nested (:class:`DeepCalls`).

The compiler calls :func:`checkpoint` wherever it goes on to another part of a text or of a plan. Whoever
runs a statement says by :func:`checked` what is asked there. Steps of the dataflow have safe points of their
own, at which changes can be undone: :class:`kpg.runtime.interrupts.DeferredInterrupt`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Final

EVERY: Final = 16
"""Calls of which one asks: each of the others costs 50 ns."""
_left: Final = [EVERY]
_checks: Final = dict[int, Callable[[], object]]()
"""By thread: what is asked at these."""
_lock: Final = Lock()


def checkpoint() -> None:
    """Raise the error that ends the present statement, if it is cancelled or has taken too long.

    Called often while a statement is parsed, bound and planned, which changes nothing.
    """
    _left[0] -= 1
    if _left[0] < 0:
        _left[0] = EVERY
        check = _checks.get(get_ident())
        if check is not None:
            check()


@contextmanager
def checked(check: Callable[[], object]) -> Iterator[None]:
    """Ask ``check`` at the checkpoints of this thread, within the block."""
    thread = get_ident()
    before = _checks.get(thread)
    _checks[thread] = check
    try:
        yield
    finally:
        if before is None:
            del _checks[thread]
        else:
            _checks[thread] = before


class DeepCalls:
    """A context in which calls may go as deep as ``most``.

    Python has one limit for all threads: the first context of any thread raises it, the last sets it back.
    """

    _inside = 0
    _before = 0

    def __init__(self, most: int) -> None:
        self._most = most

    def __enter__(self) -> None:
        with _lock:
            limit = sys.getrecursionlimit()
            if not DeepCalls._inside:
                DeepCalls._before = limit
            if limit < self._most:
                sys.setrecursionlimit(self._most)
            DeepCalls._inside += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with _lock:
            DeepCalls._inside -= 1
            if not DeepCalls._inside:
                sys.setrecursionlimit(DeepCalls._before)
