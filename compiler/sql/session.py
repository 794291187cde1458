"""Statements of a session: transactions in parts, settings, prepared statements."""

from sqlglot import exp

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


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
