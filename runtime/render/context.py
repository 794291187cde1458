"""The interface between rendering and the worker, and the registry of live operators and their inputs."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Below, Content, Operator, Place, Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.loop import Enter, Loop
from kpg.runtime.plan import Mfp, Path, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.tables.table import Table

if TYPE_CHECKING:
    from kpg.runtime.operators.worker_group import Company


Built = Mapping[Ref, Operator]
"""The operators of the nodes so far; what only operators read that were there before has none."""


Compact = tuple[NDArray[np.int64], NDArray[np.int64], Mfp]
"""The columns of the stream and of the arrangement that a half-join reads, and its mfp over just these."""


class Context(Protocol):
    """What rendering needs of the worker."""

    dictionary: Dictionary
    scope: Scope
    merge_effort: int

    @property
    def own(self) -> bool:
        """Whether pending changes of tables are read."""

    @property
    def sharing(self) -> "Company | None":
        """With whom plans are shared; None for one worker."""

    @property
    def then(self) -> int | None:
        """The epoch as of which tables are read; None for the present one."""

    @property
    def restoring(self) -> bool:
        """Whether operators take on what others kept: they need not be ready to run before they run."""

    def store(self, table: str) -> Table: ...
    def source_identity(self, table: str) -> str: ...
    def view_output(self, view: str) -> Operator: ...
    def input(self, identity: str) -> Operator: ...
    def next_position(
        self, inputs: Below = (), scope: Scope | None = None, *, apart: bool = False
    ) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """A path of a delta join, and of each half-join what it reads."""

    path: Path
    compacts: tuple[Compact, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a new operator goes: its fingerprint and name, its columns, and the scope that it runs in."""

    fingerprint: str
    description: str
    context: Context
    scope: Scope
    content: Content
    types: Types

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.types)

    def over(self, *inputs: Operator, apart: bool = False) -> Place:
        """The new operator's place, after what it reads; ``apart`` if workers have to meet before it."""
        position = self.context.next_position(inputs, self.scope, apart=apart)
        return Place(
            self.fingerprint, self.description, position, inputs, self.scope, self.width, self.content
        )


def arrangement_of(operator: Operator) -> Arrange:
    """The arrangement to look up: the operator's own, or that of an outer scope which it enters."""
    while isinstance(operator, Enter):
        (operator,) = operator.inputs
    if not isinstance(operator, Arrange):
        raise InternalError(f"{operator.place.description} is looked up but is not an arrangement")
    return operator


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
