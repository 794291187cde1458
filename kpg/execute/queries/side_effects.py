"""Functions with side effects, such as ``pg_notify``: called once for each row of a one-time query."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kpg.api.result import Result
from kpg.api.result import listing as listed
from kpg.compiler.catalog.access_control import need_any
from kpg.compiler.sql.bind import per_row_calls
from kpg.compiler.sql.bind.volatile_calls import NEEDED
from kpg.compiler.sql.parse import statements as ast
from kpg.runtime.errors import DataError, InterfaceError, PrivilegeError
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT, Type
from kpg.session.engine import Engine
from kpg.session.locks import EXCLUSIVE, SHARED, Wish
from kpg.session.notices import warn

Act = Callable[[Engine, Sequence[Any]], Any]


def _notify(engine: Engine, args: Sequence[Any]) -> str:
    channel, payload = args
    box = engine.transactions.box(engine.channels)
    box.notify(channel or "", payload or "", engine.transactions.depth)
    return ""


SIGNALS: Final = "pg_signal_backend"
NAP: Final = 0.05
"""Seconds after which somebody who sleeps where nobody else has a turn looks whether it is cancelled."""
MOST_NAPS: Final = 50
"""Naps of one statement in which others have their turn: what comes before each of them is done again."""


def _cancel(engine: Engine, args: Sequence[Any]) -> bool:
    return _end(engine, args[0], wholly=False)


def _terminate(engine: Engine, args: Sequence[Any]) -> bool:
    return _end(engine, args[0], wholly=True)


def _end(engine: Engine, number: int | None, *, wholly: bool) -> bool:
    if engine.sessions is None or number is None:
        return False
    if engine.catalog.is_limited:
        _need_to_end(engine, number, wholly=wholly)
    return engine.sessions.end(number, wholly)


def _need_to_end(engine: Engine, number: int, *, wholly: bool) -> None:
    """PrivilegeError if who asks may not end what a session does, or the session."""
    catalog = engine.catalog
    role = next((str(one[1]) for one in catalog.activity() if one[0] == number), None)
    if role is None:
        return
    does, doing, done = (
        ("terminate process", "process is being terminated", "terminate this process")
        if wholly
        else ("cancel query", "query is being canceled", "cancel this query")
    )
    mine = catalog.rights.acts_as(catalog.asker.user)
    if catalog.rights.find(role) is None or catalog.rights.is_superuser(role):
        many = "terminate processes" if wholly else "cancel queries"
        detail = f"Only roles with the SUPERUSER attribute may {many} of roles with the SUPERUSER attribute."
    elif role in mine or SIGNALS in mine:
        return
    else:
        detail = (
            f"Only roles with privileges of the role whose {doing} or with privileges of the "
            f'"{SIGNALS}" role may {done}.'
        )
    raise PrivilegeError(f"permission denied to {does}", detail=detail)


def _setval(engine: Engine, args: Sequence[Any]) -> int | None:
    if any(arg is None for arg in args):
        return None
    name = engine.catalog.sequence(str(args[0]).strip('"')).name
    if engine.catalog.is_limited:
        need_any(engine.catalog, ("SEQUENCE", name.lower()), NEEDED["setval"])
    found = engine.sequences.call("setval", (name, *map(str, args[1:])))
    engine.keep()
    return found


def _lock(
    engine: Engine, args: Sequence[Any], *, shared: bool, until_end: bool, waits: bool
) -> "str | bool | None":
    if any(arg is None for arg in args):
        return None
    given = engine.locks.take(engine, _wish(args, shared=shared), until_end=until_end, waits=waits)
    return "" if waits else given


def _unlock(engine: Engine, args: Sequence[Any], *, shared: bool) -> bool | None:
    if any(arg is None for arg in args):
        return None
    held = engine.locks.let_go(engine.catalog.asker.number, _wish(args, shared=shared))
    if not held:
        warn(engine, f"you don't own a lock of type {SHARED if shared else EXCLUSIVE}", "01000")
    return held


def _wish(args: Sequence[int], *, shared: bool) -> Wish:
    first, second = args
    mode = SHARED if shared else EXCLUSIVE
    if second == per_row_calls.NO_NUMBER:
        return Wish((first,), mode)
    if not all(-(2**31) <= one < 2**31 for one in args):
        raise DataError("integer out of range")
    return Wish((first, second), mode)


def _unlock_all(engine: Engine, args: Sequence[Any]) -> str:
    engine.locks.let_all_go(engine.catalog.asker.number)
    return ""


def _export_snapshot(engine: Engine, args: Sequence[Any]) -> str:
    if engine.sessions is None:
        raise InterfaceError("only sessions have snapshots", hint="ask by db.session()")
    return engine.sessions.export()


def _sleep(engine: Engine, args: Sequence[Any]) -> str | None:
    """Sleep: in a session others have their turn meanwhile.

    A function is run again after each nap, up to it: one of many naps takes the others in one go.
    """
    if args[0] is None:
        return None
    locks, seconds = engine.locks, max(float(args[0]), 0.0)
    if locks.suspends and locks.naps < MOST_NAPS:
        locks.sleep(seconds)
        return ""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        engine.interrupt.check()
        time.sleep(min(left, NAP))
    return ""


ACTS: Final[Mapping[str, tuple[Type, Act]]] = {
    "pg_notify": (TEXT, _notify),
    "pg_cancel_backend": (BOOLEAN, _cancel),
    "pg_terminate_backend": (BOOLEAN, _terminate),
    "setval": (BIGINT, _setval),
    "pg_sleep": (TEXT, _sleep),
    "pg_advisory_unlock_all": (TEXT, _unlock_all),
    "pg_export_snapshot": (TEXT, _export_snapshot),
    **{
        name: (
            TEXT if kind == "text" else BOOLEAN,
            partial(_unlock, shared=name.endswith("shared"))
            if "unlock" in name
            else partial(
                _lock, shared=name.endswith("shared"), until_end="xact" in name, waits="try" not in name
            ),
        )
        for name, kind in per_row_calls.LOCKS.items()
    },
}
"""By name: the type of what comes out, and what it does."""


def acts(statement: ast.Select) -> bool:
    """Whether columns of a query are to do something."""
    return per_row_calls.acts(statement.query)


def idle(statement: ast.Select) -> ast.Select:
    """A query with the same columns that does nothing."""
    return replace(statement, query=per_row_calls.idle(statement.query))


def run(engine: Engine, statement: ast.Select, select: Callable[[Engine, ast.Select], Result]) -> Result:
    """The query's rows; what it does is done for each of them, in their order."""
    tree, parts = per_row_calls.with_arguments(statement.query, statement.span)
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
            count = len(per_row_calls.ACTS[name][1])
            made[key] = (type_, [act(engine, row[place : place + count]) for row in rows])
            place += count
        else:
            made[key] = (found.types[place], [row[place] for row in rows])
            place += 1
    engine.transactions.say()
    return listed(made)
