"""Session settings in expressions: time zone and DateStyle become arguments of calls.

A plan must mean the same for every session. Casts, fields and sums of TIMESTAMPTZ, and timestamps as text,
therefore take the zone or the style as an argument.
"""

from dataclasses import replace
from typing import Final

from kpg.compiler.algebra.rel import Expand, Rel
from kpg.compiler.algebra.traverse import scalars, transform_up, with_scalars
from kpg.runtime.scalar import Call, Literal, Scalar, transform
from kpg.runtime.types import BIGINT, INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, Kind, Type
from kpg.runtime.values.styles import Style, depends, read_otherwise

LOCAL: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIME})
SAME_EVERYWHERE: Final = frozenset({"extract_epoch", "date_bin"})
"""Functions of TIMESTAMPTZ that no time zone matters to."""
MOVING: Final = {"add": "date_add", "sub": "date_subtract"}
OFFSETS: Final = {"extract_timezone": 1, "extract_timezone_hour": 3600, "extract_timezone_minute": 0}


def in_style(rel: Rel, style: Style) -> Rel:
    """The relation with all its expressions in a style."""

    def rewrite(node: Rel) -> Rel:
        old = scalars(node)
        new = tuple(transform(scalar, lambda part: _styled(part, style)) for scalar in old)
        node = with_scalars(node, new) if new != old else node
        if isinstance(node, Expand):
            calls = tuple(replace(call, args=_series(call.function, call.args, style)) for call in node.calls)
            node = replace(node, calls=calls) if calls != node.calls else node
        return node

    return transform_up(rel, rewrite)


def _series(name: str, args: tuple[Scalar, ...], style: Style) -> tuple[Scalar, ...]:
    stepped = name == "generate_series" and len(args) == 3 and args[0].type.kind is Kind.TIMESTAMPTZ
    return (*args, Literal(style.zone, TEXT)) if stepped and style.zone != "UTC" else args


def _styled(scalar: Scalar, style: Style) -> Scalar:
    if not isinstance(scalar, Call) or not scalar.args:
        return scalar
    if scalar.function == "cast":
        return _cast(scalar, style)
    if style.zone != "UTC" and any(arg.type.kind is Kind.TIMESTAMPTZ for arg in scalar.args):
        return _zoned(scalar, Literal(style.zone, TEXT))
    if style.zone != "UTC" and scalar.type.kind is Kind.TIMESTAMPTZ:
        return _made(scalar, Literal(style.zone, TEXT))
    return scalar


def _local(scalar: Scalar, zone: Literal) -> Scalar:
    """What clocks show."""
    return Call("timezone", (zone, scalar), TIMESTAMP)


def _instant(scalar: Scalar, zone: Literal) -> Scalar:
    """When clocks show it."""
    return Call("timezone", (zone, scalar), TIMESTAMPTZ)


def _as(scalar: Scalar, type_: Type) -> Scalar:
    return scalar if scalar.type == type_ else Call("cast", (scalar,), type_)


def _cast(call: Call, style: Style) -> Scalar:
    (x,) = call.args
    source, target = x.type, call.type
    if target.is_text and depends(source):
        written = Call("$in_style", (x, Literal(style.text, TEXT)), TEXT)
        return replace(call, args=(written,)) if target != TEXT else written
    if source.is_text and read_otherwise(target):
        return Call("$read_in_style", (x, Literal(style.text, TEXT)), target)
    if style.zone == "UTC":
        return call
    zone = Literal(style.zone, TEXT)
    if source.kind is Kind.TIMESTAMPTZ and target.kind in LOCAL:
        return _as(_local(x, zone), target)
    if source.kind in (Kind.DATE, Kind.TIMESTAMP) and target.kind is Kind.TIMESTAMPTZ:
        return _instant(_as(x, TIMESTAMP), zone)
    if source.kind is Kind.TIMESTAMPTZ and target.kind is Kind.TIMETZ:
        east = Call("mul", (_east(x, zone), Literal(1_000_000, BIGINT)), BIGINT)
        return Call("timezone", (Call("$of_microseconds", (east,), INTERVAL), call), target)
    return call


def _east(x: Scalar, zone: Literal) -> Scalar:
    return Call("$east", (x, zone), BIGINT)


def _zoned(call: Call, zone: Literal) -> Scalar:
    """A call of a function of a TIMESTAMPTZ."""
    name, args = call.function, call.args
    if name in MOVING and call.type.kind is Kind.TIMESTAMPTZ:
        moment, by = args if args[0].type.kind is Kind.TIMESTAMPTZ else args[::-1]
        return Call(MOVING[name], (moment, _as(by, INTERVAL), zone), TIMESTAMPTZ)
    if name in ("date_add", "date_subtract") and len(args) == 2:
        return Call(name, (*args, zone), TIMESTAMPTZ)
    if name == "date_trunc" and len(args) == 2:
        return _instant(Call(name, (args[0], _local(args[1], zone)), TIMESTAMP), zone)
    if name == "age":
        local = tuple(_local(arg, zone) if arg.type.kind is Kind.TIMESTAMPTZ else arg for arg in args)
        return Call(name, local, call.type)
    if name == "to_char":
        return Call("$by_template", (*args, zone), TEXT)
    if name in OFFSETS:
        return _offset(call, name, zone)
    field = args[0].value if name == "date_part" and isinstance(args[0], Literal) else ""
    if (name.startswith("extract_") and name not in SAME_EVERYWHERE) or (
        name == "date_part" and str(field).lower() != "epoch"
    ):
        if str(field).lower().startswith("timezone"):
            return _as(_offset(call, f"extract_{str(field).lower()}", zone), call.type)
        local = tuple(_local(arg, zone) if arg.type.kind is Kind.TIMESTAMPTZ else arg for arg in args)
        return Call(name, local, call.type)
    return call


def _offset(call: Call, name: str, zone: Literal) -> Scalar:
    east = _east(call.args[-1], zone)
    divisor = OFFSETS[name]
    if divisor == 0:
        rest = Call("mod", (east, Literal(3600, BIGINT)), BIGINT)
        return _as(Call("div", (rest, Literal(60, BIGINT)), BIGINT), call.type)
    return _as(Call("div", (east, Literal(divisor, BIGINT)), BIGINT), call.type)


def _made(call: Call, zone: Literal) -> Scalar:
    """A TIMESTAMPTZ that is made of numbers or by a template."""
    zoneless = {"make_timestamptz": 6, "to_timestamp": 2}
    if zoneless.get(call.function) == len(call.args):
        return _instant(Call("timezone", (Literal("UTC", TEXT), call), TIMESTAMP), zone)
    return call
