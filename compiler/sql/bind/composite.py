"""Values made of others: arrays, their elements and slices, rows; ANY and ALL of an array; AT TIME ZONE."""

from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.assigning import TYPE, Assigned, Blank
from kpg.compiler.sql.bind.array_query import as_aggregate
from kpg.compiler.sql.bind.calls import brought, call, coerce, unified
from kpg.compiler.sql.bind.functions import COMPARISONS
from kpg.compiler.sql.bind.literals import loose_type, settled_type
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bind.whole_rows import bind_field, made_row
from kpg.compiler.sql.syntax import only
from kpg.runtime.functions import common_type, shown_type
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIT_KINDS, BOOLEAN, INTEGER, TEXT, UNKNOWN, Kind, Type, array
from kpg.runtime.values import arrays

JOINED: Final = {Kind.ARRAY: "array_cat", Kind.JSONB: "jsonb_concat"}
"""What ``||`` is of values that are no text."""


STRINGS: Final = BIT_KINDS | {Kind.BYTEA}


def bind_composite(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """The scalar of an expression that makes or takes apart such a value; None if the node is no such."""
    match node:
        case exp.Array():
            return _array(binding, scope, node)
        case exp.Bracket():
            return _subscripted(binding, scope, node)
        case exp.Tuple():
            only(node, binding.source, "expressions")
            return made_row(binding, scope, node.expressions)
        case exp.Anonymous() if str(node.this).lower() == "row":
            only(node, binding.source, "this", "expressions")
            return made_row(binding, scope, node.expressions)
        case Assigned():
            from kpg.compiler.sql.bind.assigned_parts import bind_assigned

            return bind_assigned(binding, scope, node)
        case Blank():
            if node.meta.get(TYPE) is None:
                binding.wrong(f'column "{node.name}" does not exist', node)
            return Literal(None, node.meta[TYPE])
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Anonymous() as called):
            binding.wrong(f"unknown function {schema.name}.{called.this}", node)
        case exp.Dot():
            return bind_field(binding, scope, node)
        case exp.AtTimeZone():
            only(node, binding.source, "this", "zone")
            args = [binding.expression(scope, part) for part in (node.args["zone"], node.this)]
            return call(binding, "timezone", args, node)
        case exp.ParseJSON():
            only(node, binding.source, "this", "is_literal")
            return brought(binding, binding.expression(scope, node.this), Type(Kind.JSON), node)
        case _:
            return None


def _array(binding: Binding, scope: Scope, node: exp.Array) -> Scalar:
    only(node, binding.source, "expressions", "value_constructor")
    parts = node.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Query | exp.Values):
        made = binding.expression(scope, as_aggregate(binding, parts[0], node))
        return call(binding, "coalesce", [made, Literal(arrays.NOTHING, made.type)], node)
    items = [
        _array(binding, scope, one) if _is_list(one) else binding.expression(scope, one) for one in parts
    ]
    if not items:
        return Call("$array", (), array(TEXT))
    target = shown_type(tuple(map(loose_type, items)))
    if target is None:
        items = unified(binding, items, parts, "ARRAY types")
        target = items[0].type
    target = settled_type(target)
    brought_ = tuple(brought(binding, item, target, one) for item, one in zip(items, parts, strict=True))
    return Call("$array", brought_, array(target))


def _is_list(node: exp.Expr) -> bool:
    """``[1, 2]`` within ARRAY[...]."""
    return isinstance(node, exp.Array) and not any(
        isinstance(one, exp.Query | exp.Values) for one in node.expressions
    )


def cast_array(binding: Binding, scope: Scope, node: exp.Expr, type_: Type) -> Scalar | None:
    """``ARRAY[...]::type``, whose elements take the type's; None for any other expression."""
    if not _is_list(node) or type_.kind is not Kind.ARRAY:
        return None
    (element,) = type_.parts
    items: list[Scalar] = []
    for one in node.expressions:
        nested = cast_array(binding, scope, one, type_)
        if nested is None:
            value = binding.expression(scope, one)
            if value.type == UNKNOWN:
                value = brought(
                    binding, value, replace(element, precision=0) if element.is_text else element, one
                )
            nested = coerce(value, element)
        items.append(nested)
    return Call("$array", tuple(items), type_)


def _subscripted(binding: Binding, scope: Scope, node: exp.Bracket) -> Scalar:
    """``array[1][2]``, or a slice if one of the subscripts is: then a number n stands for 1:n."""
    subscripts: list[exp.Expr] = []
    inner: exp.Expr = node
    while isinstance(inner, exp.Bracket):
        only(inner, binding.source, "this", "expressions")
        subscripts = [*inner.expressions, *subscripts]
        inner = inner.this
    value = binding.expression(scope, inner)
    if value.type.kind is Kind.JSONB:
        for subscript in subscripts:
            part = binding.expression(scope, subscript)
            # A text is a step of a path, which finds elements of arrays, too.
            name = "json_get" if part.type.is_integer else "jsonb_extract_path"
            value = call(binding, name, [value, part], node)
        return value
    if value.type.is_text and isinstance(node.this, exp.Column) and node.this.name.lower() == "typname":
        # Postgres' names are arrays of letters, counted from 0; programs look whether one begins with "_".
        place = call(
            binding, "add", [binding.expression(scope, node.expressions[0]), Literal(1, INTEGER)], node
        )
        return call(binding, "substring", [value, place, Literal(1, INTEGER)], node)
    if value.type.kind is not Kind.ARRAY:
        binding.wrong(f"{value.type} has no subscripts", node)
    if not any(isinstance(subscript, exp.Slice) for subscript in subscripts):
        places = [_integer(binding, scope, subscript) for subscript in subscripts]
        return Call("$element", (value, *places), value.type.parts[0])
    bounds: list[Scalar] = []
    open_ended = False
    for subscript in subscripts:
        low: exp.Expr | None = subscript.this if isinstance(subscript, exp.Slice) else None
        high = subscript.expression if isinstance(subscript, exp.Slice) else subscript
        for bound in (low, high):
            open_ended |= bound is None
            bounds.append(Literal(None, INTEGER) if bound is None else _integer(binding, scope, bound))
    return Call("$slice" if open_ended else "$slice_marks", (value, *bounds), value.type)


def _integer(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    value = binding.expression(scope, node)
    if not (value.type.is_integer or value.type == UNKNOWN):
        binding.wrong(f"a subscript is an INTEGER, not {value.type}", node)
    return brought(binding, value, INTEGER, node)


def joined(binding: Binding, args: list[Scalar], node: exp.DPipe) -> Scalar | None:
    """``||`` of arrays or JSONB; None if it is of texts."""
    kind = next((arg.type.kind for arg in args if arg.type.kind in JOINED), None)
    if kind is None:
        if any(arg.type.kind in STRINGS for arg in args) and not any(arg.type.is_text for arg in args):
            return call(binding, "concat", args, node)
        return None
    only(node, binding.source, "this", "expression", "safe")
    if kind is Kind.ARRAY and UNKNOWN in (args[0].type, args[1].type):
        joint = next(arg.type for arg in args if arg.type.kind is Kind.ARRAY)
        args = [brought(binding, arg, joint, node) for arg in args]
    return call(binding, JOINED[kind], args, node)


def bind_any_element(
    binding: Binding, scope: Scope, node: exp.Expr, items: exp.Expr, *, every: bool
) -> Scalar | None:
    """``value comparison ANY (array)``, or ALL; None if it is over a query."""
    inner = items.this if isinstance(items, exp.Paren) else items
    if isinstance(inner, exp.Query | exp.Values | exp.Subquery):
        return None
    value, given = binding.expression(scope, node.this), binding.expression(scope, inner)
    if given.type == UNKNOWN:
        element = TEXT if value.type == UNKNOWN else value.type
        given = brought(binding, given, array(element), node)
    if given.type.kind is not Kind.ARRAY:
        binding.wrong(f"ANY and ALL take an array or a query, not {given.type}", node)
    element_type = common_type((value.type, given.type.parts[0]))
    if element_type is None:
        binding.wrong(f"{value.type} cannot be compared with elements of {given.type}", node, "add a CAST")
    sides = (brought(binding, value, element_type, node), coerce(given, array(element_type)))
    name = f"${'all' if every else 'any'}_{COMPARISONS[type(node)]}"
    return Call(name, sides, BOOLEAN)
