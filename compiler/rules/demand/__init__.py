"""Magic sets for recursive SQL: compute a recursion only for the values that the query uses.

``restriction.restrict`` is the entry point. It finds the values that a query gives to columns of a recursive
relation, and replaces the read by a restricted relation. ``rule_program`` turns the recursion into a program
of rules, which ``rules.magic`` rewrites. :class:`RestrictionResult` has the result for EXPLAIN.
"""

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
