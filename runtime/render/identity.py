"""Fingerprints, by which operators are shared, and names for displays."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from kpg.runtime import plan, user
from kpg.runtime.plan import Mfp
from kpg.runtime.render import users
from kpg.runtime.render.context import Context
from kpg.runtime.scalar import Column, Fetch


def fingerprint(node: plan.AnyNode, names: Sequence[str], outer: Sequence[str], context: Context) -> str:
    """A digest of the node with its inputs' fingerprints, ``names``, in place of their positions.

    ``outer`` are the fingerprints of the nodes that enclose the loop in whose body the node is.
    """
    match node:
        case plan.Source(table=table):
            text = context.source_identity(table)
        case plan.Import(view=view):
            return context.view_output(view).place.fingerprint
        case user.Input(identity=identity):
            return context.input(identity).place.fingerprint
        case plan.Arrange(input=ref):
            text = names[ref]
        case plan.Join():
            text = _join_identity(node, names)
        case plan.Enter(input=ref):
            text = outer[ref]
        case plan.Loop():
            text = _loop_identity(node, names, context)
        case _:
            text = "".join(names[ref] for ref in plan.inputs(node)) + _parameters(node)
    return hashlib.sha256(f"{type(node).__name__}|{text}".encode()).hexdigest()[:24]


def _loop_identity(node: plan.Loop, outer: Sequence[str], context: Context) -> str:
    """The loop's body, which refers to itself by variables only, and what is made of it."""
    names: list[str] = []
    for inner in node.body:
        names.append(fingerprint(inner, names, outer, context))
    return "|".join((*names, str(node.results), str(node.limit), str(node.error_at_limit)))


def _join_identity(node: plan.Join, names: Sequence[str]) -> str:
    """The join with fingerprints in place of references."""
    parts = [names[ref] for ref in node.inputs]
    for path in node.paths:
        parts.append(_text(path.mfp))
        for lookup in path.lookups:
            parts.append(f"{names[lookup.arrangement]}{lookup.relation}{lookup.key}{_text(lookup.mfp)}")
    return "|".join(parts)


@lru_cache(maxsize=4096)
def _text(mfp: Mfp) -> str:
    """Written out once: the nodes of nested loops are identified at every level."""
    return repr(mfp)


def _parameters(node: plan.AnyNode) -> str:
    """The node's own parameters, without its inputs."""
    match node:
        case plan.Constant() as constant:
            return repr(constant)
        case plan.Linear(mfp=mfp):
            return _text(mfp)
        case plan.Concat(inputs=refs):
            return str([refs.index(ref) for ref in refs])
        case plan.RangeJoin(key=key, comparison=comparison, mfp=mfp):
            return f"{key}{comparison}{_text(mfp)}"
        case plan.Reduce(key=key, aggregates=aggregates):
            return f"{key}{[(a.function, a.argument, a.type) for a in aggregates]}"
        case plan.TopK(group=group, limit=limit, offset=offset, exact=exact):
            return f"{group},{limit},{offset},{exact}"
        case plan.BasicReduce(key=key, aggregates=basics):
            return f"{key}{basics!r}"
        case plan.Single(key=key):
            return str(key)
        case plan.Variable(index=index, types=types):
            return f"{index}{types!r}"
        case plan.Leave(result=result):
            return str(result)
        case user.Apply() | user.UserReduce() | user.Custom() | user.Sink():
            return users.identity(node)
        case _:
            return ""


def describe(node: plan.AnyNode, nodes: Sequence[plan.AnyNode], context: Context) -> str:
    """A short name for displays."""
    match node:
        case plan.Source(table=table):
            return f"Source {table}"
        case plan.Arrange(input=ref, key=key):
            return _table_key(nodes[ref], context) or f"Arrange by {key} columns"
        case plan.Variable(index=index):
            return f"Variable {index}"
        case user.Apply() | user.UserReduce() | user.Custom() | user.Sink():
            return users.describe(node)
        case _:
            return type(node).__name__


def _table_key(node: plan.AnyNode, context: Context) -> str | None:
    """``table(columns)`` for the rows of an arrangement of a base table by some of its columns."""
    if not isinstance(node, plan.Linear) or node.mfp.predicates or not node.mfp.outputs:
        return None
    *key, rowid = node.mfp.outputs
    fetched = [scalar for scalar in key if isinstance(scalar, Fetch)]
    if not isinstance(rowid, Column) or not fetched or len(fetched) < len(key):
        return None
    table = fetched[0].table
    names = context.store(table).schema.names
    return f"{table}({', '.join(names[scalar.column] for scalar in fetched)})"
