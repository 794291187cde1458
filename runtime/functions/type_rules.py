"""Type rules: the argument types that a function accepts, the casts that it needs, and its result type."""

from collections.abc import Callable

from kpg.runtime.functions.registry import Rule, Signature
from kpg.runtime.types import (
    BIT_KINDS,
    DOUBLE,
    INET,
    INTEGER_KINDS,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    NETWORK_KINDS,
    NUMERIC,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    decimal,
)

Predicate = Callable[[Type], bool]

DECIMAL_DIGITS = {Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 18}
"""Decimal digits of the largest value of an integer type, at most the maximum of DECIMAL."""
WIDTH_RANK = {Kind.SMALLINT: 0, Kind.INTEGER: 1, Kind.BIGINT: 2}
"""Rank of integer types: a type holds all values of the types of lower rank."""


def is_unknown(type_: Type) -> bool:
    return type_.kind is Kind.NULL


def as_decimal(type_: Type) -> Type:
    """Return the DECIMAL type that holds the values of an exact type."""
    return type_ if type_.kind is Kind.DECIMAL else decimal(DECIMAL_DIGITS[type_.kind], 0)


def common_decimal(left: Type, right: Type) -> Type:
    """Return the DECIMAL type that holds both. The scale wins where 18 digits are too few."""
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def common_type_of_pair(left: Type, right: Type) -> Type | None:
    """Return the type to which values of both types can be cast, or None."""
    if is_unknown(left) or left == right:
        return right
    if is_unknown(right):
        return left
    if left.is_numeric and right.is_numeric:
        if left.is_float or right.is_float:
            return DOUBLE
        if Kind.NUMERIC in (left.kind, right.kind):
            return NUMERIC
        if left.is_integer and right.is_integer:
            return max(left, right, key=lambda type_: WIDTH_RANK[type_.kind])
        return common_decimal(left, right)
    if left.is_text and right.is_text:
        return _common_text(left, right)
    return _common_moment(left, right) or _common_bits_or_network(left, right) or _common_parts(left, right)


def _common_bits_or_network(left: Type, right: Type) -> Type | None:
    """Return the common type of bit strings, or of network addresses."""
    kinds = {left.kind, right.kind}
    if kinds <= BIT_KINDS:
        return Type(left.kind if len(kinds) == 1 else Kind.VARBIT)
    return INET if kinds == NETWORK_KINDS else None


def _common_text(left: Type, right: Type) -> Type:
    """Return the common type of texts: CHAR for a CHAR and a VARCHAR(n), otherwise TEXT.

    Trailing blanks do not count in comparisons of CHAR.
    """
    limited = left.precision and right.precision and Kind.CHAR in (left.kind, right.kind)
    return Type(Kind.CHAR) if limited else TEXT


def _common_moment(left: Type, right: Type) -> Type | None:
    """Return the common type of dates, times and intervals."""
    kinds = {left.kind, right.kind}
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    if Kind.TIMESTAMPTZ in kinds and kinds <= {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}:
        return TIMESTAMPTZ
    if kinds <= {Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH}:
        return INTERVAL
    return None


def _common_parts(left: Type, right: Type) -> Type | None:
    """Return the common type of arrays or rows, from the common types of their parts."""
    if left.kind is not right.kind or not left.parts or len(left.parts) != len(right.parts):
        return None
    parts = tuple(map(common_type_of_pair, left.parts, right.parts))
    known = tuple(part for part in parts if part is not None)
    if len(known) < len(parts):
        return None
    return Type(left.kind, parts=known, labels=left.labels)


def common_type(types: tuple[Type, ...]) -> Type | None:
    """Return the type to which CASE, UNION, IN and COALESCE cast values, or None. NULLs alone are TEXT."""
    result = types[0]
    for type_ in types[1:]:
        pair = common_type_of_pair(result, type_)
        if pair is None:
            return None
        result = pair
    return TEXT if is_unknown(result) else result


def common_list_type(types: tuple[Type, ...]) -> Type | None:
    """Return the common type of a list of values: as :func:`common_type`, but REAL and exact give REAL."""
    result = common_type(types)
    single = result == DOUBLE and all(type_.kind is not Kind.DOUBLE for type_ in types)
    return REAL if single else result


def common_result_type(types: tuple[Type, ...]) -> Type | None:
    """Return the common type of values in a result: as :func:`common_list_type`.

    Exact numbers of different scales give NUMERIC, so that each value keeps its scale.
    """
    result = common_list_type(types)
    if result is None:
        return None
    if result.kind is Kind.DECIMAL:
        alike = all(type_.scale == result.scale for type_ in types if not is_unknown(type_))
        return result if alike else NUMERIC
    if result.parts and any(part.kind is Kind.DECIMAL for part in result.parts):
        known = [type_ for type_ in types if not is_unknown(type_)]
        parts = tuple(
            common_result_type(column) for column in zip(*(type_.parts for type_ in known), strict=True)
        )
        return Type(result.kind, parts=tuple(part or NUMERIC for part in parts), labels=result.labels)
    return result


def is_exact_or_numeric(type_: Type) -> bool:
    return type_.is_exact or type_.kind is Kind.NUMERIC


def signature_rule(result: Type, *args: Type) -> Rule:
    """Return a rule for exactly these arguments, or arguments that cast to them implicitly."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args):
            return None
        if not all(is_implicitly_castable(type_, arg) for type_, arg in zip(types, args, strict=True)):
            return None
        return Signature(args, result)

    return rule


def is_implicitly_castable(source: Type, target: Type) -> bool:
    """Check whether an argument may be cast implicitly."""
    if is_unknown(source) or source == target:
        return True
    if source.is_text and target.is_text:
        return True
    if source.is_integer and target.is_integer:
        return WIDTH_RANK[source.kind] <= WIDTH_RANK[target.kind] or target.kind is Kind.INTEGER
    if source.is_numeric and target.kind is Kind.DOUBLE:
        return True
    if source.kind is Kind.DATE:
        return target.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    if source.kind is Kind.TIMESTAMP:
        return target.kind is Kind.TIMESTAMPTZ
    if target.kind is Kind.INTERVAL:
        return source.kind in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)
    if source.kind is target.kind is Kind.ARRAY:
        return is_implicitly_castable(source.parts[0], target.parts[0])
    return source.is_exact and target.kind is Kind.NUMERIC


def same_type_rule(
    accepts: Predicate, *, at_least: int = 1, at_most: int = 1, result: Type | None = None
) -> Rule:
    """Return a rule for arguments with a common type that ``accepts`` holds for.

    The result has the common type unless ``result`` is set.
    """

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if not at_least <= len(types) <= at_most:
            return None
        common = common_result_type(types) if result is None else common_type(types)
        if common is None or not accepts(common):
            return None
        return Signature((common,) * len(types), common if result is None else result)

    return rule


def is_of_kind(*allowed: Kind) -> Predicate:
    """Return a predicate for types of these kinds."""
    return lambda type_: type_.kind in allowed


def any_type(type_: Type) -> bool:
    return True


def is_exact(type_: Type) -> bool:
    return type_.is_exact


def is_integer(type_: Type) -> bool:
    return type_.kind in INTEGER_KINDS


def is_text(type_: Type) -> bool:
    return type_.is_text


def is_interned(type_: Type) -> bool:
    return type_.is_interned


def is_not_interned(type_: Type) -> bool:
    return not type_.is_interned


def number_pair(types: tuple[Type, ...]) -> tuple[Type, Type] | None:
    """Return the types of two numbers, or None. An unknown type becomes the type of the other."""
    if len(types) != 2:
        return None
    left, right = types
    if is_unknown(left):
        left = right
    if is_unknown(right):
        right = left
    return (left, right) if left.is_numeric and right.is_numeric else None


def exact_sum(types: tuple[Type, ...]) -> Signature | None:
    """Type ``+`` and ``-`` of exact numbers: the larger scale, and one more digit before the point."""
    pair = number_pair(types)
    if pair is None or not (pair[0].is_exact and pair[1].is_exact):
        return None
    common = common_type_of_pair(*pair)
    assert common is not None
    if common.kind is Kind.DECIMAL:
        common = decimal(common.precision + 1, common.scale)
    return Signature((common, common), common)


def exact_product(types: tuple[Type, ...]) -> Signature | None:
    """Type ``*`` of exact numbers: scales add up."""
    pair = number_pair(types)
    if pair is None or not (pair[0].is_exact and pair[1].is_exact):
        return None
    if pair[0].is_integer and pair[1].is_integer:
        return exact_sum(types)
    left, right = as_decimal(pair[0]), as_decimal(pair[1])
    scale = left.scale + right.scale
    if scale > MAX_DECIMAL_PRECISION:
        return None
    return Signature((left, right), decimal(left.precision + right.precision, scale))


def numeric_pair(types: tuple[Type, ...]) -> Signature | None:
    """Accept two exact numbers, not both integers, uncast. The result is NUMERIC."""
    pair = number_pair(types)
    if pair is None or pair[0].is_float or pair[1].is_float or (pair[0].is_integer and pair[1].is_integer):
        return None
    return Signature(pair, NUMERIC)


def single_numeric(types: tuple[Type, ...]) -> Signature | None:
    """Accept one NUMERIC."""
    return Signature((NUMERIC,), NUMERIC) if len(types) == 1 and types[0].kind is Kind.NUMERIC else None


def double_pair(types: tuple[Type, ...]) -> Signature | None:
    """Accept two numbers of any types as DOUBLE."""
    return None if number_pair(types) is None else Signature((DOUBLE, DOUBLE), DOUBLE)


def real_pair(types: tuple[Type, ...]) -> Signature | None:
    """Accept two REALs, or a REAL and a quoted constant, as REAL."""
    single = len(types) == 2 and all(type_.kind is Kind.REAL or is_unknown(type_) for type_ in types)
    return Signature((REAL, REAL), REAL) if single and not all(map(is_unknown, types)) else None


def kind_rule(required_kinds: frozenset[Kind], result: Type, *args: Type) -> Rule:
    """Return a rule for these argument types or quoted constants, if one argument is of a required kind.

    An argument of a compatible type is not cast, except numbers to NUMERIC or DOUBLE.
    """

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args) or not any(type_.kind in required_kinds for type_ in types):
            return None
        taken = [_argument_type(type_, arg) for type_, arg in zip(types, args, strict=True)]
        known = tuple(type_ for type_ in taken if type_ is not None)
        return Signature(known, result) if len(known) == len(args) else None

    return rule


def _argument_type(type_: Type, arg: Type) -> Type | None:
    if is_unknown(type_):
        return arg
    alike = (
        (type_.is_integer and arg.is_integer)
        or (type_.is_text and arg.is_text)
        or (type_.kind in BIT_KINDS and arg.kind in BIT_KINDS)
        or (type_.kind in NETWORK_KINDS and arg.kind is Kind.INET)
    )
    if alike or (type_.kind is arg.kind and type_.parts == arg.parts):
        return type_
    wider = (arg.kind is Kind.NUMERIC and type_.is_exact) or (arg.kind is Kind.DOUBLE and type_.is_numeric)
    return arg if wider else None


def exact_kinds_rule(result: Type, *args: Type) -> Rule:
    """Return a rule for exactly these kinds of arguments. Integers may have any width."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args):
            return None
        for type_, arg in zip(types, args, strict=True):
            if type_.kind is not arg.kind and not (type_.is_integer and arg.is_integer):
                return None
        return Signature(args, result)

    return rule
