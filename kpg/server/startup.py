"""Start-up phase of a connection: TLS, cancel requests, authentication and parameter status.

Users with a password given at server start, and roles with a password, may log in. Settings from the startup
message are applied to the session. Changed settings are reported to the client as ParameterStatus messages.
"""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from pygwire import ConnectionPhase as Phase
from pygwire import messages as wire

from kpg.compiler.catalog.privileges import DATABASE, Rights, Role
from kpg.compiler.sql.parse.statements import Set
from kpg.execute.statements import execute
from kpg.postgres.passwords import MECHANISM, NOBODY, PLUS, Denied, Downgraded, Exchange, Verifier
from kpg.runtime.errors import Error, Span
from kpg.runtime.types import TIMESTAMPTZ
from kpg.runtime.values import codec_of
from kpg.server import logs, messages
from kpg.server.interfaces import ClientConnection
from kpg.session.session_manager import Hub
from kpg.session.setting_values import of_asker

FORM: Final = re.compile(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)")


class People:
    """Verifiers by users' names; ``first`` are those of the server's start."""

    def __init__(self, first: Mapping[str, Verifier], rights: Rights) -> None:
        self._first = first
        self._rights = rights

    def get(self, name: str, default: Verifier) -> Verifier:
        """The verifier of a user; ``default``, which nobody's password fits, for those who have none."""
        found = self._first.get(name)
        if found is not None:
            return found
        role = self._rights.find(name)
        if role is None or not role.logs_in or is_past(role):
            return default
        return verifier_in(role.password) or default


def verifier_in(text: str) -> Verifier | None:
    """The verifier that Postgres' text of one says."""
    found = FORM.fullmatch(text)
    if found is None:
        return None
    salt, stored, server = (base64.b64decode(found[part]) for part in (2, 3, 4))
    return Verifier(salt, int(found[1]), stored, server)


def is_past(role: Role) -> bool:
    """Whether the password of a role is no good any more."""
    if not role.until:
        return False
    try:
        until: int = codec_of(TIMESTAMPTZ).parse(role.until)
    except (ValueError, ArithmeticError):
        return True  # of a folder into which any text was taken: nobody knows until when
    return until <= int(datetime.now(UTC).timestamp() * 1_000_000)


def refused(rights: Rights, name: str, *, known: bool = False) -> tuple[str, str] | None:
    """Why a role may not come in, whoever it is: a SQLSTATE and a message.

    ``known``: it is one that has shown a password, and need not be a role.
    """
    role = rights.find(name)
    if role is None and not known:
        return "28000", f'role "{name}" does not exist'
    if role is not None and not role.logs_in:
        return "28000", f'role "{name}" is not permitted to log in'
    return None


PEOPLE: Final = ("user", "database", "replication", "options", "client_encoding")
"""What a client says as it begins that is no setting, or is no other here."""
MAINTENANCE: Final = "postgres"
"""The database that tools connect to for what is of no database. There is one only, which has this name, too,
and that of any user, which libpq and other drivers take if none is given."""
PATIENCE: Final = 60.0
"""Seconds that a client has to log in, as in Postgres."""


class LoginClient(Protocol):
    """What the first messages need of a client."""

    wanted: dict[str, str]
    """Settings that the client comes with."""
    end_point: bytes
    """The hash of the certificate of the TLS channel; empty without TLS."""

    @property
    def address(self) -> str:
        """The client's network address."""

    def send(self, data: bytes) -> None:
        """Send with what follows, before the next message is waited for."""

    def flush(self) -> Awaitable[None]:
        """Send what is to be sent, and wait until the client has taken most of it."""

    def receive(self) -> Awaitable[Any]:
        """Return the client's next message."""

    def phase(self, phase: Phase) -> None:
        """Set which messages are expected."""

    def secure(self) -> Awaitable[None]:
        """Switch the connection to TLS."""

    def admit(self, user: str) -> None:
        """Open the session of a user who has logged in."""


class LoginServer(Protocol):
    """What the first messages need of the server."""

    hub: Hub
    tls: ssl.SSLContext | None
    users: People | None
    """Who may come in with a password; None: anybody."""

    def refused(self, user: str) -> str:
        """Return why one client more of a user is too many; empty if it is not."""

    def cancel(self, number: int, secret: bytes) -> None:
        """Cancel a client's statement, if the secret is the client's."""


class Login:
    """The first messages of one client."""

    def __init__(self, client: LoginClient, server: LoginServer) -> None:
        self._client = client
        self._server = server
        self._user = ""
        """Who the client says that it is."""
        self._database = ""

    async def run(self) -> str | None:
        """The name of the user who has logged in; None if nobody has."""
        try:
            async with asyncio.timeout(PATIENCE):
                user = await self._startup()
                if user is not None and await self._authenticated(user) and self._comes(user):
                    return user
        except TimeoutError:
            logs.refused(self._user, self._client.address, f"it has not logged in within {PATIENCE:g} s")
        return None

    async def _startup(self) -> str | None:
        client = self._client
        while True:
            match await client.receive():
                case wire.SSLRequest():
                    if self._server.tls is None:
                        client.send(b"N")
                    else:
                        client.send(b"S")
                        await client.flush()
                        await client.secure()
                case wire.GSSEncRequest():
                    client.send(b"N")
                case wire.CancelRequest(process_id=number, secret_key=secret):
                    self._server.cancel(number, secret)
                    return None
                case wire.StartupMessage(params=params):
                    self._user = str(params.get("user", ""))
                    if not self._user:
                        self._refuse("28000", "no user name was given")
                        return None
                    self._database = str(params.get("database") or self._user)
                    client.wanted = options_of(str(params.get("options", "")))
                    client.wanted |= {
                        str(name): str(value) for name, value in params.items() if name not in PEOPLE
                    }
                    return self._user
                case _:
                    return None
            await client.flush()

    def _comes(self, user: str) -> bool:
        """Let a user in who may come; else say why not.

        Nobody else has his turn between the looking and the letting in: who is let in has been counted.
        """
        server = self._server
        problem = refused(server.hub.engine.catalog.rights, user, known=server.users is not None)
        if problem is None and self._database not in (DATABASE, user, MAINTENANCE):
            problem = "3D000", f'database "{self._database}" does not exist'
        if problem is None and (full := server.refused(user)):
            problem = "53300", full
        if problem is not None:
            self._refuse(*problem)
            return False
        self._client.admit(user)
        return True

    def _refuse(self, code: str, message: str) -> None:
        """Tell the client, and the log, that it does not come in."""
        logs.refused(self._user, self._client.address, message)
        self._client.send(messages.refusal(code, message))

    async def _authenticated(self, user: str) -> bool:
        client, users = self._client, self._server.users
        if users is None:
            return True
        client.phase(Phase.AUTHENTICATING_SASL_INITIAL)
        offered = [PLUS, MECHANISM] if client.end_point else [MECHANISM]
        client.send(wire.AuthenticationSASL(mechanisms=offered).to_wire())
        await client.flush()
        try:
            first = await client.receive()
            if not isinstance(first, wire.SASLInitialResponse) or first.mechanism not in offered:
                raise Denied
            plus = first.mechanism == PLUS
            exchange = Exchange(users.get(user, NOBODY), client.end_point, plus=plus)
            client.send(wire.AuthenticationSASLContinue(data=exchange.challenge(bytes(first.data))).to_wire())
            await client.flush()
            client.phase(Phase.AUTHENTICATING_SASL_CONTINUE)
            last = await client.receive()
            if not isinstance(last, wire.SASLResponse):
                raise Denied
            client.send(wire.AuthenticationSASLFinal(data=exchange.finish(bytes(last.data))).to_wire())
        except Downgraded:
            self._refuse("28000", "SCRAM channel binding negotiation error")
            await client.flush()
            return False
        except Denied:
            self._refuse("28P01", f'password authentication failed for user "{user}"')
            await client.flush()
            return False
        return True


def options_of(text: str) -> dict[str, str]:
    """The settings of a server's command line: ``-c name=value``, ``--name=value``; a backslash quotes."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", text)]
    found: dict[str, str] = {}
    for before, word in zip(["", *words], words, strict=False):
        name, equals, value = word.removeprefix("--" if word.startswith("--") else "-c").partition("=")
        if equals and (before == "-c" or word.startswith(("--", "-c"))):
            found[name.replace("-", "_")] = value
    return found


class Telling:
    """The settings of one client."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._shown: dict[str, str] = {}
        """Settings that it has been told."""

    async def settle(self, wanted: dict[str, str]) -> None:
        """Set what the client came with; what is unknown here is let be, as it asks for nothing by itself."""
        client = self._client
        assert client.session is not None
        role = client.server.hub.engine.catalog.rights.find(client.session.asker.login)
        for name, value in (dict(role.settings if role is not None else ()) | wanted).items():
            wish = Set(name.lower(), (value,), Span("", 0, 0))
            with contextlib.suppress(Error):
                await client.engine(lambda engine, wish=wish: execute(engine, wish))  # type: ignore[misc]

    def tell(self) -> None:
        """Tell the settings that have another value than the client knows."""
        client = self._client
        assert client.session is not None
        catalog = client.server.hub.engine.catalog
        given = client.session.settings | of_asker(client.session.asker, catalog.rights)
        for name, value in client.server.settings.items():
            now = given.get(name.lower(), value)
            if self._shown.get(name) != now:
                self._shown[name] = now
                client.send(messages.setting(name, now))
