"""What rendering needs of the worker, and where a new operator goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kpg.runtime.data.table import Table
from kpg.runtime.dataflow.operator import Content, Operator, Place
from kpg.runtime.dataflow.scope import Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.loop import Enter
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.scalar import Column

Rowids = tuple[str | None, ...]
"""For each column, the table whose rowids it holds, if any."""
Built = Mapping[Ref, Operator]
"""The operators of the nodes so far; what only operators read that were there before has none."""


class Context(Protocol):
    """What rendering needs of the worker."""

    dictionary: Dictionary
    scope: Scope
    merge_effort: int

    def store(self, table: str) -> Table: ...
    def source_identity(self, table: str) -> str: ...
    def view_output(self, view: str) -> Operator: ...
    def input(self, identity: str) -> Operator: ...
    def next_position(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Site:
    """Where a new operator goes: its fingerprint and name, and the scope that it runs in."""

    fingerprint: str
    description: str
    context: Context
    scope: Scope
    content: Content

    def over(self, inputs: tuple[Operator, ...], rowids: Rowids) -> Place:
        """The new operator's place."""
        position = self.context.next_position()
        return Place(self.fingerprint, self.description, position, inputs, self.scope, rowids, self.content)


def through(mfp: Mfp, rowids: Rowids) -> Rowids:
    """Which table's rowids the outputs of an mfp hold, given the same of its inputs."""
    return tuple(rowids[s.index] if isinstance(s, Column) else None for s in mfp.outputs)


def either(inputs: Sequence[Rowids]) -> Rowids:
    """Rowid columns of a union, where a branch may have literal NULLs in such a column."""
    return tuple(next((name for name in names if name), None) for names in zip(*inputs, strict=True))


def arrangement_of(operator: Operator) -> Arrange:
    """The arrangement to look up: the operator's own, or that of an outer scope which it enters."""
    while isinstance(operator, Enter):
        (operator,) = operator.inputs
    if not isinstance(operator, Arrange):
        raise InternalError(f"{operator.place.description} is looked up but is not an arrangement")
    return operator
