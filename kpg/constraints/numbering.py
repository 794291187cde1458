"""Values that are others each time, by chance or of sequences, put into statements before they run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kpg.compiler.sql.bind.volatile_calls import (
    MENTIONS,
    Tree,
    assigned_for_rows,
    for_rows,
    has_calls,
    once_by_chance,
    replaced,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.column_defaults import with_sequences
from kpg.engine.engine import Engine
from kpg.runtime.errors import DataError, NotSupportedError

T = TypeVar("T")


def settle_numbers(engine: Engine) -> None:
    """What a statement has given rows of sequences is taken, if there are any."""
    if "sequences" in vars(engine):
        engine.sequences.settle()


def settling(engine: Engine, compute: Callable[[], T]) -> T:
    """What a statement computes; the numbers that it has given rows are taken, if it fails too."""
    try:
        return widening(compute)
    finally:
        settle_numbers(engine)


def widening(compute: Callable[[], T]) -> T:
    """What is computed; anew with NUMERICs if a DECIMAL could not hold a result."""
    try:
        return compute()
    except DataError as error:
        if not error.narrow:
            raise
    from kpg.queries.widening import as_wide

    return as_wide(compute)


def evaluated(engine: Engine, statement: ast.Select, *, sleeps: bool = True) -> ast.Select:
    """A query that is asked once, with constants in the place of calls that have another value each time.

    Without ``sleeps`` pg_sleep stays where it can be called by ``calls``.
    """
    place = statement.span
    if not MENTIONS.search(place.source, place.start, place.end):
        return statement
    tree = once_by_chance(statement.query, sleeps=sleeps)
    if has_calls(tree):
        tree = replaced(numbered_rows(engine, tree), engine.catalog, engine.sequences.call)
        engine.keep()
    return replace(statement, query=tree)


def numbered_insert(engine: Engine, statement: ast.Insert) -> ast.Insert:
    """The statement with numbers in the place of calls of nextval and its like."""
    place = statement.span
    rules = engine.catalog.table(statement.table).constraints.rules
    if not rules and not MENTIONS.search(place.source, place.start, place.end):
        return statement
    tree = once_by_chance(statement.query.query)
    if tree is not statement.query.query:
        statement = replace(statement, query=replace(statement.query, query=tree))
    if not has_calls(tree):
        return statement
    query = replaced(numbered_rows(engine, tree), engine.catalog, engine.sequences.call)
    return replace(statement, query=replace(statement.query, query=query))


def numbered_update(engine: Engine, statement: ast.Update) -> ast.Update:
    """The statement with what takes a number for each row in the place of nextval."""
    entry = engine.catalog.table(statement.table)
    if any(rule.sequence for rule in entry.constraints.rules):
        statement = replace(statement, assignments=with_sequences(statement.assignments, entry))
    elif not MENTIONS.search(statement.span.source, statement.span.start, statement.span.end):
        return statement
    found = assigned_for_rows(statement.assignments, partial(numbered_rows, engine))
    return replace(statement, assignments=found)


def numbered_rows(engine: Engine, tree: Tree) -> Tree:
    """A statement whose calls of nextval for each row of a query have numbers of their own."""
    found = for_rows(tree, engine.catalog, engine.sequences.begin)
    if found is not tree and engine.workers is not None:
        settle_numbers(engine)
        raise NotSupportedError("nextval for each row of a query is not supported with many workers")
    return found
