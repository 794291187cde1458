"""Cursors over subscriptions: a client fetches the changes of a view in portions.

    DECLARE name CURSOR FOR SUBSCRIBE [TO] view [WITH (...)] [AS OF epoch]
    FETCH [FORWARD] [count | ALL] [FROM] name [WITH (TIMEOUT = '1s')]
    CLOSE name

A cursor lives until its transaction ends. FETCH returns the rows at hand, up to ``count`` (default 1), and
waits for the first row if there is none. With TIMEOUT it waits up to that long for ``count`` rows.
"""

import asyncio
import re
from collections import deque
from typing import Any, Final

from pygwire import messages as wire

from kpg.api.view import MaintainedView
from kpg.compiler.sql.frontend import check_relation
from kpg.runtime.errors import CanceledError, OperationalError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.runtime.values import codec_of
from kpg.server import messages
from kpg.server import subscribe as subscribing
from kpg.server.binary_format import binary_writer, text_writer
from kpg.server.interfaces import ClientConnection
from kpg.server.portal import expand_formats
from kpg.server.subscribe import NAME_PATTERN, Subscribe
from kpg.session.engine import Engine
from kpg.session.setting_values import DURATION, parse_duration
from kpg.session.subscriptions import Change, Subscription
from kpg.session.transaction import State

DECLARE: Final = re.compile(
    rf"\s*declare\s+(?P<name>{NAME_PATTERN})\s+(?:(?:no\s+scroll|insensitive|asensitive|scroll)\s+)*cursor\s+"
    r"(?:without\s+hold\s+)?for\s+(?P<rest>subscribe\b.*)",
    re.IGNORECASE | re.DOTALL,
)
FETCH: Final = re.compile(
    rf"""\s*fetch\s+(?:forward\s+|next\s+)?(?:(?P<count>\d+|all)\s+)?(?:(?:from|in)\s+)?(?P<name>{NAME_PATTERN})
    (?:\s*with\s*\(\s*timeout\s*=?\s*(?P<time>'[^']*'|\d+)\s*\))?\s*;?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
CLOSE: Final = re.compile(rf"\s*close\s+(?P<name>{NAME_PATTERN})\s*;?\s*", re.IGNORECASE)
MAX_PENDING_ROWS: Final = 1_000_000
"""Rows that may wait for a client before its cursor is closed."""
CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of a waiting FETCH whether the client is connected and the view exists."""


@dataclass(frozen=True, slots=True)
class CursorCommand:
    """DECLARE if ``subscribe`` is set, FETCH of ``limit`` rows if that is set, else CLOSE."""

    name: str
    subscribe: Subscribe | None = None
    limit: int | None = None
    timeout: float | None = None


class SubscriptionCursor:
    """The pending changes of a view: received on the engine's thread, appended on the event loop's."""

    def __init__(self, statement: Subscribe, loop: asyncio.AbstractEventLoop) -> None:
        self._statement = statement
        self._loop = loop
        self._subscription: Subscription | None = None
        self._view: MaintainedView | None = None
        self.rows: deque[tuple[Any, ...]] = deque()
        self.arrival = asyncio.Event()
        self.last_check = loop.time()
        self.sends_progress = statement.progress
        self.has_overflowed = False
        """Whether too many rows were pending."""
        self.names: tuple[str, ...] = ()
        self.types: tuple[Type, ...] = ()

    def open(self, engine: Engine) -> None:
        """Subscribe to the view, on the engine's thread."""
        check_relation(engine.catalog, self._statement.view)
        view = engine.view(self._statement.view)
        shape = subscribing.shape_of(engine, self._statement)
        assert shape is not None
        self.names, self.types = shape
        self._view = view
        subscribing.send_initial_rows(view, self._statement, self._receive_changes)
        if self._statement.progress:
            self.send_progress(engine)
        self._subscription = view.feed.subscribe(self._receive_changes)

    def check(self, engine: Engine) -> None:
        """Check that the view exists and may be read, on the engine's thread."""
        subscribing.check_view(engine, self._view, self._statement.view)

    def send_progress(self, engine: Engine) -> None:
        """Append a progress row, on the engine's thread."""
        self._loop.call_soon_threadsafe(self._append, [subscribing.progress_row(engine, self.types)])

    def close(self, _: Engine) -> None:
        """End the subscription, on the engine's thread."""
        if self._subscription is not None:
            self._subscription.close()

    def _receive_changes(self, changes: list[Change]) -> None:
        if changes:
            rows = list(subscribing.subscription_rows(self._statement, changes))
            self._loop.call_soon_threadsafe(self._append, rows)

    def _append(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows.extend(rows)
        if len(self.rows) > MAX_PENDING_ROWS:
            self.has_overflowed = True
            self.rows.clear()
            if self._subscription is not None:
                self._subscription.close()
        self.arrival.set()

    def encode_rows(self, rows: list[tuple[Any, ...]], formats: list[int]) -> list[tuple[bytes | None, ...]]:
        """Return rows as fields."""
        writers = [
            (codec_of(type_).from_python, binary_writer(type_) if form else text_writer(type_))
            for type_, form in zip(self.types, formats, strict=True)
        ]
        return [
            tuple(
                None if value is None else write(encode(value))
                for value, (encode, write) in zip(row, writers, strict=True)
            )
            for row in rows
        ]


class SubscriptionCursors:
    """One client's cursors over subscriptions."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._cursors: dict[str, SubscriptionCursor] = {}
        self._prepared: dict[str, CursorCommand] = {}
        self._portals: dict[str, tuple[CursorCommand, tuple[int, ...]]] = {}

    def parse_command(self, text: str) -> CursorCommand | None:
        """Parse a statement about a subscription cursor; None for another statement."""
        start = text.lstrip()[:7].lower()
        if start == "declare" and (found := DECLARE.fullmatch(text)) is not None:
            subscribe = subscribing.parse_subscribe(found["rest"])
            return None if subscribe is None else CursorCommand(_fold_name(found["name"]), subscribe)
        if not self._cursors:
            return None
        if start.startswith("fetch") and (found := FETCH.fullmatch(text)) is not None:
            name, count = _fold_name(found["name"]), (found["count"] or "1").lower()
            if name in self._cursors:
                limit = MAX_PENDING_ROWS if count == "all" else int(count)
                return CursorCommand(name, None, limit, _parse_timeout(text, found["time"]))
        if start.startswith("close") and (found := CLOSE.fullmatch(text)) is not None:
            name = _fold_name(found["name"])
            return CursorCommand(name) if name in self._cursors else None
        return None

    async def handle_query(self, text: str) -> bool:
        """Run a Query that is about a subscription cursor; False for another statement."""
        command = self.parse_command(text)
        if command is None:
            return False
        if command.limit is not None:
            self._describe(command, ())
        self._client.send(await self._run_command(command, ()))
        return True

    async def handle_message(self, message: object) -> bool:
        """Handle an extended protocol message that is about a subscription cursor; False for another one."""
        match message:
            case wire.Parse(query=text, statement=name) if (command := self.parse_command(text)) is not None:
                self._prepared[name] = command
                self._client.send(messages.PARSE_COMPLETE)
            case wire.Parse(statement=name):
                self._prepared.pop(name, None)
                return False
            case wire.Bind(statement=name, portal=portal) if name in self._prepared:
                self._portals[portal] = self._prepared[name], tuple(message.result_formats)
                self._client.send(messages.BIND_COMPLETE)
            case wire.Bind(portal=portal):
                self._portals.pop(portal, None)
                return False
            case wire.Describe(kind="S", name=name) if name in self._prepared:
                self._client.send(wire.ParameterDescription(type_oids=[]).to_wire())
                self._describe(self._prepared[name], ())
            case wire.Describe(kind="P", name=name) if name in self._portals:
                self._describe(*self._portals[name])
            case wire.Execute(portal=name) if name in self._portals:
                self._client.send(await self._run_command(*self._portals[name]))
            case wire.Close(kind="S", name=name):
                self._prepared.pop(name, None)
                return False
            case _:
                return False
        return True

    def _describe(self, command: CursorCommand, formats: tuple[int, ...]) -> None:
        cursor = self._cursors.get(command.name)
        if command.limit is None or cursor is None:
            self._client.send(messages.NO_DATA)
        else:
            expanded = expand_formats(formats, len(cursor.types))
            self._client.send(messages.row_description(cursor.names, cursor.types, expanded))

    async def _run_command(self, command: CursorCommand, formats: tuple[int, ...]) -> bytes:
        """Run a command, send its rows, and return its CommandComplete message."""
        if command.subscribe is not None:
            await self._declare(command.name, command.subscribe)
            return messages.command_complete("DECLARE CURSOR")
        cursor = self._cursors.get(command.name)
        if cursor is None:
            raise ProgrammingError(f'cursor "{command.name}" does not exist', sqlstate="34000")
        if command.limit is None:
            del self._cursors[command.name]
            await self._close(cursor)
            return messages.command_complete("CLOSE CURSOR")
        rows = await self._fetch(cursor, command.limit, command.timeout)
        self._client.send(
            messages.data_rows(cursor.encode_rows(rows, expand_formats(formats, len(cursor.types))))
        )
        return messages.command_complete(f"FETCH {len(rows)}")

    async def _declare(self, name: str, statement: Subscribe) -> None:
        session = self._client.session
        assert session is not None
        if session.transactions.state is not State.OPEN:
            error = ProgrammingError(
                "DECLARE CURSOR can only be used in transaction blocks", hint="write BEGIN before it"
            )
            error.sqlstate = "25P01"
            raise error
        if name in self._cursors:
            error = ProgrammingError(f'cursor "{name}" already exists')
            error.sqlstate = "42P03"
            raise error
        cursor = SubscriptionCursor(statement, asyncio.get_running_loop())
        await self._client.run_with_engine(cursor.open)
        self._cursors[name] = cursor

    async def _fetch(
        self, cursor: SubscriptionCursor, limit: int, timeout: float | None
    ) -> list[tuple[Any, ...]]:
        loop, canceled = asyncio.get_running_loop(), self._client.canceled
        deadline = None if timeout is None else loop.time() + timeout
        canceled.clear()
        await self._check(cursor)
        while not cursor.has_overflowed and len(cursor.rows) < (1 if deadline is None else limit):
            left = CHECK_INTERVAL if deadline is None else min(CHECK_INTERVAL, deadline - loop.time())
            if left <= 0:
                break
            cursor.arrival.clear()
            waiting = [asyncio.ensure_future(one.wait()) for one in (cursor.arrival, canceled)]
            try:
                await self._client.flush()
                await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waiting:
                    one.cancel()
            if canceled.is_set():
                raise CanceledError("canceling statement due to user request")
            self._client.check_connected()
            await self._check(cursor)
            if cursor.sends_progress and not cursor.rows:
                await self._client.run_with_engine(cursor.send_progress)
        if cursor.has_overflowed:
            message = f"the cursor is cut off: {MAX_PENDING_ROWS} changes wait for the client"
            raise OperationalError(message, hint="SUBSCRIBE again, AS OF the last epoch that came")
        return [cursor.rows.popleft() for _ in range(min(limit, len(cursor.rows)))]

    async def _check(self, cursor: SubscriptionCursor) -> None:
        """Check the view if the last check is older than ``CHECK_INTERVAL``."""
        now, session = asyncio.get_running_loop().time(), self._client.session
        if session is not None and now - cursor.last_check >= CHECK_INTERVAL:
            cursor.last_check = now
            await self._client.server.read_engine_as(session, cursor.check)

    def close_all(self) -> None:
        """Close all cursors, at the end of the transaction or the connection."""
        for cursor in self._cursors.values():
            self._client.server.start_task(self._close(cursor))
        self._cursors.clear()

    async def _close(self, cursor: SubscriptionCursor) -> None:
        await self._client.server.read_engine(cursor.close)


def _fold_name(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _parse_timeout(text: str, literal: str | None) -> float | None:
    if literal is None:
        return None
    duration = literal.strip("'")
    if DURATION.fullmatch(duration) is None:
        span = Span(text, text.index(literal), text.index(literal) + len(literal))
        raise ProgrammingError(f"{literal} is no time to wait", span=span, hint="write '500ms' or '1s'")
    return parse_duration(duration)
