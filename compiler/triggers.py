"""Triggers and rules as data: what is done when rows of a relation change."""

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Trigger:
    """CREATE TRIGGER. ``timing`` is BEFORE, AFTER or INSTEAD; ``columns`` are those of UPDATE OF."""

    name: str
    table: str
    timing: str
    events: tuple[str, ...]
    columns: tuple[str, ...]
    for_rows: bool
    condition: str
    function: str
    arguments: tuple[str, ...]
    old_rows: str = ""
    new_rows: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Deed:
    """CREATE RULE: statements that are run for each row of an event, also or instead."""

    name: str
    table: str
    event: str
    condition: str
    instead: bool
    statements: tuple[str, ...]
