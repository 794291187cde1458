"""How functions that only shapes have are defined."""

from collections.abc import Callable, Mapping
from typing import Final

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import among, fixed
from kpg.runtime.types import DOUBLE, SHAPE_KINDS, Kind, Type

Code = Callable[..., object]
Case = tuple[tuple[Type, ...], Code]
OF: Final = SHAPE_KINDS


def define(
    name: str, accepts: str, doc: str, examples: Mapping[str, str], result: Type, *cases: Case
) -> None:
    """A function of shapes, by the types that it takes and what it does with each."""
    overloads = (overload(result, args, code) for args, code in cases)
    scalar(name, accepts, doc, examples, *overloads)


def overload(result: Type, args: tuple[Type, ...], code: Code) -> Overload:
    """One of the cases: a shape alone or a quoted constant, numbers, or several of which one is a shape."""
    implementation = Memoized(lambda call: code)
    if len(args) == 1:
        return Overload(alone(result, args[0]), implementation)
    plain = all(arg == DOUBLE for arg in args)
    return Overload(fixed(result, *args) if plain else among(OF, result, *args), implementation)


def alone(result: Type, arg: Type) -> Rule:
    """One shape of a kind, or a quoted constant."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        taken = len(types) == 1 and types[0].kind in (arg.kind, Kind.NULL)
        return Signature((arg,), result) if taken else None

    return rule


def either(one: Type, other: Type, code: Code) -> tuple[Case, Case]:
    """The same in both orders."""
    return ((one, other), code), ((other, one), lambda x, y: code(y, x))
