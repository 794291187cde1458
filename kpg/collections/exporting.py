"""Collections by name: what SQL knows, as collections, and collections, as views that SQL can read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kpg.collections.arranged import Arranged
from kpg.collections.assembly import assemble
from kpg.collections.collection import Collection
from kpg.collections.planned import planned_term
from kpg.collections.rows import Rows, fetched, plain
from kpg.collections.term import Term
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import Select
from kpg.listeners.feed import Feed
from kpg.queries import planning
from kpg.queries.reading import Reader
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.runtime.plan import Ref
from kpg.runtime.records import dataclass
from kpg.runtime.types import ROWID
from kpg.view import Maintained

if TYPE_CHECKING:
    from kpg.collections.dataflow import Dataflow
    from kpg.engine.engine import Engine


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
    planned = planning.plan(query, engine.catalog, engine.statistics)
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
    if collection._flow._engine is not engine:
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
    engine.views[name] = maintained
    return Export(Arranged(flow, index, key), maintained)


def refuse_used(engine: "Engine", exports: Mapping[str, Export], label: str) -> None:
    """Raise ProgrammingError if a view reads one of the exports."""
    for name, export in exports.items():
        users = [user for user in engine.dependents(name) if user != label]
        if export.maintained.live and users:
            raise ProgrammingError(
                f'the dataflow cannot be dropped: "{users[0]}" uses "{name}"', hint=f'drop "{users[0]}" first'
            )


def withdraw(engine: "Engine", exports: Mapping[str, Export]) -> None:
    """Forget exports but those that SQL has dropped."""
    for name, export in exports.items():
        if export.maintained.live:
            engine.drop(name)
