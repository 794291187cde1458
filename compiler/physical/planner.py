"""The physical plan of a relation: its nodes, then the arrangements that serve its lookups."""

from collections.abc import Sequence

from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.lets import let_values, recursions, with_unique_ids
from kpg.compiler.algebra.rel import Rel, types
from kpg.compiler.physical.builder import Deferred
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.estimate import Sizes
from kpg.compiler.physical.late import Storage
from kpg.compiler.physical.lower import lower
from kpg.compiler.physical.mfp import identity
from kpg.compiler.statistics import Statistics
from kpg.runtime import plan
from kpg.runtime.plan import AnyNode, Concat, Linear, Negate, Plan, Ref


def plan_query(rel: Rel, statistics: Statistics) -> Plan:
    """The plan that maintains the relation; its output is arranged unless the state of operators holds it."""
    rel = with_unique_ids(rel)
    facts = Facts(let_values(rel), recursions(rel))
    planning = Planning(facts, Storage(facts.bound, statistics.early), Sizes(statistics, facts), lower)
    builder, columns = planning.builder, types(rel)
    ref = lower(planning, rel, identity(columns))
    if not _is_readable(builder.nodes, ref):
        ref = builder.arrange(ref, len(columns))
    planning.access.settle(statistics.arrangements)
    return builder.finish(ref)


def _is_readable(nodes: Sequence[AnyNode | Deferred], ref: Ref) -> bool:
    """Whether a node's contents can be read off the state of operators, with no arrangement of its own."""
    node = nodes[ref]
    if isinstance(node, Linear | Negate):
        return _is_readable(nodes, node.input)
    if isinstance(node, Concat):
        return all(_is_readable(nodes, source) for source in node.inputs)
    return not callable(node) and plan.holds_rows(node)
