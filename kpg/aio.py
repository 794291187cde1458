"""asyncio API: sessions with awaitable statements, and subscriptions as asynchronous iterators.

    import kpg.aio

    async with kpg.aio.connect() as db:             # or connect("folder"), or of(database)
        async with db.session() as session:
            await session.sql("CREATE TABLE t (a INT)")
            async with session.transaction():
                await session.sql("INSERT INTO t VALUES (?)", [1])
        async for changes in db.subscribe("v"):
            ...

One thread runs the engine, so the event loop never blocks. Cancelling a task cancels its statement.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import kpg
from kpg.api.result import Result
from kpg.compiler.sql.parse.parameters import Parameters
from kpg.execute.scripts import word_of
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.session.engine_thread import Ending, Turns
from kpg.session.session import Session as Inner
from kpg.session.session import how
from kpg.session.subscriptions import Change

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kpg.session.engine import Engine

Given = TypeVar("Given")
MOST_WAITING: Final = 100_000
"""Changes that may wait for who iterates over a subscription, before it is cut off."""


def connect(folder: "str | Path | None" = None, **options: Any) -> "Database":
    """A database as ``kpg.connect`` makes it; to be used by ``async with``, which closes it."""
    return Database(kpg.connect(folder, **options), owned=True)


def of(database: "kpg.Database") -> "Database":
    """A database that is open, for asyncio; it stays open. Others may use it by sessions."""
    return Database(database, owned=False)


class Database:
    """See the module."""

    def __init__(self, database: "kpg.Database", *, owned: bool) -> None:
        self.database = database
        self._owned = owned
        self._turns: Turns | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> "Database":
        self._turns, self._loop = Turns(self.database.hub), asyncio.get_running_loop()
        self._turns.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop; what is not committed is rolled back. Closing twice is allowed."""
        turns, self._turns = self._turns, None
        if turns is not None:
            await turns.stop()
        if self._owned:
            self.database.close()

    def session(self, user: str = "kpg") -> "Session":
        """A transaction, settings and prepared statements of its own."""
        return Session(self, Inner(self.database.hub, user))

    async def sql(self, text: str, parameters: Parameters | None = None) -> Result | None:
        """Run a script in a session of its own."""
        async with self.session() as session:
            return await session.sql(text, parameters)

    async def run(self, session: Inner, work: "Callable[[Engine], Given]", **how: Any) -> Given:
        """Do something with the engine when it is the session's turn."""
        if self._turns is None:
            raise InterfaceError("the database is not open", hint="use it in: async with ... as db")
        engine = self.database.hub.engine
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Given] = loop.create_future()

        def told(ending: Ending) -> None:
            if loop is self._loop:
                settle(ending)
            else:
                loop.call_soon_threadsafe(settle, ending)

        def settle(ending: Ending) -> None:
            if not future.done():
                if ending.error is None:
                    future.set_result(ending.result)
                else:
                    future.set_exception(ending.error)

        self._turns.hand_in(session, lambda: work(engine), told, **how)
        return await future

    async def subscribe(
        self,
        view: str,
        *,
        snapshot: bool = True,
        since: int | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> AsyncIterator[list[Change]]:
        """What commits change in a view, each a list of (row, epoch, count), until the loop is left.

        First comes what there is, unless ``snapshot`` is False or it begins after the epoch ``since``, which
        the database must have kept. OperationalError for who lets more than ``most_waiting`` changes wait.
        """
        box = Box(asyncio.get_running_loop(), most_waiting)
        session = Inner(self.database.hub)

        def begin(engine: "Engine") -> Any:
            feed = engine.view(view).feed
            if since is not None:
                box.put(feed.since(view, since))
            elif snapshot:
                box.put(feed.snapshot())
            return feed.subscribe(box.put)

        subscription = await self.run(session, begin)
        try:
            while True:
                yield await box.next()
        finally:
            if self._turns is not None:
                await self.run(session, lambda _: subscription.close())
                await self.run(session, lambda _: self.database.hub.forget(session))


class Box:
    """Changes on their way from the engine's thread to a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self._waiting = 0
        self._queue: asyncio.Queue[list[Change] | None] = asyncio.Queue()

    def put(self, changes: list[Change]) -> None:
        """Tell of changes, from the engine's thread."""
        if not changes or self._waiting > self._most:
            return
        self._waiting += len(changes)
        late = self._waiting > self._most
        self._loop.call_soon_threadsafe(self._queue.put_nowait, None if late else changes)

    async def next(self) -> list[Change]:
        """The next ones."""
        changes = await self._queue.get()
        if changes is None:
            raise OperationalError(
                f"the subscription is cut off: more than {self._most} changes wait",
                hint="subscribe again, since the last epoch that came",
            )
        self._waiting -= len(changes)
        return changes


class Session:
    """A session whose statements are awaited, one after the other."""

    def __init__(self, database: Database, inner: Inner) -> None:
        self._database = database
        self._inner = inner
        self._one = asyncio.Lock()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session, and roll back what it has not committed; closing twice is allowed."""
        inner = self._inner
        if not inner.closed:
            inner.closed = True
            await self._database.run(inner, lambda _: inner.hub.forget(inner), rolls_back=True)

    async def sql(self, text: str, parameters: Parameters | None = None) -> Result | None:
        """Run a script and return what its last statement gives, as ``Database.sql``."""
        inner = self._inner
        async with self._one:
            if inner.closed:
                raise InterfaceError("the session is closed", hint="open another one")
            if word_of(text) is not None:
                ways = inner.how(text, parameters)
                return await self._run(lambda engine: inner.answer(engine, text, parameters), **ways)
            last: Result | None = None
            for statement in inner.parsed(text, parameters):
                last = await self._run(
                    lambda engine, statement=statement: inner.perform(engine, statement), **how(statement)
                )
            return last

    async def _run(self, work: "Callable[..., Result | None]", **how: Any) -> Result | None:
        try:
            return await self._database.run(self._inner, work, **how)
        except asyncio.CancelledError:
            self._inner.cancel()
            raise

    @asynccontextmanager
    async def transaction(self, isolation: str = "read committed") -> AsyncIterator[None]:
        """The block is a transaction, rolled back if it raises."""
        await self.sql(f"begin isolation level {isolation}")
        try:
            yield
        except BaseException:
            await self.sql("rollback")
            raise
        await self.sql("commit")
