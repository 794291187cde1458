"""Operators with an empty frontier, which never send again, and how they let go of what made them.

Closed inputs that have brought everything have it, and constants; a table never. Any other operator has it
when all that it reads has. An arrangement with an empty frontier holds its contents, and nothing else is
needed to read it.
"""

from collections.abc import Iterable
from dataclasses import replace

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.custom import Custom
from kpg.runtime.operators.input import Input
from kpg.runtime.operators.loop import ArrangedLeave, Loop, everything
from kpg.runtime.operators.source import Source


def with_empty_frontier(operators: Iterable[Operator]) -> set[Operator]:
    """Which of the operators of one scope, given with all that they read, never send again."""
    found: set[Operator] = set()
    for operator in sorted(set(operators)):
        scope = operator.place.scope
        sources = (source for source in operator.inputs if source.place.scope is scope)
        if all(source in found for source in sources) and all(map(_silent, everything((operator,)))):
            found.add(operator)
    return found


def detach(operators: Iterable[Operator]) -> None:
    """Have arrangements among operators that never send again be without inputs."""
    for operator in operators:
        if isinstance(operator, Arrange) and operator.inputs:
            if not isinstance(operator, ArrangedLeave):  # a loop that stays must still find all its ways out
                for source in operator.inputs:
                    source.consumers = [(c, port) for c, port in source.consumers if c is not operator]
            operator.place = replace(operator.place, inputs=())


def release(operators: tuple[Operator, ...]) -> None:
    """Have operators, none of which runs again, hold no others in memory."""
    for operator in tuple(everything(operators)):
        operator.place = replace(operator.place, inputs=())
        operator.consumers.clear()
        if isinstance(operator, Loop):
            operator.body = operator.results = ()


def _silent(operator: Operator) -> bool:
    """Whether nothing more comes from here by itself."""
    if isinstance(operator, Input):
        return not operator.open and operator.earliest is None
    if isinstance(operator, Custom):
        return not operator.wishes.times()
    return not isinstance(operator, Source)
