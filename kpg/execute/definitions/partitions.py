"""Partitioned tables: creates, attaches and detaches partitions.

Each partition is a table that holds the rows of its bound. Views over a table that gains or loses a partition
are planned again.
"""

from dataclasses import replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import (
    NO_RULE,
    Bound,
    Check,
    Constraints,
    Heir,
    Partitioned,
    descendant_tables,
)
from kpg.compiler.catalog.entries import PARTITIONED, PARTITIONS, TableEntry, ViewEntry
from kpg.compiler.qualified_names import quote_qualified_name
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.execute.changes.partition_routing import column_order, partitions_of, satisfies_bound
from kpg.execute.definitions.indexes import add_parent_keys, check_key
from kpg.execute.definitions.table_definition import definition
from kpg.execute.queries.query_plan import plan, relations_of
from kpg.runtime.errors import IntegrityError, NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema
from kpg.session.engine import Engine


def check_readers_replannable(engine: Engine, parent: TableEntry, span: Span) -> None:
    """Raise NotSupportedError if a reader of a table cannot be planned again with another partition."""
    for name in engine.views.users(parent.name):
        entry = engine.catalog.find(name)
        made = entry.definition if isinstance(entry, ViewEntry) else None
        if made is None or callable(made) or name in engine.views.stale_texts or name in engine.dataflows:
            message = f'another table below "{parent.name}" is not supported while {name} reads it'
            raise NotSupportedError(message, span=span, hint="drop what reads it first, and make it again")
        if engine.executor.tables.has_pending and name in engine.views:
            when = "in a transaction that has changed rows"
            message = f'another table below "{parent.name}" is not supported {when}'
            raise NotSupportedError(message, span=span, hint=f"{name} reads it: do it before the changes")


def replan_readers(engine: Engine, parent: TableEntry) -> None:
    """Plan the views over a table again."""
    for name in engine.views.dependents(parent.name):
        entry = engine.catalog.find(name)
        if not isinstance(entry, ViewEntry):
            continue
        query = parse_query(entry.text)
        rel = lower_query(query, engine.catalog).rel
        engine.catalog.replace(replace(entry, definition=rel))
        engine.views.record_reads(name, relations_of(rel, query, engine.catalog))
        if name in engine.views:
            engine.views.reinstall_at_commit(name)


def restart_history(engine: Engine, parent: str) -> None:
    """Restart the history of a table whose set of partitions has changed."""
    executor = engine.executor
    executor.tables.restart_history(parent, executor.epoch + executor.tables.has_pending)


Words = NDArray[np.int64]


def record_partitioning(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """Record how a new table is partitioned."""
    if statement.partitioned is not None:
        entry = engine.catalog.table(name) if name in engine.catalog else None
        columns = statement.schema.names if entry is None else entry.schema.names
        for key in statement.partitioned.keys:
            known = statement.likes or key.lower() in map(str.lower, columns)
            if key.isidentifier() and not known:
                message = f'column "{key}" named in partition key does not exist'
                raise ProgrammingError(message, span=statement.span)
        uniques = statement.constraints.uniques if entry is None else entry.constraints.uniques
        for unique in uniques:
            check_key(statement.partitioned, unique.columns)
        partitioned = replace(statement.partitioned, table=name)
        engine.catalog.apply(PARTITIONED.put(name.lower(), partitioned))


def create_partition(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """Run CREATE TABLE ... PARTITION OF: columns, constraints and DEFAULTs come from the parent."""
    bound, catalog, span = statement.partition, engine.catalog, statement.span
    assert bound is not None
    parent = catalog.table(bound.parent, span)
    partitioning = _partitioning_of(engine, parent, span)
    check_readers_replannable(engine, parent, span)
    check_bound(engine, parent, bound, name, span)
    text = bound_predicate(partitioning, bound, span)
    old = parent.constraints
    rules = tuple(replace(rule, sequence="", identity="") for rule in old.rules)
    given = statement.constraints
    constraints = Constraints(
        rules,
        (*old.checks, *given.checks, *_bound_check(name, text)),
        (*(replace(constraint, name="") for constraint in old.uniques), *given.uniques),
        (*(replace(constraint, name="") for constraint in old.foreign_keys), *given.foreign_keys),
    )
    table_statement = replace(statement, partition=None, partitioned=None, constraints=constraints)
    table_statement = _with_own_columns(
        replace(table_statement, schema=Schema(parent.schema.columns)), statement
    )
    entry, _ = definition(table_statement, name, catalog)
    engine.tables.create(name, entry.schema, entry.constraints)
    catalog.apply(PARTITIONS.put(name.lower(), Heir(parent.name, name, text, not text, bound)))
    record_partitioning(engine, statement, name)
    update_default_bounds(engine)
    replan_readers(engine, parent)


def _with_own_columns(definition: ast.CreateTable, statement: ast.CreateTable) -> ast.CreateTable:
    """Apply the column options of a partition's own definition."""
    columns = list(definition.schema.columns)
    rules = list(definition.constraints.rules or (NO_RULE,) * len(columns))
    known = [column.name.lower() for column in columns]
    for place, own in enumerate(statement.schema.columns):
        if own.name.lower() not in known:
            raise ProgrammingError(f'column "{own.name}" does not exist', span=statement.span)
        at = known.index(own.name.lower())
        columns[at] = replace(columns[at], nullable=columns[at].nullable and own.nullable)
        rule = statement.constraints.rule(place)
        rules[at] = rule if rule.default or rule.generated else rules[at]
    constraints = replace(definition.constraints, rules=tuple(rules))
    return replace(definition, schema=Schema(tuple(columns)), constraints=constraints)


def update_default_bounds(engine: Engine) -> None:
    """Update the bounds of DEFAULT partitions, which exclude the rows of all others."""
    catalog = engine.catalog
    for default in catalog.partitions.values():
        if not default.default:
            continue
        bounds = [one.bound for one in partitions_of(engine, default.parent) if not one.default]
        text = " AND ".join(f"NOT {bound}" for bound in bounds)
        for name in (default.child, *descendant_tables(catalog.partitions, default.child)):
            entry = catalog.table(name)
            own = {one.name for one in _bound_check(default.child, "true")}
            kept = tuple(one for one in entry.constraints.checks if one.name not in own)
            checks = (*kept, *_bound_check(default.child, text))
            if checks != entry.constraints.checks:
                catalog.replace(replace(entry, constraints=replace(entry.constraints, checks=checks)))
    engine.tables.refresh_constraints()


def _partitioning_of(engine: Engine, parent: TableEntry, span: Span) -> Partitioned:
    whole = engine.catalog.partitioned.get(parent.name.lower())
    if whole is None:
        raise ProgrammingError(f'"{parent.name}" is not partitioned', span=span)
    return whole


def _bound_check(name: str, text: str) -> tuple[Check, ...]:
    """Return the bound of a partition as a CHECK."""
    return (Check(f"{name.rpartition('.')[2]}_partition", text),) if text else ()


def attach(engine: Engine, parent: TableEntry, action: ddl.AttachPartition, span: Span) -> None:
    """Run ATTACH PARTITION."""
    catalog = engine.catalog
    partitioning, child = _partitioning_of(engine, parent, span), catalog.table(action.child, span)
    if child.name.lower() in catalog.partitions:
        raise ProgrammingError(f'"{child.name}" is already a partition', span=span)
    _check_columns(parent, child, span)
    check_readers_replannable(engine, parent, span)
    check_bound(engine, parent, action.bound, child.name, span)
    text = bound_predicate(partitioning, action.bound, span)
    words = engine.executor.tables.scan(child.name)
    if words.shape[1] and not satisfies_bound(engine, child, text, words).all():
        message = f'partition constraint of relation "{child.name}" is violated by some row'
        raise IntegrityError(message, span=span, sqlstate="23514")
    checks = (*child.constraints.checks, *_bound_check(child.name, text))
    catalog.replace(replace(child, constraints=replace(child.constraints, checks=checks)))
    partition = Heir(parent.name, child.name, text, not text, action.bound)
    catalog.apply(PARTITIONS.put(child.name.lower(), partition))
    add_parent_keys(engine, parent, catalog.table(child.name))
    update_default_bounds(engine)
    replan_readers(engine, parent)
    restart_history(engine, parent.name)


def _check_columns(parent: TableEntry, child: TableEntry, span: Span) -> None:
    """Raise ProgrammingError unless a table has exactly the columns of the parent, in any order."""
    types = {column.name.lower(): column.type for column in child.schema.columns}
    for column in parent.schema.columns:
        if column.name.lower() not in types:
            raise ProgrammingError(f'child table is missing column "{column.name}"', span=span)
        if types.pop(column.name.lower()) != column.type:
            message = f'child table "{child.name}" has different type for column "{column.name}"'
            raise ProgrammingError(message, span=span)
    if types:
        message = f'table "{child.name}" contains column "{next(iter(types))}" not found in parent'
        raise ProgrammingError(message, span=span, hint="a new partition has the columns of its parent only")


def detach(engine: Engine, parent: TableEntry, action: ddl.DetachPartition, span: Span) -> None:
    """Run DETACH PARTITION."""
    catalog = engine.catalog
    child = catalog.table(action.child, span)
    partition = catalog.partitions.get(child.name.lower())
    if partition is None or partition.parent != parent.name:
        message = f'relation "{child.name}" is not a partition of relation "{parent.name}"'
        raise ProgrammingError(message, span=span)
    check_readers_replannable(engine, parent, span)
    if engine.tables.references is not None:
        engine.tables.foreign_keys.check_detach(child.name)
    own = {check.name for check in _bound_check(child.name, "true")}
    catalog.apply(PARTITIONS.remove(child.name.lower()))
    checks = tuple(check for check in child.constraints.checks if check.name not in own)
    catalog.replace(replace(child, constraints=replace(child.constraints, checks=checks)))
    update_default_bounds(engine)
    replan_readers(engine, parent)
    restart_history(engine, parent.name)


def check_bound(engine: Engine, parent: TableEntry, bound: Bound, name: str, span: Span) -> None:
    """Check a new bound.

    Raises:
        ProgrammingError: If it overlaps another bound.
        IntegrityError: If the DEFAULT partition has rows within it.
    """
    partitioning = _partitioning_of(engine, parent, span)
    bound_predicate(partitioning, bound, span)
    plain = name.rpartition(".")[2]
    partitions = partitions_of(engine, parent.name)
    if bound.form == "FROM" and not _evaluate_condition(
        engine, parent, partitioning, _less_than(bound.values[0], bound.values[1])
    ):
        message = f'empty range bound specified for partition "{plain}"'
        raise ProgrammingError(message, span=span, hint="the lower bound must be less than the upper one")
    for partition in partitions:
        other = partition.child.rpartition(".")[2]
        if bound.form == "DEFAULT" and partition.default:
            message = f'partition "{plain}" conflicts with existing default partition "{other}"'
            raise ProgrammingError(message, span=span)
        if partition.default or bound.form == "DEFAULT":
            continue
        if _overlap(engine, parent, partitioning, bound, partition.told):
            raise ProgrammingError(f'partition "{plain}" would overlap partition "{other}"', span=span)
    for partition in partitions:
        if partition.default:
            words = _partition_rows(engine, parent, partition.child)
            if satisfies_bound(engine, parent, bound_predicate(partitioning, bound, span), words).any():
                message = (
                    f'updated partition constraint for default partition "{partition.child}" '
                    "would be violated by some row"
                )
                raise IntegrityError(message, span=span, sqlstate="23514")


def _partition_rows(engine: Engine, parent: TableEntry, name: str) -> Words:
    """Return all rows of a partition, with columns in the parent's order."""
    found = []
    for table in (name, *descendant_tables(engine.catalog.partitions, name)):
        words = engine.executor.tables.scan(table)
        order = column_order(engine.catalog.table(table), parent)
        found.append(words[order])
    return np.ascontiguousarray(np.concatenate(found, axis=1))


def _overlap(
    engine: Engine, parent: TableEntry, partitioning: Partitioned, first: Bound, second: Bound
) -> bool:
    match partitioning.kind:
        case "LIST":
            nulls = [any(value.upper() == "NULL" for value in each.values[0]) for each in (first, second)]
            pairs = (
                f"@0({left}) = @0({right})"
                for left in first.values[0]
                for right in second.values[0]
                if "NULL" not in (left.upper(), right.upper())
            )
            return all(nulls) or _evaluate_condition(
                engine, parent, partitioning, " OR ".join(pairs) or "false"
            )
        case "RANGE":
            (low, high), (start, end) = first.values, second.values
            return _evaluate_condition(
                engine, parent, partitioning, f"{_less_than(low, end)} AND {_less_than(start, high)}"
            )
        case _:
            (modulus,), (remainder,) = ((int(value) for value in part) for part in first.values)
            (other,), (rest,) = ((int(value) for value in part) for part in second.values)
            common = gcd(modulus, other)
            return remainder % common == rest % common


def _less_than(low: tuple[str, ...], high: tuple[str, ...], position: int = 0) -> str:
    """Return a condition that one bound is less than another; ``@n(v)`` is a value of the n-th key."""
    if position == len(low) or position == len(high):
        return "false"
    words = low[position].upper(), high[position].upper()
    if words[0] == words[1] and words[0] in ("MINVALUE", "MAXVALUE"):
        return "false"
    if words[0] == "MINVALUE" or words[1] == "MAXVALUE":
        return "true"
    if words[0] == "MAXVALUE" or words[1] == "MINVALUE":
        return "false"
    left, right = f"@{position}({low[position]})", f"@{position}({high[position]})"
    return f"({left} < {right} OR ({left} = {right} AND {_less_than(low, high, position + 1)}))"


def _evaluate_condition(engine: Engine, parent: TableEntry, partitioning: Partitioned, text: str) -> bool:
    """Evaluate a condition on values of a table's partition key."""
    for place, key in enumerate(partitioning.keys):
        text = text.replace(f"@{place}(", f"CAST(@{place}(")
        text = _add_casts(text, f"@{place}(", _key_type(engine, parent, key))
    planned = plan(parse_query(f"SELECT {text}"), engine.catalog, engine.statistics)
    words, _ = engine.run(planned)
    return bool(words[0, 0] == 1)


def _add_casts(text: str, mark: str, type_: str) -> str:
    """Return a text with a cast after each marked value."""
    while mark in text:
        start = text.index(mark)
        end, depth = start + len(mark), 1
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        text = f"{text[:start]}({text[start + len(mark) : end]} AS {type_}){text[end:]}"
    return text


def _key_type(engine: Engine, parent: TableEntry, key: str) -> str:
    query = parse_query(f"SELECT {key} FROM ONLY {quote_qualified_name(parent.name)}")
    return str(plan(query, engine.catalog, engine.statistics).schema.types[0])


def bound_predicate(partitioning: Partitioned, bound: Bound, span: Span) -> str:
    """Return the predicate of a bound; empty for the DEFAULT partition."""
    keys = [f"({key})" for key in partitioning.keys]
    match bound.form, partitioning.kind:
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
            from_low = _compare_keys(keys, low, is_lower=True)
            return f"({known} AND {from_low} AND {_compare_keys(keys, high, is_lower=False)})"
        case "WITH", "HASH":
            (modulus,), (remainder,) = bound.values
            shown = " || ',' || ".join(f"coalesce({key}::text, '')" for key in keys)
            return f"((('x' || substr(md5({shown}), 1, 7))::bit(28)::int % {modulus}) = {remainder})"
        case _:
            raise ProgrammingError(f"this is no bound of a partition by {partitioning.kind}", span=span)


def _compare_keys(keys: list[str], values: tuple[str, ...], *, is_lower: bool) -> str:
    """Return a condition that keys are at least ``values``, or less than them."""
    if not keys:
        return "true" if is_lower else "false"
    word = values[0].upper()
    if word in ("MINVALUE", "MAXVALUE"):
        return "true" if (word == "MINVALUE") is is_lower else "false"
    sign = ">" if is_lower else "<"
    rest = _compare_keys(keys[1:], values[1:], is_lower=is_lower)
    return f"({keys[0]} {sign} {values[0]} OR ({keys[0]} = {values[0]} AND {rest}))"
