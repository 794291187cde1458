"""SET of an element or a slice of an array, and of a field of a row."""

from sqlglot import exp

from kpg.compiler.sql.assigning import Assigned
from kpg.compiler.sql.bind.calls import brought, coerce
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import only
from kpg.runtime.functions import castable
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import INTEGER, JSONB, TEXT, UNKNOWN, Kind, Type


def bind_assigned(binding: Binding, scope: Scope, node: Assigned) -> Scalar:
    """The whole value with a part of it set."""
    whole = binding.expression(scope, node.this)
    part, value = node.args["part"], binding.expression(scope, node.expression)
    if isinstance(part, exp.Identifier):
        return _with_field(binding, whole, part, value)
    if whole.type.kind is Kind.JSONB:
        return _with_member(binding, scope, whole, part, value)
    if whole.type.kind is not Kind.ARRAY:
        binding.wrong(f"{whole.type} has no subscripts", part)
    only(part, binding.source, "this", "expressions")
    element = whole.type.parts[0]
    subscripts = part.expressions
    if any(isinstance(one, exp.Slice) for one in subscripts):
        bounds = [place for one in subscripts for place in _bounds(binding, scope, one)]
        return Call("$with_slice", (whole, _of(binding, value, whole.type, node), *bounds), whole.type)
    places = [_place(binding, scope, one) for one in subscripts]
    return Call("$with_element", (whole, _of(binding, value, element, node), *places), whole.type)


def _bounds(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[Scalar, Scalar]:
    """The bounds of a slice in a dimension: a number n beside slices stands for 1:n."""
    if isinstance(node, exp.Slice):
        return _place(binding, scope, node.this), _place(binding, scope, node.expression)
    return Literal(1, INTEGER), _place(binding, scope, node)


def _with_member(binding: Binding, scope: Scope, whole: Scalar, part: exp.Expr, value: Scalar) -> Scalar:
    """A value of JSONB with a member or an element set; what is on the way there is made."""
    only(part, binding.source, "this", "expressions")
    path: list[Scalar] = []
    for one in part.expressions:
        if isinstance(one, exp.Slice):
            binding.wrong("jsonb subscript does not support slices", one)
        place = binding.expression(scope, one)
        if not (place.type.is_integer or place.type.is_text or place.type == UNKNOWN):
            binding.wrong(f"a subscript of JSONB is an INTEGER or a TEXT, not {place.type}", one)
        path.append(place if place.type.is_integer else brought(binding, place, TEXT, one))
    return Call("$with_member", (whole, _of(binding, value, JSONB, part), *path), JSONB)


def _place(binding: Binding, scope: Scope, node: exp.Expr | None) -> Scalar:
    if node is None:
        return Literal(None, INTEGER)
    value = binding.expression(scope, node)
    if not value.type.is_integer and value.type != UNKNOWN:
        binding.wrong(f"a subscript is an INTEGER, not {value.type}", node)
    return brought(binding, value, INTEGER, node)


def _of(binding: Binding, value: Scalar, type_: Type, node: exp.Expr) -> Scalar:
    if value.type == UNKNOWN:
        return brought(binding, value, type_, node)
    if value.type != type_ and not castable(value.type, type_):
        binding.wrong(f"{type_} is assigned a value of {value.type}", node, "add a CAST")
    return coerce(value, type_)


def _with_field(binding: Binding, whole: Scalar, field: exp.Identifier, value: Scalar) -> Scalar:
    type_ = whole.type
    names = [name.lower() for name in type_.labels]
    if type_.kind is not Kind.RECORD or field.name.lower() not in names:
        binding.wrong(f'"{field.name}" is no field of {type_}', field)
    fields = [
        Call("$row_field", (whole, Literal(place, INTEGER)), part) for place, part in enumerate(type_.parts)
    ]
    made: list[Scalar] = list(fields)
    place = names.index(field.name.lower())
    made[place] = _of(binding, value, type_.parts[place], field)
    return Call("$row", tuple(made), type_)
