"""Transaction swap: takes a session's uncommitted changes out of the tables, and puts them back.

The engine has one set of tables. They contain a session's uncommitted rows only while its statement runs.
Before a statement of another session they are swapped out (*parked*), so that no other session sees them.
Swapping in applies the changes again: a row to be deleted must still exist. If it does not, another session
has changed it, and the transaction ends (first committer wins).
"""

import numpy as np
from numpy.typing import NDArray

from kpg.execute.changes.foreign_keys import References, Removed
from kpg.runtime.errors import SerializationError
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine, Point

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """What a transaction has changed in one table since a point: rowids are those at the time of parking."""

    table: str
    schema: object
    deleted: Words
    inserted: Words
    words: Words


@dataclass(frozen=True, slots=True)
class Segment:
    """What it has changed up to its next savepoint, whose name is ``name``; the last has none."""

    parts: tuple[Part, ...]
    name: str = ""


Points = list[tuple[str, Point]]


def park(engine: Engine, points: Points) -> list[Segment]:
    """Take all uncommitted changes out of the tables; ``points`` are the transaction's savepoints."""
    segments: list[Segment] = []
    end = ""
    for name, point in reversed(points):
        segments.append(_segment(engine, point, end))
        engine.rollback_to(point)
        end = name
    segments.append(_segment(engine, None, end))
    engine.rollback()
    return segments[::-1]


def _segment(engine: Engine, point: Point | None, name: str) -> Segment:
    changed = engine.executor.changed_since(None if point is None else point.rows)
    parts = tuple(
        Part(table, engine.catalog.entries[table.lower()].schema, deleted, inserted, words)
        for table, deleted, inserted, words in changed
    )
    return Segment(parts, name)


def _references(engine: Engine) -> References | None:
    return engine.tables.foreign_keys if engine.tables.references is not None else None


def unpark(engine: Engine, segments: list[Segment], points: Points) -> None:
    """Put changes back, and the savepoints, anew, into ``points``.

    SerializationError where that cannot be: what comes before the last savepoint in ``points`` is there then.
    """
    moved: dict[str, list[tuple[Words, Words]]] = {}
    try:
        for segment in segments:
            for part in segment.parts:
                _check(engine, part)
                _delete(engine, part, moved)
            for part in segment.parts:
                _insert(engine, part, moved)
            references = _references(engine)
            if references is not None and segment.parts:
                # Others may have changed the other side of a foreign key.
                references.settle(committing=False)
            if segment.name:
                points.append((segment.name, engine.savepoint()))
    except BaseException:
        if points:
            engine.rollback_to(points[-1][1])
        else:
            engine.rollback()
        raise


def _check(engine: Engine, part: Part) -> None:
    entry = engine.catalog.entries.get(part.table.lower())  # whatever the path is
    if entry is None or entry.schema != part.schema:
        raise SerializationError(f'could not serialize access: table "{part.table}" was altered meanwhile')


def _delete(engine: Engine, part: Part, moved: dict[str, list[tuple[Words, Words]]]) -> None:
    if not part.deleted.size:
        return
    rowids = _now(part.table, part.deleted, moved)
    live = engine.executor.live(part.table, rowids)
    if live.size < rowids.size:
        raise SerializationError(
            f'could not serialize access due to concurrent update of a row of table "{part.table}"'
        )
    old = engine.executor.fetch(part.table, rowids)
    engine.executor.delete(part.table, rowids)
    references = _references(engine)
    if references is not None:
        # What the deletion does to other tables is among the changes: it only has to be checked again.
        for link in references.incoming(part.table):
            columns = list(link.target_columns)
            references.removals.append(Removed(link, old[columns], None, checked=True))


def _insert(engine: Engine, part: Part, moved: dict[str, list[tuple[Words, Words]]]) -> None:
    if not part.inserted.size:
        return
    rowids = engine.executor.insert(part.table, part.words)
    moved.setdefault(part.table, []).append((part.inserted, rowids))
    references = _references(engine)
    if references is not None:
        references.inserted(part.table, rowids, part.words)


def _now(table: str, rowids: Words, moved: dict[str, list[tuple[Words, Words]]]) -> Words:
    """Rowids of rows, of which those of the transaction itself have come again elsewhere."""
    found = rowids.copy()
    for before, after in moved.get(table, ()):
        place = np.searchsorted(before, rowids)
        place[place == before.size] = 0
        same = before[place] == rowids
        found[same] = after[place[same]]
    return np.sort(found)
