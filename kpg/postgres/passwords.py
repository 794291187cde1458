"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS authentication, server side (RFC 5802, RFC 7677).

A stored verifier does not reveal the password. PLUS binds the login to the TLS channel by the server's
certificate (``tls-server-end-point``, RFC 5929), so that a man in the middle cannot relay it.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from typing import Final

from kpg.runtime.records import dataclass

ROUNDS: Final = 4096
"""Iterations of the hash, as Postgres' default has them."""
MECHANISM: Final = "SCRAM-SHA-256"
PLUS: Final = "SCRAM-SHA-256-PLUS"
BINDING: Final = "p=tls-server-end-point"
"""How a client begins that binds the channel."""
CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
PSS: Final = "2a864886f70d01010a"
HASHES: Final = {
    **dict.fromkeys(
        ("2a864886f70d010104", "2a864886f70d010105", "2a8648ce3d0401", "2a8648ce380403"), "sha256"
    ),
    **dict.fromkeys(("2a864886f70d01010b", "2a8648ce3d040302", "608648016503040302"), "sha256"),
    **dict.fromkeys(("2a864886f70d01010c", "2a8648ce3d040303", "608648016503040303"), "sha384"),
    **dict.fromkeys(("2a864886f70d01010d", "2a8648ce3d040304", "608648016503040304"), "sha512"),
    **dict.fromkeys(("2a864886f70d01010e", "2a8648ce3d040301", "608648016503040301"), "sha224"),
    "608648016503040201": "sha256",
    "608648016503040202": "sha384",
    "608648016503040203": "sha512",
    "608648016503040204": "sha224",
    PSS: "sha256",
}
"""The hash of a certificate by the object identifiers of its signature, in hexadecimal: RSA, ECDSA and DSA.
Instead of MD5 and SHA-1 it is SHA-256. PSS names its hash apart; without a name it is SHA-1's."""


class Denied(Exception):
    """The client does not know the password, or does not keep to the mechanism."""


class Downgraded(Denied):
    """The client could bind the channel, and has been told that the server could not."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a password."""

    salt: bytes
    rounds: int
    stored: bytes
    server: bytes


def verifier_of(password: str) -> Verifier:
    """What to keep of a password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    server = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(salt, ROUNDS, hashlib.sha256(client).digest(), server)


NOBODY: Final = verifier_of(secrets.token_hex())
"""For users that there are not: the exchange takes its course, so that it does not tell who there is."""


class Exchange:
    """One client's attempt to log in.

    ``end_point`` is the hash of the certificate that PLUS was offered with, empty if it was not; ``plus``
    whether the client has chosen it.
    """

    def __init__(self, verifier: Verifier, end_point: bytes = b"", *, plus: bool = False) -> None:
        self._verifier = verifier
        self._end_point = end_point
        self._plus = plus
        self._nonce = ""
        self._messages = b""
        self._bound = b""

    def challenge(self, first: bytes) -> bytes:
        """The answer to the client's first message."""
        try:
            flag, identity, bare = first.decode().split(",", 2)
            fields = dict(part.split("=", 1) for part in bare.split(","))
        except ValueError:
            raise Denied from None
        if flag == "y" and self._end_point:
            raise Downgraded
        if flag not in ((BINDING,) if self._plus else ("n", "y")) or not fields.get("r"):
            raise Denied
        self._bound = f"{flag},{identity},".encode() + (self._end_point if self._plus else b"")
        self._nonce = fields["r"] + base64.b64encode(secrets.token_bytes(18)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.rounds}"
        self._messages = f"{bare},{answer},".encode()
        return answer.encode()

    def finish(self, last: bytes) -> bytes:
        """The server's proof that it knows the password, too; Denied if the client's proof is wrong."""
        without, _, proof = last.rpartition(b",p=")
        try:
            fields = dict(part.split("=", 1) for part in without.decode().split(","))
            given = base64.b64decode(proof, validate=True)
        except ValueError:
            raise Denied from None
        bound = base64.b64encode(self._bound).decode()
        if fields.get("r") != self._nonce or fields.get("c") != bound:
            raise Denied
        message = self._messages + without
        signature = hmac.digest(self._verifier.stored, message, "sha256")
        if len(given) != len(signature):
            raise Denied
        key = bytes(one ^ other for one, other in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored):
            raise Denied
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server, message, "sha256"))


def end_point_of(pem: bytes) -> bytes:
    """The hash of a server's certificate, the first of a file of PEM; empty if its signature names no hash.

    Ed25519 has none: a server with such a certificate binds no channel.
    """
    found = CERTIFICATE.search(pem)
    if found is None:
        return b""
    der = base64.b64decode(found[1])
    try:
        ((_, whole),) = _elements(der)
        _, (_, algorithm), _ = _elements(whole)
        names = [HASHES[one] for one in _identifiers(algorithm) if one in HASHES]
    except (ValueError, IndexError):
        return b""
    return hashlib.new(names[-1] if len(names) == 1 else names[1], der).digest() if names else b""


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents of what is written one after the other in DER."""
    place = 0
    while place < len(der):
        tag, size, place = der[place], der[place + 1], place + 2
        if size & 0x80:
            count = size & 0x7F
            size, place = int.from_bytes(der[place : place + count]), place + count
        if place + size > len(der):
            raise ValueError("the end is missing")
        yield tag, der[place : place + size]
        place += size


def _identifiers(der: bytes) -> Iterator[str]:
    """The object identifiers in DER, in their order."""
    for tag, content in _elements(der):
        if tag == 6:
            yield content.hex()
        elif tag & 0x20:
            yield from _identifiers(content)
