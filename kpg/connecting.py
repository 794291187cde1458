"""``kpg.connect(workers=n)``."""

from collections.abc import Mapping

from kpg.database import Database
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.local import processes
from kpg.working import Workers


def connected(count: int, merge_effort: str, options: Mapping[str, object]) -> Database:
    """A database with so many workers; of the other options none may be given yet."""
    named = {"folder": "a durable folder", "memory_limit": "a memory limit", "history": "a history"}
    for option, what in named.items():
        if options[option] is not None:
            raise NotSupportedError(
                f"{what} together with workers={count} is not supported",
                hint="leave one of them out: several workers keep a database in memory, as it is now",
            )
    return Database(merge_effort, workers=Workers(processes(count, merge_effort)))
