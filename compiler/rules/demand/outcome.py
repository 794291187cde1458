"""The result of restricting a query's recursion, and its note in EXPLAIN."""

from kpg.compiler.algebra.rel import Rel
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a recursion: how it is asked, or why it is computed as a whole; and its new rules."""

    recursion: str
    text: str
    rules: tuple[str, ...] = ()

    def line(self) -> str:
        """The note without rules."""
        return f"recursion {self.recursion}: {self.text}\n"


@dataclass(frozen=True, slots=True)
class Restricted:
    """A query that computes of its recursion what it needs; ``rel`` is as it was where nothing is gained."""

    rel: Rel
    notes: tuple[Note, ...]

    def text(self) -> str:
        """What ``EXPLAIN MAGIC`` shows."""
        if not self.notes:
            return "the query has no recursion of its own\n"
        return "".join(note.line() + "".join(f"  {rule}\n" for rule in note.rules) for note in self.notes)
