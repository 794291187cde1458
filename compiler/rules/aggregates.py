"""What rules ask of an aggregate, read from its record in ``runtime.functions``."""

from collections.abc import Iterable

from kpg.runtime.functions import aggregate_named


def is_total(function: str) -> bool:
    """Whether it has a value, its identity, for a group without bindings."""
    return aggregate_named(function).identity is not None


def in_recursion(function: str) -> bool:
    """Whether a relation may depend on itself through it: more rows only move its value one way."""
    return aggregate_named(function).is_lattice


def counts_repeats(aggregates: Iterable[str | None]) -> bool:
    """Whether one of a relation's aggregates changes if a rule derives a row once more."""
    return any(function is not None and not aggregate_named(function).idempotent for function in aggregates)
