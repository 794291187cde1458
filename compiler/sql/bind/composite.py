"""Composite values: arrays, rows, and the expressions over them.

Covers ARRAY(query), elements and slices, ANY and ALL of an array, whole-row references ``t`` and ``t.*``,
fields ``(t).a``, SET of an element, slice or field, and AT TIME ZONE. Rows compare column by column; the
first difference decides.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.calls import brought, call, coerce, settled, unified
from kpg.compiler.sql.bind.functions import COMPARISONS
from kpg.compiler.sql.bind.literals import loose_type, settled_type
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.parse.dml import TYPE, Assigned, Blank, column_of
from kpg.compiler.sql.parse.syntax import only
from kpg.runtime.functions import castable, common_type, is_function, shown_type
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIT_KINDS, BOOLEAN, INTEGER, JSONB, TEXT, UNKNOWN, Kind, Type, array, record
from kpg.runtime.values import arrays

VALUE, KEY = "array_value", "array_key_"


def as_aggregate(binding: Binding, query: exp.Query | exp.Values, node: exp.Expr) -> exp.Expr:
    """The same as a subquery with ``array_agg``, ordered as the query is."""
    query = query.copy()
    keys: list[exp.Expr] = []
    order = query.args.get("order")
    if order is not None and isinstance(query, exp.Select) and len(query.expressions) == 1:
        names = [VALUE]
        for place, key in enumerate(order.expressions):
            column = _column(query, key.this, place)
            names += [column] if column != VALUE else []
            keys.append(_ordered(key, column))
    else:
        names = [VALUE]
        for key in order.expressions if order is not None else ():
            if not isinstance(key.this, exp.Column | exp.Literal):
                binding.refuse("ORDER BY an expression over a combined query within ARRAY(...)", node)
            keys.append(_ordered(key, VALUE))  # it has no other column
    alias = exp.TableAlias(this=exp.to_identifier("array_query"), columns=list(map(exp.to_identifier, names)))
    source = exp.Subquery(this=query, alias=alias)
    operand: exp.Expr = exp.column(VALUE)
    if keys:
        operand = exp.Order(this=operand, expressions=keys)
    made = exp.Anonymous(this="array_agg", expressions=[operand])
    return exp.Subquery(this=exp.Select(expressions=[made], from_=exp.From(this=source)))


def _column(query: exp.Select, key: exp.Expr, place: int) -> str:
    """The column by which is ordered: the value itself, by its position or name, or one more."""
    (value,) = query.expressions
    named = isinstance(key, exp.Column) and not key.table
    if (named and key.name.lower() == value.alias_or_name.lower()) or (
        isinstance(key, exp.Literal) and key.is_int
    ):
        return VALUE
    name = f"{KEY}{place}"
    query.append("expressions", exp.alias_(key.copy(), name))
    return name


def _ordered(key: exp.Expr, column: str) -> exp.Expr:
    ordered = key.copy()
    ordered.set("this", exp.column(column))
    return ordered


def bind_whole_row(binding: Binding, scope: Scope, node: exp.Column) -> Scalar | None:
    """The row of a relation that is named in the place of a column, or what a function that is named as a
    column of it makes of the row; None if the node is a column.
    """
    starred = isinstance(node.this, exp.Star)
    if not starred and node.table and binding.catalog.find_routines(node.name.lower(), ""):
        return _called_as_column(binding, scope, node)
    if not starred and (node.args.get("table") is not None or not isinstance(node.this, exp.Identifier)):
        return None
    fields = fields_of(scope, node.table if starred else node.name, column_first=not starred)
    if fields is None:
        return None
    binding.use(fields)
    columns = tuple(one.column for one in fields)
    type_ = record([one.type for one in columns], [one.name for one in fields])
    padded = any(column.index in binding.padded for column in columns)
    return Call("$whole_row" if padded else "$row", columns, type_)


def _called_as_column(binding: Binding, scope: Scope, node: exp.Column) -> Scalar | None:
    """``t.f`` for ``f(t)``; None if t has a column f."""
    fields = fields_of(scope, node.table, column_first=False)
    if fields is None or any(one.name.lower() == node.name.lower() for one in fields):
        return None
    row = exp.Column(this=node.args["table"].copy()).update_positions(node.this)
    return binding.expression(scope, exp.Anonymous(this=node.name, expressions=[row]))


def field_called(binding: Binding, scope: Scope, node: exp.Anonymous) -> Scalar | None:
    """``name(t)`` for ``t.name``, where there is no function of that name; None for any other call."""
    name = str(node.this).lower()
    match node.expressions:
        case [exp.Column(this=exp.Identifier()) as row] if not row.table and not is_function(name):
            fields = fields_of(scope, row.name, column_first=True)
            found = [one for one in fields or () if one.name.lower() == name]
            if not found:
                return None
            binding.use(found)
            return found[0].column
        case _:
            return None


def fields_of(scope: Scope, name: str, *, column_first: bool) -> list[Field] | None:
    """The fields of the relation of that name; None if there is none, or a column of it comes first."""
    wanted = name.lower()
    here: Scope | None = scope
    while here is not None:
        index = here.fields.by_name
        if column_first and (wanted in here.whole or wanted in index.named):
            return None
        if wanted in index.relations:
            return [one for one in here.fields if one.relation.lower() == wanted and not one.of_system]
        here = here.parent
    return None


def made_row(binding: Binding, scope: Scope, parts: Sequence[exp.Expr]) -> Scalar:
    """``ROW(...)`` as a value; ``t.*`` in it stands for the columns of t."""
    fields: list[Scalar] = []
    for part in parts:
        if isinstance(part, exp.Column) and isinstance(part.this, exp.Star):
            found = fields_of(scope, part.table, column_first=False)
            if found is None:
                binding.wrong(f'missing FROM entry for "{part.table}"', part)
            binding.use(found)
            fields += [one.column for one in found]
        else:
            fields.append(settled(binding.expression(scope, part)))
    names = [f"f{place + 1}" for place in range(len(fields))]
    return Call("$row", tuple(fields), record([field.type for field in fields], names))


def fields_of_row(binding: Binding, value: Scalar, node: exp.Expr) -> list[tuple[str, Scalar]]:
    """``(row).*``: the fields of a row with their names."""
    if value.type.kind is not Kind.RECORD:
        binding.wrong(f"{value.type} has no fields", node)
    parts = value.type.parts
    if isinstance(value, Call) and value.function in ("$whole_row", "$row"):
        return list(zip(value.type.labels, value.args, strict=True))
    return [
        (name, Call("$row_field", (value, Literal(place, INTEGER)), parts[place]))
        for place, name in enumerate(value.type.labels)
    ]


def bind_field(binding: Binding, scope: Scope, node: exp.Dot) -> Scalar:
    """``(row).field``."""
    only(node, binding.source, "this", "expression")
    value = binding.expression(scope, node.this)
    if value.type.kind is not Kind.RECORD or not isinstance(node.expression, exp.Identifier):
        binding.refuse("a field of anything but a row", node)
    names = [name.lower() for name in value.type.labels]
    if node.expression.name.lower() not in names:
        binding.wrong(f'"{node.expression.name}" is no field of {value.type}', node)
    place = names.index(node.expression.name.lower())
    return Call("$row_field", (value, Literal(place, INTEGER)), value.type.parts[place])


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


STRICT = {"lt": "lt", "le": "lt", "gt": "gt", "ge": "gt"}
"""The comparison of all columns but the last."""


def row_parts(node: exp.Expr | None) -> list[exp.Expr] | None:
    """The columns of ``(a, b)`` or ``ROW(a, b)``; None for anything else."""
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
    """As :func:`row_parts`, and the columns of a subquery that has several, each a subquery."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        listed = node.this.expressions
        if len(listed) > 1 and not any(part.is_star for part in listed):
            return [column_of(node, place, len(listed)) for place in range(len(listed))]
    return row_parts(node)


def compared_rows(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """``(a, b) < (c, d)`` and the like."""
    only(node, binding.source, "this", "expression")
    sides = _sides(binding, scope, node.this, node.expression, node)
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        tests = [call(binding, "is_not_distinct", pair, node) for pair in sides]
        same = _all(binding, tests, node)
        return same if isinstance(node, exp.NullSafeEQ) else call(binding, "not", [same], node)
    return compared_pairs(binding, COMPARISONS[type(node)], sides, node)


def compared_pairs(binding: Binding, name: str, sides: Sequence[Sequence[Scalar]], node: exp.Expr) -> Scalar:
    """A comparison of two rows, of which the columns are given pair by pair."""
    if name in ("eq", "ne"):
        equal = _all(binding, [call(binding, "eq", pair, node) for pair in sides], node)
        return equal if name == "eq" else call(binding, "not", [equal], node)
    result = call(binding, name, sides[-1], node)
    for pair in reversed(sides[:-1]):
        further = call(binding, "and", [call(binding, "eq", pair, node), result], node)
        result = call(binding, "or", [call(binding, STRICT[name], pair, node), further], node)
    return result


def rows_equal(binding: Binding, scope: Scope, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> Scalar:
    """Whether two rows are equal."""
    sides = _sides(binding, scope, left, right, node)
    return _all(binding, [call(binding, "eq", pair, node) for pair in sides], node)


def row_is_null(binding: Binding, scope: Scope, parts: Sequence[exp.Expr], node: exp.Is) -> Scalar:
    """``(a, b) IS NULL`` if all are; ``IS NOT NULL`` if none is."""
    name = "is_not_null" if node.args.get("negate") else "is_null"
    values = [settled(binding.expression(scope, part)) for part in parts]
    return _all(binding, [call(binding, name, [value], node) for value in values], node)


def _sides(
    binding: Binding, scope: Scope, left: exp.Expr, right: exp.Expr, node: exp.Expr
) -> list[list[Scalar]]:
    first, second = row_columns(left), row_columns(right)
    if first is None or second is None or len(first) != len(second) or not first:
        binding.wrong("rows of different sizes cannot be compared", node)
    pairs = zip(first, second, strict=True)
    return [[binding.expression(scope, one) for one in pair] for pair in pairs]


def _all(binding: Binding, tests: Sequence[Scalar], node: exp.Expr) -> Scalar:
    return tests[0] if len(tests) == 1 else call(binding, "and", tests, node)
