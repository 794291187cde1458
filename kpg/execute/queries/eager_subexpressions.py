"""Eager subexpressions: LIMITs that are queries, and settings, are computed before the query is planned."""

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from kpg.compiler.sql.bind.eager_subexpressions import limits, settings, with_limits, with_settings
from kpg.compiler.sql.parse import statements as ast
from kpg.postgres.sqlstate import type_name
from kpg.runtime.errors import ProgrammingError
from kpg.session.engine import Engine
from kpg.session.setting_values import SETTINGS, shown
from kpg.session.settings import set_setting


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

    result = engine.nested.select(engine, statement)
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
        set_setting(engine, ast.Set(setting, (args[1],), statement.span))
        return shown(engine, setting)
    if setting not in SETTINGS and setting not in engine.settings:
        if len(args) > 1 and args[1].lower() in ("true", "t"):
            return None
        raise ProgrammingError(f'unknown setting "{setting}"', span=statement.span)
    return shown(engine, setting)
