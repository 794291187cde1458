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
from kpg.runtime.plan import DeltaPath, Mfp, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.tables.table import Table

if TYPE_CHECKING:
    from kpg.runtime.operators.worker_group import WorkerGroup


Built = Mapping[Ref, Operator]
"""Operators built so far by node; a node that only existing operators read has none."""


CompactHalfJoin = tuple[NDArray[np.int64], NDArray[np.int64], Mfp]
"""Stream and arrangement columns that a half-join reads, and its mfp over just these."""


class Context(Protocol):
    """Services of the worker that rendering uses."""

    dictionary: Dictionary
    scope: Scope
    merge_effort: int

    @property
    def reads_pending(self) -> bool:
        """Whether pending changes of tables are read."""

    @property
    def worker_group(self) -> "WorkerGroup | None":
        """The workers that run the plan together; None for one worker."""

    @property
    def as_of_epoch(self) -> int | None:
        """Epoch as of which tables are read; None for the current contents."""

    @property
    def is_restoring(self) -> bool:
        """Whether operators will receive restored state: compilation can wait until they run."""

    def store(self, table: str) -> Table: ...
    def source_identity(self, table: str) -> str: ...
    def view_output(self, view: str) -> Operator: ...
    def input(self, identity: str) -> Operator: ...
    def next_position(
        self, inputs: Below = (), scope: Scope | None = None, *, at_barrier: bool = False
    ) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class CompactPath:
    """DeltaPath of a delta join, with the columns that each half-join reads."""

    path: DeltaPath
    compact_half_joins: tuple[CompactHalfJoin, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """Location of a new operator: its fingerprint and name, its columns, and its scope."""

    fingerprint: str
    description: str
    context: Context
    scope: Scope
    content: Content
    types: Types

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.types)

    def place_after(self, *inputs: Operator, at_barrier: bool = False) -> Place:
        """Return a place for the new operator after its inputs.

        ``at_barrier`` if workers synchronize before it.
        """
        position = self.context.next_position(inputs, self.scope, at_barrier=at_barrier)
        return Place(
            self.fingerprint, self.description, position, inputs, self.scope, self.width, self.content
        )


def arrangement_of(operator: Operator) -> Arrange:
    """Return the arrangement to look up: the operator itself, or one of an outer scope that it enters.

    Raises:
        InternalError: If the operator is not an arrangement.
    """
    while isinstance(operator, Enter):
        (operator,) = operator.inputs
    if not isinstance(operator, Arrange):
        raise InternalError(f"{operator.place.description} is looked up but is not an arrangement")
    return operator


def with_inputs(operators: Iterable[Operator], imported: Iterable[Operator] = ()) -> tuple[Operator, ...]:
    """Return operators of one scope with all that they read, in dependency order.

    The inputs of ``imported`` ones are left out. A loop comes with all its leaves, since one without a
    reader now could not be hydrated later.
    """
    stack, boundary = list(operators), set(imported)
    collected: set[Operator] = set()
    while stack:
        operator = stack.pop()
        if operator in collected:
            continue
        collected.add(operator)
        if operator in boundary:
            continue
        scope = operator.place.scope
        stack += [source for source in operator.inputs if source.place.scope is scope]
        if isinstance(operator, Loop):
            readers = [reader for result in operator.results for reader, _ in result.consumers]
            stack += [reader for reader in readers if reader.place.scope is scope]
    return tuple(sorted(collected))
