"""What the step of a WITH RECURSIVE query may do with the query's own rows."""

from typing import assert_never

from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Join,
    Map,
    Node,
    Rows,
    Scan,
    SetOperation,
    Shared,
    TopK,
    Window,
    children,
    names_in,
    scalars,
    shared_names,
)
from kpg.runtime.scalar import columns


def depends(binding: Binding, node: Node, name: str) -> bool:
    """Whether a node refers to the shared query ``name``, directly or through others."""
    return _reaches(binding, shared_names(node, binding.subqueries), name)


def _reaches(binding: Binding, names: frozenset[str], name: str) -> bool:
    pending, seen = list(names), set(names)
    while pending:
        here = pending.pop()
        if here == name:
            return True
        query = binding.shared.get(here)
        if query is not None:
            new = shared_names(query.node, binding.subqueries) - seen
            seen |= new
            pending += new
    return False


def objection(binding: Binding, node: Node, name: str, every: bool) -> str | None:
    """The first construct over rows of the shared query ``name`` that keeps a step from just adding rows.

    ``every``: rows count as often as they occur, so that nothing may drop repeated ones.
    """
    if not depends(binding, node, name):
        return None
    nested = (names_in(id_, binding.subqueries) for scalar in scalars(node) for id_ in columns(scalar))
    if any(_reaches(binding, names, name) for names in nested):
        return "a subquery in an expression"
    found = _own_objection(binding, node, name, every)
    if found is not None:
        return found
    inputs = children(node)
    if isinstance(node, Shared) and node.name in binding.shared:
        inputs = (binding.shared[node.name].node,)
    below = (objection(binding, source, name, every) for source in inputs)
    return next((found for found in below if found is not None), None)


def _through_with(binding: Binding, node: Node, name: str) -> bool:
    others = shared_names(node, binding.subqueries) - {name}
    return any(_reaches(binding, frozenset((other,)), name) for other in others)


def _own_objection(binding: Binding, node: Node, name: str, every: bool) -> str | None:
    """The node itself, if it is such a construct."""
    match node:
        case Shared() if node.name in binding.loops:
            return "another recursive query"
        case Join(kind=kind, left=left, right=right):
            if kind == "full" or (kind == "left" and depends(binding, right, name)):
                return "an outer join"
            twice = depends(binding, left, name) and depends(binding, right, name)
            # Postgres joins the rows of one round only; where it reads them once, through a WITH, it does so.
            return "a join with itself through WITH" if twice and _through_with(binding, node, name) else None
        case Group(ids=ids):
            return "an aggregate" if ids else "GROUP BY" if every else None
        case GroupingSets():
            return "GROUPING SETS"
        case Distinct():
            return "DISTINCT" if every else None
        case TopK():
            return "LIMIT or DISTINCT ON"
        case Window():
            return "a window function"
        case SetOperation(kind="union"):
            return "UNION without ALL" if every and not node.all else None
        case SetOperation():
            kept = node.kind == "except" and not (every or node.all)
            return node.kind.upper() if not kept or depends(binding, node.right.node, name) else None
        case Shared() | Scan() | Rows() | Filter() | Map() | Expand():
            return None
        case _:
            assert_never(node)
