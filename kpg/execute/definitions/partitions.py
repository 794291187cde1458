"""Partitioned tables: creates, attaches and detaches partitions.

Each partition is a table that holds the rows of its bound. Views over a table that gains or loses a partition
are planned again.
"""

from dataclasses import replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import NO_RULE, Bound, Check, Constraints, Heir, Partitioned, heirs
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.qualified_names import written
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.execute.changes.partition_routing import fits, order_of, partitions_of
from kpg.execute.definitions.indexes import check_key, with_keys
from kpg.execute.definitions.table_definition import definition
from kpg.execute.queries.query_plan import plan, relations_of
from kpg.runtime.errors import IntegrityError, NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema
from kpg.session.engine import Engine


def check_rereadable(engine: Engine, parent: TableEntry, span: Span) -> None:
    """NotSupportedError if something reads a table that could not read another one with it."""
    for name in engine.views.users(parent.name):
        entry = engine.catalog.find(name)
        made = entry.definition if isinstance(entry, ViewEntry) else None
        if made is None or callable(made) or name in engine.views.followed or name in engine.dataflows:
            message = f'another table below "{parent.name}" is not supported while {name} reads it'
            raise NotSupportedError(message, span=span, hint="drop what reads it first, and make it again")
        if engine.executor.has_pending and name in engine.views:
            when = "in a transaction that has changed rows"
            message = f'another table below "{parent.name}" is not supported {when}'
            raise NotSupportedError(message, span=span, hint=f"{name} reads it: do it before the changes")


def reread(engine: Engine, parent: TableEntry) -> None:
    """Have views over a table be what their texts say now."""
    for name in engine.views.dependents(parent.name):
        entry = engine.catalog.find(name)
        if not isinstance(entry, ViewEntry):
            continue
        query = parse_query(entry.text)
        rel = lower_query(query, engine.catalog).rel
        engine.catalog.replace(replace(entry, definition=rel))
        engine.views.reads[name] = relations_of(rel, query, engine.catalog)
        if name in engine.views:
            engine.views.keep_later(name)


def end_past(engine: Engine, parent: str) -> None:
    """Of a table that has other partitions now, with rows, nobody knows what it was."""
    executor = engine.executor
    executor.known_from(parent, executor.epoch + executor.has_pending)


Words = NDArray[np.int64]


def note_partitioned(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """Remember how a table that was just made is partitioned."""
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
        engine.catalog.others["partitioned", name.lower(), ""] = replace(statement.partitioned, table=name)


def create_partition(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """CREATE TABLE ... PARTITION OF: a table with the columns, constraints and DEFAULTs of the whole one."""
    bound, catalog, span = statement.partition, engine.catalog, statement.span
    assert bound is not None
    parent = catalog.table(bound.parent, span)
    whole = _whole(engine, parent, span)
    check_rereadable(engine, parent, span)
    check_bound(engine, parent, bound, name, span)
    text = predicate(whole, bound, span)
    old = parent.constraints
    rules = tuple(replace(rule, sequence="", identity="") for rule in old.rules)
    given = statement.constraints
    constraints = Constraints(
        rules,
        (*old.checks, *given.checks, *_own(name, text)),
        (*(replace(one, name="") for one in old.uniques), *given.uniques),
        (*(replace(one, name="") for one in old.foreign_keys), *given.foreign_keys),
    )
    made = replace(statement, partition=None, partitioned=None, constraints=constraints)
    made = _with_own_columns(replace(made, schema=Schema(parent.schema.columns)), statement)
    entry, _ = definition(made, name, catalog)
    engine.tables.create(name, entry.schema, entry.constraints)
    key = ("inherits", parent.name.lower(), name.lower())
    catalog.others[key] = Heir(parent.name, name, text, not text, bound)
    note_partitioned(engine, statement, name)
    settle_defaults(engine)
    reread(engine, parent)


def _with_own_columns(made: ast.CreateTable, statement: ast.CreateTable) -> ast.CreateTable:
    """A partition with what it says itself of columns."""
    columns = list(made.schema.columns)
    rules = list(made.constraints.rules or (NO_RULE,) * len(columns))
    known = [column.name.lower() for column in columns]
    for place, own in enumerate(statement.schema.columns):
        if own.name.lower() not in known:
            raise ProgrammingError(f'column "{own.name}" does not exist', span=statement.span)
        at = known.index(own.name.lower())
        columns[at] = replace(columns[at], nullable=columns[at].nullable and own.nullable)
        rule = statement.constraints.rule(place)
        rules[at] = rule if rule.default or rule.generated else rules[at]
    constraints = replace(made.constraints, rules=tuple(rules))
    return replace(made, schema=Schema(tuple(columns)), constraints=constraints)


def settle_defaults(engine: Engine) -> None:
    """Have DEFAULT partitions refuse the rows that others are there for now."""
    catalog = engine.catalog
    for default in [one for key, one in catalog.others.items() if key[0] == "inherits" and one.default]:
        bounds = [one.bound for one in partitions_of(engine, default.parent) if not one.default]
        text = " AND ".join(f"NOT {bound}" for bound in bounds)
        for name in (default.child, *heirs(catalog.others, default.child)):
            entry = catalog.table(name)
            own = {one.name for one in _own(default.child, "true")}
            kept = tuple(one for one in entry.constraints.checks if one.name not in own)
            checks = (*kept, *_own(default.child, text))
            if checks != entry.constraints.checks:
                catalog.replace(replace(entry, constraints=replace(entry.constraints, checks=checks)))
    engine.tables.refresh_rules()


def _whole(engine: Engine, parent: TableEntry, span: Span) -> Partitioned:
    whole = engine.catalog.others.get(("partitioned", parent.name.lower(), ""))
    if not isinstance(whole, Partitioned):
        raise ProgrammingError(f'"{parent.name}" is not partitioned', span=span)
    return whole


def _own(name: str, text: str) -> tuple[Check, ...]:
    """What a partition has beside the whole table's checks."""
    return (Check(f"{name.rpartition('.')[2]}_partition", text),) if text else ()


def attach(engine: Engine, parent: TableEntry, action: ddl.Attach, span: Span) -> None:
    """ATTACH PARTITION."""
    catalog = engine.catalog
    whole, child = _whole(engine, parent, span), catalog.table(action.child, span)
    if any(key[0] == "inherits" and key[2] == child.name.lower() for key in catalog.others):
        raise ProgrammingError(f'"{child.name}" is already a partition', span=span)
    _check_columns(parent, child, span)
    check_rereadable(engine, parent, span)
    check_bound(engine, parent, action.bound, child.name, span)
    text = predicate(whole, action.bound, span)
    words = engine.executor.scan(child.name)
    if words.shape[1] and not fits(engine, child, text, words).all():
        message = f'partition constraint of relation "{child.name}" is violated by some row'
        raise IntegrityError(message, span=span)
    checks = (*child.constraints.checks, *_own(child.name, text))
    catalog.replace(replace(child, constraints=replace(child.constraints, checks=checks)))
    key = ("inherits", parent.name.lower(), child.name.lower())
    catalog.others[key] = Heir(parent.name, child.name, text, not text, action.bound)
    with_keys(engine, parent, catalog.table(child.name))
    settle_defaults(engine)
    reread(engine, parent)
    end_past(engine, parent.name)


def _check_columns(parent: TableEntry, child: TableEntry, span: Span) -> None:
    """ProgrammingError unless a table has the columns of another one, in whatever order."""
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


def detach(engine: Engine, parent: TableEntry, action: ddl.Detach, span: Span) -> None:
    """DETACH PARTITION: from now on it is a table of its own."""
    catalog = engine.catalog
    child = catalog.table(action.child, span)
    key = ("inherits", parent.name.lower(), child.name.lower())
    if key not in catalog.others:
        message = f'relation "{child.name}" is not a partition of relation "{parent.name}"'
        raise ProgrammingError(message, span=span)
    check_rereadable(engine, parent, span)
    if engine.tables.references is not None:
        engine.tables.foreign_keys.check_left(child.name)
    own = {one.name for one in _own(child.name, "true")}
    del catalog.others[key]
    checks = tuple(one for one in child.constraints.checks if one.name not in own)
    catalog.replace(replace(child, constraints=replace(child.constraints, checks=checks)))
    settle_defaults(engine)
    reread(engine, parent)
    end_past(engine, parent.name)


def check_bound(engine: Engine, parent: TableEntry, bound: Bound, name: str, span: Span) -> None:
    """ProgrammingError if a partition would take rows of another one; IntegrityError if it has to now."""
    whole = _whole(engine, parent, span)
    predicate(whole, bound, span)
    plain = name.rpartition(".")[2]
    mine = partitions_of(engine, parent.name)
    if bound.form == "FROM" and not _test(engine, parent, whole, _before(bound.values[0], bound.values[1])):
        message = f'empty range bound specified for partition "{plain}"'
        raise ProgrammingError(message, span=span, hint="the lower bound must be less than the upper one")
    for heir in mine:
        other = heir.child.rpartition(".")[2]
        if bound.form == "DEFAULT" and heir.default:
            message = f'partition "{plain}" conflicts with existing default partition "{other}"'
            raise ProgrammingError(message, span=span)
        if heir.default or bound.form == "DEFAULT":
            continue
        if _overlap(engine, parent, whole, bound, heir.told):
            raise ProgrammingError(f'partition "{plain}" would overlap partition "{other}"', span=span)
    for heir in mine:
        if heir.default:
            words = _below(engine, parent, heir.child)
            if fits(engine, parent, predicate(whole, bound, span), words).any():
                message = (
                    f'updated partition constraint for default partition "{heir.child}" would be violated '
                    "by some row"
                )
                raise IntegrityError(message, span=span)


def _below(engine: Engine, parent: TableEntry, name: str) -> Words:
    """All rows of a partition, with the columns as the whole table has them."""
    found = []
    for one in (name, *heirs(engine.catalog.others, name)):
        words = engine.executor.scan(one)
        order = order_of(engine.catalog.table(one), parent)
        found.append(words[order])
    return np.ascontiguousarray(np.concatenate(found, axis=1))


def _overlap(engine: Engine, parent: TableEntry, whole: Partitioned, one: Bound, two: Bound) -> bool:
    match whole.kind:
        case "LIST":
            nulls = [any(value.upper() == "NULL" for value in each.values[0]) for each in (one, two)]
            pairs = (
                f"@0({left}) = @0({right})"
                for left in one.values[0]
                for right in two.values[0]
                if "NULL" not in (left.upper(), right.upper())
            )
            return all(nulls) or _test(engine, parent, whole, " OR ".join(pairs) or "false")
        case "RANGE":
            (low, high), (start, end) = one.values, two.values
            return _test(engine, parent, whole, f"{_before(low, end)} AND {_before(start, high)}")
        case _:
            (modulus,), (remainder,) = ((int(value) for value in part) for part in one.values)
            (other,), (rest,) = ((int(value) for value in part) for part in two.values)
            common = gcd(modulus, other)
            return remainder % common == rest % common


def _before(low: tuple[str, ...], high: tuple[str, ...], place: int = 0) -> str:
    """Whether some values are before others; ``@n(v)`` is a value of the n-th key."""
    if place == len(low) or place == len(high):
        return "false"
    words = low[place].upper(), high[place].upper()
    if words[0] == words[1] and words[0] in ("MINVALUE", "MAXVALUE"):
        return "false"
    if words[0] == "MINVALUE" or words[1] == "MAXVALUE":
        return "true"
    if words[0] == "MAXVALUE" or words[1] == "MINVALUE":
        return "false"
    left, right = f"@{place}({low[place]})", f"@{place}({high[place]})"
    return f"({left} < {right} OR ({left} = {right} AND {_before(low, high, place + 1)}))"


def _test(engine: Engine, parent: TableEntry, whole: Partitioned, text: str) -> bool:
    """Whether something holds of values of a table's keys."""
    for place, key in enumerate(whole.keys):
        text = text.replace(f"@{place}(", f"CAST(@{place}(")
        text = _with_types(text, f"@{place}(", _type_of(engine, parent, key))
    planned = plan(parse_query(f"SELECT {text}"), engine.catalog, engine.statistics)
    words, _ = engine.run(planned)
    return bool(words[0, 0] == 1)


def _with_types(text: str, mark: str, type_: str) -> str:
    """A text with the type behind each value that is marked."""
    while mark in text:
        start = text.index(mark)
        end, depth = start + len(mark), 1
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        text = f"{text[:start]}({text[start + len(mark) : end]} AS {type_}){text[end:]}"
    return text


def _type_of(engine: Engine, parent: TableEntry, key: str) -> str:
    """The type of a key of a partitioned table."""
    query = parse_query(f"SELECT {key} FROM ONLY {written(parent.name)}")
    return str(plan(query, engine.catalog, engine.statistics).schema.types[0])


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
