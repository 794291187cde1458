"""What can fail for some row of a relation that a join reads.

An operator with state evaluates its input in any case; a selection or join evaluates what its reader needs.
"""

from collections.abc import Mapping
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.failing import is_total
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, scalars


def may_fail(rel: Rel, lets: Mapping[str, Rel]) -> bool:
    """Whether a row of the relation, read by a join, may have a column or pass a test that fails."""
    match rel:
        case algebra.Filter() | algebra.Map() | algebra.Join():
            return not all(map(is_total, scalars(rel))) or _any_may_fail(children(rel), lets)
        case algebra.Expand():
            return True
        case algebra.Project() | algebra.Union() | algebra.Negate():
            return _any_may_fail(children(rel), lets)
        case algebra.Let(id=id_, value=value, body=body):
            return may_fail(body, {**lets, id_: value})
        case algebra.LetRec(body=body):
            return may_fail(body, lets)
        case algebra.LocalGet(id=id_):
            return id_ in lets and may_fail(lets[id_], lets)
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Reduce()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Single()
        ):
            return False
        case _:
            assert_never(rel)


def _any_may_fail(rels: tuple[Rel, ...], lets: Mapping[str, Rel]) -> bool:
    return any(may_fail(rel, lets) for rel in rels)
