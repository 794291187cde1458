"""Why a row is not there: how far each way to make it gets."""

from typing import Any

from kpg.proof.tree import RuleText
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one rule does not give the row.

    ``fails`` is the literal that nothing satisfies, after the literals of ``holds``; both are shown for one
    of the ``tried`` ways to satisfy those. None: the row does not fit the rule's head.
    """

    rule: RuleText
    holds: tuple[str, ...]
    fails: str | None
    tried: int

    def __str__(self) -> str:
        first = f"{self.rule.text}  [{self.rule.place}]"
        if self.fails is None:
            return f"{first}\n   the head does not fit"
        after = f", where {', '.join(self.holds)}" if self.holds else ""
        more = f"  (and so in all of {self.tried} cases)" if self.tried > 1 else ""
        return f"{first}\n   fails: {self.fails}{after}{more}"


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a row does not hold: a failure for each rule of its relation; of a table there are none.

    ``instead`` are rows that differ from it in aggregated columns only.
    """

    text: str
    relation: str
    row: tuple[Any, ...]
    failures: tuple[Failure, ...]
    instead: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.text} does not hold"]
        if self.instead:
            parts[0] += f", but {', '.join(self.instead)}"
        elif not self.failures:
            parts[0] += ": there is no such fact, and no rule"
        return "\n".join([*parts, *map(str, self.failures)])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        failures = [
            {
                "rule": one.rule.text,
                "place": one.rule.place,
                "holds": list(one.holds),
                "fails": one.fails,
                "tried": one.tried,
            }
            for one in self.failures
        ]
        return {
            "text": self.text,
            "relation": self.relation,
            "row": list(self.row),
            "failures": failures,
            "instead": list(self.instead),
        }
