"""``Dataflow``: inputs, collections and outputs that are updated together.

A dataflow imports the tables and views of SQL as collections, and exports collections as views that
SQL can read. ``Replay`` feeds recorded changes into an input.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kpg.api.view import MaintainedView
from kpg.collections.collection import Arranged, Collection, LoopScope
from kpg.collections.expression import ColumnType, column_of, schema_of
from kpg.collections.inputs import Input
from kpg.collections.operators import Index
from kpg.collections.outputs import (
    Callback,
    Captured,
    ColumnsCallback,
    ColumnsInspection,
    Inspection,
    Output,
    Probe,
)
from kpg.collections.rows import Rows, fetch_columns, term_rows
from kpg.collections.term import Term, build_plan, leaf_terms, loop_depth, plan_as_term
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import Select
from kpg.execute.queries import query_plan
from kpg.execute.queries.result_rows import Reader
from kpg.runtime import plan
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.handles import Installation
from kpg.runtime.monitor import Monitor, synchronized
from kpg.runtime.plan import Ref, user
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL, ROWID, Schema
from kpg.session.subscriptions import Feed

if TYPE_CHECKING:
    from kpg.session.engine import Engine


@dataclass(frozen=True, slots=True)
class Export:
    """A collection that is exported under a name, and its view."""

    arranged: Arranged
    maintained: MaintainedView


def import_relation(flow: "Dataflow", engine: "Engine", name: str) -> Collection:
    """Return a table or view as a collection. A view that is not materialized is planned now.

    Raises ProgrammingError if there is none of that name.
    """
    entry = engine.catalog.get(name)
    if isinstance(entry, TableEntry):
        flow.use(entry.name)
        rows = _table_rows(entry)
        return Collection(flow, rows.materialize() if engine.statistics.early_materialization else rows)
    if not entry.materialized and entry.rel is not None:
        return _expand_view(flow, engine, entry)
    maintained = engine.view(entry.name)
    for client in engine.dataflows.values():
        export = client.exports.get(entry.name) if isinstance(client, type(flow)) else None
        if export is not None and export.maintained is maintained:
            return share_collection(flow, engine, export.arranged)
    flow.use(entry.name)
    types, view = maintained.reader.types, entry.name

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Import(view, types)

    names = [*entry.schema.names, *(f"hidden {i}" for i in range(len(types) - len(entry.schema.names)))]
    flags = [column.nullable for column in entry.schema.columns]
    rows = term_rows(
        Term((), types, make, None, relation=view), names, flags + [True] * (len(names) - len(flags))
    )
    return Collection(flow, rows.select(range(len(flags))))


def _expand_view(flow: "Dataflow", engine: "Engine", entry: ViewEntry) -> Collection:
    """Return the query of a view as a collection, computed only while it is read."""
    quoted_name = entry.name.replace('"', '""')
    (query,) = parse(f'SELECT * FROM "{quoted_name}"')
    assert isinstance(query, Select)
    planned = query_plan.plan(query, engine.catalog, engine.statistics)
    flow.use(entry.name)
    hidden = len(planned.types) - len(planned.schema.columns)
    names = (*planned.schema.names, *(f"hidden {i}" for i in range(hidden)))
    flags = (*(column.nullable for column in planned.schema.columns), *(True for _ in range(hidden)))
    rows = term_rows(plan_as_term(planned.plan, planned.types), names, flags)
    return Collection(flow, rows.select(range(len(planned.schema.columns))))


def _table_rows(entry: TableEntry) -> Rows:
    """Return a table's rowids, with its columns as fetches."""
    table, schema = entry.name, entry.schema

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Source(table)

    term = Term((), (ROWID,), make, None, relation=table)
    flags = tuple(column.nullable for column in schema.columns)
    return Rows(term, (), fetch_columns(table, schema.types, 0), schema.names, flags)


def share_collection(flow: "Dataflow", engine: "Engine", collection: Collection) -> Collection:
    """Return a collection of another dataflow of the same database, with its arrangement."""
    if collection._flow.engine is not engine:
        raise InterfaceError(
            "the collection is of another database", hint="capture() it there, and replay() the record here"
        )
    if isinstance(collection, Arranged):
        return Arranged(flow, collection._index, collection.key, collection._table)
    return Collection(flow, collection._rows)


def export_view(flow: "Dataflow", engine: "Engine", name: str, collection: Collection) -> Export:
    """Create a view of this name with the rows of a collection. An arrangement is shared."""
    key = collection.key if isinstance(collection, Arranged) else tuple(collection.columns)
    index = collection._index_by(key, inline=True)
    schema = index.rows.schema
    entry = ViewEntry(name, schema, None, materialized=True)
    if name in engine.catalog:
        engine.catalog.add(entry)  # raises
    installed = flow.install(index.term, name)
    engine.catalog.add(entry)
    reader = Reader(schema.names, schema.types, (), engine.executor.dictionary)
    feed = Feed(engine.monitor, engine.executor, installed, reader, engine.history)
    if engine.history is not None:
        engine.history.keep_changes(installed)
    maintained = MaintainedView(name, "", installed, reader, feed, build_plan(index.term))
    engine.views.adopt(maintained, None)
    return Export(Arranged(flow, index, key), maintained)


def check_exports_unused(engine: "Engine", exports: Mapping[str, Export], label: str) -> None:
    """Raise ProgrammingError if a view reads one of the exports."""
    for name, export in exports.items():
        users = [user for user in engine.views.dependents(name) if user != label]
        if export.maintained.is_live and users:
            raise ProgrammingError(
                f'the dataflow cannot be dropped: "{users[0]}" uses "{name}"', hint=f'drop "{users[0]}" first'
            )


def drop_exports(engine: "Engine", exports: Mapping[str, Export]) -> None:
    """Drop the exports that SQL has not dropped."""
    for name, export in exports.items():
        if export.maintained.is_live:
            engine.drop(name)


Change = tuple[Any, int, int]


class Replay:
    """Feeds an input from a recording. A growing recording is followed."""

    def __init__(self, session: Input, changes: Captured | Iterable[Change]) -> None:
        self._input = session
        self._source = changes if isinstance(changes, Captured) else None
        self._changes: list[Change] = [] if isinstance(changes, Captured) else list(changes)
        self._position = 0

    def pull(self) -> None:
        """Read the new changes, and advance the input to the time of the recording."""
        if self._input.closed:
            return
        if self._source is None:
            self._feed(self._changes)
            self._input.close()
            return
        changes, self._position = self._source.since(self._position)
        self._feed(changes)
        time = self._source.time
        if time is None:
            self._input.close()
        elif time > self._input.time:
            self._input.advance_to(time)

    def _feed(self, changes: list[Change]) -> None:
        if not changes:
            return
        times = [time for _, time, _ in changes]
        if min(times) < self._input.time:
            raise InterfaceError(
                f"the record begins at time {min(times)}, and {self._input.name} is at {self._input.time}",
                hint="replay it into a database of its own, or shift its times",
            )
        self._input.update_many(
            [row for row, _, _ in changes],
            np.array([diff for _, _, diff in changes], np.int64),
            np.array(times, np.int64),
        )


OutputType = TypeVar("OutputType", bound=Output)
_listeners = count()


@synchronized("notifications", "place", "pull", "retire")
class Dataflow:
    """Inputs and outputs that are dropped together.

    As a context manager, it is dropped at the end of the block.

    Outputs are installed when they are created. Operators that exist already are shared. All dataflows
    and all SQL of a database run in the same steps, by one clock.
    """

    def __init__(self, engine: "Engine", name: str) -> None:
        self._monitor = engine.monitor
        self._engine = engine
        self.name = name
        self._is_live = True
        self._installed: list[Installation] = []
        self._outputs: list[Output] = []
        self._inputs: list[Input] = []
        self._replays: list[Replay] = []
        self.exports: dict[str, Export] = {}
        self._scopes: list[LoopScope] = []
        self._uses: set[str] = set()
        self._installation_count = 0

    def __enter__(self) -> "Dataflow":
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    def __repr__(self) -> str:
        return f"<Dataflow {self.name}{'' if self._is_live else ', dropped'}>"

    @property
    def monitor(self) -> Monitor:
        """The monitor of the database."""
        return self._monitor

    @property
    def engine(self) -> "Engine":
        """The engine of the database."""
        return self._engine

    @property
    def epoch(self) -> int:
        """The latest epoch that is complete everywhere."""
        return self._engine.executor.epoch

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of the database."""
        return self._engine.executor.dictionary

    def input(self, name: str, /, **types: ColumnType) -> Input:
        """Return a new input with these columns and types. Its time is the next epoch."""
        self.check()
        return self._add_input(name, schema_of(types))

    def constant(self, rows: Iterable[Any], /, **types: ColumnType) -> Collection:
        """Return a collection of rows that never change. Repeated rows have a higher multiplicity."""
        schema = schema_of(types)
        words = from_rows(list(rows), schema, self.dictionary)
        columns = [
            self.dictionary.decode(words[i])
            if type_.is_interned
            else [None if w == NULL else w for w in words[i].tolist()]
            for i, type_ in enumerate(schema.types)
        ]
        node = plan.Constant(tuple(zip(*columns, strict=True)), schema.types)

        def make(refs: Sequence[Ref]) -> plan.AnyNode:
            return node

        term = Term((), schema.types, make, None)
        return Collection(self, term_rows(term, schema.names, [column.nullable for column in schema.columns]))

    def import_(self, what: "str | Collection") -> Collection:
        """Return a table, a view or an export by its name, or a collection of another dataflow.

        Its present contents have the time of the last commit; changes follow.
        """
        self.check()
        if isinstance(what, Collection):
            return share_collection(self, self._engine, what)
        return import_relation(self, self._engine, what)

    def replay(
        self, name: str, changes: Captured | Iterable[tuple[Any, int, int]], /, **types: ColumnType
    ) -> Collection:
        """Return a collection of recorded changes (row, time, diff), at their times.

        A growing recording is followed: each step reads its new changes. Another iterable is read at once,
        and ``types`` are its columns.
        """
        self.check()
        if isinstance(changes, Captured):
            if changes.depth > 1:
                raise InterfaceError(
                    "a record of what goes on in a loop cannot be replayed",
                    hint="capture() what leaves the loop",
                )
            column_types = {**dict(zip(changes.columns, changes.types, strict=True)), **types}
            schema = Schema(
                tuple(make_column(n, column_types[n], nullable=n not in types) for n in changes.columns)
            )
        else:
            schema = schema_of(types)
        input_ = self._add_input(name, schema)
        replay = Replay(input_, changes)
        self._replays.append(replay)
        replay.pull()
        return Collection(self, input_._rows)

    def scope(self, limit: int | None = None, error_at_limit: bool = False) -> LoopScope:
        """Return a loop, ``with flow.scope() as loop:``, inside the innermost open one, if there is any."""
        self.check()
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InterfaceError(f"a limit is a positive number of rounds, not {limit!r}")
        return LoopScope(self, limit, error_at_limit)

    def enter_scope(self, loop: LoopScope) -> LoopScope | None:
        """Begin a loop's block, and return the enclosing loop, if there is any."""
        outer = self._scopes[-1] if self._scopes else None
        self._scopes.append(loop)
        return outer

    def leave_scope(self, loop: LoopScope) -> None:
        """End a loop's block."""
        self._scopes.remove(loop)

    def step(self) -> None:
        """Process all buffered updates before the least time of the database's inputs.

        Atomic: if anything raises, the state and the buffers are unchanged.
        """
        self.check()
        self._engine.advance()

    def locate_error(self, error: DataError) -> None:
        """Do nothing: operations of a dataflow have no source text."""

    def prover(self, name: str) -> None:
        """Return None: rows of a dataflow have no proofs."""

    def retire(self) -> None:
        """Close the outputs that can never change again. Exports and arrangements keep their contents."""
        for output in list(self._outputs):
            if output.time is None:
                output.close()

    def retire_completed(self) -> None:
        """Retire the outputs that a closed input has completed, now or with the next commit."""
        engine = self._engine
        if (
            self._is_live
            and not engine.closed
            and not engine.executor.is_stepping
            and engine.transactions.is_idle
        ):
            engine.retire()

    def drop(self) -> None:
        """Drop the inputs, outputs and exports, and free what has no other reader.

        Dropping twice is allowed. Raises ProgrammingError, with nothing dropped, if a view reads an export.
        """
        if not self._is_live:
            return
        if self._engine.executor.is_stepping:
            self.check()
        self._engine.swap_in_default()
        self._engine.refuse_in_transaction("dropping a dataflow")
        check_exports_unused(self._engine, self.exports, self.label)
        for output in list(self._outputs):
            output.close()
        drop_exports(self._engine, self.exports)
        for installation in self._installed:
            self._engine.executor.uninstall(installation)
        for input_ in self._inputs:
            self._engine.executor.drop_input(input_.identity)
        self._is_live = False
        self._installed.clear()
        self._replays.clear()
        self._engine.remove_dataflow(self.label)

    @property
    def label(self) -> str:
        """The dataflow's name among the users of tables and operators."""
        return f"dataflow {self.name}"

    def check(self) -> None:
        """Raise InterfaceError if the dataflow was dropped or its database closed, or from inside a step."""
        if self._engine.closed:
            raise InterfaceError("the database is closed", hint="open another one with kpg.connect()")
        if self._engine.executor.is_stepping:
            raise InterfaceError(
                "a dataflow cannot be used by a function that its own step calls",
                hint="give changes in the callback of inspect(), which is called after the step",
            )
        self._engine.swap_in_default()
        if not self._is_live:
            raise InterfaceError(f"dataflow {self.name} was dropped", hint="make another with db.dataflow()")

    def pull(self) -> None:
        """Read the new changes of recordings, before a step."""
        for replay in self._replays:
            replay.pull()

    def notifications(self) -> Iterator[Any]:
        """Yield the calls to make after a step."""
        for output in list(self._outputs):
            yield from output.notifications()

    def arrange(self, index: Index, key: tuple[str, ...], rows: Rows) -> Arranged:
        """Maintain an arrangement of rows. Inside a loop, it is maintained with the loop."""
        if index.term.scope is None:
            self.install(index.term)
        return Arranged(self, index, key, rows if rows.is_table else None)

    def inspect(self, rows: Rows, callback: Callback) -> Inspection:
        """Call a function for each change of rows: see ``Collection.inspect``."""
        return self._attach_output(rows, Inspection(self, self._reader(rows), _time_depth(rows), callback))

    def inspect_columns(self, rows: Rows, callback: ColumnsCallback) -> ColumnsInspection:
        """Call a function with the changes of columns: see ``Collection.inspect_columns``."""
        reader = self._reader(rows)
        return self._attach_output(
            rows, ColumnsInspection(self, reader, _time_depth(rows), rows.schema, callback)
        )

    def probe(self, rows: Rows) -> Probe:
        """Return a probe of rows: see ``Collection.probe``."""
        return self._attach_output(rows, Probe(self, self._reader(rows), _time_depth(rows)))

    def capture(self, rows: Rows) -> Captured:
        """Record the changes of rows: see ``Collection.capture``."""
        return self._attach_output(rows, Captured(self, self._reader(rows), _time_depth(rows)))

    def install_outputs(self, term: Term, outputs: Iterable[tuple[Output, int | None]]) -> None:
        """Install a term, and attach each output to the sink with its number."""
        for output, listener in outputs:
            output.attach(self.install(term), listener, _depends_on_inputs_only(term))
            self._outputs.append(output)
            self._engine.notify_listener(self.label, output.notifications())

    def export(self, name: str, collection: Collection) -> Arranged:
        """Maintain a collection as a view: see ``Collection.export``."""
        self.check()
        export = self.exports[name] = export_view(self, self._engine, name, collection)
        return export.arranged

    def install(self, term: Term, name: str | None = None) -> Installation:
        """Install a term. Raises InterfaceError in a transaction, or for a term inside a loop."""
        self.check()
        if term.scope is not None:
            raise InterfaceError("a collection inside a loop cannot be kept", hint="keep what leave() gives")
        self._engine.refuse_in_transaction("changing a dataflow")
        self._installation_count += 1
        for leaf in leaf_terms(term):
            if leaf.relation is not None:
                self.use(leaf.relation)
        installed = self._engine.executor.install(
            name or f"{self.label}/{self._installation_count}", build_plan(term)
        )
        self._installed.append(installed)
        return installed

    def use(self, relation: str) -> None:
        """Prevent that a table or view is dropped before the dataflow."""
        self._uses.add(relation)
        self._engine.record_reads(self.label, frozenset(self._uses))

    def close_output(self, output: Output, installed: Installation) -> None:
        """Uninstall an output."""
        self._outputs.remove(output)
        self._installed.remove(installed)
        self._engine.executor.uninstall(installed)

    def _add_input(self, name: str, schema: Schema) -> Input:
        handle = self._engine.executor.create_input(name, len(schema.columns))
        session = Input(self, name, schema, handle)
        self._inputs.append(session)
        return session

    def _reader(self, rows: Rows) -> Reader:
        return Reader(rows.names, rows.types, (), self.dictionary)

    def _attach_output(self, rows: Rows, output: OutputType) -> OutputType:
        """Attach an output to the rows; inside a loop, when its block ends."""
        self.check()
        term, listener = rows.stream(rows.values), None
        if not isinstance(output, Probe):
            listener = next(_listeners)
            term = _sink(term, listener)
        if isinstance(term.scope, LoopScope):
            term.scope.watch(term, output, listener)
        else:
            self.install_outputs(term, [(output, listener)])
        return output


def _sink(stream: Term, listener: int) -> Term:
    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Sink(refs[0], listener)

    return Term.over((stream,), (), make)


def _time_depth(rows: Rows) -> int:
    """Return the number of coordinates of the rows' times."""
    return loop_depth(rows.term.scope) + 1


def _depends_on_inputs_only(term: Term) -> bool:
    """Return whether only inputs can change the term."""
    return all(leaf.relation is None for leaf in leaf_terms(term))


def make_column(name: str, column_type: ColumnType, *, nullable: bool) -> Any:
    """Return a column of the declared type, made nullable for columns of a recording."""
    column = column_of(name, column_type)
    return replace(column, nullable=True) if nullable else column
