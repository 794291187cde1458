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

from kpg.api.view import Maintained
from kpg.compiler.sql.frontend import check_relation
from kpg.runtime.errors import CanceledError, OperationalError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.runtime.values import codec_of
from kpg.server import messages
from kpg.server import subscribe as subscribing
from kpg.server.binary_format import text_writer, writer_of
from kpg.server.interfaces import ClientConnection
from kpg.server.portal import spread
from kpg.server.subscribe import NAME, Subscribe
from kpg.session.engine import Engine
from kpg.session.setting_values import DURATION, seconds_of
from kpg.session.subscriptions import Change, Subscription
from kpg.session.transaction import State

DECLARE: Final = re.compile(
    rf"\s*declare\s+(?P<name>{NAME})\s+(?:(?:no\s+scroll|insensitive|asensitive|scroll)\s+)*cursor\s+"
    r"(?:without\s+hold\s+)?for\s+(?P<rest>subscribe\b.*)",
    re.IGNORECASE | re.DOTALL,
)
FETCH: Final = re.compile(
    rf"""\s*fetch\s+(?:forward\s+|next\s+)?(?:(?P<count>\d+|all)\s+)?(?:(?:from|in)\s+)?(?P<name>{NAME})
    (?:\s*with\s*\(\s*timeout\s*=?\s*(?P<time>'[^']*'|\d+)\s*\))?\s*;?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
CLOSE: Final = re.compile(rf"\s*close\s+(?P<name>{NAME})\s*;?\s*", re.IGNORECASE)
MOST_ROWS: Final = 1_000_000
"""Changes that may wait for a client before its cursor is cut off."""
LOOK: Final = 1.0
"""Seconds after which a FETCH that waits looks whether its client is still there."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement about such a cursor: ``subscribe`` declares it, ``most`` rows are fetched; else closed."""

    name: str
    subscribe: Subscribe | None = None
    most: int | None = None
    timeout: float | None = None


class Held:
    """The changes of a view that wait to be fetched: told on the engine's thread, kept on the loop's."""

    def __init__(self, statement: Subscribe, loop: asyncio.AbstractEventLoop) -> None:
        self._statement = statement
        self._loop = loop
        self._subscription: Subscription | None = None
        self._view: Maintained | None = None
        self.rows: deque[tuple[Any, ...]] = deque()
        self.came = asyncio.Event()
        self.checked = loop.time()
        self.says_how_far = statement.progress
        self.over = False
        """Whether too much has waited."""
        self.names: tuple[str, ...] = ()
        self.types: tuple[Type, ...] = ()

    def open(self, engine: Engine) -> None:
        """Begin to listen, on the engine's thread."""
        check_relation(engine.catalog, self._statement.view)
        view = engine.view(self._statement.view)
        shape = subscribing.shape_of(engine, self._statement)
        assert shape is not None
        self.names, self.types = shape
        self._view = view
        subscribing.tell_before(view, self._statement, self._tell)
        if self._statement.progress:
            self.progress(engine)
        self._subscription = view.feed.subscribe(self._tell)

    def check(self, engine: Engine) -> None:
        """Look whether the view is still there, and may be read, on the engine's thread, as the client."""
        subscribing.check_followed(engine, self._view, self._statement.view)

    def progress(self, engine: Engine) -> None:
        """Say that everything up to now has been told, on the engine's thread."""
        self._loop.call_soon_threadsafe(self._add, [subscribing.progress_row(engine, self.types)])

    def close(self, _: Engine) -> None:
        """Listen no more, on the engine's thread."""
        if self._subscription is not None:
            self._subscription.close()

    def _tell(self, changes: list[Change]) -> None:
        if changes:
            rows = list(subscribing.rows_told(self._statement, changes))
            self._loop.call_soon_threadsafe(self._add, rows)

    def _add(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows.extend(rows)
        if len(self.rows) > MOST_ROWS:
            self.over = True
            self.rows.clear()
            if self._subscription is not None:
                self._subscription.close()
        self.came.set()

    def encoded(self, rows: list[tuple[Any, ...]], formats: list[int]) -> list[tuple[bytes | None, ...]]:
        """Rows as they are sent."""
        writers = [
            (codec_of(type_).from_python, writer_of(type_) if form else text_writer(type_))
            for type_, form in zip(self.types, formats, strict=True)
        ]
        return [
            tuple(
                None if value is None else write(take(value))
                for value, (take, write) in zip(row, writers, strict=True)
            )
            for row in rows
        ]


class Following:
    """One client's cursors over subscriptions."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._held: dict[str, Held] = {}
        self._prepared: dict[str, Asked] = {}
        self._portals: dict[str, tuple[Asked, tuple[int, ...]]] = {}

    def read(self, text: str) -> Asked | None:
        """What a text says about such a cursor; None if it says nothing."""
        start = text.lstrip()[:7].lower()
        if start == "declare" and (found := DECLARE.fullmatch(text)) is not None:
            subscribe = subscribing.read(found["rest"])
            return None if subscribe is None else Asked(_plain(found["name"]), subscribe)
        if not self._held:
            return None
        if start.startswith("fetch") and (found := FETCH.fullmatch(text)) is not None:
            name, count = _plain(found["name"]), (found["count"] or "1").lower()
            if name in self._held:
                most = MOST_ROWS if count == "all" else int(count)
                return Asked(name, None, most, _seconds(text, found["time"]))
        if start.startswith("close") and (found := CLOSE.fullmatch(text)) is not None:
            name = _plain(found["name"])
            return Asked(name) if name in self._held else None
        return None

    async def query(self, text: str) -> bool:
        """Answer a Query; False if it is about something else."""
        asked = self.read(text)
        if asked is None:
            return False
        if asked.most is not None:
            self._describe(asked, ())
        self._client.send(await self._run(asked, ()))
        return True

    async def handle(self, message: object) -> bool:
        """Do what a message of the extended protocol says; False if it is about something else."""
        match message:
            case wire.Parse(query=text, statement=name) if (asked := self.read(text)) is not None:
                self._prepared[name] = asked
                self._client.send(messages.PARSED)
            case wire.Parse(statement=name):
                self._prepared.pop(name, None)
                return False
            case wire.Bind(statement=name, portal=portal) if name in self._prepared:
                self._portals[portal] = self._prepared[name], tuple(message.result_formats)
                self._client.send(messages.BOUND)
            case wire.Bind(portal=portal):
                self._portals.pop(portal, None)
                return False
            case wire.Describe(kind="S", name=name) if name in self._prepared:
                self._client.send(wire.ParameterDescription(type_oids=[]).to_wire())
                self._describe(self._prepared[name], ())
            case wire.Describe(kind="P", name=name) if name in self._portals:
                self._describe(*self._portals[name])
            case wire.Execute(portal=name) if name in self._portals:
                self._client.send(await self._run(*self._portals[name]))
            case wire.Close(kind="S", name=name):
                self._prepared.pop(name, None)
                return False
            case _:
                return False
        return True

    def _describe(self, asked: Asked, formats: tuple[int, ...]) -> None:
        held = self._held.get(asked.name)
        if asked.most is None or held is None:
            self._client.send(messages.NO_DATA)
        else:
            wanted = spread(formats, len(held.types))
            self._client.send(messages.description(held.names, held.types, wanted))

    async def _run(self, asked: Asked, formats: tuple[int, ...]) -> bytes:
        """Do it, and send its rows; how its end is announced."""
        if asked.subscribe is not None:
            await self._declare(asked.name, asked.subscribe)
            return messages.complete("DECLARE CURSOR")
        held = self._held.get(asked.name)
        if held is None:
            raise ProgrammingError(f'cursor "{asked.name}" does not exist')
        if asked.most is None:
            del self._held[asked.name]
            await self._closed(held)
            return messages.complete("CLOSE CURSOR")
        rows = await self._fetched(held, asked.most, asked.timeout)
        self._client.send(messages.data(held.encoded(rows, spread(formats, len(held.types)))))
        return messages.complete(f"FETCH {len(rows)}")

    async def _declare(self, name: str, statement: Subscribe) -> None:
        session = self._client.session
        assert session is not None
        if session.transactions.state is not State.OPEN:
            error = ProgrammingError(
                "DECLARE CURSOR can only be used in transaction blocks", hint="write BEGIN before it"
            )
            error.sqlstate = "25P01"
            raise error
        if name in self._held:
            error = ProgrammingError(f'cursor "{name}" already exists')
            error.sqlstate = "42P03"
            raise error
        held = Held(statement, asyncio.get_running_loop())
        await self._client.engine(held.open)
        self._held[name] = held

    async def _fetched(self, held: Held, most: int, timeout: float | None) -> list[tuple[Any, ...]]:
        loop, canceled = asyncio.get_running_loop(), self._client.canceled
        end = None if timeout is None else loop.time() + timeout
        canceled.clear()
        await self._check(held)
        while not held.over and len(held.rows) < (1 if end is None else most):
            left = LOOK if end is None else min(LOOK, end - loop.time())
            if left <= 0:
                break
            held.came.clear()
            waiting = [asyncio.ensure_future(one.wait()) for one in (held.came, canceled)]
            try:
                await self._client.flush()
                await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waiting:
                    one.cancel()
            if canceled.is_set():
                raise CanceledError("canceling statement due to user request")
            self._client.check_there()
            await self._check(held)
            if held.says_how_far and not held.rows:
                await self._client.engine(held.progress)
        if held.over:
            message = f"the cursor is cut off: {MOST_ROWS} changes wait for the client"
            raise OperationalError(message, hint="SUBSCRIBE again, AS OF the last epoch that came")
        return [held.rows.popleft() for _ in range(min(most, len(held.rows)))]

    async def _check(self, held: Held) -> None:
        """Once a second look whether the view is still there."""
        now, session = asyncio.get_running_loop().time(), self._client.session
        if session is not None and now - held.checked >= LOOK:
            held.checked = now
            await self._client.server.look_as(session, held.check)

    def end(self) -> None:
        """The transaction, or the client, is over, and its cursors with it."""
        for held in self._held.values():
            self._client.server.look_after(self._closed(held))
        self._held.clear()

    async def _closed(self, held: Held) -> None:
        await self._client.server.look(held.close)


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _seconds(text: str, written: str | None) -> float | None:
    if written is None:
        return None
    duration = written.strip("'")
    if DURATION.fullmatch(duration) is None:
        span = Span(text, text.index(written), text.index(written) + len(written))
        raise ProgrammingError(f"{written} is no time to wait", span=span, hint="write '500ms' or '1s'")
    return seconds_of(duration)
