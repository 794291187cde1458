"""A client's portals: with the cursors that its SQL declares they are one space of names."""

import time
from typing import TYPE_CHECKING
from weakref import ref

from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse.session_statements import ALL
from kpg.engine.client import Opened
from kpg.engine.transaction import State
from kpg.result import Result
from kpg.runtime.errors import InterfaceError, Span
from kpg.server.portal import Portal, Shape
from kpg.statements import cursors
from kpg.statements.cursors import Cursor

if TYPE_CHECKING:
    from kpg.server.client import Client

NOWHERE = Span("", 0, 0)


class Portals:
    """Portals by their names; the one without a name is the protocol's alone."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._named: dict[str, Portal] = {}

    def get(self, name: str) -> Portal | None:
        """The portal of a name."""
        return self._named.get(name)

    def drop(self, name: str) -> None:
        """Forget one."""
        self._named.pop(name, None)

    def clear(self) -> None:
        """Forget all."""
        self._named.clear()

    def listed(self) -> list[Opened]:
        """Those that have names."""
        return [
            Opened(name, one.text, one.moment, one.statement) for name, one in self._named.items() if name
        ]

    async def add(self, name: str, portal: Portal) -> None:
        """Keep a portal as long as its transaction; InterfaceError if there is one of that name."""
        if name and (name in self._named or await self.shape_of_cursor(name) is not None):
            raise refusal(f'cursor "{name}" already exists', "42P03")
        portal.moment = time.time_ns() // 1000
        self._named[name] = portal
        if name:
            self._tie(name, portal)

    async def shape_of_cursor(self, name: str) -> Shape | None:
        """The columns of a cursor that SQL has declared; None if there is none."""
        if not name:
            return None
        found = await self._client.engine(lambda engine: cursors.shape_of(engine, name))
        return None if found is None else Shape(*found)

    def of_cursor(self, name: str, most: int) -> Portal:
        """What gives the next rows of such a cursor: up to ``most``, 0 for all."""
        return Portal(statements.Fetch(name, "FORWARD", most or ALL, False, NOWHERE), ())

    async def close_cursor(self, name: str) -> None:
        """Close such a cursor, if there is one."""
        if await self.shape_of_cursor(name) is not None:
            await self._client.engine(
                lambda engine: cursors.run_cursor(engine, statements.Close(name, NOWHERE))
            )

    async def answers(self, portal: Portal) -> bool:
        """Do what a portal's statement says if it is about another portal."""
        match portal.statement:
            case statements.Close(name=""):
                self._check()
                for name in list(filter(None, self._named)):
                    del self._named[name]
                return False  # and all cursors
            case statements.Close(name=name) if name in self._named:
                self._check()
                del self._named[name]
            case statements.Declare(name=name) if name in self._named:
                raise refusal(f'cursor "{name}" already exists', "42P03")
            case statements.Fetch(name=name) if name in self._named:
                portal.outcome = await self._fetched(self._named[name], portal.statement)
            case _:
                return False
        portal.ran = True
        return True

    def _check(self) -> None:
        if self._client.session is not None:
            self._client.session.transactions.check()

    async def _fetched(self, portal: Portal, statement: statements.Fetch) -> Result:
        self._check()
        await self._client.perform(portal)
        outcome = portal.outcome
        if outcome is None or portal.shape is None:
            raise refusal("unsupported portal strategy", "XX000")  # as Postgres says of what gives no rows
        cursor = Cursor(statement.name, outcome, None, False, portal.position)
        found = cursors.moved(cursor, statement)
        portal.position = min(cursor.place, len(outcome))
        return found

    def _tie(self, name: str, portal: Portal) -> None:
        """Have a portal end with what of an open transaction it was made in."""
        session = self._client.session
        if session is None or session.transactions.state is not State.OPEN:
            return
        known = ref(portal)  # what is closed is not to be kept until the end

        def end() -> None:
            if name in self._named and self._named[name] is known():
                del self._named[name]

        session.transactions.settled.note(session.transactions.depth, end)
        session.transactions.settled.until_end(end)


def refusal(message: str, state: str) -> InterfaceError:
    """An error that clients know by its SQLSTATE."""
    error = InterfaceError(message)
    error.sqlstate = state
    return error
