"""Statement records of DDL: one per CREATE, DROP and GRANT statement, and one per action of ALTER."""

from typing import ClassVar

from kpg.compiler.catalog.constraints import Bound, Constraint, Domain, Rule, Sequence
from kpg.compiler.catalog.privileges import Attributes
from kpg.compiler.catalog.routines import Parameter
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import ColumnDef, Type


class Command:
    """Base of all statements, with Postgres' command tag of each."""

    __slots__ = ()
    span: Span
    tag: ClassVar[str]
    """Command tag, as a format of the statement's fields."""

    def __init_subclass__(cls, *, tag: str = "") -> None:
        if tag:
            cls.tag = tag

    def command_tag(self) -> str:
        """Return the command tag."""
        return self.tag.format(self).upper()


class Definition(Command):
    """Base of DDL statements."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnDef
    rule: Rule
    constraints: tuple[Constraint, ...]
    sequence: Sequence | None
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME TO."""

    name: str


@dataclass(frozen=True, slots=True)
class SetSchema:
    """SET SCHEMA."""

    schema: str


@dataclass(frozen=True, slots=True)
class AlterType:
    """ALTER COLUMN TYPE; ``using`` is the text of an expression, empty for a cast."""

    name: str
    type: Type
    using: str


@dataclass(frozen=True, slots=True)
class SetRule:
    """ALTER COLUMN SET DEFAULT and similar actions: set ``part`` of a column's rule to a text or ""."""

    name: str
    part: str
    text: str
    sequence: Sequence | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterIdentity:
    """ALTER COLUMN of an identity; an empty ``kind`` keeps its kind.

    ``options`` are those of its sequence.
    """

    name: str
    kind: str
    options: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """ALTER COLUMN SET or DROP NOT NULL."""

    name: str
    not_null: bool


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD CONSTRAINT."""

    constraint: Constraint
    validates: bool
    """Whether existing rows are checked; false for NOT VALID."""


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP CONSTRAINT."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class RenameConstraint:
    """RENAME CONSTRAINT."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AttachPartition:
    """ATTACH PARTITION, with the bound of the new partition."""

    child: str
    bound: "Bound"


@dataclass(frozen=True, slots=True)
class DetachPartition:
    """DETACH PARTITION."""

    child: str


@dataclass(frozen=True, slots=True)
class SetRowSecurity:
    """ENABLE, DISABLE, FORCE or NO FORCE ROW LEVEL SECURITY; None means unchanged."""

    enabled: bool | None = None
    forced: bool | None = None


@dataclass(frozen=True, slots=True)
class AlterConstraint:
    """ALTER CONSTRAINT or, if ``validates``, VALIDATE CONSTRAINT."""

    name: str
    validates: bool
    deferrable: bool = False
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Action without visible effect: owners, statistics, storage."""

    command: str


@dataclass(frozen=True, slots=True)
class SetSecurityInvoker:
    """SET or RESET (security_invoker) of a view."""

    invoker: bool


Action = (
    AddColumn
    | DropColumn
    | RenameColumn
    | RenameTo
    | SetSchema
    | AlterType
    | SetRule
    | AlterIdentity
    | SetNotNull
    | AddConstraint
    | DropConstraint
    | RenameConstraint
    | AlterConstraint
    | AttachPartition
    | DetachPartition
    | SetRowSecurity
    | NoEffect
    | SetSecurityInvoker
)


@dataclass(frozen=True, slots=True)
class PrivilegeSpec:
    """Privilege, with its columns if it names some."""

    privilege: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateRole(Definition, tag="CREATE ROLE"):
    """CREATE ROLE, USER or GROUP.

    The new role becomes a member of the roles ``into``. ``members`` and ``admins`` become its members.
    """

    name: str
    attributes: Attributes
    into: tuple[str, ...]
    members: tuple[str, ...]
    admins: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AlterRole(Definition, tag="ALTER ROLE"):
    """ALTER ROLE: attributes, a new name, members, or a default of a setting."""

    name: str
    attributes: Attributes
    rename: str
    span: Span
    added_members: tuple[str, ...] = ()
    removed_members: tuple[str, ...] = ()
    setting: str = ""
    value: str | None = None
    """Default of ``setting``; None resets it, or all settings if ``setting`` is ``ALL``."""


@dataclass(frozen=True, slots=True)
class DropRole(Definition, tag="DROP ROLE"):
    """DROP ROLE."""

    names: tuple[str, ...]
    if_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class GrantRole(Definition):
    """GRANT role TO role, or REVOKE; ``options`` are ADMIN, INHERIT and SET, each granted or revoked."""

    roles: tuple[str, ...]
    members: tuple[str, ...]
    is_grant: bool
    options: tuple[tuple[str, bool], ...]
    cascade: bool
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return "GRANT ROLE" if self.is_grant else "REVOKE ROLE"


@dataclass(frozen=True, slots=True)
class Grant(Definition):
    """GRANT or REVOKE of privileges; empty ``privileges`` mean ALL.

    ``names`` are objects of a kind, or schemas if ``in_schemas``. ``grant_option``: WITH GRANT OPTION,
    or GRANT OPTION FOR.
    """

    privileges: tuple[PrivilegeSpec, ...]
    kind: str
    names: tuple[str, ...]
    in_schemas: bool
    roles: tuple[str, ...]
    is_grant: bool
    grant_option: bool
    cascade: bool
    span: Span
    columns: tuple[str, ...] = ()
    """Columns of ALL PRIVILEGES, if it names some."""
    arguments: tuple[tuple[Type, ...] | None, ...] = ()
    """Argument types of each function in ``names``; None if they are left out."""

    def command_tag(self) -> str:
        """Return the command tag."""
        return "GRANT" if self.is_grant else "REVOKE"


@dataclass(frozen=True, slots=True)
class AlterDefaults(Definition, tag="ALTER DEFAULT PRIVILEGES"):
    """ALTER DEFAULT PRIVILEGES: owners and schemas of the objects, and a GRANT or REVOKE."""

    owners: tuple[str, ...]
    schemas: tuple[str, ...]
    grant: Grant
    span: Span


@dataclass(frozen=True, slots=True)
class AlterOwner(Definition, tag="ALTER {0.kind}"):
    """ALTER ... OWNER TO."""

    kind: str
    name: str
    owner: str
    if_exists: bool
    span: Span
    arguments: tuple[Type, ...] | None = None
    """Argument types of a function, if they are given."""


@dataclass(frozen=True, slots=True)
class Reassign(Definition):
    """REASSIGN OWNED BY roles TO role, or DROP OWNED BY roles if ``owner`` is empty."""

    roles: tuple[str, ...]
    owner: str
    cascade: bool
    span: Span

    def command_tag(self) -> str:
        """Return the command tag."""
        return "REASSIGN OWNED" if self.owner else "DROP OWNED"


AnyRole = CreateRole | AlterRole | DropRole | GrantRole | Grant | AlterDefaults | AlterOwner | Reassign


Options = tuple[tuple[str, object], ...]
"""Options of a sequence: names and values."""


@dataclass(frozen=True, slots=True)
class CreateSequence(Definition, tag="CREATE SEQUENCE"):
    """CREATE SEQUENCE."""

    name: str
    options: Options
    if_not_exists: bool
    temporary: bool
    span: Span


@dataclass(frozen=True, slots=True)
class AlterSequence(Definition, tag="ALTER SEQUENCE"):
    """ALTER SEQUENCE; ``rename`` is its new name, or empty."""

    name: str
    options: Options
    if_exists: bool
    rename: str
    span: Span


@dataclass(frozen=True, slots=True)
class RenameSchema(Definition, tag="ALTER SCHEMA"):
    """ALTER SCHEMA ... RENAME TO."""

    name: str
    new: str
    span: Span


@dataclass(frozen=True, slots=True)
class CreateSchema(Definition, tag="CREATE SCHEMA"):
    """CREATE SCHEMA; an empty ``owner`` is the session user. ``elements`` are the texts of its statements."""

    name: str
    if_not_exists: bool
    span: Span
    owner: str = ""
    elements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Definition, tag="CREATE INDEX"):
    """CREATE [UNIQUE] INDEX; ``columns`` are empty for an index over expressions, or a partial one.

    ``what`` is the text from the column list on.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    what: str
    unique: bool
    nulls_distinct: bool
    if_not_exists: bool
    span: Span
    elements: tuple[str, ...] = ()
    """Texts of the key, if it has expressions or the index is partial."""
    where: str = ""
    include_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateType(Definition, tag="CREATE TYPE"):
    """CREATE TYPE: an ENUM, or a RECORD with a name."""

    name: str
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class CreateDomain(Definition, tag="CREATE DOMAIN"):
    """CREATE DOMAIN."""

    domain: Domain
    span: Span


@dataclass(frozen=True, slots=True)
class DropOther(Definition, tag="DROP {0.kind}"):
    """DROP SEQUENCE, SCHEMA, INDEX or TYPE."""

    kind: str
    names: tuple[str, ...]
    if_exists: bool
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Truncate(Definition, tag="TRUNCATE TABLE"):
    """TRUNCATE."""

    tables: tuple[str, ...]
    restart: bool
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Comment(Definition, tag="COMMENT"):
    """COMMENT ON; without a text it removes the comment."""

    kind: str
    name: str
    part: str
    text: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Alter(Definition, tag="ALTER {0.kind}"):
    """ALTER TABLE, VIEW, MATERIALIZED VIEW or INDEX, with its actions."""

    kind: str
    name: str
    if_exists: bool
    actions: tuple[Action, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AlterDomain(Definition, tag="ALTER DOMAIN"):
    """ALTER DOMAIN, as an action on a column with an empty name."""

    name: str
    action: Action
    span: Span


@dataclass(frozen=True, slots=True)
class AlterUserType(Definition, tag="ALTER TYPE"):
    """ALTER TYPE: ``action`` applies to the label or field ``old``; ``new`` is its new name or the type's.

    ``before`` and ``after`` place a new label.
    """

    name: str
    action: str
    old: str
    new: str
    before: str
    after: str
    has_if_exists: bool
    """Whether IF EXISTS or IF NOT EXISTS is given."""
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class CreateFunction(Definition, tag="CREATE FUNCTION"):
    """CREATE FUNCTION in SQL. ``columns`` name the columns of its result.

    User-defined types and row types are ENUMs without labels here.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    columns: tuple[str, ...]
    returns_set: bool
    body: str
    strict: bool
    or_replace: bool
    span: Span
    out_parameters: tuple[tuple[str, Type], ...] = ()
    security_definer: bool = False
    attributes: tuple[tuple[str, str], ...] = ()
    is_sql_body: bool = False
    """Whether the body is SQL (RETURN, BEGIN ATOMIC) and not a string."""


@dataclass(frozen=True, slots=True)
class DropFunction(Definition, tag="DROP {0.kind}"):
    """DROP FUNCTION: names with argument types; None if these are left out.

    ``kind`` is ``function`` or ``routine``.
    """

    names: tuple[tuple[str, tuple[Type, ...] | None], ...]
    if_exists: bool
    cascade: bool
    span: Span
    kind: str


@dataclass(frozen=True, slots=True)
class AlterFunction(Definition, tag="ALTER FUNCTION"):
    """ALTER FUNCTION: a new name or "", and STRICT; None means unchanged.

    ``security_definer``: whether it runs with its owner's privileges; None means unchanged.
    """

    name: str
    types: tuple[Type, ...] | None
    rename: str
    strict: bool | None
    span: Span
    security_definer: bool | None = None
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateAggregate(Definition, tag="CREATE AGGREGATE"):
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
class DropAggregate(Definition, tag="DROP AGGREGATE"):
    """DROP AGGREGATE: names, each with its argument types."""

    names: tuple[tuple[str, tuple[Type, ...]], ...]
    if_exists: bool
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class DefinePolicy(Definition):
    """CREATE, ALTER, RENAME or DROP of a policy, as ``verb`` tells; ALTER ignores empty fields."""

    verb: str
    name: str
    table: str
    span: Span
    permissive: bool = True
    command: str = "ALL"
    roles: tuple[str, ...] = ()
    using: str = ""
    check: str = ""
    new_name: str = ""
    if_exists: bool = False

    def command_tag(self) -> str:
        """Return the command tag."""
        return f"{'alter' if self.verb == 'rename' else self.verb} policy".upper()


@dataclass(frozen=True, slots=True)
class CreateEgoView(Definition, tag="CREATE EGO VIEW"):
    """CREATE EGO VIEW, as texts of SQL."""

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


@dataclass(frozen=True, slots=True)
class CreateExtension(Definition, tag="CREATE EXTENSION"):
    """CREATE EXTENSION of a user's package; one name."""

    names: tuple[str, ...]
    if_not_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class DropExtension(Definition, tag="DROP EXTENSION"):
    """DROP EXTENSION of users' packages."""

    names: tuple[str, ...]
    if_exists: bool
    span: Span


AnyDefinition = (
    CreateSequence
    | CreateEgoView
    | CreateExtension
    | DropExtension
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
