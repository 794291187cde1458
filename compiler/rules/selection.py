"""Which of the tuples that a relation's rules derive it keeps, if not all of them.

Unlike rules, these look at what else is derived: so a relation with one is computed as a whole.
"""

from typing import TYPE_CHECKING, assert_never

from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.compiler.rules.core import Rule


@dataclass(frozen=True, slots=True)
class Subsumption:
    """Those that no other one dominates.

    Each rule derives what is dominated: its head is the tuple, and its first two atoms, of the relation
    itself, are that tuple and the one that dominates it, of all that is derived. The rest are comparisons. No
    two tuples dominate each other.
    """

    rules: "tuple[Rule, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of those that are equal in the columns of one of the ``keys``: the first, in the order of the
    rounds in which they are derived, then of their values.
    """

    keys: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """In recursion, those of the rounds up to the first after which there are ``most`` or more."""

    most: int


Selection = Subsumption | Choice | Limit


def needs_rounds(selection: Selection | None) -> bool:
    """Whether a relation is computed in a loop although it does not depend on itself."""
    match selection:
        case Choice(keys=keys):
            return len(keys) > 1
        case Subsumption() | Limit() | None:
            return False
        case _:
            assert_never(selection)
