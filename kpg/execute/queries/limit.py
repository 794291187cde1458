"""LIMIT over a recursive query: stops the recursion as soon as there are enough rows.

The recursion runs for some rounds, then for more. Each run reports whether it reached the fixed point.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kpg.api.result import Result
from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.sql.frontend import Bound
from kpg.runtime.errors import EndlessError

FIRST: Final = 1000
"""The rounds that are computed first, at most."""
FACTOR: Final = 8
ADDING: Final = (
    algebra.Get,
    algebra.Constant,
    algebra.LocalGet,
    algebra.Map,
    algebra.Filter,
    algebra.Project,
    algebra.Join,
    algebra.Union,
    algebra.Distinct,
)
"""What only gets more rows as its inputs do."""


def limit_of(rel: Rel) -> algebra.TopK | None:
    """The LIMIT that may end the one recursion of a query before it has come to its end."""
    loops = [node for node in walk(rel) if isinstance(node, algebra.LetRec)]
    if len(loops) != 1 or loops[0].limit is not None:
        return None
    if not all(isinstance(node, ADDING) for value in loops[0].values for node in walk(value)):
        return None
    body: Rel = rel
    while isinstance(body, algebra.LetRec | algebra.Map | algebra.Project):
        body = body.body if isinstance(body, algebra.LetRec) else body.input
    if not isinstance(body, algebra.TopK) or body.group or body.order or body.limit is None:
        return None
    below = list(walk(body.input))
    reads = any(isinstance(node, algebra.LocalGet) and node.id in loops[0].ids for node in below)
    return body if reads and all(isinstance(node, ADDING) for node in below) else None


def answer(bound: Bound, limit: algebra.TopK, ask: Callable[[Bound], Result]) -> Result:
    """The rows of a query whose ``limit`` ends its recursion."""
    wanted = limit.limit or 0
    rounds = max(1, min(wanted + limit.offset, FIRST))
    while True:
        found = ask(_within(bound, rounds, False))
        if len(found) >= wanted:
            return found
        try:
            return ask(_within(bound, rounds, True))
        except EndlessError:
            rounds *= FACTOR


def _within(bound: Bound, rounds: int, error_at_limit: bool) -> Bound:
    """The query with its recursion computed for so many rounds, more of which may be an error."""

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.LetRec):
            return replace(node, limit=rounds, error_at_limit=error_at_limit)
        return node

    return replace(bound, rel=transform_up(bound.rel, rewrite))
