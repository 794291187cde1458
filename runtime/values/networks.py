"""Network address types: INET, CIDR, MACADDR and MACADDR8.

An address is a :class:`Network`: family (4 or 6), bits, and prefix length. It compares by family, network,
prefix length, then by all bits. A hardware address is its text.
"""

import ipaddress
import re
from typing import Any, Final, NamedTuple

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, spelled
from kpg.runtime.values.words import BLANKS

WIDTHS: Final = {4: 32, 6: 128}
SHORT: Final = re.compile(r"(?a)\d{1,3}(?:\.\d{1,3}){0,3}\.?")


class Network(NamedTuple):
    """An address with the length of its network."""

    family: int
    bits: int
    length: int

    @property
    def width(self) -> int:
        return WIDTHS[self.family]

    @property
    def hosts(self) -> int:
        """A number with ones in the places that are no network's."""
        return (1 << (self.width - self.length)) - 1


def codec(type_: Type) -> Codec:
    """The codec of one of the types."""
    match type_.kind:
        case Kind.INET:
            return spelled(parse_inet, show_inet, _encode, _decode, "a text such as '10.0.0.1'")
        case Kind.CIDR:
            return spelled(parse_cidr, show_cidr, _encode, _decode, "a text such as '10.0.0.0/8'")
        case Kind.MACADDR:
            return spelled(
                lambda text: parse_mac(text, 6), str, str, str, "a text such as '08:00:2b:01:02:03'"
            )
        case _:
            return spelled(parse_mac8, str, str, str, "a text such as '08:00:2b:01:02:03:04:05'")


def parse_inet(text: str) -> Network:
    """The address that a text means, with the length of its network or without; ValueError if none."""
    host, slash, length = text.partition("/")
    address = ipaddress.ip_address(host)
    if slash and not length.isdigit():
        raise ValueError("no length of a network")
    family, width = address.version, WIDTHS[address.version]
    bits = int(length) if slash else width
    if bits > width:
        raise ValueError("a network longer than the address")
    return Network(family, int(address), bits)


def parse_cidr(text: str) -> Network:
    """The network that a text means; of version 4 bytes at the end may be left out."""
    host, slash, length = text.partition("/")
    if SHORT.fullmatch(host) and ":" not in host:
        parts = host.rstrip(".").split(".")
        if not slash:
            length = str(max(8 * len(parts), _class_length(int(parts[0]))))
        host = ".".join([*parts, *["0"] * (4 - len(parts))])
        slash = "/"
    found = parse_inet(host + slash + length)
    if found.bits & found.hosts:
        raise ValueError("value has bits set to right of mask")
    return found


def _class_length(first: int) -> int:
    """How long networks were that begin with a byte, when classes told."""
    if first >= 240:
        return 32
    return 8 if first < 128 else 16 if first < 192 else 24


def show_inet(value: Network) -> str:
    """As Postgres writes it: the length only if it is not the whole."""
    return host(value) if value.length == value.width else show_cidr(value)


def show_cidr(value: Network) -> str:
    """With the length of the network."""
    return f"{host(value)}/{value.length}"


def host(value: Network) -> str:
    """The address alone."""
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
    """The hardware address of so many bytes that a text means, in any of Postgres' forms."""
    plain = text.strip(BLANKS).lower()
    digits = re.sub(r"[:.-]", "", plain)
    forms = (
        rf"(?:[0-9a-f]{{1,2}}([:-]))(?:[0-9a-f]{{1,2}}\1){{{size - 2}}}[0-9a-f]{{1,2}}",
        rf"[0-9a-f]{{{size}}}[:-][0-9a-f]{{{size}}}",
        rf"[0-9a-f]{{4}}([.-])(?:[0-9a-f]{{4}}\1){{{size // 2 - 2}}}[0-9a-f]{{4}}",
        rf"[0-9a-f]{{{2 * size}}}",
    )
    if re.fullmatch(forms[0], plain):
        digits = "".join(part.zfill(2) for part in re.split("[:-]", plain))
    elif not any(re.fullmatch(form, plain) for form in forms[1:]):
        raise ValueError("no hardware address")
    return shown_mac(bytes.fromhex(digits))


def parse_mac8(text: str) -> str:
    """One of eight bytes, or of six, which has ``ff:fe`` put in its middle."""
    try:
        return parse_mac(text, 8)
    except ValueError:
        return wide_mac(parse_mac(text, 6))


def wide_mac(text: str) -> str:
    """A hardware address of six bytes as one of eight."""
    return f"{text[:8]}:ff:fe:{text[9:]}"


def shown_mac(value: bytes) -> str:
    """As Postgres writes it."""
    return value.hex(":")


def mac_bytes(value: Any) -> bytes:
    """The bytes of a hardware address."""
    return bytes.fromhex(value.replace(":", ""))
