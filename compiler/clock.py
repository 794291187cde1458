"""The clock of views: a relation of one row, the time that views take for now.

A comparison with ``now()`` in a view is one with that row, so that rows come and go when it changes.
"""

from typing import Final

from kpg.compiler.algebra.rel import Get
from kpg.runtime.types import ROWID, TIMESTAMPTZ, ColumnDef, Schema

CLOCK: Final = "$clock"
"""The table's name, which no text can say."""
CLOCK_SCHEMA: Final = Schema((ColumnDef("now", TIMESTAMPTZ, nullable=False),))
CLOCK_ROW: Final = Get(CLOCK, (TIMESTAMPTZ, ROWID), (False, False), ((), (1,)))
