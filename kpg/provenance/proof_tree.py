"""Proof trees: why a row is there (``Proof``), or why it is not (``Absence``), and their display.

Datalog and SQL share these classes. A tree is shown as lines of text, as nested HTML lists in a notebook, or
as a rich tree.
"""

import enum
import html as html_escape
import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

DEPTH: Final = 12
"""Levels that are shown unless more are asked for."""
LINES: Final = 100
"""Lines of a proof that are shown unless more are asked for: what fits on a few screens."""


def text(proof: "Proof", depth: int | None, lines: int | None) -> Iterator[str]:
    """One line a node, down to a depth, and at most so many lines."""
    for shown, (prefix, node, note) in enumerate(_walk(proof, depth)):
        if lines is not None and shown == lines:
            yield f"… the proof has {proof.size} nodes: tree(depth=None, lines=None) shows all of them"
            return
        yield f"{prefix}{_line(node, note)}"


def _line(node: "Proof", note: str) -> str:
    return "  ".join(part for part in (node.text, remark(node, note), note or _by(node)) if part)


def _by(node: "Proof") -> str:
    return "" if node.rule is None else f"<- {node.rule.text}  [{node.rule.place}]"


def remark(node: "Proof", note: str) -> str:
    """What there is to say of a node besides what holds and by which rule; ``note`` is in place of its
    children.
    """
    kind = node.kind.value
    if kind in ("fact", "external"):
        return "(fact)" if kind == "fact" else "(of the database)"
    if kind == "aggregate":
        few = "" if note or not node.children or node.count == len(node.children) else ", such as"
        return f"(over {node.count} {'value' if node.count == 1 else 'values'}{few})"
    if kind == "group":
        few = "" if note or not node.children or node.count == len(node.children) else ", such as"
        return f"(over {node.count} {'row' if node.count == 1 else 'rows'}{few})"
    if kind == "source":
        return "(row of a table)"
    return "(replaced since)" if node.superseded else ""


def _walk(proof: "Proof", depth: int | None) -> Iterator[tuple[str, "Proof", str]]:
    """The nodes from the top with the branches before them; those shown before, or too deep, by a note."""
    seen: set[int] = set()
    pending: list[tuple[str, str, Proof, int]] = [("", "", proof, 0)]
    while pending:
        branch, below, node, level = pending.pop()
        if not node.children:
            yield branch, node, ""
        elif id(node) in seen:
            yield branch, node, "(shown above)"
        elif depth is not None and level >= depth:
            yield branch, node, f"… {node.size - 1} nodes below"
        else:
            seen.add(id(node))
            yield branch, node, ""
            for number, child in reversed(list(enumerate(node.children))):
                last = number == len(node.children) - 1
                pending.append(
                    (below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), child, level + 1)
                )


def html(proof: "Proof") -> str:
    """Nested lists that open and close, for notebooks."""
    parts = ["<ul>"]
    level = 0
    for prefix, node, note in _walk(proof, DEPTH):
        deep = len(prefix) // 3
        parts += ["</ul></details></li>"] * (level - deep)
        level = deep
        label = f"<code>{html_escape.escape(node.text)}</code> {html_escape.escape(remark(node, note))}"
        label += f" <small>{html_escape.escape(note or _by(node))}</small>"
        if node.children and not note:
            parts.append(f"<li><details open><summary>{label}</summary><ul>")
            level += 1
        else:
            parts.append(f"<li>{label}</li>")
    return "".join([*parts, "</ul></details></li>" * level, "</ul>"])


def rich_tree(proof: "Proof") -> Any:
    """A ``rich.tree.Tree``."""
    from rich.text import Text
    from rich.tree import Tree

    def label(node: "Proof", note: str) -> Text:
        found = Text(node.text, style="bold" if node.children else "")
        for part, style in ((remark(node, note), "green"), (note or _by(node), "dim")):
            if part:
                found.append(f"  {part}", style=style)
        return found

    trees: list[Tree] = []
    for prefix, node, note in _walk(proof, DEPTH):
        level = len(prefix) // 3
        del trees[level:]
        made = Tree(label(node, note))
        if trees:
            trees[-1].children.append(made)
        trees.append(made)
    return trees[0]


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

    def tree(self, depth: int | None = DEPTH, lines: int | None = LINES) -> str:
        """The proof as text, a node a line, down to a depth and so many lines; None for all of it.

        What is shared is shown where it comes first.
        """
        return "\n".join(text(self, depth, lines))

    def _repr_html_(self) -> str:
        return html(self)

    def __rich__(self) -> Any:
        return rich_tree(self)

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
