"""Transaction swap: takes a session's uncommitted changes out of the tables, and puts them back.

The engine has one set of tables. They contain a session's uncommitted rows only while its statement
runs. Before a statement of another session they are swapped out, so that no other session sees
them. Swapping in applies the changes again: a row to be deleted must still exist. If it does not,
another session has changed it, and the transaction ends (first committer wins).
"""

import numpy as np
from numpy.typing import NDArray

from kpg.execute.changes.foreign_keys import References, RemovedKeys
from kpg.runtime.errors import SerializationError
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine, EngineSavepoint

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of a transaction in one table since a savepoint, by rowids at the time of swapping out."""

    table: str
    schema: object
    deleted: Words
    inserted: Words
    words: Words


@dataclass(frozen=True, slots=True)
class Segment:
    """The changes up to the next savepoint, whose name is ``name``; empty for the last segment."""

    parts: tuple[TableChanges, ...]
    name: str = ""


Savepoints = list[tuple[str, EngineSavepoint]]


def swap_out(engine: Engine, savepoints: Savepoints) -> list[Segment]:
    """Take all uncommitted changes out of the tables; ``savepoints`` are the transaction's savepoints."""
    segments: list[Segment] = []
    end = ""
    for name, point in reversed(savepoints):
        segments.append(_segment(engine, point, end))
        engine.rollback_to(point)
        end = name
    segments.append(_segment(engine, None, end))
    engine.rollback()
    return segments[::-1]


def _segment(engine: Engine, point: EngineSavepoint | None, name: str) -> Segment:
    changed = engine.executor.tables.changes_since(None if point is None else point.rows)
    parts = tuple(
        TableChanges(table, engine.catalog.entries[table.lower()].schema, deleted, inserted, words)
        for table, deleted, inserted, words in changed
    )
    return Segment(parts, name)


def _references(engine: Engine) -> References | None:
    return engine.tables.foreign_keys if engine.tables.references is not None else None


def swap_in(engine: Engine, segments: list[Segment], savepoints: Savepoints) -> None:
    """Put changes back, and append new savepoints to ``savepoints``.

    On SerializationError the changes before the last savepoint in ``savepoints`` remain.
    """
    new_rowids: dict[str, list[tuple[Words, Words]]] = {}
    try:
        for segment in segments:
            for part in segment.parts:
                _check_schema(engine, part)
                _delete(engine, part, new_rowids)
            for part in segment.parts:
                _insert(engine, part, new_rowids)
            references = _references(engine)
            if references is not None and segment.parts:
                # Another session may have changed the other side of a foreign key.
                references.run_actions_and_check(at_commit=False)
            if segment.name:
                savepoints.append((segment.name, engine.savepoint()))
    except BaseException:
        if savepoints:
            engine.rollback_to(savepoints[-1][1])
        else:
            engine.rollback()
        raise


def _check_schema(engine: Engine, part: TableChanges) -> None:
    entry = engine.catalog.entries.get(part.table.lower())  # independent of the search path
    if entry is None or entry.schema != part.schema:
        raise SerializationError(f'could not serialize access: table "{part.table}" was altered meanwhile')


def _delete(engine: Engine, part: TableChanges, new_rowids: dict[str, list[tuple[Words, Words]]]) -> None:
    if not part.deleted.size:
        return
    rowids = _current_rowids(part.table, part.deleted, new_rowids)
    live = engine.executor.tables.filter_live(part.table, rowids)
    if live.size < rowids.size:
        raise SerializationError(
            f'could not serialize access due to concurrent update of a row of table "{part.table}"'
        )
    old = engine.executor.tables.fetch(part.table, rowids)
    engine.executor.tables.delete(part.table, rowids)
    references = _references(engine)
    if references is not None:
        # The changes include the referential actions of the deletion: it is only checked again.
        for link in references.incoming(part.table):
            columns = list(link.target_columns)
            references.removals.append(RemovedKeys(link, old[columns], None, is_acted_on=True))


def _insert(engine: Engine, part: TableChanges, new_rowids: dict[str, list[tuple[Words, Words]]]) -> None:
    if not part.inserted.size:
        return
    rowids = engine.executor.tables.insert(part.table, part.words)
    new_rowids.setdefault(part.table, []).append((part.inserted, rowids))
    references = _references(engine)
    if references is not None:
        references.record_insert(part.table, rowids, part.words)


def _current_rowids(table: str, rowids: Words, new_rowids: dict[str, list[tuple[Words, Words]]]) -> Words:
    """Return current rowids: the transaction's own rows get new ones at each swap."""
    found = rowids.copy()
    for before, after in new_rowids.get(table, ()):
        place = np.searchsorted(before, rowids)
        place[place == before.size] = 0
        same = before[place] == rowids
        found[same] = after[place[same]]
    return np.sort(found)
