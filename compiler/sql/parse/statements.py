"""Statement records: the results of :mod:`kpg.compiler.sql.parse.parser`, apart from DDL.

A query in a statement stays sqlglot's syntax tree until it is bound. ``span`` is the statement's position in
the script.
"""

from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Bound, Constraints, Partitioned, Sequence
from kpg.compiler.catalog.updatable_views import Through
from kpg.compiler.sql.parse.definitions import AnyDefinition
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema


class Session:
    """Base of the statements in this module."""

    __slots__ = ()
    span: Span


@dataclass(frozen=True, slots=True)
class Savepoint(Session):
    """SAVEPOINT, ROLLBACK TO or RELEASE (``kind`` is ``SAVE``, ``RETURN`` or ``RELEASE``)."""

    kind: str
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class SetConstraints(Session):
    """SET CONSTRAINTS; no names mean all."""

    names: tuple[str, ...]
    deferred: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Set(Session):
    """SET or RESET; without ``values`` the default is meant, without a name all settings."""

    name: str
    values: tuple[str, ...]
    span: Span
    local: bool = False
    """Whether it is so until the transaction ends."""


@dataclass(frozen=True, slots=True)
class SetRole(Session):
    """SET ROLE, or, if it is the ``whole`` session's, SET SESSION AUTHORIZATION; no name takes it back."""

    name: str
    whole: bool
    local: bool
    span: Span


@dataclass(frozen=True, slots=True)
class SetPosition(Session):
    """SET POSITION source = position: how far a source has been read, as a part of the transaction."""

    source: exp.Expr
    position: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Show(Session):
    """SHOW; ``ALL`` shows all settings."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class SetTransaction(Session):
    """SET TRANSACTION, or SET SESSION CHARACTERISTICS; no ``level`` and None where it does not say.

    ``snapshot`` is the name of another transaction's, of SET TRANSACTION SNAPSHOT.
    """

    level: str
    read_only: bool | None
    session: bool
    span: Span
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class LockTable(Session):
    """``LOCK TABLE``: relations, whether only each itself and nothing below it, in a mode of ``pg_locks``."""

    relations: tuple[tuple[str, bool], ...]
    mode: str
    waits: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Accepted(Session):
    """What has little to do here, such as VACUUM: the relations it names have to be there.

    ``part`` of DISCARD is what is discarded, of VACUUM "ANALYZE" if that is to be done, too.
    """

    what: str
    relations: tuple[str, ...]
    span: Span
    part: str = ""
    skipped: tuple[tuple[str, str], ...] = ()
    """Why it changes nothing, with SQLSTATEs: what IF EXISTS or IF NOT EXISTS found."""


@dataclass(frozen=True, slots=True)
class Notify(Session):
    """NOTIFY channel, 'payload'."""

    channel: str
    payload: str
    span: Span


@dataclass(frozen=True, slots=True)
class Listen(Session):
    """LISTEN channel or, if not ``begins``, UNLISTEN; an empty name means all channels."""

    channel: str
    begins: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Prepare(Session):
    """PREPARE name AS statement, whose text is ``text``."""

    name: str
    types: tuple[str, ...]
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Execute(Session):
    """EXECUTE name (expression, ...), of which the texts are kept."""

    name: str
    values: tuple[str, ...]
    span: Span
    around: tuple[str, str] = ("", "")
    """What stands before and behind it, of CREATE TABLE AS or EXPLAIN."""


@dataclass(frozen=True, slots=True)
class Deallocate(Session):
    """DEALLOCATE; an empty name means all."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Declare(Session):
    """DECLARE name CURSOR FOR query, a statement of its own."""

    name: str
    query: object
    scrolls: bool
    holds: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Fetch(Session):
    """FETCH, or MOVE, which gives no rows. ``direction``: FORWARD, or ABSOLUTE or RELATIVE for one row."""

    name: str
    direction: str
    count: int
    moves: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Close(Session):
    """CLOSE; an empty name means all cursors."""

    name: str
    span: Span


AnySession = (
    Savepoint
    | LockTable
    | SetConstraints
    | Set
    | SetRole
    | SetPosition
    | Show
    | SetTransaction
    | Accepted
    | Notify
    | Listen
    | Prepare
    | Execute
    | Deallocate
    | Declare
    | Fetch
    | Close
)


NOTHING: Final = Constraints()


@dataclass(frozen=True, slots=True)
class Then:
    """AS OF: an expression whose value is an epoch or a moment, and its place."""

    query: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Select:
    """A query: SELECT, VALUES, or a set operation, with its WITH and ORDER BY; ``then`` is its AS OF."""

    query: exp.Expr
    span: Span
    then: Then | None = None

    @property
    def text(self) -> str:
        """The query as the user wrote it."""
        return self.span.source[self.span.start : self.span.end]


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE relation [INCLUDING ...], which stands before the column of that position."""

    relation: str
    place: int
    including: frozenset[str]


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with columns and constraints, of which those without a name get one later.

    ``sequences`` are those of SERIAL and IDENTITY columns, by the column's name.
    """

    name: str
    schema: Schema
    if_not_exists: bool
    span: Span
    constraints: Constraints = NOTHING
    sequences: tuple[tuple[str, Sequence], ...] = ()
    likes: tuple[Like, ...] = ()
    temporary: bool = False
    on_commit: str = ""
    or_replace: bool = False
    partitioned: "Partitioned | None" = None
    partition: "Bound | None" = None
    distribution: str = ""
    """The column by which many workers have its rows; ``*`` if each has all of them."""


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    """CREATE TABLE AS query; ``columns`` renames the query's columns if not empty."""

    name: str
    columns: tuple[str, ...]
    query: Select
    if_not_exists: bool
    span: Span
    data: bool = True
    temporary: bool = False
    on_commit: str = ""
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] [MATERIALIZED] VIEW; ``columns`` renames the query's columns if not empty."""

    name: str
    columns: tuple[str, ...]
    query: Select
    materialized: bool
    or_replace: bool
    if_not_exists: bool
    span: Span
    temporary: bool = False
    check: str = ""
    """LOCAL or CASCADED of WITH CHECK OPTION."""
    invoker: bool = False
    """The option security_invoker."""


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP TABLE or DROP [MATERIALIZED] VIEW (``kind`` is ``"TABLE"`` or ``"VIEW"``)."""

    kind: str
    names: tuple[str, ...]
    if_exists: bool
    cascade: bool
    span: Span
    materialized: bool = False


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
    """What ON CONFLICT names, if it is more than columns or ``predicate`` says of which rows."""
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO table [AS alias] [(columns)] query; no columns means all, in order.

    ``overriding`` is empty, SYSTEM or USER; ``returning`` are the expressions of RETURNING.
    """

    table: str
    alias: str
    columns: tuple[str, ...]
    query: Select
    conflict: Conflict | None
    span: Span
    overriding: str = ""
    returning: tuple[exp.Expr, ...] = ()
    common: exp.Expr | None = None
    through: Through | None = None
    alternative: str = ""
    """REPLACE or IGNORE of INSERT OR."""
    moves: bool = False
    """Whether the rows are those of an UPDATE that has made them another partition's."""


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table [AS alias] [USING relation, ...] [WHERE condition]."""

    table: str
    alias: str
    using: tuple[exp.Expr, ...]
    where: exp.Expr | None
    span: Span
    returning: tuple[exp.Expr, ...] = ()
    common: exp.Expr | None = None
    through: Through | None = None
    alone: bool = False
    """Whether ONLY stands before the table: without its partitions."""
    cursor: str = ""
    """That of WHERE CURRENT OF."""


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE table [AS alias] SET column = expression, ... [FROM relation, ...] [WHERE condition]."""

    table: str
    alias: str
    assignments: tuple[tuple[exp.Identifier, exp.Expr], ...]
    sources: tuple[exp.Expr, ...]
    where: exp.Expr | None
    span: Span
    returning: tuple[exp.Expr, ...] = ()
    common: exp.Expr | None = None
    through: Through | None = None
    alone: bool = False
    whole: str = ""
    """The partitioned table that was named, if this is the part for one of its partitions."""
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class When:
    """An action of MERGE. ``kind``: ``matched``, ``target`` or ``source``, the side that is not matched.

    With ``assignments`` it updates, with ``values`` it inserts, else it ``deletes`` or does nothing.
    """

    kind: str
    condition: exp.Expr | None
    assignments: tuple[tuple[exp.Identifier, exp.Expr], ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[exp.Expr, ...] | None = None
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO table [AS alias] USING relation ON condition WHEN ..."""

    table: str
    alias: str
    using: tuple[exp.Expr, ...]
    on: exp.Expr
    whens: tuple[When, ...]
    span: Span
    common: exp.Expr | None = None
    part: str = ""
    """Of one into several tables: "matched" for one of them alone, "unmatched" for what none of them has."""


@dataclass(frozen=True, slots=True)
class Modifying:
    """WITH queries some of which change tables; all see the tables as they were before the statement.

    Each of ``parts`` has a name, names of columns, and a statement; ``main`` comes last.
    """

    parts: "tuple[tuple[str, tuple[str, ...], Change], ...]"
    main: "Change | Select"
    span: Span


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """COPY table [(columns)] FROM 'path'; option names are lower case.

    Without a path the rows are STDIN's: ``text``, which a client has sent, or which stands behind it.
    ``where`` is the text of a condition.
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
class CopyTo:
    """COPY (query) TO 'path'; for a relation's name, the query reads all of it."""

    query: Select
    path: str
    format: str
    options: tuple[tuple[str, str], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Explaining:
    """What the options of EXPLAIN say; without a word of ``summary`` times are told if it is run."""

    format: str = "TEXT"
    analyze: bool = False
    costs: bool = True
    timing: bool = True
    summary: bool | None = None
    generic: bool = False

    @property
    def tells_times(self) -> bool:
        """Whether it ends with how long things took."""
        return self.analyze if self.summary is None else self.summary


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [options] [stage] query; ``stage`` is one of ``parse.STAGES``, ``physical`` without one."""

    stage: str
    statement: "Select | CreateView | CreateTableAs | Change | Modifying"
    span: Span
    how: Explaining = Explaining()


@dataclass(frozen=True, slots=True)
class ExplainView:
    """EXPLAIN VIEW name: the plan of a view that there is."""

    stage: str
    relation: str
    place: Span
    span: Span
    how: Explaining = Explaining()


@dataclass(frozen=True, slots=True)
class ExplainRow:
    """EXPLAIN ROW relation VALUES (...) or WHERE ...: where a row comes from, as text or JSON."""

    relation: str
    place: Span
    values: tuple[exp.Expr, ...]
    where: exp.Expr | None
    as_json: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Begin:
    """BEGIN or START TRANSACTION; ``read_only`` is None if it does not say."""

    span: Span
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT or END; with AND CHAIN another transaction begins."""

    span: Span
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK or ABORT; with AND CHAIN another transaction begins."""

    span: Span
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE relation."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class VerifyView:
    """VERIFY VIEW view."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES."""

    span: Span


Change = Insert | Delete | Update | Merge
Explained = Select | CreateView | CreateTableAs | Change
"""What EXPLAIN shows one plan of."""


Statement = (
    Select
    | Merge
    | Modifying
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
