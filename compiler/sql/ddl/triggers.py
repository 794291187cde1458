"""CREATE and DROP of TRIGGER."""

import re
from dataclasses import replace

from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.triggers import Trigger

EVENTS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")


def create_trigger(reader: Reader, *, or_replace: bool, constraint: bool) -> ast.CreateTrigger:
    """What follows CREATE TRIGGER."""
    name = reader.name()
    timing = reader.choice("BEFORE", "AFTER", "INSTEAD OF").partition(" ")[0]
    events, columns = [reader.choice(*EVENTS)], list[str]()
    while True:
        if reader.take("OF"):
            columns.append(reader.name())
            while reader.take(","):
                columns.append(reader.name())
        if not reader.take("OR"):
            break
        events.append(reader.choice(*EVENTS))
    reader.need("ON")
    table = reader.relation()
    if reader.take("FROM"):
        reader.relation()
    deferral = ""
    if not reader.take("NOT", "DEFERRABLE") and reader.take("DEFERRABLE"):
        deferral = "DEFERRABLE"
    if reader.take("INITIALLY", "DEFERRED"):
        deferral = "DEFERRED"
    reader.take("INITIALLY", "IMMEDIATE")
    if deferral and not constraint:
        reader.wrong("only constraint triggers can be deferred")
    names = _transition(reader)
    for_rows = constraint
    if reader.take("FOR"):
        reader.take("EACH")
        for_rows = reader.choice("ROW", "STATEMENT") == "ROW"
    condition = reader.enclosed() if reader.take("WHEN") else ""
    reader.need("EXECUTE")
    reader.choice("FUNCTION", "PROCEDURE")
    function = reader.relation()
    arguments = _arguments(reader)
    reader.end()
    made = Trigger(
        name, table, timing, tuple(events), tuple(columns), for_rows, condition, function, arguments, *names
    )
    made = replace(made, deferral=deferral)
    _check(reader, made)
    return ast.CreateTrigger(made, or_replace, reader.span)


def _check(reader: Reader, made: Trigger) -> None:
    """ProgrammingError for parts that do not go together."""
    events = set(made.events)
    if made.timing == "INSTEAD" and not made.for_rows:
        reader.skip(-1)
        reader.wrong("INSTEAD OF triggers must be FOR EACH ROW")
    if "TRUNCATE" in events and made.for_rows:
        reader.skip(-1)
        reader.wrong("TRUNCATE FOR EACH ROW triggers are not supported")
    message = ""
    if made.old_rows or made.new_rows:
        if made.timing != "AFTER":
            message = "transition table name can only be specified for an AFTER trigger"
        elif "TRUNCATE" in events:
            message = "TRUNCATE triggers with transition tables are not supported"
        elif len(events) > 1:
            message = "transition tables cannot be specified for triggers with more than one event"
        elif made.columns:
            message = "transition tables cannot be specified for triggers with column lists"
        elif made.new_rows and not events & {"INSERT", "UPDATE"}:
            message = "NEW TABLE can only be specified for an INSERT or UPDATE trigger"
        elif made.old_rows and not events & {"DELETE", "UPDATE"}:
            message = "OLD TABLE can only be specified for a DELETE or UPDATE trigger"
        elif made.old_rows.lower() == made.new_rows.lower():
            message = "OLD TABLE name and NEW TABLE name cannot be the same"
    if made.condition and not message:
        for row, event in (("old", "INSERT"), ("new", "DELETE")):
            if event in events and re.search(rf"\b{row}\s*\.", made.condition, re.IGNORECASE):
                message = f"{event} trigger's WHEN condition cannot reference {row.upper()} values"
        if not made.for_rows and re.search(r"\b(old|new)\s*\.", made.condition, re.IGNORECASE):
            message = "statement trigger's WHEN condition cannot reference column values"
    if message:
        reader.skip(-1)
        reader.wrong(message)


def alter_trigger(reader: Reader) -> ast.RenameTrigger:
    """What follows ALTER TRIGGER."""
    name = reader.name()
    reader.need("ON")
    table = reader.relation()
    reader.need("RENAME")
    reader.need("TO")
    new = reader.name()
    reader.end()
    return ast.RenameTrigger(name, table, new, reader.span)


def _transition(reader: Reader) -> tuple[str, str]:
    old, new = "", ""
    if reader.take("REFERENCING"):
        while reader.at("OLD") or reader.at("NEW"):
            which = reader.choice("OLD TABLE", "NEW TABLE", "OLD ROW", "NEW ROW")
            reader.take("AS")
            if which == "OLD TABLE":
                old = reader.name()
            elif which == "NEW TABLE":
                new = reader.name()
            else:
                reader.refuse("REFERENCING of a ROW")
    return old, new


def _arguments(reader: Reader) -> tuple[str, ...]:
    found: list[str] = []
    reader.need("(")
    while not reader.take(")"):
        token = reader.tokens[reader.place] if not reader.done else None
        if token is None:
            reader.unexpected(")")
        found.append(str(token.text))
        reader.skip(1)
        reader.take(",")
    return tuple(found)


def drop_trigger(reader: Reader) -> ast.DropTrigger:
    """What follows DROP TRIGGER."""
    exists, name, table = reader.dropped()
    return ast.DropTrigger(name, table, exists, reader.span)
