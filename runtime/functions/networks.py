"""Functions and operators of network addresses (INET, CIDR, MACADDR, MACADDR8)."""

from collections.abc import Callable

from kpg.runtime.functions.registry import (
    MemoizedFunction,
    Overload,
    Rule,
    Signature,
    add_overloads,
    register_scalar,
)
from kpg.runtime.functions.type_rules import kind_rule
from kpg.runtime.types import BIGINT, BOOLEAN, CIDR, INET, INTEGER, MACADDR, MACADDR8, TEXT, Kind, Type
from kpg.runtime.values.networks import Network, mac_bytes, show_host, show_inet, show_mac

ADDRESS_KINDS = frozenset({Kind.INET, Kind.CIDR, Kind.NULL})
"""Kinds of addresses. A quoted constant is an address too."""


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
    register_scalar(
        name,
        accepts,
        doc,
        dict([example]),
        Overload(kind_rule(ADDRESS_KINDS, result, *args), MemoizedFunction(lambda call: code)),
    )


def _host_address(value: Network) -> Network:
    return value._replace(length=value.width)


def merge_networks(left: Network, right: Network) -> Network:
    """Return the smallest network that contains both."""
    if left.family != right.family:
        raise ValueError("cannot merge addresses from different families")
    different = (left.bits ^ right.bits).bit_length()
    length = min(left.length, right.length, left.width - different)
    network = left._replace(length=length)
    return network._replace(bits=network.bits & ~network.host_mask)


def set_mask_length(value: Network, length: int) -> Network:
    """Return the address with another network length. -1 is the width of the address."""
    length = value.width if length == -1 else length
    if not 0 <= length <= value.width:
        raise ValueError(f"invalid mask length: {length}")
    return value._replace(length=length)


def set_network_length(value: Network, length: int) -> Network:
    """Return the network with another length. Host bits become 0."""
    address = set_mask_length(value, length)
    return address._replace(bits=address.bits & ~address.host_mask)


def abbreviate_address(value: Network) -> str:
    """Format an address without a redundant length."""
    return show_inet(value)


def abbreviate_network(value: Network) -> str:
    """Format a network without its trailing zero parts."""
    parts, size = (4, 8) if value.family == 4 else (8, 16)
    part_count = max(-(-value.length // size), 1)
    words = [value.bits >> size * (parts - 1 - place) & ((1 << size) - 1) for place in range(part_count)]
    if value.family == 4:
        return f"{'.'.join(map(str, words))}/{value.length}"
    if all(words):
        return f"{':'.join(f'{word:x}' for word in words)}/{value.length}"
    return f"{show_host(value)}/{value.length}"


def _cidr_rule(result: Type, *more: Type) -> Rule:
    """Return a rule for a CIDR and other arguments."""
    return lambda types: Signature((CIDR, *more), result) if types == (CIDR, *more) else None


EXAMPLE = "inet '192.168.1.5/24'"
_define(
    "host",
    "The address as text, without its length.",
    (f"host({EXAMPLE})", "'192.168.1.5'"),
    TEXT,
    (INET,),
    show_host,
)
_define(
    "masklen",
    "The length of the network.",
    (f"masklen({EXAMPLE})", "24"),
    INTEGER,
    (INET,),
    lambda x: x.length,
)
_define("family", "4 or 6.", (f"family({EXAMPLE})", "4"), INTEGER, (INET,), lambda x: x.family)
_define(
    "netmask",
    "Ones where the network is.",
    (f"host(netmask({EXAMPLE}))", "'255.255.255.0'"),
    INET,
    (INET,),
    lambda x: _host_address(x._replace(bits=((1 << x.width) - 1) & ~x.host_mask)),
)
_define(
    "hostmask",
    "Ones where the network is not.",
    (f"host(hostmask({EXAMPLE}))", "'0.0.0.255'"),
    INET,
    (INET,),
    lambda x: _host_address(x._replace(bits=x.host_mask)),
)
_define(
    "broadcast",
    "The last address of the network.",
    (f"host(broadcast({EXAMPLE}))", "'192.168.1.255'"),
    INET,
    (INET,),
    lambda x: x._replace(bits=x.bits | x.host_mask),
)
_define(
    "network",
    "The network, without the rest of the address.",
    (f"network({EXAMPLE})::TEXT", "'192.168.1.0/24'"),
    CIDR,
    (INET,),
    lambda x: x._replace(bits=x.bits & ~x.host_mask),
)
register_scalar(
    "set_masklen",
    "an address and a length",
    "The address with another length of its network; of a CIDR the network that has it.",
    {f"set_masklen({EXAMPLE}, 16)::TEXT": "'192.168.1.5/16'"},
    Overload(_cidr_rule(CIDR, INTEGER), MemoizedFunction(lambda call: set_network_length)),
    Overload(kind_rule(ADDRESS_KINDS, INET, INET, INTEGER), MemoizedFunction(lambda call: set_mask_length)),
)
register_scalar(
    "abbrev",
    "an address",
    "The address as text; of a CIDR only what the network has.",
    {f"abbrev({EXAMPLE})": "'192.168.1.5/24'", "abbrev(cidr '10.1.0.0/16')": "'10.1/16'"},
    Overload(_cidr_rule(TEXT), MemoizedFunction(lambda call: abbreviate_network)),
    Overload(kind_rule(ADDRESS_KINDS, TEXT, INET), MemoizedFunction(lambda call: abbreviate_address)),
)
_define(
    "inet_same_family",
    "Whether both are of one family.",
    (f"inet_same_family({EXAMPLE}, inet '::1')", "FALSE"),
    BOOLEAN,
    (INET, INET),
    lambda x, y: x.family == y.family,
)
_define(
    "inet_merge",
    "The smallest network that has both.",
    (f"inet_merge({EXAMPLE}, inet '192.168.2.5/24')::TEXT", "'192.168.0.0/22'"),
    CIDR,
    (INET, INET),
    merge_networks,
)
_define(
    "contained_or_equal",
    "Whether the first is the second or a part of it (``<<=``).",
    (f"contained_or_equal({EXAMPLE}, inet '192.168.1.0/24')", "TRUE"),
    BOOLEAN,
    (INET, INET),
    lambda x, y: x.family == y.family and x.length >= y.length and (x.bits ^ y.bits) & ~y.host_mask == 0,
)
_define(
    "contains_or_equals",
    "Whether the second is the first or a part of it (``>>=``).",
    (f"contains_or_equals(inet '192.168.1.0/24', {EXAMPLE})", "TRUE"),
    BOOLEAN,
    (INET, INET),
    lambda y, x: x.family == y.family and x.length >= y.length and (x.bits ^ y.bits) & ~y.host_mask == 0,
)


def _set_seventh_bit(value: str) -> str:
    data = mac_bytes(value)
    return show_mac(bytes([data[0] | 2]) + data[1:])


register_scalar(
    "macaddr8_set7bit",
    "a MACADDR8",
    "The hardware address with its seventh bit set, as in version 6 of addresses.",
    {"macaddr8_set7bit('00:34:56:ab:cd:ef:01:02')::TEXT": "'02:34:56:ab:cd:ef:01:02'"},
    Overload(
        kind_rule(frozenset({Kind.MACADDR8, Kind.NULL}), MACADDR8, MACADDR8),
        MemoizedFunction(lambda call: _set_seventh_bit),
    ),
)


NETWORK_KINDS = frozenset({Kind.INET, Kind.CIDR})
MAC_KINDS = frozenset({Kind.MACADDR, Kind.MACADDR8})


def _memoize(code: Callable[..., object]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: code)


def _add_network_overload(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    add_overloads(
        name, accepts, Overload(kind_rule(NETWORK_KINDS, result, *args), MemoizedFunction(lambda call: code))
    )


def is_subnet_or_equal(inner: Network, outer: Network) -> bool:
    """Check whether a network is equal to another or part of it."""
    if inner.family != outer.family or inner.length < outer.length:
        return False
    return (inner.bits ^ outer.bits) & ~outer.host_mask == 0


def is_subnet(inner: Network, outer: Network) -> bool:
    """Check whether a network is part of another and not equal to it."""
    return inner.length > outer.length and is_subnet_or_equal(inner, outer)


def _bitwise_operation(code: Callable[[int, int], int]) -> Callable[[Network, Network], Network]:
    def apply(left: Network, right: Network) -> Network:
        if left.family != right.family:
            raise ValueError("cannot combine inet values of different sizes")
        return Network(left.family, code(left.bits, right.bits), max(left.length, right.length))

    return apply


def add_offset(value: Network, offset: int) -> Network:
    """Return the address plus an offset."""
    if not 0 <= value.bits + offset < 1 << value.width:
        raise ValueError("result is out of range")
    return value._replace(bits=value.bits + offset)


def subtract_addresses(left: Network, right: Network) -> int:
    """Return the distance from the second address to the first."""
    if left.family != right.family:
        raise ValueError("cannot subtract inet values of different sizes")
    return left.bits - right.bits


_PAIR = "two addresses"
_add_network_overload("shift_left", _PAIR, BOOLEAN, (INET, INET), is_subnet)
_add_network_overload("shift_right", _PAIR, BOOLEAN, (INET, INET), lambda x, y: is_subnet(y, x))
_add_network_overload(
    "overlaps_with",
    _PAIR,
    BOOLEAN,
    (INET, INET),
    lambda x, y: is_subnet_or_equal(x, y) or is_subnet_or_equal(y, x),
)
_add_network_overload("bitwise_and", _PAIR, INET, (INET, INET), _bitwise_operation(lambda x, y: x & y))
_add_network_overload("bitwise_or", _PAIR, INET, (INET, INET), _bitwise_operation(lambda x, y: x | y))
_add_network_overload(
    "bitwise_not", "an address", INET, (INET,), lambda x: x._replace(bits=~x.bits & ((1 << x.width) - 1))
)
_add_network_overload("add", "an address and a number", INET, (INET, BIGINT), add_offset)
_add_network_overload("add", "an address and a number", INET, (BIGINT, INET), lambda by, x: add_offset(x, by))
_add_network_overload(
    "sub", "an address and a number", INET, (INET, BIGINT), lambda x, by: add_offset(x, -by)
)
_add_network_overload("sub", _PAIR, BIGINT, (INET, INET), subtract_addresses)


def _mac_operation(code: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def apply(left: str, right: str) -> str:
        return show_mac(bytes(code(x, y) for x, y in zip(mac_bytes(left), mac_bytes(right), strict=True)))

    return apply


for _type in (MACADDR, MACADDR8):
    for _name, _code in (
        ("bitwise_and", _mac_operation(lambda x, y: x & y)),
        ("bitwise_or", _mac_operation(lambda x, y: x | y)),
    ):
        _how = _memoize(_code)
        add_overloads(
            _name, "two hardware addresses", Overload(kind_rule(MAC_KINDS, _type, _type, _type), _how)
        )
    _not = MemoizedFunction(lambda call: lambda x: show_mac(bytes(255 - byte for byte in mac_bytes(x))))
    add_overloads("bitwise_not", "a hardware address", Overload(kind_rule(MAC_KINDS, _type, _type), _not))
    _cut = MemoizedFunction(lambda call: lambda x: show_mac(mac_bytes(x)[:3] + bytes(len(mac_bytes(x)) - 3)))
    add_overloads("trunc", "a hardware address", Overload(kind_rule(MAC_KINDS, _type, _type), _cut))
