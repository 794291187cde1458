"""What a session has, as relations of the system show it: cursors, prepared statements, settings."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kpg.engine.lock_modes import SHOWN

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import TableEntry
    from kpg.engine.engine import Engine

Row = tuple[int | str | None, ...]
LOW: Final = 2**32 - 1


def session_rows(engine: "Engine", what: str) -> Iterable[Row]:
    """The rows of a kind."""
    match what:
        case "cursors":
            from kpg.statements.cursors import listed

            return listed(engine)
        case "prepared":
            return _prepared(engine)
        case "locks":
            return _locks(engine)
        case "uses":
            return engine.uses()
        case "rows":
            return [(entry.name, engine.statistics.rows(entry.name)) for entry in _tables(engine)]
        case "changes":
            return [(one.name, *_changes(engine, one.name)) for one in _tables(engine)]
        case _:
            from kpg.settings.settings import SETTINGS, shown

            return [(name, shown(engine, name)) for name in sorted({*SETTINGS, *engine.settings})]


def _tables(engine: "Engine") -> Iterable["TableEntry"]:
    from kpg.compiler.catalog.entries import TableEntry

    return [entry for entry in engine.catalog if isinstance(entry, TableEntry)]


def _changes(engine: "Engine", name: str) -> tuple[int, int, int]:
    """How many rows of a table came, were changed and went."""
    table = engine.find_table(name)
    return (0, 0, 0) if table is None else (table.tally.inserted, table.tally.updated, table.tally.deleted)


def _locks(engine: "Engine") -> Iterable[Row]:
    """Locks: a table or none, a rowid, two numbers and which kind of advisory lock it is, then of all kinds
    the session, the mode, and whether it has it.
    """
    if "locks" not in vars(engine):
        return
    for key, number, mode, granted in engine.locks.listed():
        first, *more = key
        shown, has = SHOWN.get(mode, mode), str(granted).lower()
        if isinstance(first, str):
            yield first, int(more[0]) if more else None, None, None, None, number, shown, has
            continue
        high, low = (first, int(more[0])) if more else (first >> 32 & LOW, first)
        yield None, None, high & LOW, low & LOW, len(key), number, shown, has


def _prepared(engine: "Engine") -> Iterable[Row]:
    for one, by_sql in engine.prepared.all(engine):
        place = one.span
        types = "{" + ",".join(one.types) + "}"
        yield one.name, place.source[place.start : place.end], types, int(by_sql)
