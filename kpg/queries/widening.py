"""Statements that are planned again with NUMERICs, where DECIMALs of 18 digits turn out to be too narrow."""

from collections.abc import Callable
from typing import TypeVar

from kpg.compiler.sql.bind.scope import WIDE

T = TypeVar("T")


def as_wide(compute: Callable[[], T]) -> T:
    """What is computed with NUMERICs, which are slower, in the place of columns of DECIMAL."""
    before = WIDE.set(True)
    try:
        return compute()
    finally:
        WIDE.reset(before)
