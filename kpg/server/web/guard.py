"""Who may ask, and from where: the users of the wire protocol by Basic authentication, no other site's pages.

A browser sends a user's password, or reaches a server that asks for none, whatever page makes it ask. So
what a page of another site asks is refused: by the headers Origin and Sec-Fetch-Site, and, where nobody needs
a password, unless the server is called by a name of this machine, as no site's own name that leads here is.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import urlsplit

from kpg.security.passwords import NOBODY, Verifier
from kpg.server import logs
from kpg.server.web.connection import Refused, Request

LOCAL: Final = ("127.0.0.1", "::1", "localhost")
KNOWN: Final = 1000
"""So many passwords are known to be right, so that they need not be checked by the slow hash again."""


class Known(Protocol):
    """Verifiers by users' names."""

    def get(self, name: str, default: Verifier) -> Verifier:
        """That of a user, ``default`` for nobody."""


Users = Callable[[], Known | None]


class Guard:
    """Tells users by their requests."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, Verifier] = {}
        self._turn = asyncio.Semaphore(1)

    async def user_of(self, request: Request, *, secure: bool, address: str = "") -> str:
        """Who asks, from an address; Refused for nobody that may."""
        check_site(request, secure=secure, trusting=self._users() is None)
        users = self._users()
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        name, password = _pair(given) if kind.lower() == "basic" else ("", "")
        if users is None:
            return name or "kpg"
        if not name or not await self._fits(users.get(name, NOBODY), name, password):
            problem = "no user of that name and password" if name else "a user's name and password are needed"
            if name:  # without one a browser asks first whether it needs one
                logs.refused(name, address, f"{problem} (HTTP)")
            raise Refused(
                401,
                problem,
                headers=[("www-authenticate", 'Basic realm="kpg", charset="UTF-8"')],
            )
        return name

    async def _fits(self, verifier: Verifier, name: str, password: str) -> bool:
        mark = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if self._known.get(mark) == verifier:
            return True
        async with self._turn:  # a guesser has one processor at most, and no more than others
            right = await asyncio.to_thread(is_password, verifier, password)
        if right:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[mark] = verifier
        return right


def is_password(verifier: Verifier, password: str) -> bool:
    """Whether a password is the one of which that was kept."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), verifier.salt, verifier.rounds)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client).digest(), verifier.stored)


def _pair(given: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise Refused(400, "the header authorization cannot be read") from None
    return name, password


def check_site(request: Request, *, secure: bool, trusting: bool) -> None:
    """Refused for what a page of another site asks."""
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name is None or (trusting and name not in LOCAL):
        raise Refused(403, f"this server is not called {host!r}", hint="call it 127.0.0.1 or localhost")
    origin = request.headers.get("origin")
    own = f"{'https' if secure else 'http'}://{host}"
    if origin is not None and origin.lower() != own.lower():
        raise Refused(403, f"pages of {origin} may not ask this server")
    site = request.headers.get("sec-fetch-site", "none")
    navigates = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
    if site not in ("none", "same-origin") and not (navigates and request.path == "/"):
        raise Refused(403, "pages of other sites may not ask this server")
