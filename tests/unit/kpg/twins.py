"""Two databases that are told the same: one remembers plans, the other makes each statement's anew."""

from typing import Any

import kpg
from kpg.api.database import Database
from kpg.api.result import Result
from kpg.runtime.errors import Error

Told = list[tuple[Any, ...]] | tuple[str, str, int | None, int | None, str | None] | int | None


class Twins:
    """What both say is compared, statement by statement: rows, or the error and its place."""

    def __init__(self, *setup: str) -> None:
        self.remembering, self.other = kpg.connect(), kpg.connect()
        self.other.sql("set plan_cache_mode = force_custom_plan")
        for statement in setup:
            self.tell(statement)

    def tell(self, text: str, parameters: Any = None) -> Told:
        """Tell both; what they said."""
        said = told(self.remembering, text, parameters)
        other = told(self.other, text, parameters)
        assert repr(said) == repr(other), text  # a NaN is not equal to itself
        return said

    def close(self) -> None:
        """Close both."""
        self.remembering.close()
        self.other.close()


def told(db: Database, text: str, parameters: Any = None) -> Told:
    """What a database says to a text."""
    try:
        outcome = db.sql(text, parameters)
    except Error as error:
        span = error.span
        start, end = (None, None) if span is None else (span.start, span.end)
        return type(error).__name__, str(error), start, end, error.hint
    except Exception as error:  # ours: not the subject here, as long as both make it
        return type(error).__name__, str(error), None, None, None
    if not isinstance(outcome, Result):
        return None
    rows = outcome.fetchall()
    return outcome.affected if outcome.affected is not None and not rows else rows
