"""Operators that are there, and what they need of each other."""

from collections.abc import Iterable

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.operators.loop import Loop


def with_inputs(operators: Iterable[Operator], imported: Iterable[Operator] = ()) -> tuple[Operator, ...]:
    """Operators of one scope with all that they read, in dependency order; not what ``imported`` ones read.

    A loop comes with all its ways out: one that was left alone could not be filled later.
    """
    stack, alone = list(operators), set(imported)
    found: set[Operator] = set()
    while stack:
        operator = stack.pop()
        if operator in found:
            continue
        found.add(operator)
        if operator in alone:
            continue
        scope = operator.place.scope
        stack += [source for source in operator.inputs if source.place.scope is scope]
        if isinstance(operator, Loop):
            readers = [reader for result in operator.results for reader, _ in result.consumers]
            stack += [reader for reader in readers if reader.place.scope is scope]
    return tuple(sorted(found))
