"""User-defined aggregates: the function that replaces a call, and the plan that computes it.

A call becomes a function of the array of its inputs. The array is maintained like any ``array_agg``, with the
call's DISTINCT, ORDER BY, FILTER and OVER. The function runs once per distinct array: it starts with the
initial state, applies the step function per element, then the final function.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.routines import (
    ARRAYS,
    ELEMENTS,
    POLYMORPHIC,
    Aggregate,
    ArrayFold,
    resolve_polymorphic,
)
from kpg.compiler.sql.bind.calls import coerce, coerce_at
from kpg.compiler.sql.bind.calls import default_to_text as settled_scalar
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.parse.reader import parse_body
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.functions import is_castable
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Scalar
from kpg.runtime.types import TEXT, UNKNOWN, Kind, Type, array

NewBinding = Callable[[str, Catalog], Binding]
FOLD_PREFIX: Final = "kpg_fold_"
"""Prefix of the functions that compute user-defined aggregates."""
NUMERIC_PREFIXES: Final = ("int2", "int4", "int8", "float4", "float8", "numeric")
TYPE_PREFIXES: Final = (
    *NUMERIC_PREFIXES,
    "text",
    "date",
    "timestamp",
    "timestamptz",
    "time",
    "interval",
    "bpchar",
    "oid",
)
COMPARISON_SIGNS: Final = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INTERNAL_EXPRESSIONS: Final = {
    "textcat": "({0} || {1})",
    "array_cat": "array_cat({0}, {1})",
    "texteq": "({0} = {1})",
    "textne": "({0} <> {1})",
    "booleq": "({0} = {1})",
    "boolne": "({0} <> {1})",
    "booland_statefunc": "({0} AND {1})",
    "boolor_statefunc": "({0} OR {1})",
    "numeric_inc": "({0} + 1)",
    "int8inc": "({0} + 1)",
    "int8inc_any": "({0} + 1)",
    "int2_sum": "(coalesce({0}, 0) + {1})",
    "int4_sum": "(coalesce({0}, 0) + {1})",
    "int8_sum": "(coalesce({0}, 0) + {1})",
    "int4_avg_accum": "ARRAY[{0}[1] + 1, {0}[2] + {1}]",
    "int2_avg_accum": "ARRAY[{0}[1] + 1, {0}[2] + {1}]",
    "int8_avg": "CASE WHEN {0}[1] <> 0 THEN {0}[2]::numeric / {0}[1] END",
    "float8_accum": "ARRAY[{0}[1] + 1, {0}[2] + {1}, {0}[3] + CASE WHEN {0}[1] = 0 THEN 0 ELSE "
    "({1} * ({0}[1] + 1) - ({0}[2] + {1})) ^ 2 / ({0}[1] * ({0}[1] + 1)) END]",
    "float8_avg": "CASE WHEN {0}[1] <> 0 THEN {0}[2] / {0}[1] END",
    "float8_var_pop": "CASE WHEN {0}[1] > 0 THEN {0}[3] / {0}[1] END",
    "float8_var_samp": "CASE WHEN {0}[1] > 1 THEN {0}[3] / ({0}[1] - 1) END",
    "float8_stddev_pop": "CASE WHEN {0}[1] > 0 THEN sqrt({0}[3] / {0}[1]) END",
    "float8_stddev_samp": "CASE WHEN {0}[1] > 1 THEN sqrt({0}[3] / ({0}[1] - 1)) END",
}
"""Expressions of Postgres' internal transition and final functions."""
NON_STRICT_FUNCTIONS: Final = frozenset(
    (
        *(
            "array_append",
            "array_prepend",
            "array_cat",
            "concat",
            "concat_ws",
            "coalesce",
            "greatest",
            "least",
        ),
        *("int2_sum", "int4_sum", "int8_sum", "num_nulls", "num_nonnulls", "jsonb_build_array"),
    )
)
"""Built-in functions that accept NULLs."""


def internal_expression(name: str) -> str:
    """Return the expression of one of Postgres' internal functions; "" if it is not known."""
    for kind in TYPE_PREFIXES:
        rest = name.removeprefix(kind)
        if rest == name:
            continue
        rest = rest.removeprefix("_")
        if rest in COMPARISON_SIGNS:
            return f"({{0}} {COMPARISON_SIGNS[rest]} {{1}})"
        if rest in ("larger", "smaller"):
            return f"{'greatest' if rest == 'larger' else 'least'}({{0}}, {{1}})"
        if kind in NUMERIC_PREFIXES and rest in ("pl", "add", "mi", "sub", "mul", "div", "mod"):
            sign = {"pl": "+", "add": "+", "mi": "-", "sub": "-", "mul": "*", "div": "/", "mod": "%"}[rest]
            return f"({{0}} {sign} {{1}})"
        if kind.startswith("int") and rest in ("and", "or", "xor"):
            return f"({{0}} {dict(zip(('and', 'or', 'xor'), '&|#', strict=True))[rest]} {{1}})"
        if kind in NUMERIC_PREFIXES and rest in ("um", "uminus"):
            return "(- {0})"
    return INTERNAL_EXPRESSIONS.get(name, "")


def call_text(name: str, args: Sequence[str]) -> str:
    """Return the text of a call of the function that an aggregate's definition names."""
    plain = name.lower().removeprefix("pg_catalog.")
    form = internal_expression(plain)
    if form:
        return form.format(*args)
    return f"{plain}({', '.join(args)})"


def type_text(type_: Type) -> str:
    """Return the SQL name of a type."""
    if type_.kind is Kind.ARRAY and not type_.name:
        return f"{type_text(type_.parts[0])}[]"
    return type_.name if type_.kind in (Kind.ENUM, Kind.EXTENSION, Kind.RECORD) and type_.name else str(type_)


def is_polymorphic(type_: Type) -> bool:
    """Return whether a type is polymorphic, such as ``anyelement``."""
    return type_.name in POLYMORPHIC


def replace_aggregate_calls(catalog: Catalog, query: exp.Expr) -> exp.Expr:
    """Return a query with calls of user-defined aggregates replaced by folds of arrays."""
    known = catalog.aggregates
    if not any(str(one.this).lower() in known for one in query.find_all(exp.Anonymous)):
        return query
    result = query.copy()
    for call in list(result.find_all(exp.Anonymous)):
        name = str(call.this).lower()
        chosen = next((one for one in known.get(name, ()) if _matches_arity(one, call)), None)
        if chosen is not None:
            _replace_call(call, chosen)
    return result


def _matches_arity(aggregate: Aggregate, call: exp.Anonymous) -> bool:
    given = [part for part in _plain_arguments(call.expressions) if not isinstance(part, exp.Star)]
    return len(given) == len(aggregate.types)


def _plain_arguments(parts: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the arguments without DISTINCT and ORDER BY."""
    found: list[exp.Expr] = []
    for part in parts:
        if isinstance(part, exp.Order):
            found += _plain_arguments([part.this])
        elif isinstance(part, exp.Distinct):
            found += _plain_arguments(part.expressions)
        else:
            found.append(part)
    return found


def _replace_call(call: exp.Anonymous, aggregate: Aggregate) -> None:
    top: exp.Expr = call.parent if isinstance(call.parent, exp.Dot) else call
    inner = top
    while isinstance(top.parent, exp.Filter | exp.Window) and top.parent.this is top:
        top = top.parent
    arrays: list[exp.Expr] = []
    for place in range(max(1, len(aggregate.types))):
        arrays.append(_array_argument(top, inner, call, aggregate, place))
    made = exp.Anonymous(this=aggregate.fold, expressions=arrays)
    made.meta.update(call.meta)
    name = _needs_alias(top)
    top.replace(exp.alias_(made, str(call.this)) if name else made)


def _needs_alias(top: exp.Expr) -> bool:
    """Return whether a call is a select item whose name comes from the call."""
    return isinstance(top.parent, exp.Select) and top.arg_key == "expressions"


def _array_argument(
    top: exp.Expr, call_node: exp.Expr, call: exp.Anonymous, aggregate: Aggregate, position: int
) -> exp.Expr:
    """Return the ``array_agg`` of an argument, with the DISTINCT, ORDER BY, FILTER and OVER of the call."""
    given = call.expressions[0] if call.expressions else None

    def argument(parts: Sequence[exp.Expr]) -> exp.Expr:
        return parts[position].copy() if position < len(parts) and aggregate.types else exp.Literal.number(1)

    value: exp.Expr
    plain = _plain_arguments(call.expressions)
    value = _cast_argument(argument(plain), aggregate, position)
    last = call.expressions[-1] if call.expressions else None
    first = given.this if isinstance(given, exp.Order) else given
    if isinstance(first, exp.Distinct):
        value = exp.Distinct(expressions=[argument(plain)])
    if isinstance(last, exp.Order):
        value = exp.Order(this=value, expressions=[each.copy() for each in last.expressions])
    array = exp.ArrayAgg(this=value)
    array.meta.update(call.meta)
    return _wrap_array(top, call_node, array)


def _cast_argument(value: exp.Expr, aggregate: Aggregate, position: int) -> exp.Expr:
    if not aggregate.types or is_polymorphic(aggregate.types[position]):
        return value
    type_ = aggregate.types[position]
    if type_.kind is Kind.ARRAY:
        value = exp.Cast(this=value, to=exp.DataType.build(type_text(type_), dialect="postgres"))
        return exp.Cast(this=value, to=exp.DataType.build("text"))
    if type_.kind in (Kind.ENUM, Kind.EXTENSION, Kind.RECORD):
        return value
    return exp.Cast(this=value, to=exp.DataType.build(type_text(type_), dialect="postgres"))


def _wrap_array(top: exp.Expr, call_node: exp.Expr, array: exp.Expr) -> exp.Expr:
    if top is call_node:
        return array
    made = top.copy()
    node: exp.Expr = made
    while isinstance(node.this, exp.Filter | exp.Window):
        node = node.this
    node.set("this", array)
    return made


def bind_fold(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Bind a call of a fold; return None for any other node."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if not name.startswith(FOLD_PREFIX):
        return None
    known = (one for group in binding.catalog.aggregates.values() for one in group)
    one = next((each for each in known if each.fold == name), None)
    if one is None:
        return None
    values = [settled_scalar(binding.expression(scope, part)) for part in node.expressions]
    given = tuple(value.type.parts[0] if value.type.kind is Kind.ARRAY else TEXT for value in values)
    fold = build_fold(binding.catalog, one, given, binding.new_binding)
    arrays = tuple(
        coerce_at(binding, value, array(item), node) for value, item in zip(values, fold.items, strict=True)
    )
    assert binding.catalog.fold_function is not None
    return Call(binding.catalog.fold_function(fold), arrays, fold.result)


def element_types(aggregate: Aggregate, types: tuple[Type, ...]) -> tuple[Type, ...]:
    """Return the element types of an aggregate's arrays. Arguments that are arrays are stored as text."""
    if not aggregate.types:
        return types
    pairs = zip(aggregate.types, types, strict=True)
    return tuple(
        TEXT if type_.kind is Kind.ARRAY else element if type_.name in (*ELEMENTS, *ARRAYS) else type_
        for type_, element in pairs
    )


def is_strict(catalog: Catalog, aggregate: Aggregate) -> bool:
    """Return whether the transition function skips NULLs."""
    plain = aggregate.step.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [
        each
        for each in catalog.find_routines(name, schema)
        if len(each.parameters) == 1 + len(aggregate.types) or any(part.variadic for part in each.parameters)
    ]
    return routines[0].strict if routines else plain not in NON_STRICT_FUNCTIONS


def build_fold(
    catalog: Catalog, aggregate: Aggregate, types: tuple[Type, ...], new_binding: NewBinding
) -> ArrayFold:
    """Return the fold of arrays with elements of these types.

    ``new_binding`` starts binding one of the aggregate's expressions.
    """
    computed = partial(_bind_text, new_binding, catalog, aggregate)
    items = element_types(aggregate, types)
    pairs = zip(aggregate.types, items, strict=False)
    meant = next((item for type_, item in pairs if type_.name in ELEMENTS), UNKNOWN)
    state = resolve_polymorphic(aggregate.state, meant)
    columns = [Field("", "s", Column(0, state))]
    columns += [Field("", f"x{place}", Column(place, item)) for place, item in enumerate(items, 1)]
    operands = [
        f"x{place}::{type_text(type_)}" if type_.kind is Kind.ARRAY else f"x{place}"
        for place, type_ in enumerate(aggregate.types, 1)
    ]
    first = "NULL" if aggregate.init is None else "'" + aggregate.init.replace("'", "''") + "'"
    strict = is_strict(catalog, aggregate)
    starts = strict and aggregate.init is None and bool(aggregate.types)
    start_columns = [Field("", "x1", Column(0, items[0]))] if starts else []
    start = operands[0] if starts else ""
    final = computed(call_text(aggregate.final, ("s",)) if aggregate.final else "s", columns[:1], None)
    return ArrayFold(
        f"{aggregate.fold}({', '.join(str(array(item)) for item in items)})",
        items,
        state,
        _mfp(computed(first, [], state)),
        _mfp(computed(call_text(aggregate.step, ("s", *operands)), columns, state)),
        _mfp(final),
        final.type,
        strict,
        _mfp(computed(start, start_columns, state)) if starts else None,
    )


def _mfp(scalar: Scalar) -> Mfp:
    return Mfp((), (scalar,))


def _bind_text(
    new_binding: NewBinding,
    catalog: Catalog,
    aggregate: Aggregate,
    text: str,
    fields: list[Field],
    target: Type | None,
) -> Scalar:
    """Bind an expression over fields, coerced to ``target`` if that is given."""
    binding = new_binding(f"SELECT {text}", catalog)
    node = parse_body(f"SELECT {text}").expressions[0]
    scalar = binding.expression(Scope(fields=Fields(fields)), node)
    if target is None:
        scalar = settled_scalar(scalar)
    elif scalar.type == UNKNOWN:
        scalar = coerce_at(binding, scalar, target, node)
    elif scalar.type != target:
        if not is_castable(scalar.type, target):
            message = f"{scalar.type} cannot be the state of aggregate {aggregate.name}, which is {target}"
            raise ProgrammingError(message)
        scalar = coerce(scalar, target)
    if binding.subqueries:
        raise NotSupportedError(
            f"aggregate {aggregate.name}, whose functions ask queries, is not supported",
            hint="Write its functions as expressions over their arguments.",
        )
    return scalar
