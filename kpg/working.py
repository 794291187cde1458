"""Many workers, as the database has them: how tables are distributed, and plans placed."""

from typing import TYPE_CHECKING, Final

from kpg.runtime.local import shared_executor
from kpg.runtime.plan import Plan

if TYPE_CHECKING:
    from kpg.compiler.physical.placement import Placement
    from kpg.engine import Engine
    from kpg.runtime.executor import Executor
    from kpg.runtime.workers.messages import Crew

SMALL: Final = 1000
"""A table of so few rows, when something is installed over it, is kept by all workers alike."""


class Workers:
    """A crew, and where the rows of each view are among its members."""

    def __init__(self, crew: "Crew", small: int = SMALL) -> None:
        """Tables of at most ``small`` rows are kept by all members, if they have any."""
        self.crew = crew
        self.small = small
        self._views: dict[str, Placement] = {}
        self._engine: Engine | None = None

    def executor(self, engine: "Engine", merge_effort: str) -> "Executor":
        """What runs the engine's plans."""
        self._engine = engine
        return shared_executor(self.crew, self._place, merge_effort, engine.interrupt)

    def _place(self, name: str, plan: Plan) -> tuple[Plan, bool]:
        """The plan for many workers, and whether all of them have all rows of its output."""
        from kpg.compiler.physical.placement import place

        made = place(plan, self)
        self._views[name] = made.output
        return made.plan, made.output.held

    def home(self, table: str) -> int | None:
        """The column by which a table is distributed; None if all workers keep all of it."""
        engine = self._engine
        assert engine is not None
        if 0 < engine.executor.count(table) <= self.small:
            return None
        entry = engine.catalog.find(table)
        key = () if entry is None else entry.schema.primary_key
        return key[0] if key else 0

    def view(self, name: str) -> "Placement":
        """Where the rows of a view are."""
        return self._views[name]
