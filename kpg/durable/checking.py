"""Whether a database is what it should be: files to the last bit, indexes by rows, views by their queries."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kpg.compiler.catalog import TableEntry
from kpg.durable.inspecting import damage
from kpg.durable.opening import open_folder
from kpg.engine.engine import Engine
from kpg.runtime.errors import Error
from kpg.runtime.handles import Installation
from kpg.runtime.trace.updates import Updates


def check(folder: str | Path, *, imports: bool = False, left: dict[str, str] | None = None) -> Iterator[str]:
    """What is wrong with the database in a folder, a line for each thing; it is not written to.

    Beside a process that has it open this is about its last commit. No code that the folder names is run but
    with ``imports``: views that call users' functions are ``left`` out, and why is told there.
    """
    found = False
    for line in damage(folder):
        found = True
        yield line
    if found:
        return
    engine = Engine()
    try:
        found_left = open_folder(engine, folder, read_only=True, whole=imports)
    except Error as error:
        yield f"{folder} cannot be opened: {error.message}"
        return
    if left is not None:
        left.update(found_left)
    try:
        yield from check_contents(engine)
    finally:
        engine.close()


def check_contents(engine: Engine) -> Iterator[str]:
    """What is wrong with the indexes and views of a database."""
    for entry in list(engine.catalog):
        if isinstance(entry, TableEntry):
            try:
                yield from engine.executor.check(entry.name)
            except Error as error:
                yield f"table {entry.name} cannot be read: {error.message}"
    for name in sorted(engine._indexes):
        yield from _check_index(engine, name, engine._indexes[name])
    for name in sorted(engine.views):
        view = engine.views[name]
        if view.sql:
            from kpg.statements.verify import verify

            try:
                verify(engine, view)
            except Error as error:
                yield f"{error.message}{'' if error.hint is None else f' ({error.hint})'}"


def _check_index(engine: Engine, name: str, installed: Installation) -> Iterator[str]:
    try:
        again = engine.executor.install(f"check {name}", engine._plans[f"index {name}"], isolated=True)
        try:
            (kept, counts), (expected, counted) = installed.rows(), again.rows()
        finally:
            engine.executor.uninstall(again)
    except Error as error:
        yield f"index {name} cannot be read: {error.message}"
        return
    parts = [Updates.of(kept, (0,), counts), Updates.of(expected, (0,), -np.asarray(counted))]
    wrong = len(Updates.concat(parts).consolidate())
    if wrong:
        yield f"index {name} differs from its table in {wrong} entries"
