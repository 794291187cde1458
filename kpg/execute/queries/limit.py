"""LIMIT over a recursion that is asked once: it goes on until there are rows enough, not to its end.

The recursion is computed for some rounds, then for more; each time it is known whether that was all of it.

What a query that is asked once has computed before: LIMITs that are queries, and settings.
"""

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from kpg.api.result import Result
from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.eager_subexpressions import limits, settings, with_limits, with_settings
from kpg.execute.statements import execute, select
from kpg.postgres.sqlstate import type_name
from kpg.runtime.errors import EndlessError, ProgrammingError
from kpg.session.engine import Engine
from kpg.session.settings import SETTINGS, run_session, shown


def settled(engine: Engine, statement: ast.Select) -> ast.Select:
    """A query with constants in the place of these."""
    asked = limits(statement.query)
    if asked:
        found = [_count(engine, replace(statement, query=query)) for query in asked]
        statement = replace(statement, query=with_limits(statement.query, found))
    if settings(statement.query):
        query = with_settings(statement.query, lambda name, args: _setting(engine, statement, name, args))
        statement = replace(statement, query=query)
    return statement


def _count(engine: Engine, statement: ast.Select) -> int | None:

    result = select(engine, statement)
    ((value,),), (type_,) = result.fetchall(), result.types
    if value is not None and not type_.is_numeric:
        error = ProgrammingError(
            f"argument of LIMIT or OFFSET must be type bigint, not type {type_name(str(type_))}",
            span=statement.span,
        )
        error.sqlstate = "42804"
        raise error
    if isinstance(value, Decimal):
        return int(value.to_integral_value(ROUND_HALF_UP))
    return None if value is None else round(value)


def _setting(engine: Engine, statement: ast.Select, name: str, args: list[str]) -> str | None:

    setting = args[0].lower() if args else ""
    if name == "set_config":
        if len(args) != len(("name", "value", "is_local")):
            raise ProgrammingError(
                "set_config takes a name, a value and whether it is local", span=statement.span
            )
        run_session(engine, statements.Set(setting, (args[1],), statement.span), execute)
        return shown(engine, setting)
    if setting not in SETTINGS and setting not in engine.settings:
        if len(args) > 1 and args[1].lower() in ("true", "t"):
            return None
        raise ProgrammingError(f'unknown setting "{setting}"', span=statement.span)
    return shown(engine, setting)


FIRST: Final = 1000
"""The rounds that are computed first, at most."""
FACTOR: Final = 8
ADDING: Final = (
    algebra.Get,
    algebra.Constant,
    algebra.LocalGet,
    algebra.Map,
    algebra.Filter,
    algebra.Project,
    algebra.Join,
    algebra.Union,
    algebra.Distinct,
)
"""What only gets more rows as its inputs do."""


def limit_of(rel: Rel) -> algebra.TopK | None:
    """The LIMIT that may end the one recursion of a query before it has come to its end."""
    loops = [node for node in walk(rel) if isinstance(node, algebra.LetRec)]
    if len(loops) != 1 or loops[0].limit is not None:
        return None
    if not all(isinstance(node, ADDING) for value in loops[0].values for node in walk(value)):
        return None
    body: Rel = rel
    while isinstance(body, algebra.LetRec | algebra.Map | algebra.Project):
        body = body.body if isinstance(body, algebra.LetRec) else body.input
    if not isinstance(body, algebra.TopK) or body.group or body.order or body.limit is None:
        return None
    below = list(walk(body.input))
    reads = any(isinstance(node, algebra.LocalGet) and node.id in loops[0].ids for node in below)
    return body if reads and all(isinstance(node, ADDING) for node in below) else None


def answer(bound: Bound, limit: algebra.TopK, ask: Callable[[Bound], Result]) -> Result:
    """The rows of a query whose ``limit`` ends its recursion."""
    wanted = limit.limit or 0
    rounds = max(1, min(wanted + limit.offset, FIRST))
    while True:
        found = ask(_within(bound, rounds, False))
        if len(found) >= wanted:
            return found
        try:
            return ask(_within(bound, rounds, True))
        except EndlessError:
            rounds *= FACTOR


def _within(bound: Bound, rounds: int, error_at_limit: bool) -> Bound:
    """The query with its recursion computed for so many rounds, more of which may be an error."""

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.LetRec):
            return replace(node, limit=rounds, error_at_limit=error_at_limit)
        return node

    return replace(bound, rel=transform_up(bound.rel, rewrite))
