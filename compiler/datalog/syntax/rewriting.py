"""Whole trees of ``ast``: what is in them, and what they are with parts changed."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from kpg.runtime.errors import Span

T = TypeVar("T")


def rewritten(node: T, change: Callable[[Any], Any]) -> T:
    """The tree with each of its nodes changed, those inside first."""
    found: Any = node
    if isinstance(found, tuple):
        made: Any = tuple(rewritten(part, change) for part in found)
        return made
    if not is_dataclass(found) or isinstance(found, Span | type):
        return node
    changes = {}
    for one in fields(found):
        old = getattr(found, one.name)
        new = rewritten(old, change)
        if new is not old and new != old:
            changes[one.name] = new
    result: T = change(replace(found, **changes) if changes else found)
    return result


def nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for part in node:
            yield from nodes(part)
    elif is_dataclass(node) and not isinstance(node, Span | type):
        yield node
        for one in fields(node):
            yield from nodes(getattr(node, one.name))
