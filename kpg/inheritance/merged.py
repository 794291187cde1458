"""MERGE into a table with partitions.

Each partition merges the rows that it has; for what none of them has, the source is joined with all.
"""

from dataclasses import replace

from kpg.compiler.catalog.constraints import heirs
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.dml.changing import Changes
from kpg.dml.merging import merge_changes
from kpg.engine.engine import Engine
from kpg.inheritance.inheriting import Several, parts_of
from kpg.inheritance.routing import moved, route_words


def merged(engine: Engine, statement: ast.Merge) -> Several | None:
    """What a MERGE changes in several tables; None if there is only one."""
    entry = engine.catalog.find(statement.table)
    below = heirs(engine.catalog.others, entry.name) if isinstance(entry, TableEntry) else ()
    if statement.part or not isinstance(entry, TableEntry) or not below:
        return None
    with parts_of(engine, entry):
        parts, moves = _there(engine, statement, entry, below)
        return Several([*parts, *_new(engine, statement, entry)], moves=moves)


def _there(
    engine: Engine, statement: ast.Merge, entry: TableEntry, names: tuple[str, ...]
) -> tuple[list[Changes], int]:
    """What becomes of the rows that are there, and how many of them go from one partition to another."""
    whens = tuple(one for one in statement.whens if one.kind != "target")
    parts: list[Changes] = []
    moves = 0
    for name in names:
        table = engine.table(name)
        changes = merge_changes(engine, table, replace(statement, table=name, whens=whens, part="matched"))
        found, count = moved(engine, entry.name, changes)
        parts += found
        moves += count
    return parts, moves


def _new(engine: Engine, statement: ast.Merge, entry: TableEntry) -> list[Changes]:
    whens = tuple(one for one in statement.whens if one.kind == "target")
    if not whens:
        return []
    asked = replace(statement, whens=whens, part="unmatched")
    rows = merge_changes(engine, engine.table(entry.name), asked).inserted
    return [] if rows is None or not rows.shape[1] else list(route_words(engine, entry.name, rows).parts)
