"""FlowLog's names: relations, columns, components and instances are the same however their letters are cased.

Every use is spelled as the declaration is, so that what comes after need not know.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.rewriting import nodes, rewritten

T = TypeVar("T")
BEST = ("min", "max")
"""What columns keep the best by, and functors of any number of values."""
VALUED = (*BEST, "sum")
"""Aggregates of the type of their values."""


def spelled(statements: Sequence[T]) -> list[T]:
    """The statements with uses of names spelled as the declarations are."""
    known = _spellings(statements)
    if not known:
        return list(statements)

    def change(node: Any) -> Any:
        if isinstance(node, ast.Directive):
            return replace(node, names=tuple(_spelled(name, known) for name in node.names))
        if isinstance(node, ast.Atom | ast.ComponentRef | ast.Override | ast.Query):
            return replace(node, name=_spelled(node.name, known))
        return node

    return [rewritten(one, change) for one in statements]


def _spellings(statements: Sequence[Any]) -> dict[str, str]:
    """The spelling of names in small letters, but for those that are declared in several ways."""
    found: dict[str, set[str]] = {}
    for text in _declared(statements):
        found.setdefault(text.lower(), set()).add(text)
    return {small: texts.pop() for small, texts in found.items() if len(texts) == 1}


def _declared(statements: Sequence[Any]) -> Iterator[str]:
    for one in nodes(tuple(statements)):
        if isinstance(one, ast.Declaration):
            yield from (name.text for name in one.names)
        elif isinstance(one, ast.Component | ast.Init):
            yield one.name.text


def _spelled(name: ast.Name, known: Mapping[str, str]) -> ast.Name:
    text = ".".join(known.get(part.lower(), part) for part in name.text.split("."))
    return name if text == name.text else replace(name, text=text)
