"""Columns of DECIMAL as NUMERICs, for a statement whose sums and products have more digits than a word."""

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kpg.compiler.sql.bind.calls import coerce
from kpg.runtime.scalar import Column, Scalar
from kpg.runtime.types import NUMERIC, Kind

WIDE: Final = contextvars.ContextVar("wide", default=False)
"""Whether columns that are named are taken so."""


@contextmanager
def wide() -> Iterator[None]:
    """What is bound meanwhile computes with NUMERICs."""
    before = WIDE.set(True)
    try:
        yield
    finally:
        WIDE.reset(before)


def widened(column: Column) -> Scalar:
    """The value of a column that is named."""
    return coerce(column, NUMERIC) if column.type.kind is Kind.DECIMAL and WIDE.get() else column
