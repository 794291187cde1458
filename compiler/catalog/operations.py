"""Catalog operations: definitions as data.

A catalog holds one mapping per kind of object. ``Catalog.apply`` performs operations, and no other code
changes these mappings. It replaces a mapping instead of changing it, so that copies and snapshots of a
catalog share what has not changed.
"""

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ObjectKind(Generic[K, V]):
    """A kind of catalog object.

    ``mapping`` is the path of the catalog's attribute that holds its objects. ``affects_plans`` says
    whether a cached plan depends on them.
    """

    __slots__ = ("affects_plans", "mapping")

    def __init__(self, mapping: str, *, affects_plans: bool = True) -> None:
        self.mapping = mapping
        self.affects_plans = affects_plans

    def put(self, key: K, value: V) -> "Put":
        """Return the operation that adds an object or replaces the one with its key."""
        return Put(self, key, value)

    def remove(self, key: K) -> "Remove":
        """Return the operation that removes an object."""
        return Remove(self, key)


class Put:
    """Add an object, or replace the one with its key."""

    __slots__ = ("key", "kind", "value")

    def __init__(self, kind: ObjectKind[Any, Any], key: Hashable, value: object) -> None:
        self.kind = kind
        self.key = key
        self.value = value


class Remove:
    """Remove an object, if it exists."""

    __slots__ = ("key", "kind")

    def __init__(self, kind: ObjectKind[Any, Any], key: Hashable) -> None:
        self.kind = kind
        self.key = key


CatalogOp = Put | Remove
