"""Statement records: the results of :mod:`kpg.compiler.sql.parse.parser`, apart from DDL.

A query in a statement stays sqlglot's syntax tree until it is bound. ``span`` is the statement's position in
the script.
"""

from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Bound, Constraints, Partitioned, Sequence
from kpg.compiler.catalog.updatable_views import UpdatableView
from kpg.compiler.sql.parse.definitions import AnyDefinition, Command
from kpg.compiler.sql.parse.features import StatementSpan
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema


class SessionStatement(Command):
    """Base of the session statements."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Savepoint(SessionStatement):
    """SAVEPOINT, ROLLBACK TO or RELEASE (``kind`` is ``SAVE``, ``RETURN`` or ``RELEASE``)."""

    kind: str
    name: str
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return {"SAVE": "SAVEPOINT", "RELEASE": "RELEASE", "RETURN": "ROLLBACK"}[self.kind]


@dataclass(frozen=True, slots=True)
class SetConstraints(SessionStatement, tag="SET CONSTRAINTS"):
    """SET CONSTRAINTS; no names mean all."""

    names: tuple[str, ...]
    deferred: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Set(SessionStatement):
    """SET or RESET. Without ``values`` it sets the default; without a name, of all settings."""

    name: str
    values: tuple[str, ...]
    span: Span
    local: bool = False
    """Whether the setting ends with the transaction."""
    is_reset: bool = False
    """Whether it is RESET."""

    def command_tag(self) -> str:
        """Return the command tag."""
        return "RESET" if self.is_reset else "SET"


@dataclass(frozen=True, slots=True)
class SetRole(SessionStatement):
    """SET ROLE or, if ``session``, SET SESSION AUTHORIZATION; an empty name resets it."""

    name: str
    session: bool
    local: bool
    span: Span
    is_reset: bool = False

    def command_tag(self) -> str:
        """Return the command tag."""
        return "RESET" if self.is_reset else "SET"


@dataclass(frozen=True, slots=True)
class SetPosition(SessionStatement, tag="SET"):
    """SET POSITION source = position: the transaction's position in an external source."""

    source: exp.Expr
    position: exp.Expr
    span: StatementSpan


@dataclass(frozen=True, slots=True)
class Show(SessionStatement, tag="SHOW"):
    """SHOW; ``ALL`` shows all settings."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class SetTransaction(SessionStatement, tag="SET"):
    """SET TRANSACTION or SET SESSION CHARACTERISTICS; an empty ``level`` and None are unspecified.

    ``snapshot`` is the identifier of SET TRANSACTION SNAPSHOT.
    """

    level: str
    read_only: bool | None
    session: bool
    span: Span
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class LockTable(SessionStatement, tag="LOCK TABLE"):
    """LOCK TABLE: relations, each with its ONLY, and a lock mode of ``pg_locks``."""

    relations: tuple[tuple[str, bool], ...]
    mode: str
    waits: bool
    span: Span


UTILITY_TAGS: Final = {"ANALYSE": "ANALYZE", "REFRESH": "REFRESH MATERIALIZED VIEW"}
"""Command tags of utility statements that differ from the command."""


@dataclass(frozen=True, slots=True)
class Utility(SessionStatement):
    """Utility statement with little or no effect, such as VACUUM; its relations must exist.

    ``option`` is the argument of DISCARD or REINDEX, and "ANALYZE" for VACUUM with that option.
    """

    command: str
    relations: tuple[str, ...]
    span: Span
    option: str = ""
    notices: tuple[tuple[str, str], ...] = ()
    """Notices with their SQLSTATEs, from IF EXISTS or IF NOT EXISTS."""

    def command_tag(self) -> str:
        """Return the command tag."""
        if self.command == "DISCARD":
            return f"DISCARD {self.option}"
        return UTILITY_TAGS.get(self.command, self.command)


@dataclass(frozen=True, slots=True)
class Notify(SessionStatement, tag="NOTIFY"):
    """NOTIFY channel, 'payload'."""

    channel: str
    payload: str
    span: Span


@dataclass(frozen=True, slots=True)
class Listen(SessionStatement):
    """LISTEN channel or, unless ``listens``, UNLISTEN; an empty name means all channels."""

    channel: str
    listens: bool
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return "LISTEN" if self.listens else "UNLISTEN"


@dataclass(frozen=True, slots=True)
class Prepare(SessionStatement, tag="PREPARE"):
    """PREPARE name AS statement; ``text`` is the statement."""

    name: str
    types: tuple[str, ...]
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Execute(SessionStatement):
    """EXECUTE name (expression, ...); ``values`` are the texts of the expressions."""

    name: str
    values: tuple[str, ...]
    span: Span
    enclosing_text: tuple[str, str] = ("", "")
    """Text before and after it, of CREATE TABLE AS or EXPLAIN."""

    def command_tag(self) -> str:
        """Return the command tag."""
        before = self.enclosing_text[0].upper()
        return "EXECUTE" if not before else "EXPLAIN" if before.startswith("EXPLAIN") else "CREATE TABLE"


@dataclass(frozen=True, slots=True)
class Deallocate(SessionStatement):
    """DEALLOCATE; an empty name means all."""

    name: str
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return "DEALLOCATE" if self.name else "DEALLOCATE ALL"


@dataclass(frozen=True, slots=True)
class Declare(SessionStatement, tag="DECLARE CURSOR"):
    """DECLARE name CURSOR FOR query."""

    name: str
    query: object
    scrolls: bool
    holds: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Fetch(SessionStatement):
    """FETCH, or MOVE, which returns no rows.

    ``direction`` is FORWARD, or ABSOLUTE or RELATIVE for one row.
    """

    name: str
    direction: str
    count: int
    moves: bool
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return "MOVE" if self.moves else "FETCH"


@dataclass(frozen=True, slots=True)
class Close(SessionStatement):
    """CLOSE; an empty name means all cursors."""

    name: str
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return "CLOSE CURSOR" if self.name else "CLOSE CURSOR ALL"


AnySession = (
    Savepoint
    | LockTable
    | SetConstraints
    | Set
    | SetRole
    | SetPosition
    | Show
    | SetTransaction
    | Utility
    | Notify
    | Listen
    | Prepare
    | Execute
    | Deallocate
    | Declare
    | Fetch
    | Close
)


NO_CONSTRAINTS: Final = Constraints()


@dataclass(frozen=True, slots=True)
class AsOf:
    """AS OF clause: an expression for an epoch or a timestamp, and its span."""

    value: exp.Expr
    span: StatementSpan


@dataclass(frozen=True, slots=True)
class Select(Command, tag="SELECT"):
    """Query: SELECT, VALUES, or a set operation, with its WITH and ORDER BY."""

    query: exp.Expr
    span: StatementSpan
    as_of: AsOf | None = None

    @property
    def text(self) -> str:
        """Return the query as the user wrote it."""
        return self.span.source[self.span.start : self.span.end]


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE relation [INCLUDING ...]; ``position`` is the number of columns before it."""

    relation: str
    position: int
    including: frozenset[str]


@dataclass(frozen=True, slots=True)
class CreateTable(Command, tag="CREATE TABLE"):
    """CREATE TABLE with columns and constraints; unnamed constraints get their names later.

    ``sequences`` are those of SERIAL and IDENTITY columns, by column name.
    """

    name: str
    schema: Schema
    if_not_exists: bool
    span: Span
    constraints: Constraints = NO_CONSTRAINTS
    sequences: tuple[tuple[str, Sequence], ...] = ()
    likes: tuple[Like, ...] = ()
    temporary: bool = False
    on_commit: str = ""
    or_replace: bool = False
    partitioned: "Partitioned | None" = None
    partition: "Bound | None" = None
    distribution: str = ""
    """Column whose owner gets a row among several workers; ``*`` if every worker has all rows."""


@dataclass(frozen=True, slots=True)
class CreateTableAs(Command, tag="CREATE TABLE AS"):
    """CREATE TABLE AS query; ``columns`` renames the query's columns if not empty."""

    name: str
    columns: tuple[str, ...]
    query: Select
    if_not_exists: bool
    span: StatementSpan
    data: bool = True
    temporary: bool = False
    on_commit: str = ""
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateView(Command):
    """CREATE [OR REPLACE] [MATERIALIZED] VIEW; ``columns`` renames the query's columns if not empty."""

    name: str
    columns: tuple[str, ...]
    query: Select
    materialized: bool
    or_replace: bool
    if_not_exists: bool
    span: StatementSpan
    temporary: bool = False
    check: str = ""
    """LOCAL or CASCADED of WITH CHECK OPTION; empty without it."""
    invoker: bool = False
    """Whether the view has the option security_invoker."""

    def command_tag(self) -> str:
        """Return the command tag."""
        return f"CREATE {'MATERIALIZED ' if self.materialized else ''}VIEW"


@dataclass(frozen=True, slots=True)
class Drop(Command):
    """DROP TABLE or DROP [MATERIALIZED] VIEW (``kind`` is ``"TABLE"`` or ``"VIEW"``)."""

    kind: str
    names: tuple[str, ...]
    if_exists: bool
    cascade: bool
    span: Span
    materialized: bool = False

    def command_tag(self) -> str:
        """Return the command tag."""
        return f"DROP {'MATERIALIZED ' if self.materialized else ''}{self.kind}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """ON CONFLICT [(columns) | ON CONSTRAINT name] DO UPDATE SET column = expression, ... [WHERE condition].

    Without assignments, DO NOTHING.
    """

    columns: tuple[str, ...]
    assignments: tuple[tuple[exp.Identifier, exp.Expr], ...]
    where: exp.Expr | None
    span: Span
    constraint: str = ""
    elements: tuple[str, ...] = ()
    """Texts of the conflict target, if it has expressions or a ``predicate``."""
    predicate: str = ""
    """Text of the predicate of a partial index."""


@dataclass(frozen=True, slots=True)
class Insert(Command, tag="INSERT"):
    """INSERT INTO table [AS alias] [(columns)] query; no columns means all, in order.

    ``overriding`` is empty, SYSTEM or USER. ``returning`` are the expressions of RETURNING, ``common``
    is the WITH clause.
    """

    table: str
    alias: str
    columns: tuple[str, ...]
    query: Select
    conflict: Conflict | None
    span: StatementSpan
    overriding: str = ""
    returning: tuple[exp.Expr, ...] = ()
    common: exp.Expr | None = None
    updatable_view: UpdatableView | None = None
    """Mapping of the updatable view that the statement names; None for a table."""
    alternative: str = ""
    """REPLACE or IGNORE of INSERT OR; empty without it."""
    is_row_movement: bool = False
    """Whether an UPDATE has moved the rows to another partition."""


@dataclass(frozen=True, slots=True)
class Delete(Command, tag="DELETE"):
    """DELETE FROM table [AS alias] [USING relation, ...] [WHERE condition]."""

    table: str
    alias: str
    using: tuple[exp.Expr, ...]
    where: exp.Expr | None
    span: StatementSpan
    returning: tuple[exp.Expr, ...] = ()
    common: exp.Expr | None = None
    updatable_view: UpdatableView | None = None
    only: bool = False
    """Whether ONLY excludes the table's partitions."""
    cursor: str = ""
    """Cursor of WHERE CURRENT OF; empty without it."""


@dataclass(frozen=True, slots=True)
class Update(Command, tag="UPDATE"):
    """UPDATE table [AS alias] SET column = expression, ... [FROM relation, ...] [WHERE condition]."""

    table: str
    alias: str
    assignments: tuple[tuple[exp.Identifier, exp.Expr], ...]
    sources: tuple[exp.Expr, ...]
    where: exp.Expr | None
    span: StatementSpan
    returning: tuple[exp.Expr, ...] = ()
    common: exp.Expr | None = None
    updatable_view: UpdatableView | None = None
    only: bool = False
    partitioned_table: str = ""
    """Partitioned table that the statement names, if this is its part for one partition."""
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class When:
    """Action of MERGE. ``kind``: ``matched``, or the side without a match, ``target`` or ``source``.

    With ``assignments`` it updates, with ``values`` it inserts, with ``deletes`` it deletes, else
    nothing.
    """

    kind: str
    condition: exp.Expr | None
    assignments: tuple[tuple[exp.Identifier, exp.Expr], ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[exp.Expr, ...] | None = None
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Merge(Command, tag="MERGE"):
    """MERGE INTO table [AS alias] USING relation ON condition WHEN ..."""

    table: str
    alias: str
    using: tuple[exp.Expr, ...]
    on: exp.Expr
    whens: tuple[When, ...]
    span: StatementSpan
    common: exp.Expr | None = None
    phase: str = ""
    """Phase of a MERGE into partitions; empty for any other MERGE.

    "matched" is for one partition, "unmatched" for rows that match none.
    """


@dataclass(frozen=True, slots=True)
class ModifyingWith(Command):
    """Statement with data-modifying WITH queries; all see the tables as before the statement.

    Each of ``with_queries`` has a name, column names and a statement; ``main`` runs last.
    """

    with_queries: "tuple[tuple[str, tuple[str, ...], Change], ...]"
    main: "Change | Select"
    span: StatementSpan

    def command_tag(self) -> str:
        """Return the command tag."""
        return self.main.command_tag()


@dataclass(frozen=True, slots=True)
class CopyFrom(Command, tag="COPY FROM"):
    """COPY table [(columns)] FROM 'path'; option names are lower case.

    An empty path is STDIN, whose data is ``text``: sent by a client, or inline in the script. ``where``
    is the text of a condition.
    """

    table: str
    columns: tuple[str, ...]
    path: str
    format: str
    options: tuple[tuple[str, str], ...]
    span: Span
    text: str | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class CopyTo(Command, tag="COPY TO"):
    """COPY (query) TO 'path'; COPY of a relation has a query for all its rows."""

    query: Select
    path: str
    format: str
    options: tuple[tuple[str, str], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """Options of EXPLAIN. ``summary`` is None if it is unspecified."""

    format: str = "TEXT"
    analyze: bool = False
    costs: bool = True
    timing: bool = True
    summary: bool | None = None
    generic: bool = False

    @property
    def has_summary(self) -> bool:
        """Return whether the output ends with planning and execution times."""
        return self.analyze if self.summary is None else self.summary


@dataclass(frozen=True, slots=True)
class Explain(Command, tag="EXPLAIN"):
    """EXPLAIN [options] [stage] query; ``stage`` is one of ``parser.STAGES``, ``physical`` by default."""

    stage: str
    statement: "Select | CreateView | CreateTableAs | Change | ModifyingWith"
    span: StatementSpan
    options: ExplainOptions = ExplainOptions()


@dataclass(frozen=True, slots=True)
class ExplainView(Command, tag="EXPLAIN"):
    """EXPLAIN VIEW name: the plan of an existing view."""

    stage: str
    relation: str
    place: Span
    span: Span
    options: ExplainOptions = ExplainOptions()


@dataclass(frozen=True, slots=True)
class ExplainRow(Command, tag="EXPLAIN"):
    """EXPLAIN ROW relation VALUES (...) or WHERE ...: the provenance of a row, as text or JSON."""

    relation: str
    place: Span
    values: tuple[exp.Expr, ...]
    where: exp.Expr | None
    as_json: bool
    span: StatementSpan


@dataclass(frozen=True, slots=True)
class Begin(Command):
    """BEGIN or START TRANSACTION; ``read_only`` is None if it is unspecified."""

    span: Span
    read_only: bool | None = None
    is_start: bool = False
    """Whether it is START TRANSACTION."""

    def command_tag(self) -> str:
        """Return the command tag."""
        return "START TRANSACTION" if self.is_start else "BEGIN"


@dataclass(frozen=True, slots=True)
class Commit(Command, tag="COMMIT"):
    """COMMIT or END; with AND CHAIN another transaction begins."""

    span: Span
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Rollback(Command, tag="ROLLBACK"):
    """ROLLBACK or ABORT; with AND CHAIN another transaction begins."""

    span: Span
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Command, tag="DESCRIBE"):
    """DESCRIBE relation."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class VerifyView(Command, tag="VERIFY"):
    """VERIFY VIEW view."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class ShowTables(Command, tag="SHOW"):
    """SHOW TABLES."""

    span: Span


Change = Insert | Delete | Update | Merge
Explainable = Select | CreateView | CreateTableAs | Change
"""Statements with a single plan for EXPLAIN."""
Querying = Select | Insert | CreateTableAs | Explain
"""Statements that may have a nested query AS OF."""


Statement = (
    Select
    | Merge
    | ModifyingWith
    | AnyDefinition
    | AnySession
    | CreateTable
    | CreateTableAs
    | CreateView
    | Drop
    | Insert
    | Delete
    | Update
    | CopyFrom
    | CopyTo
    | Explain
    | ExplainRow
    | ExplainView
    | Begin
    | Commit
    | Rollback
    | Describe
    | VerifyView
    | ShowTables
)
