"""Distribution over workers: the partitioning of tables, and the placement of plans."""

import time
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.physical.placement_rules import place
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.executor_factory import distributed_executor
from kpg.runtime.handles import WorkerStatistics
from kpg.runtime.plan import Plan, Source
from kpg.runtime.records import dataclass
from kpg.session.memory_limit import used_bytes
from kpg.session.undo import Journal

if TYPE_CHECKING:
    from kpg.compiler.physical.placement import Placement
    from kpg.runtime.executor import DistributedExecutor
    from kpg.runtime.interrupts import DeferredInterrupt

DISTRIBUTION: Final = "distribution"
"""Key in the engine's extras: the clauses DISTRIBUTED BY and REPLICATED, by table number."""
REPLICATED: Final = "*"
SMALL_TABLE_ROWS: Final = 1000
"""A table of at most this many rows at installation is replicated to all workers."""
REPLICATION_RATIO: Final = 64
"""So is a table that is this many times smaller than the largest one of the plan. Replicating it costs
each worker less than exchanging rows of the large table.
"""
GROWTH_FACTOR: Final = 4
"""A replicated table is partitioned once it exceeds its limit by this factor."""
PLACEMENT_STEPS: Final = 8
"""A plan over an empty table is placed again while its tables have at most this many times the rows of
the step: placing it costs about as much as that many steps.
"""


class DistributionHost(Protocol):
    """The members of the engine that the distribution of tables uses."""

    @property
    def executor(self) -> Executor:
        """Runs the plans of this process."""

    @property
    def catalog(self) -> Catalog:
        """Names the tables."""

    @property
    def journal(self) -> Journal:
        """Undo entries of definitions."""

    @property
    def workers(self) -> "Workers | None":
        """The worker processes, if there are any."""

    @property
    def extras(self) -> dict[str, object]:
        """Other values that the log records, by name."""


def measure_workers(engine: DistributionHost) -> list[WorkerStatistics]:
    """Return the state size and the CPU time of each worker of an engine."""
    executor = engine.executor
    if engine.workers is not None:
        return engine.workers.measure()
    operators = executor.operators()
    rows, size = sum(operator.rows for operator in operators), sum(operator.bytes for operator in operators)
    size += sum(
        executor.tables.table_bytes(entry.name) for entry in engine.catalog if isinstance(entry, TableEntry)
    )
    return [WorkerStatistics(rows, size, time.process_time())]


def declare_distribution(engine: DistributionHost, table: str, distribution: str) -> None:
    """Distribute a table by a column, or replicate it (``*``), in plans from now on."""
    number = engine.executor.tables.table_number(table)
    _set_declaration(engine.extras, number, distribution)
    engine.journal.add(undo=partial(_set_declaration, engine.extras, number, None))


def declared_distribution(extras: Mapping[str, object], number: int) -> str | None:
    """Return the clause of the table with this number; None without one."""
    declared: tuple[tuple[int, str], ...] = extras.get(DISTRIBUTION, ())  # type: ignore[assignment]
    return dict(declared).get(number)


def withdraw_distribution(extras: dict[str, object], journal: Journal, number: int) -> None:
    """Forget the clause of a table that is dropped."""
    distribution = declared_distribution(extras, number)
    if distribution is not None:
        _set_declaration(extras, number, None)
        journal.add(undo=partial(_set_declaration, extras, number, distribution))


def _set_declaration(extras: dict[str, object], number: int, distribution: str | None) -> None:
    declared: tuple[tuple[int, str], ...] = extras.pop(DISTRIBUTION, ())  # type: ignore[assignment]
    changed = tuple(declaration for declaration in declared if declaration[0] != number)
    changed += ((number, distribution),) if distribution is not None else ()
    if changed:
        extras[DISTRIBUTION] = changed


@dataclass(frozen=True, slots=True)
class TableSizes:
    """Sizes and distribution of the tables that a plan reads; implements ``placement.Tables``."""

    workers: "Workers"
    counts: Mapping[str, int]

    def partition_column(self, table: str) -> int | None:
        """Return the column by which a table is distributed; None if it is replicated."""
        found = self.workers.declared_column(table)
        if found is not None:
            return None if found < 0 else found
        if 0 < self.counts.get(table, 0) <= self.max_replicated_rows:
            return None
        return self.workers.leading_key(table)

    def owner_column(self, table: str) -> int | None:
        """Return the column whose words determine the owner of a row; None if all workers have all rows."""
        return self.workers.owner(table)

    def view_placement(self, name: str) -> "Placement":
        """Return the placement of a view's rows."""
        return self.workers.views[name].output

    @property
    def max_replicated_rows(self) -> int:
        """Largest size of a table that is replicated."""
        small = self.workers.small
        return max(small, max(self.counts.values(), default=0) // REPLICATION_RATIO) if small else 0


class PlacedPlan(NamedTuple):
    """A placed plan: the plan, the sizes of its tables at that time, and the placement of its output."""

    plan: Plan
    sizes: TableSizes
    output: "Placement"

    def needs_new_placement(self, now: TableSizes, rows: int) -> bool:
        """Whether to place the plan again before a step of ``rows`` rows."""
        soon = sum(now.counts.values()) <= PLACEMENT_STEPS * rows
        return any(self._has_outgrown(table, now, soon=soon) for table in now.counts)

    def _has_outgrown(self, table: str, now: TableSizes, *, soon: bool) -> bool:
        then, count = self.sizes.counts[table], now.counts[table]
        if now.workers.declared_column(table) is not None:
            return False
        if 0 < then <= self.sizes.max_replicated_rows:
            return count > GROWTH_FACTOR * now.max_replicated_rows
        return (
            soon
            and not then
            and 0 < count * REPLICATION_RATIO <= max(now.counts.values())
            and count <= now.max_replicated_rows
        )


class Workers:
    """The worker processes, and the placement of each view's rows."""

    def __init__(self, crew: Any, small: int = SMALL_TABLE_ROWS) -> None:
        """Wrap the processes that ``executor_factory.processes`` returns.

        Tables of at most ``small`` rows are replicated to all members; 0 disables replication.
        """
        self.crew = crew
        self.small = small
        self.views: dict[str, PlacedPlan] = {}
        self.extras: dict[str, Any] = {}
        """The engine's extras."""
        self._executor: DistributedExecutor | None = None

    def executor(self, merge_effort: str, interrupt: "DeferredInterrupt") -> "DistributedExecutor":
        """Create the executor that runs plans on all workers."""
        self._executor = distributed_executor(self.crew, self, merge_effort, interrupt)
        return self._executor

    def measure(self) -> list[WorkerStatistics]:
        """Return the state size and the CPU time of each member."""
        return self._started_executor.worker_statistics()

    def used_bytes(self) -> int:
        """Return the bytes used by this process, the members on this machine, and their shared memory."""
        members = sum(used_bytes(process) for process in self.crew.processes)
        return used_bytes() + members + self.crew.memory.allocated_bytes

    @property
    def _started_executor(self) -> "DistributedExecutor":
        assert self._executor is not None
        return self._executor

    def place(self, name: str, plan: Plan) -> tuple[Plan, bool]:
        """Return the plan for many workers, and whether every worker has all rows of its output."""
        sizes = self.tables_of(plan)
        placed = place(plan, sizes)
        self.views[name] = PlacedPlan(plan, sizes, placed.output)
        return placed.plan, placed.output.replicated

    def plans_to_replace(self, rows: int, tables: Set[str]) -> set[str]:
        """Return the plans over ``tables`` only that a step of ``rows`` rows should place again."""
        return {
            name
            for name, standing in self.views.items()
            if standing.sizes.counts.keys() <= tables
            and standing.needs_new_placement(self.tables_of(standing.plan), rows)
        }

    def remove(self, name: str) -> None:
        """Forget the plan of an uninstalled view."""
        self.views.pop(name, None)

    def tables_of(self, query: Plan) -> TableSizes:
        """Return the present sizes of the tables of a plan."""
        count = self._started_executor.tables.count
        tables = (node.table for node in query.nodes if isinstance(node, Source))
        return TableSizes(self, {table: count(table) for table in tables})

    def declared_column(self, table: str) -> int | None:
        """Return the column of a table's DISTRIBUTED BY clause, -1 for REPLICATED, None without a clause."""
        executor = self._started_executor
        clause = declared_distribution(self.extras, executor.tables.table_number(table))
        if clause == REPLICATED:
            return -1
        if clause is not None:
            with suppress(ProgrammingError):  # the column was dropped or renamed
                return executor.column_position(table, clause)
        return None

    @property
    def is_sharded(self) -> bool:
        """Whether the workers have no shared memory, so that only the owner has a row."""
        return self.crew.memory is None

    def owner(self, table: str) -> int | None:
        """Return the column whose words determine the owner of a row; None if all workers have all rows."""
        return self._started_executor.home_column(table) if self.is_sharded else None

    def home_column(self, table: str) -> int:
        """Return the column by which a table is distributed, whatever its size."""
        declared = self.declared_column(table)
        return self.leading_key(table) if declared is None or declared < 0 else declared

    def leading_key(self, table: str) -> int:
        """Return the column by which a table without a clause is distributed."""
        return self._started_executor.leading_key_column(table)
