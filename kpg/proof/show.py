"""Proofs for people: lines of text, nested lists for notebooks, a tree for rich."""

import html as html_escape
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kpg.proof.tree import Proof

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
