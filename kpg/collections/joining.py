"""Delta joins as terms: every half-join of every path is one."""

from collections.abc import Sequence

from kpg.collections.term import Level, Make, Term, innermost
from kpg.runtime import plan
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Lookup:
    """What will be a half-join with ``arrangement``, of number ``relation`` in the join."""

    arrangement: Term
    relation: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class Path:
    """What will be a chain of nodes: ``mfp`` of the changes of a stream, then the lookups."""

    stream: Term
    mfp: Mfp
    lookups: tuple[Lookup, ...]


def delta_join(paths: Sequence[Path]) -> Term:
    """The join whose relation i is the stream of path i.

    All its nodes are in the innermost scope of all that it reads: a chain is not divided between a loop and
    what is around it.
    """
    read = [term for path in paths for term in (path.stream, *(one.arrangement for one in path.lookups))]
    scope = innermost([term.scope for term in read])
    ends = tuple(_chain(start, path, scope) for start, path in enumerate(paths))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.DeltaJoin(tuple(refs))

    return Term(ends, ends[0].types, make, scope)


def _chain(start: int, path: Path, scope: Level | None) -> Term:
    """The last half-join of a path."""

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Delta(refs[0], path.mfp)

    types = tuple(output.type for output in path.mfp.outputs)
    term = Term((path.stream,), types, make, scope)
    for lookup in path.lookups:
        types = tuple(output.type for output in lookup.mfp.outputs)
        term = Term((term, lookup.arrangement), types, _half_join(start, lookup), scope)
    return term


def _half_join(start: int, lookup: Lookup) -> Make:
    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.HalfJoin(refs[0], refs[1], start, lookup.relation, lookup.key, lookup.mfp)

    return make
