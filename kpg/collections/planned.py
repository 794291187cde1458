"""Plans that the compiler made, as terms: a view that is not kept, as a collection."""

from collections.abc import Sequence

from kpg.collections.term import Make, Term
from kpg.runtime import plan
from kpg.runtime.plan import Plan, Ref
from kpg.runtime.types import Type


def planned_term(source: Plan, types: Sequence[Type]) -> Term:
    """The plan's output, rows of ``types``; what others compute too is shared as the plan itself would."""
    found: dict[Ref, Term] = {}
    for ref, node in enumerate(source.nodes):
        inputs = plan.inputs(node)
        relation = None
        if isinstance(node, plan.Source):
            relation = node.table
        elif isinstance(node, plan.Import):
            relation = node.view
        row = tuple(types) if ref == source.output else ()
        terms = tuple(found[each] for each in inputs)
        found[ref] = Term(terms, row, _maker(node, inputs), None, relation=relation)
    return found[source.output]


def _maker(node: plan.AnyNode, inputs: tuple[Ref, ...]) -> Make:
    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.moved(node, dict(zip(inputs, refs, strict=True)).__getitem__)

    return make
