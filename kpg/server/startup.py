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

from kpg.compiler.catalog.privileges import DATABASE, Privileges, Role
from kpg.compiler.sql.parse.statements import Set
from kpg.execute.statements import execute
from kpg.postgres.passwords import (
    DUMMY_VERIFIER,
    MECHANISM,
    PLUS_MECHANISM,
    AuthenticationError,
    DowngradeError,
    ScramExchange,
    Verifier,
)
from kpg.runtime.errors import Error, Span
from kpg.runtime.types import TIMESTAMPTZ
from kpg.runtime.values import codec_of
from kpg.server import logs, messages
from kpg.server.interfaces import ClientConnection
from kpg.session.session_manager import SessionManager
from kpg.session.setting_values import role_settings

VERIFIER_PATTERN: Final = re.compile(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)")


class LoginVerifiers:
    """Verifiers by user name. ``first`` are those given at server start; roles provide the others."""

    def __init__(self, server_users: Mapping[str, Verifier], privileges: Privileges) -> None:
        self._server_users = server_users
        self._privileges = privileges

    def get(self, name: str, default: Verifier) -> Verifier:
        """Return the verifier of a user; ``default`` if the user cannot log in with a password."""
        found = self._server_users.get(name)
        if found is not None:
            return found
        role = self._privileges.find_role(name)
        if role is None or not role.logs_in or is_password_expired(role):
            return default
        return parse_verifier(role.password) or default


def parse_verifier(text: str) -> Verifier | None:
    """Parse a verifier in Postgres' format; None if it is malformed."""
    found = VERIFIER_PATTERN.fullmatch(text)
    if found is None:
        return None
    salt, stored, server = (base64.b64decode(found[part]) for part in (2, 3, 4))
    return Verifier(salt, int(found[1]), stored, server)


def is_password_expired(role: Role) -> bool:
    """Return whether the password of a role has expired."""
    if not role.until:
        return False
    try:
        expiration: int = codec_of(TIMESTAMPTZ).parse(role.until)
    except (ValueError, ArithmeticError):
        return True  # a database folder may hold an unchecked text
    return expiration <= int(datetime.now(UTC).timestamp() * 1_000_000)


def role_refusal(
    privileges: Privileges, name: str, *, is_authenticated: bool = False
) -> tuple[str, str] | None:
    """Return the SQLSTATE and message if a role may not log in; None if it may.

    ``is_authenticated``: a password was checked, so that the role need not exist.
    """
    role = privileges.find_role(name)
    if role is None and not is_authenticated:
        return "28000", f'role "{name}" does not exist'
    if role is not None and not role.logs_in:
        return "28000", f'role "{name}" is not permitted to log in'
    return None


IGNORED_PARAMETERS: Final = ("user", "database", "replication", "options", "client_encoding")
"""Parameters of the startup message that are not settings."""
MAINTENANCE_DATABASE: Final = "postgres"
"""The database that tools connect to by default.

There is one database. It also answers to this name and to any user's name, which drivers use if no
database is given.
"""
LOGIN_TIMEOUT: Final = 60.0
"""Seconds for a client to log in, as in Postgres."""


class LoginClient(Protocol):
    """The client's interface to the login."""

    startup_settings: dict[str, str]
    """Settings of the startup message."""
    end_point: bytes
    """Hash of the certificate of the TLS channel; empty without TLS."""

    @property
    def address(self) -> str:
        """The client's network address."""

    def send(self, data: bytes) -> None:
        """Buffer bytes, which are sent before the next message is read."""

    def flush(self) -> Awaitable[None]:
        """Send the buffered bytes, and wait until the client has received most of them."""

    def receive(self) -> Awaitable[Any]:
        """Return the client's next message."""

    def set_phase(self, phase: Phase) -> None:
        """Set the protocol phase, which decides the messages that are expected."""

    def start_tls(self) -> Awaitable[None]:
        """Switch the connection to TLS."""

    def open_session(self, user: str) -> None:
        """Open the session of a user who has logged in."""


class LoginServer(Protocol):
    """The server's interface to the login."""

    session_manager: SessionManager
    tls: ssl.SSLContext | None
    users: LoginVerifiers | None
    """Verifiers of passwords; None if no password is required."""

    def connection_refusal(self, user: str) -> str:
        """Return why another connection of a user exceeds a limit; empty if it does not."""

    def cancel(self, number: int, secret: bytes) -> None:
        """Cancel a client's statement, if the secret is the client's."""


class Login:
    """Start-up phase of one client."""

    def __init__(self, client: LoginClient, server: LoginServer) -> None:
        self._client = client
        self._server = server
        self._user = ""
        """User name of the startup message."""
        self._database = ""

    async def run(self) -> str | None:
        """Return the name of the user who has logged in; None if the login failed."""
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT):
                user = await self._startup()
                if user is not None and await self._authenticate(user) and self._admit(user):
                    return user
        except TimeoutError:
            logs.log_failed_login(self._user, self._client.address, f"no login within {LOGIN_TIMEOUT:g} s")
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
                        await client.start_tls()
                case wire.GSSEncRequest():
                    client.send(b"N")
                case wire.CancelRequest(process_id=number, secret_key=secret):
                    self._server.cancel(number, secret)
                    return None
                case wire.StartupMessage(params=params):
                    self._user = str(params.get("user", ""))
                    if not self._user:
                        self._reject("28000", "no PostgreSQL user name specified in startup packet")
                        return None
                    self._database = str(params.get("database") or self._user)
                    client.startup_settings = parse_options(str(params.get("options", "")))
                    client.startup_settings |= {
                        str(name): str(value)
                        for name, value in params.items()
                        if name not in IGNORED_PARAMETERS
                    }
                    return self._user
                case _:
                    return None
            await client.flush()

    def _admit(self, user: str) -> bool:
        """Open the user's session, or reject the login. Returns whether the session is open.

        It does not await, so that the connection limits hold.
        """
        server = self._server
        problem = role_refusal(
            server.session_manager.engine.catalog.privileges, user, is_authenticated=server.users is not None
        )
        if problem is None and self._database not in (DATABASE, user, MAINTENANCE_DATABASE):
            problem = "3D000", f'database "{self._database}" does not exist'
        if problem is None and (full := server.connection_refusal(user)):
            problem = "53300", full
        if problem is not None:
            self._reject(*problem)
            return False
        self._client.open_session(user)
        return True

    def _reject(self, sqlstate: str, message: str) -> None:
        """Report a failed login to the client and the log."""
        logs.log_failed_login(self._user, self._client.address, message)
        self._client.send(messages.protocol_error(sqlstate, message))

    async def _authenticate(self, user: str) -> bool:
        client, users = self._client, self._server.users
        if users is None:
            return True
        client.set_phase(Phase.AUTHENTICATING_SASL_INITIAL)
        mechanisms = [PLUS_MECHANISM, MECHANISM] if client.end_point else [MECHANISM]
        client.send(wire.AuthenticationSASL(mechanisms=mechanisms).to_wire())
        await client.flush()
        try:
            first = await client.receive()
            if not isinstance(first, wire.SASLInitialResponse) or first.mechanism not in mechanisms:
                raise AuthenticationError
            binds_channel = first.mechanism == PLUS_MECHANISM
            exchange = ScramExchange(
                users.get(user, DUMMY_VERIFIER), client.end_point, binds_channel=binds_channel
            )
            client.send(wire.AuthenticationSASLContinue(data=exchange.challenge(bytes(first.data))).to_wire())
            await client.flush()
            client.set_phase(Phase.AUTHENTICATING_SASL_CONTINUE)
            last = await client.receive()
            if not isinstance(last, wire.SASLResponse):
                raise AuthenticationError
            client.send(wire.AuthenticationSASLFinal(data=exchange.finish(bytes(last.data))).to_wire())
        except DowngradeError:
            self._reject("28000", "SCRAM channel binding negotiation error")
            await client.flush()
            return False
        except AuthenticationError:
            self._reject("28P01", f'password authentication failed for user "{user}"')
            await client.flush()
            return False
        return True


def parse_options(text: str) -> dict[str, str]:
    """Parse the settings of ``options``: ``-c name=value`` or ``--name=value``; a backslash quotes."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", text)]
    settings: dict[str, str] = {}
    for previous, word in zip(["", *words], words, strict=False):
        name, equals, value = word.removeprefix("--" if word.startswith("--") else "-c").partition("=")
        if equals and (previous == "-c" or word.startswith(("--", "-c"))):
            settings[name.replace("-", "_")] = value
    return settings


class ParameterStatus:
    """Applies a client's settings and reports them by ParameterStatus messages."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._reported: dict[str, str] = {}
        """Values that the client knows."""

    async def apply_settings(self, settings: dict[str, str]) -> None:
        """Apply the role's settings and those of the startup message. Invalid ones are ignored."""
        client = self._client
        assert client.session is not None
        role = client.server.session_manager.engine.catalog.privileges.find_role(client.session.asker.login)
        for name, value in (dict(role.settings if role is not None else ()) | settings).items():
            statement = Set(name.lower(), (value,), Span("", 0, 0))
            with contextlib.suppress(Error):
                await client.run_with_engine(lambda engine, wish=statement: execute(engine, wish))  # type: ignore[misc]

    def report(self) -> None:
        """Send the settings whose values differ from those that the client knows."""
        client = self._client
        assert client.session is not None
        catalog = client.server.session_manager.engine.catalog
        current = client.session.settings | role_settings(client.session.asker, catalog.privileges)
        for name, value in client.server.settings.items():
            new_value = current.get(name.lower(), value)
            if self._reported.get(name) != new_value:
                self._reported[name] = new_value
                client.send(messages.parameter_status(name, new_value))
