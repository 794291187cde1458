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

ITERATIONS: Final = 4096
"""Iterations of the hash; Postgres' default."""
MECHANISM: Final = "SCRAM-SHA-256"
PLUS_MECHANISM: Final = "SCRAM-SHA-256-PLUS"
BINDING_FLAG: Final = "p=tls-server-end-point"
"""Start of a client's first message if it binds the channel."""
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
"""Hashes of certificates by the object identifiers of their signatures, in hexadecimal.

SHA-256 replaces MD5 and SHA-1. PSS names its hash in a separate identifier; its default is SHA-1.
"""


class AuthenticationError(Exception):
    """The password is wrong, or the client violates the mechanism."""


class DowngradeError(AuthenticationError):
    """The client supports channel binding, but the handshake says that the server does not."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """The stored form of a password (RFC 5802: salt, iteration count, StoredKey, ServerKey)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def make_verifier(password: str) -> Verifier:
    """Return a new verifier of a password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    server = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(salt, ITERATIONS, hashlib.sha256(client).digest(), server)


DUMMY_VERIFIER: Final = make_verifier(secrets.token_hex())
"""Verifier for unknown users. The exchange takes its course, so that it does not reveal who exists."""


class ScramExchange:
    """One client's authentication.

    ``end_point`` is the hash of the certificate if the PLUS mechanism was offered, else empty.
    ``binds_channel``: the client has chosen PLUS.
    """

    def __init__(self, verifier: Verifier, end_point: bytes = b"", *, binds_channel: bool = False) -> None:
        self._verifier = verifier
        self._end_point = end_point
        self._binds_channel = binds_channel
        self._nonce = ""
        self._auth_message = b""
        self._channel_binding = b""

    def challenge(self, client_first: bytes) -> bytes:
        """Return the server's first message. AuthenticationError if the client's is malformed."""
        try:
            flag, identity, bare_message = client_first.decode().split(",", 2)
            fields = dict(part.split("=", 1) for part in bare_message.split(","))
        except ValueError:
            raise AuthenticationError from None
        if flag == "y" and self._end_point:
            raise DowngradeError
        if flag not in ((BINDING_FLAG,) if self._binds_channel else ("n", "y")) or not fields.get("r"):
            raise AuthenticationError
        self._channel_binding = f"{flag},{identity},".encode() + (
            self._end_point if self._binds_channel else b""
        )
        self._nonce = fields["r"] + base64.b64encode(secrets.token_bytes(18)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._auth_message = f"{bare_message},{answer},".encode()
        return answer.encode()

    def finish(self, client_final: bytes) -> bytes:
        """Return the server's signature. AuthenticationError if the client's proof is wrong."""
        without, _, proof = client_final.rpartition(b",p=")
        try:
            fields = dict(part.split("=", 1) for part in without.decode().split(","))
            client_proof = base64.b64decode(proof, validate=True)
        except ValueError:
            raise AuthenticationError from None
        bound = base64.b64encode(self._channel_binding).decode()
        if fields.get("r") != self._nonce or fields.get("c") != bound:
            raise AuthenticationError
        message = self._auth_message + without
        signature = hmac.digest(self._verifier.stored_key, message, "sha256")
        if len(client_proof) != len(signature):
            raise AuthenticationError
        key = bytes(one ^ other for one, other in zip(client_proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            raise AuthenticationError
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, message, "sha256"))


def certificate_hash(pem: bytes) -> bytes:
    """Return the hash of the first certificate of a PEM file; empty if its signature names no hash.

    Ed25519 has none, so a server with such a certificate does not bind the channel.
    """
    found = CERTIFICATE.search(pem)
    if found is None:
        return b""
    der = base64.b64decode(found[1])
    try:
        ((_, certificate),) = _der_elements(der)
        _, (_, algorithm), _ = _der_elements(certificate)
        names = [HASHES[one] for one in _object_identifiers(algorithm) if one in HASHES]
    except (ValueError, IndexError):
        return b""
    return hashlib.new(names[-1] if len(names) == 1 else names[1], der).digest() if names else b""


def _der_elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tags and contents of consecutive DER elements."""
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


def _object_identifiers(der: bytes) -> Iterator[str]:
    """Yield the object identifiers in DER, in order."""
    for tag, content in _der_elements(der):
        if tag == 6:
            yield content.hex()
        elif tag & 0x20:
            yield from _object_identifiers(content)
