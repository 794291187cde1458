"""Databases over a folder in memory, and all that can be read of a database, to be compared with another."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import kpg
from kpg.api.database import Database
from kpg.compiler.catalog.entries import TEMPORARY
from kpg.persistence.database_state import is_temporary
from kpg.persistence.recovery import OpenOptions, open_files
from kpg.runtime.storage.files import Files
from kpg.session.engine import Engine

State = dict[str, Any]
"""What :func:`contents` gives."""


def opened(
    files: Files,
    synchronous: str = "full",
    *,
    read_only: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    history: int | None = None,
) -> Database:
    """A database in a folder that need not be the disk's."""
    database = kpg.connect(history=history)
    engine: Engine = database._engine
    open_files(engine, files, OpenOptions(synchronous, read_only, functions))
    return database


def contents(database: Database) -> dict[str, Any]:
    """All that SQL shows but what the session ends with: relations with their rows, constraints, rights."""
    found: dict[str, Any] = {"epoch": database.epoch}
    engine = database._engine
    passing = {entry.name for entry in engine.catalog if is_temporary(entry.name)}
    passing |= {one for name in passing for one in engine.views.dependents(name)}
    for entry in engine.catalog:
        if entry.name in passing:
            continue
        rows = [tuple(row) for row in database.query(f"select * from {quoted(entry.name)}").fetchall()]
        columns = [(one.name, str(one.type), one.nullable) for one in entry.schema.columns]
        facts = getattr(entry, "constraints", None), getattr(entry, "sql", None)
        found[entry.name] = (sorted(rows, key=repr), columns, *facts)
    found["kept"] = sorted(set(engine.views) - passing)
    for name in engine.views:
        database.verify(name)
    catalog = engine.catalog
    found["sequences"] = _lasting(catalog.sequences)
    numbers = engine.sequences.next
    found["numbers"] = {name: numbers[name] for name in sorted(numbers) if name in catalog.sequences}
    for what in (
        *("schemas", "comments", "indexes", "types", "routines", "aggregates", "policies", "row_security"),
        *("partitions", "partitioned", "unique_indexes"),
    ):
        found[what] = _lasting(getattr(catalog, what))
    for what in ("owners", "acls", "default_acls"):
        found[f"rights: {what}"] = _lasting(getattr(catalog.privileges, what))
    # A password is salted: each database keeps another text for it.
    roles = catalog.privileges.roles.items()
    found["roles"] = {name: replace(one, password=one.password and "one") for name, one in roles}
    found["functions"] = sorted(catalog.functions)
    # Goals that were asked since are gone, and are made again when they are asked again.
    found["programs"] = sorted(name for name in engine.dataflows if "/goal " not in name)
    found["extras"] = dict(engine.extras)
    found["clock"] = engine.clock.advanced_time
    return found


def _lasting(named: Mapping[Any, Any]) -> dict[Any, Any]:
    """What no session ends with, by names, or by a kind and names."""
    return {
        key: one
        for key, one in named.items()
        if not any(part.startswith(TEMPORARY) for part in ([key] if isinstance(key, str) else key))
    }


def share_numbers(db: Database, beside: Database) -> None:
    """Have sequences go on with the same numbers."""
    beside._engine.sequences.next.clear()
    beside._engine.sequences.next.update(db._engine.sequences.next)


def comparable(state: State) -> State:
    """What has to be the same: not epochs of nothing, nor numbers that statements took which failed.

    Nor whether there is a table of positions while it has none: it is there as soon as it is asked for.
    """
    left_out = {"epoch", "numbers"}
    if "kpg_positions" in state and not state["kpg_positions"][0]:
        left_out.add("kpg_positions")
    return {key: value for key, value in state.items() if key not in left_out}


def difference(one: State, other: State) -> State:
    """What is not the same."""
    keys = [*one, *(key for key in other if key not in one)]
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}


def check_past(db: Database, epoch: int, states: list[State], seed: int) -> None:
    """What was there at an epoch, the first of states up to the present one, is what is said to have been.

    What is not kept any more may be refused.
    """
    then, now = states[0], states[-1]
    for name in sorted({"t", "u", "audit", "p", "base", "follows", "arc"} & then.keys() & now.keys()):
        with refused():
            rows = db.query(f"select * from {name} as of {epoch}").fetchall()
            assert sorted(map(tuple, rows), key=repr) == then[name][0], (seed, name, epoch)
    for name in now["kept"]:
        same = {state[name][3] for state in states if name in state}
        if len(same) > 1 or any(name not in state for state in states[:-1]):
            continue
        with refused():
            net = Counter(map(repr, then[name][0]))
            for row, _, diff in db.view(name).changes(since=epoch):
                net[repr(tuple(row))] += diff
            found = {row: count for row, count in net.items() if count}
            assert found == Counter(map(repr, now[name][0])), (seed, name, epoch, found)


@contextmanager
def refused() -> Iterator[None]:
    """What is not kept any more may be refused."""
    try:
        yield
    except kpg.ProgrammingError as error:
        assert "not kept" in str(error) or "not known" in str(error) or "has not" in str(error), error


def quoted(name: str) -> str:
    """A name with the schema before its dot."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))
