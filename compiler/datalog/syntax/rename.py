"""Names replaced throughout a statement, by what they name: relations, types, branches, components."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from kpg.compiler.datalog.syntax import ast
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

Change = Callable[[str], str]
T = TypeVar("T")


def same(name: str) -> str:
    """Leaves a name as it is."""
    return name


@dataclass(frozen=True, slots=True)
class Renaming:
    """What becomes of the names of each sort."""

    relation: Change = same
    type: Change = same
    branch: Change = same
    component: Change = same


ROLES = {
    (ast.Atom, "name"): "relation",
    (ast.Declaration, "names"): "relation",
    (ast.Directive, "names"): "relation",
    (ast.Query, "name"): "relation",
    (ast.TypeRef, "name"): "type",
    (ast.Cast, "type"): "type",
    (ast.Subtype, "name"): "type",
    (ast.UnionType, "name"): "type",
    (ast.RecordType, "name"): "type",
    (ast.AdtType, "name"): "type",
    (ast.Lattice, "name"): "type",
    (ast.Branch, "name"): "branch",
    (ast.Dollar, "name"): "branch",
    (ast.ComponentRef, "name"): "component",
    (ast.ComponentRef, "arguments"): "type",
}


def rename(node: T, renaming: Renaming) -> T:
    """The node with its names changed; what is not changed is shared."""
    changed: Any = _rename(node, renaming)
    return changed


def _rename(node: Any, renaming: Renaming) -> Any:
    if isinstance(node, tuple):
        parts = tuple(_rename(part, renaming) for part in node)
        return node if all(new is old for new, old in zip(parts, node, strict=True)) else parts
    if not is_dataclass(node) or isinstance(node, Span | type):
        return node
    changes: dict[str, Any] = {}
    for field in fields(node):
        old = getattr(node, field.name)
        role = ROLES.get((type(node), field.name))
        new = _rename(old, renaming) if role is None else _named(old, getattr(renaming, role))
        if new is not old:
            changes[field.name] = new
    return replace(node, **changes) if changes else node


def _named(value: Any, change: Change) -> Any:
    if isinstance(value, tuple):
        return tuple(_named(part, change) for part in value)
    if isinstance(value, str):
        return change(value)
    text = change(value.text)
    return value if text == value.text else ast.Name(text, value.span)
