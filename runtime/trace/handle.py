"""A reader's hold on a trace."""

from kpg.runtime.errors import InternalError
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.holds import Hold
from kpg.runtime.trace.spine import Spine


class TraceHandle:
    """The right to read a trace at times in advance of ``logical``, cut at frontiers not before ``physical``.

    Both frontiers only advance; advancing them lets the spine compact times and merge batches. A handle
    that is closed, or dropped, holds nothing back. Handles own the spine: when the last is gone, so is it.
    """

    __slots__ = ("_hold", "_spine")

    def __init__(self, spine: Spine) -> None:
        self._open(spine, spine.since, spine.absorbed)

    def _open(self, spine: Spine, logical: Antichain, physical: Antichain) -> None:
        self._spine: Spine | None = spine
        self._hold = Hold(logical, physical)
        spine.hold(self._hold)

    @property
    def spine(self) -> Spine:
        """The trace; InternalError once closed."""
        if self._spine is None:
            raise InternalError("a closed trace handle was used")
        return self._spine

    @property
    def logical(self) -> Antichain:
        """Reads are right at times in advance of this frontier."""
        return self._hold.logical

    @property
    def physical(self) -> Antichain:
        """No batch spans this frontier, or a later one at which a step ended (see :meth:`Spine.mark`)."""
        return self._hold.physical

    def restore(self, logical: Antichain, physical: Antichain) -> None:
        """Hold what another handle held on a trace that is this one's from now on."""
        self._hold.logical, self._hold.physical = logical, physical

    def advance_logical(self, frontier: Antichain) -> None:
        """Give up reading at times not in advance of ``frontier``."""
        held = self._hold.logical
        if held is not frontier and not held.dominates(frontier):
            raise InternalError(
                f"a logical frontier cannot go back from {self.logical.elements} to {frontier.elements}"
            )
        self._hold.logical = frontier

    def advance_physical(self, frontier: Antichain) -> None:
        """Give up cutting the trace at frontiers before ``frontier``."""
        held = self._hold.physical
        if held is not frontier and not held.dominates(frontier):
            raise InternalError(
                f"a physical frontier cannot go back from {self.physical.elements} to {frontier.elements}"
            )
        self._hold.physical = frontier

    def follow(self) -> None:
        """Give up cutting the trace anywhere but at its end."""
        if self._spine is None:
            raise InternalError("a closed trace handle was used")
        self._hold.physical = self._spine.upper

    def clone(self) -> "TraceHandle":
        """Another handle with the same frontiers."""
        handle = TraceHandle.__new__(TraceHandle)
        handle._open(self.spine, self.logical, self.physical)
        return handle

    def close(self) -> None:
        """Hold nothing back any more; closing twice is allowed."""
        if self._spine is not None:
            self._spine.release(self._hold)
            self._spine = None
