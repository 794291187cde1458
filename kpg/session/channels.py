"""LISTEN and NOTIFY: a transaction's messages are delivered at its commit to the sessions that listen.

A rollback discards the messages, also a rollback to a savepoint. Within a transaction equal messages on the
same channel are delivered once. LISTEN and UNLISTEN take part in the transaction as well.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass
from kpg.session.notification_queue import report

LONGEST_NAME: Final = 63
LONGEST_PAYLOAD: Final = 7999
MOST_UNREAD: Final = 100_000
"""Messages that wait for a session that does not fetch them; the oldest give way."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a transaction said: the number of the session that said it, the channel and the text."""

    sender: int
    channel: str
    payload: str


@dataclass(frozen=True, slots=True)
class Act:
    """A part of a transaction, within so many savepoints: a Message, or LISTEN (True) or UNLISTEN."""

    depth: int
    channel: str
    payload: str | None = None
    listens: bool = False


class Mailbox:
    """One session's end of all channels."""

    def __init__(self, channels: "Channels", number: int = 0) -> None:
        self.number = number
        self.received: deque[Message] = deque(maxlen=MOST_UNREAD)
        self.told: Callable[[Message], object] | None = None
        """Whom to call instead of keeping messages; on the engine's thread."""
        self._channels = channels
        self._acts: list[Act] = []

    def __bool__(self) -> bool:
        """Whether a transaction has something to say."""
        return bool(self._acts)

    def notify(self, channel: str, payload: str, depth: int) -> None:
        """Say something at the commit; DataError if it cannot be said."""
        _check(channel)
        if len(payload.encode()) > LONGEST_PAYLOAD:
            raise DataError(f"payload string too long: {LONGEST_PAYLOAD} bytes at most")
        said = any(act.channel == channel and act.payload == payload for act in self._acts)
        if not said:
            self._acts.append(Act(depth, channel, payload))

    def listen(self, channel: str, depth: int) -> None:
        """Be told of what is said on a channel from the commit on."""
        _check(channel)
        self._acts.append(Act(depth, channel, listens=True))

    def unlisten(self, channel: str, depth: int) -> None:
        """Be told no more, from the commit on; of no channel if the name is empty."""
        self._acts.append(Act(depth, channel))

    def forget(self, depth: int) -> None:
        """Let be gone what was done within so many savepoints; 0: all."""
        self._acts = [act for act in self._acts if act.depth < depth]

    def release(self, depth: int) -> None:
        """Savepoints are gone, and what was done within them belongs to what is around them."""
        self._acts = [Act(min(act.depth, depth), act.channel, act.payload, act.listens) for act in self._acts]

    def commit(self) -> None:
        """Do everything that was to be done."""
        acts, self._acts = self._acts, []
        for act in acts:
            if act.payload is None:
                self._channels.listen(self, act.channel, listens=act.listens)
        for act in acts:
            if act.payload is not None:
                self._channels.tell(Message(self.number, act.channel, act.payload))

    def listening(self) -> list[str]:
        """The channels that it listens to."""
        return self._channels.of(self)

    def close(self) -> None:
        """Listen to nothing any more."""
        self._acts = []
        self._channels.listen(self, "", listens=False)


def _check(channel: str) -> None:
    if not channel:
        raise DataError("channel name cannot be empty")
    if len(channel.encode()) > LONGEST_NAME:
        raise DataError(f"channel name too long: {LONGEST_NAME} bytes at most")


class Channels:
    """Who listens to what."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[Mailbox, None]] = {}

    def listen(self, box: Mailbox, channel: str, *, listens: bool) -> None:
        """Have one listen to a channel, or no more; an empty name means all."""
        if listens:
            self._listeners.setdefault(channel, {})[box] = None
            return
        for name in [channel] if channel else list(self._listeners):
            found = self._listeners.get(name, {})
            found.pop(box, None)
            if not found:
                self._listeners.pop(name, None)

    def of(self, box: Mailbox) -> list[str]:
        """The channels that one listens to."""
        return [channel for channel, boxes in self._listeners.items() if box in boxes]

    def tell(self, message: Message) -> None:
        """Give a message to all who listen."""
        for box in list(self._listeners.get(message.channel, ())):
            if box.told is None:
                box.received.append(message)
                continue
            try:
                box.told(message)
            except Exception as error:  # the commit stands whoever cannot be told of it
                report(f"telling session {box.number} of channel {message.channel}", error)
