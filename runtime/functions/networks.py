"""Addresses and networks in functions and operators of other types, and functions of their own."""

from collections.abc import Callable

from kpg.runtime.functions.registry import Memoized, Overload, extend
from kpg.runtime.functions.rules import among
from kpg.runtime.types import BIGINT, BOOLEAN, INET, MACADDR, MACADDR8, Kind, Type
from kpg.runtime.values.networks import Network, mac_bytes, shown_mac

OF = frozenset({Kind.INET, Kind.CIDR})
MACS = frozenset({Kind.MACADDR, Kind.MACADDR8})


def _plain(code: Callable[..., object]) -> Memoized:
    return Memoized(lambda call: code)


def _define(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    extend(name, accepts, Overload(among(OF, result, *args), Memoized(lambda call: code)))


def within(inner: Network, outer: Network) -> bool:
    """Whether a network is part of another, or the same."""
    if inner.family != outer.family or inner.length < outer.length:
        return False
    return (inner.bits ^ outer.bits) & ~outer.hosts == 0


def inside(inner: Network, outer: Network) -> bool:
    """Whether a network is a part of another and not the same."""
    return inner.length > outer.length and within(inner, outer)


def _bits(code: Callable[[int, int], int]) -> Callable[[Network, Network], Network]:
    def apply(left: Network, right: Network) -> Network:
        if left.family != right.family:
            raise ValueError("cannot combine inet values of different sizes")
        return Network(left.family, code(left.bits, right.bits), max(left.length, right.length))

    return apply


def moved(value: Network, by: int) -> Network:
    """The address so many places on."""
    if not 0 <= value.bits + by < 1 << value.width:
        raise ValueError("result is out of range")
    return value._replace(bits=value.bits + by)


def apart(left: Network, right: Network) -> int:
    """How many places the first is behind the second."""
    if left.family != right.family:
        raise ValueError("cannot subtract inet values of different sizes")
    return left.bits - right.bits


_PAIR = "two addresses"
_define("shift_left", _PAIR, BOOLEAN, (INET, INET), inside)
_define("shift_right", _PAIR, BOOLEAN, (INET, INET), lambda x, y: inside(y, x))
_define("overlaps_with", _PAIR, BOOLEAN, (INET, INET), lambda x, y: within(x, y) or within(y, x))
_define("bitwise_and", _PAIR, INET, (INET, INET), _bits(lambda x, y: x & y))
_define("bitwise_or", _PAIR, INET, (INET, INET), _bits(lambda x, y: x | y))
_define("bitwise_not", "an address", INET, (INET,), lambda x: x._replace(bits=~x.bits & ((1 << x.width) - 1)))
_define("add", "an address and a number", INET, (INET, BIGINT), moved)
_define("add", "an address and a number", INET, (BIGINT, INET), lambda by, x: moved(x, by))
_define("sub", "an address and a number", INET, (INET, BIGINT), lambda x, by: moved(x, -by))
_define("sub", _PAIR, BIGINT, (INET, INET), apart)


def _mac_bits(code: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def apply(left: str, right: str) -> str:
        return shown_mac(bytes(code(x, y) for x, y in zip(mac_bytes(left), mac_bytes(right), strict=True)))

    return apply


for _type in (MACADDR, MACADDR8):
    for _name, _code in (
        ("bitwise_and", _mac_bits(lambda x, y: x & y)),
        ("bitwise_or", _mac_bits(lambda x, y: x | y)),
    ):
        _how = _plain(_code)
        extend(_name, "two hardware addresses", Overload(among(MACS, _type, _type, _type), _how))
    _not = Memoized(lambda call: lambda x: shown_mac(bytes(255 - byte for byte in mac_bytes(x))))
    extend("bitwise_not", "a hardware address", Overload(among(MACS, _type, _type), _not))
    _cut = Memoized(lambda call: lambda x: shown_mac(mac_bytes(x)[:3] + bytes(len(mac_bytes(x)) - 3)))
    extend("trunc", "a hardware address", Overload(among(MACS, _type, _type), _cut))
