"""``Dataflow``: inputs, collections and outputs that are updated together.

A dataflow imports the tables and views of SQL as collections, and exports collections as views that SQL can
read. ``Replay`` feeds recorded changes into an input.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kpg.api.view import Maintained
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
from kpg.collections.rows import Rows, fetched, plain
from kpg.collections.term import Term, assemble, depth, leaves, planned_term
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
    """A collection that has a name, and the view that it is."""

    arranged: Arranged
    maintained: Maintained


def imported(flow: "Dataflow", engine: "Engine", name: str) -> Collection:
    """The relation of that name; one that is not kept is planned now. ProgrammingError if there is none."""
    entry = engine.catalog.get(name)
    if isinstance(entry, TableEntry):
        flow.use(entry.name)
        rows = _table(entry)
        return Collection(flow, rows.settled() if engine.statistics.early else rows)
    if not entry.materialized and entry.rel is not None:
        return _expanded(flow, engine, entry)
    maintained = engine.view(entry.name)
    for client in engine.dataflows.values():
        export = client.exports.get(entry.name) if isinstance(client, type(flow)) else None
        if export is not None and export.maintained is maintained:
            return adopted(flow, engine, export.arranged)
    flow.use(entry.name)
    types, view = maintained.reader.types, entry.name

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Import(view, types)

    names = [*entry.schema.names, *(f"hidden {i}" for i in range(len(types) - len(entry.schema.names)))]
    flags = [column.nullable for column in entry.schema.columns]
    rows = plain(
        Term((), types, make, None, relation=view), names, flags + [True] * (len(names) - len(flags))
    )
    return Collection(flow, rows.chosen(range(len(flags))))


def _expanded(flow: "Dataflow", engine: "Engine", entry: ViewEntry) -> Collection:
    """What the query of a view gives, computed when and as long as somebody reads it."""
    quoted = entry.name.replace('"', '""')
    (query,) = parse(f'SELECT * FROM "{quoted}"')
    assert isinstance(query, Select)
    planned = query_plan.plan(query, engine.catalog, engine.statistics)
    flow.use(entry.name)
    hidden = len(planned.types) - len(planned.schema.columns)
    names = (*planned.schema.names, *(f"hidden {i}" for i in range(hidden)))
    flags = (*(column.nullable for column in planned.schema.columns), *(True for _ in range(hidden)))
    rows = plain(planned_term(planned.plan, planned.types), names, flags)
    return Collection(flow, rows.chosen(range(len(planned.schema.columns))))


def _table(entry: TableEntry) -> Rows:
    """A table's rowids, and its columns to be fetched."""
    table, schema = entry.name, entry.schema

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Source(table)

    term = Term((), (ROWID,), make, None, relation=table)
    flags = tuple(column.nullable for column in schema.columns)
    return Rows(term, (), fetched(table, schema.types, 0), schema.names, flags)


def adopted(flow: "Dataflow", engine: "Engine", collection: Collection) -> Collection:
    """A collection of another dataflow of the same database, arrangement and all."""
    if collection._flow.engine is not engine:
        raise InterfaceError(
            "the collection is of another database", hint="capture() it there, and replay() the record here"
        )
    if isinstance(collection, Arranged):
        return Arranged(flow, collection._index, collection.key, collection._table)
    return Collection(flow, collection._rows)


def exported(flow: "Dataflow", engine: "Engine", name: str, collection: Collection) -> Export:
    """The collection as a view of that name; its rows are kept, an arrangement as it is."""
    key = collection.key if isinstance(collection, Arranged) else tuple(collection.columns)
    index = collection._indexed(key, inline=True)
    schema = index.rows.schema
    entry = ViewEntry(name, schema, None, materialized=True)
    if name in engine.catalog:
        engine.catalog.add(entry)  # raises
    installed = flow.install(index.term, name)
    engine.catalog.add(entry)
    reader = Reader(schema.names, schema.types, (), engine.executor.dictionary)
    feed = Feed(engine.monitor, engine.executor, installed, reader, engine.past)
    if engine.past is not None:
        engine.past.remember(installed)
    maintained = Maintained(name, "", installed, reader, feed, assemble(index.term))
    engine.views.adopt(maintained, None)
    return Export(Arranged(flow, index, key), maintained)


def refuse_used(engine: "Engine", exports: Mapping[str, Export], label: str) -> None:
    """Raise ProgrammingError if a view reads one of the exports."""
    for name, export in exports.items():
        users = [user for user in engine.views.dependents(name) if user != label]
        if export.maintained.live and users:
            raise ProgrammingError(
                f'the dataflow cannot be dropped: "{users[0]}" uses "{name}"', hint=f'drop "{users[0]}" first'
            )


def withdraw(engine: "Engine", exports: Mapping[str, Export]) -> None:
    """Forget exports but those that SQL has dropped."""
    for name, export in exports.items():
        if export.maintained.live:
            engine.drop(name)


Change = tuple[Any, int, int]


class Replay:
    """Feeds an input from a record; from one that grows, as it grows."""

    def __init__(self, session: Input, changes: Captured | Iterable[Change]) -> None:
        self._session = session
        self._source = changes if isinstance(changes, Captured) else None
        self._rest: list[Change] = [] if isinstance(changes, Captured) else list(changes)
        self._position = 0

    def pull(self) -> None:
        """Take what is new, and let the input come as far as the record has."""
        if self._session.closed:
            return
        if self._source is None:
            self._feed(self._rest)
            self._session.close()
            return
        found, self._position = self._source.since(self._position)
        self._feed(found)
        time = self._source.time
        if time is None:
            self._session.close()
        elif time > self._session.time:
            self._session.advance_to(time)

    def _feed(self, changes: list[Change]) -> None:
        if not changes:
            return
        times = [time for _, time, _ in changes]
        if min(times) < self._session.time:
            raise InterfaceError(
                f"the record begins at time {min(times)}, "
                f"and {self._session.name} is at {self._session.time}",
                hint="replay it into a database of its own, or shift its times",
            )
        self._session.update_many(
            [row for row, _, _ in changes],
            np.array([diff for _, _, diff in changes], np.int64),
            np.array(times, np.int64),
        )


Made = TypeVar("Made", bound=Output)
_listeners = count()


@synchronized("notifications", "place", "pull", "retire")
class Dataflow:
    """Inputs and outputs of one purpose, dropped together; as a context manager, at the end of the block.

    Outputs are installed when they are made; what they need and somebody else has computed already is
    shared. All dataflows and all SQL of a database run in its steps, by one clock.
    """

    def __init__(self, engine: "Engine", name: str) -> None:
        self._monitor = engine.monitor
        self._engine = engine
        self.name = name
        self._live = True
        self._installed: list[Installation] = []
        self._outputs: list[Output] = []
        self._inputs: list[Input] = []
        self._replays: list[Replay] = []
        self.exports: dict[str, Export] = {}
        self._scopes: list[LoopScope] = []
        self._uses: set[str] = set()
        self._made = 0

    def __enter__(self) -> "Dataflow":
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    def __repr__(self) -> str:
        return f"<Dataflow {self.name}{'' if self._live else ', dropped'}>"

    @property
    def monitor(self) -> Monitor:
        """That of its database."""
        return self._monitor

    @property
    def engine(self) -> "Engine":
        """The engine of its database."""
        return self._engine

    @property
    def epoch(self) -> int:
        """The last time that is complete in everything."""
        return self._engine.executor.epoch

    @property
    def dictionary(self) -> Dictionary:
        """Where the database keeps its strings."""
        return self._engine.executor.dictionary

    def input(self, name: str, /, **types: ColumnType) -> Input:
        """A new input of the columns named, with their types; its time is the next epoch."""
        self.check()
        return self._add_input(name, schema_of(types))

    def constant(self, rows: Iterable[Any], /, **types: ColumnType) -> Collection:
        """Rows that are there always; those given twice twice."""
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
        return Collection(self, plain(term, schema.names, [column.nullable for column in schema.columns]))

    def import_(self, what: "str | Collection") -> Collection:
        """A table, a view or an export, by name; or a collection of another dataflow.

        Its present contents are there at the time of the last commit, and its changes from then on.
        """
        self.check()
        if isinstance(what, Collection):
            return adopted(self, self._engine, what)
        return imported(self, self._engine, what)

    def replay(
        self, name: str, changes: Captured | Iterable[tuple[Any, int, int]], /, **types: ColumnType
    ) -> Collection:
        """A collection of recorded changes (row, time, diff), at their times.

        A record that still grows is followed, in each step, as far as it has come; of another iterable
        all is taken at once, and ``types`` name its columns.
        """
        self.check()
        if isinstance(changes, Captured):
            if changes.depth > 1:
                raise InterfaceError(
                    "a record of what goes on in a loop cannot be replayed",
                    hint="capture() what leaves the loop",
                )
            given = {**dict(zip(changes.columns, changes.types, strict=True)), **types}
            schema = Schema(
                tuple(schema_column(n, given[n], nullable=n not in types) for n in changes.columns)
            )
        else:
            schema = schema_of(types)
        session = self._add_input(name, schema)
        replay = Replay(session, changes)
        self._replays.append(replay)
        replay.pull()
        return Collection(self, session._rows)

    def scope(self, limit: int | None = None, error_at_limit: bool = False) -> LoopScope:
        """``with flow.scope() as loop:`` a loop, inside of the one that is being written, if any."""
        self.check()
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InterfaceError(f"a limit is a positive number of rounds, not {limit!r}")
        return LoopScope(self, limit, error_at_limit)

    def enter_scope(self, loop: LoopScope) -> LoopScope | None:
        """The beginning of a loop's block; gives the loop around it, if any."""
        outer = self._scopes[-1] if self._scopes else None
        self._scopes.append(loop)
        return outer

    def leave_scope(self, loop: LoopScope) -> None:
        """The end of a loop's block."""
        self._scopes.remove(loop)

    def step(self) -> None:
        """Take what all inputs of the database hold before the least of their times through everything.

        All or nothing: if anything raises, everything is as before, the inputs' buffers too.
        """
        self.check()
        self._engine.advance()

    def place(self, error: DataError) -> None:
        """Operations of a dataflow are in no text."""

    def prover(self, name: str) -> None:
        """Rows of a dataflow have no proofs."""

    def retire(self) -> None:
        """Close the outputs that can never change again; exports and arrangements keep what they have."""
        for output in list(self._outputs):
            if output.time is None:
                output.close()

    def closing(self) -> None:
        """Have what a closed input has brought to its end retire, now or with the next commit."""
        engine = self._engine
        if self._live and not engine.closed and not engine.executor.stepping and engine.transactions.idle:
            engine.retire()

    def drop(self) -> None:
        """Give up inputs, outputs and exports; what nobody else needs is freed. Dropping twice is allowed.

        Raises ProgrammingError, with nothing dropped, if a view reads an export.
        """
        if not self._live:
            return
        if self._engine.executor.stepping:
            self.check()
        self._engine.admit_owner()
        self._engine.refuse_in_transaction("dropping a dataflow")
        refuse_used(self._engine, self.exports, self.label)
        for output in list(self._outputs):
            output.close()
        withdraw(self._engine, self.exports)
        for installed in self._installed:
            self._engine.executor.uninstall(installed)
        for session in self._inputs:
            self._engine.executor.forget_input(session.identity)
        self._live = False
        self._installed.clear()
        self._replays.clear()
        self._engine.forget_dataflow(self.label)

    @property
    def label(self) -> str:
        """What the dataflow is called among the users of tables and operators."""
        return f"dataflow {self.name}"

    def check(self) -> None:
        """Raise InterfaceError if the dataflow was dropped, or its database closed."""
        if self._engine.closed:
            raise InterfaceError("the database is closed", hint="open another one with kpg.connect()")
        if self._engine.executor.stepping:
            raise InterfaceError(
                "a dataflow cannot be used by a function that its own step calls",
                hint="give changes in the callback of inspect(), which is called after the step",
            )
        self._engine.admit_owner()
        if not self._live:
            raise InterfaceError(f"dataflow {self.name} was dropped", hint="make another with db.dataflow()")

    def pull(self) -> None:
        """Take what records have brought, before a step."""
        for replay in self._replays:
            replay.pull()

    def notifications(self) -> Iterator[Any]:
        """What is to be called after a step."""
        for output in list(self._outputs):
            yield from output.notifications()

    def arrange(self, index: Index, key: tuple[str, ...], rows: Rows) -> Arranged:
        """Keep an arrangement of rows; inside a loop it lives as the loop does."""
        if index.term.scope is None:
            self.install(index.term)
        return Arranged(self, index, key, rows if rows.is_table else None)

    def inspect(self, rows: Rows, callback: Callback) -> Inspection:
        """See ``Collection.inspect``."""
        return self._read(rows, Inspection(self, self._reader(rows), _depth(rows), callback))

    def inspect_columns(self, rows: Rows, callback: ColumnsCallback) -> ColumnsInspection:
        """See ``Collection.inspect_columns``."""
        reader = self._reader(rows)
        return self._read(rows, ColumnsInspection(self, reader, _depth(rows), rows.schema, callback))

    def probe(self, rows: Rows) -> Probe:
        """See ``Collection.probe``."""
        return self._read(rows, Probe(self, self._reader(rows), _depth(rows)))

    def capture(self, rows: Rows) -> Captured:
        """See ``Collection.capture``."""
        return self._read(rows, Captured(self, self._reader(rows), _depth(rows)))

    def install_outputs(self, term: Term, outputs: Iterable[tuple[Output, int | None]]) -> None:
        """Compute a term, and have outputs read what the sinks of these numbers get."""
        for output, listener in outputs:
            output.attach(self.install(term), listener, _static(term))
            self._outputs.append(output)
            self._engine.tell(self.label, output.notifications())

    def export(self, name: str, collection: Collection) -> Arranged:
        """See ``Collection.export``."""
        self.check()
        export = self.exports[name] = exported(self, self._engine, name, collection)
        return export.arranged

    def install(self, term: Term, name: str | None = None) -> Installation:
        """Keep a term up to date; InterfaceError in a transaction, or for a term inside a loop."""
        self.check()
        if term.scope is not None:
            raise InterfaceError("a collection inside a loop cannot be kept", hint="keep what leave() gives")
        self._engine.refuse_in_transaction("changing a dataflow")
        self._made += 1
        for leaf in leaves(term):
            if leaf.relation is not None:
                self.use(leaf.relation)
        installed = self._engine.executor.install(name or f"{self.label}/{self._made}", assemble(term))
        self._installed.append(installed)
        return installed

    def use(self, relation: str) -> None:
        """Keep a table or view from being dropped before the dataflow is."""
        self._uses.add(relation)
        self._engine.note_uses(self.label, frozenset(self._uses))

    def close_output(self, output: Output, installed: Installation) -> None:
        """Forget one output."""
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

    def _read(self, rows: Rows, output: Made) -> Made:
        """Have an output read the rows; those of a loop once its block is written."""
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


def _depth(rows: Rows) -> int:
    """The number of parts of the rows' times."""
    return depth(rows.term.scope) + 1


def _static(term: Term) -> bool:
    """Whether only inputs can change the term."""
    return all(leaf.relation is None for leaf in leaves(term))


def schema_column(name: str, given: ColumnType, *, nullable: bool) -> Any:
    """A column as declared, or, of a record, one that may be None."""
    column = column_of(name, given)
    return replace(column, nullable=True) if nullable else column
