"""Functions that do something, for each row of a query that is asked once: ``pg_notify`` and its like."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kpg.compiler.permitted import need_any
from kpg.compiler.sql import acting
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.volatile import NEEDED
from kpg.engine import Engine
from kpg.result import Result
from kpg.result import listing as listed
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT, Type

Act = Callable[[Engine, Sequence[Any]], Any]


def _notify(engine: Engine, args: Sequence[Any]) -> str:
    channel, payload = args
    box = engine.transactions.box(engine.channels)
    box.notify(channel or "", payload or "", engine.transactions.depth)
    return ""


def _cancel(engine: Engine, args: Sequence[Any]) -> bool:
    return engine.ends is not None and args[0] is not None and engine.ends(args[0], False)


def _terminate(engine: Engine, args: Sequence[Any]) -> bool:
    return engine.ends is not None and args[0] is not None and engine.ends(args[0], True)


def _setval(engine: Engine, args: Sequence[Any]) -> int | None:
    if any(arg is None for arg in args):
        return None
    name = engine.catalog.sequence(str(args[0]).strip('"')).name
    if engine.catalog.is_limited:
        need_any(engine.catalog, ("SEQUENCE", name.lower()), NEEDED["setval"])
    found = engine.sequences.call("setval", (name, *map(str, args[1:])))
    engine.keep()
    return found


ACTS: Final[Mapping[str, tuple[Type, Act]]] = {
    "pg_notify": (TEXT, _notify),
    "pg_cancel_backend": (BOOLEAN, _cancel),
    "pg_terminate_backend": (BOOLEAN, _terminate),
    "setval": (BIGINT, _setval),
}
"""By name: the type of what comes out, and what it does."""


def acts(statement: ast.Select) -> bool:
    """Whether columns of a query are to do something."""
    return acting.acts(statement.query)


def idle(statement: ast.Select) -> ast.Select:
    """A query with the same columns that does nothing."""
    return replace(statement, query=acting.idle(statement.query))


def run(engine: Engine, statement: ast.Select, select: Callable[[Engine, ast.Select], Result]) -> Result:
    """The query's rows; what it does is done for each of them, in their order."""
    tree, parts = acting.with_arguments(statement.query, statement.span)
    found = select(engine, replace(statement, query=tree))
    rows = found.fetchall()
    made: dict[str, tuple[Type, list[Any]]] = {}
    place = 0
    for name, label in parts:
        key = label or found.columns[place]
        while key in made:
            key += " "
        if name:
            type_, act = ACTS[name]
            count = len(acting.ACTS[name][1])
            made[key] = (type_, [act(engine, row[place : place + count]) for row in rows])
            place += count
        else:
            made[key] = (found.types[place], [row[place] for row in rows])
            place += 1
    engine.transactions.say()
    return listed(made)
