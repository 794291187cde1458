"""A small SQL expression binder: enough to evaluate the examples of the function registry."""

import datetime
import decimal
from dataclasses import dataclass, field

import numpy as np
import sqlglot
from sqlglot import exp

from kpg.compiler.sql.parse.dialect import Dialect
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import common_type, resolve
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    JSONB,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Type,
    array,
    float_to_word,
)
from kpg.runtime.types import decimal as decimal_type

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
NAMES = {
    "EQ": "eq",
    "NEQ": "ne",
    "LT": "lt",
    "LTE": "le",
    "GT": "gt",
    "GTE": "ge",
    "NullSafeEQ": "is_not_distinct",
    "NullSafeNEQ": "is_distinct",
    "DPipe": "concat",
    "StrPosition": "position",
    "Pow": "power",
    "RegexpLike": "regexp_matches",
    "StartsWith": "starts_with",
    "EndsWith": "ends_with",
    "SplitPart": "split_part",
    "Coalesce": "coalesce",
}
UNITS = {"DAY": (INTERVAL_DAY, 86_400_000_000), "MONTH": (INTERVAL_MONTH, 1), "YEAR": (INTERVAL_MONTH, 12)}
TYPES = {
    "JSONB": JSONB,
    "INT": INTEGER,
    "BIGINT": BIGINT,
    "VARCHAR": TEXT,
    "TEXT": TEXT,
    "DOUBLE": DOUBLE,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "BOOLEAN": BOOLEAN,
}


@dataclass
class Engine:
    """The least context that an expression runs in."""

    dictionary: Dictionary = field(default_factory=Dictionary)
    tables: dict[str, object] = field(default_factory=dict)

    def store(self, table: str) -> object:
        return self.tables[table]


def call(name: str, *args: Scalar) -> Scalar:
    """A call with its arguments cast as the registry demands."""
    resolution = resolve(name, tuple(arg.type for arg in args))
    cast = tuple(coerce(arg, type_) for arg, type_ in zip(args, resolution.arg_types, strict=True))
    return Call(name, cast, resolution.result_type)


def coerce(scalar: Scalar, type_: Type) -> Scalar:
    if scalar.type == type_:
        return scalar
    if isinstance(scalar, Literal) and scalar.value is None:
        return Literal(None, type_)
    return Call("cast", (scalar,), type_)


def evaluate(scalar: Scalar, engine: Engine | None = None) -> object:
    """The Python value of a scalar without columns."""
    engine = engine or Engine()
    out, _ = CompiledMfp(Mfp((), (scalar,)), engine).run(np.empty((0, 1), dtype=np.int64))
    return to_python(int(out[0, 0]), scalar.type, engine.dictionary)


def parse(sql: str) -> Scalar:
    """The scalar of a SQL expression without columns."""
    return bind(sqlglot.parse_one(sql, dialect=Dialect))


def bind(node: exp.Expr) -> Scalar:
    match node:
        case exp.Paren():
            return bind(node.this)
        case exp.Null():
            return Literal(None, UNKNOWN)
        case exp.Boolean():
            return Literal(int(node.this), BOOLEAN)
        case exp.Literal() if node.is_string:
            return Literal(node.this, TEXT)
        case exp.Literal():
            return number(node.this)
        case exp.Interval():
            type_, factor = UNITS[node.unit.name.upper()]
            return Literal(int(node.this.this) * factor, type_)
        case exp.Cast():
            type_ = cast_type(node.to)
            return coerce(bind(node.this), type_)
        case exp.Array():
            items = tuple(map(bind, node.expressions))
            return Call("$array", items, array(items[0].type))
        case exp.Is():
            return is_test(node, "is_not" if node.args.get("negate") else "is")
        case exp.Extract():
            return call(f"extract_{node.this.name.lower()}", bind(node.expression))
        case exp.TimestampTrunc() | exp.DateTrunc():
            return call("date_trunc", Literal(node.args["unit"].name.lower(), TEXT), bind(node.this))
        case exp.In():
            return call("in", bind(node.this), *map(bind, node.expressions))
        case exp.Escape():
            return call("like", bind(node.this.this), bind(node.this.expression), bind(node.expression))
        case exp.Trim():
            position = (node.args.get("position") or "").lower()
            name = {"leading": "ltrim", "trailing": "rtrim"}.get(position, "trim")
            return call(name, bind(node.this))
        case exp.Pad():
            name = "lpad" if node.args["is_left"] else "rpad"
            return call(name, bind(node.this), bind(node.expression), bind(node.args["fill_pattern"]))
        case exp.Anonymous():
            return call(node.name.lower(), *map(bind, node.expressions))
        case _:
            name = NAMES.get(type(node).__name__, type(node).__name__.lower())
            return call(name, *operands(node))


def operands(node: exp.Expr) -> list[Scalar]:
    """The arguments of a function node in the order in which they were written."""
    order = {
        exp.DateFromParts: ("year", "month", "day"),
        exp.Substring: ("this", "start", "length"),
        exp.StrPosition: ("this", "substr"),
        exp.SplitPart: ("this", "delimiter", "part_index"),
        exp.Round: ("this", "decimals"),
        exp.Replace: ("this", "expression", "replacement"),
    }.get(type(node), ("this", "expression", "expressions"))
    found: list[Scalar] = []
    for key in order:
        part = node.args.get(key)
        parts = part if isinstance(part, list) else [part]
        found.extend(bind(item) for item in parts if isinstance(item, exp.Expr))
    return found


def is_test(node: exp.Is, prefix: str) -> Scalar:
    kind = {"Null": "null", "Boolean": "true" if node.expression.this else "false"}
    return call(f"{prefix}_{kind[type(node.expression).__name__]}", bind(node.this))


def number(text: str) -> Literal:
    if "e" in text.lower():
        return Literal(float_to_word(float(text)), DOUBLE)
    value = decimal.Decimal(text)
    scale = -int(value.as_tuple().exponent)
    if scale <= 0:
        return Literal(int(value), INTEGER)
    return Literal(int(value.scaleb(scale)), decimal_type(max(len(value.as_tuple().digits), scale), scale))


def cast_type(node: exp.DataType) -> Type:
    if node.this is exp.DataType.Type.DECIMAL:
        precision, scale = (int(part.this.this) for part in node.expressions)
        return decimal_type(precision, scale)
    return TYPES[node.this.value]


def common(*scalars: Scalar) -> Type | None:
    """The common type of scalars."""
    return common_type(tuple(scalar.type for scalar in scalars))
