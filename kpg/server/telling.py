"""What a client is told of settings: those that it came with are set, and those that change are sent."""

import contextlib
from typing import TYPE_CHECKING

from kpg.compiler.sql.parse.statements import Set
from kpg.runtime.errors import Error, Span
from kpg.server import replies
from kpg.settings.settings import of_asker, run_session
from kpg.statements.statements import execute

if TYPE_CHECKING:
    from kpg.server.client import Client


class Telling:
    """The settings of one client."""

    def __init__(self, client: "Client") -> None:
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
                await client.engine(lambda engine, wish=wish: run_session(engine, wish, execute))  # type: ignore[misc]

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
                client.send(replies.setting(name, now))
