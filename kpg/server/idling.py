"""Clients that do nothing for too long: ``idle_session_timeout``, ``idle_in_transaction_session_timeout``."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from kpg.engine.transaction import State
from kpg.settings.limits import seconds_of

if TYPE_CHECKING:
    from kpg.server.client import Client
    from kpg.server.listen import Server

SELDOM: Final = 1.0
OFTEN: Final = 0.05
"""Seconds between two looks: while no client has a limit, and while one has."""
LIMITS: Final = {
    "idle_session_timeout": ("57P05", "terminating connection due to idle-session timeout"),
    "idle_in_transaction_session_timeout": (
        "25P03",
        "terminating connection due to idle-in-transaction timeout",
    ),
}
"""What is said as the connection is closed."""


async def look_after_idle(server: "Server") -> None:
    """Close connections that have been idle for longer than they may, until it is cancelled."""
    seen: dict[Client, tuple[int, float]] = {}
    while True:
        limited = [client for client in server.clients.values() if limit_of(client)[0]]
        for client in [one for one in seen if one not in limited]:
            del seen[client]
        now = time.monotonic()
        for client in limited:
            rests, since = seen.setdefault(client, (client.rests, now))
            seconds, name = limit_of(client)
            if client.busy or client.rests != rests:
                seen[client] = (client.rests, now)
            elif now - since >= seconds:
                client.dismiss(*LIMITS[name])
        await asyncio.sleep(OFTEN if limited else SELDOM)


def limit_of(client: "Client") -> tuple[float, str]:
    """How long a client may be idle as it is now, 0 for ever, and the setting that says so."""
    session = client.session
    if session is None:
        return 0.0, ""
    idle = session.transactions.state is State.NONE
    name = "idle_session_timeout" if idle else "idle_in_transaction_session_timeout"
    text = session.settings.get(name)
    return (seconds_of(text) if text else 0.0), name
