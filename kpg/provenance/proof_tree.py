"""Proof trees: why a row holds (``Proof``), or why it does not (``Absence``), and their display.

Datalog and SQL share these classes. A tree is displayed as lines of text, as nested HTML lists in a
notebook, or as a rich tree.
"""

import enum
import html as html_escape
import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

DEFAULT_DEPTH: Final = 12
"""Default number of levels that are displayed."""
DEFAULT_LINES: Final = 100
"""Default number of lines of a proof that are displayed: a few screens."""


def tree_lines(proof: "Proof", depth: int | None, lines: int | None) -> Iterator[str]:
    """Yield one line per node, down to a depth, and at most ``lines`` lines."""
    for number, (prefix, node, note) in enumerate(_visible_nodes(proof, depth)):
        if lines is not None and number == lines:
            yield f"… the proof has {proof.size} nodes: tree(depth=None, lines=None) shows all of them"
            return
        yield f"{prefix}{_node_line(node, note)}"


def _node_line(node: "Proof", note: str) -> str:
    return "  ".join(part for part in (node.text, node_remark(node, note), note or _rule_text(node)) if part)


def _rule_text(node: "Proof") -> str:
    return "" if node.rule is None else f"<- {node.rule.text}  [{node.rule.place}]"


def node_remark(node: "Proof", note: str) -> str:
    """Return the note on a node, besides its text and its rule.

    ``note`` is the text in place of its children, if they are not displayed.
    """
    kind = node.kind.value
    if kind in ("fact", "external"):
        return "(fact)" if kind == "fact" else "(of the database)"
    if kind == "aggregate":
        suffix = "" if note or not node.children or node.count == len(node.children) else ", such as"
        return f"(over {node.count} {'value' if node.count == 1 else 'values'}{suffix})"
    if kind == "group":
        suffix = "" if note or not node.children or node.count == len(node.children) else ", such as"
        return f"(over {node.count} {'row' if node.count == 1 else 'rows'}{suffix})"
    if kind == "source":
        return "(row of a table)"
    return "(replaced since)" if node.superseded else ""


def _visible_nodes(proof: "Proof", depth: int | None) -> Iterator[tuple[str, "Proof", str]]:
    """Yield the visible nodes from the top, each with its branch prefix and a note.

    Nodes that were displayed earlier or are too deep have a note.
    """
    displayed: set[int] = set()
    pending: list[tuple[str, str, Proof, int]] = [("", "", proof, 0)]
    while pending:
        branch, below, node, level = pending.pop()
        if not node.children:
            yield branch, node, ""
        elif id(node) in displayed:
            yield branch, node, "(shown above)"
        elif depth is not None and level >= depth:
            yield branch, node, f"… {node.size - 1} nodes below"
        else:
            displayed.add(id(node))
            yield branch, node, ""
            for number, child in reversed(list(enumerate(node.children))):
                last = number == len(node.children) - 1
                pending.append(
                    (below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), child, level + 1)
                )


def to_html(proof: "Proof") -> str:
    """Return nested lists that open and close, for notebooks."""
    parts = ["<ul>"]
    level = 0
    for prefix, node, note in _visible_nodes(proof, DEFAULT_DEPTH):
        node_level = len(prefix) // 3
        parts += ["</ul></details></li>"] * (level - node_level)
        level = node_level
        label = f"<code>{html_escape.escape(node.text)}</code> {html_escape.escape(node_remark(node, note))}"
        label += f" <small>{html_escape.escape(note or _rule_text(node))}</small>"
        if node.children and not note:
            parts.append(f"<li><details open><summary>{label}</summary><ul>")
            level += 1
        else:
            parts.append(f"<li>{label}</li>")
    return "".join([*parts, "</ul></details></li>" * level, "</ul>"])


def rich_tree(proof: "Proof") -> Any:
    """Return a ``rich.tree.Tree``."""
    from rich.text import Text
    from rich.tree import Tree

    def label(node: "Proof", note: str) -> Text:
        text = Text(node.text, style="bold" if node.children else "")
        for part, style in ((node_remark(node, note), "green"), (note or _rule_text(node), "dim")):
            if part:
                text.append(f"  {part}", style=style)
        return text

    trees: list[Tree] = []
    for prefix, node, note in _visible_nodes(proof, DEFAULT_DEPTH):
        level = len(prefix) // 3
        del trees[level:]
        tree = Tree(label(node, note))
        if trees:
            trees[-1].children.append(tree)
        trees.append(tree)
    return trees[0]


class Kind(enum.Enum):
    """The kind of a proof node."""

    FACT = "fact"
    """A row of a table that the program declares."""
    EXTERNAL = "external"
    """A row of a table or view that the program does not declare."""
    RULE = "rule"
    """A rule derives the row from the children."""
    AGGREGATE = "aggregate"
    """A value aggregated from ``count`` rows; ``children`` are some of them."""
    CONTRIBUTION = "contribution"
    """One of the values that a head's aggregate combines, with the rule that derives it."""
    NEGATION = "negation"
    """No row matches."""
    CONSTRAINT = "constraint"
    """A comparison or computation, shown with its values."""
    SOURCE = "source"
    """A row of a SQL table."""
    VIEW = "view"
    """A row of a SQL view, a WITH query or a query, derived from the children."""
    GROUP = "group"
    """The ``count`` input rows of an aggregate or a window; ``children`` are some of them."""
    STEP = "step"
    """A part of a query applied to the children: a branch of a UNION, a LIMIT, a subquery."""


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule's source on one line, and its position."""

    text: str
    span: Span = field(repr=False)

    @property
    def place(self) -> str:
        """The position as ``file:line``, or ``line 3`` of a text without a file."""
        return f"{self.span.file}:{self.span.line}" if self.span.file else f"line {self.span.line}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Proof:
    """A node of a proof, and with its children the proof of that node.

    Equal rows are one node with several parents; the graph has no cycle. ``text`` is the node in
    Datalog: ``tc(1, 9)``, ``!edge(9, _)``, ``3 < 5``. ``relation`` and ``row`` are those of a fact, a
    derived row or a contribution. ``columns`` names the values of a SQL row. ``count`` is the number of
    rows or values that an aggregate combines. ``superseded``: a smaller or larger value has replaced
    the derived row.
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
        """The number of distinct nodes."""
        return sum(1 for _ in self.nodes())

    @property
    def height(self) -> int:
        """The length of the longest branch; 0 for a leaf."""
        heights: dict[int, int] = {}
        for node in reversed(list(self.nodes())):
            heights[id(node)] = max((1 + heights[id(child)] for child in node.children), default=0)
        return heights[id(self)]

    def nodes(self) -> "Iterator[Proof]":
        """Return the distinct nodes, parents before children."""
        order: list[Proof] = []
        visited: set[int] = set()
        pending: list[tuple[Proof, bool]] = [(self, False)]
        while pending:
            node, is_finished = pending.pop()
            if is_finished:
                order.append(node)
            elif id(node) not in visited:
                visited.add(id(node))
                pending.append((node, True))
                pending += [(child, False) for child in node.children if id(child) not in visited]
        return reversed(order)

    def __str__(self) -> str:
        return self.tree()

    __repr__ = __str__

    def tree(self, depth: int | None = DEFAULT_DEPTH, lines: int | None = DEFAULT_LINES) -> str:
        """Return the proof as text, one node per line, limited to a depth and a number of lines.

        None means no limit. A shared node is displayed at its first occurrence.
        """
        return "\n".join(tree_lines(self, depth, lines))

    def _repr_html_(self) -> str:
        return to_html(self)

    def __rich__(self) -> Any:
        return rich_tree(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as plain data: ``nodes``, the root first. ``children`` are positions in it."""
        nodes = list(self.nodes())
        positions = {id(node): position for position, node in enumerate(nodes)}
        return {"nodes": [_node_dict(node, positions) for node in nodes]}

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON. Values without a JSON type, such as dates, become text."""
        return json.dumps(self.to_dict(), default=str)


def _node_dict(node: Proof, positions: dict[int, int]) -> dict[str, Any]:
    """Return the fields of a node that have values."""
    fields: dict[str, Any] = {"kind": node.kind.value, "text": node.text}
    if node.relation is not None:
        fields |= {"relation": node.relation, "row": list(node.row or ())}
    if node.columns:
        fields["columns"] = list(node.columns)
    if node.rule is not None:
        fields |= {"rule": node.rule.text, "place": node.rule.place}
    if node.count is not None:
        fields["count"] = node.count
    if node.superseded:
        fields["superseded"] = True
    if node.children:
        fields["children"] = [positions[id(child)] for child in node.children]
    return fields


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one rule does not derive the row.

    ``fails`` is the literal that fails after the literals of ``holds``, both shown for one of the
    ``tried`` bindings. If it is None, the row does not match the rule's head.
    """

    rule: RuleText
    holds: tuple[str, ...]
    fails: str | None
    tried: int

    def __str__(self) -> str:
        first = f"{self.rule.text}  [{self.rule.place}]"
        if self.fails is None:
            return f"{first}\n   the head does not fit"
        bindings = f", where {', '.join(self.holds)}" if self.holds else ""
        repetitions = f"  (and so in all of {self.tried} cases)" if self.tried > 1 else ""
        return f"{first}\n   fails: {self.fails}{bindings}{repetitions}"


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a row does not hold: a failure for each rule of its relation, none for a table.

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
        """Return the explanation as plain data."""
        failures = [
            {
                "rule": failure.rule.text,
                "place": failure.rule.place,
                "holds": list(failure.holds),
                "fails": failure.fails,
                "tried": failure.tried,
            }
            for failure in self.failures
        ]
        return {
            "text": self.text,
            "relation": self.relation,
            "row": list(self.row),
            "failures": failures,
            "instead": list(self.instead),
        }
