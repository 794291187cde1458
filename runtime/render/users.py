"""Operators of the nodes that users' programs bring along."""

from typing import assert_never

from kpg.runtime import user
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.operators import apply, userreduce
from kpg.runtime.operators.custom import Custom
from kpg.runtime.operators.enterat import EnterAt
from kpg.runtime.operators.input import Sink
from kpg.runtime.render.context import Built, Site, arrangement_of


def build_user(node: user.Node, site: Site, built: Built) -> Operator:
    """One operator."""
    dictionary = site.context.dictionary
    match node:
        case user.Apply(input=ref, result=result):
            place = site.over((built[ref],), (None,) * len(result.columns))
            return apply.Apply(place, caller=apply.Caller(node, dictionary, site.scope.interrupt.check))
        case user.UserReduce(input=ref, key=key, result=result):
            source = arrangement_of(built[ref])
            place = site.over((source,), (None,) * (key + len(result.columns)))
            return userreduce.UserReduce(
                place, arrangement=source, group=key, caller=userreduce.Caller(node, dictionary)
            )
        case user.Custom(inputs=refs, result=result):
            place = site.over(tuple(built[ref] for ref in refs), (None,) * len(result.columns))
            operator = Custom(place, node=node, dictionary=dictionary)
            operator.bind()
            return operator
        case user.Sink(input=ref, listener=listener):
            return Sink(site.over((built[ref],), ()), listener=listener)
        case user.EnterAt(input=ref):
            return EnterAt(site.over((built[ref],), built[ref].place.rowids[:-1]))
        case user.Input():
            raise InternalError("an input has its operator from the worker")
        case _:
            assert_never(node)


def identity(node: user.Node) -> str:
    """What tells a node from others over the same inputs."""
    match node:
        case user.Apply(kind=kind, function=function, given=given, result=result):
            return f"{kind}{function!r}{given.types}{result.types}"
        case user.UserReduce(key=key, function=function, columns=columns, given=given, result=result):
            return f"{key}{function!r}{columns}{given.types}{result.types}"
        case user.Custom(inputs=refs, operator=operator, result=result):
            return f"{[refs.index(ref) for ref in refs]}{operator!r}{result.types}"
        case user.Sink(listener=listener):
            return str(listener)
        case user.EnterAt():
            return ""
        case user.Input(identity=name):
            return name
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
