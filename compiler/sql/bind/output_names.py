"""The names of columns that are given none, as Postgres chooses them."""

from typing import Final

from sqlglot import exp

from kpg.compiler.sql.call_syntax import UNNAMED, WHOLE_QUOTIENT, WRITTEN
from kpg.compiler.sql.type_names import REAL_DIGITS

FUNCTION_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.StrPosition: "position",
    exp.TimestampTrunc: "date_trunc",
    exp.Pow: "power",
    exp.VariancePop: "var_pop",
}
"""The names of columns of a function, where sqlglot has another."""
TYPE_NAMES: Final = {
    exp.DType.BOOLEAN: "bool",
    exp.DType.SMALLINT: "int2",
    exp.DType.INT: "int4",
    exp.DType.BIGINT: "int8",
    exp.DType.FLOAT: "float4",
    exp.DType.DOUBLE: "float8",
    exp.DType.TIMESTAMPNTZ: "timestamp",
    exp.DType.DECIMAL: "numeric",
    exp.DType.CHAR: "bpchar",
    exp.DType.VARBINARY: "bytea",
}
"""The names of types, where sqlglot has another."""


def alias_of(node: exp.Expr) -> str:
    """The name that AS gives (what sqlglot calls a window's alias is the window that it builds on)."""
    return "" if isinstance(node, exp.Window) else node.alias


def default_name(node: exp.Expr) -> str:
    """The output name of an expression without alias."""
    match node:
        case exp.Column():
            return node.name
        case exp.Dot(expression=exp.Identifier() as field):
            return str(field.name)
        case exp.Cast(to=exp.DataType() as type_):
            inner = node.this
            while isinstance(inner, exp.Cast | exp.Paren):
                inner = inner.this
            within = default_name(inner)
            weak = within in (UNNAMED, "case") or isinstance(inner, exp.Interval)
            return type_name(type_) if weak else within
        case exp.MatchAgainst():
            return UNNAMED
        case exp.Interval():
            return "interval"
        case exp.AtTimeZone():
            return "timezone"
        case exp.Paren() | exp.Collate() | exp.Bracket() | exp.Cast():
            return default_name(node.this)
        case exp.Filter() | exp.WithinGroup() | exp.Window() | exp.RespectNulls():
            return default_name(node.this)
        case exp.Case(args={"default": exp.Column() | exp.Func() as otherwise}):
            within = default_name(otherwise)
            return "case" if within == UNNAMED else within
        case exp.Case():
            return "case"
        case exp.Exists():
            return "exists"
        case exp.Anonymous():
            name = str(node.meta.get(WRITTEN, node.this)).lower()
            return "div" if name == WHOLE_QUOTIENT else name
        case exp.Subquery(this=exp.Select(expressions=[only_column])):
            return alias_of(only_column) or default_name(only_column)
        case exp.Func() if type(node) in FUNCTION_NAMES:
            return FUNCTION_NAMES[type(node)]
        case exp.Func() if not isinstance(node, exp.Binary | exp.Connector):
            return node.sql_name().lower()
        case _:
            return UNNAMED


def type_name(node: exp.DataType) -> str:
    """The last part of a type's name, as the catalogs have it; that of an array's elements."""
    kind = node.args.get("kind")
    if node.this is exp.DType.ARRAY and isinstance(part := next(iter(node.expressions), None), exp.DataType):
        return type_name(part)
    if isinstance(kind, exp.Dot):
        return str(kind.expression.name)
    if isinstance(kind, exp.Identifier):
        return str(kind.name)
    if isinstance(node.this, exp.Interval):
        return "interval"
    if isinstance(node.this, exp.DType):
        if node.this in (exp.DType.FLOAT, exp.DType.DOUBLE) and node.expressions:
            return "float4" if int(node.expressions[0].name) <= REAL_DIGITS else "float8"
        if node.this is exp.DType.BIT and node.args.get("varying"):
            return "varbit"
        return TYPE_NAMES.get(node.this, str(node.this.value).lower())
    return UNNAMED
