"""Functions of Postgres that are other expressions, such as ``int4pl(a, b)``, and calls with VARIADIC."""

import functools
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.operator_names import COMPARED, LARGER, OPERATORS
from kpg.compiler.sql.syntax import transformed

PLACES: Final = ("_1", "_2", "_3")
"""How templates call the arguments."""
TEMPLATES: Final = {
    "booland_statefunc": "_1::bool AND _2::bool",
    "boolor_statefunc": "_1::bool OR _2::bool",
    "boolnot": "NOT _1::bool",
    "daterange_subdiff": "(_1::date - _2::date)::float8",
    "dcbrt": "cbrt(_1::float8)",
    "dexp": "exp(_1::float8)",
    "dlog1": "ln(_1::float8)",
    "dlog10": "log(_1::float8)",
    "dpow": "power(_1::float8, _2::float8)",
    "dround": "round(_1::float8)",
    "dsqrt": "sqrt(_1::float8)",
    "dtrunc": "trunc(_1::float8)",
    "float4abs": "abs(_1::float4)",
    "float4up": "_1::float4",
    "float8abs": "abs(_1::float8)",
    "float8up": "_1::float8",
    "int2abs": "abs(_1::int2)",
    "int2up": "_1::int2",
    "int4abs": "abs(_1::int4)",
    "int4inc": "_1::int4 + 1",
    "int4range_subdiff": "(_1::int4 - _2::int4)::float8",
    "int4up": "_1::int4",
    "int8abs": "abs(_1::int8)",
    "int8dec": "_1::int8 - 1",
    "int8inc": "_1::int8 + 1",
    "int8range_subdiff": "(_1::int8 - _2::int8)::float8",
    "int8up": "_1::int8",
    "json_array_element": "_1::json -> _2::int",
    "json_array_element_text": "_1::json ->> _2::int",
    "jsonb_array_element": "_1::jsonb -> _2::int",
    "jsonb_array_element_text": "_1::jsonb ->> _2::int",
    "json_object_field": "_1::json -> _2::text",
    "json_object_field_text": "_1::json ->> _2::text",
    "jsonb_object_field": "_1::jsonb -> _2::text",
    "jsonb_object_field_text": "_1::jsonb ->> _2::text",
    "like": "_1 LIKE _2",
    "notlike": "_1 NOT LIKE _2",
    "numeric_abs": "abs(_1::numeric)",
    "numeric_div_trunc": "div(_1::numeric, _2::numeric)",
    "numeric_exp": "exp(_1::numeric)",
    "numeric_inc": "_1::numeric + 1",
    "numeric_ln": "ln(_1::numeric)",
    "numeric_log": "log(_1::numeric, _2::numeric)",
    "numeric_power": "power(_1::numeric, _2::numeric)",
    "numeric_sqrt": "sqrt(_1::numeric)",
    "numeric_uplus": "_1::numeric",
    "numrange_subdiff": "(_1::numeric - _2::numeric)::float8",
    "textlen": "length(_1::text)",
    "tsrange_subdiff": "extract(epoch FROM _1::timestamp - _2::timestamp)::float8",
    "tstzrange_subdiff": "extract(epoch FROM _1::timestamptz - _2::timestamptz)::float8",
}


def by_another_name(node: exp.Anonymous) -> exp.Expr | None:
    """The expression that a call means; None if its name is none of these."""
    name, args = str(node.this).lower(), node.expressions
    template = _templates().get(name)
    if template is None or any(f"_{place}" in template for place in range(len(args) + 1, len(PLACES) + 1)):
        return None
    if len(args) > len(PLACES) or any(place not in template for place in PLACES[: len(args)]):
        return None
    found = _parsed(template).copy()
    given = dict(zip(PLACES, args, strict=False))

    def put(part: exp.Expr) -> exp.Expr:
        return exp.Paren(this=given[part.name].copy()) if _is_place(part) else part

    return transformed(found, put)


def _is_place(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name in PLACES and not node.table


@functools.cache
def _parsed(template: str) -> exp.Expr:
    from kpg.compiler.sql.ddl.reader import tree_of
    from kpg.compiler.sql.tokens import tokenize

    text = f"SELECT ({template})"
    found: exp.Expr = tree_of(tokenize(text), text).expressions[0]
    return found


@functools.cache
def _templates() -> dict[str, str]:
    found = dict(TEMPLATES)
    for sign, entries in OPERATORS.items():
        for name, left, right in map(_typed, entries.split()):
            found[name] = f"{sign} {right}" if left is None else f"{left} {sign} {right}"
    for name, left, right in map(_typed, COMPARED.split()):
        found[name] = (
            f"CASE WHEN {left} < {right} THEN -1"
            f" WHEN {left} = {right} THEN 0 WHEN {left} > {right} THEN 1 END"
        )
    for name, left, right in map(_typed, LARGER.split()):
        sign = ">" if name.endswith("larger") else "<"
        found[name] = f"CASE WHEN {left} {sign} {right} THEN {left} WHEN {left} IS NOT NULL THEN {right} END"
        found[name] = f"CASE WHEN {right} IS NOT NULL THEN {found[name]} END"
    return found


def _typed(entry: str) -> tuple[str, str | None, str]:
    """A name, and the operands as templates have them; no left one of an operator that has only one."""
    name, _, types = entry.partition(":")
    left, comma, right = types.partition(",")
    right = right if comma else left
    if left == "-":
        return name, None, f"_1::{right}" if right else "_1"
    return name, f"_1::{left}" if left else "_1", f"_2::{right}" if right else "_2"


def spread(node: exp.Expr) -> exp.Expr | None:
    """A call with VARIADIC before its last argument; None for all else.

    An array that is written out is its elements, as arguments; CONCAT and its like have others over arrays.
    """
    args = node.expressions
    if not args or not isinstance(args[-1], exp.Variadic):
        return None
    array: exp.Expr = args[-1].this
    if isinstance(array, exp.Array) and not any(isinstance(one, exp.Query) for one in array.expressions):
        made = node.copy()
        made.set("expressions", [*(one.copy() for one in args[:-1]), *_elements(array)])
        return made
    name = "concat" if isinstance(node, exp.Concat) else str(node.this).lower()
    plain = array.copy()
    match name, len(args):
        case "concat", 1:
            return exp.Anonymous(this="array_to_string", expressions=[plain, exp.Literal.string("")])
        case "concat_ws", 2:
            return exp.Anonymous(this="array_to_string", expressions=[plain, args[0].copy()])
        case "jsonb_build_array", 1:
            return exp.Anonymous(this="to_jsonb", expressions=[plain])
        case "jsonb_build_object", 1:
            return exp.Anonymous(this="jsonb_object", expressions=[plain])
        case "num_nulls" | "num_nonnulls", 1:
            whole = exp.Anonymous(this="cardinality", expressions=[plain])
            null = exp.Anonymous(this="array_remove", expressions=[plain.copy(), exp.Null()])
            rest = exp.Anonymous(this="cardinality", expressions=[null])
            return exp.Sub(this=whole, expression=rest) if name == "num_nulls" else rest
        case _:
            return None


def _elements(array: exp.Array) -> list[exp.Expr]:
    """The elements as values of the array's type, by their places in it."""
    return [
        exp.Bracket(this=exp.Paren(this=array.copy()), expressions=[exp.Literal.number(place)])
        for place in range(1, len(array.expressions) + 1)
    ]
