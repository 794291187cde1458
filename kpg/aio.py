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
from kpg.execute.scripts import command_of
from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.session.engine_thread import EngineThread, JobOutcome
from kpg.session.session import Session as Inner
from kpg.session.session import job_options
from kpg.session.subscriptions import Change

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kpg.session.engine import Engine

ResultType = TypeVar("ResultType")
MAX_WAITING: Final = 100_000
"""Default number of unread changes after which a subscription is closed."""


def connect(folder: "str | Path | None" = None, **options: Any) -> "Database":
    """Open a database with the arguments of ``kpg.connect``. Use it in ``async with``, which closes it."""
    return Database(kpg.connect(folder, **options), owned=True)


def of(database: "kpg.Database") -> "Database":
    """Use an open database with asyncio. It stays open, and other threads may use it through sessions."""
    return Database(database, owned=False)


class Database:
    """A database whose statements are awaited. Use it in ``async with``."""

    def __init__(self, database: "kpg.Database", *, owned: bool) -> None:
        self.database = database
        self._is_owned = owned
        self._turns: EngineThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> "Database":
        self._turns, self._loop = EngineThread(self.database.hub), asyncio.get_running_loop()
        self._turns.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the engine's thread and roll back uncommitted changes. Closing twice is allowed."""
        turns, self._turns = self._turns, None
        if turns is not None:
            await turns.stop()
        if self._is_owned:
            self.database.close()

    def session(self, user: str = "kpg") -> "Session":
        """Return a session with its own transaction, settings and prepared statements."""
        return Session(self, Inner(self.database.hub, user))

    async def sql(self, text: str, parameters: Parameters | None = None) -> Result | None:
        """Run a script in a new session, and return the result of its last statement."""
        async with self.session() as session:
            return await session.sql(text, parameters)

    async def run(self, session: Inner, work: "Callable[[Engine], ResultType]", **how: Any) -> ResultType:
        """Run ``work`` with the engine when it is the session's turn, and return its result."""
        if self._turns is None:
            raise InterfaceError("the database is not open", hint="use it in: async with ... as db")
        engine = self.database.hub.engine
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ResultType] = loop.create_future()

        def on_finished(ending: JobOutcome) -> None:
            if loop is self._loop:
                set_outcome(ending)
            else:
                loop.call_soon_threadsafe(set_outcome, ending)

        def set_outcome(ending: JobOutcome) -> None:
            if not future.done():
                if ending.error is None:
                    future.set_result(ending.result)
                else:
                    future.set_exception(ending.error)

        self._turns.submit(session, lambda: work(engine), on_finished, **how)
        return await future

    async def subscribe(
        self,
        view: str,
        *,
        snapshot: bool = True,
        since: int | None = None,
        most_waiting: int = MAX_WAITING,
    ) -> AsyncIterator[list[Change]]:
        """Yield the changes of a view after each commit, as lists of (row, epoch, count).

        Args:
          view: the name of the view.
          snapshot: begin with the present rows.
          since: begin after this epoch instead. The database must have kept its history.
          most_waiting: maximum number of unread changes.

        Raises OperationalError if more than ``most_waiting`` changes are unread.
        """
        queue = ChangeQueue(asyncio.get_running_loop(), most_waiting)
        session = Inner(self.database.hub)

        def begin(engine: "Engine") -> Any:
            feed = engine.view(view).feed
            if since is not None:
                queue.put(feed.changes_since(view, since))
            elif snapshot:
                queue.put(feed.snapshot())
            return feed.subscribe(queue.put)

        subscription = await self.run(session, begin)
        try:
            while True:
                yield await queue.next()
        finally:
            if self._turns is not None:
                await self.run(session, lambda _: subscription.close())
                await self.run(session, lambda _: self.database.hub.end_session(session))


class ChangeQueue:
    """A queue of changes from the engine's thread to an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_waiting: int) -> None:
        self._loop = loop
        self._max_waiting = max_waiting
        # Each thread writes a counter of its own, so that no increment is lost.
        self._received = 0
        self._read = 0
        self._queue: asyncio.Queue[list[Change] | None] = asyncio.Queue()

    @property
    def waiting(self) -> int:
        """Number of changes that are not read yet."""
        return self._received - self._read

    def put(self, changes: list[Change]) -> None:
        """Add changes. Called in the engine's thread."""
        if not changes or self.waiting > self._max_waiting:
            return
        self._received += len(changes)
        is_overfull = self.waiting > self._max_waiting
        self._loop.call_soon_threadsafe(self._queue.put_nowait, None if is_overfull else changes)

    async def next(self) -> list[Change]:
        """Wait for the next changes and return them."""
        changes = await self._queue.get()
        if changes is None:
            raise OperationalError(
                f"the subscription is cut off: more than {self._max_waiting} changes wait",
                hint="subscribe again with since= the last received epoch",
            )
        self._read += len(changes)
        return changes


class Session:
    """A session whose statements are awaited, one after the other."""

    def __init__(self, database: Database, inner: Inner) -> None:
        self._database = database
        self._inner = inner
        self._statement_lock = asyncio.Lock()

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
        """End the session and roll back uncommitted changes. Closing twice is allowed."""
        inner = self._inner
        if not inner.closed:
            inner.closed = True
            await self._database.run(
                inner, lambda _: inner.session_manager.end_session(inner), rolls_back=True
            )

    async def sql(self, text: str, parameters: Parameters | None = None) -> Result | None:
        """Run a script and return the result of its last statement, as ``Database.sql`` does."""
        inner = self._inner
        async with self._statement_lock:
            if inner.closed:
                raise InterfaceError("the session is closed", hint="open another one")
            if command_of(text) is not None:
                options = inner.job_options(text, parameters)
                return await self._run(lambda engine: inner.run_text(engine, text, parameters), **options)
            last: Result | None = None
            for statement in inner.parse(text, parameters):
                last = await self._run(
                    lambda engine, statement=statement: inner.run_statement(engine, statement),
                    **job_options(statement),
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
        """Run the block in a transaction. It is rolled back if the block raises."""
        await self.sql(f"begin isolation level {isolation}")
        try:
            yield
        except BaseException:
            await self.sql("rollback")
            raise
        await self.sql("commit")
