"""Fingerprints, which identify operators for sharing, and display names.

A node has two identities. Its *content* identifies the collection that it computes: an arrangement
has the content of its input, and a chain of linear nodes has that of one. So a collection is
arranged by a key only once, however it was derived. Its *name*, the fingerprint of its operator,
also includes whether it is arranged.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, assert_never

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import Content
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.plan import Mfp, Ref, user
from kpg.runtime.render.context import CompactPath, Context
from kpg.runtime.scalar import Column, Fetch, Scalar, transform, walk

MAX_COMPOSED_SIZE: Final = 200
"""Expressions above which a chain of linear nodes is not composed into one for its content."""


class Identities:
    """Identities of the nodes of a plan, or of a loop's body within the list of ``outer``."""

    def __init__(self, columns: plan.Columns, context: Context, outer: "Identities | None" = None) -> None:
        self.nodes = columns.nodes
        self.types = columns.types
        self.names: list[str] = []
        """Fingerprint of each node's operator."""
        self.contents: list[Content] = []
        self.is_arranged: list[bool] = []
        """Whether each node's operator can be looked up."""
        self.bodies: dict[Ref, Identities] = {}
        """Identities of the loops' bodies."""
        self.compact_paths: dict[Ref, list[CompactPath]] = {}
        """Compact paths of delta joins, cached for later renderings."""
        self._columns = columns
        self._context = context
        self._outer = outer
        for ref, node in enumerate(self.nodes):
            self._add(ref, node)

    def arrangement_name(self, ref: Ref) -> str:
        """Return the name of an arrangement of the node's result."""
        return (
            self.names[ref] if self.is_arranged[ref] else _digest("Arrange", _content_key(self.contents[ref]))
        )

    def holds_output(self, ref: Ref) -> bool:
        """Return whether the operator of a node in a loop's body holds its whole output."""
        node = self.nodes[ref]
        if isinstance(node, plan.Arrange) and self.is_arranged[node.input]:
            return self.holds_output(node.input)
        return self.is_arranged[ref] if isinstance(node, plan.Leave) else plan.holds_rows(node)

    def _add(self, ref: Ref, node: plan.AnyNode) -> None:
        is_arranged = False
        match node:
            case plan.Arrange(input=source):
                content, name, is_arranged = self.contents[source], self.arrangement_name(source), True
            case plan.Linear(input=source, mfp=mfp):
                content = _linear_content(self.contents[source], mfp)
                name = _digest("Linear", _content_key(content))
            case plan.Enter(input=source):
                assert self._outer is not None
                outer = self._outer.contents[source]
                content = Content(_digest("Enter", outer.base), outer.width, outer.mfp)
                name, is_arranged = (
                    _digest("Enter", self._outer.names[source]),
                    self._outer.is_arranged[source],
                )
            case plan.Import(view=view, types=types):
                operator = self._context.view_output(view)
                name, is_arranged = operator.place.fingerprint, isinstance(operator, Arrange)
                content = operator.place.content or Content(name, len(types))
            case _:
                name = self._compute_name(ref, node)
                content = Content(name, len(self.types[ref]))
                if isinstance(node, plan.Leave):
                    is_arranged = not self._body_of(node).holds_output(self._result_of(node))
        self.names.append(name)
        self.contents.append(content)
        self.is_arranged.append(is_arranged)

    def _compute_name(self, ref: Ref, node: plan.AnyNode) -> str:
        """Return a digest of the node's parameters and its inputs' contents."""
        if isinstance(node, user.Input):
            return self._context.input(node.identity).place.fingerprint
        parts = [
            plan.parameters(node),
            *(_content_key(self.contents[source]) for source in plan.inputs(node)),
        ]
        if isinstance(node, plan.Source):
            parts.append(self._context.source_identity(node.table))
        if isinstance(node, plan.Loop):
            self.bodies[ref] = body = Identities(self._columns.bodies[ref], self._context, self)
            parts += body.names
        return _digest("", "|".join(parts))

    def _body_of(self, leave: plan.Leave) -> "Identities":
        return self.bodies[leave.loop]

    def _result_of(self, leave: plan.Leave) -> Ref:
        loop = self.nodes[leave.loop]
        assert isinstance(loop, plan.Loop)
        return loop.results[leave.result]


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}|{text}".encode()).hexdigest()[:24]


def _content_key(content: Content) -> str:
    """Return a text that is equal for equal contents."""
    return content.base if content.mfp is None else content.base + plan.mfp_text(content.mfp)


def _linear_content(content: Content, mfp: Mfp) -> Content:
    """Return the content of a linear node over a collection."""
    if content.mfp is None:
        composed = mfp
    elif _size(content.mfp) + _size(mfp) > MAX_COMPOSED_SIZE:
        content, composed = Content(_content_key(content), len(content.mfp.outputs)), mfp
    else:
        composed = _compose(content.mfp, mfp)
    places = [output.index if isinstance(output, Column) else -1 for output in composed.outputs]
    if not composed.predicates and places == list(range(content.width)):
        return Content(content.base, content.width)
    return Content(content.base, content.width, composed)


@lru_cache(maxsize=4096)
def _compose(first: Mfp, second: Mfp) -> Mfp:
    """Return the mfp that applies ``first``, then ``second``."""

    def rewrite(node: Scalar) -> Scalar:
        return first.outputs[node.index] if isinstance(node, Column) else node

    predicates = (transform(predicate, rewrite) for predicate in second.predicates)
    outputs = (transform(output, rewrite) for output in second.outputs)
    return Mfp((*first.predicates, *predicates), tuple(outputs))


@lru_cache(maxsize=4096)
def _size(mfp: Mfp) -> int:
    return sum(1 for scalar in (*mfp.predicates, *mfp.outputs) for _ in walk(scalar))


def describe(node: plan.AnyNode, nodes: Sequence[plan.AnyNode], context: Context) -> str:
    """Return a short display name."""
    match node:
        case plan.Source(table=table):
            return f"Source {table}"
        case plan.Arrange(input=ref, key=key):
            return _table_key(nodes[ref], context) or f"Arrange by {key} columns"
        case plan.Variable(index=index):
            return f"Variable {index}"
        case user.Apply() | user.UserReduce() | user.Custom() | user.Sink() | user.EnterAt() | user.Input():
            from kpg.runtime.render import user_nodes  # lazy: a rare node

            return user_nodes.describe(node)
        case plan.Import() | plan.Constant() | plan.Linear() | plan.Concat() | plan.Negate():
            return type(node).__name__
        case plan.Delta() | plan.HalfJoin() | plan.DeltaJoin() | plan.RangeJoin():
            return type(node).__name__
        case plan.Reduce() | plan.Distinct() | plan.Threshold() | plan.TopK() | plan.Exchange():
            return type(node).__name__
        case plan.Expand(calls=calls):
            return f"Expand {', '.join(call.function for call in calls)}"
        case plan.Window() | plan.Ego():
            return type(node).__name__
        case plan.BasicReduce() | plan.Fold() | plan.Single() | plan.Enter() | plan.Loop() | plan.Leave():
            return type(node).__name__
        case _:
            assert_never(node)


def _table_key(node: plan.AnyNode, context: Context) -> str | None:
    """Return ``table(columns)`` for the rows of an arrangement of a base table; None for other nodes."""
    if not isinstance(node, plan.Linear) or node.mfp.predicates or not node.mfp.outputs:
        return None
    *key, rowid = node.mfp.outputs
    fetched = [scalar for scalar in key if isinstance(scalar, Fetch)]
    if not isinstance(rowid, Column) or not fetched or len(fetched) < len(key):
        return None
    table = fetched[0].table
    names = context.store(table).schema.names
    return f"{table}({', '.join(names[scalar.column] for scalar in fetched)})"
