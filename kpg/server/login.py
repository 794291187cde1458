"""How a client begins: TLS, cancel requests, who it is, and its password."""

import asyncio
import re
from typing import TYPE_CHECKING, Final

from pygwire import ConnectionPhase as Phase
from pygwire import messages as wire

from kpg.compiler.catalog.privileges import DATABASE
from kpg.security.passwords import MECHANISM, NOBODY, PLUS, Denied, Downgraded, Exchange
from kpg.server import logs, replies
from kpg.server.people import refused

if TYPE_CHECKING:
    from kpg.server.client import Client
    from kpg.server.listen import Server

PEOPLE: Final = ("user", "database", "replication", "options", "client_encoding")
"""What a client says as it begins that is no setting, or is no other here."""
MAINTENANCE: Final = "postgres"
"""The database that tools connect to for what is of no database. There is one only, which has this name, too,
and that of any user, which libpq and other drivers take if none is given."""
PATIENCE: Final = 60.0
"""Seconds that a client has to log in, as in Postgres."""


class Login:
    """The first messages of one client."""

    def __init__(self, client: "Client", server: "Server") -> None:
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
        self._client.send(replies.refusal(code, message))

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
