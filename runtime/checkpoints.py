"""Cancellation points of parsing, binding and planning, which take long for long texts and change nothing.

The compiler calls :func:`checkpoint` wherever it goes on to another part of a text or of a plan. Whoever
runs a statement says by :func:`checked` what is asked there. Steps of the dataflow have safe points of their
own, at which changes can be undone: :class:`kpg.runtime.interrupts.DeferredInterrupt`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

EVERY: Final = 64
"""Calls of which one asks: each of the others costs 50 ns."""
_left: Final = [EVERY]
_checks: Final = dict[int, Callable[[], object]]()
"""By thread: what is asked at these."""


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
