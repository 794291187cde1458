"""Messages on their way to one client: put in on the engine's thread, taken out on the connections'.

So many bytes may wait and no more; then nothing is taken in any longer, and the client is cut off. It holds
back nobody but itself.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from kpg.server.spool import Spool

MOST_WAITING: Final = 1 << 26
"""Bytes of changes that may wait for a client before it is cut off, besides what its connection takes."""
AT_ONCE: Final = 1 << 20
"""Bytes after which no more messages are taken in one go."""


class Overflow(Exception):
    """The client was too slow."""


class Outbox:
    """What waits for one client. Each of the two counters of bytes is changed by one thread only."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes | Spool] = deque()
        self._came = asyncio.Event()
        self._woken = False
        self._in = 0
        self._out = 0
        self.overflown = False

    def put(self, message: bytes) -> None:
        """Have a message be sent, if that is not too much; from any one thread."""
        if self.overflown:
            return
        self._in += len(message)
        if self._in - self._out > MOST_WAITING:
            self.overflown = True
        else:
            self._waiting.append(message)
        self._wake()

    def put_all(self, messages: Iterable[bytes]) -> None:
        """Have messages be sent however many they are; from that thread."""
        if not self.overflown:
            self._waiting.append(Spool(messages))
            self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._came.set)

    async def take(self, patience: float) -> list[bytes]:
        """Some of what has come, at least one message; none if none has come in so many seconds.

        Overflow, once all that was put in before has been taken.
        """
        if not self._waiting and not self.overflown:
            self._came.clear()
            self._woken = False
            if not self._waiting and not self.overflown:
                try:
                    async with asyncio.timeout(patience):
                        await self._came.wait()
                except TimeoutError:
                    return []
        found, size = list[bytes](), 0
        while self._waiting and size < AT_ONCE:
            message = self._next()
            if message is not None:
                found.append(message)
                size += len(message)
        if not found and self.overflown:
            raise Overflow
        return found

    def _next(self) -> bytes | None:
        """A message; None at the end of a spool."""
        first = self._waiting[0]
        message: bytes | None = first.next() if isinstance(first, Spool) else first
        if message is None or message is first:
            self._waiting.popleft()
        if message is not None and message is first:
            self._out += len(message)
        return message
