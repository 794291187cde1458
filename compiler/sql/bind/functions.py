"""The registered function for each kind of syntax node, and which parts of the node are its arguments."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from kpg.compiler.sql.parse.call_syntax import SOURCE_NAME, UNNAMED_COLUMN, WHOLE_QUOTIENT
from kpg.compiler.sql.parse.type_names import REAL_DIGITS
from kpg.runtime.functions import AggregateFunction, is_aggregate, is_function
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName, display_name

if TYPE_CHECKING:
    from kpg.runtime.functions.user_functions import UserFunction

UserFunctions = Mapping[str, "UserFunctionName[UserFunction]"]
"""User-defined functions by name."""

FUNCTION_OF_NODE: Final[dict[type[exp.Expr], tuple[str, tuple[str, ...]]]] = {
    exp.EQ: ("eq", ("this", "expression")),
    exp.NEQ: ("ne", ("this", "expression")),
    exp.LT: ("lt", ("this", "expression")),
    exp.LTE: ("le", ("this", "expression")),
    exp.GT: ("gt", ("this", "expression")),
    exp.GTE: ("ge", ("this", "expression")),
    exp.NullSafeEQ: ("is_not_distinct", ("this", "expression")),
    exp.NullSafeNEQ: ("is_distinct", ("this", "expression")),
    exp.Mul: ("mul", ("this", "expression")),
    exp.Div: ("div", ("this", "expression")),
    exp.Mod: ("mod", ("this", "expression")),
    exp.DPipe: ("concat", ("this", "expression")),
    exp.RegexpLike: ("regexp_like", ("this", "expression")),
    exp.RegexpILike: ("regexp_imatch", ("this", "expression")),
    exp.SimilarTo: ("similar_to", ("this", "expression")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Cbrt: ("cbrt", ("this",)),
    exp.BitwiseAnd: ("bitwise_and", ("this", "expression")),
    exp.BitwiseOr: ("bitwise_or", ("this", "expression")),
    exp.BitwiseXor: ("bitwise_xor", ("this", "expression")),
    exp.BitwiseNot: ("bitwise_not", ("this",)),
    exp.BitwiseLeftShift: ("shift_left", ("this", "expression")),
    exp.BitwiseRightShift: ("shift_right", ("this", "expression")),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.ArrayContainsAll: ("contains_all", ("this", "expression")),
    exp.ArrayContainedBy: ("contained_in", ("this", "expression")),
    exp.ArrayOverlaps: ("overlaps_with", ("this", "expression")),
    exp.JSONExtract: ("json_get", ("this", "expression")),
    exp.JSONExtractScalar: ("json_get_text", ("this", "expression")),
    exp.JSONBExtract: ("json_get_path", ("this", "expression")),
    exp.JSONBExtractScalar: ("json_get_path_text", ("this", "expression")),
    exp.JSONBContainsTopKey: ("key_exists", ("this", "expression")),
    exp.JSONBContainsAnyTopKeys: ("any_key_exists", ("this", "expression")),
    exp.JSONBContainsAllTopKeys: ("all_keys_exist", ("this", "expression")),
    exp.JSONBPathExists: ("path_exists", ("this", "expression")),
    exp.MatchAgainst: ("path_matches", ("expressions", "this")),
    exp.Adjacent: ("adjacent_to", ("this", "expression")),
    exp.ExtendsLeft: ("not_right_of", ("this", "expression")),
    exp.ExtendsRight: ("not_left_of", ("this", "expression")),
    exp.JSONBDeleteAtPath: ("json_delete_path", ("this", "expression")),
}
"""Function and argument parts of nodes that are not plain calls: operators, calls with keywords."""


def registered_function(node: exp.Expr) -> tuple[str, tuple[str, ...]] | None:
    """Return the registered function of a sqlglot node, and the parts that are its arguments.

    Plain calls by a registered name are no such nodes: see ``dialect``. The rest are operators, calls
    with special syntax, and aliases that sqlglot maps to a registered name (``char_length``).
    """
    match node:
        case _ if type(node) in FUNCTION_OF_NODE:
            return FUNCTION_OF_NODE[type(node)]
        case exp.Func() if not isinstance(node, exp.Anonymous | exp.Concat):
            name = next(filter(is_function, map(str.lower, type(node).sql_names())), None)
            parts = tuple(part for part in type(node).arg_types if as_list(node.args.get(part)))
            return None if name is None else (name, parts)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class AggregateSyntax:
    """The syntax of an aggregate call: registered name, name for errors, and operands."""

    name: str
    display_name: str
    args: tuple[exp.Expr, ...]


AGGREGATE_NAMES: Final[dict[type[exp.Expr], str]] = {exp.GroupConcat: "string_agg"}
"""Aggregates that sqlglot knows by a name other than the registered one."""


def user_function_call(
    node: exp.Expr, functions: UserFunctions
) -> "tuple[UserFunctionName[UserFunction], list[exp.Expr]] | None":
    """Return the user-defined function that a node calls, and its operands; None if it calls none.

    User-defined functions take precedence over names that the parser knows.
    """
    if not functions or not isinstance(node, exp.Func):
        return None
    if isinstance(node, exp.Anonymous):
        names, operands = [str(node.this)], node.expressions
    else:
        names, operands = list(type(node).sql_names()), operands_of(node)
    found = next((functions[name.lower()] for name in names if name.lower() in functions), None)
    return None if found is None else (found, operands)


def aggregate_of(node: exp.Expr, functions: UserFunctions) -> AggregateSyntax | None:
    """Return the aggregate that a node calls, registered or user-defined; None if it calls none."""
    found = user_function_call(node, functions)
    if found is not None:
        called, operands = found
        own_aggregate = isinstance(called.definition, AggregateFunction)
        return AggregateSyntax(called, display_name(called), tuple(operands)) if own_aggregate else None
    match node:
        case exp.Anonymous():
            name = str(node.this).lower()
            return (
                AggregateSyntax(name, name.upper(), tuple(node.expressions)) if is_aggregate(name) else None
            )
        case exp.AggFunc():
            names = (AGGREGATE_NAMES.get(type(node)), *map(str.lower, type(node).sql_names()))
            known = next((name for name in names if name is not None and is_aggregate(name)), None)
            return None if known is None else AggregateSyntax(known, known.upper(), tuple(operands_of(node)))
        case _:
            return None


def operands_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a sqlglot call in the order in which they are written."""
    return [part for name in type(node).arg_types for part in as_list(node.args.get(name))]


def as_list(part: object) -> list[exp.Expr]:
    """Return a part of a node as a list; empty if the part is missing."""
    if isinstance(part, list):
        return part
    return [part] if isinstance(part, exp.Expr) else []


COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
NEGATED_COMPARISON: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
"""The comparison that is true where a comparison is false."""


SPELLINGS: Final[dict[type[exp.Expr], tuple[str, ...]]] = {
    exp.CurrentTimestamp: ("current_timestamp", "now"),
    exp.Ceil: ("ceil", "ceiling"),
    exp.Pow: ("power", "pow"),
    exp.Length: ("length", "char_length", "character_length"),
    exp.StrPosition: ("position", "strpos"),
}
"""Functions with several names of different lengths. The length of the text tells which was written."""
FUNCTION_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.CurrentVersion: "version",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.TimestampTrunc: "date_trunc",
    exp.VariancePop: "var_pop",
}
"""Default column names of functions, where they differ from sqlglot's names."""
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
"""Names of types, where they differ from sqlglot's names."""


OPTIONS_FUNCTION: Final = "pg_options_to_table"
KEYWORDS_FUNCTION: Final = "pg_get_keywords"


def alias_of(node: exp.Expr) -> str:
    """Return the alias of AS, or "". In sqlglot the alias of a window is the window that it extends."""
    return "" if isinstance(node, exp.Window) else node.alias


def default_name(node: exp.Expr) -> str:
    """Return the output name of an expression without alias."""
    match node:
        case exp.Column():
            return node.name
        case exp.Dot(expression=exp.Identifier() as field):
            return str(field.name)
        case exp.Dot(expression=exp.Func() as called):
            return default_name(called)
        case exp.Cast(to=exp.DataType() as type_):
            inner = node.this
            while isinstance(inner, exp.Cast | exp.Paren):
                inner = inner.this
            within = default_name(inner)
            weak = within in (UNNAMED_COLUMN, "case") or isinstance(inner, exp.Interval)
            return type_name(type_) if weak else within
        case exp.MatchAgainst():
            return UNNAMED_COLUMN
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
            return "case" if within == UNNAMED_COLUMN else within
        case exp.Case():
            return "case"
        case exp.Exists():
            return "exists"
        case exp.Func() if type(node) in SPELLINGS:
            size = node.meta.get("end", -1) + 1 - node.meta.get("start", 0)
            names = SPELLINGS[type(node)]
            return next((name for name in names if len(name) == size), names[0])
        case exp.Tuple():
            return "row"
        case exp.Anonymous():
            name = str(node.meta.get(SOURCE_NAME, node.this)).lower()
            return "div" if name == WHOLE_QUOTIENT else name
        case exp.Subquery(this=exp.Select(expressions=[only_column])):
            return alias_of(only_column) or default_name(only_column)
        case exp.Func() if type(node) in FUNCTION_NAMES:
            return FUNCTION_NAMES[type(node)]
        case exp.Func() if not isinstance(node, exp.Binary | exp.Connector):
            return node.sql_name().lower()
        case _:
            return UNNAMED_COLUMN


def type_name(node: exp.DataType) -> str:
    """Return the last part of a type's catalog name; of an array, the name of its element type."""
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
    return UNNAMED_COLUMN
