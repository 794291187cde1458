"""Operators of the nodes that users' programs bring along."""

from typing import assert_never

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.operators import apply, userreduce
from kpg.runtime.operators.custom import Custom
from kpg.runtime.operators.enterat import EnterAt
from kpg.runtime.operators.input import Sink
from kpg.runtime.plan import user
from kpg.runtime.render.context import Built, Site, arrangement_of


def build_user(node: user.Node, site: Site, built: Built) -> Operator:
    """One operator."""
    dictionary = site.context.dictionary
    match node:
        case user.Apply(input=ref):
            return apply.Apply(
                site.over(built[ref]), caller=apply.Caller(node, dictionary, site.scope.interrupt.check)
            )
        case user.UserReduce(input=ref, key=key):
            source, caller = arrangement_of(built[ref]), userreduce.Caller(node, dictionary)
            return userreduce.UserReduce(site.over(source), arrangement=source, group=key, caller=caller)
        case user.Custom(inputs=refs):
            operator = Custom(site.over(*(built[ref] for ref in refs)), node=node, dictionary=dictionary)
            operator.bind()
            return operator
        case user.Sink(input=ref, listener=listener):
            return Sink(site.over(built[ref]), listener=listener)
        case user.EnterAt(input=ref):
            return EnterAt(site.over(built[ref]))
        case user.Input():
            raise InternalError("an input has its operator from the worker")
        case _:
            assert_never(node)


def describe(node: user.Node) -> str:
    """A short name for displays."""
    match node:
        case user.Apply(kind=kind, function=function):
            return f"{kind.name.lower()} {function.name}"
        case user.UserReduce(function=function):
            return f"reduce {function.name}"
        case user.Custom(operator=operator):
            return f"apply {operator.name}"
        case user.Sink():
            return "Output"
        case user.EnterAt():
            return "Enter later"
        case user.Input(identity=name):
            return f"Input {name}"
        case _:
            assert_never(node)
