"""Rendering of user nodes (inputs, functions, custom operators) and of ``Ego`` nodes."""

from typing import assert_never

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.ego.construction import Construction
from kpg.runtime.ego.families import make_family, measure_costs
from kpg.runtime.ego.overlay_engine import OverlayEngine
from kpg.runtime.errors import InternalError
from kpg.runtime.operators import user, user_reduce
from kpg.runtime.operators.ego import Ego
from kpg.runtime.operators.input import Sink
from kpg.runtime.operators.user import Custom
from kpg.runtime.operators.user_reduce import EnterAt
from kpg.runtime.plan import Ego as Node
from kpg.runtime.plan import EgoFamily
from kpg.runtime.plan import user as plan_user
from kpg.runtime.render.context import Built, Site, arrangement_of
from kpg.runtime.types import Kind


def build_ego(node: Node, site: Site, built: Built) -> Operator:
    """Build an operator with an empty overlay."""
    family = make_family(node.family, node.calls, node.few, site.context.dictionary)
    answers = node.family is EgoFamily.COUNTS and node.calls[0].type.kind is Kind.ARRAY
    costs = measure_costs(node.family, builds_arrays=answers)
    engine = OverlayEngine(family, Construction(node.construction), node.mode, costs)
    sources = [built[source] for source in node.sources]
    return Ego(site.place_after(*sources), engine=engine)


def build_user(node: plan_user.Node, site: Site, built: Built) -> Operator:
    """Build the operator of a user node."""
    dictionary = site.context.dictionary
    match node:
        case plan_user.Apply(input=ref):
            return user.Apply(
                site.place_after(built[ref]), caller=user.Caller(node, dictionary, site.scope.interrupt.check)
            )
        case plan_user.UserReduce(input=ref, key=key):
            source, caller = arrangement_of(built[ref]), user_reduce.Caller(node, dictionary)
            return user_reduce.UserReduce(
                site.place_after(source), arrangement=source, group=key, caller=caller
            )
        case plan_user.Custom(inputs=refs):
            operator = Custom(
                site.place_after(*(built[ref] for ref in refs)), node=node, dictionary=dictionary
            )
            operator.bind()
            return operator
        case plan_user.Sink(input=ref, listener=listener):
            return Sink(site.place_after(built[ref]), listener=listener)
        case plan_user.EnterAt(input=ref):
            return EnterAt(site.place_after(built[ref]))
        case plan_user.Input():
            raise InternalError("the worker creates the operator of an input")
        case _:
            assert_never(node)


def describe(node: plan_user.Node) -> str:
    """Return a short display name."""
    match node:
        case plan_user.Apply(kind=kind, function=function):
            return f"{kind.name.lower()} {function.name}"
        case plan_user.UserReduce(function=function):
            return f"reduce {function.name}"
        case plan_user.Custom(operator=operator):
            return f"apply {operator.name}"
        case plan_user.Sink():
            return "Output"
        case plan_user.EnterAt():
            return "Enter later"
        case plan_user.Input(identity=name):
            return f"Input {name}"
        case _:
            assert_never(node)
