"""The operator of an ``Ego`` node."""

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.ego.building import Construction
from kpg.runtime.ego.engine import Engine
from kpg.runtime.ego.families import calibrated, family_of
from kpg.runtime.operators.ego import Ego
from kpg.runtime.plan import Ego as Node
from kpg.runtime.plan import EgoFamily
from kpg.runtime.render.context import Built, Site
from kpg.runtime.types import Kind


def ego(node: Node, site: Site, built: Built) -> Operator:
    """An operator with an empty overlay."""
    family = family_of(node.family, node.calls, node.few, site.context.dictionary)
    answers = node.family is EgoFamily.COUNTS and node.calls[0].type.kind is Kind.ARRAY
    costs = calibrated(node.family, answers=answers)
    engine = Engine(family, Construction(node.construction), node.mode, costs)
    sources = [built[source] for source in node.sources]
    return Ego(site.over(*sources), engine=engine)
