"""Partitions as data: what else there is to a relation."""

from collections.abc import Mapping
from typing import Any

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Heir:
    """A partition of a table: its rows are among that one's, too."""

    parent: str
    child: str
    bound: str
    """What holds for its rows."""
    default: bool
    """Whether it is the partition of all rows that no other has."""
    told: "Bound"
    """The bound as it was written."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A table whose rows are in partitions, by RANGE, LIST or HASH of the keys, which are texts."""

    table: str
    kind: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """What PARTITION OF says: rows of values FROM and TO, those IN a list, or a modulus and a remainder.

    Without any it is the DEFAULT one. Values are texts.
    """

    parent: str
    form: str
    values: tuple[tuple[str, ...], ...]


def heirs(others: Mapping[tuple[str, ...], Any], name: str) -> tuple[str, ...]:
    """The tables whose rows are among those of a table, each once, without itself."""
    found: list[str] = []
    waiting = [name]
    while waiting:
        parent = waiting.pop(0).lower()
        for key, one in others.items():
            if key[0] == "inherits" and key[1] == parent and one.child not in found:
                found.append(one.child)
                waiting.append(one.child)
    return tuple(found)


def is_plain(others: Mapping[tuple[str, ...], Any], name: str) -> bool:
    """Whether a change of a table is of that one only: it has no partition."""
    lower = name.lower()
    return not any(
        key[1] == lower or (key[0] == "inherits" and key[2] == lower)
        for key in others
        if key[0] not in ("aggregate", "unique index")
    )
