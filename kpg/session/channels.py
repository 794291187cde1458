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

MAX_NAME_BYTES: Final = 63
MAX_PAYLOAD_BYTES: Final = 7999
MAX_UNREAD: Final = 100_000
"""Messages that wait for a session that does not fetch them; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Message:
    """A notification: the number of the session that sent it, the channel and the text."""

    sender: int
    channel: str
    payload: str


@dataclass(frozen=True, slots=True)
class PendingAction:
    """A NOTIFY, LISTEN (``listens``) or UNLISTEN that takes effect at the commit.

    ``depth`` is the number of savepoints when it was issued.
    """

    depth: int
    channel: str
    payload: str | None = None
    listens: bool = False


class Mailbox:
    """One session's connection to all channels."""

    def __init__(self, channels: "Channels", number: int = 0) -> None:
        self.number = number
        self.inbox: deque[Message] = deque(maxlen=MAX_UNREAD)
        """Received messages that have not been read."""
        self.callback: Callable[[Message], object] | None = None
        """Receives each message on the engine's thread, instead of ``inbox``."""
        self._channels = channels
        self._actions: list[PendingAction] = []

    def __bool__(self) -> bool:
        """Whether the transaction has actions to commit."""
        return bool(self._actions)

    def notify(self, channel: str, payload: str, depth: int) -> None:
        """Send a message at the commit; DataError if the name or the payload is too long."""
        _check_name(channel)
        if len(payload.encode()) > MAX_PAYLOAD_BYTES:
            raise DataError(f"payload string too long: {MAX_PAYLOAD_BYTES} bytes at most")
        is_duplicate = any(act.channel == channel and act.payload == payload for act in self._actions)
        if not is_duplicate:
            self._actions.append(PendingAction(depth, channel, payload))

    def listen(self, channel: str, depth: int) -> None:
        """Receive messages on a channel from the commit on."""
        _check_name(channel)
        self._actions.append(PendingAction(depth, channel, listens=True))

    def unlisten(self, channel: str, depth: int) -> None:
        """Stop receiving from the commit on; an empty name means all channels."""
        self._actions.append(PendingAction(depth, channel))

    def discard(self, depth: int) -> None:
        """Discard the actions of savepoint ``depth`` and deeper; 0 discards all."""
        self._actions = [act for act in self._actions if act.depth < depth]

    def release(self, depth: int) -> None:
        """Merge the actions of savepoint ``depth`` and deeper into the enclosing savepoint (RELEASE)."""
        self._actions = [
            PendingAction(min(act.depth, depth), act.channel, act.payload, act.listens)
            for act in self._actions
        ]

    def commit(self) -> None:
        """Carry out the pending actions: first LISTEN and UNLISTEN, then NOTIFY."""
        acts, self._actions = self._actions, []
        for act in acts:
            if act.payload is None:
                self._channels.listen(self, act.channel, listens=act.listens)
        for act in acts:
            if act.payload is not None:
                self._channels.deliver(Message(self.number, act.channel, act.payload))

    def list_channels(self) -> list[str]:
        """Return the channels that this session listens to."""
        return self._channels.channels_of(self)

    def close(self) -> None:
        """Drop pending actions and stop listening."""
        self._actions = []
        self._channels.listen(self, "", listens=False)


def _check_name(channel: str) -> None:
    if not channel:
        raise DataError("channel name cannot be empty")
    if len(channel.encode()) > MAX_NAME_BYTES:
        raise DataError(f"channel name too long: {MAX_NAME_BYTES} bytes at most")


class Channels:
    """The listeners of each channel."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[Mailbox, None]] = {}

    def listen(self, mailbox: Mailbox, channel: str, *, listens: bool) -> None:
        """Start or stop listening to a channel; an empty name means all."""
        if listens:
            self._listeners.setdefault(channel, {})[mailbox] = None
            return
        for name in [channel] if channel else list(self._listeners):
            listeners = self._listeners.get(name, {})
            listeners.pop(mailbox, None)
            if not listeners:
                self._listeners.pop(name, None)

    def channels_of(self, mailbox: Mailbox) -> list[str]:
        """Return the channels that a mailbox listens to."""
        return [channel for channel, boxes in self._listeners.items() if mailbox in boxes]

    def deliver(self, message: Message) -> None:
        """Give a message to all listeners of its channel."""
        for mailbox in list(self._listeners.get(message.channel, ())):
            if mailbox.callback is None:
                mailbox.inbox.append(message)
                continue
            try:
                mailbox.callback(message)
            except Exception as error:  # a failing listener does not affect the commit
                report(f"telling session {mailbox.number} of channel {message.channel}", error)
