"""Texts of explanation nodes, and the assembly of explanation steps into a proof tree.

Each step covers one row. A row with several consequences has one step, which they share.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kpg.api.display import cell
from kpg.compiler.algebra.rel import Get
from kpg.compiler.sql.bound_tree import (
    BoundQuery,
    Expand,
    Group,
    GroupingSets,
    Node,
    Rows,
    Scan,
    SetOperation,
    SharedScan,
    children,
)
from kpg.provenance.proof_tree import Kind, Proof
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, sql_text
from kpg.runtime.types import Type


@dataclass(frozen=True, slots=True)
class RowKey:
    """A row with its own explanation, which all its consequences share.

    ``source`` is ``table``, ``view``, or the number of the query for a row of a recursive relation.
    """

    source: str | int
    name: str
    row: tuple[int, ...]
    round_limit: int = 0
    """The round of the consequence, for a recursive row whose own round is unknown; 0 if there is none."""
    all_derivations: bool = False
    """Whether all derivations of a repeated row are explained."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A node whose children have no explanations yet. ``proof`` is a complete explanation."""

    kind: Kind
    text: str
    children: "tuple[Child, ...]" = ()
    relation: str | None = None
    row: tuple[Any, ...] | None = None
    columns: tuple[str, ...] = ()
    count: int | None = None
    proof: Proof | None = None

    def pending_rows(self) -> Iterator[RowKey]:
        """Yield the rows that need explanations."""
        for child in self.children:
            if isinstance(child, ProofStep):
                yield from child.pending_rows()
            else:
                yield child


Child = RowKey | ProofStep


def build_proof(goal: RowKey, step_of: Callable[[RowKey], ProofStep]) -> Proof:
    """Return the proof tree of a row. Each row in it is explained once."""
    steps: dict[RowKey, ProofStep] = {}
    pending = [goal]
    while pending:
        key = pending.pop()
        if key not in steps:
            steps[key] = step_of(key)
            pending += [child for child in steps[key].pending_rows() if child not in steps]
    proofs: dict[RowKey, Proof] = {}
    ancestors: dict[RowKey, None] = {}
    pending = [goal]
    while pending:
        key = pending[-1]
        ancestors[key] = None
        missing = [
            candidate
            for candidate in steps[key].pending_rows()
            if candidate not in proofs and candidate not in ancestors
        ]
        if missing:
            pending.append(missing[0])
        else:
            pending.pop()
            ancestors.pop(key)
            proofs[key] = _build_node(steps[key], proofs)
    return proofs[goal]


def _build_node(step: ProofStep, proofs: dict[RowKey, Proof]) -> Proof:
    if step.proof is not None:
        return step.proof
    children = tuple(
        _build_node(child, proofs) if isinstance(child, ProofStep) else proofs[child]
        for child in step.children
        if isinstance(child, ProofStep) or child in proofs
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


MAX_VALUE_LENGTH: Final = 40
"""Maximum number of characters of a value that are displayed."""
MAX_COLUMNS: Final = 8
"""Maximum number of columns of a row that are displayed."""


def value_text(value: Any) -> str:
    """Return a value as a SQL literal, truncated if it is long."""
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else cell(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"


def python_value(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """Return the Python value of a word."""
    return to_python(word, type_, dictionary)


def format_row(name: str, columns: Sequence[str], row: Sequence[Any]) -> str:
    """Return a row such as ``orders(id = 1, customer = 'Ada')``, with the first columns if it is wide."""
    pairs = [f"{column} = {value_text(value)}" for column, value in zip(columns, row, strict=True)]
    return f"{name}({', '.join([*pairs[:MAX_COLUMNS], *(['…'] if len(pairs) > MAX_COLUMNS else [])])})"


class ColumnNames:
    """The display names of the columns of one bound query."""

    def __init__(
        self, resolved: BoundQuery, dictionary: Dictionary, columns_of: Callable[[str], Sequence[str]]
    ) -> None:
        """Create empty names. ``columns_of`` returns the column names of a relation."""
        self._resolved = resolved
        self._dictionary = dictionary
        self._columns_of = columns_of
        self._names: dict[int, str] = {}

    def add(self, node: Node) -> None:
        """Add the names of a node's columns and of those below it."""
        stack = [node]
        while stack:
            current = stack.pop()
            self._names.update(self._node_names(current))
            stack += children(current)

    def _node_names(self, node: Node) -> Mapping[int, str]:
        if isinstance(node, Scan):
            names = self._columns_of(relation_name(node))
            return {
                id_: f"{relation_name(node)}.{column}" for id_, column in zip(node.ids, names, strict=False)
            }
        if isinstance(node, SharedScan):
            names = self._resolved.shared_queries[node.name].names
            return {
                id_: f"{display_name(node.name)}.{column}"
                for id_, column in zip(node.ids, names, strict=False)
            }
        if isinstance(node, Group | GroupingSets):
            calls = zip(node.ids, node.aggregates, strict=True)
            return {id_: call.text or call.function for id_, call in calls}
        if isinstance(node, SetOperation):
            return dict(zip(node.ids, node.left.names, strict=False))
        return {}

    def columns(self, node: Scan | SharedScan) -> Sequence[str]:
        """Return the names of a relation's columns."""
        if isinstance(node, Scan):
            return self._columns_of(relation_name(node))
        return self._resolved.shared_queries[node.name].names

    def scalar(self, scalar: Scalar, values: Mapping[int, int]) -> str:
        """Return the text of an expression, with ``values`` in place of columns where they are known."""

        def column_text(column: Column) -> str:
            if column.index in values:
                return value_text(python_value(values[column.index], column.type, self._dictionary))
            subquery = self._resolved.subqueries.get(column.index)
            if subquery is not None:
                return "(a subquery)"
            return self._names.get(column.index, "(a value)")

        return sql_text(scalar, column_text)


def display_name(shared: str) -> str:
    """Return the name of a WITH query or a view, without internal prefixes."""
    parts = shared.split(" ")
    return " ".join(parts[1:-1] if parts[0] == "with" else parts[1:]) or shared


def relation_name(node: Scan) -> str:
    """Return the name of the scanned relation, or an empty string if it has none."""
    return node.rel.name if isinstance(node.rel, Get) else ""


def describe_input(node: Node) -> str:
    """Return a short description of a side of a join."""
    inputs = children(node)
    while len(inputs) == 1 and not isinstance(node, Expand):
        (node,) = inputs
        inputs = children(node)
    if isinstance(node, Scan):
        return relation_name(node) or "a query"
    if isinstance(node, SharedScan):
        return display_name(node.name)
    if isinstance(node, Expand):
        return node.calls[0].text or node.calls[0].function
    return "VALUES" if isinstance(node, Rows) else "the query"
