"""Aggregates of users: what is put in the place of a call, and what computes it.

A call of one becomes a function of the array of what is aggregated: that array is kept as any other, with the
call's DISTINCT, ORDER BY, FILTER and OVER, and the function is computed once for each distinct one. It starts
with the aggregate's first state and computes the step function for each element, then the final function:
see :mod:`kpg.compiler.sql.bind.folds`.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import POLYMORPHIC, Aggregate
from kpg.runtime.types import Kind, Type

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
