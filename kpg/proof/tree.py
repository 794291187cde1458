"""Proofs as trees: what holds, by which rule, because of what."""

import enum
import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from kpg.proof import show
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


class Kind(enum.Enum):
    """Why a node of a proof holds."""

    FACT = "fact"
    """A row of a table that the program declares."""
    EXTERNAL = "external"
    """A row of a table or view that it does not declare."""
    RULE = "rule"
    """A rule derives the row from the children."""
    AGGREGATE = "aggregate"
    """A value combined from rows, of which ``children`` shows a few; ``count`` is how many there are."""
    CONTRIBUTION = "contribution"
    """One of the values that a head's aggregate combines, with the rule that gives it."""
    NEGATION = "negation"
    """No row matches."""
    CONSTRAINT = "constraint"
    """A comparison or computation, with its values."""
    SOURCE = "source"
    """A row of a table, in SQL."""
    VIEW = "view"
    """A row of a SQL view, a WITH query or a query; the children are what it comes from."""
    GROUP = "group"
    """Rows of which ``count`` are taken together, by an aggregate or a window; a few are shown."""
    STEP = "step"
    """What a part of a query does with the children: a branch of a UNION, a LIMIT, a subquery."""


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule as the user wrote it, on one line, and where."""

    text: str
    span: Span = field(repr=False)

    @property
    def place(self) -> str:
        """``file:line``, or ``line 3`` of a text that is no file."""
        return f"{self.span.file}:{self.span.line}" if self.span.file else f"line {self.span.line}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Proof:
    """A node of a proof, and with its children the proof of it. Equal rows are one node, which several
    parents share; no node is below itself.

    ``text`` is what holds, as Datalog has it: ``tc(1, 9)``, ``!edge(9, _)``, ``3 < 5``. ``relation`` and
    ``row`` are those of a fact, a derived row or a contribution; ``columns`` names the values of
    a row of SQL. ``count``: how many rows or values an aggregate ranges over. ``superseded``: the row was
    derived, and a lesser or greater value has replaced it.
    """

    kind: Kind
    text: str
    relation: str | None = None
    row: tuple[Any, ...] | None = None
    rule: RuleText | None = None
    children: "tuple[Proof, ...]" = ()
    count: int | None = None
    superseded: bool = False
    columns: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of different nodes."""
        return sum(1 for _ in self.nodes())

    @property
    def height(self) -> int:
        """The length of the longest branch; 0 for a leaf."""
        heights: dict[int, int] = {}
        for node in reversed(list(self.nodes())):
            heights[id(node)] = max((1 + heights[id(child)] for child in node.children), default=0)
        return heights[id(self)]

    def nodes(self) -> "Iterator[Proof]":
        """Every different node, each before those below it."""
        order: list[Proof] = []
        done: set[int] = set()
        pending: list[tuple[Proof, bool]] = [(self, False)]
        while pending:
            node, left = pending.pop()
            if left:
                order.append(node)
            elif id(node) not in done:
                done.add(id(node))
                pending.append((node, True))
                pending += [(child, False) for child in node.children if id(child) not in done]
        return reversed(order)

    def __str__(self) -> str:
        return self.tree()

    __repr__ = __str__

    def tree(self, depth: int | None = show.DEPTH, lines: int | None = show.LINES) -> str:
        """The proof as text, a node a line, down to a depth and so many lines; None for all of it.

        What is shared is shown where it comes first.
        """
        return "\n".join(show.text(self, depth, lines))

    def _repr_html_(self) -> str:
        return show.html(self)

    def __rich__(self) -> Any:
        return show.rich_tree(self)

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data: ``nodes``, the proof itself first; ``children`` are places among them."""
        nodes = list(self.nodes())
        places = {id(node): place for place, node in enumerate(nodes)}
        return {"nodes": [_plain(node, places) for node in nodes]}

    def to_json(self) -> str:
        """As :meth:`to_dict`, in JSON; values that it lacks, such as dates, as text."""
        return json.dumps(self.to_dict(), default=str)


def _plain(node: Proof, places: dict[int, int]) -> dict[str, Any]:
    """What is known of a node, without what it has not."""
    found: dict[str, Any] = {"kind": node.kind.value, "text": node.text}
    if node.relation is not None:
        found |= {"relation": node.relation, "row": list(node.row or ())}
    if node.columns:
        found["columns"] = list(node.columns)
    if node.rule is not None:
        found |= {"rule": node.rule.text, "place": node.rule.place}
    if node.count is not None:
        found["count"] = node.count
    if node.superseded:
        found["superseded"] = True
    if node.children:
        found["children"] = [places[id(child)] for child in node.children]
    return found
