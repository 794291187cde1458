"""What Postgres' catalogs, and information_schema, have of triggers and of the functions of users."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.system.naming import DATABASE, number_of, split
from kpg.compiler.system.relations import Row, System, columns
from kpg.compiler.system.words import quoted, shown_name, whole
from kpg.compiler.triggers import Trigger

FOR_ROWS: Final = 1
BITS: Final = {"BEFORE": 2, "INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32, "INSTEAD": 64}
ORDER: Final = ("INSERT", "DELETE", "UPDATE", "TRUNCATE")


def _all(catalog: Catalog) -> list[Trigger]:
    return [one for one in catalog.others.values() if isinstance(one, Trigger)]


def trigger_number(one: Trigger) -> int:
    """The number of a trigger."""
    return number_of("trigger", f"{one.table}.{one.name}")


def _triggers(catalog: Catalog) -> Iterator[Row]:
    for one in _all(catalog):
        kind = sum(BITS[event] for event in one.events) + BITS.get(one.timing, 0)
        waits = int(bool(one.deferral)), int(one.deferral == "DEFERRED")
        yield (
            trigger_number(one),
            number_of("relation", one.table),
            one.name,
            kind + FOR_ROWS * one.for_rows,
            "O" if one.enabled else "D",
            0,
            *waits,
            len(one.arguments),
            one.condition or None,
            one.old_rows or None,
            one.new_rows or None,
        )


def _timing(one: Trigger) -> str:
    return "INSTEAD OF" if one.timing == "INSTEAD" else one.timing


def _shown(catalog: Catalog) -> Iterator[Row]:
    for one in _all(catalog):
        schema, table = split(catalog, one.table)
        for event in one.events:
            if event == "TRUNCATE":
                continue
            level = "ROW" if one.for_rows else "STATEMENT"
            call = f"EXECUTE FUNCTION {one.function}({_arguments(one)})"
            old, new = one.old_rows or None, one.new_rows or None
            head = (DATABASE, schema, one.name, event, DATABASE, schema, table, _place(catalog, one, event))
            condition = None
            if one.condition:
                spell = catalog.consulted.spelling.expression
                condition = spell(catalog, catalog.get(one.table), one.condition)
            yield *head, condition, call, level, _timing(one), old, new


def _place(catalog: Catalog, one: Trigger, event: str) -> int:
    """The place of a trigger among those that act at the same time, by their names."""
    kind = (one.table.lower(), one.for_rows, one.timing)
    same = (
        each
        for each in _all(catalog)
        if event in each.events and (each.table.lower(), each.for_rows, each.timing) == kind
    )
    return 1 + sum(each.name < one.name for each in same)


def _updated(catalog: Catalog) -> Iterator[Row]:
    """The columns whose UPDATE runs a trigger."""
    for one in _all(catalog):
        schema, table = split(catalog, one.table)
        for column in one.columns:
            yield DATABASE, schema, one.name, DATABASE, schema, table, column


def _arguments(one: Trigger) -> str:
    return ", ".join("'" + given.replace("'", "''") + "'" for given in one.arguments)


def definition(catalog: Catalog, one: Trigger, *, pretty: bool) -> str:
    """A trigger as ``pg_get_triggerdef`` writes it."""
    events = " OR ".join(
        f"UPDATE OF {', '.join(map(quoted, one.columns))}" if event == "UPDATE" and one.columns else event
        for event in ORDER
        if event in one.events
    )
    kind = "CONSTRAINT " if one.deferral else ""
    text = f"CREATE {kind}TRIGGER {quoted(one.name)} {_timing(one)} {events}"
    text += f" ON {shown_name(catalog, one.table, 'relation') if pretty else whole(catalog, one.table)}"
    if one.deferral:
        text += " DEFERRABLE" + (" INITIALLY DEFERRED" if one.deferral == "DEFERRED" else "")
    tables = [
        f"{name} TABLE AS {quoted(rows)}"
        for name, rows in (("OLD", one.old_rows), ("NEW", one.new_rows))
        if rows
    ]
    text += f" REFERENCING {' '.join(tables)}" if tables else ""
    text += f" FOR EACH {'ROW' if one.for_rows else 'STATEMENT'}"
    if one.condition:
        spelling = catalog.consulted.spelling
        text += f" WHEN ({spelling.expression(catalog, catalog.get(one.table), one.condition, pretty)})"
    function = one.function.lower().removeprefix("public.")
    return f"{text} EXECUTE FUNCTION {shown_name(catalog, function, 'function')}({_arguments(one)})"


def definitions(catalog: Catalog, *, pretty: bool = False) -> list[tuple[int, str]]:
    """The texts of all triggers by their numbers."""
    return [(trigger_number(one), definition(catalog, one, pretty=pretty)) for one in _all(catalog)]


POSTGRES: Final = {
    "pg_trigger": System(
        columns(
            "oid:o tgrelid:o tgname tgtype:i tgenabled tgisinternal:b tgdeferrable:b tginitdeferred:b "
            "tgnargs:i tgqual tgoldtable tgnewtable"
        ),
        _triggers,
    ),
}
INFORMATION: Final = {
    "triggers": System(
        columns(
            "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog "
            "event_object_schema event_object_table action_order:i action_condition action_statement "
            "action_orientation action_timing action_reference_old_table action_reference_new_table"
        ),
        _shown,
    ),
    "triggered_update_columns": System(
        columns(
            "trigger_catalog trigger_schema trigger_name event_object_catalog event_object_schema "
            "event_object_table event_object_column"
        ),
        _updated,
    ),
}
