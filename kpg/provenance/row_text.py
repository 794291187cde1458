"""Texts of explanation nodes, and the assembly of explanation steps into a proof tree.

Each step covers one row. A row that several others derive from has one step, which they share.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kpg.api.display import cell
from kpg.compiler.algebra.rel import Get
from kpg.compiler.sql.bound_tree import (
    Expand,
    Group,
    GroupingSets,
    Node,
    Resolved,
    Rows,
    Scan,
    SetOperation,
    Shared,
    children,
)
from kpg.provenance.proof_tree import Kind, Proof
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, sql_text
from kpg.runtime.types import Type


@dataclass(frozen=True, slots=True)
class Key:
    """A row that has an explanation of its own, shared by all that it is a reason of.

    ``place`` is what the row is of: ``table``, ``view``, or the number of the query that is recursive.
    """

    place: str | int
    name: str
    row: tuple[int, ...]
    below: int = 0
    """Of a recursive row whose round is not known: that of the row that it is a reason of, 0 for none."""
    every: bool = False
    """Of a view's row that is there several times: whether all of them are explained."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node before its children have their explanations; ``proof`` is one that is whole already."""

    kind: Kind
    text: str
    children: "tuple[Child, ...]" = ()
    relation: str | None = None
    row: tuple[Any, ...] | None = None
    columns: tuple[str, ...] = ()
    count: int | None = None
    proof: Proof | None = None

    def needed(self) -> Iterator[Key]:
        """The rows that need explanations."""
        for child in self.children:
            if isinstance(child, Step):
                yield from child.needed()
            else:
                yield child


Child = Key | Step


def put_together(goal: Key, step_of: Callable[[Key], Step]) -> Proof:
    """The tree of a row, each row in it being explained once."""
    steps: dict[Key, Step] = {}
    pending = [goal]
    while pending:
        key = pending.pop()
        if key not in steps:
            steps[key] = step_of(key)
            pending += [child for child in steps[key].needed() if child not in steps]
    made: dict[Key, Proof] = {}
    open_: dict[Key, None] = {}
    pending = [goal]
    while pending:
        key = pending[-1]
        open_[key] = None
        waiting = [one for one in steps[key].needed() if one not in made and one not in open_]
        if waiting:
            pending.append(waiting[0])
        else:
            pending.pop()
            open_.pop(key)
            made[key] = _node(steps[key], made)
    return made[goal]


def _node(step: Step, made: dict[Key, Proof]) -> Proof:
    if step.proof is not None:
        return step.proof
    children = tuple(
        _node(child, made) if isinstance(child, Step) else made[child]
        for child in step.children
        if isinstance(child, Step) or child in made
    )
    return Proof(
        step.kind,
        step.text,
        step.relation,
        step.row,
        children=children,
        count=step.count,
        columns=step.columns,
    )


MOST: Final = 40
"""Characters of a value that are shown."""
WIDEST: Final = 8
"""Columns of a row that are shown."""


def shown(value: Any) -> str:
    """A value as SQL would write it, cut where it is long."""
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else cell(value)
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"


def value_of(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """The Python value of a word."""
    return to_python(word, type_, dictionary)


def row_text(name: str, columns: Sequence[str], row: Sequence[Any]) -> str:
    """``orders(id = 1, customer = 'Ada')``; of many columns the first."""
    pairs = [f"{column} = {shown(value)}" for column, value in zip(columns, row, strict=True)]
    return f"{name}({', '.join([*pairs[:WIDEST], *(['…'] if len(pairs) > WIDEST else [])])})"


class Names:
    """What the columns of one bound query are called."""

    def __init__(
        self, resolved: Resolved, dictionary: Dictionary, table: Callable[[str], Sequence[str]]
    ) -> None:
        """``table`` gives the names of a relation's columns."""
        self._resolved = resolved
        self._dictionary = dictionary
        self._table = table
        self._known: dict[int, str] = {}

    def note(self, node: Node) -> None:
        """Learn the names of what is below a node."""
        stack = [node]
        while stack:
            here = stack.pop()
            self._known.update(self._own(here))
            stack += children(here)

    def _own(self, node: Node) -> Mapping[int, str]:
        if isinstance(node, Scan):
            names = self._table(relation_of(node))
            return {id_: f"{relation_of(node)}.{one}" for id_, one in zip(node.ids, names, strict=False)}
        if isinstance(node, Shared):
            names = self._resolved.shared[node.name].names
            return {id_: f"{label(node.name)}.{one}" for id_, one in zip(node.ids, names, strict=False)}
        if isinstance(node, Group | GroupingSets):
            calls = zip(node.ids, node.aggregates, strict=True)
            return {id_: call.text or call.function for id_, call in calls}
        if isinstance(node, SetOperation):
            return dict(zip(node.ids, node.left.names, strict=False))
        return {}

    def columns(self, node: Scan | Shared) -> Sequence[str]:
        """The names of a relation's columns."""
        if isinstance(node, Scan):
            return self._table(relation_of(node))
        return self._resolved.shared[node.name].names

    def scalar(self, scalar: Scalar, values: Mapping[int, int]) -> str:
        """An expression with the values that are known in the place of columns."""

        def name(column: Column) -> str:
            if column.index in values:
                return shown(value_of(values[column.index], column.type, self._dictionary))
            subquery = self._resolved.subqueries.get(column.index)
            if subquery is not None:
                return "(a subquery)"
            return self._known.get(column.index, "(a value)")

        return sql_text(scalar, name)


def label(shared: str) -> str:
    """The name that a WITH query or view was given."""
    parts = shared.split(" ")
    return " ".join(parts[1:-1] if parts[0] == "with" else parts[1:]) or shared


def relation_of(node: Scan) -> str:
    """The name of the relation that is scanned; empty for what has none."""
    return node.rel.name if isinstance(node.rel, Get) else ""


def title(node: Node) -> str:
    """What a side of a join is, in a few words."""
    below = children(node)
    while len(below) == 1 and not isinstance(node, Expand):
        (node,) = below
        below = children(node)
    if isinstance(node, Scan):
        return relation_of(node) or "a query"
    if isinstance(node, Shared):
        return label(node.name)
    if isinstance(node, Expand):
        return node.calls[0].text or node.calls[0].function
    return "VALUES" if isinstance(node, Rows) else "the query"
