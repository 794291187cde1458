"""Session: the object that ``db.session()`` returns. Threads may share it; its calls run one at a time."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kpg.api.result import Result, row_count_result
from kpg.api.view import MaintainedView
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE, Asker
from kpg.compiler.qualified_names import DEFAULT_SEARCH_PATH
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Parameters, is_values
from kpg.compiler.sql.parse.statements import Savepoint
from kpg.execute.changes.insert_values import prepare_single_insert
from kpg.execute.changes.keyed_changes import (
    KeyedChange,
    UpsertRow,
    encode_single_insert,
    prepare_keyed_change,
)
from kpg.execute.scripts import bind_script, command_of, is_light, may_share_step, outcomes, run_with_external
from kpg.execute.statements import execute
from kpg.runtime.errors import InterfaceError, Span, check_argument
from kpg.runtime.monitor import Monitor
from kpg.session.cancel import CancelToken
from kpg.session.channels import Mailbox, Message
from kpg.session.engine import Engine, OpenPortal, PreparedStatements
from kpg.session.group_commit import PreparedInsert
from kpg.session.isolation import Isolation, TransactionIsolation, apply_isolation_level
from kpg.session.notices import Notice
from kpg.session.session_manager import SessionManager
from kpg.session.setting_values import ISOLATION
from kpg.session.transaction import State, Transactions
from kpg.session.transaction_swap import Segment

if TYPE_CHECKING:
    from concurrent.futures import Future


T = TypeVar("T")


class Session:
    """A session: a transaction, settings and prepared statements of its own.

    Other sessions do not see its uncommitted changes. Threads may share a session; its calls run one at
    a time.
    """

    def __init__(self, session_manager: SessionManager, user: str = "kpg") -> None:
        self.session_manager = session_manager
        self.monitor = Monitor()
        """Held by a call that runs more than one statement."""
        self.user = user
        self.settings = {ISOLATION: Isolation.READ_COMMITTED.value}
        self.prepared_statements = PreparedStatements()
        self.portals: Callable[[], list[OpenPortal]] = list
        """The named portals of its client."""
        self.search_path: tuple[str, ...] = DEFAULT_SEARCH_PATH
        """Schemas in which names are looked up."""
        self.token = CancelToken()
        engine = session_manager.engine
        self.transactions = Transactions(engine, engine.notifications.deliver, session_manager.group_commit)
        self.pending_segments: list[Segment] | None = None
        """Changes of its transaction while they are swapped out of the tables."""
        self.number = session_manager.next_number()
        """Backend process id, as Postgres calls it."""
        role = user if engine.catalog.privileges.find_role(user) is not None else BOOTSTRAP_ROLE
        self.asker = Asker(role, role, self.number, role)
        """The user's role, or the bootstrap role for unknown users: the server decides who may connect."""
        self.mailbox = self.transactions.mailbox = Mailbox(engine.channels, self.number)
        self.isolation = TransactionIsolation(
            self.transactions,
            session_manager.snapshots,
            self.settings,
            lambda: engine.executor.tables.has_pending,
        )
        self.transactions.set_isolation_level = self.isolation.set_level
        self.transactions.check_rows_unchanged = partial(self.isolation.check_rows_unchanged, engine)
        self.notices: deque[Notice] = deque()
        """Notices of its statements, until they are read."""
        self.last_query = ""
        """Text of its last query, as far as known."""
        self.terminate: Callable[[bool], object] | None = None
        """Ends its statement or its connection, on any thread."""
        self.deadline = 0.0
        """Time at which the current statement times out, if it uses the engine more than once."""
        self.has_explicit_end = False
        """Whether the client marks the end of each statement. A late cancel then applies to its next use of
        the engine.
        """
        self.closed = False
        session_manager.sessions[self.number] = self

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def state(self) -> str:
        """State of the session, in Postgres' words."""
        if self in self.session_manager.waiting_statements or self in self.session_manager.time_slices.aside:
            return "active"
        if (
            self.session_manager.current is self
            and self.session_manager.engine.catalog.asker.number == self.number
        ):
            return "active"
        return {State.NONE: "idle", State.OPEN: "idle in transaction"}.get(
            self.transactions.state, "idle in transaction (aborted)"
        )

    @property
    def activity_row(self) -> tuple[object, ...]:
        """Row of pg_stat_activity."""
        program = self.settings.get("application_name", "")
        return self.number, self.user, program, self.state, self.last_query, *self.wait_event

    @property
    def wait_event(self) -> tuple[str | None, str | None]:
        """Type and name of the wait event, in Postgres' words; an idle session waits for its client."""
        if (found := self.session_manager.waiting_statements.wait_event(self)) is not None:
            return found
        return (None, None) if self.state == "active" else ("Client", "ClientRead")

    @property
    def time_limit(self) -> str:
        """The setting statement_timeout."""
        return self.settings.get("statement_timeout", "")

    @property
    def memory_limit(self) -> str:
        """The setting statement_memory_limit."""
        return self.settings.get("statement_memory_limit", "")

    def close(self) -> None:
        """End the session and roll back its transaction. Closing twice is allowed."""
        if not self.closed:
            self.closed = True
            self.session_manager.run(self, lambda: self.session_manager.end_session(self), rolls_back=True)

    def notifications(self) -> list[Message]:
        """Return the messages received since the last call, on the channels that the session listens to."""
        received, messages = self.mailbox.inbox, list[Message]()
        with suppress(IndexError):  # another thread has taken the last message
            while received:
                messages.append(received.popleft())
        return messages

    def cancel(self) -> None:
        """Cancel the running statement, or the next one, from another thread: it raises an error."""
        self.token.is_canceled = True
        self.session_manager.waiting_statements.request_check(self)

    def sql(self, text: str, parameters: Parameters | None = None) -> Result | None:
        """Run a script and return the result of its last statement; see ``Database.sql``."""
        if not isinstance(text, str):
            check_argument("text", text, str, "the text of a script")
        return self.monitor.run(self._sql, text, parameters)

    def _sql(self, text: str, parameters: Parameters | None) -> Result | None:
        self._check_open()
        if command_of(text) is not None:
            return self.run(
                lambda engine: self.run_text(engine, text, parameters), **self.job_options(text, parameters)
            )
        last: Result | None = None
        for statement in self.parse(text, parameters):
            last = self.execute(statement)
        return last

    def parse(self, text: str, parameters: Parameters | None = None) -> Sequence[ast.Statement]:
        """Return the statements of a script, with parameter values bound."""
        self._check_open()
        return bind_script(text, parameters)

    def job_options(self, text: str, parameters: Parameters | None) -> dict[str, Any]:
        """Return the scheduling options of a text with one statement (``kpg.execute.scripts``)."""
        found, light = may_share_step(text), partial(is_light, text)
        rows = None if found is False else lambda engine: self.prepare_change(engine, text, parameters)
        return {"adds": found, "light": light, "rows": rows}

    def execute(self, statement: ast.Statement) -> Result | None:
        """Run one statement when it is the session's turn."""
        work = partial(
            self.run, lambda engine: self.run_statement(engine, statement), **job_options(statement)
        )
        return self.monitor.run(work)

    def submit(self, statement: ast.Statement) -> "Future[Result | None]":
        """Queue one statement and return its future; ``SessionManager.serve`` runs it."""
        engine = self.session_manager.engine
        return self.session_manager.submit(
            self, lambda: self.run_statement(engine, statement), **job_options(statement)
        )

    def run_text(
        self, engine: Engine, text: str, parameters: Parameters | None = None, *, joins: bool = False
    ) -> Result | None:
        """Run a text now, with cached plans if possible. The engine belongs to this session.

        ``joins``: in one implicit transaction with the following statements.
        """
        if joins:
            self.begin_implicit()
        if not self.isolation.sees_latest:
            result: Result | None = None
            for statement in self.parse(text, parameters):
                result = self.run_statement(engine, statement)
            return result
        last: object = None
        for outcome in outcomes(engine, text, parameters):
            last = outcome
        return last if isinstance(last, Result) else None

    def begin_implicit(self) -> None:
        """Begin an implicit transaction, unless one is open. The engine belongs to this session."""
        if self.transactions.state is State.NONE:
            apply_isolation_level(self.isolation, self.transactions, ast.Begin(Span("", 0, 0)), self.settings)
            self.transactions.begin()
            self.transactions.is_implicit = True

    def end_implicit(self) -> None:
        """Commit or roll back the implicit transaction. The engine belongs to this session."""
        transactions = self.transactions
        if transactions.is_implicit and transactions.state is State.OPEN:
            transactions.commit()
        elif transactions.is_implicit:
            transactions.rollback()

    def run_statement(
        self, engine: Engine, statement: ast.Statement, *, joins: bool = False
    ) -> Result | None:
        """Run one statement now; see :meth:`run_text`."""
        if joins:
            self.begin_implicit()
        with self.transactions.failing_on_error():
            apply_isolation_level(self.isolation, self.transactions, statement, self.settings)
            engine.snapshot_epoch = self.isolation.snapshot_for(engine, statement)
        try:
            outcome = run_with_external(engine, statement, execute)
            self.isolation.check_keys(engine)
        finally:
            engine.snapshot_epoch = None
        return None if isinstance(outcome, MaintainedView) else outcome

    def prepare_change(
        self,
        engine: Engine,
        text: str,
        parameters: Parameters | None = None,
        result: Result | None = None,
    ) -> PreparedInsert | KeyedChange | UpsertRow | None:
        """Return the encoded rows of a plain INSERT or the plan of a keyed change; None for others.

        ``result``: a reusable result for a single inserted row.
        """
        catalog = engine.catalog
        before = catalog.search_path, catalog.asker, catalog.settings
        if self.session_manager.current is not self:
            catalog.search_path, catalog.asker, catalog.settings = self.search_path, self.asker, self.settings
        try:
            if command_of(text) != "insert":
                return prepare_keyed_change(engine, text, parameters)
            if isinstance(parameters, list | tuple):
                encoded = encode_single_insert(engine, text, parameters)
                if encoded is not None and encoded[0].upsert is None:
                    return PreparedInsert(
                        encoded[0].entry.name, encoded[1], result or row_count_result(1), encoded[0]
                    )
                if encoded is not None:
                    return UpsertRow(*encoded)
            changes = prepare_single_insert(engine, text, parameters)
        finally:
            catalog.search_path, catalog.asker, catalog.settings = before
        if changes is None or changes.inserted is None:
            return None
        return PreparedInsert(changes.table.name, changes.inserted, changes.result())

    def run(self, work: "Callable[[Engine], T]", **how: Any) -> T:
        """Run ``work`` with the engine when it is this session's turn."""
        self._check_open()
        engine = self.session_manager.engine
        return self.session_manager.run(self, lambda: work(engine), **how)

    def _check_open(self) -> None:
        if self.closed:
            raise InterfaceError("the session is closed", hint="open another one")


def job_options(statement: ast.Statement) -> dict[str, bool]:
    """Return the scheduling options of a statement."""
    return {
        "adds": _is_plain_insert(statement),
        "rolls_back": isinstance(statement, ast.Rollback),
        "commits": isinstance(statement, ast.Commit),
        "returns": isinstance(statement, Savepoint) and statement.kind == "RETURN",
    }


def _is_plain_insert(statement: ast.Statement) -> bool:
    """Whether a statement is an INSERT of VALUES that reads nothing."""
    if not isinstance(statement, ast.Insert) or statement.conflict or statement.returning:
        return False
    return is_values(statement.query.query) and statement.common is None
