"""SQL type names to types."""

import re
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.parse.syntax import only, refuse, wrong
from kpg.runtime import types as t
from kpg.runtime.errors import Error as KpgError
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported_features import TYPES
from kpg.runtime.values.numeric import MOST_PRECISION

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
"""Types that sqlglot takes for those of users, by name."""
TEXT_TYPES: Final = {exp.DType.VARCHAR: Kind.VARCHAR, exp.DType.CHAR: Kind.CHAR, exp.DType.BPCHAR: Kind.CHAR}
FRACTIONAL: Final = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME, Kind.TIMETZ, Kind.INTERVAL})
"""Types that take the number of digits of a second."""
MICROSECOND_DIGITS: Final = 6
UNKNOWN_TYPES: Final = frozenset({"jsonpath"})
"""Types of Postgres that kpg has not, by the names that sqlglot takes for those of users."""
WHOLE: Final = re.compile(r"-?\d+")
MOST_SCALE: Final = 1000
MOST_CHARACTERS: Final = 10 * 1024 * 1024
MOST_BITS: Final = 10 * 1024 * 1024 * 8
"""The greatest lengths that Postgres takes, of texts and of bits."""
MOST_INTEGER: Final = 2**31 - 1
BAD_PARAMETER: Final = "22023"
DOUBLE_DIGITS: Final = 53
REAL_DIGITS: Final = 24
"""FLOAT(n) of so many binary digits is REAL."""


def sql_type(node: exp.Expr, source: str) -> Type:
    """The type that a type name stands for; NotSupportedError if there is none."""
    if isinstance(node, exp.ObjectIdentifier) and node.name.upper() == "OID":
        return t.OID
    if isinstance(node, exp.DataType):
        if node.this is exp.DType.ARRAY:
            only(node, source, "this", "expressions", "values")
            if len(node.expressions) == 1:
                if second_digits(node.expressions[0]) is not None or last_field(node.expressions[0]):
                    name = node.expressions[0].sql("postgres")
                    refuse(f"an array of {name}", node, source, "round the elements by a cast")
                return t.array(sql_type(node.expressions[0], source))
        elif isinstance(node.this, exp.Interval):
            only(node.this, source, "unit")
            return t.INTERVAL
        elif node.this is exp.DType.BIT or _known(node) == t.VARBIT:
            return _sized_bits(node, source)
        elif (other := _known(node)) is not None:
            return other
        elif name := _other_name(node):
            return Type(Kind.ENUM, name=name)  # till the catalog tells what it is
        elif isinstance(node.this, exp.DType):
            found = _named(node, source)
            if found is not None:
                return found
    refuse(f"type {node.sql('postgres')}", node, source)


def _known(node: exp.DataType) -> Type | None:
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and kind.this.name.lower() == "pg_catalog":
        try:
            return sql_type(exp.DataType.build(kind.expression.name, dialect="postgres"), "")
        except KpgError:
            return None
    return NAMED_TYPES.get(kind.name.lower()) if isinstance(kind, exp.Identifier) else None


def _sized_bits(node: exp.DataType, source: str) -> Type:
    """BIT(n), BIT VARYING(n), BIT, which has one, and BIT VARYING, which has any."""
    varying = node.this is not exp.DType.BIT or node.args.get("varying")
    (length, *more) = [*_parameters(node, source), 0 if varying else 1]
    name = "varbit" if varying else "bit"
    if len(more) > 1:
        wrong(f"type {name} has one length", node, source, state="42601")
    if node.expressions:
        _check_length(name, length, MOST_BITS, node, source)
    return Type(Kind.VARBIT if varying else Kind.BIT, length)


def _check_length(name: str, length: int, most: int, node: exp.Expr, source: str) -> None:
    if length < 1:
        wrong(f"length for type {name} must be at least 1", node, source, state=BAD_PARAMETER)
    if length > most:
        wrong(f"length for type {name} cannot exceed {most}", node, source, state=BAD_PARAMETER)


def last_field(node: exp.Expr) -> str:
    """The last field that an INTERVAL keeps, empty for all of them."""
    unit = node.args.get("kind") if isinstance(node, exp.DataType) else None
    if unit is None or not isinstance(node, exp.DataType) or node.this is not exp.DType.INTERVAL:
        return ""
    last = (unit.expression if isinstance(unit, exp.IntervalSpan) else unit).name.lower()
    return "" if last == "second" else last


def second_digits(node: exp.Expr) -> int | None:
    """The digits of a second that a type says, if it is one of moments or intervals; None for all six."""
    if not isinstance(node, exp.DataType) or len(node.expressions) != 1:
        return None
    number = node.expressions[0].this if isinstance(node.expressions[0], exp.DataTypeParam) else None
    if PLAIN_TYPES.get(node.this, t.UNKNOWN).kind not in FRACTIONAL or number is None:
        return None
    return int(number.name) if int(number.name) < MICROSECOND_DIGITS else None


def _other_name(node: exp.DataType) -> str:
    """The name of a type that is a user's, or one that kpg refuses by name; empty for all else."""
    if node.this is exp.DType.USERDEFINED:
        return user_name(node.args.get("kind"))
    name = str(node.this.value).lower() if isinstance(node.this, exp.DType) else ""
    return name if name in TYPES and not node.expressions else ""


def user_name(kind: object) -> str:
    """The name, if it is one that users can give: some of Postgres' types sqlglot does not know."""
    match kind:
        case exp.Identifier() if kind.name.lower() not in UNKNOWN_TYPES:
            return str(kind.name)
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Identifier() as name):
            return f"{schema.name}.{name.name}"
        case _:
            return ""


def _named(node: exp.DataType, source: str) -> Type | None:
    known = node.this in PLAIN_TYPES or node.this in TEXT_TYPES or node.this is exp.DType.DECIMAL
    if not known:
        return None
    parameters = _parameters(node, source)
    only(node, source, "this", "expressions", *(["kind"] if node.this is exp.DType.INTERVAL else []))
    if node.this is exp.DType.DECIMAL and len(parameters) <= 2:
        return _decimal(node, parameters, source)
    if node.this in TEXT_TYPES and len(parameters) <= 1:
        kind = TEXT_TYPES[node.this]
        if parameters:
            name = "char" if kind is Kind.CHAR else "varchar"
            _check_length(name, parameters[0], MOST_CHARACTERS, node, source)
        return Type(kind, parameters[0] if parameters else int(kind is Kind.CHAR))
    plain = PLAIN_TYPES.get(node.this)
    if plain is not None and plain.kind in FRACTIONAL and len(parameters) == 1:
        if parameters[0] > MOST_INTEGER:
            wrong(f'value "{parameters[0]}" is out of range for type integer', node, source, state="22003")
        return plain
    if plain is t.DOUBLE and len(parameters) == 1:
        if parameters[0] < 1:
            wrong("precision for type float must be at least 1 bit", node, source, state=BAD_PARAMETER)
        if parameters[0] > DOUBLE_DIGITS:
            wrong("precision for type float must be less than 54 bits", node, source, state=BAD_PARAMETER)
        return t.REAL if parameters[0] <= REAL_DIGITS else t.DOUBLE
    return None if parameters else plain


def _parameters(node: exp.DataType, source: str) -> list[int]:
    values = []
    for parameter in node.expressions:
        literal = parameter.this if isinstance(parameter, exp.DataTypeParam) else None
        if not isinstance(literal, exp.Literal) or literal.is_string or not WHOLE.fullmatch(literal.name):
            refuse(f"type {node.sql('postgres')}", node, source)
        values.append(int(literal.name))
    return values


def _decimal(node: exp.DataType, parameters: list[int], source: str) -> Type:
    if not parameters:
        return t.NUMERIC
    precision, scale = (*parameters, 0)[:2]
    if not 1 <= precision <= MOST_PRECISION:
        message = f"NUMERIC precision {precision} must be between 1 and {MOST_PRECISION}"
        wrong(message, node, source, state=BAD_PARAMETER)
    if not -MOST_SCALE <= scale <= MOST_SCALE:
        message = f"NUMERIC scale {scale} must be between -{MOST_SCALE} and {MOST_SCALE}"
        wrong(message, node, source, state=BAD_PARAMETER)
    if precision > t.MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        return Type(Kind.NUMERIC, precision, scale)
    return t.decimal(precision, scale)
