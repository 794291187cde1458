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
from kpg.runtime.values.styles import Style, has_style_input, has_style_output

LOCAL: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIME})
ZONE_INDEPENDENT: Final = frozenset({"extract_epoch", "date_bin"})
"""Functions of TIMESTAMPTZ that do not depend on the time zone."""
ZONED_ARITHMETIC: Final = {"add": "date_add", "sub": "date_subtract"}
"""Functions that add an INTERVAL in a time zone, by the operator's function."""
OFFSET_FIELDS: Final = {"extract_timezone": 1, "extract_timezone_hour": 3600, "extract_timezone_minute": 0}
"""Fields of the offset from UTC, with their seconds; 0 stands for the minutes of the hour."""


def apply_session_style(rel: Rel, style: Style) -> Rel:
    """Return the relation with the session's time zone and DateStyle as arguments of calls."""

    def rewrite(node: Rel) -> Rel:
        old = scalars(node)
        new = tuple(transform(scalar, lambda part: _apply_style(part, style)) for scalar in old)
        node = with_scalars(node, new) if new != old else node
        if isinstance(node, Expand):
            calls = tuple(
                replace(call, args=_series_arguments(call.function, call.args, style)) for call in node.calls
            )
            node = replace(node, calls=calls) if calls != node.calls else node
        return node

    return transform_up(rel, rewrite)


def _series_arguments(name: str, args: tuple[Scalar, ...], style: Style) -> tuple[Scalar, ...]:
    stepped = name == "generate_series" and len(args) == 3 and args[0].type.kind is Kind.TIMESTAMPTZ
    return (*args, Literal(style.zone, TEXT)) if stepped and style.zone != "UTC" else args


def _apply_style(scalar: Scalar, style: Style) -> Scalar:
    if not isinstance(scalar, Call) or not scalar.args:
        return scalar
    if scalar.function == "cast":
        return _cast(scalar, style)
    if style.zone != "UTC" and any(arg.type.kind is Kind.TIMESTAMPTZ for arg in scalar.args):
        return _apply_zone(scalar, Literal(style.zone, TEXT))
    if style.zone != "UTC" and scalar.type.kind is Kind.TIMESTAMPTZ:
        return _apply_zone_to_constructor(scalar, Literal(style.zone, TEXT))
    return scalar


def _local_time(scalar: Scalar, zone: Literal) -> Scalar:
    """Return the local time of an instant."""
    return Call("timezone", (zone, scalar), TIMESTAMP)


def _instant(scalar: Scalar, zone: Literal) -> Scalar:
    """Return the instant of a local time."""
    return Call("timezone", (zone, scalar), TIMESTAMPTZ)


def _as(scalar: Scalar, type_: Type) -> Scalar:
    return scalar if scalar.type == type_ else Call("cast", (scalar,), type_)


def _cast(call: Call, style: Style) -> Scalar:
    (x,) = call.args
    source, target = x.type, call.type
    if target.is_text and has_style_output(source):
        text = Call("$in_style", (x, Literal(style.text, TEXT)), TEXT)
        return replace(call, args=(text,)) if target != TEXT else text
    if source.is_text and has_style_input(target):
        return Call("$read_in_style", (x, Literal(style.text, TEXT)), target)
    if style.zone == "UTC":
        return call
    zone = Literal(style.zone, TEXT)
    if source.kind is Kind.TIMESTAMPTZ and target.kind in LOCAL:
        return _as(_local_time(x, zone), target)
    if source.kind in (Kind.DATE, Kind.TIMESTAMP) and target.kind is Kind.TIMESTAMPTZ:
        return _instant(_as(x, TIMESTAMP), zone)
    if source.kind is Kind.TIMESTAMPTZ and target.kind is Kind.TIMETZ:
        microseconds = Call("mul", (_utc_offset(x, zone), Literal(1_000_000, BIGINT)), BIGINT)
        return Call("timezone", (Call("$of_microseconds", (microseconds,), INTERVAL), call), target)
    return call


def _utc_offset(x: Scalar, zone: Literal) -> Scalar:
    return Call("$east", (x, zone), BIGINT)


def _apply_zone(call: Call, zone: Literal) -> Scalar:
    """Return a call of a function of TIMESTAMPTZ with the time zone applied."""
    name, args = call.function, call.args
    if name in ZONED_ARITHMETIC and call.type.kind is Kind.TIMESTAMPTZ:
        moment, by = args if args[0].type.kind is Kind.TIMESTAMPTZ else args[::-1]
        return Call(ZONED_ARITHMETIC[name], (moment, _as(by, INTERVAL), zone), TIMESTAMPTZ)
    if name in ("date_add", "date_subtract") and len(args) == 2:
        return Call(name, (*args, zone), TIMESTAMPTZ)
    if name == "date_trunc" and len(args) == 2:
        return _instant(Call(name, (args[0], _local_time(args[1], zone)), TIMESTAMP), zone)
    if name == "age":
        local = tuple(_local_time(arg, zone) if arg.type.kind is Kind.TIMESTAMPTZ else arg for arg in args)
        return Call(name, local, call.type)
    if name == "to_char":
        return Call("$by_template", (*args, zone), TEXT)
    if name in OFFSET_FIELDS:
        return _offset_field(call, name, zone)
    field = args[0].value if name == "date_part" and isinstance(args[0], Literal) else ""
    if (name.startswith("extract_") and name not in ZONE_INDEPENDENT) or (
        name == "date_part" and str(field).lower() != "epoch"
    ):
        if str(field).lower().startswith("timezone"):
            return _as(_offset_field(call, f"extract_{str(field).lower()}", zone), call.type)
        local = tuple(_local_time(arg, zone) if arg.type.kind is Kind.TIMESTAMPTZ else arg for arg in args)
        return Call(name, local, call.type)
    return call


def _offset_field(call: Call, name: str, zone: Literal) -> Scalar:
    seconds = _utc_offset(call.args[-1], zone)
    divisor = OFFSET_FIELDS[name]
    if divisor == 0:
        rest = Call("mod", (seconds, Literal(3600, BIGINT)), BIGINT)
        return _as(Call("div", (rest, Literal(60, BIGINT)), BIGINT), call.type)
    return _as(Call("div", (seconds, Literal(divisor, BIGINT)), BIGINT), call.type)


def _apply_zone_to_constructor(call: Call, zone: Literal) -> Scalar:
    """Return a constructor of TIMESTAMPTZ with its fields read in the time zone."""
    zoneless = {"make_timestamptz": 6, "to_timestamp": 2}
    if zoneless.get(call.function) == len(call.args):
        return _instant(Call("timezone", (Literal("UTC", TEXT), call), TIMESTAMP), zone)
    return call
