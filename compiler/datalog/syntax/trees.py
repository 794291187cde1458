"""Lark's trees, looked at: operations in a row, words."""

from collections.abc import Iterator
from typing import Any

from lark import Token, Tree

from kpg.compiler.datalog.syntax.literals import integer

LEFT_TO_RIGHT = ("+", "-", "*", "/", "%", "cat")


def level(operator: str) -> int:
    return 2 if operator in "*/%" else 1


def is_rule(node: Any, rule: str) -> bool:
    return isinstance(node, Tree) and node.data == rule


def words(node: Any) -> list[str]:
    """A word, or those of a test."""
    return [str(node)] if isinstance(node, Token) else list(map(str, node.children))


def chain(node: Any) -> Iterator[Any]:
    """Operands and operators in the order in which they stand."""
    if not (is_rule(node, "binary") and str(node.children[1]) in LEFT_TO_RIGHT):
        yield node
        return
    left, operator, right = node.children
    yield from chain(left)
    yield operator
    yield from chain(right)


def orders(node: Any) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """A plan's orders, each with the version that it is for."""
    found = []
    for part in node.children[1:]:
        numbers = [integer(str(token))[0] for token in part.children]
        version = numbers.pop(0) if part.data == "versioned_order" else 0
        found.append((version, tuple(numbers)))
    return tuple(found)
