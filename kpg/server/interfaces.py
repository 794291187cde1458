"""Interfaces between the parts of a connection, its client and the server.

``client.Client`` and ``listener.Server`` implement them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from pygwire import ConnectionPhase as Phase

from kpg.server.batched_inserts import BatchReader
from kpg.server.logs import Limits
from kpg.server.portal import Portal
from kpg.session.engine import Engine
from kpg.session.engine_thread import EngineThread
from kpg.session.session import Session
from kpg.session.session_manager import SessionManager

Given = TypeVar("Given")


class Services(Protocol):
    """A server's services to its connections."""

    session_manager: SessionManager
    limits: Limits
    engine_thread: EngineThread
    batch_reader: BatchReader
    settings: dict[str, str]
    """Settings that are reported to clients, with their initial values."""

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task of the server."""

    def read_engine(self, work: Callable[[Engine], Given]) -> Awaitable[Given]:
        """Run a function that only reads the engine, between statements."""

    def read_engine_as(self, session: Session, work: Callable[[Engine], object]) -> Awaitable[None]:
        """Run a function that only reads the engine, between statements, with a session's privileges."""


class ClientConnection(Protocol):
    """A client: its session, its messages, and the execution of its statements."""

    session: Session | None
    busy: bool
    """Whether a request is running or its reply is being sent."""
    canceled: asyncio.Event
    """Set when the client cancels a subscription."""

    @property
    def server(self) -> Services:
        """The server's services."""

    def send(self, data: bytes) -> None:
        """Buffer bytes, which are sent before the next message is read."""

    def flush(self) -> Awaitable[None]:
        """Send the buffered bytes, and wait until the client has received most of them."""

    def receive(self) -> Awaitable[Any]:
        """Return the client's next message."""

    def set_phase(self, phase: Phase) -> None:
        """Set the protocol phase, which decides the messages that are expected."""

    def is_followed_by_sync(self) -> bool:
        """Return whether the received messages show that only Sync follows the request's last Execute."""

    def check_connected(self) -> None:
        """Raise an error if the client has closed its end."""

    def check_canceled(self) -> None:
        """Raise CanceledError if the client has canceled its statement."""

    def yield_between_chunks(self) -> Awaitable[None]:
        """Wait for the client and let other clients run, between two chunks of a result."""

    def run_with_engine(self, work: Callable[[Engine], Given], **flags: Any) -> Awaitable[Given]:
        """Run a function with the engine when it is the session's turn."""

    def run_without_engine(self, size: int, work: Callable[[], Given]) -> Awaitable[Given]:
        """Run a function without the engine, on a separate thread if its ``size`` is large."""

    def run_portal(self, portal: Portal, *, joins: bool = False) -> Awaitable[None]:
        """Run a portal's statement unless it has run; ``joins``: in one transaction with later statements."""

    def send_rows(self, portal: Portal, limit: int) -> Awaitable[int]:
        """Send up to ``limit`` rows (0: all) of a portal, and return their number."""
