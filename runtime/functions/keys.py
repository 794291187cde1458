"""What equal values have in common, where they may look different: 1.0 and 1.00, a month and 30 days.

The values of some types are kept in forms of which several are equal. Comparisons, groups, DISTINCT, orders
and joins go by ``key`` of a value, the one form that all its equals share; what is shown is the value itself.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kpg.runtime.functions.registry import Memoized, primitive
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import NUMERIC, Kind, Type, is_loose
from kpg.runtime.values import codec_of

Form = Callable[[Any], Any]


def key(scalar: Scalar) -> Scalar:
    """The scalar, or what equal values of it have in common if they may differ."""
    if not is_loose(scalar.type) or (isinstance(scalar, Call) and scalar.function == "$key"):
        return scalar
    if isinstance(scalar, Literal) and scalar.value is None:
        return scalar
    if isinstance(scalar, Literal) and isinstance(scalar.value, str):
        codec = codec_of(scalar.type)
        return Literal(codec.encode(_form(scalar.type)(codec.decode(scalar.value))), scalar.type)
    plain = isinstance(scalar, Call) and scalar.function == "cast" and scalar.type == NUMERIC
    if plain and isinstance(scalar, Call) and scalar.args[0].type.is_exact:
        return Call("$key", scalar.args, NUMERIC)
    return Call("$key", (scalar,), scalar.type)


def key_string(type_: Type) -> Callable[[str], str]:
    """From the string that stands for a value to that of its key."""
    codec, form = codec_of(type_), _form(type_)
    return lambda string: codec.encode(form(codec.decode(string)))


def _form(type_: Type) -> Form:
    """From a value to the form that all its equals share."""
    match type_.kind:
        case Kind.NUMERIC:
            from kpg.runtime.values import numeric

            return numeric.trimmed
        case Kind.INTERVAL:
            from kpg.runtime.values import intervals

            return lambda value: intervals.Interval(0, 0, intervals.span(value))
        case Kind.JSONB:
            from kpg.runtime.values import jsons

            return lambda value: jsons.Json(_json(value.value))
        case Kind.ARRAY:
            item = _or_none(_form(type_.parts[0]))
            return lambda value: value._replace(items=tuple(map(item, value.items)))
        case Kind.RANGE | Kind.MULTIRANGE:
            from kpg.runtime.values import ranges

            bound = _form(type_.parts[0])
            return lambda value: ranges.over(value, bound)
        case Kind.RECORD:
            fields = [_or_none(_form(part)) for part in type_.parts]
            return lambda value: tuple(form(one) for form, one in zip(fields, value, strict=True))
        case _:
            return lambda value: value


def _or_none(form: Form) -> Form:
    return lambda value: None if value is None else form(value)


def _json(value: Any) -> Any:
    from kpg.runtime.values import numeric

    match value:
        case Decimal():
            return numeric.trimmed(value)
        case list():
            return list(map(_json, value))
        case dict():
            return {name: _json(inner) for name, inner in value.items()}
        case _:
            return value


def _of_call(call: Call) -> Form:
    source = call.args[0].type
    form = _form(call.type)
    if not source.is_exact:
        return form
    from kpg.runtime.values import numeric

    return lambda value: form(numeric.of_number(value, source, call.type))


primitive("$key", Memoized(_of_call))
