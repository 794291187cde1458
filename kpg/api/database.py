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
from kpg.api.view import Maintained, View
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Parameters
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.changes.table_writes import delete, insert, upsert
from kpg.execute.queries import external_tables
from kpg.execute.queries.query_plan import explain_export
from kpg.execute.scripts import limited_outcomes, reading
from kpg.execute.statements import execute, provide_statements
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError, check_argument
from kpg.runtime.monitor import synchronized
from kpg.runtime.plan import Ego
from kpg.runtime.types import BIGINT, TEXT
from kpg.session.engine import Engine
from kpg.session.transaction import Held

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
    from kpg.session.session_manager import Hub
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


def check_plain(engine: "Engine", name: str) -> None:
    """NotSupportedError for a table whose partitions rows would go past."""

    lower = engine.catalog.get(name).name.lower()
    if ("partitioned", lower, "") in engine.catalog.others:
        raise NotSupportedError(
            f'rows of Python for table "{name}", which is partitioned, are not supported',
            hint="use INSERT or COPY",
        )


Outcome = Result | View | None


@synchronized("closed", "hub")
class Database:
    """Tables in memory, and views over them that are kept up to date.

    Outside a transaction every call, and every statement of a script, is a transaction of its own. A
    database, and whatever it gives, may be used from any thread: see docs/explanation/threads.md. It is a
    context manager that closes itself.
    """

    def __init__(
        self,
        merge_effort: str = "default",
        memory_limit: int | str | None = None,
        history: "int | str | timedelta | None" = None,
        workers: "Workers | None" = None,
        **folder: Any,
    ) -> None:
        progress.begin()
        engine = Engine(merge_effort, memory_limit, history, workers=workers)
        provide_statements(engine)
        if folder:
            recovery.open_folder(engine, **folder)
        self._open: Engine | None = engine
        self._monitor = engine.monitor
        self._hub: Hub | None = None

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._open is None:
            return f"<kpg.{type(self).__name__}, closed>"
        keeper = self._open.keeper
        return f"<kpg.{type(self).__name__} in {'memory' if keeper is None else keeper.where}>"

    def close(self) -> None:
        """Give everything up; closing twice is allowed. What was read before stays readable."""
        if self._open is not None:
            self._check_open()
            if self._hub is not None:
                self._hub.close()
            try:
                self._open.close()
            finally:
                self._open = None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._open is None

    def sql(self, text: str, parameters: Parameters | None = None) -> Outcome:
        """Run a script and return what its last statement gives.

        That is a :class:`Result` for a query and for what changes a table, a :class:`View` for CREATE
        MATERIALIZED VIEW, None for other statements. ``parameters`` are the values of ``?`` or ``$1`` (a
        sequence), or of ``:name`` (a dict). A script stops at its first error; statements before it stand,
        unless they are part of a transaction.
        """
        last: Outcome = None
        for outcome in self._outcomes(text, parameters):
            last = outcome
        return last

    def query(self, text: str, parameters: Parameters | None = None) -> Result:
        """As :meth:`sql` for a script that ends with a query; InterfaceError if it does not."""
        outcome = self.sql(text, parameters)
        if not isinstance(outcome, Result):
            raise InterfaceError("the statement gives no rows", hint="run it with sql()")
        return outcome

    def script(self, text: str, parameters: Parameters | None = None) -> Iterator[Outcome]:
        """As :meth:`sql`, giving the outcome of each statement when it is reached.

        The text is parsed, and its parameters are bound, before the first statement runs.
        """
        return self._monitor.iterate(self._outcomes(text, parameters), lambda: self._engine)

    @property
    def notices(self) -> list[tuple[str, str]]:
        """What statements have said lately, by RAISE too: levels and messages."""
        return [(one.severity, one.message) for one in self._engine.notices]

    def advance_to(self, moment: "datetime | str") -> None:
        """Let the time of ``now()`` be a moment, in UTC where it has no time zone, until the next call.

        Rows of views that compare with it come and go. InterfaceError if it is in the past.
        """
        self._engine.advance_to(moment)

    def transaction(self) -> AbstractContextManager[None]:
        """Return a block whose changes commit as one epoch, or roll back if it raises.

        Queries inside see the block's own changes and compute their answers; a :class:`View` shows the last
        commit. DDL is transactional: an error undoes it too, and a materialized view that the block creates
        is hydrated at commit. Refused inside are a nested transaction, :meth:`batch` and the installation of
        a Datalog program. Other threads wait until the block ends.
        """
        return Held(self._monitor, lambda: self._engine, self._engine.transactions.transaction)

    def batch(self) -> AbstractContextManager[None]:
        """``with db.batch():`` takes the block's transactions through the views in one go, at its end.

        Each keeps its own epoch, so that ``changes()`` tells them apart. An error rolls all of them back.
        Other threads wait until the block ends.
        """
        return Held(self._monitor, lambda: self._engine, self._engine.transactions.batch)

    def session(self, user: str = "kpg") -> "Session":
        """A transaction, settings and prepared statements of a role of its own, for any thread: see there."""
        check_argument("user", user, str, "the name of a role")
        if user != "kpg" and user not in self._engine.catalog.rights.roles:
            raise ProgrammingError(f'role "{user}" does not exist')
        return sessions.Session(self.hub, user)

    @property
    def hub(self) -> "Hub":
        """Where sessions wait for their turn. Waits for the monitor only to make it."""
        return self._hub or self._monitor.run(self._make_hub)

    def _make_hub(self) -> "Hub":
        if self._hub is None:
            self._hub = session_manager.Hub(self._engine)
        return self._hub

    def dataflow(self, name: str | None = None) -> "Dataflow":
        """A new, empty dataflow: inputs, collections made of them, and outputs. See ``kpg.collections``."""
        engine = self._engine
        engine.refuse_to_keep("a dataflow", "functions and inputs have no text")
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

        DatalogError, with all that is wrong, for a program that is wrong. ``filename`` names the text in
        messages; ``facts`` is the folder of the files that ``.input`` reads, ``include`` are folders where
        ``#include`` looks too, ``macros`` are as by ``#define``, ``functors`` are functions of declared ones
        that are not the database's. A text of goals and updates only is run for the program that it is about,
        which is given back.
        """
        check_argument("text", text, str, "the text of a program")
        call = (self._engine, self._check_open, text, filename, facts, include, macros, functors)
        return dispatch.install_text(*call)

    def prepare(self, text: str) -> "Goal":
        """A Datalog goal, ``?- tc($src, x).``, ready to be asked with values for its parameters."""
        check_argument("text", text, str, "the text of a goal")
        return dispatch.prepare(self._engine, self._check_open, text)

    def explain_row(
        self, relation: str, row: Any, *, limit: int | None = None, sample: int | None = 3
    ) -> "Proof":
        """Why a row of a view or Datalog relation is there, as of the last commit: a tree down to tables.

        ``row`` has all values; of a SQL view it may be a dict of some. ``sample`` rows of an aggregate are
        explained, None for all. ProgrammingError if there is no such row; of Datalog OperationalError if
        more than ``limit`` rows have to be looked at, and a recursive relation that the proof needs is
        maintained from now on.
        """
        check_argument("relation", relation, str, "the name of a view or Datalog relation")
        if provenance.is_sql(self._engine, relation):
            return provenance.explain_row(self._engine, relation, row, sample=sample)
        return dispatch.program_with(self._engine, relation).explain_row(relation, row, limit=limit)

    def explain_absence(self, relation: str, row: Any, *, limit: int | None = None) -> "Absence":
        """Why a row is not there: what a view's queries lack, the literal that fails in each rule.

        ProgrammingError if it is there; otherwise as :meth:`explain_row`.
        """
        check_argument("relation", relation, str, "the name of a view or Datalog relation")
        if provenance.is_sql(self._engine, relation):
            return provenance.explain_absence(self._engine, relation, row)
        return dispatch.program_with(self._engine, relation).explain_absence(relation, row, limit=limit)

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
        """Let SQL call a Python function, by the types of its annotations, or by ``args`` and ``returns``.

        It gets a row's values and gives a value; with ``columns`` it gets numpy arrays and gives one. If
        ``returns`` is a dict of columns it gives rows, to be called in FROM. An object (or class) with the
        methods ``initialize()``, ``add(state, *values)`` and ``finish(state)`` is an aggregate; one that has
        ``subtract(state, *values)`` too need not read a group again when rows leave it. ``nulls``: it is
        called for NULLs, which otherwise make NULL. It must give the same for the same arguments.
        """
        check_argument("name", name, str, "the name of a function")
        before = python_functions.known(self._engine)
        python_functions.create(self._engine, name, function, args, returns, columns=columns, nulls=nulls)
        self._engine.keep(before)

    def drop_function(self, name: str) -> None:
        """Forget a function made by :meth:`create_function`; ProgrammingError if a view uses it."""
        check_argument("name", name, str, "the name of a function")
        before = python_functions.known(self._engine)
        python_functions.drop(self._engine, name)
        self._engine.keep(before)

    def backup(self, folder: "str | Path", *, wait: bool = True) -> "Backup":
        """Copy a database that is in a folder into another, as it is after the last commit; it opens as one.

        Without ``wait`` a thread copies while commits go on, and what is returned is waited for by its
        ``wait()``. OperationalError, and nothing is left of the copy, if the folder cannot be written to;
        InterfaceError within a transaction.
        """
        begun = backups.backup(self._engine, folder)
        return begun.wait() if wait else begun

    def branch(self) -> "Branch":
        """A database that begins as this one is, and goes on by itself: to be merged, or discarded.

        Takes milliseconds for each view; rows and indexes are shared, and copied when they are used.
        InterfaceError within a transaction.
        """
        return Branch(self)

    # Rows from Python and from files

    def create_table(self, name: str, data: Any, primary_key: Sequence[str] = ()) -> int:
        """Make a table of a file, a folder or glob of files, or data in memory, and load it; how many rows.

        Its columns are those of the data: an Arrow table or anything with an Arrow stream, a pandas or polars
        frame, a dict of columns, a list of dicts, parquet or CSV. Those of the primary key are NOT NULL.
        """

        check_argument("name", name, str, "the name of a table")
        return external_tables.create(self._engine, name, data, primary_key)

    def insert(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Insert rows; how many.

        ``data`` is an iterable of tuples or dicts, a dict of columns, an Arrow table or anything with an
        Arrow stream, or a pandas or polars frame. Columns with names are matched by name; those that are not
        given get their DEFAULTs, as by INSERT.
        """

        return self._change(name, lambda engine, table: insert(engine, table, data), position)

    def delete(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Delete rows; how many. Data with exactly the columns of the primary key names rows by it.

        Nothing happens for a row that is not there.
        """

        return self._change(name, lambda _, table: delete(table, data), position)

    def upsert(self, name: str, data: Any, *, position: "Positions | None" = None) -> int:
        """Insert rows in place of those with the same primary key; how many were given.

        Of several rows with the same key the last counts. ``data`` is as for :meth:`insert`: a row that takes
        the place of another has DEFAULTs, too, in the columns that are not given.
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
        """Load a file, a folder or glob of files, a Spark data frame, or data in memory; how many rows.

        All or nothing. Files go through Spark (``mode="spark"``) or pyarrow (``mode="arrow"``); without
        a mode, small local ones through pyarrow, others through Spark if it can run here. Columns that are
        not given get their DEFAULTs, but for files that go through Spark, which have all. ``progress`` is
        called with the table's name and its number of rows so far.
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
        """As :meth:`load` for several tables at once, in one transaction and one Spark session."""
        check_argument("sources", sources, Mapping, "a mapping of what is loaded, by tables")
        for name in sources:
            check_argument("a table of sources", name, str, "the name of a table")
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if engine.catalog.others:
                for name in sources:
                    check_plain(engine, name)
            tables = [(engine.table(name), source) for name, source in sources.items()]
            loaded = bulk_load.load_all(engine, tables, mode, progress)
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
        engine = self._engine
        with engine.transactions.statement(changes=True):
            if position is None:
                source_positions.forget(engine, source)
            else:
                self._keep((source, position))

    def positions(self) -> "dict[str, Position]":
        """How far each source has been read: what was committed, or set in the transaction that is open."""
        return source_positions.read(self._engine)

    def epochs(self) -> "Result":
        """The epochs that can be asked for, and their moments; InterfaceError without ``history``."""
        return time_travel.epochs(self._engine)

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
            source_positions.keep(self._engine, position)

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
        texts = {"name": name, "edges": edges, "writes": writes, "neighbourhood": neighbourhood}
        for parameter, value in {**texts, "mode": mode, "overlay": overlay}.items():
            check_argument(parameter, value, str, "a text")
        return ego_views.make(
            self._engine, lambda: self._engine, name, aggregate, readers, continuous, returns, edges=edges,
            writes=writes, window=window, neighbourhood=neighbourhood, where=where, mode=mode,
            overlay=overlay,
        )  # fmt: skip

    # What is kept, and its work

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
        found = distribution.work(self._engine)
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
        return diagram.draw(self._engine, what)

    # Views and relations

    def step(self) -> None:
        """Take what the inputs of all dataflows hold, before the least of their times, through everything."""
        self._engine.advance()

    def view(self, name: str) -> View:
        """A handle on a maintained view; a Datalog relation is maintained from now on."""
        check_argument("name", name, str, "the name of a view")
        engine = self._engine
        if engine.dataflows and name in engine.catalog:
            program = dispatch.program_of(engine, engine.catalog.get(name).name)
            if program is not None:
                return program[engine.catalog.get(name).name]
        return self._wrap(engine.view(name))

    def tables(self) -> Result:
        """The tables, with their rows."""
        return self._relations(tables=True)

    def views(self) -> Result:
        """The views, with the rows of those that are kept up to date."""
        return self._relations(tables=False)

    def names(self) -> set[str]:
        """The names of all relations and of their columns."""
        catalog = self._engine.catalog
        columns = {column for entry in catalog for column in entry.schema.names}
        return columns | {entry.name for entry in catalog}

    def explain(self, query: str, stage: str = "physical") -> str:
        """The plan of one query at a stage of compilation, as EXPLAIN prints it."""
        check_argument("query", query, str, "the text of a query")
        check_argument("stage", stage, str, "the name of a stage of compilation")
        statements = self._parsed(query)
        if len(statements) != 1 or not explain.is_explained(statements[0]):
            hint = "run other statements with sql() before"
            raise InterfaceError("explain takes the text of one query", hint=hint)
        (plan,) = self._explained(statements, stage)
        return plan

    def explanations(self, text: str, stage: str = "physical") -> Iterator[str]:
        """The plans of a script's queries; its other statements are run."""
        check_argument("text", text, str, "the text of a script")
        check_argument("stage", stage, str, "the name of a stage of compilation")
        return self._monitor.iterate(self._explained(self._parsed(text), stage))

    def verify(self, name: str) -> None:
        """Compute a view from scratch, sharing nothing; InternalError if it differs from what is kept."""
        check_argument("name", name, str, "the name of a view")
        engine = self._engine
        explain.verify(engine, engine.view(name))

    @property
    def epoch(self) -> int:
        """The number of the last commit."""
        return self._opened.executor.epoch

    @property
    def _engine(self) -> Engine:
        engine = self._opened
        engine.admit_owner()
        return engine

    @property
    def _opened(self) -> Engine:
        """The engine, for what no transaction, setting or role matters to."""
        self._check_open()
        assert self._open is not None
        return self._open

    def _check_open(self) -> None:
        if self._open is None:
            raise InterfaceError("the database is closed", hint="open another one with kpg.connect()")
        if self._open.executor.stepping:
            raise InterfaceError("the database cannot be used by a function that its own step calls")

    def _outcomes(self, text: str, parameters: Parameters | None) -> Iterator[Outcome]:
        if not isinstance(text, str):
            raise InterfaceError(f"statements are a text, not {type(text).__name__}")
        return map(self._handle, limited_outcomes(self._engine, text, parameters))

    def _parsed(self, text: str) -> list[ast.Statement]:
        with self._engine.transactions.undoing():
            return parse(text)

    def _explained(self, statements: list[ast.Statement], stage: str) -> Iterator[str]:
        for statement in statements:
            if explain.is_explained(statement):
                yield reading(self._engine, statement, partial(explain.explain_statement, stage=stage))
            else:
                reading(self._engine, statement, execute)

    def _relations(self, tables: bool) -> Result:
        rows = [row for row in explain.tables_and_views(self._engine) if (row[1] == "table") is tables]
        names, kinds, counts = ([row[i] for row in rows] for i in range(3))
        kind = {} if tables else {"kind": (TEXT, kinds)}
        return listing({"name": (TEXT, names), **kind, "rows": (BIGINT, counts)})

    def _handle(self, outcome: Result | Maintained | None) -> Outcome:
        return self._wrap(outcome) if isinstance(outcome, Maintained) else outcome

    def _wrap(self, maintained: Maintained) -> View:
        plan = self._engine.views.plan_of(maintained.name)
        if plan is not None and any(isinstance(node, Ego) for node in plan.nodes):
            return ego_views.EgoView(self._engine, maintained, lambda: self._engine)
        return View(maintained, self._monitor, self._check_open, partial(self._explain_view, maintained))

    def _explain_view(self, maintained: Maintained, stage: str) -> str:
        if maintained.plan is None:
            return self.explain(f"create view v as {maintained.sql}", stage)
        engine, plan = self._engine, maintained.plan
        return explain_export(maintained.name, plan, stage, engine.catalog, engine.statistics).text()


@synchronized()
class Branch(Database):
    """A database of its own that began as its trunk was. As a context manager it is discarded at the end."""

    def __init__(self, trunk: Database) -> None:
        """InterfaceError within a transaction; NotSupportedError if there is what has no branches."""
        self._trunk = trunk
        self._fork = branches.Fork(trunk._engine)
        self._open = self._fork.engine
        self._monitor = self._open.monitor
        self._hub = None

    def discard(self) -> None:
        """Give the branch up, with all that has changed in it."""
        self.close()

    def diff(self, name: str) -> list[tuple[Row, int]]:
        """In what a table or a maintained view differs from the trunk's: rows, and how often more they occur.

        Less often, if negative. InterfaceError within a transaction.
        """
        return self._opened_fork.diff(self._trunk._engine, name)

    def changed(self) -> dict[str, tuple[int, int]]:
        """How many rows of each table have come and gone since the branch began, if any have."""
        return self._opened_fork.changed()

    def merge(self) -> dict[str, tuple[int, int]]:
        """Have the trunk's tables change as the branch's have, in one commit, and close the branch.

        Returns how many rows of each table came and went. IntegrityError, with nothing changed, if the trunk
        has changed a row that the branch has changed too, or if its rows would violate a constraint there;
        NotSupportedError if tables or views were defined in the branch.
        """
        merged = self._opened_fork.merge(self._trunk._engine)
        self.close()
        return merged

    @property
    def _opened_fork(self) -> "Fork":
        _ = self._engine  # InterfaceError if the branch was closed
        return self._fork
