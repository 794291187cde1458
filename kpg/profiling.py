"""The part of a database that tells what it keeps and what its work was."""

from typing import TYPE_CHECKING

from kpg.engine.engine import Engine
from kpg.result import Result, listing
from kpg.runtime.monitor import synchronized
from kpg.runtime.types import BIGINT, TEXT

if TYPE_CHECKING:
    from kpg.drawing.drawing import Drawing


@synchronized()
class Profiling:
    """See the module."""

    @property
    def _engine(self) -> Engine:
        raise NotImplementedError

    def arrangements(self) -> Result:
        """The indexes there are: of what, their rows, bytes and batches, and the views that share them."""
        found = self._engine.executor.arrangements()
        return listing(
            {
                "arrangement": (TEXT, [one.description for one in found]),
                "rows": (BIGINT, [one.rows for one in found]),
                "bytes": (BIGINT, [one.bytes for one in found]),
                "batches": (BIGINT, [one.batches for one in found]),
                "views": (TEXT, [", ".join(one.readers) for one in found]),
            }
        )

    def operators(self) -> Result:
        """A profile: every operator, its work since it was made, and the views that share it."""
        found = self._engine.executor.operators()
        return listing(
            {
                "operator": (BIGINT, [one.position for one in found]),
                "description": (TEXT, [one.description for one in found]),
                "updates_in": (BIGINT, [one.updates_in for one in found]),
                "updates_out": (BIGINT, [one.updates_out for one in found]),
                "rows": (BIGINT, [one.rows for one in found]),
                "bytes": (BIGINT, [one.bytes for one in found]),
                "microseconds": (BIGINT, [round(one.seconds * 1e6) for one in found]),
                "views": (TEXT, [", ".join(one.readers) for one in found]),
            }
        )

    def workers(self) -> Result:
        """The workers: rows and bytes that each keeps, processor time, rows to and from others, meetings.

        ``heavy`` are the keys that give one worker more rows than its share: see docs/explanation/workers.md.
        """
        from kpg.engine.working import work

        found = work(self._engine)
        return listing(
            {
                "worker": (BIGINT, list(range(len(found)))),
                "rows": (BIGINT, [one.rows for one in found]),
                "bytes": (BIGINT, [one.bytes for one in found]),
                "microseconds": (BIGINT, [round(one.seconds * 1e6) for one in found]),
                "sent": (BIGINT, [one.sent for one in found]),
                "received": (BIGINT, [one.received for one in found]),
                "meetings": (BIGINT, [one.meetings for one in found]),
                "heavy": (TEXT, ["; ".join(key.shown for key in one.heavy) for one in found]),
            }
        )

    def draw(self, what: str | None = None) -> "Drawing":
        """A picture of the dataflow, as it is now: SVG, which notebooks show and ``save(path)`` keeps.

        Tables, the indexes that several views share, and views; of a view by its name the operators, with
        what each keeps and took; of the text of a query its plan, with what a change costs each node.
        """
        from kpg.drawing.drawing import draw

        return draw(self._engine, what)
