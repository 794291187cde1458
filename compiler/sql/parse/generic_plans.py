"""Parameter types that the text alone determines, and EXPLAIN (GENERIC_PLAN).

A cast of a parameter decides its type, as in Postgres: the client sends a value of that type. Otherwise a
parameter takes the type of the other operand of arithmetic, a comparison or alternatives. A parameter used
as a condition is boolean.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from sqlglot import exp

from kpg.compiler.sql.parse.parameters import Marker, map_trees, slot_of, trees_of
from kpg.compiler.sql.parse.syntax import transform_tree
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.runtime.errors import Error
from kpg.runtime.plan import Plan
from kpg.runtime.scalar import Fetch, Literal
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, INTERVAL, NUMERIC, UNKNOWN, Type, array

SAME_TYPE_NODES: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Predicate, exp.Coalesce, exp.Case)
"""Nodes whose operands have one type."""
Assignments = tuple[tuple[exp.Identifier, exp.Expr], ...]
MAX_INTEGER: Final = 2**31 - 1
TypeResolver = Callable[[Type], Type]
"""Function that resolves a type name in the catalog; it raises an error for an unknown type."""


ParameterTypes = dict[int, Type]
"""Types by 0-based parameter index."""


def parameter_types(statement: object, resolve: TypeResolver) -> tuple[ParameterTypes, ParameterTypes]:
    """Return the types of cast parameters and conditions, and those implied by other operands."""
    cast: ParameterTypes = {}
    implied_types: ParameterTypes = {}
    if (place := _parameter_index(getattr(statement, "where", None))) is not None:
        cast[place] = BOOLEAN
    for tree in trees_of(statement):
        for node in tree.walk():
            if isinstance(node, exp.Cast):
                place, type_ = _parameter_index(node.this), _cast_type(node, resolve)
                if place is not None and type_ is not None:
                    cast.setdefault(place, type_)
            elif isinstance(node, SAME_TYPE_NODES) or _is_alternative(node):
                for place, type_ in _implied_types(node, resolve):
                    implied_types.setdefault(place, type_)
            elif isinstance(node, exp.Anonymous) and node.name.lower() == "round":
                implied_types |= {
                    place: INTEGER
                    for one in node.expressions[1:]
                    if (place := _parameter_index(one)) is not None
                }
            for condition in _conditions(node):
                if (place := _parameter_index(condition)) is not None:
                    cast.setdefault(place, BOOLEAN)
    return cast, implied_types


def _conditions(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a node that are conditions."""
    match node:
        case exp.Case() if not node.this:
            return [one.this for one in node.args["ifs"]]
        case exp.And() | exp.Or():
            return [node.this, node.expression]
        case exp.Not() | exp.Where() | exp.Having():
            return [node.this]
        case _:
            return []


def assigned_parameters(assignments: Assignments) -> Iterator[tuple[str, int]]:
    """Yield the column name and parameter index of each SET column = $n."""
    for column, value in assignments:
        place = _parameter_index(value)
        if place is not None:
            yield column.name.lower(), place


def _parameter_index(node: object) -> int | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Parameter) and node.name.isdigit():
        return int(node.name) - 1
    return None


def _is_alternative(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in (
        "coalesce",
        "greatest",
        "least",
        "nullif",
    )


def _implied_types(node: exp.Expr, resolve: TypeResolver) -> Iterator[tuple[int, Type]]:
    """Yield the types of a node's parameters that its other operands imply."""
    parts = list(node.expressions)
    if isinstance(node, exp.Case):
        parts = [one.args["true"] for one in node.args["ifs"]] + [node.args.get("default")]
    elif not isinstance(node, exp.Anonymous):
        parts += [node.this, node.args.get("expression"), node.args.get("low"), node.args.get("high")]
    types = [type_ for part in parts if (type_ := _operand_type(part, resolve)) is not None]
    if not types:
        return
    for part in parts:
        # x = ANY ($1): the parameter is an array of the type of x.
        if isinstance(part, exp.Any | exp.All) and (place := _parameter_index(part.this)) is not None:
            yield place, array(types[0])
    type_ = NUMERIC if NUMERIC in types else types[0]
    if type_ == INTERVAL and isinstance(node, exp.Mul | exp.Div):
        type_ = DOUBLE
    yield from ((place, type_) for part in parts if (place := _parameter_index(part)) is not None)


def _operand_type(node: object, resolve: TypeResolver) -> Type | None:
    """Return the type of a number, an interval, a cast or a condition; None for other operands."""
    match node:
        case exp.Literal(is_string=False):
            if not node.name.isdigit():
                return NUMERIC
            return INTEGER if int(node.name) <= MAX_INTEGER else BIGINT
        case exp.Neg() | exp.Paren():
            return _operand_type(node.this, resolve)
        case exp.Interval():
            return INTERVAL
        case exp.Cast():
            return _cast_type(node, resolve)
        case exp.Predicate() | exp.Not() | exp.And() | exp.Or():
            return BOOLEAN
        case _:
            return None


def _cast_type(node: exp.Cast, resolve: TypeResolver) -> Type | None:
    try:
        return resolve(sql_type(node.args["to"], ""))
    except Error:
        return None


Part = TypeVar("Part")
PARAMETER: Final = "$"
"""Name of the table of parameters in a generic plan: no relation has it."""


def mark_parameters(statement: Part) -> Part:
    """Return the statement with a slot in place of each parameter."""

    def mark(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter) or not node.name.isdigit():
            return node
        return exp.Literal(this=Marker.of(int(node.name), UNKNOWN), is_string=True)

    return map_trees(statement, lambda tree: transform_tree(tree, mark) if tree.find(exp.Parameter) else tree)


def name_parameters(plan: Plan) -> Plan:
    """Return the plan with its slots shown as $1, $2, ...; it cannot run."""
    return cast("Plan", _name_slots(plan))


def _name_slots(part: Any) -> Any:
    if isinstance(part, Literal):
        slot = slot_of(part)
        return part if slot is None else Fetch(PARAMETER, slot.number, Literal(None, part.type), part.type)
    if isinstance(part, tuple):
        items = tuple(map(_name_slots, part))
        return part if all(new is old for new, old in zip(items, part, strict=True)) else items
    if isinstance(part, Type) or not is_dataclass(part) or isinstance(part, type):
        return part
    values = {one.name: getattr(part, one.name) for one in fields(part) if one.init}
    new = {name: _name_slots(value) for name, value in values.items()}
    return part if all(new[name] is values[name] for name in values) else type(part)(**new)
