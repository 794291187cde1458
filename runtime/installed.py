"""What the worker tells of the views it keeps: handles, figures, and the list of shared indexes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.topk import LAST
from kpg.runtime.trace.collect import collect
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stats:
    """What a view cost: to install, and in the last step."""

    install_seconds: float
    arrangements_built: int
    arrangements_reused: int
    last_step_seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class ArrangementInfo:
    """One shared index: what it is of, its size, and the views that hold it."""

    description: str
    rows: int
    bytes: int
    batches: int
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator: its place, its work since it was made, and the views that hold it."""

    position: int
    description: str
    inputs: tuple[int, ...]
    updates_in: int
    updates_out: int
    rows: int
    bytes: int
    seconds: float
    readers: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Capture(Operator):
    """Keeps the changes of a view until they are drained."""

    changes: list[Updates] = field(default_factory=list)
    uncommitted: list[Updates] = field(default_factory=list)

    def flush(self) -> None:
        changes = Updates.concat(self.take()).consolidate()
        self.uncommitted = [changes] if len(changes) else []

    def commit(self) -> None:
        self.changes.extend(self.uncommitted)
        self.uncommitted = []

    def rollback(self) -> None:
        self.pending.clear()
        self.uncommitted = []


class Installed:
    """A plan that is kept up to date: its operators, its output, and its captured changes."""

    def __init__(
        self, name: str, operators: tuple[Operator, ...], output: Operator, built: int, reused: int
    ) -> None:
        self.name = name
        self.operators = tuple(dict.fromkeys(operators))
        self.output = output
        self.arrangements_built = built
        self.arrangements_reused = reused
        self.install_seconds = 0.0
        self.capture: Capture | None = None

    def rows(self) -> tuple[Words, Words]:
        """The present contents: distinct rows ``int64[width, m]`` and their multiplicities ``int64[m]``."""
        parts = list(self.output.snapshot())
        if not parts:
            return np.empty((self.output.width, 0), np.int64), np.empty(0, np.int64)
        contents = Updates.concat(parts).consolidate()
        return contents.data, contents.diffs()

    def matching(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """The present rows that begin with these words, and their multiplicities.

        The output must be an arrangement; O(log n + rows). Between steps only.
        """
        output = self.output
        if not isinstance(output, Arrange):
            raise InternalError(f"the output of {self.name} is not arranged")
        layers = output.layers
        if not layers:
            return np.empty((output.width, 0), np.int64), np.empty(0, np.int64)
        words = np.array(prefix, np.int64).reshape(-1, 1)
        times = np.full((output.spine.depth, 1), LAST, np.int64)
        visible = np.array([len(layers)], np.int64)
        data, counts, _, _ = collect(layers, words, times, visible, output.width)
        return data, counts

    def drain(self) -> list[Updates]:
        """The consolidated changes of each step since the last call; capture must be on."""
        if self.capture is None:
            raise InternalError(f"changes of {self.name} are not captured")
        changes, self.capture.changes = self.capture.changes, []
        return changes

    @property
    def last_step_seconds(self) -> float:
        """Time that the operators of this view, shared ones included, took in the last step."""
        step = self.output.step
        return sum(op.counters.step_seconds for op in self.operators if op.scheduled is step)

    @property
    def stats(self) -> Stats:
        """Install and refresh figures; ``rows`` is about how many the view has."""
        return Stats(
            self.install_seconds,
            self.arrangements_built,
            self.arrangements_reused,
            self.last_step_seconds,
            self.output.size(),
        )


def operator_info(operator: Operator) -> OperatorInfo:
    """What an operator tells of itself."""
    counters = operator.counters
    return OperatorInfo(
        operator.position,
        operator.place.description,
        tuple(source.position for source in operator.inputs),
        counters.updates_in,
        counters.updates_out,
        operator.rows,
        operator.bytes,
        counters.seconds,
        tuple(sorted(operator.owners)),
    )
