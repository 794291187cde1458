"""The physical plan of a relation: built twice, first to see which arrangements it needs."""

from collections.abc import Sequence

from kpg.compiler.algebra.rel import Rel, types
from kpg.compiler.catalog import Statistics
from kpg.compiler.physical.access import Access, Need, choose
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.lower import lower
from kpg.compiler.physical.mfp import identity
from kpg.runtime.plan import (
    Arrange,
    BasicReduce,
    Concat,
    Constant,
    Distinct,
    Linear,
    Negate,
    Node,
    Plan,
    Reduce,
    Ref,
    Threshold,
    TopK,
)


def plan_query(rel: Rel, statistics: Statistics) -> Plan:
    """The plan that maintains the relation; its output is arranged unless the state of operators holds it."""
    access = Access()
    _build(rel, statistics, access)
    access.sequences = _chosen(access, statistics)
    return _build(rel, statistics, access)


def _build(rel: Rel, statistics: Statistics, access: Access) -> Plan:
    planning = Planning(statistics, access, lower)
    columns = types(rel)
    ref = lower(planning, rel, identity(columns))
    if not _is_readable(planning.builder.nodes, ref):
        ref = planning.builder.arrange(ref, len(columns))
    return planning.builder.finish(ref)


def _is_readable(nodes: Sequence[Node], ref: Ref) -> bool:
    """Whether a node's contents can be read off the state of operators, with no arrangement of its own."""
    match nodes[ref]:
        case Arrange() | Reduce() | Distinct() | Threshold() | TopK() | BasicReduce() | Constant():
            return True
        case Linear(input=source) | Negate(input=source):
            return _is_readable(nodes, source)
        case Concat(inputs=sources):
            return all(_is_readable(nodes, source) for source in sources)
        case _:
            return False


def _chosen(access: Access, statistics: Statistics) -> dict[str, tuple[tuple[int, ...], ...]]:
    """For each table that is looked up, the key columns of its arrangements."""
    needs: dict[str, list[Need]] = {}
    for need in access.needs:
        needs.setdefault(need.table, []).append(need)
    return {
        table: choose(wanted, statistics.arrangements(table), access.primary.get(table, ()))
        for table, wanted in needs.items()
    }
