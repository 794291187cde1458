"""Statements whose parameters have no values yet: EXPLAIN (GENERIC_PLAN) shows the plan that serves any."""

from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from sqlglot import exp

from kpg.compiler.sql.parameters import rewritten
from kpg.compiler.sql.slots import Marker, slot_of
from kpg.compiler.sql.syntax import transformed
from kpg.runtime.plan import Plan
from kpg.runtime.scalar import Fetch, Literal
from kpg.runtime.types import UNKNOWN, Type

Part = TypeVar("Part")
PARAMETER: Final = "$"
"""The table that parameters without values are columns of, where a plan is only shown: none is called so."""


def without_values(statement: Part) -> Part:
    """The statement with an open constant in the place of each parameter."""

    def opened(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter) or not node.name.isdigit():
            return node
        return exp.Literal(this=Marker.of(int(node.name), UNKNOWN), is_string=True)

    return rewritten(statement, lambda tree: transformed(tree, opened) if tree.find(exp.Parameter) else tree)


def named(plan: Plan) -> Plan:
    """The plan with what is shown as $1, $2, ... in the place of open constants; it cannot be run."""
    return cast("Plan", _named(plan))


def _named(part: Any) -> Any:
    if isinstance(part, Literal):
        slot = slot_of(part)
        return part if slot is None else Fetch(PARAMETER, slot.number, Literal(None, part.type), part.type)
    if isinstance(part, tuple):
        items = tuple(map(_named, part))
        return part if all(new is old for new, old in zip(items, part, strict=True)) else items
    if isinstance(part, Type) or not is_dataclass(part) or isinstance(part, type):
        return part
    values = {one.name: getattr(part, one.name) for one in fields(part) if one.init}
    new = {name: _named(value) for name, value in values.items()}
    return part if all(new[name] is values[name] for name in values) else type(part)(**new)
