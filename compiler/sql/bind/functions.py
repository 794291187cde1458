"""Which registered function each kind of syntax node is, and which of its parts are the arguments."""

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.syntax import construct_name
from kpg.runtime.functions import is_aggregate

FUNCTIONS: Final[dict[type[exp.Expr], tuple[str, tuple[str, ...]]]] = {
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
    exp.Abs: ("abs", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Trim: ("trim", ("this", "expression")),
    exp.DPipe: ("concat", ("this", "expression")),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.Round: ("round", ("this", "decimals")),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Log: ("log", ("this", "expression")),
    exp.Pow: ("power", ("this", "expression")),
    exp.Sign: ("sign", ("this",)),
    exp.Trunc: ("trunc", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.RegexpLike: ("regexp_matches", ("this", "expression")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
}

OUTPUT_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.StrPosition: "position",
    exp.TimestampTrunc: "date_trunc",
    exp.Pow: "power",
}
"""The names that Postgres gives to columns of a function, where sqlglot has another."""


NAMED_BY: Final[dict[type[exp.Expr], tuple[str, ...]]] = {exp.Trim: ("position",), exp.Pad: ("is_left",)}
"""The parts of a node that say which function it is, and are no arguments."""


def function_of(node: exp.Expr) -> tuple[str, tuple[str, ...]] | None:
    """The registered function that a node calls, and the parts of the node that are its arguments."""
    match node:
        case exp.Trim(args={"position": "LEADING" | "TRAILING" as side}):
            return "ltrim" if side == "LEADING" else "rtrim", ("this", "expression")
        case exp.Pad(args=args):
            return "lpad" if args.get("is_left") else "rpad", ("this", "expression", "fill_pattern")
        case _:
            return FUNCTIONS.get(type(node))


@dataclass(frozen=True, slots=True)
class Called:
    """A call of an aggregate: its registered name, the name that errors show, and the operands."""

    name: str
    shown: str
    args: tuple[exp.Expr, ...]


AGGREGATES: Final[dict[type[exp.Expr], str]] = {exp.GroupConcat: "string_agg"}
"""The aggregates that sqlglot knows by another name than the registry."""


def aggregate_of(node: exp.Expr) -> Called | None:
    """The registered aggregate that a node calls."""
    match node:
        case exp.Anonymous():
            name = str(node.this).lower()
            return Called(name, name.upper(), tuple(node.expressions)) if is_aggregate(name) else None
        case exp.AggFunc():
            names = (AGGREGATES.get(type(node)), *map(str.lower, type(node).sql_names()))
            known = next((name for name in names if name is not None and is_aggregate(name)), None)
            return None if known is None else Called(known, construct_name(node), tuple(operands_of(node)))
        case _:
            return None


def operands_of(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a call that sqlglot has a class for, in the order in which they are written."""
    return [part for name in type(node).arg_types for part in listed(node.args.get(name))]


def listed(part: object) -> list[exp.Expr]:
    """A part of a node, or all of a list of them."""
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
OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}

UNITS: Final = frozenset({"year", "quarter", "month", "week", "day", "hour", "minute", "second"})
FIELDS: Final = UNITS | {"dow", "doy", "epoch"}
