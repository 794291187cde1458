"""``Database``, which ``kpg.connect()`` returns, and its ``Branch``.

A source position records how far a source has been read, such as the offset of a Kafka topic. It commits and
rolls back with the rows of its call or transaction. A consumer that resumes from it after a crash therefore
reads each row exactly once. A ``position`` argument is ``(source, position)``, or a dict of several.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from kpg.api import progress
from kpg.api.result import Result, Row, listing
from kpg.api.view import MaintainedView, View
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Parameters
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.changes.table_writes import delete, insert, upsert
from kpg.execute.queries import external_tables
from kpg.execute.queries.query_plan import explain_export
from kpg.execute.scripts import outcomes_within_limits, run_with_external
from kpg.execute.statements import execute, install_execution
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError, check_argument
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.monitor import synchronized
from kpg.runtime.plan import Ego
from kpg.runtime.types import BIGINT, TEXT
from kpg.session.engine import Engine
from kpg.session.transaction import MonitorBlock

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from pathlib import Path

    from kpg.api import branch as branches
    from kpg.api import diagram
    from kpg.api import ego as ego_views
    from kpg.api.branch import Fork
    from kpg.api.diagram import Drawing
    from kpg.api.ego import EgoView
    from kpg.collections import dataflow as dataflows
    from kpg.collections.dataflow import Dataflow
    from kpg.datalog import Absence, Goal, Program, Proof, dispatch
    from kpg.execute.changes import bulk_load, source_positions
    from kpg.execute.changes.bulk_load import Progress
    from kpg.execute.changes.source_positions import Position, Positions
    from kpg.execute.definitions import python_functions
    from kpg.execute.definitions.ego_views import Window
    from kpg.execute.queries import explain
    from kpg.persistence import backup as backups
    from kpg.persistence import recovery
    from kpg.persistence.backup import Backup
    from kpg.provenance import explain_row as provenance
    from kpg.session import distribution, session_manager, time_travel
    from kpg.session import session as sessions
    from kpg.session.base_table import Table
    from kpg.session.distribution import Workers
    from kpg.session.session import Session
    from kpg.session.session_manager import SessionManager
else:
    branches = LazyModule("kpg.api.branch")
    diagram = LazyModule("kpg.api.diagram")
    ego_views = LazyModule("kpg.api.ego")
    dataflows = LazyModule("kpg.collections.dataflow")
    dispatch = LazyModule("kpg.datalog.dispatch")
    bulk_load = LazyModule("kpg.execute.changes.bulk_load")
    source_positions = LazyModule("kpg.execute.changes.source_positions")
    python_functions = LazyModule("kpg.execute.definitions.python_functions")
    explain = LazyModule("kpg.execute.queries.explain")
    backups = LazyModule("kpg.persistence.backup")
    recovery = LazyModule("kpg.persistence.recovery")
    provenance = LazyModule("kpg.provenance.explain_row")
    distribution = LazyModule("kpg.session.distribution")
    sessions = LazyModule("kpg.session.session")
    session_manager = LazyModule("kpg.session.session_manager")
    time_travel = LazyModule("kpg.session.time_travel")


def check_not_partitioned(engine: "Engine", name: str) -> None:
    """Raise NotSupportedError for a partitioned table, whose rows must be routed."""

    lower = engine.catalog.get(name).name.lower()
    if lower in engine.catalog.partitioned:
        raise NotSupportedError(
            f'rows of Python for table "{name}", which is partitioned, are not supported',
            hint="use INSERT or COPY",
        )


Outcome = Result | View | None


@synchronized("closed", "hub")
class Database:
    """Tables in memory, and views over them that are kept up to date.

    Outside a transaction each call, and each statement of a script, is a transaction of its own. A
    database and the objects that it returns may be used from any thread: see
    docs/explanation/threads.md. As a context manager it closes itself.
    """

    def __init__(
        self,
        merge_effort: str = "default",
        memory_limit: int | str | None = None,
        history: "int | str | timedelta | None" = None,
        workers: "Workers | None" = None,
        **folder: Any,
    ) -> None:
        progress.enable_by_default()
        engine = Engine(merge_effort, memory_limit, history, workers=workers)
        install_execution(engine)
        if folder:
            recovery.open_folder(engine, **folder)
        self._open: Engine | None = engine
        self._monitor = engine.monitor
        self._session_manager: SessionManager | None = None

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._open is None:
            return f"<kpg.{type(self).__name__}, closed>"
        keeper = self._open.write_ahead_log
        return f"<kpg.{type(self).__name__} in {'memory' if keeper is None else keeper.where}>"

    def close(self) -> None:
        """Close the database; closing twice is allowed. Results that were read remain readable."""
        if self._open is not None:
            self._check_open()
            if self._session_manager is not None:
                self._session_manager.close()
            try:
                self._open.close()
            finally:
                self._open = None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._open is None

    def sql(self, text: str, parameters: Parameters | None = None) -> Outcome:
        """Run a script and return the result of its last statement.

        That is a :class:`Result` for a query or a change of a table, a :class:`View` for CREATE
        MATERIALIZED VIEW, and None for other statements. ``parameters`` are the values of ``?`` or ``$1``
        (a sequence), or of ``:name`` (a dict). A script stops at its first error; earlier statements remain
        in effect, unless they are part of a transaction.
        """
        last: Outcome = None
        for outcome in self._outcomes(text, parameters):
            last = outcome
        return last

    def query(self, text: str, parameters: Parameters | None = None) -> Result:
        """Run a script that ends with a query, and return its rows; else InterfaceError. See :meth:`sql`."""
        outcome = self.sql(text, parameters)
        if not isinstance(outcome, Result):
            raise InterfaceError("the statement gives no rows", hint="run it with sql()")
        return outcome

    def script(self, text: str, parameters: Parameters | None = None) -> Iterator[Outcome]:
        """Run a script and yield the outcome of each statement as it runs; see :meth:`sql`.

        The text is parsed, and its parameters are bound, before the first statement runs.
        """
        return self._monitor.iterate(self._outcomes(text, parameters), lambda: self._engine)

    @property
    def notices(self) -> list[tuple[str, str]]:
        """Recent notices of statements, also by RAISE: levels and messages."""
        return [(notice.severity, notice.message) for notice in self._engine.notices]

    def advance_to(self, moment: "datetime | str") -> None:
        """Set the time of ``now()`` until the next call; a moment without a time zone is in UTC.

        Rows of views that compare with the time appear and disappear. InterfaceError if it is in the past.
        """
        self._engine.advance_to(moment)

    def transaction(self) -> AbstractContextManager[None]:
        """Return a block whose changes commit as one epoch, or roll back if it raises.

        Queries inside see the block's own changes; a :class:`View` shows the last commit. DDL is
        transactional: an error undoes it, too, and a materialized view that the block creates is hydrated
        at commit. A nested transaction, :meth:`batch` and the installation of a Datalog program are refused
        inside. Other threads wait until the block ends.
        """
        return MonitorBlock(self._monitor, lambda: self._engine, self._engine.transactions.transaction)

    def batch(self) -> AbstractContextManager[None]:
        """Return a block whose transactions go through the views in one step, at its end.

        Each keeps its own epoch, so ``changes()`` distinguishes them. An error rolls all of them back.
        Other threads wait until the block ends.
        """
        return MonitorBlock(self._monitor, lambda: self._engine, self._engine.transactions.batch)

    def session(self, user: str = "kpg") -> "Session":
        """Return a role's session: its own transaction, settings and prepared statements, for any thread."""
        check_argument("user", user, str, "the name of a role")
        if user != "kpg" and user not in self._engine.catalog.privileges.roles:
            raise ProgrammingError(f'role "{user}" does not exist', sqlstate="42704")
        return sessions.Session(self.hub, user)

    @property
    def hub(self) -> "SessionManager":
        """The session manager. Only its creation waits for the monitor."""
        return self._session_manager or self._monitor.run(self._make_session_manager)

    def _make_session_manager(self) -> "SessionManager":
        if self._session_manager is None:
            self._session_manager = session_manager.SessionManager(self._engine)
        return self._session_manager

    def dataflow(self, name: str | None = None) -> "Dataflow":
        """Return a new, empty dataflow of inputs, collections and outputs; see ``kpg.collections``."""
        engine = self._engine
        engine.refuse_if_durable("a dataflow", "functions and inputs have no text")
        engine.dataflows_made += 1
        flow = dataflows.Dataflow(engine, name or str(engine.dataflows_made))
        if flow.label in engine.dataflows:
            raise InterfaceError(f"there is a dataflow {flow.name} already", hint="drop() it first")
        engine.dataflows[flow.label] = flow
        return flow

    def datalog(
        self,
        text: str,
        *,
        filename: str | None = None,
        facts: "str | Path | None" = None,
        include: "Sequence[str | Path]" = (),
        macros: Mapping[str, str] | None = None,
        functors: Mapping[str, Callable[..., Any]] | None = None,
    ) -> "Program":
        """Install a Datalog program: its relations become tables and views, all of them or none.

        DatalogError reports all errors of the program. ``filename`` names the text in messages. ``facts``
        is the folder of the files that ``.input`` reads, ``include`` are additional folders for
        ``#include``, ``macros`` are as by ``#define``, and ``functors`` implement declared functors that
        are not functions of the database. A text of goals and updates runs against the installed program
        that it refers to, which is returned.
        """
        check_argument("text", text, str, "the text of a program")
        call = (self._engine, self._check_open, text, filename, facts, include, macros, functors)
        return dispatch.install_text(*call)

    def prepare(self, text: str) -> "Goal":
        """Return a Datalog goal, such as ``?- tc($src, x).``, to be asked with values for its parameters."""
        check_argument("text", text, str, "the text of a goal")
        return dispatch.prepare(self._engine, self._check_open, text)

    def explain_row(
        self, relation: str, row: Any, *, limit: int | None = None, sample: int | None = 3
    ) -> "Proof":
        """Return a proof tree for a row of a view or Datalog relation, as of the last commit, down to tables.

        ``row`` has all values; for a SQL view it may be a dict of some. ``sample`` rows of an aggregate are
        explained, None for all. ProgrammingError if there is no such row. For Datalog, OperationalError if
        more than ``limit`` rows have to be read; a recursive relation that the proof needs is maintained
        from then on.
        """
        check_argument("relation", relation, str, "the name of a view or Datalog relation")
        if provenance.has_query(self._engine, relation):
            return provenance.explain_row(self._engine, relation, row, sample=sample)
        return dispatch.declaring_program(self._engine, relation).explain_row(relation, row, limit=limit)

    def explain_absence(self, relation: str, row: Any, *, limit: int | None = None) -> "Absence":
        """Return why a row is absent: what a view's queries lack, or the literal that fails in each rule.

        ProgrammingError if the row exists; otherwise see :meth:`explain_row`.
        """
        check_argument("relation", relation, str, "the name of a view or Datalog relation")
        if provenance.has_query(self._engine, relation):
            return provenance.explain_absence(self._engine, relation, row)
        return dispatch.declaring_program(self._engine, relation).explain_absence(relation, row, limit=limit)

    def create_function(
        self,
        name: str,
        function: Any,
        args: Sequence[Any] | None = None,
        returns: Any = None,
        *,
        columns: bool = False,
        nulls: bool = False,
    ) -> None:
        """Register a Python function for SQL, typed by annotations or by ``args`` and ``returns``.

        It receives a row's values and returns a value; with ``columns`` it receives numpy arrays and
        returns one. If ``returns`` is a dict of columns, it returns rows and is called in FROM. An object
        (or class) with the methods ``initialize()``, ``add(state, *values)`` and ``finish(state)`` is an
        aggregate. If it also has ``subtract(state, *values)``, a group is not read again when rows leave
        it. With ``nulls`` it is called for NULLs, which otherwise give NULL. It must return equal results
        for equal arguments.
        """
        check_argument("name", name, str, "the name of a function")
        before = python_functions.make_restorer(self._engine)
        python_functions.create(self._engine, name, function, args, returns, columns=columns, nulls=nulls)
        self._engine.commit_definitions(before)

    def drop_function(self, name: str) -> None:
        """Drop a function of :meth:`create_function`; ProgrammingError if a view uses it."""
        check_argument("name", name, str, "the name of a function")
        before = python_functions.make_restorer(self._engine)
        python_functions.drop(self._engine, name)
        self._engine.commit_definitions(before)

    def backup(self, folder: "str | Path", *, wait: bool = True) -> "Backup":
        """Copy a database in a folder into another folder, as of the last commit.

        Without ``wait`` a thread copies while commits continue; the returned object's ``wait()`` waits for
        it. OperationalError if the folder cannot be written to, with nothing left of the copy;
        InterfaceError within a transaction.
        """
        begun = backups.start_backup(self._engine, folder)
        return begun.wait() if wait else begun

    def branch(self) -> "Branch":
        """Return a branch: a copy-on-write fork of the database, to be merged or discarded.

        It takes milliseconds per view; rows and indexes are shared until one side writes. InterfaceError
        within a transaction.
        """
        return Branch(self)

    # Rows from Python and from files

    def create_table(self, name: str, data: Any, primary_key: Sequence[str] = ()) -> int:
        """Create a table from a file, a folder or glob of files, or data in memory; return its row count.

        Its columns are those of the data: an Arrow table or anything with an Arrow stream, a pandas or
        polars frame, a dict of columns, a list of dicts, parquet or CSV. Columns of the primary key are NOT
        NULL.
        """

        check_argument("name", name, str, "the name of a table")
        return external_tables.create_table_from(self._engine, name, data, primary_key)

    def insert(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Insert rows and return their number.

        ``data`` is an iterable of tuples or dicts, a dict of columns, an Arrow table or anything with an
        Arrow stream, or a pandas or polars frame. Named columns are matched by name. Missing columns get
        their DEFAULTs, as in INSERT.
        """

        return self._change(name, lambda engine, table: insert(engine, table, data), position)

    def delete(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Delete rows and return their number; missing rows are ignored.

        Data with exactly the columns of the primary key identifies rows by key.
        """

        return self._change(name, lambda _, table: delete(table, data), position)

    def upsert(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Insert rows, replacing those with the same primary key, and return the number given.

        The last of several rows with the same key counts. ``data`` is as for :meth:`insert`: missing
        columns of a replacing row get their DEFAULTs, too.
        """

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
        """Load files, a Spark data frame, or data in memory, and return the number of rows.

        ``source`` is a path of a file, a folder or a glob of files, or data as for :meth:`insert`.

        All rows are loaded or none. Files are loaded through Spark (``mode="spark"``) or pyarrow
        (``mode="arrow"``); without a mode, small local files through pyarrow, others through Spark if it
        can run. Missing columns get their DEFAULTs, except in files loaded through Spark, which need all
        columns. ``progress`` is called with the table's name and its number of rows so far.
        """
        return self._change(
            name, lambda engine, table: bulk_load.load(engine, table, source, mode, progress), position
        )

    def load_all(
        self,
        sources: Mapping[str, Any],
        mode: str | None = None,
        progress: "Progress | None" = None,
        *,
        position: "Positions | None" = None,
    ) -> dict[str, int]:
        """Load several tables in one transaction and one Spark session; see :meth:`load`."""
        check_argument("sources", sources, Mapping, "a mapping of what is loaded, by tables")
        for name in sources:
            check_argument("a table of sources", name, str, "the name of a table")
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if engine.catalog.partitioned:
                for name in sources:
                    check_not_partitioned(engine, name)
            tables = [(engine.table(name), source) for name, source in sources.items()]
            loaded = bulk_load.load_all(engine, tables, mode, progress)
            self._save_position(position)
            return loaded

    def foreach_batch(self, name: str, source: str, change: str = "insert") -> Callable[[Any, int], None]:
        """Return a function for Spark's ``writeStream.foreachBatch`` that commits each micro-batch once.

        The batch number is stored with the rows as the position of ``source``. A batch that Spark repeats
        after a failure is therefore skipped, as long as the query keeps its checkpoint. ``change`` is
        insert, upsert or delete.
        """
        check_argument("name", name, str, "the name of a table")
        check_argument("source", source, str, "the name of a stream")
        if change not in ("insert", "upsert", "delete"):
            raise InterfaceError(
                f'there is no change "{change}"', hint='it is "insert", "upsert" or "delete"'
            )
        self._engine.catalog.table(name)

        def apply(frame: Any, number: int) -> None:
            self._monitor.run(self._apply_batch, name, source, change, frame, number)

        return apply

    def _apply_batch(self, name: str, source: str, change: str, frame: Any, number: int) -> None:
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
        """Set the position of a source, a number or a text, within the open transaction; None removes it."""
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if position is None:
                source_positions.remove(engine, source)
            else:
                self._save_position((source, position))

    def positions(self) -> "dict[str, Position]":
        """Return the position of each source, as committed or set in the open transaction."""
        return source_positions.read(self._engine)

    def epochs(self) -> "Result":
        """Return the epochs that are kept, and their moments; InterfaceError without ``history``."""
        return time_travel.epochs(self._engine)

    def _change(
        self, name: str, change: "Callable[[Engine, Table], int]", position: "Positions | None"
    ) -> int:
        check_argument("name", name, str, "the name of a table")
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if engine.catalog.partitioned:
                check_not_partitioned(engine, name)
            changed = change(engine, engine.table(name))
            if position is not None:
                self._save_position(position)
            return changed

    def _save_position(self, position: "Positions | None") -> None:
        if position is not None:
            source_positions.save(self._engine, position)

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
        """Create a view with an aggregate, for each node of a graph, over what its neighbours wrote recently.

        ``edges`` is a table, a view or a query; its first two columns are source and target. ``writes`` has
        the order of a write (a number or a moment), its node and its value. ``aggregate`` is the name of an
        aggregate, a call on ``value``, or an object with EAGr's methods. ``window`` is a number of last
        writes of each node, a ``timedelta`` (or SQL interval) of recent ones, or ``("range", t)`` of orders
        above the greatest less t. ``neighbourhood`` is ``out`` (targets of a node's edges), ``in``,
        ``both``, ``out 2`` (within two steps) and so on, or a relation (reader, writer). ``where`` is a
        condition on edges, ``readers`` one on ``node``, a query or values. ``mode`` is ``auto``, ``push``,
        ``pull`` or ``continuous``; ``continuous`` selects, as ``readers`` does, readers that are pushed in
        any mode. ``overlay`` is the construction of the overlay. See docs/explanation/ego.md.
        """
        texts = {"name": name, "edges": edges, "writes": writes, "neighbourhood": neighbourhood}
        for parameter, value in {**texts, "mode": mode, "overlay": overlay}.items():
            check_argument(parameter, value, str, "a text")
        return ego_views.create_view(
            self._engine, lambda: self._engine, name, aggregate, readers, continuous, returns, edges=edges,
            writes=writes, window=window, neighbourhood=neighbourhood, where=where, mode=mode,
            overlay=overlay,
        )  # fmt: skip

    # State and statistics

    def arrangements(self) -> Result:
        """Return the arrangements: contents, rows, bytes, batches, and the views that share them."""
        infos = self._engine.executor.arrangements()
        return listing(
            {
                "arrangement": (TEXT, [info.description for info in infos]),
                "rows": (BIGINT, [info.rows for info in infos]),
                "bytes": (BIGINT, [info.bytes for info in infos]),
                "batches": (BIGINT, [info.batches for info in infos]),
                "views": (TEXT, [", ".join(info.readers) for info in infos]),
            }
        )

    def operators(self) -> Result:
        """Return a profile of every operator: its work since its creation, and the views that share it."""
        infos = self._engine.executor.operators()
        return listing(
            {
                "operator": (BIGINT, [info.position for info in infos]),
                "description": (TEXT, [info.description for info in infos]),
                "updates_in": (BIGINT, [info.updates_in for info in infos]),
                "updates_out": (BIGINT, [info.updates_out for info in infos]),
                "rows": (BIGINT, [info.rows for info in infos]),
                "bytes": (BIGINT, [info.bytes for info in infos]),
                "microseconds": (BIGINT, [round(info.seconds * 1e6) for info in infos]),
                "views": (TEXT, [", ".join(info.readers) for info in infos]),
            }
        )

    def workers(self) -> Result:
        """Return each worker's rows, bytes, processor time, exchanged rows and exchange barriers.

        ``heavy`` are the keys that give one worker more rows than its share: see
        docs/explanation/workers.md.
        """
        workers = distribution.measure_workers(self._engine)
        return listing(
            {
                "worker": (BIGINT, list(range(len(workers)))),
                "rows": (BIGINT, [worker.rows for worker in workers]),
                "bytes": (BIGINT, [worker.bytes for worker in workers]),
                "microseconds": (BIGINT, [round(worker.seconds * 1e6) for worker in workers]),
                "sent": (BIGINT, [worker.sent_rows for worker in workers]),
                "received": (BIGINT, [worker.received_rows for worker in workers]),
                "meetings": (BIGINT, [worker.barriers for worker in workers]),
                "heavy": (
                    TEXT,
                    ["; ".join(key.description for key in worker.skewed_keys) for worker in workers],
                ),
            }
        )

    def draw(self, what: str | None = None) -> "Drawing":
        """Return a picture of the present dataflow, as SVG, which notebooks show and ``save(path)`` writes.

        By default it shows tables, shared indexes and views. The name of a view selects its operators, with
        their state and time. The text of a query selects its plan, with the cost of a change per node.
        """
        return diagram.draw(self._engine, what)

    # Views and relations

    def step(self) -> None:
        """Run a step over the inputs of all dataflows, up to the least of their times."""
        self._engine.advance()

    def view(self, name: str) -> View:
        """Return a handle on a maintained view; a Datalog relation is maintained from then on."""
        check_argument("name", name, str, "the name of a view")
        engine = self._engine
        if engine.dataflows and name in engine.catalog:
            program = dispatch.deriving_program(engine, engine.catalog.get(name).name)
            if program is not None:
                return program[engine.catalog.get(name).name]
        return self._wrap_view(engine.view(name))

    def tables(self) -> Result:
        """Return the tables with their row counts."""
        return self._relations(tables=True)

    def views(self) -> Result:
        """Return the views, with the row counts of maintained ones."""
        return self._relations(tables=False)

    def names(self) -> set[str]:
        """Return the names of all relations and their columns."""
        catalog = self._engine.catalog
        columns = {column for entry in catalog for column in entry.schema.names}
        return columns | {entry.name for entry in catalog}

    def explain(self, query: str, stage: str = "physical") -> str:
        """Return the plan of one query at a stage of compilation, as EXPLAIN prints it."""
        check_argument("query", query, str, "the text of a query")
        check_argument("stage", stage, str, "the name of a stage of compilation")
        statements = self._parse(query)
        if len(statements) != 1 or not explain.is_explainable(statements[0]):
            hint = "run other statements with sql() before"
            raise InterfaceError("explain takes the text of one query", hint=hint)
        (plan,) = self._explain_each(statements, stage)
        return plan

    def explanations(self, text: str, stage: str = "physical") -> Iterator[str]:
        """Yield the plans of a script's queries; other statements are run."""
        check_argument("text", text, str, "the text of a script")
        check_argument("stage", stage, str, "the name of a stage of compilation")
        return self._monitor.iterate(self._explain_each(self._parse(text), stage))

    def verify(self, name: str) -> None:
        """Recompute a view from scratch; InternalError if its maintained contents differ."""
        check_argument("name", name, str, "the name of a view")
        engine = self._engine
        explain.verify(engine, engine.view(name))

    @property
    def epoch(self) -> int:
        """Number of the last commit."""
        return self._open_engine.executor.epoch

    @property
    def _engine(self) -> Engine:
        engine = self._open
        if engine is None or engine.executor.is_stepping:
            return self._open_engine
        if engine.sessions is not None:
            engine.sessions.swap_in_default()
        return engine

    @property
    def _open_engine(self) -> Engine:
        """The engine, for uses that need no transaction, setting or role."""
        self._check_open()
        assert self._open is not None
        return self._open

    def _check_open(self) -> None:
        if self._open is None:
            raise InterfaceError("the database is closed", hint="open another one with kpg.connect()")
        if self._open.executor.is_stepping:
            raise InterfaceError("the database cannot be used by a function that its own step calls")

    def _outcomes(self, text: str, parameters: Parameters | None) -> Iterator[Outcome]:
        if not isinstance(text, str):
            raise InterfaceError(f"statements are a text, not {type(text).__name__}")
        return map(self._wrap_outcome, outcomes_within_limits(self._engine, text, parameters))

    def _parse(self, text: str) -> list[ast.Statement]:
        with self._engine.transactions.failing_on_error():
            return parse(text)

    def _explain_each(self, statements: list[ast.Statement], stage: str) -> Iterator[str]:
        for statement in statements:
            if explain.is_explainable(statement):
                yield run_with_external(
                    self._engine, statement, partial(explain.explain_statement, stage=stage)
                )
            else:
                run_with_external(self._engine, statement, execute)

    def _relations(self, tables: bool) -> Result:
        rows = [row for row in explain.tables_and_views(self._engine) if (row[1] == "table") is tables]
        names, kinds, counts = ([row[i] for row in rows] for i in range(3))
        kind = {} if tables else {"kind": (TEXT, kinds)}
        return listing({"name": (TEXT, names), **kind, "rows": (BIGINT, counts)})

    def _wrap_outcome(self, outcome: Result | MaintainedView | None) -> Outcome:
        return self._wrap_view(outcome) if isinstance(outcome, MaintainedView) else outcome

    def _wrap_view(self, maintained: MaintainedView) -> View:
        plan = self._engine.views.plan_of(maintained.name)
        if plan is not None and any(isinstance(node, Ego) for node in plan.nodes):
            return ego_views.EgoView(self._engine, maintained, lambda: self._engine)
        return View(maintained, self._monitor, self._check_open, partial(self._explain_view, maintained))

    def _explain_view(self, maintained: MaintainedView, stage: str) -> str:
        if maintained.plan is None:
            return self.explain(f"create view v as {maintained.sql}", stage)
        engine, plan = self._engine, maintained.plan
        return explain_export(maintained.name, plan, stage, engine.catalog, engine.statistics).text()


@synchronized()
class Branch(Database):
    """A fork of a database. As a context manager it is discarded at the end."""

    def __init__(self, trunk: Database) -> None:
        """Fork a database.

        Raises:
            InterfaceError: Within a transaction.
            NotSupportedError: If an object cannot be part of a branch.
        """
        self._trunk = trunk
        self._fork = branches.Fork(trunk._engine)
        self._open = self._fork.engine
        self._monitor = self._open.monitor
        self._session_manager = None

    def discard(self) -> None:
        """Discard the branch with all its changes."""
        self.close()

    def diff(self, name: str) -> list[tuple[Row, int]]:
        """Return the rows in which a table or maintained view differs from the trunk's.

        Each has the difference in multiplicity, negative for rows that the branch lacks. InterfaceError
        within a transaction.
        """
        return self._open_fork.diff(self._trunk._engine, name)

    def changed(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of inserted and deleted rows of each changed table since the fork."""
        return self._open_fork.change_counts()

    def merge(self) -> dict[str, tuple[int, int]]:
        """Apply the branch's changes to the trunk's tables in one commit, and close the branch.

        Returns the numbers of inserted and deleted rows of each table. IntegrityError, with nothing
        changed, if the trunk has changed the same row or a constraint of the trunk is violated;
        NotSupportedError if tables or views were defined in the branch.
        """
        merged = self._open_fork.merge(self._trunk._engine)
        self.close()
        return merged

    @property
    def _open_fork(self) -> "Fork":
        _ = self._engine  # InterfaceError if the branch was closed
        return self._fork
