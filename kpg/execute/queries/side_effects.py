"""Functions with side effects, such as ``pg_notify``: called once for each row of a one-time query."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kpg.api.result import Result
from kpg.api.result import listing as listed
from kpg.compiler.catalog.access_control import require_any_privilege
from kpg.compiler.sql.bind import per_row_calls
from kpg.compiler.sql.bind.volatile_calls import SEQUENCE_PRIVILEGES
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.features import ADVISORY_LOCK_FUNCTIONS
from kpg.runtime.errors import DataError, InterfaceError, PrivilegeError
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT, Type
from kpg.session.engine import Engine
from kpg.session.locks import EXCLUSIVE, SHARED, LockRequest
from kpg.session.notices import warn

Action = Callable[[Engine, Sequence[Any]], Any]


def _notify(engine: Engine, args: Sequence[Any]) -> str:
    channel, payload = args
    box = engine.transactions.get_mailbox(engine.channels)
    box.notify(channel or "", payload or "", engine.transactions.depth)
    return ""


SIGNALS: Final = "pg_signal_backend"
CANCEL_CHECK_INTERVAL: Final = 0.05
"""Seconds between checks for a cancel while the engine sleeps."""
MAX_SLEEPS: Final = 50
"""Sleeps of one statement during which other sessions run. The statement runs again after each."""


def _cancel(engine: Engine, args: Sequence[Any]) -> bool:
    return _signal(engine, args[0], wholly=False)


def _terminate(engine: Engine, args: Sequence[Any]) -> bool:
    return _signal(engine, args[0], wholly=True)


def _signal(engine: Engine, number: int | None, *, wholly: bool) -> bool:
    if engine.sessions is None or number is None:
        return False
    if engine.catalog.checks_privileges:
        _check_signal_privilege(engine, number, wholly=wholly)
    return engine.sessions.signal(number, wholly)


def _check_signal_privilege(engine: Engine, number: int, *, wholly: bool) -> None:
    """Raise PrivilegeError if the role may not cancel or terminate the session."""
    catalog = engine.catalog
    role = next((str(row[1]) for row in catalog.activity() if row[0] == number), None)
    if role is None:
        return
    verb, progressive, infinitive = (
        ("terminate process", "process is being terminated", "terminate this process")
        if wholly
        else ("cancel query", "query is being canceled", "cancel this query")
    )
    roles = catalog.privileges.effective_roles(catalog.asker.user)
    if catalog.privileges.find_role(role) is None or catalog.privileges.is_superuser(role):
        many = "terminate processes" if wholly else "cancel queries"
        detail = f"Only roles with the SUPERUSER attribute may {many} of roles with the SUPERUSER attribute."
    elif role in roles or SIGNALS in roles:
        return
    else:
        detail = (
            f"Only roles with privileges of the role whose {progressive} or with privileges of the "
            f'"{SIGNALS}" role may {infinitive}.'
        )
    raise PrivilegeError(f"permission denied to {verb}", detail=detail)


def _setval(engine: Engine, args: Sequence[Any]) -> int | None:
    if any(arg is None for arg in args):
        return None
    name = engine.catalog.sequence(str(args[0]).strip('"')).name
    if engine.catalog.checks_privileges:
        require_any_privilege(engine.catalog, ("SEQUENCE", name.lower()), SEQUENCE_PRIVILEGES["setval"])
    found = engine.sequences.call("setval", (name, *map(str, args[1:])))
    engine.commit_definitions()
    return found


def _lock(
    engine: Engine, args: Sequence[Any], *, shared: bool, until_end: bool, waits: bool
) -> "str | bool | None":
    if any(arg is None for arg in args):
        return None
    is_granted = engine.locks.acquire(
        engine, _lock_request(args, shared=shared), until_end=until_end, blocks=waits
    )
    return "" if waits else is_granted


def _unlock(engine: Engine, args: Sequence[Any], *, shared: bool) -> bool | None:
    if any(arg is None for arg in args):
        return None
    was_held = engine.locks.unlock(engine.catalog.asker.number, _lock_request(args, shared=shared))
    if not was_held:
        warn(engine, f"you don't own a lock of type {SHARED if shared else EXCLUSIVE}", "01000")
    return was_held


def _lock_request(args: Sequence[int], *, shared: bool) -> LockRequest:
    first, second = args
    mode = SHARED if shared else EXCLUSIVE
    if second == per_row_calls.NO_SECOND_KEY:
        return LockRequest((first,), mode)
    if not all(-(2**31) <= arg < 2**31 for arg in args):
        raise DataError("integer out of range")
    return LockRequest((first, second), mode)


def _unlock_all(engine: Engine, args: Sequence[Any]) -> str:
    engine.locks.unlock_all(engine.catalog.asker.number)
    return ""


def _export_snapshot(engine: Engine, args: Sequence[Any]) -> str:
    if engine.sessions is None:
        raise InterfaceError("only sessions have snapshots", hint="open a session with db.session()")
    return engine.sessions.export_snapshot()


def _sleep(engine: Engine, args: Sequence[Any]) -> str | None:
    """Sleep; in a session, others run in the meantime.

    After each sleep the statement runs again up to it. Beyond ``MAX_SLEEPS`` the engine itself sleeps.
    """
    if args[0] is None:
        return None
    locks, seconds = engine.locks, max(float(args[0]), 0.0)
    if locks.can_suspend and locks.sleeps < MAX_SLEEPS:
        locks.sleep(seconds)
        return ""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        engine.interrupt.check()
        time.sleep(min(left, CANCEL_CHECK_INTERVAL))
    return ""


ACTIONS: Final[Mapping[str, tuple[Type, Action]]] = {
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
        for name, kind in ADVISORY_LOCK_FUNCTIONS.items()
    },
}
"""The result type and the implementation of each function."""


def has_side_effects(statement: ast.Select) -> bool:
    """Whether columns of a query have side effects."""
    return per_row_calls.has_side_effects(statement.query)


def without_side_effects(statement: ast.Select) -> ast.Select:
    """Return a query with the same columns and no side effects."""
    return replace(statement, query=per_row_calls.without_side_effects(statement.query))


def run_with_side_effects(
    engine: Engine, statement: ast.Select, select: Callable[[Engine, ast.Select], Result]
) -> Result:
    """Return the query's rows after calling the functions for each row, in order."""
    tree, parts = per_row_calls.with_call_arguments(statement.query, statement.span)
    result = select(engine, replace(statement, query=tree))
    rows = result.fetchall()
    columns: dict[str, tuple[Type, list[Any]]] = {}
    place = 0
    for name, label in parts:
        key = label or result.columns[place]
        while key in columns:
            key += " "
        if name:
            type_, act = ACTIONS[name]
            count = len(per_row_calls.SIDE_EFFECT_FUNCTIONS[name][1])
            columns[key] = (type_, [act(engine, row[place : place + count]) for row in rows])
            place += count
        else:
            columns[key] = (result.types[place], [row[place] for row in rows])
            place += 1
    engine.transactions.send_messages()
    return listed(columns)
