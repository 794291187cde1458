"""Eager subexpressions: LIMITs that are queries, and settings, are computed before the query is planned."""

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from kpg.compiler.sql.bind.eager_subexpressions import (
    calls_settings,
    limit_queries,
    substitute_limits,
    substitute_settings,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.system.oids import type_facts
from kpg.runtime.errors import ProgrammingError
from kpg.session.engine import Engine
from kpg.session.setting_values import SETTINGS, effective_value
from kpg.session.settings import set_setting


def evaluate_eagerly(engine: Engine, statement: ast.Select) -> ast.Select:
    """Return a query with LIMIT subqueries and settings replaced by constants."""
    queries = limit_queries(statement.query)
    if queries:
        values = [_count(engine, replace(statement, query=query)) for query in queries]
        statement = replace(statement, query=substitute_limits(statement.query, values))
    if calls_settings(statement.query):
        query = substitute_settings(
            statement.query, lambda name, args: _setting(engine, statement, name, args)
        )
        statement = replace(statement, query=query)
    return statement


def _count(engine: Engine, statement: ast.Select) -> int | None:

    result = engine.nested_execution.select(engine, statement)
    ((value,),), (type_,) = result.fetchall(), result.types
    if value is not None and not type_.is_numeric:
        error = ProgrammingError(
            f"argument of LIMIT or OFFSET must be type bigint, not type {type_facts(type_)[0]}",
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
        return effective_value(engine, setting)
    if setting not in SETTINGS and setting not in engine.settings:
        if len(args) > 1 and args[1].lower() in ("true", "t"):
            return None
        raise ProgrammingError(f'unknown setting "{setting}"', span=statement.span, sqlstate="42704")
    return effective_value(engine, setting)
