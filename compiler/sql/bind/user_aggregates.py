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
from kpg.compiler.catalog.routines import ARRAYS, ELEMENTS, POLYMORPHIC, Aggregate, ArrayFold, settled
from kpg.compiler.sql.bind.calls import brought, coerce
from kpg.compiler.sql.bind.calls import settled as settled_scalar
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.parse.reader import body_of
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.functions import castable
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Scalar
from kpg.runtime.types import TEXT, UNKNOWN, Kind, Type, array

NewBinding = Callable[[str, Catalog], Binding]
PREFIX: Final = "kpg_fold_"
"""Of the names of functions that compute aggregates."""
NUMBERS: Final = ("int2", "int4", "int8", "float4", "float8", "numeric")
KINDS: Final = (*NUMBERS, "text", "date", "timestamp", "timestamptz", "time", "interval", "bpchar", "oid")
SIGNS: Final = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
OWN: Final = {
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
LENIENT: Final = frozenset(
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
"""Functions of the system that take NULLs."""


def internal(name: str) -> str:
    """The expression that a function of the system computes that only its catalog names; "" if it is none."""
    for kind in KINDS:
        rest = name.removeprefix(kind)
        if rest == name:
            continue
        rest = rest.removeprefix("_")
        if rest in SIGNS:
            return f"({{0}} {SIGNS[rest]} {{1}})"
        if rest in ("larger", "smaller"):
            return f"{'greatest' if rest == 'larger' else 'least'}({{0}}, {{1}})"
        if kind in NUMBERS and rest in ("pl", "add", "mi", "sub", "mul", "div", "mod"):
            sign = {"pl": "+", "add": "+", "mi": "-", "sub": "-", "mul": "*", "div": "/", "mod": "%"}[rest]
            return f"({{0}} {sign} {{1}})"
        if kind.startswith("int") and rest in ("and", "or", "xor"):
            return f"({{0}} {dict(zip(('and', 'or', 'xor'), '&|#', strict=True))[rest]} {{1}})"
        if kind in NUMBERS and rest in ("um", "uminus"):
            return "(- {0})"
    return OWN.get(name, "")


def called(name: str, args: Sequence[str]) -> str:
    """The text of a call of a function by the name that a definition has."""
    plain = name.lower().removeprefix("pg_catalog.")
    form = internal(plain)
    if form:
        return form.format(*args)
    return f"{plain}({', '.join(args)})"


def shown(type_: Type) -> str:
    """A type as SQL names it."""
    if type_.kind is Kind.ARRAY and not type_.name:
        return f"{shown(type_.parts[0])}[]"
    return type_.name if type_.kind in (Kind.ENUM, Kind.RECORD) and type_.name else str(type_)


def is_polymorphic(type_: Type) -> bool:
    """Whether a type stands for those of arguments."""
    return type_.name in POLYMORPHIC


def folded(catalog: Catalog, query: exp.Expr) -> exp.Expr:
    """A query with folds in the place of calls of users' aggregates."""
    known = catalog.aggregates
    if not any(str(one.this).lower() in known for one in query.find_all(exp.Anonymous)):
        return query
    result = query.copy()
    for call in list(result.find_all(exp.Anonymous)):
        name = str(call.this).lower()
        chosen = next((one for one in known.get(name, ()) if _fits(one, call)), None)
        if chosen is not None:
            _fold(call, chosen)
    return result


def _fits(one: Aggregate, call: exp.Anonymous) -> bool:
    given = [part for part in _plain(call.expressions) if not isinstance(part, exp.Star)]
    return len(given) == len(one.types)


def _plain(parts: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Arguments without DISTINCT and ORDER BY."""
    found: list[exp.Expr] = []
    for part in parts:
        if isinstance(part, exp.Order):
            found += _plain([part.this])
        elif isinstance(part, exp.Distinct):
            found += _plain(part.expressions)
        else:
            found.append(part)
    return found


def _fold(call: exp.Anonymous, one: Aggregate) -> None:
    top: exp.Expr = call.parent if isinstance(call.parent, exp.Dot) else call
    inner = top
    while isinstance(top.parent, exp.Filter | exp.Window) and top.parent.this is top:
        top = top.parent
    arrays: list[exp.Expr] = []
    for place in range(max(1, len(one.types))):
        arrays.append(_array(top, inner, call, one, place))
    made = exp.Anonymous(this=one.fold, expressions=arrays)
    made.meta.update(call.meta)
    name = _named(top)
    top.replace(exp.alias_(made, str(call.this)) if name else made)


def _named(top: exp.Expr) -> bool:
    """Whether it is a column of a select list that takes its name from the call."""
    return isinstance(top.parent, exp.Select) and top.arg_key == "expressions"


def _array(top: exp.Expr, inner: exp.Expr, call: exp.Anonymous, one: Aggregate, place: int) -> exp.Expr:
    """What gathers the values of an argument, with all that stands around the call."""
    given = call.expressions[0] if call.expressions else None

    def argument(parts: Sequence[exp.Expr]) -> exp.Expr:
        return parts[place].copy() if place < len(parts) and one.types else exp.Literal.number(1)

    value: exp.Expr
    plain = _plain(call.expressions)
    value = _cast(argument(plain), one, place)
    last = call.expressions[-1] if call.expressions else None
    first = given.this if isinstance(given, exp.Order) else given
    if isinstance(first, exp.Distinct):
        value = exp.Distinct(expressions=[argument(plain)])
    if isinstance(last, exp.Order):
        value = exp.Order(this=value, expressions=[each.copy() for each in last.expressions])
    array = exp.ArrayAgg(this=value)
    array.meta.update(call.meta)
    return _around(top, inner, array)


def _cast(value: exp.Expr, one: Aggregate, place: int) -> exp.Expr:
    if not one.types or is_polymorphic(one.types[place]):
        return value
    type_ = one.types[place]
    if type_.kind is Kind.ARRAY:
        value = exp.Cast(this=value, to=exp.DataType.build(shown(type_), dialect="postgres"))
        return exp.Cast(this=value, to=exp.DataType.build("text"))
    if type_.kind in (Kind.ENUM, Kind.RECORD):
        return value
    return exp.Cast(this=value, to=exp.DataType.build(shown(type_), dialect="postgres"))


def _around(top: exp.Expr, inner: exp.Expr, array: exp.Expr) -> exp.Expr:
    if top is inner:
        return array
    made = top.copy()
    node: exp.Expr = made
    while isinstance(node.this, exp.Filter | exp.Window):
        node = node.this
    node.set("this", array)
    return made


def bind_fold(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """The value of a call of a fold; None for anything else."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if not name.startswith(PREFIX):
        return None
    known = (one for group in binding.catalog.aggregates.values() for one in group)
    one = next((each for each in known if each.fold == name), None)
    if one is None:
        return None
    values = [settled_scalar(binding.expression(scope, part)) for part in node.expressions]
    given = tuple(value.type.parts[0] if value.type.kind is Kind.ARRAY else TEXT for value in values)
    fold = fold_of(binding.catalog, one, given, binding.new_binding)
    arrays = tuple(
        brought(binding, value, array(item), node) for value, item in zip(values, fold.items, strict=True)
    )
    assert binding.catalog.fold_function is not None
    return Call(binding.catalog.fold_function(fold), arrays, fold.result)


def gathered(one: Aggregate, given: tuple[Type, ...]) -> tuple[Type, ...]:
    """The types of the elements of an aggregate's arrays; arrays are gathered as texts."""
    if not one.types:
        return given
    pairs = zip(one.types, given, strict=True)
    return tuple(
        TEXT if type_.kind is Kind.ARRAY else element if type_.name in (*ELEMENTS, *ARRAYS) else type_
        for type_, element in pairs
    )


def is_strict(catalog: Catalog, one: Aggregate) -> bool:
    """Whether the function for a step takes no NULLs."""
    plain = one.step.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [
        each
        for each in catalog.find_routines(name, schema)
        if len(each.parameters) == 1 + len(one.types) or any(part.variadic for part in each.parameters)
    ]
    return routines[0].strict if routines else plain not in LENIENT


def fold_of(catalog: Catalog, one: Aggregate, given: tuple[Type, ...], new_binding: NewBinding) -> ArrayFold:
    """The fold of arrays with elements of these types.

    ``new_binding`` begins binding one of the expressions that the aggregate consists of.
    """
    computed = partial(_computed, new_binding, catalog, one)
    items = gathered(one, given)
    pairs = zip(one.types, items, strict=False)
    meant = next((item for type_, item in pairs if type_.name in ELEMENTS), UNKNOWN)
    state = settled(one.state, meant)
    columns = [Field("", "s", Column(0, state))]
    columns += [Field("", f"x{place}", Column(place, item)) for place, item in enumerate(items, 1)]
    operands = [
        f"x{place}::{shown(type_)}" if type_.kind is Kind.ARRAY else f"x{place}"
        for place, type_ in enumerate(one.types, 1)
    ]
    first = "NULL" if one.init is None else "'" + one.init.replace("'", "''") + "'"
    strict = is_strict(catalog, one)
    starts = strict and one.init is None and bool(one.types)
    start_columns = [Field("", "x1", Column(0, items[0]))] if starts else []
    start = operands[0] if starts else ""
    final = computed(called(one.final, ("s",)) if one.final else "s", columns[:1], None)
    return ArrayFold(
        f"{one.fold}({', '.join(str(array(item)) for item in items)})",
        items,
        state,
        _mfp(computed(first, [], state)),
        _mfp(computed(called(one.step, ("s", *operands)), columns, state)),
        _mfp(final),
        final.type,
        strict,
        _mfp(computed(start, start_columns, state)) if starts else None,
    )


def _mfp(scalar: Scalar) -> Mfp:
    return Mfp((), (scalar,))


def _computed(
    new_binding: NewBinding,
    catalog: Catalog,
    one: Aggregate,
    text: str,
    fields: list[Field],
    target: Type | None,
) -> Scalar:
    """An expression over some columns, as a value of a type if one is wanted."""
    binding = new_binding(f"SELECT {text}", catalog)
    node = body_of(f"SELECT {text}").expressions[0]
    scalar = binding.expression(Scope(fields=Fields(fields)), node)
    if target is None:
        scalar = settled_scalar(scalar)
    elif scalar.type == UNKNOWN:
        scalar = brought(binding, scalar, target, node)
    elif scalar.type != target:
        if not castable(scalar.type, target):
            message = f"{scalar.type} cannot be the state of aggregate {one.name}, which is {target}"
            raise ProgrammingError(message)
        scalar = coerce(scalar, target)
    if binding.subqueries:
        raise NotSupportedError(
            f"aggregate {one.name}, whose functions ask queries, is not supported",
            hint="Write its functions as expressions over their arguments.",
        )
    return scalar
