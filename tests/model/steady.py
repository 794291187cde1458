"""What a database has from outside, made the same each time: its threads, the clock, random numbers."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from numpy.random import Generator

from tests.model.turns import Turns

START = 1_750_000_000_000_000_000
"""Nanoseconds since 1970; each look at the clock is a millisecond later."""


class Clock:
    """In place of the module ``time``."""

    def __init__(self) -> None:
        self.now = START

    def time_ns(self) -> int:
        self.now += 1_000_000
        return self.now


@contextmanager
def steady(random: Generator) -> Iterator[Turns]:
    """Databases in this block do the same again if ``random`` does; who has their threads take turns."""
    turns = Turns(random)
    with ExitStack() as stack:
        stack.enter_context(
            patch("kpg.persistence.write_ahead_log.TaskThread.submit", lambda hand, work: turns.ahead(work))
        )
        stack.enter_context(patch("kpg.runtime.checkpoint.checkpointer.BackgroundWork", turns.ahead))
        stack.enter_context(patch("kpg.session.clock.time", Clock()))
        stack.enter_context(patch.object(os, "urandom", random.bytes))
        try:
            yield turns
        finally:
            turns.kill()
