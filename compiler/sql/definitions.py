"""Statements that change what there is besides tables' rows: sequences, schemas, indexes, ALTER, comments."""

from kpg.compiler.constraints import Domain
from kpg.compiler.routines import Parameter
from kpg.compiler.sql.alterations import Action as Action
from kpg.compiler.sql.alterations import AddColumn as AddColumn
from kpg.compiler.sql.alterations import AddConstraint as AddConstraint
from kpg.compiler.sql.alterations import AlterIdentity as AlterIdentity
from kpg.compiler.sql.alterations import AlterType as AlterType
from kpg.compiler.sql.alterations import Attach as Attach
from kpg.compiler.sql.alterations import Detach as Detach
from kpg.compiler.sql.alterations import DropColumn as DropColumn
from kpg.compiler.sql.alterations import DropConstraint as DropConstraint
from kpg.compiler.sql.alterations import Nothing as Nothing
from kpg.compiler.sql.alterations import RenameColumn as RenameColumn
from kpg.compiler.sql.alterations import RenameConstraint as RenameConstraint
from kpg.compiler.sql.alterations import RenameTo as RenameTo
from kpg.compiler.sql.alterations import Secure as Secure
from kpg.compiler.sql.alterations import SetInvoker as SetInvoker
from kpg.compiler.sql.alterations import SetNotNull as SetNotNull
from kpg.compiler.sql.alterations import SetRule as SetRule
from kpg.compiler.sql.alterations import SetSchema as SetSchema
from kpg.compiler.sql.alterations import SettleConstraint as SettleConstraint
from kpg.compiler.sql.definition import Definition
from kpg.compiler.sql.roles import AnyRole
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

Options = tuple[tuple[str, object], ...]
"""Options of a sequence, as they were written."""


@dataclass(frozen=True, slots=True)
class CreateSequence(Definition):
    """CREATE SEQUENCE."""

    name: str
    options: Options
    if_not_exists: bool
    temporary: bool
    span: Span


@dataclass(frozen=True, slots=True)
class AlterSequence(Definition):
    """ALTER SEQUENCE; ``rename`` is its new name, empty if that stays."""

    name: str
    options: Options
    if_exists: bool
    rename: str
    span: Span


@dataclass(frozen=True, slots=True)
class RenameSchema(Definition):
    """ALTER SCHEMA ... RENAME TO."""

    name: str
    new: str
    span: Span


@dataclass(frozen=True, slots=True)
class CreateSchema(Definition):
    """CREATE SCHEMA; ``owner`` is empty for who asks. ``elements`` are statements, as texts."""

    name: str
    if_not_exists: bool
    span: Span
    owner: str = ""
    elements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Definition):
    """CREATE [UNIQUE] INDEX; ``columns`` are empty if it is over expressions, or over some rows only."""

    name: str
    table: str
    columns: tuple[str, ...]
    what: str
    unique: bool
    nulls_distinct: bool
    if_not_exists: bool
    span: Span
    elements: tuple[str, ...] = ()
    """The expressions, if they are more than columns or ``where`` says of which rows."""
    where: str = ""
    included: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateType(Definition):
    """CREATE TYPE: an ENUM, or a RECORD with a name."""

    name: str
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class CreateDomain(Definition):
    """CREATE DOMAIN."""

    domain: Domain
    span: Span


@dataclass(frozen=True, slots=True)
class DropOther(Definition):
    """DROP SEQUENCE, SCHEMA, INDEX or TYPE."""

    kind: str
    names: tuple[str, ...]
    if_exists: bool
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Truncate(Definition):
    """TRUNCATE."""

    tables: tuple[str, ...]
    restart: bool
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Comment(Definition):
    """COMMENT ON; without a text the comment goes."""

    kind: str
    name: str
    part: str
    text: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Alter(Definition):
    """ALTER TABLE, VIEW, MATERIALIZED VIEW or INDEX, with its actions."""

    kind: str
    name: str
    if_exists: bool
    actions: tuple[Action, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AlterDomain(Definition):
    """ALTER DOMAIN: an action as of a column without a name."""

    name: str
    action: Action
    span: Span


@dataclass(frozen=True, slots=True)
class AlterUserType(Definition):
    """ALTER TYPE: ``what`` is done to the label or field ``old``; ``new`` is its name, or that of the type.

    ``before`` and ``after`` place a new label.
    """

    name: str
    what: str
    old: str
    new: str
    before: str
    after: str
    lenient: bool
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class CreateFunction(Definition):
    """CREATE FUNCTION in SQL. ``columns`` name what it gives, if it is declared with a name.

    Types of users, and the rows of relations, are ENUMs without labels here.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    columns: tuple[str, ...]
    rows: bool
    body: str
    strict: bool
    or_replace: bool
    span: Span
    outs: tuple[tuple[str, Type], ...] = ()
    definer: bool = False
    declared: tuple[tuple[str, str], ...] = ()
    parsed: bool = False
    """Whether the body is SQL (RETURN, BEGIN ATOMIC) and no text in quotes."""


@dataclass(frozen=True, slots=True)
class DropFunction(Definition):
    """DROP FUNCTION: names with the types of the arguments, None where these are left out.

    ``kind`` is ``function`` or ``routine``.
    """

    names: tuple[tuple[str, tuple[Type, ...] | None], ...]
    if_exists: bool
    cascade: bool
    span: Span
    kind: str


@dataclass(frozen=True, slots=True)
class AlterFunction(Definition):
    """ALTER FUNCTION: another name, "" if that stays, and whether it is STRICT, None if that stays.

    ``definer``: whether it has its owner's rights; None if that stays.
    """

    name: str
    types: tuple[Type, ...] | None
    rename: str
    strict: bool | None
    span: Span
    definer: bool | None = None
    declared: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateAggregate(Definition):
    """CREATE AGGREGATE; see ``routines.Aggregate``."""

    name: str
    types: tuple[Type, ...]
    step: str
    state: Type
    init: str | None
    final: str
    or_replace: bool
    span: Span


@dataclass(frozen=True, slots=True)
class DropAggregate(Definition):
    """DROP AGGREGATE: names, each with the types of its arguments."""

    names: tuple[tuple[str, tuple[Type, ...]], ...]
    if_exists: bool
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class DefinePolicy(Definition):
    """CREATE, ALTER, RENAME or DROP of a policy, as ``verb`` says; what is not given is not changed."""

    verb: str
    name: str
    table: str
    span: Span
    permissive: bool = True
    command: str = "ALL"
    roles: tuple[str, ...] = ()
    using: str = ""
    check: str = ""
    renamed: str = ""
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateEgoView(Definition):
    """CREATE EGO VIEW, in texts of SQL; see ``kpg.ddl.egos.Asked``."""

    name: str
    aggregate: str
    writes: str
    window: int | str | tuple[str, int] | None
    edges: str
    neighbourhood: str
    where: str | None
    readers: str | None
    continuous: str | None
    options: tuple[tuple[str, str], ...]
    or_replace: bool
    span: Span


AnyDefinition = (
    CreateSequence
    | CreateEgoView
    | AlterSequence
    | CreateSchema
    | RenameSchema
    | CreateIndex
    | CreateType
    | CreateDomain
    | AlterDomain
    | AlterUserType
    | DropOther
    | Truncate
    | Comment
    | Alter
    | CreateFunction
    | DropFunction
    | AlterFunction
    | CreateAggregate
    | DropAggregate
    | DefinePolicy
    | AnyRole
)
