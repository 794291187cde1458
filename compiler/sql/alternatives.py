"""INSERT OR REPLACE and OR IGNORE, as ON CONFLICT says them."""

from dataclasses import replace

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.sql import statements as ast
from kpg.runtime.errors import NotSupportedError, ProgrammingError


def with_conflict(statement: ast.Insert, catalog: Catalog) -> ast.Insert:
    """The statement with an ON CONFLICT: for OR REPLACE over the one key that the table has."""
    if statement.conflict is not None:
        raise ProgrammingError("INSERT OR with ON CONFLICT", span=statement.span, hint="write one of them")
    if statement.alternative == "IGNORE":
        return replace(statement, alternative="", conflict=ast.Conflict((), (), None, statement.span))
    entry = catalog.table(statement.table, statement.span)
    names = entry.schema.names
    keys = {one.columns for one in entry.constraints.uniques}
    keys |= {tuple(names[place] for place in entry.schema.primary_key)} if entry.schema.primary_key else set()
    if len(keys) != 1:
        message = f'INSERT OR REPLACE into "{entry.name}", which has {len(keys) or "no"} keys,'
        raise NotSupportedError(
            f"{message} is not supported", span=statement.span, hint="write ON CONFLICT (...) DO UPDATE"
        )
    rules = entry.constraints.rules
    assignments = tuple(
        (exp.to_identifier(name, quoted=True), exp.column(exp.to_identifier(name, quoted=True), "excluded"))
        for place, name in enumerate(names)
        if not (rules and (rules[place].generated or rules[place].identity == "ALWAYS"))
    )
    conflict = ast.Conflict(keys.pop(), assignments, None, statement.span)
    return replace(statement, alternative="", conflict=conflict)
