"""Composite values: arrays, rows, and the expressions over them.

Covers ARRAY(query), elements and slices, ANY and ALL of an array, whole-row references ``t`` and ``t.*``,
fields ``(t).a``, SET of an element, slice or field, and AT TIME ZONE. Rows compare column by column; the
first difference decides.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.calls import (
    call,
    check_length,
    coerce,
    coerce_at,
    coerce_to_common,
    default_to_text,
    without_length_limit,
)
from kpg.compiler.sql.bind.functions import COMPARISONS
from kpg.compiler.sql.bind.literals import default_fields_to_text, loose_type
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.parse.dml import TYPE, PartAssignment, UntypedNull, subquery_column
from kpg.compiler.sql.parse.syntax import allow_only
from kpg.runtime.functions import common_result_type, common_type, is_castable, is_function
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIT_KINDS, BOOLEAN, INTEGER, JSONB, TEXT, UNKNOWN, Kind, Type, array, record
from kpg.runtime.values import arrays

VALUE, SORT_KEY_PREFIX = "array_value", "array_key_"


def rewrite_array_query(binding: Binding, query: exp.Query | exp.Values, node: exp.Expr) -> exp.Expr:
    """Rewrite ARRAY(query) as a subquery with ``array_agg``, in the order of the query."""
    query = query.copy()
    keys: list[exp.Expr] = []
    order = query.args.get("order")
    if order is not None and isinstance(query, exp.Select) and len(query.expressions) == 1:
        names = [VALUE]
        for place, key in enumerate(order.expressions):
            column = _sort_column(query, key.this, place)
            names += [column] if column != VALUE else []
            keys.append(_with_sort_column(key, column))
    else:
        names = [VALUE]
        for key in order.expressions if order is not None else ():
            if not isinstance(key.this, exp.Column | exp.Literal):
                binding.refuse("ORDER BY an expression over a combined query within ARRAY(...)", node)
            keys.append(_with_sort_column(key, VALUE))  # it has no other column
    alias = exp.TableAlias(this=exp.to_identifier("array_query"), columns=list(map(exp.to_identifier, names)))
    source = exp.Subquery(this=query, alias=alias)
    operand: exp.Expr = exp.column(VALUE)
    if keys:
        operand = exp.Order(this=operand, expressions=keys)
    made = exp.Anonymous(this="array_agg", expressions=[operand])
    return exp.Subquery(this=exp.Select(expressions=[made], from_=exp.From(this=source)))


def _sort_column(query: exp.Select, key: exp.Expr, position: int) -> str:
    """Return the column for a sort key: the value itself, by position or name, or an added column."""
    (value,) = query.expressions
    named = isinstance(key, exp.Column) and not key.table
    if (named and key.name.lower() == value.alias_or_name.lower()) or (
        isinstance(key, exp.Literal) and key.is_int
    ):
        return VALUE
    name = f"{SORT_KEY_PREFIX}{position}"
    query.append("expressions", exp.alias_(key.copy(), name))
    return name


def _with_sort_column(key: exp.Expr, column: str) -> exp.Expr:
    ordered = key.copy()
    ordered.set("this", exp.column(column))
    return ordered


def bind_whole_row(binding: Binding, scope: Scope, node: exp.Column) -> Scalar | None:
    """Bind a relation name in the place of a column to the relation's row; None if it is a column.

    A function that is named as a column of the relation is called with the row.
    """
    starred = isinstance(node.this, exp.Star)
    if not starred and node.table and binding.catalog.find_routines(node.name.lower(), ""):
        return _bind_function_as_field(binding, scope, node)
    if not starred and (node.args.get("table") is not None or not isinstance(node.this, exp.Identifier)):
        return None
    fields = relation_fields(scope, node.table if starred else node.name, column_first=not starred)
    if fields is None:
        return None
    binding.record_use(fields)
    columns = tuple(one.column for one in fields)
    type_ = record([one.type for one in columns], [one.name for one in fields])
    padded = any(column.index in binding.nullable_ids for column in columns)
    return Call("$whole_row" if padded else "$row", columns, type_)


def _bind_function_as_field(binding: Binding, scope: Scope, node: exp.Column) -> Scalar | None:
    """Bind ``t.f`` as ``f(t)``; None if t has a column f."""
    fields = relation_fields(scope, node.table, column_first=False)
    if fields is None or any(one.name.lower() == node.name.lower() for one in fields):
        return None
    row = exp.Column(this=node.args["table"].copy()).update_positions(node.this)
    return binding.expression(scope, exp.Anonymous(this=node.name, expressions=[row]))


def bind_field_as_function(binding: Binding, scope: Scope, node: exp.Anonymous) -> Scalar | None:
    """Bind ``name(t)`` as ``t.name`` if there is no function of that name; None for any other call."""
    name = str(node.this).lower()
    match node.expressions:
        case [exp.Column(this=exp.Identifier()) as row] if not row.table and not is_function(name):
            fields = relation_fields(scope, row.name, column_first=True)
            found = [one for one in fields or () if one.name.lower() == name]
            if not found:
                return None
            binding.record_use(found)
            return found[0].column
        case _:
            return None


def relation_fields(scope: Scope, name: str, *, column_first: bool) -> list[Field] | None:
    """Return the fields of a relation; None if there is none, or if a column takes precedence."""
    wanted = name.lower()
    here: Scope | None = scope
    while here is not None:
        index = here.fields.by_name
        if column_first and (wanted in here.scalar_columns or wanted in index.named):
            return None
        if wanted in index.relations:
            return [one for one in here.fields if one.relation.lower() == wanted and not one.is_system]
        here = here.parent
    return None


def bind_row(binding: Binding, scope: Scope, parts: Sequence[exp.Expr]) -> Scalar:
    """Bind ``ROW(...)``. ``t.*`` in it stands for the columns of t."""
    fields: list[Scalar] = []
    for part in parts:
        if isinstance(part, exp.Column) and isinstance(part.this, exp.Star):
            found = relation_fields(scope, part.table, column_first=False)
            if found is None:
                binding.fail(f'missing FROM entry for "{part.table}"', part)
            binding.record_use(found)
            fields += [one.column for one in found]
        else:
            fields.append(default_to_text(binding.expression(scope, part)))
    names = [f"f{place + 1}" for place in range(len(fields))]
    return Call("$row", tuple(fields), record([field.type for field in fields], names))


def row_fields(binding: Binding, value: Scalar, node: exp.Expr) -> list[tuple[str, Scalar]]:
    """Return the names and values of ``(row).*``."""
    if value.type.kind is not Kind.RECORD:
        binding.fail(f"{value.type} has no fields", node)
    parts = value.type.parts
    if isinstance(value, Call) and value.function in ("$whole_row", "$row"):
        return list(zip(value.type.labels, value.args, strict=True))
    return [
        (name, Call("$row_field", (value, Literal(place, INTEGER)), parts[place]))
        for place, name in enumerate(value.type.labels)
    ]


def bind_field(binding: Binding, scope: Scope, node: exp.Dot) -> Scalar:
    """Bind ``(row).field``."""
    allow_only(node, binding.source, "this", "expression")
    value = binding.expression(scope, node.this)
    if value.type.kind is not Kind.RECORD or not isinstance(node.expression, exp.Identifier):
        binding.refuse("a field of a value that is not a row", node)
    names = [name.lower() for name in value.type.labels]
    if node.expression.name.lower() not in names:
        binding.fail(f'"{node.expression.name}" is not a field of {value.type}', node)
    place = names.index(node.expression.name.lower())
    return Call("$row_field", (value, Literal(place, INTEGER)), value.type.parts[place])


CONCAT_FUNCTIONS: Final = {Kind.ARRAY: "array_cat", Kind.JSONB: "jsonb_concat"}
"""Function that ``||`` stands for, by the kind of its operands."""


STRING_KINDS: Final = BIT_KINDS | {Kind.BYTEA}


def bind_composite(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Bind an expression that builds or reads a composite value; None for any other node."""
    match node:
        case exp.Array():
            return _bind_array(binding, scope, node)
        case exp.Bracket():
            return _bind_subscripts(binding, scope, node)
        case exp.Tuple():
            allow_only(node, binding.source, "expressions")
            return bind_row(binding, scope, node.expressions)
        case exp.Anonymous() if str(node.this).lower() == "row":
            allow_only(node, binding.source, "this", "expressions")
            return bind_row(binding, scope, node.expressions)
        case PartAssignment():
            return bind_assignment(binding, scope, node)
        case UntypedNull():
            if node.meta.get(TYPE) is None:
                binding.fail(f'column "{node.name}" does not exist', node)
            return Literal(None, node.meta[TYPE])
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Anonymous() as called):
            binding.fail(f"unknown function {schema.name}.{called.this}", node)
        case exp.Dot():
            return bind_field(binding, scope, node)
        case exp.AtTimeZone():
            allow_only(node, binding.source, "this", "zone")
            args = [binding.expression(scope, part) for part in (node.args["zone"], node.this)]
            return call(binding, "timezone", args, node)
        case exp.ParseJSON():
            allow_only(node, binding.source, "this", "is_literal")
            return coerce_at(binding, binding.expression(scope, node.this), Type(Kind.JSON), node)
        case _:
            return None


def _bind_array(binding: Binding, scope: Scope, node: exp.Array) -> Scalar:
    allow_only(node, binding.source, "expressions", "value_constructor")
    parts = node.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Query | exp.Values):
        made = binding.expression(scope, rewrite_array_query(binding, parts[0], node))
        return call(binding, "coalesce", [made, Literal(arrays.ENCODED_EMPTY, made.type)], node)
    items = [
        _bind_array(binding, scope, one) if _is_array_of_values(one) else binding.expression(scope, one)
        for one in parts
    ]
    if not items:
        return Call("$array", (), array(TEXT))
    target = common_result_type(tuple(map(loose_type, items)))
    if target is None:
        items = coerce_to_common(binding, items, parts, "ARRAY types")
        target = items[0].type
    target = default_fields_to_text(target)
    brought_ = tuple(coerce_at(binding, item, target, one) for item, one in zip(items, parts, strict=True))
    return Call("$array", brought_, array(target))


def _is_array_of_values(node: exp.Expr) -> bool:
    """Return whether a node is ARRAY[...] with values rather than a query."""
    return isinstance(node, exp.Array) and not any(
        isinstance(one, exp.Query | exp.Values) for one in node.expressions
    )


def bind_array_cast(binding: Binding, scope: Scope, node: exp.Expr, type_: Type) -> Scalar | None:
    """Bind ``ARRAY[...]::type``, whose elements take the type's element type; None for any other node."""
    if not _is_array_of_values(node) or type_.kind is not Kind.ARRAY:
        return None
    (element,) = type_.parts
    items: list[Scalar] = []
    for one in node.expressions:
        nested = bind_array_cast(binding, scope, one, type_)
        if nested is None:
            value = binding.expression(scope, one)
            if value.type == UNKNOWN:
                value = coerce_at(
                    binding, value, replace(element, precision=0) if element.is_text else element, one
                )
            nested = coerce(value, element)
        items.append(nested)
    return Call("$array", tuple(items), type_)


def _bind_subscripts(binding: Binding, scope: Scope, node: exp.Bracket) -> Scalar:
    """Bind ``array[1][2]`` or a slice. Beside a slice, a subscript n stands for 1:n."""
    subscripts: list[exp.Expr] = []
    inner: exp.Expr = node
    while isinstance(inner, exp.Bracket):
        allow_only(inner, binding.source, "this", "expressions")
        subscripts = [*inner.expressions, *subscripts]
        inner = inner.this
    value = binding.expression(scope, inner)
    if value.type.kind is Kind.JSONB:
        for subscript in subscripts:
            part = binding.expression(scope, subscript)
            # A text is a path step, which also finds array elements.
            name = "json_get" if part.type.is_integer else "jsonb_extract_path"
            value = call(binding, name, [value, part], node)
        return value
    if value.type.is_text and isinstance(node.this, exp.Column) and node.this.name.lower() == "typname":
        # In Postgres a name is an array of characters from 0. Clients test whether the first one is "_".
        place = call(
            binding, "add", [binding.expression(scope, node.expressions[0]), Literal(1, INTEGER)], node
        )
        return call(binding, "substring", [value, place, Literal(1, INTEGER)], node)
    if value.type.kind is not Kind.ARRAY:
        binding.fail(f"{value.type} has no subscripts", node)
    if not any(isinstance(subscript, exp.Slice) for subscript in subscripts):
        places = [_bind_subscript(binding, scope, subscript) for subscript in subscripts]
        return Call("$element", (value, *places), value.type.parts[0])
    bounds: list[Scalar] = []
    open_ended = False
    for subscript in subscripts:
        low: exp.Expr | None = subscript.this if isinstance(subscript, exp.Slice) else None
        high = subscript.expression if isinstance(subscript, exp.Slice) else subscript
        for bound in (low, high):
            open_ended |= bound is None
            bounds.append(Literal(None, INTEGER) if bound is None else _bind_subscript(binding, scope, bound))
    return Call("$slice" if open_ended else "$slice_marks", (value, *bounds), value.type)


def _bind_subscript(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    value = binding.expression(scope, node)
    if not (value.type.is_integer or value.type == UNKNOWN):
        binding.fail(f"a subscript is an INTEGER, not {value.type}", node)
    return coerce_at(binding, value, INTEGER, node)


def bind_concat_operator(binding: Binding, args: list[Scalar], node: exp.DPipe) -> Scalar | None:
    """Bind ``||`` of arrays, JSONB, bit strings or BYTEA; None for texts."""
    kind = next((arg.type.kind for arg in args if arg.type.kind in CONCAT_FUNCTIONS), None)
    if kind is None:
        if any(arg.type.kind in STRING_KINDS for arg in args) and not any(arg.type.is_text for arg in args):
            return call(binding, "concat", args, node)
        return None
    allow_only(node, binding.source, "this", "expression", "safe")
    if kind is Kind.ARRAY and UNKNOWN in (args[0].type, args[1].type):
        joint = next(arg.type for arg in args if arg.type.kind is Kind.ARRAY)
        args = [coerce_at(binding, arg, joint, node) for arg in args]
    return call(binding, CONCAT_FUNCTIONS[kind], args, node)


def bind_any_element(
    binding: Binding, scope: Scope, node: exp.Expr, items: exp.Expr, *, is_all: bool
) -> Scalar | None:
    """Bind ``value comparison ANY (array)``, or ALL; None if the operand is a query."""
    inner = items.this if isinstance(items, exp.Paren) else items
    if isinstance(inner, exp.Query | exp.Values | exp.Subquery):
        return None
    value, given = binding.expression(scope, node.this), binding.expression(scope, inner)
    if given.type == UNKNOWN:
        element = TEXT if value.type == UNKNOWN else value.type
        given = coerce_at(binding, given, array(element), node)
    if given.type.kind is not Kind.ARRAY:
        binding.fail(f"ANY and ALL take an array or a query, not {given.type}", node)
    element_type = common_type((value.type, given.type.parts[0]))
    if element_type is None:
        binding.fail(f"{value.type} cannot be compared with elements of {given.type}", node, "add a CAST")
    sides = (coerce_at(binding, value, element_type, node), coerce(given, array(element_type)))
    name = f"${'all' if is_all else 'any'}_{COMPARISONS[type(node)]}"
    return Call(name, sides, BOOLEAN)


def bind_assignment(binding: Binding, scope: Scope, node: PartAssignment) -> Scalar:
    """Return the whole value with one element, slice or field replaced."""
    whole = binding.expression(scope, node.this)
    part, value = node.args["part"], binding.expression(scope, node.expression)
    if isinstance(part, exp.Identifier):
        return _replace_field(binding, whole, part, value)
    if whole.type.kind is Kind.JSONB:
        return _replace_member(binding, scope, whole, part, value)
    if whole.type.kind is not Kind.ARRAY:
        binding.fail(f"{whole.type} has no subscripts", part)
    allow_only(part, binding.source, "this", "expressions")
    element = whole.type.parts[0]
    subscripts = part.expressions
    if any(isinstance(one, exp.Slice) for one in subscripts):
        bounds = [place for one in subscripts for place in _bind_slice_bounds(binding, scope, one)]
        return Call(
            "$with_slice", (whole, _coerce_element(binding, value, whole.type, node), *bounds), whole.type
        )
    places = [_bind_bound(binding, scope, one) for one in subscripts]
    return Call("$with_element", (whole, _coerce_element(binding, value, element, node), *places), whole.type)


def _bind_slice_bounds(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[Scalar, Scalar]:
    """Return the bounds of one dimension. Beside a slice, a subscript n stands for 1:n."""
    if isinstance(node, exp.Slice):
        return _bind_bound(binding, scope, node.this), _bind_bound(binding, scope, node.expression)
    return Literal(1, INTEGER), _bind_bound(binding, scope, node)


def _replace_member(
    binding: Binding, scope: Scope, document: Scalar, subscript: exp.Expr, value: Scalar
) -> Scalar:
    """Return a JSONB value with a member or element replaced. Missing parents on the path are created."""
    allow_only(subscript, binding.source, "this", "expressions")
    path: list[Scalar] = []
    for one in subscript.expressions:
        if isinstance(one, exp.Slice):
            binding.fail("jsonb subscript does not support slices", one)
        place = binding.expression(scope, one)
        if not (place.type.is_integer or place.type.is_text or place.type == UNKNOWN):
            binding.fail(f"a subscript of JSONB is an INTEGER or a TEXT, not {place.type}", one)
        path.append(place if place.type.is_integer else coerce_at(binding, place, TEXT, one))
    return Call("$with_member", (document, _coerce_element(binding, value, JSONB, subscript), *path), JSONB)


def _bind_bound(binding: Binding, scope: Scope, node: exp.Expr | None) -> Scalar:
    if node is None:
        return Literal(None, INTEGER)
    value = binding.expression(scope, node)
    if not value.type.is_integer and value.type != UNKNOWN:
        binding.fail(f"a subscript is an INTEGER, not {value.type}", node)
    return coerce_at(binding, value, INTEGER, node)


def _coerce_element(binding: Binding, value: Scalar, type_: Type, node: exp.Expr) -> Scalar:
    if value.type not in (UNKNOWN, type_) and not is_castable(value.type, type_):
        binding.fail(f"{type_} is assigned a value of {value.type}", node, "add a CAST")
    unlimited = without_length_limit(type_, value.type)
    return check_length(coerce_at(binding, value, unlimited, node), type_)


def _replace_field(binding: Binding, row: Scalar, field: exp.Identifier, value: Scalar) -> Scalar:
    type_ = row.type
    names = [name.lower() for name in type_.labels]
    if type_.kind is not Kind.RECORD or field.name.lower() not in names:
        binding.fail(f'"{field.name}" is not a field of {type_}', field)
    fields = [
        Call("$row_field", (row, Literal(place, INTEGER)), part) for place, part in enumerate(type_.parts)
    ]
    made: list[Scalar] = list(fields)
    place = names.index(field.name.lower())
    made[place] = _coerce_element(binding, value, type_.parts[place], field)
    return Call("$row", tuple(made), type_)


STRICT_COMPARISON = {"lt": "lt", "le": "lt", "gt": "gt", "ge": "gt"}
"""Comparison of all columns but the last."""


def row_parts(node: exp.Expr | None) -> list[exp.Expr] | None:
    """Return the columns of ``(a, b)`` or ``ROW(a, b)``; None for any other node."""
    match node:
        case exp.Tuple():
            return list(node.expressions)
        case exp.Anonymous() if str(node.this).lower() == "row":
            return list(node.expressions)
        case exp.Paren(this=exp.Anonymous() | exp.Tuple() as inner):
            return row_parts(inner)
        case _:
            return None


def row_columns(node: exp.Expr | None) -> list[exp.Expr] | None:
    """Return :func:`row_parts`, or one subquery per column of a subquery with several columns."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        listed = node.this.expressions
        if len(listed) > 1 and not any(part.is_star for part in listed):
            return [subquery_column(node, place, len(listed)) for place in range(len(listed))]
    return row_parts(node)


def bind_row_comparison(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind a row comparison such as ``(a, b) < (c, d)``."""
    allow_only(node, binding.source, "this", "expression")
    sides = _bind_row_pairs(binding, scope, node.this, node.expression, node)
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        tests = [call(binding, "is_not_distinct", pair, node) for pair in sides]
        same = _conjunction(binding, tests, node)
        return same if isinstance(node, exp.NullSafeEQ) else call(binding, "not", [same], node)
    return compare_pairs(binding, COMPARISONS[type(node)], sides, node)


def compare_pairs(binding: Binding, name: str, pairs: Sequence[Sequence[Scalar]], node: exp.Expr) -> Scalar:
    """Return a row comparison, given the rows as pairs of columns."""
    if name in ("eq", "ne"):
        equal = _conjunction(binding, [call(binding, "eq", pair, node) for pair in pairs], node)
        return equal if name == "eq" else call(binding, "not", [equal], node)
    result = call(binding, name, pairs[-1], node)
    for pair in reversed(pairs[:-1]):
        further = call(binding, "and", [call(binding, "eq", pair, node), result], node)
        result = call(binding, "or", [call(binding, STRICT_COMPARISON[name], pair, node), further], node)
    return result


def bind_row_equality(
    binding: Binding, scope: Scope, left: exp.Expr, right: exp.Expr, node: exp.Expr
) -> Scalar:
    """Bind the equality of two rows."""
    sides = _bind_row_pairs(binding, scope, left, right, node)
    return _conjunction(binding, [call(binding, "eq", pair, node) for pair in sides], node)


def bind_row_is_null(binding: Binding, scope: Scope, parts: Sequence[exp.Expr], node: exp.Is) -> Scalar:
    """Bind ``(a, b) IS [NOT] NULL``: all columns are NULL, or none is."""
    name = "is_not_null" if node.args.get("negate") else "is_null"
    values = [default_to_text(binding.expression(scope, part)) for part in parts]
    return _conjunction(binding, [call(binding, name, [value], node) for value in values], node)


def _bind_row_pairs(
    binding: Binding, scope: Scope, left: exp.Expr, right: exp.Expr, node: exp.Expr
) -> list[list[Scalar]]:
    first, second = row_columns(left), row_columns(right)
    if first is None or second is None or len(first) != len(second) or not first:
        binding.fail("rows of different sizes cannot be compared", node)
    pairs = zip(first, second, strict=True)
    return [[binding.expression(scope, one) for one in pair] for pair in pairs]


def _conjunction(binding: Binding, tests: Sequence[Scalar], node: exp.Expr) -> Scalar:
    return tests[0] if len(tests) == 1 else call(binding, "and", tests, node)
