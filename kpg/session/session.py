"""Session: the object that ``db.session()`` returns. Threads may share it; its calls run one at a time."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kpg.api.result import Result, row_count
from kpg.api.view import Maintained
from kpg.compiler.catalog.privileges import FIRST, Asker
from kpg.compiler.qualified_names import USUAL_PATH
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Parameters, is_values
from kpg.compiler.sql.parse.statements import Savepoint
from kpg.execute.changes.insert_values import alone
from kpg.execute.changes.keyed_changes import Keyed, Merged, keyed, row_of
from kpg.execute.scripts import bound_script, gathers, is_light, outcomes, reading, word_of
from kpg.execute.statements import execute
from kpg.runtime.errors import InterfaceError, Span, check_argument
from kpg.runtime.monitor import Monitor
from kpg.session.cancel import Token
from kpg.session.channels import Mailbox, Message
from kpg.session.engine import Engine, Opened, PreparedStatements
from kpg.session.group_commit import Ready
from kpg.session.isolation import Isolation, TransactionIsolation, noted
from kpg.session.notices import Notice
from kpg.session.session_manager import Hub
from kpg.session.setting_values import ISOLATION
from kpg.session.transaction import State, Transactions
from kpg.session.transaction_swap import Segment

if TYPE_CHECKING:
    from concurrent.futures import Future


Given = TypeVar("Given")


class Session:
    """A transaction, settings and prepared statements of its own.

    What it has not committed nobody else sees. Threads may share a session: each call of it is whole before
    the next one begins.
    """

    def __init__(self, hub: Hub, user: str = "kpg") -> None:
        self.hub = hub
        self.monitor = Monitor()
        """Held by a call that is more than one statement."""
        self.user = user
        self.settings = {ISOLATION: Isolation.READ_COMMITTED.value}
        self.prepared = PreparedStatements()
        self.portals: Callable[[], list[Opened]] = list
        """The portals of its client that have names."""
        self.path: tuple[str, ...] = USUAL_PATH
        self.token = Token()
        engine = hub.engine
        self.transactions = Transactions(engine, engine.notifications.deliver, hub.group)
        self.parked: list[Segment] | None = None
        """What its transaction has changed, while that is not in the tables."""
        self.number = hub.next_number()
        """By which others know it, as Postgres' process id."""
        role = user if engine.catalog.rights.find(user) is not None else FIRST
        self.asker = Asker(role, role, self.number, role)
        """Whoever is no role is the one that every database has: who may come in is the server's to know."""
        self.mailbox = self.transactions.mailbox = Mailbox(engine.channels, self.number)
        self.isolation = TransactionIsolation(
            self.transactions, hub.snapshots, self.settings, lambda: engine.executor.has_pending
        )
        self.transactions.isolate = self.isolation.set_level
        self.transactions.check_seen = partial(self.isolation.refuse_later, engine)
        self.notices: deque[Notice] = deque()
        """What its statements have said, until it is taken."""
        self.asked = ""
        """What it has asked last, as far as that is known."""
        self.ender: Callable[[bool], object] | None = None
        """Ends, on any thread, what it does, or its connection."""
        self.deadline = 0.0
        """When the present statement ends at the latest, if it is more than one use of the engine."""
        self.rests = False
        """Whether who uses it says when a statement is over: a cancel that came too late for one use of the
        engine is then for the next."""
        self.closed = False
        hub.sessions[self.number] = self

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def doing(self) -> str:
        """Where it stands, in Postgres' words."""
        if self in self.hub.suspended or self in self.hub.slices.aside:
            return "active"
        if self.hub.current is self and self.hub.engine.catalog.asker.number == self.number:
            return "active"
        return {State.NONE: "idle", State.OPEN: "idle in transaction"}.get(
            self.transactions.state, "idle in transaction (aborted)"
        )

    @property
    def listed(self) -> tuple[object, ...]:
        """As ``Catalog.activity`` says."""
        program = self.settings.get("application_name", "")
        return self.number, self.user, program, self.doing, self.asked, *self.waits

    @property
    def waits(self) -> tuple[str | None, str | None]:
        """The kind and the name of what it waits for, in Postgres' words: who is idle waits for a client."""
        if (found := self.hub.suspended.waiting(self)) is not None:
            return found
        return (None, None) if self.doing == "active" else ("Client", "ClientRead")

    @property
    def time_limit(self) -> str:
        """How long a statement may take, as SET takes it."""
        return self.settings.get("statement_timeout", "")

    @property
    def memory_limit(self) -> str:
        """How much memory a statement may take, as SET takes it."""
        return self.settings.get("statement_memory_limit", "")

    def close(self) -> None:
        """End the session, and roll back what it has not committed; closing twice is allowed."""
        if not self.closed:
            self.closed = True
            self.hub.run(self, lambda: self.hub.forget(self), rolls_back=True)

    def notifications(self) -> list[Message]:
        """What has been said, since it was asked last, on the channels that the session listens to."""
        box, found = self.mailbox.received, list[Message]()
        with suppress(IndexError):  # another thread has taken the last
            while box:
                found.append(box.popleft())
        return found

    def cancel(self) -> None:
        """End the statement that runs now, or the next one, from another thread: it raises an error."""
        self.token.canceled = True
        self.hub.suspended.alarm(self)

    def sql(self, text: str, parameters: Parameters | None = None) -> Result | None:
        """Run a script and return what its last statement gives, as ``Database.sql``."""
        if not isinstance(text, str):
            check_argument("text", text, str, "the text of a script")
        return self.monitor.run(self._sql, text, parameters)

    def _sql(self, text: str, parameters: Parameters | None) -> Result | None:
        self._check_open()
        if word_of(text) is not None:
            return self.run(
                lambda engine: self.answer(engine, text, parameters), **self.how(text, parameters)
            )
        last: Result | None = None
        for statement in self.parsed(text, parameters):
            last = self.execute(statement)
        return last

    def parsed(self, text: str, parameters: Parameters | None = None) -> Sequence[ast.Statement]:
        """The statements of a script with the values of its parameters."""
        self._check_open()
        return bound_script(text, parameters)

    def how(self, text: str, parameters: Parameters | None) -> dict[str, Any]:
        """How the hub may treat the one statement of a text (``kpg.execute.scripts``)."""
        found, light = gathers(text), partial(is_light, text)
        rows = None if found is False else lambda engine: self.rows(engine, text, parameters)
        return {"adds": found, "light": light, "rows": rows}

    def execute(self, statement: ast.Statement) -> Result | None:
        """Run one statement when it is its turn."""
        work = partial(self.run, lambda engine: self.perform(engine, statement), **how(statement))
        return self.monitor.run(work)

    def submit(self, statement: ast.Statement) -> "Future[Result | None]":
        """Have one statement run when somebody serves what waits (``Hub.serve``)."""
        engine = self.hub.engine
        return self.hub.submit(self, lambda: self.perform(engine, statement), **how(statement))

    def answer(
        self, engine: Engine, text: str, parameters: Parameters | None = None, *, joins: bool = False
    ) -> Result | None:
        """Run a text now, by plans that there are already: the engine is this session's.

        ``joins``: in one transaction with what comes next.
        """
        if joins:
            self.join()
        if not self.isolation.sees_latest:
            result: Result | None = None
            for statement in self.parsed(text, parameters):
                result = self.perform(engine, statement)
            return result
        last: object = None
        for outcome in outcomes(engine, text, parameters):
            last = outcome
        return last if isinstance(last, Result) else None

    def join(self) -> None:
        """Begin a transaction of statements that came together, unless one is open: the engine is here."""
        if self.transactions.state is State.NONE:
            noted(self.isolation, self.transactions, ast.Begin(Span("", 0, 0)), self.settings)
            self.transactions.begin()
            self.transactions.implicit = True

    def part(self) -> None:
        """End such a transaction: the engine is here."""
        transactions = self.transactions
        if transactions.implicit and transactions.state is State.OPEN:
            transactions.commit()
        elif transactions.implicit:
            transactions.rollback()

    def perform(self, engine: Engine, statement: ast.Statement, *, joins: bool = False) -> Result | None:
        """Run one statement now, as :meth:`answer`."""
        if joins:
            self.join()
        with self.transactions.undoing():
            noted(self.isolation, self.transactions, statement, self.settings)
            engine.seen = self.isolation.seen_by(engine, statement)
        try:
            outcome = reading(engine, statement, execute)
            self.isolation.check_keys(engine)
        finally:
            engine.seen = None
        return None if isinstance(outcome, Maintained) else outcome

    def rows(
        self,
        engine: Engine,
        text: str,
        parameters: Parameters | None = None,
        one: Result | None = None,
    ) -> Ready | Keyed | Merged | None:
        """The rows that a text inserts, if that is all that it does, or the plan by which it changes one.

        ``one``: what it gives if that is a single row; anew without.
        """
        catalog = engine.catalog
        before = catalog.search_path, catalog.asker, catalog.settings
        if self.hub.current is not self:
            catalog.search_path, catalog.asker, catalog.settings = self.path, self.asker, self.settings
        try:
            if word_of(text) != "insert":
                return keyed(engine, text, parameters)
            if isinstance(parameters, list | tuple):
                made = row_of(engine, text, parameters)
                if made is not None and made[0].merges is None:
                    return Ready(made[0].entry.name, made[1], one or row_count(1), made[0])
                if made is not None:
                    return Merged(*made)
            found = alone(engine, text, parameters)
        finally:
            catalog.search_path, catalog.asker, catalog.settings = before
        if found is None or found.inserted is None:
            return None
        return Ready(found.table.name, found.inserted, found.result())

    def run(self, work: "Callable[[Engine], Given]", **how: Any) -> Given:
        """Do something with the engine when it is this session's turn."""
        self._check_open()
        engine = self.hub.engine
        return self.hub.run(self, lambda: work(engine), **how)

    def _check_open(self) -> None:
        if self.closed:
            raise InterfaceError("the session is closed", hint="open another one")


def how(statement: ast.Statement) -> dict[str, bool]:
    """How the hub may treat a statement."""
    return {
        "adds": _only_adds(statement),
        "rolls_back": isinstance(statement, ast.Rollback),
        "commits": isinstance(statement, ast.Commit),
        "returns": isinstance(statement, Savepoint) and statement.kind == "RETURN",
    }


def _only_adds(statement: ast.Statement) -> bool:
    """Whether a statement adds rows and reads nothing: an INSERT of VALUES."""
    if not isinstance(statement, ast.Insert) or statement.conflict or statement.returning:
        return False
    return is_values(statement.query.query) and statement.common is None
