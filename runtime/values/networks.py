"""Network address types: INET, CIDR, MACADDR and MACADDR8.

An address is a :class:`Network`: family (4 or 6), bits, and prefix length. It compares by family,
network, prefix length, then by all bits. A hardware address is its text.
"""

import ipaddress
import re
from typing import Any, Final, NamedTuple

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, text_codec
from kpg.runtime.values.words import BLANKS

ADDRESS_BITS: Final = {4: 32, 6: 128}
SHORT_IPV4: Final = re.compile(r"(?a)\d{1,3}(?:\.\d{1,3}){0,3}\.?")


class Network(NamedTuple):
    """An address and the length of its network."""

    family: int
    bits: int
    length: int

    @property
    def width(self) -> int:
        return ADDRESS_BITS[self.family]

    @property
    def host_mask(self) -> int:
        """Mask of the host bits."""
        return (1 << (self.width - self.length)) - 1


def codec(type_: Type) -> Codec:
    """Return the codec of one of the types."""
    match type_.kind:
        case Kind.INET:
            return text_codec(parse_inet, show_inet, _encode, _decode, "a text such as '10.0.0.1'")
        case Kind.CIDR:
            return text_codec(parse_cidr, show_cidr, _encode, _decode, "a text such as '10.0.0.0/8'")
        case Kind.MACADDR:
            return text_codec(
                lambda text: parse_mac(text, 6), str, str, str, "a text such as '08:00:2b:01:02:03'"
            )
        case _:
            return text_codec(parse_mac8, str, str, str, "a text such as '08:00:2b:01:02:03:04:05'")


def parse_inet(text: str) -> Network:
    """Parse an address, with or without the length of its network.

    Raises:
        ValueError: The text is not an address.
    """
    host, slash, length = text.partition("/")
    address = ipaddress.ip_address(host)
    if slash and not length.isdigit():
        raise ValueError("no length of a network")
    family, width = address.version, ADDRESS_BITS[address.version]
    bits = int(length) if slash else width
    if bits > width:
        raise ValueError("a network longer than the address")
    return Network(family, int(address), bits)


def parse_cidr(text: str) -> Network:
    """Parse a network. An IPv4 network may omit trailing bytes."""
    host, slash, length = text.partition("/")
    if SHORT_IPV4.fullmatch(host) and ":" not in host:
        parts = host.rstrip(".").split(".")
        if not slash:
            length = str(max(8 * len(parts), _class_length(int(parts[0]))))
        host = ".".join([*parts, *["0"] * (4 - len(parts))])
        slash = "/"
    network = parse_inet(host + slash + length)
    if network.bits & network.host_mask:
        raise ValueError("value has bits set to right of mask")
    return network


def _class_length(first: int) -> int:
    """Return the network length of a first byte by the historical address classes."""
    if first >= 240:
        return 32
    return 8 if first < 128 else 16 if first < 192 else 24


def show_inet(value: Network) -> str:
    """Format like Postgres: with the length unless it is the whole address."""
    return show_host(value) if value.length == value.width else show_cidr(value)


def show_cidr(value: Network) -> str:
    """Format with the length of the network."""
    return f"{show_host(value)}/{value.length}"


def show_host(value: Network) -> str:
    """Format the address without the length."""
    if value.family == 4:
        return str(ipaddress.IPv4Address(value.bits))
    text = str(ipaddress.IPv6Address(value.bits))
    mapped = ipaddress.IPv6Address(value.bits).ipv4_mapped
    return f"::ffff:{mapped}" if mapped is not None else text


def _encode(value: Network) -> str:
    bits = f"{value.bits:0{value.width}b}"
    return f"{value.family}{bits[: value.length]}!{bits[value.length :]}"


def _decode(string: str) -> Network:
    network, _, rest = string[1:].partition("!")
    return Network(int(string[0]), int(network + rest, 2), len(network))


def parse_mac(text: str, size: int) -> str:
    """Parse a hardware address of ``size`` bytes in any of Postgres' forms."""
    lowered = text.strip(BLANKS).lower()
    digits = re.sub(r"[:.-]", "", lowered)
    forms = (
        rf"(?:[0-9a-f]{{1,2}}([:-]))(?:[0-9a-f]{{1,2}}\1){{{size - 2}}}[0-9a-f]{{1,2}}",
        rf"[0-9a-f]{{{size}}}[:-][0-9a-f]{{{size}}}",
        rf"[0-9a-f]{{4}}([.-])(?:[0-9a-f]{{4}}\1){{{size // 2 - 2}}}[0-9a-f]{{4}}",
        rf"[0-9a-f]{{{2 * size}}}",
    )
    if re.fullmatch(forms[0], lowered):
        digits = "".join(part.zfill(2) for part in re.split("[:-]", lowered))
    elif not any(re.fullmatch(form, lowered) for form in forms[1:]):
        raise ValueError("no hardware address")
    return show_mac(bytes.fromhex(digits))


def parse_mac8(text: str) -> str:
    """Parse a hardware address of eight bytes, or of six, which :func:`widen_mac` widens."""
    try:
        return parse_mac(text, 8)
    except ValueError:
        return widen_mac(parse_mac(text, 6))


def widen_mac(text: str) -> str:
    """Widen a hardware address of six bytes to eight, with ``ff:fe`` in the middle."""
    return f"{text[:8]}:ff:fe:{text[9:]}"


def show_mac(value: bytes) -> str:
    """Format like Postgres."""
    return value.hex(":")


def mac_bytes(value: Any) -> bytes:
    """Return the bytes of a hardware address."""
    return bytes.fromhex(value.replace(":", ""))
