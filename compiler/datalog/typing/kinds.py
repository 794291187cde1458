"""Unification of the kinds of expressions: which of them must be of one kind, and what is known of it."""

from dataclasses import field

from kpg.compiler.datalog.typing.types import TypeKind
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an expression is of a kind."""

    kind: TypeKind
    text: str
    span: Span | None


@dataclass(slots=True)
class Kinds:
    """Nodes in classes; each class has at most one kind, with the reason for it, and may be open to some
    domains only.
    """

    parents: list[int] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)

    def node(self) -> int:
        """A new node, alone in its class."""
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def root(self, node: int) -> int:
        """The representative of the node's class."""
        while self.parents[node] != node:
            self.parents[node] = self.parents[self.parents[node]]
            node = self.parents[node]
        return node

    def kind(self, node: int) -> TypeKind | None:
        """The kind of the node's class, if it is known."""
        reason = self.reasons.get(self.root(node))
        return None if reason is None else reason.kind

    def learn(self, node: int, reason: Reason) -> Reason | None:
        """The class is of this kind; if it is known to be of another, the reason for that."""
        root = self.root(node)
        old = self.reasons.setdefault(root, reason)
        return None if old.kind == reason.kind else old

    def unify(self, left: int, right: int) -> tuple[Reason, Reason] | None:
        """The two classes are one; if their kinds differ they are left as they are, and the reasons given."""
        left, right = self.root(left), self.root(right)
        if left == right:
            return None
        ours, theirs = self.reasons.get(left), self.reasons.get(right)
        if ours is not None and theirs is not None and ours.kind != theirs.kind:
            return ours, theirs
        self.parents[right] = left
        if ours is None and theirs is not None:
            self.reasons[left] = theirs
        return None
