"""Functions and operators of network addresses (INET, CIDR, MACADDR, MACADDR8)."""

from collections.abc import Callable

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, extend, scalar
from kpg.runtime.functions.type_rules import among
from kpg.runtime.types import BIGINT, BOOLEAN, CIDR, INET, INTEGER, MACADDR, MACADDR8, TEXT, Kind, Type
from kpg.runtime.values.networks import Network, host, mac_bytes, show_inet, shown_mac

OF = frozenset({Kind.INET, Kind.CIDR, Kind.NULL})
"""A quoted constant is an address too."""


def _define(
    name: str,
    doc: str,
    example: tuple[str, str],
    result: Type,
    args: tuple[Type, ...],
    code: Callable[..., object],
) -> None:
    accepts = (
        "an address" if len(args) == 1 else "two addresses" if args[1] == INET else "an address and a length"
    )
    scalar(
        name, accepts, doc, dict([example]), Overload(among(OF, result, *args), Memoized(lambda call: code))
    )


def _whole(value: Network) -> Network:
    return value._replace(length=value.width)


def merged(left: Network, right: Network) -> Network:
    """The smallest network that has both."""
    if left.family != right.family:
        raise ValueError("cannot merge addresses from different families")
    different = (left.bits ^ right.bits).bit_length()
    length = min(left.length, right.length, left.width - different)
    found = left._replace(length=length)
    return found._replace(bits=found.bits & ~found.hosts)


def with_length(value: Network, length: int) -> Network:
    """The address with another length of its network."""
    length = value.width if length == -1 else length
    if not 0 <= length <= value.width:
        raise ValueError(f"invalid mask length: {length}")
    return value._replace(length=length)


def network_of_length(value: Network, length: int) -> Network:
    """The network of such a length that a network is in."""
    found = with_length(value, length)
    return found._replace(bits=found.bits & ~found.hosts)


def short(value: Network) -> str:
    """As text, without what can be left out."""
    return show_inet(value)


def short_network(value: Network) -> str:
    """A network without the parts behind it."""
    parts, size = (4, 8) if value.family == 4 else (8, 16)
    kept = max(-(-value.length // size), 1)
    words = [value.bits >> size * (parts - 1 - place) & ((1 << size) - 1) for place in range(kept)]
    if value.family == 4:
        return f"{'.'.join(map(str, words))}/{value.length}"
    if all(words):
        return f"{':'.join(f'{word:x}' for word in words)}/{value.length}"
    return f"{host(value)}/{value.length}"


def _of_network(result: Type, *more: Type) -> Rule:
    """Of a CIDR, which is no other address then."""
    return lambda types: Signature((CIDR, *more), result) if types == (CIDR, *more) else None


A = "inet '192.168.1.5/24'"
_define(
    "host", "The address as text, without its length.", (f"host({A})", "'192.168.1.5'"), TEXT, (INET,), host
)
_define(
    "masklen", "The length of the network.", (f"masklen({A})", "24"), INTEGER, (INET,), lambda x: x.length
)
_define("family", "4 or 6.", (f"family({A})", "4"), INTEGER, (INET,), lambda x: x.family)
_define(
    "netmask",
    "Ones where the network is.",
    (f"host(netmask({A}))", "'255.255.255.0'"),
    INET,
    (INET,),
    lambda x: _whole(x._replace(bits=((1 << x.width) - 1) & ~x.hosts)),
)
_define(
    "hostmask",
    "Ones where the network is not.",
    (f"host(hostmask({A}))", "'0.0.0.255'"),
    INET,
    (INET,),
    lambda x: _whole(x._replace(bits=x.hosts)),
)
_define(
    "broadcast",
    "The last address of the network.",
    (f"host(broadcast({A}))", "'192.168.1.255'"),
    INET,
    (INET,),
    lambda x: x._replace(bits=x.bits | x.hosts),
)
_define(
    "network",
    "The network, without the rest of the address.",
    (f"network({A})::TEXT", "'192.168.1.0/24'"),
    CIDR,
    (INET,),
    lambda x: x._replace(bits=x.bits & ~x.hosts),
)
scalar(
    "set_masklen",
    "an address and a length",
    "The address with another length of its network; of a CIDR the network that has it.",
    {f"set_masklen({A}, 16)::TEXT": "'192.168.1.5/16'"},
    Overload(_of_network(CIDR, INTEGER), Memoized(lambda call: network_of_length)),
    Overload(among(OF, INET, INET, INTEGER), Memoized(lambda call: with_length)),
)
scalar(
    "abbrev",
    "an address",
    "The address as text; of a CIDR only what the network has.",
    {f"abbrev({A})": "'192.168.1.5/24'", "abbrev(cidr '10.1.0.0/16')": "'10.1/16'"},
    Overload(_of_network(TEXT), Memoized(lambda call: short_network)),
    Overload(among(OF, TEXT, INET), Memoized(lambda call: short)),
)
_define(
    "inet_same_family",
    "Whether both are of one family.",
    (f"inet_same_family({A}, inet '::1')", "FALSE"),
    BOOLEAN,
    (INET, INET),
    lambda x, y: x.family == y.family,
)
_define(
    "inet_merge",
    "The smallest network that has both.",
    (f"inet_merge({A}, inet '192.168.2.5/24')::TEXT", "'192.168.0.0/22'"),
    CIDR,
    (INET, INET),
    merged,
)
_define(
    "contained_or_equal",
    "Whether the first is the second or a part of it (``<<=``).",
    (f"contained_or_equal({A}, inet '192.168.1.0/24')", "TRUE"),
    BOOLEAN,
    (INET, INET),
    lambda x, y: x.family == y.family and x.length >= y.length and (x.bits ^ y.bits) & ~y.hosts == 0,
)
_define(
    "contains_or_equals",
    "Whether the second is the first or a part of it (``>>=``).",
    (f"contains_or_equals(inet '192.168.1.0/24', {A})", "TRUE"),
    BOOLEAN,
    (INET, INET),
    lambda y, x: x.family == y.family and x.length >= y.length and (x.bits ^ y.bits) & ~y.hosts == 0,
)


def _changed(value: str) -> str:
    data = mac_bytes(value)
    return shown_mac(bytes([data[0] | 2]) + data[1:])


scalar(
    "macaddr8_set7bit",
    "a MACADDR8",
    "The hardware address with its seventh bit set, as in version 6 of addresses.",
    {"macaddr8_set7bit('00:34:56:ab:cd:ef:01:02')::TEXT": "'02:34:56:ab:cd:ef:01:02'"},
    Overload(
        among(frozenset({Kind.MACADDR8, Kind.NULL}), MACADDR8, MACADDR8), Memoized(lambda call: _changed)
    ),
)


NETWORKS_OF = frozenset({Kind.INET, Kind.CIDR})
MACS = frozenset({Kind.MACADDR, Kind.MACADDR8})


def _plain(code: Callable[..., object]) -> Memoized:
    return Memoized(lambda call: code)


def _networks_define(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    extend(name, accepts, Overload(among(NETWORKS_OF, result, *args), Memoized(lambda call: code)))


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
_networks_define("shift_left", _PAIR, BOOLEAN, (INET, INET), inside)
_networks_define("shift_right", _PAIR, BOOLEAN, (INET, INET), lambda x, y: inside(y, x))
_networks_define("overlaps_with", _PAIR, BOOLEAN, (INET, INET), lambda x, y: within(x, y) or within(y, x))
_networks_define("bitwise_and", _PAIR, INET, (INET, INET), _bits(lambda x, y: x & y))
_networks_define("bitwise_or", _PAIR, INET, (INET, INET), _bits(lambda x, y: x | y))
_networks_define(
    "bitwise_not", "an address", INET, (INET,), lambda x: x._replace(bits=~x.bits & ((1 << x.width) - 1))
)
_networks_define("add", "an address and a number", INET, (INET, BIGINT), moved)
_networks_define("add", "an address and a number", INET, (BIGINT, INET), lambda by, x: moved(x, by))
_networks_define("sub", "an address and a number", INET, (INET, BIGINT), lambda x, by: moved(x, -by))
_networks_define("sub", _PAIR, BIGINT, (INET, INET), apart)


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
