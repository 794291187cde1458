"""The part of a database that takes rows from Python and from files, with positions of where they come from.

A position says how far a source has been read, such as the offset of a topic. It is committed with the rows
of a call or a transaction, and rolled back with them: who goes on from it after a crash reads each row once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kpg.engine.engine import Engine
from kpg.runtime.errors import InterfaceError, check_argument
from kpg.runtime.monitor import Monitor, synchronized

if TYPE_CHECKING:
    from kpg.ddl.ego_view import EgoView
    from kpg.ddl.egos import Window
    from kpg.dml.loading import Progress
    from kpg.dml.positions import Position, Positions
    from kpg.engine.table import Table
    from kpg.result import Result


def check_plain(engine: "Engine", name: str) -> None:
    """NotSupportedError for a table whose partitions rows would go past."""
    from kpg.runtime.errors import NotSupportedError

    lower = engine.catalog.get(name).name.lower()
    if ("partitioned", lower, "") in engine.catalog.others:
        raise NotSupportedError(
            f'rows of Python for table "{name}", which is partitioned, are not supported',
            hint="use INSERT or COPY",
        )


@synchronized()
class Ingesting:
    """See the module. ``position`` is ``(source, position)``, or a dict of several, kept with the rows."""

    _monitor: Monitor

    @property
    def _engine(self) -> Engine:
        raise NotImplementedError

    def create_table(self, name: str, data: Any, primary_key: Sequence[str] = ()) -> int:
        """Make a table of a file, a folder or glob of files, or data in memory, and load it; how many rows.

        Its columns are those of the data: an Arrow table or anything with an Arrow stream, a pandas or polars
        frame, a dict of columns, a list of dicts, parquet or CSV. Those of the primary key are NOT NULL.
        """
        from kpg.statements import outside

        check_argument("name", name, str, "the name of a table")
        return outside.create(self._engine, name, data, primary_key)

    def insert(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Insert rows; how many.

        ``data`` is an iterable of tuples or dicts, a dict of columns, an Arrow table or anything with an
        Arrow stream, or a pandas or polars frame. Columns with names are matched by name; those that are not
        given get their DEFAULTs, as by INSERT.
        """
        from kpg.dml.modify import insert

        return self._change(name, lambda engine, table: insert(engine, table, data), position)

    def delete(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Delete rows; how many. Data with exactly the columns of the primary key names rows by it.

        Nothing happens for a row that is not there.
        """
        from kpg.dml.modify import delete

        return self._change(name, lambda _, table: delete(table, data), position)

    def upsert(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Insert rows in place of those with the same primary key; how many were given.

        Of several rows with the same key the last counts. ``data`` is as for :meth:`insert`: a row that takes
        the place of another has DEFAULTs, too, in the columns that are not given.
        """
        from kpg.dml.modify import upsert

        return self._change(name, lambda engine, table: upsert(engine, table, data), position)

    def load(
        self,
        name: str,
        source: Any,
        mode: str | None = None,
        progress: "Progress | None" = None,
        *,
        position: "Positions | None" = None,
    ) -> int:
        """Load a file, a folder or glob of files, a Spark data frame, or data in memory; how many rows.

        All or nothing. Files go through Spark (``mode="spark"``) or pyarrow (``mode="arrow"``); without
        a mode, small local ones through pyarrow, others through Spark if it can run here. Columns that are
        not given get their DEFAULTs, but for files that go through Spark, which have all. ``progress`` is
        called with the table's name and its number of rows so far.
        """
        from kpg.dml.loading import load

        return self._change(name, lambda engine, table: load(engine, table, source, mode, progress), position)

    def load_all(
        self,
        sources: Mapping[str, Any],
        mode: str | None = None,
        progress: "Progress | None" = None,
        *,
        position: "Positions | None" = None,
    ) -> dict[str, int]:
        """As :meth:`load` for several tables at once, in one transaction and one Spark session."""
        from kpg.dml.loading import load_all

        check_argument("sources", sources, Mapping, "a mapping of what is loaded, by tables")
        for name in sources:
            check_argument("a table of sources", name, str, "the name of a table")
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if engine.catalog.others:
                for name in sources:
                    check_plain(engine, name)
            tables = [(engine.table(name), source) for name, source in sources.items()]
            loaded = load_all(engine, tables, mode, progress)
            self._keep(position)
            return loaded

    def foreach_batch(self, name: str, source: str, change: str = "insert") -> Callable[[Any, int], None]:
        """What ``writeStream.foreachBatch`` of Spark calls, so that each micro-batch is one commit.

        The number of the batch is kept with its rows as the position of ``source``. So what Spark gives again
        after a failure is not taken twice, as long as the query has the checkpoint that it began with.
        ``change`` says whether rows are to be inserted, upserted or deleted.
        """
        check_argument("name", name, str, "the name of a table")
        check_argument("source", source, str, "the name of a stream")
        if change not in ("insert", "upsert", "delete"):
            raise InterfaceError(
                f'there is no change "{change}"', hint='it is "insert", "upsert" or "delete"'
            )
        self._engine.catalog.table(name)

        def take(frame: Any, number: int) -> None:
            self._monitor.run(self._take_batch, name, source, change, frame, number)

        return take

    def _take_batch(self, name: str, source: str, change: str, frame: Any, number: int) -> None:
        before = self.positions().get(source, -1)
        if not isinstance(before, int):
            raise InterfaceError(f"the position of {source} is {before!r}, not the number of a batch")
        if number <= before:
            return
        if change == "insert":
            self.load(name, frame, position=(source, number))
        elif change == "upsert":
            self.upsert(name, frame.toArrow(), position=(source, number))
        else:
            self.delete(name, frame.toArrow(), position=(source, number))

    def set_position(self, source: str, position: "Position | None") -> None:
        """Note how far a source has been read, a number or a text; None forgets it.

        In a transaction it is a part of it.
        """
        from kpg.dml.positions import forget

        engine = self._engine
        with engine.transactions.statement(changes=True):
            if position is None:
                forget(engine, source)
            else:
                self._keep((source, position))

    def positions(self) -> "dict[str, Position]":
        """How far each source has been read: what was committed, or set in the transaction that is open."""
        from kpg.dml.positions import read

        return read(self._engine)

    def epochs(self) -> "Result":
        """The epochs that can be asked for, and their moments; InterfaceError without ``history``."""
        from kpg.engine.past import epochs

        return epochs(self._engine)

    def _change(
        self, name: str, change: "Callable[[Engine, Table], int]", position: "Positions | None"
    ) -> int:
        check_argument("name", name, str, "the name of a table")
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if engine.catalog.others:
                check_plain(engine, name)
            changed = change(engine, engine.table(name))
            if position is not None:
                self._keep(position)
            return changed

    def _keep(self, position: "Positions | None") -> None:
        if position is not None:
            from kpg.dml.positions import keep

            keep(self._engine, position)

    def ego(
        self,
        name: str,
        *,
        edges: str,
        writes: str,
        aggregate: Any = "sum",
        window: "Window" = None,
        neighbourhood: str = "out",
        where: str | None = None,
        readers: "str | Iterable[Any] | None" = None,
        mode: str = "auto",
        continuous: "str | Iterable[Any] | None" = None,
        overlay: str = "vnm_a",
        returns: Any = None,
    ) -> "EgoView":
        """Keep, for each node of a graph, an aggregate over what its neighbours wrote lately, as a view.

        ``edges`` is a table, a view or a query; its first two columns are source and target. ``writes`` has
        the order of a write (a number or a moment), its node and its value. ``aggregate`` is the name of an
        aggregate, a call on ``value``, or an object with EAGr's methods. ``window``: the last so many writes
        of each node, or those of the last ``timedelta`` (or SQL interval), or ``("range", t)`` of orders
        above the greatest less t. ``neighbourhood`` is ``out`` (targets of a node's edges), ``in``,
        ``both``, ``out 2`` (within two steps) and so on, or a relation (reader, writer). ``where`` is a
        condition on edges, ``readers`` one on ``node``, a query or values. ``mode`` is ``auto``, ``push``,
        ``pull`` or ``continuous``; ``continuous`` says, as ``readers`` does, which readers are pushed in any
        mode. ``overlay`` is a way to build one. See docs/explanation/ego.md.
        """
        from kpg.ddl.ego_functions import make

        texts = {"name": name, "edges": edges, "writes": writes, "neighbourhood": neighbourhood}
        for parameter, value in {**texts, "mode": mode, "overlay": overlay}.items():
            check_argument(parameter, value, str, "a text")
        return make(
            self._engine, lambda: self._engine, name, aggregate, readers, continuous, returns, edges=edges,
            writes=writes, window=window, neighbourhood=neighbourhood, where=where, mode=mode,
            overlay=overlay,
        )  # fmt: skip
