"""Sign, rounding, roots, powers and logarithms."""

from collections.abc import Callable

from kpg.runtime.functions import numerics, shadows, spans, vectors
from kpg.runtime.functions.registry import Composition, Memoized, Overload, Signature, Vector, scalar
from kpg.runtime.functions.rules import fixed, is_exact_or_numeric, is_unknown, kinds, numeric, same
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, DOUBLE, INTEGER, NUMERIC, Kind, Type, decimal


def _call(name: str, type_: Type, *args: Scalar) -> Call:
    return Call(name, args, type_)


def _zero(type_: Type) -> Literal:
    return Literal(0, type_)


def _negative(call: Call) -> Scalar:
    (x,) = call.args
    name = "$sub_double" if x.type.is_float else "sub"
    return _call(name, call.type, _zero(call.type), x)


def _absolute(call: Call) -> Scalar:
    (x,) = call.args
    return If(_call("lt", BOOLEAN, x, _zero(x.type)), _call("neg", x.type, x), x, x.type)


def _sign(call: Call) -> Scalar:
    (x,) = call.args
    above = _call("gt", BOOLEAN, x, _zero(x.type))
    below = _call("lt", BOOLEAN, x, _zero(x.type))
    found = _call("sub", INTEGER, _call("cast", INTEGER, above), _call("cast", INTEGER, below))
    if x.type.is_float:  # NaN is above all numbers, and its sign is 0
        nothing = _call("eq", BOOLEAN, x, Literal(vectors.NAN_WORD, x.type))
        found = _call("sub", INTEGER, found, _call("cast", INTEGER, nothing))
    return _call("cast", call.type, found)


def _signed(types: tuple[Type, ...]) -> Signature | None:
    """Of a DECIMAL a DECIMAL without places, of integers too a DOUBLE, as Postgres has it."""
    if len(types) != 1 or not (types[0].is_exact or types[0].is_float):
        return None
    return Signature(types, decimal(1, 0) if types[0].kind is Kind.DECIMAL else DOUBLE)


_number = same(lambda type_: type_.is_exact or type_.is_float)
_interval = same(kinds(Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH))
_double = fixed(DOUBLE, DOUBLE)


def _decimals(types: tuple[Type, ...]) -> Signature | None:
    """Exact numbers, one of which is no integer: as NUMERIC. Integers alone are DOUBLE, as in Postgres."""
    if not 1 <= len(types) <= 2 or not all(
        is_unknown(type_) or is_exact_or_numeric(type_) for type_ in types
    ):
        return None
    if all(is_unknown(type_) or type_.is_integer for type_ in types):
        return None
    return Signature((NUMERIC,) * len(types), NUMERIC)


def _one_decimal(types: tuple[Type, ...]) -> Signature | None:
    return _decimals(types) if len(types) == 1 else None


def _two_decimals(types: tuple[Type, ...]) -> Signature | None:
    return _decimals(types) if len(types) == 2 else None


def _two_integers(types: tuple[Type, ...]) -> Signature | None:
    """For log, which Postgres has of two NUMERICs only."""
    fits = len(types) == 2 and all(type_.is_integer or is_unknown(type_) for type_ in types)
    return Signature((NUMERIC, NUMERIC), NUMERIC) if fits else None


def _powers(name: str) -> Memoized:
    """A function of ``powers``, which is imported by expressions that call it."""

    def build(call: Call) -> Callable[..., object]:
        from kpg.runtime.functions import powers

        found: Callable[..., object] = getattr(powers, name)
        return found

    return Memoized(build)


scalar(
    "neg",
    "a number or an interval",
    "The value with the other sign.",
    {"-(3)": "-3", "-(1.5)": "-1.5", "-(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_negative)),
    Overload(numeric, numerics.NEGATE),
    Overload(_interval, Composition(_negative)),
    Overload(spans.one, spans.NEGATE),
)
scalar(
    "abs",
    "a number",
    "Absolute value.",
    {"abs(-3)": "3", "abs(2.5)": "2.5", "abs(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_absolute)),
    Overload(numeric, numerics.ABSOLUTE),
)
scalar(
    "sign",
    "a number",
    "-1, 0 or 1.",
    {"sign(-2.5)": "-1", "sign(0)": "0e0", "sign(7)": "1e0"},
    Overload(_signed, Composition(_sign)),
    Overload(numeric, Memoized(lambda call: numerics.sign, shadow=shadows.arithmetic)),
)


def _whole(types: tuple[Type, ...]) -> Signature | None:
    """One DECIMAL, to one without places. Integers are DOUBLE here, as in Postgres: floor(5) / 2 is 2.5."""
    if len(types) != 1 or types[0].kind is not Kind.DECIMAL:
        return None
    return Signature(types, decimal(types[0].precision, 0))


def _nearest(call: Call) -> Scalar:
    (x,) = call.args
    return _call("cast", call.type, x)


def _floor(call: Call) -> Scalar:
    (x,) = call.args
    return _call("$floor_div", call.type, x, Literal(10**x.type.scale, x.type))


def _ceil(call: Call) -> Scalar:
    (x,) = call.args
    return _call("neg", call.type, _call("floor", call.type, _call("neg", x.type, x)))


def _truncate(call: Call) -> Scalar:
    (x,) = call.args
    return _call("$div", call.type, x, Literal(10**x.type.scale, x.type))


def _places(types: tuple[Type, ...]) -> Signature | None:
    """A number and how many decimal places to keep."""
    if len(types) != 2 or not (types[1].is_integer or is_unknown(types[1])) or not types[0].is_numeric:
        return None
    type_ = types[0] if types[0].is_exact or types[0].kind is Kind.NUMERIC else DOUBLE
    return Signature((type_, INTEGER), type_)


def _numeric_places(types: tuple[Type, ...]) -> Signature | None:
    known = _places(types)
    exact = known is not None and not known.result.is_float
    return Signature((NUMERIC, INTEGER), NUMERIC) if exact else None


scalar(
    "round",
    "a number, and optionally how many decimal places to keep",
    "Rounds half away from zero; DOUBLE without places rounds half to even.",
    {"round(2.5)": "3", "round(-2.5)": "-3", "round(2.345, 2)": "2.35", "round(1234.5, -2)": "1200"},
    Overload(_whole, Composition(_nearest)),
    Overload(numeric, Memoized(lambda call: numerics.round_to, shadow=shadows.arithmetic)),
    Overload(_numeric_places, Memoized(lambda call: numerics.round_to, shadow=shadows.arithmetic)),
    Overload(_double, Vector(lambda call: vectors.round_half_even)),
    Overload(_places, Vector(lambda call: vectors.round_places)),
)
scalar(
    "floor",
    "a number",
    "The largest whole number that is not above.",
    {"floor(-1.5)": "-2", "floor(2.7e0)": "2e0", "floor(3)": "3e0"},
    Overload(_whole, Composition(_floor)),
    Overload(numeric, numerics.FLOOR),
    Overload(_double, Vector(lambda call: vectors.floor)),
)
scalar(
    "ceil",
    "a number",
    "The smallest whole number that is not below.",
    {"ceil(-1.5)": "-1", "ceil(2.1e0)": "3e0"},
    Overload(_whole, Composition(_ceil)),
    Overload(numeric, numerics.CEILING),
    Overload(_double, Vector(lambda call: vectors.ceil)),
)
scalar(
    "trunc",
    "a number",
    "The whole number towards zero, or so many decimal places kept.",
    {"trunc(-1.5)": "-1", "trunc(2.7e0)": "2e0", "trunc(42.4382, 2)": "42.43"},
    Overload(_whole, Composition(_truncate)),
    Overload(numeric, Memoized(lambda call: numerics.cut_to, shadow=shadows.arithmetic)),
    Overload(_numeric_places, Memoized(lambda call: numerics.cut_to, shadow=shadows.arithmetic)),
    Overload(_double, Vector(lambda call: vectors.trunc)),
)
scalar(
    "sqrt",
    "a number",
    "Square root; an error below 0.",
    {"sqrt(16)": "4e0", "sqrt(CAST(NULL AS DOUBLE PRECISION))": "NULL"},
    Overload(_one_decimal, numerics.ROOT),
    Overload(_double, Vector(lambda call: vectors.sqrt)),
)
scalar(
    "cbrt",
    "a number",
    "Cube root.",
    {"cbrt(27)": "3e0", "cbrt(-8)": "-2e0", "cbrt(CAST(NULL AS DOUBLE PRECISION))": "NULL"},
    Overload(_double, Vector(lambda call: vectors.cbrt)),
)
scalar(
    "exp",
    "a number",
    "e to the power of the number.",
    {"exp(0)": "1e0"},
    Overload(_one_decimal, _powers("exp")),
    Overload(_double, Vector(lambda call: vectors.exp)),
)
scalar(
    "ln",
    "a number",
    "Natural logarithm; an error at 0 and below.",
    {"ln(1)": "0e0"},
    Overload(_one_decimal, _powers("ln")),
    Overload(_double, Vector(lambda call: vectors.ln)),
)
scalar(
    "log",
    "a number, or a base and a number",
    "Logarithm, to base 10 unless a base is given.",
    {"log(1000)": "3e0", "log(2, 8)": "3e0"},
    Overload(_one_decimal, _powers("log10")),
    Overload(_two_decimals, _powers("log")),
    Overload(_two_integers, _powers("log")),
    Overload(_double, Vector(lambda call: vectors.log10)),
    Overload(fixed(DOUBLE, DOUBLE, DOUBLE), Vector(lambda call: vectors.log_base)),
)
scalar(
    "power",
    "two numbers",
    "The first to the power of the second.",
    {"power(2, 10)": "1024e0"},
    Overload(_two_decimals, _powers("power")),
    Overload(fixed(DOUBLE, DOUBLE, DOUBLE), Vector(lambda call: vectors.power)),
)
