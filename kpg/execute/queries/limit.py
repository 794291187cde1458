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
from kpg.compiler.sql.frontend import LoweredQuery
from kpg.runtime.errors import EndlessError

INITIAL_ROUNDS: Final = 1000
"""Maximum number of rounds of the first run."""
ROUNDS_FACTOR: Final = 8
MONOTONE: Final = (
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
"""Operators that are monotone: more input rows never remove output rows."""


def find_limit(rel: Rel) -> algebra.TopK | None:
    """Return the LIMIT that can end the only recursion of a query early."""
    loops = [node for node in walk(rel) if isinstance(node, algebra.LetRec)]
    if len(loops) != 1 or loops[0].limit is not None:
        return None
    if not all(isinstance(node, MONOTONE) for value in loops[0].values for node in walk(value)):
        return None
    body: Rel = rel
    while isinstance(body, algebra.LetRec | algebra.Map | algebra.Project):
        body = body.body if isinstance(body, algebra.LetRec) else body.input
    if not isinstance(body, algebra.TopK) or body.group or body.order or body.limit is None:
        return None
    below = list(walk(body.input))
    reads = any(isinstance(node, algebra.LocalGet) and node.id in loops[0].ids for node in below)
    return body if reads and all(isinstance(node, MONOTONE) for node in below) else None


def run_with_limit(bound: LoweredQuery, limit: algebra.TopK, run: Callable[[LoweredQuery], Result]) -> Result:
    """Return the rows of a query whose ``limit`` ends its recursion."""
    wanted = limit.limit or 0
    rounds = max(1, min(wanted + limit.offset, INITIAL_ROUNDS))
    while True:
        found = run(_limit_rounds(bound, rounds, False))
        if len(found) >= wanted:
            return found
        try:
            return run(_limit_rounds(bound, rounds, True))
        except EndlessError:
            rounds *= ROUNDS_FACTOR


def _limit_rounds(bound: LoweredQuery, rounds: int, error_at_limit: bool) -> LoweredQuery:
    """Return the query with its recursion limited to ``rounds``, beyond which ``error_at_limit`` raises."""

    def rewrite(node: Rel) -> Rel:
        if isinstance(node, algebra.LetRec):
            return replace(node, limit=rounds, error_at_limit=error_at_limit)
        return node

    return replace(bound, rel=transform_up(bound.rel, rewrite))
