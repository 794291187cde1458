"""SCRAM-SHA-256 (RFC 5802, 7677), the server's side: what is kept of a password does not tell what it is."""

import base64
import hashlib
import hmac
import secrets
from typing import Final

from kpg.runtime.records import dataclass

ROUNDS: Final = 4096
"""Iterations of the hash, as Postgres' default has them."""
MECHANISM: Final = "SCRAM-SHA-256"


class Denied(Exception):
    """The client does not know the password, or does not keep to the mechanism."""


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
    """One client's attempt to log in."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._nonce = ""
        self._messages = b""

    def challenge(self, first: bytes) -> bytes:
        """The answer to the client's first message."""
        try:
            flag, _, bare = first.decode().split(",", 2)
            fields = dict(part.split("=", 1) for part in bare.split(","))
        except ValueError:
            raise Denied from None
        if flag not in ("n", "y") or not fields.get("r"):
            raise Denied
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
        if fields.get("r") != self._nonce or fields.get("c") not in ("biws", "eSws"):
            raise Denied
        message = self._messages + without
        signature = hmac.digest(self._verifier.stored, message, "sha256")
        if len(given) != len(signature):
            raise Denied
        key = bytes(one ^ other for one, other in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored):
            raise Denied
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server, message, "sha256"))
