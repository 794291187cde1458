"""The result of restricting a query's recursion, and its note in EXPLAIN."""

from kpg.compiler.algebra.rel import Rel
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """The outcome for one recursion: its strategy or the reason to compute it in full, and new rules."""

    recursion: str
    text: str
    rules: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the note without rules."""
        return f"recursion {self.recursion}: {self.text}\n"


@dataclass(frozen=True, slots=True)
class RestrictionResult:
    """A query with restricted recursion.

    ``rel`` is the original query if nothing is restricted.
    """

    rel: Rel
    notes: tuple[Note, ...]

    def text(self) -> str:
        """Return the text of ``EXPLAIN MAGIC``."""
        if not self.notes:
            return "the query has no recursion of its own\n"
        return "".join(note.line() + "".join(f"  {rule}\n" for rule in note.rules) for note in self.notes)
