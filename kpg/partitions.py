"""Partitioned tables: each partition is a table that inherits the whole one, for the rows of its bound."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.changing import Changes, insertion, prepared_alone
from kpg.compiler.catalog import Catalog, TableEntry
from kpg.compiler.constraints import Check, Constraints
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.change import nothing
from kpg.compiler.sql.rules import checks
from kpg.compiler.triggers import Bound, Heir, Partitioned
from kpg.defining import definition
from kpg.engine import Engine
from kpg.inheriting import Several, check_unread
from kpg.runtime.errors import IntegrityError, ProgrammingError, Span
from kpg.runtime.types import Schema

Words = NDArray[np.int64]


def note_partitioned(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """Remember how a table that was just made is partitioned."""
    if statement.partitioned is not None:
        engine.catalog.others["partitioned", name.lower(), ""] = replace(statement.partitioned, table=name)


def create_partition(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """CREATE TABLE ... PARTITION OF: a table with the columns, constraints and DEFAULTs of the whole one."""
    bound, catalog, span = statement.partition, engine.catalog, statement.span
    assert bound is not None
    parent = catalog.table(bound.parent, span)
    whole = catalog.others.get(("partitioned", parent.name.lower(), ""))
    if whole is None:
        raise ProgrammingError(f'"{parent.name}" is not partitioned', span=span)
    check_unread(engine, parent, span)
    text = predicate(whole, bound, span)
    old = parent.constraints
    rules = tuple(replace(rule, sequence="", identity="") for rule in old.rules)
    own = Check(f"{name.rpartition('.')[2]}_partition", text)
    constraints = Constraints(
        rules,
        (*old.checks, own) if text else old.checks,
        tuple(replace(one, name="") for one in old.uniques),
        tuple(replace(one, name="") for one in old.foreign_keys),
    )
    made = replace(statement, partition=None, partitioned=None, constraints=constraints)
    made = replace(made, schema=Schema(parent.schema.columns))
    entry, _ = definition(made, name, catalog)
    engine.create_table(name, entry.schema, entry.constraints)
    key = ("inherits", parent.name.lower(), name.lower())
    catalog.others[key] = Heir(parent.name, name, text, not text)
    note_partitioned(engine, statement, name)


def predicate(whole: Partitioned, bound: Bound, span: Span) -> str:
    """What holds for the rows of a partition; "" for the DEFAULT one."""
    keys = [f"({key})" for key in whole.keys]
    match bound.form, whole.kind:
        case "DEFAULT", "RANGE" | "LIST":
            return ""
        case "IN", "LIST":
            values = [value for value in bound.values[0] if value.upper() != "NULL"]
            listed = f"{keys[0]} IN ({', '.join(values)})" if values else "false"
            if len(values) < len(bound.values[0]):
                return f"({keys[0]} IS NULL OR {listed})"
            return f"({keys[0]} IS NOT NULL AND {listed})"
        case "FROM", "RANGE":
            low, high = bound.values
            if len(low) != len(keys) or len(high) != len(keys):
                raise ProgrammingError("FROM and TO need a value for each key", span=span)
            known = " AND ".join(f"{key} IS NOT NULL" for key in keys)
            return f"({known} AND {_beyond(keys, low, least=True)} AND {_beyond(keys, high, least=False)})"
        case "WITH", "HASH":
            (modulus,), (remainder,) = bound.values
            shown = " || ',' || ".join(f"coalesce({key}::text, '')" for key in keys)
            return f"((('x' || substr(md5({shown}), 1, 7))::bit(28)::int % {modulus}) = {remainder})"
        case _:
            raise ProgrammingError(f"this is no bound of a partition by {whole.kind}", span=span)


def _beyond(keys: list[str], values: tuple[str, ...], *, least: bool) -> str:
    """Whether keys, in their order, are at least some values, or before them."""
    if not keys:
        return "true" if least else "false"
    word = values[0].upper()
    if word in ("MINVALUE", "MAXVALUE"):
        return "true" if (word == "MINVALUE") is least else "false"
    sign = ">" if least else "<"
    rest = _beyond(keys[1:], values[1:], least=least)
    return f"({keys[0]} {sign} {values[0]} OR ({keys[0]} = {values[0]} AND {rest}))"


def routed(engine: Engine, statement: ast.Insert) -> Several | None:
    """What an INSERT into a partitioned table changes; None if the table is none."""
    entry = engine.catalog.find(statement.table)
    name = "" if entry is None else entry.name.lower()
    if not isinstance(entry, TableEntry) or ("partitioned", name, "") not in engine.catalog.others:
        return None
    plain = replace(statement, conflict=None, returning=())
    words = prepared_alone(engine, plain).inserted
    assert words is not None
    return Several(_parts(engine, entry, statement, words))


def route_words(engine: Engine, name: str, words: Words) -> Several:
    """What inserting rows into a partitioned table changes."""
    span = Span("", 0, 0)
    statement = ast.Insert(name, "", (), ast.Select(nothing(), span), None, span)
    return Several(_parts(engine, engine.catalog.table(name), statement, words))


def _parts(engine: Engine, entry: TableEntry, statement: ast.Insert, words: Words) -> list[Changes]:
    """The changes of the partitions that take rows; IntegrityError if none takes one."""
    from kpg.blocks.triggers import actions_of

    parts: list[Changes] = []
    for leaf, rows in _leaves(engine, entry, words):
        one = replace(statement, table=leaf.name, columns=leaf.schema.names)
        actions = actions_of(engine, one)
        changes = insertion(engine, engine.table(leaf.name), one, rows, actions)
        parts.append(replace(changes, actions=actions))
    return parts


def _leaves(engine: Engine, entry: TableEntry, words: Words) -> list[tuple[TableEntry, Words]]:
    catalog = engine.catalog
    mine = [
        one for key, one in catalog.others.items() if key[0] == "inherits" and key[1] == entry.name.lower()
    ]
    if ("partitioned", entry.name.lower(), "") not in catalog.others:
        return [(entry, words)]
    left: NDArray[np.bool_] = np.ones(words.shape[1], np.bool_)
    found: list[tuple[TableEntry, Words]] = []
    for heir in sorted(mine, key=lambda one: one.default):
        taken = left if heir.default else left & _fits(engine, catalog, entry, heir, words)
        if taken.any() or not found:
            chosen = np.ascontiguousarray(words[:, taken])
            found += _leaves(engine, catalog.table(heir.child), chosen)
        left = left & ~taken
    if left.any() or not found:
        raise IntegrityError(
            f"no partition of table {entry.name} takes a row", hint="make one, or one that is the DEFAULT"
        )
    return found


def _fits(engine: Engine, catalog: Catalog, entry: TableEntry, heir: Heir, words: Words) -> NDArray[np.bool_]:
    tested = replace(entry, constraints=Constraints(checks=(Check("bound", heir.bound),)))
    mfp = checks(tested, catalog)
    assert mfp is not None
    results, _ = engine.executor.evaluate(mfp, np.ascontiguousarray(words))
    verdict: NDArray[np.bool_] = results[0] == 1
    return verdict
