"""Statements that are planned again with NUMERICs, where DECIMALs of 18 digits turn out to be too narrow."""

from collections.abc import Callable
from typing import TypeVar

from kpg.runtime.errors import DataError

T = TypeVar("T")


def as_wide(compute: Callable[[], T]) -> T:
    """What is computed; anew with NUMERICs, which are slower, if a DECIMAL could not hold a result."""
    try:
        return compute()
    except DataError as error:
        if not error.narrow:
            raise
    from kpg.compiler.sql.bind.wide import wide

    with wide():
        return compute()
