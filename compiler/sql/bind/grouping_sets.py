"""GROUPING SETS, ROLLUP and CUBE: a GROUP BY clause as the list of its grouping sets."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from math import prod
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.syntax import construct_name

Parts = tuple[exp.Expr, ...]
Sets = list[Parts]
Refuse = Callable[[str, exp.Expr], None]
MOST_SETS: Final = 4096
"""As many as Postgres takes."""


def has_sets(clause: exp.Group) -> bool:
    """Whether the clause has more than plain keys."""
    return any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in clause.expressions)


def grouping_sets(elements: Sequence[exp.Expr], refuse: Refuse) -> Sets:
    """Every combination of a grouping set of each element; ``refuse`` raises where there are too many."""
    each = [_sets(element, refuse) for element in elements]
    if prod(map(len, each)) > MOST_SETS:
        refuse(f"GROUP BY with more than {MOST_SETS} grouping sets", elements[0])
    return [tuple(part for chosen in choice for part in chosen) for choice in product(*each)]


def plain_keys(node: exp.Expr) -> Parts:
    """The keys of an element in parentheses or without."""
    match node:
        case exp.Paren():
            return plain_keys(node.this)
        case exp.Tuple():
            return tuple(part for element in node.expressions for part in plain_keys(element))
        case _:
            return (node,)


def _sets(node: exp.Expr, refuse: Refuse) -> Sets:
    """The grouping sets of one element."""
    match node:
        case exp.Rollup():
            parts = [plain_keys(part) for part in node.expressions]
            return [_together(parts[:length]) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [plain_keys(part) for part in node.expressions]
            if 1 << len(parts) > MOST_SETS:
                refuse(f"{construct_name(node)} of so many elements", node)
            lengths = range(len(parts), -1, -1)
            return [_together(chosen) for length in lengths for chosen in combinations(parts, length)]
        case exp.GroupingSets():
            return [found for part in node.expressions for found in _sets(part, refuse)]
        case _:
            return [plain_keys(node)]


def _together(elements: Sequence[Parts]) -> Parts:
    return tuple(part for element in elements for part in element)
