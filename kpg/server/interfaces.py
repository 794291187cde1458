"""Interfaces between the parts of a connection, its client and the server.

``client.Client`` and ``listener.Server`` implement them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from pygwire import ConnectionPhase as Phase

from kpg.server.batched_inserts import Forms
from kpg.server.logs import Limits
from kpg.server.portal import Portal
from kpg.session.engine import Engine
from kpg.session.engine_thread import Turns
from kpg.session.session import Session
from kpg.session.session_manager import Hub

Given = TypeVar("Given")


class Services(Protocol):
    """A server's services to its connections."""

    hub: Hub
    limits: Limits
    turns: Turns
    forms: Forms
    settings: dict[str, str]
    """Settings that clients are told of, with their values at first."""

    def look_after(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task of the server."""

    def look(self, work: Callable[[Engine], Given]) -> Awaitable[Given]:
        """Read something of the engine between statements."""

    def look_as(self, session: Session, work: Callable[[Engine], object]) -> Awaitable[None]:
        """Read something of the engine between statements, with a session's rights."""


class ClientConnection(Protocol):
    """A client: its session, its messages, and how its statements run."""

    session: Session | None
    busy: bool
    """Whether a request is being done or answered."""
    canceled: asyncio.Event
    """Set when the client cancels a subscription."""

    @property
    def server(self) -> Services:
        """The server's services."""

    def send(self, data: bytes) -> None:
        """Send with what follows, before the next message is waited for."""

    def flush(self) -> Awaitable[None]:
        """Send what is to be sent, and wait until the client has taken most of it."""

    def receive(self) -> Awaitable[Any]:
        """Return the client's next message."""

    def phase(self, phase: Phase) -> None:
        """Set which messages are expected."""

    def ends_here(self) -> bool:
        """Return whether Sync alone is known to follow the request's last Execute."""

    def check_there(self) -> None:
        """Raise an error if the client has closed its end."""

    def check_canceled(self) -> None:
        """Raise CanceledError if the client has canceled its statement."""

    def give_way(self) -> Awaitable[None]:
        """Between two pieces of a result, wait for the client and let other clients run."""

    def engine(self, work: Callable[[Engine], Given], **flags: Any) -> Awaitable[Given]:
        """Run something with the engine when it is the session's turn."""

    def apart(self, size: int, work: Callable[[], Given]) -> Awaitable[Given]:
        """Run something without the engine, on a thread of its own if its ``size`` is large."""

    def perform(self, portal: Portal, *, joins: bool = False) -> Awaitable[None]:
        """Run a portal's statement, if it has not run; ``joins``: in one transaction with what comes next."""

    def send_rows(self, portal: Portal, most: int) -> Awaitable[int]:
        """Send up to ``most`` rows (0: all) of a portal, and return how many."""
