"""Which registered function each kind of syntax node is, and which of its parts are the arguments."""

from typing import Final

from sqlglot import exp

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
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
}

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
