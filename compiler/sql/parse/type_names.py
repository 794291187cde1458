"""SQL type names to types."""

import re
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.parse.syntax import allow_only, fail, refuse
from kpg.runtime import types as t
from kpg.runtime.errors import Error as KpgError
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported_features import TYPES
from kpg.runtime.values.numeric import MAX_PRECISION

PLAIN_TYPES: Final = {
    exp.DType.BOOLEAN: t.BOOLEAN,
    exp.DType.SMALLINT: t.SMALLINT,
    exp.DType.INT: t.INTEGER,
    exp.DType.BIGINT: t.BIGINT,
    exp.DType.FLOAT: t.REAL,
    exp.DType.DOUBLE: t.DOUBLE,
    exp.DType.DATE: t.DATE,
    exp.DType.TIMESTAMP: t.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: t.TIMESTAMPTZ,
    exp.DType.TIME: t.TIME,
    exp.DType.INTERVAL: t.INTERVAL,
    exp.DType.TEXT: t.TEXT,
    exp.DType.NAME: t.TEXT,
    exp.DType.JSON: t.JSON,
    exp.DType.JSONB: t.JSONB,
    exp.DType.UUID: t.UUID,
    exp.DType.VARBINARY: t.BYTEA,
    exp.DType.TIMETZ: t.TIMETZ,
    exp.DType.INET: t.INET,
    exp.DType.INT4RANGE: t.range_of(t.INTEGER),
    exp.DType.INT8RANGE: t.range_of(t.BIGINT),
    exp.DType.NUMRANGE: t.range_of(t.NUMERIC),
    exp.DType.DATERANGE: t.range_of(t.DATE),
    exp.DType.TSRANGE: t.range_of(t.TIMESTAMP),
    exp.DType.TSTZRANGE: t.range_of(t.TIMESTAMPTZ),
    exp.DType.INT4MULTIRANGE: t.multirange_of(t.INTEGER),
    exp.DType.INT8MULTIRANGE: t.multirange_of(t.BIGINT),
    exp.DType.NUMMULTIRANGE: t.multirange_of(t.NUMERIC),
    exp.DType.DATEMULTIRANGE: t.multirange_of(t.DATE),
    exp.DType.TSMULTIRANGE: t.multirange_of(t.TIMESTAMP),
    exp.DType.TSTZMULTIRANGE: t.multirange_of(t.TIMESTAMPTZ),
}
NAMED_TYPES: Final = {
    "cidr": t.CIDR,
    "macaddr": t.MACADDR,
    "macaddr8": t.MACADDR8,
    "pg_lsn": t.PG_LSN,
    "tid": t.TID,
    "varbit": t.VARBIT,
    "char": t.TEXT,
    "xid": t.BIGINT,
    "xid8": t.BIGINT,
    "cid": t.BIGINT,
    "citext": t.TEXT,
    "refcursor": t.TEXT,
}
"""Types that sqlglot treats as user-defined, by name."""
TEXT_TYPES: Final = {exp.DType.VARCHAR: Kind.VARCHAR, exp.DType.CHAR: Kind.CHAR, exp.DType.BPCHAR: Kind.CHAR}
FRACTIONAL: Final = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME, Kind.TIMETZ, Kind.INTERVAL})
"""Types with a precision of seconds."""
MICROSECOND_DIGITS: Final = 6
UNKNOWN_TYPES: Final = frozenset({"jsonpath"})
"""Types of Postgres that kpg lacks and sqlglot treats as user-defined."""
INTEGER_TEXT: Final = re.compile(r"-?\d+")
MAX_SCALE: Final = 1000
MAX_CHARACTERS: Final = 10 * 1024 * 1024
MAX_BITS: Final = 10 * 1024 * 1024 * 8
"""Postgres' maximum lengths of text and bit types."""
MAX_INTEGER: Final = 2**31 - 1
INVALID_PARAMETER_VALUE: Final = "22023"
DOUBLE_DIGITS: Final = 53
REAL_DIGITS: Final = 24
"""FLOAT(n) is REAL up to this number of bits."""


def sql_type(node: exp.Expr, source: str) -> Type:
    """Return the type that a type name denotes; NotSupportedError if there is none.

    A user-defined name yields an ENUM without labels, which the catalog resolves later.
    """
    if isinstance(node, exp.ObjectIdentifier) and node.name.upper() == "OID":
        return t.OID
    if isinstance(node, exp.DataType):
        if node.this is exp.DType.ARRAY:
            allow_only(node, source, "this", "expressions", "values")
            if len(node.expressions) == 1:
                if second_digits(node.expressions[0]) is not None or last_field(node.expressions[0]):
                    name = node.expressions[0].sql("postgres")
                    refuse(f"an array of {name}", node, source, "round the elements by a cast")
                return t.array(sql_type(node.expressions[0], source))
        elif isinstance(node.this, exp.Interval):
            allow_only(node.this, source, "unit")
            return t.INTERVAL
        elif node.this is exp.DType.BIT or _type_by_name(node) == t.VARBIT:
            return _bit_type(node, source)
        elif (other := _type_by_name(node)) is not None:
            return other
        elif name := _catalog_type_name(node):
            return Type(Kind.ENUM, name=name)  # the catalog resolves it
        elif isinstance(node.this, exp.DType):
            found = _builtin_type(node, source)
            if found is not None:
                return found
    refuse(f"type {node.sql('postgres')}", node, source)


def _type_by_name(node: exp.DataType) -> Type | None:
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and kind.this.name.lower() == "pg_catalog":
        try:
            return sql_type(exp.DataType.build(kind.expression.name, dialect="postgres"), "")
        except KpgError:
            return None
    return NAMED_TYPES.get(kind.name.lower()) if isinstance(kind, exp.Identifier) else None


def _bit_type(node: exp.DataType, source: str) -> Type:
    """Return BIT(n) or BIT VARYING(n); BIT has length 1, BIT VARYING any length."""
    varying = node.this is not exp.DType.BIT or node.args.get("varying")
    (length, *others) = [*_parameters(node, source), 0 if varying else 1]
    name = "varbit" if varying else "bit"
    if len(others) > 1:
        fail(f"type {name} has one length", node, source, sqlstate="42601")
    if node.expressions:
        _check_length(name, length, MAX_BITS, node, source)
    return Type(Kind.VARBIT if varying else Kind.BIT, length)


def _check_length(name: str, length: int, limit: int, node: exp.Expr, source: str) -> None:
    if length < 1:
        fail(f"length for type {name} must be at least 1", node, source, sqlstate=INVALID_PARAMETER_VALUE)
    if length > limit:
        fail(f"length for type {name} cannot exceed {limit}", node, source, sqlstate=INVALID_PARAMETER_VALUE)


def last_field(node: exp.Expr) -> str:
    """Return the last field of an INTERVAL type in lower case; "" for all fields."""
    unit = node.args.get("kind") if isinstance(node, exp.DataType) else None
    if unit is None or not isinstance(node, exp.DataType) or node.this is not exp.DType.INTERVAL:
        return ""
    last = (unit.expression if isinstance(unit, exp.IntervalSpan) else unit).name.lower()
    return "" if last == "second" else last


def second_digits(node: exp.Expr) -> int | None:
    """Return the fractional digits of seconds in a type; None for six digits and for other types."""
    if not isinstance(node, exp.DataType) or len(node.expressions) != 1:
        return None
    number = node.expressions[0].this if isinstance(node.expressions[0], exp.DataTypeParam) else None
    if PLAIN_TYPES.get(node.this, t.UNKNOWN).kind not in FRACTIONAL or number is None:
        return None
    return int(number.name) if int(number.name) < MICROSECOND_DIGITS else None


def _catalog_type_name(node: exp.DataType) -> str:
    """Return the name of a type that the catalog resolves or kpg refuses; "" for other types."""
    if node.this is exp.DType.USERDEFINED:
        return user_type_name(node.args.get("kind"))
    name = str(node.this.value).lower() if isinstance(node.this, exp.DType) else ""
    return name if name in TYPES and not node.expressions else ""


def user_type_name(kind: object) -> str:
    """Return the name of a user-defined type; "" for other types."""
    match kind:
        case exp.Identifier() if kind.name.lower() not in UNKNOWN_TYPES:
            return str(kind.name)
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Identifier() as name):
            return f"{schema.name}.{name.name}"
        case _:
            return ""


def _builtin_type(node: exp.DataType, source: str) -> Type | None:
    is_builtin = node.this in PLAIN_TYPES or node.this in TEXT_TYPES or node.this is exp.DType.DECIMAL
    if not is_builtin:
        return None
    parameters = _parameters(node, source)
    allow_only(node, source, "this", "expressions", *(["kind"] if node.this is exp.DType.INTERVAL else []))
    if node.this is exp.DType.DECIMAL and len(parameters) <= 2:
        return _numeric_type(node, parameters, source)
    if node.this in TEXT_TYPES and len(parameters) <= 1:
        kind = TEXT_TYPES[node.this]
        if parameters:
            name = "char" if kind is Kind.CHAR else "varchar"
            _check_length(name, parameters[0], MAX_CHARACTERS, node, source)
        return Type(kind, parameters[0] if parameters else int(kind is Kind.CHAR))
    plain = PLAIN_TYPES.get(node.this)
    if plain is not None and plain.kind in FRACTIONAL and len(parameters) == 1:
        if parameters[0] > MAX_INTEGER:
            fail(f'value "{parameters[0]}" is out of range for type integer', node, source, sqlstate="22003")
        return plain
    if plain is t.DOUBLE and len(parameters) == 1:
        if parameters[0] < 1:
            fail(
                "precision for type float must be at least 1 bit",
                node,
                source,
                sqlstate=INVALID_PARAMETER_VALUE,
            )
        if parameters[0] > DOUBLE_DIGITS:
            fail(
                "precision for type float must be less than 54 bits",
                node,
                source,
                sqlstate=INVALID_PARAMETER_VALUE,
            )
        return t.REAL if parameters[0] <= REAL_DIGITS else t.DOUBLE
    return None if parameters else plain


def _parameters(node: exp.DataType, source: str) -> list[int]:
    values = []
    for parameter in node.expressions:
        literal = parameter.this if isinstance(parameter, exp.DataTypeParam) else None
        if (
            not isinstance(literal, exp.Literal)
            or literal.is_string
            or not INTEGER_TEXT.fullmatch(literal.name)
        ):
            refuse(f"type {node.sql('postgres')}", node, source)
        values.append(int(literal.name))
    return values


def _numeric_type(node: exp.DataType, parameters: list[int], source: str) -> Type:
    if not parameters:
        return t.NUMERIC
    precision, scale = (*parameters, 0)[:2]
    if not 1 <= precision <= MAX_PRECISION:
        message = f"NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}"
        fail(message, node, source, sqlstate=INVALID_PARAMETER_VALUE)
    if not -MAX_SCALE <= scale <= MAX_SCALE:
        message = f"NUMERIC scale {scale} must be between -{MAX_SCALE} and {MAX_SCALE}"
        fail(message, node, source, sqlstate=INVALID_PARAMETER_VALUE)
    if precision > t.MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        return Type(Kind.NUMERIC, precision, scale)
    return t.decimal(precision, scale)
