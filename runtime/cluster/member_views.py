"""Installations at a member: their rows, changes, ranks and statistics, in words of the coordinator.

Each member has the recursion rounds of its own rows. All members run the same rounds, so ranks at several
members equal those at one worker.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.barrier_schedule import BarrierSchedule
from kpg.runtime.cluster.transfer import Export, schema_of
from kpg.runtime.convert.arrow import decode_table
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import OverlayInfo, RankLookup, Stats
from kpg.runtime.operators.worker_group import WorkerGroup
from kpg.runtime.plan import Plan
from kpg.runtime.render.fingerprint import Identities
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Type
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

Words = NDArray[np.int64]


class MemberViews:
    """Installations at a member."""

    def __init__(self, worker: Worker, group: WorkerGroup, schedule: BarrierSchedule) -> None:
        self._worker = worker
        self._group = group
        self._schedule = schedule
        self._views = worker.views
        self._text_columns: dict[str, tuple[int, ...]] = {}
        """For each installation the columns whose words differ between members."""
        self._exports: dict[str, Export] = {}

    def install(
        self, name: str, plan: Plan, position: int, row_counts: dict[str, int]
    ) -> tuple[Stats, int, int]:
        """Install a placed plan; return its cost, its output's position, and the last operator's position.

        ``row_counts`` are the rows of its tables at all workers together.
        """
        schedule = self._schedule
        schedule.last_position = max(schedule.last_position, position)
        self._group.table_rows = row_counts
        try:
            installed = self._worker.install(name, plan)
        except BaseException:
            schedule.set_last_level(self._worker.outermost_operators())
            raise
        assert installed.rendered_plan is not None
        identities = installed.rendered_plan[1]
        assert isinstance(identities, Identities)
        self._text_columns[name] = self._group.text_columns(identities.types[plan.output])
        return installed.stats, installed.operator_position, schedule.last_position

    def uninstall(self, name: str) -> int:
        """Uninstall a plan, if it exists; return the last position of an operator."""
        view = self._views.get(name)
        if view is not None:
            self._worker.uninstall(view)
            self._text_columns.pop(name, None)
            self._schedule.set_last_level(self._worker.outermost_operators())
        return self._schedule.last_position

    def rows(self, name: str) -> tuple[Words, Words]:
        """Return this worker's rows of an installation, and their multiplicities."""
        data, diffs = self._views[name].rows()
        return self._encode(name, data), diffs

    def rows_with_prefix(self, name: str, prefix: Words) -> tuple[Words, Words]:
        """Return the rows that begin with these words of the coordinator, and their multiplicities."""
        text_columns = [column for column in self._text_columns[name] if column < prefix.shape[0]]
        own = self._group.strings.decode_rows(prefix.reshape(-1, 1), text_columns)[:, 0]
        data, diffs = self._views[name].rows_with_prefix(own.tolist())
        return self._encode(name, data), diffs

    def rows_of(self, name: str, keys: Words) -> tuple[Words, Words]:
        """Return positions of the coordinator's keys of an ego view that have a row here, and the rows."""
        is_text = 0 in self._text_columns[name]
        own = self._group.strings.decode_from_coordinator(keys) if is_text else keys.copy()
        has_row, rows = self._views[name].rows_of(own)
        found_rows = np.ascontiguousarray(rows[:, has_row])
        return np.flatnonzero(has_row), self._encode(name, found_rows)

    def overlay(self, name: str) -> OverlayInfo | None:
        """Return the statistics of an ego view's overlay here."""
        return self._views[name].overlay()

    def decide_pushes(self, name: str) -> None:
        """Recompute an ego view's push decisions from the observed traffic."""
        self._views[name].decide_pushes()

    def capture_readers(self, name: str, readers: Words | None) -> None:
        """Capture only changes of these readers (coordinator's words) of an ego view; None captures all."""
        if readers is not None and 0 in self._text_columns[name]:
            readers = np.sort(self._group.strings.decode_from_coordinator(readers))
        self._views[name].capture_readers(readers)

    def export(
        self, name: str, names: tuple[str, ...], types: tuple[Type, ...], hosts: list[str], secret: bytes
    ) -> "tuple[int, pa.Schema]":
        """Let other processes fetch this worker's rows of an installation; return port and schema."""
        data, diffs = self._views[name].rows()
        words = np.repeat(data, np.broadcast_to(diffs, data.shape[1]), axis=1)
        table = decode_table(words, names, types, self._worker.dictionary)
        self.end_export(name)
        self._exports[name] = Export(table, hosts[self._group.index], secret)
        return self._exports[name].port, schema_of(table)

    def end_export(self, name: str) -> None:
        """End an export."""
        export = self._exports.pop(name, None)
        if export is not None:
            export.close()

    def set_watched(self, name: str, watched: bool) -> None:
        """Start or stop capturing changes."""
        view = self._views[name]
        if watched:
            self._worker.watch(view)
        else:
            self._worker.unwatch(view)

    def step_changes(self) -> dict[str, list[Updates]]:
        """Return the changes that the open step makes to watched installations."""
        return {name: self._changes_of(view) for name, view in self._views.items() if view.is_watched}

    def _changes_of(self, view: LocalInstallation) -> list[Updates]:
        assert view.capture is not None
        changes = view.capture.view_changes(view.capture.uncommitted_changes)
        return [self.encode_changes(view.name, one) for one in changes]

    def discard_changes(self) -> None:
        """Discard the captured changes, which the coordinator has."""
        for view in self._views.values():
            if view.is_watched:
                view.drain()

    def drain_sink(self, name: str, listener: int, text_columns: tuple[int, ...]) -> list[Updates]:
        """Return the updates of a sink since the last call."""
        strings = self._group.strings
        return [
            one.with_data(strings.encode_rows(one.data, text_columns))
            for one in self._views[name].drain_sink(listener)
        ]

    def close_sink(self, name: str, listener: int) -> None:
        """Stop a sink; its buffered updates can still be drained."""
        self._views[name].close_sink(listener)

    def statistics(self, name: str) -> tuple[Stats, int, bool]:
        """Return the cost of an installation, its number of rows, and False."""
        view = self._views[name]
        return view.stats, view.size, False

    def exclusive_state(self, name: str, prefix: str) -> tuple[int, int]:
        """Return rows and bytes as ``Installation.exclusive_state``."""
        return self._views[name].exclusive_state(prefix)

    # Ranks

    def rank_width(self, name: str) -> tuple[int, int] | None:
        """Return the width of a recursive set's rows and their number here; None for other installations."""
        lookup = self._views[name].ranks()
        return None if lookup is None else (lookup.width, len(lookup))

    def ranks_of(self, name: str, rows: Words, include_deleted: bool) -> Words:
        """Return the ranks of the coordinator's rows that are at this member, -1 for others."""
        own = self._group.strings.decode_rows(rows, self._text_columns[name])
        return self._lookup(name).ranks_of(own, include_deleted=include_deleted)

    def all_ranks(self, name: str, include_deleted: bool) -> tuple[Words, Words]:
        """Return all rows at this member, and their ranks."""
        rows, ranks = self._lookup(name).all_ranks(include_deleted=include_deleted)
        return self._encode(name, rows), ranks

    def first_rounds(self, name: str) -> tuple[Words, Words] | None:
        """Return ``Installation.first_rounds`` for the rows at this member."""
        found = self._views[name].first_rounds()
        return None if found is None else (self._encode(name, found[0]), found[1])

    def _lookup(self, name: str) -> RankLookup:
        lookup = self._views[name].ranks()
        if lookup is None:
            raise InternalError(f"{name} is no recursive set")
        return lookup

    # Words

    def _encode(self, name: str, rows: Words) -> Words:
        return self._group.strings.encode_rows(rows, self._text_columns[name])

    def encode_changes(self, name: str, changes: Updates) -> Updates:
        """Return changes of an installation in common words."""
        return changes.with_data(self._encode(name, changes.data))
