"""Statement records of DDL: one per CREATE, DROP and GRANT statement, and one per action of ALTER."""

from kpg.compiler.catalog.constraints import Bound, Constraint, Domain, Rule, Sequence
from kpg.compiler.catalog.privileges import Attributes
from kpg.compiler.catalog.routines import Parameter
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import ColumnDef, Type


class Definition:
    """Base of statements that change what there is besides tables' rows."""

    __slots__ = ()
    span: Span


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
    """ALTER COLUMN SET DEFAULT and its like: ``part`` of a rule gets a text, which may be empty."""

    name: str
    part: str
    text: str
    sequence: Sequence | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterIdentity:
    """ALTER COLUMN of its identity: ``kind`` is empty if that stays; options are those of its sequence."""

    name: str
    kind: str
    options: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """ALTER COLUMN SET or DROP NOT NULL."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD CONSTRAINT; with ``index`` it takes over an index of that name."""

    constraint: Constraint
    checked: bool


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
class Attach:
    """ATTACH PARTITION, with the bound of what is a partition from now on."""

    child: str
    bound: "Bound"


@dataclass(frozen=True, slots=True)
class Detach:
    """DETACH PARTITION."""

    child: str


@dataclass(frozen=True, slots=True)
class Secure:
    """ENABLE, DISABLE, FORCE or NO FORCE ROW LEVEL SECURITY; None is left as it is."""

    enabled: bool | None = None
    forced: bool | None = None


@dataclass(frozen=True, slots=True)
class SettleConstraint:
    """ALTER CONSTRAINT, or, if it ``validates``, VALIDATE CONSTRAINT."""

    name: str
    validates: bool
    deferrable: bool = False
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """What changes nothing that can be seen: owners, statistics, storage."""

    what: str


@dataclass(frozen=True, slots=True)
class SetInvoker:
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
    | SettleConstraint
    | Attach
    | Detach
    | Secure
    | Nothing
    | SetInvoker
)


@dataclass(frozen=True, slots=True)
class Part:
    """A privilege, and the columns of which it is if it names some."""

    privilege: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateRole(Definition):
    """CREATE ROLE, USER or GROUP.

    ``into`` are roles that it becomes a member of, ``members`` and ``admins`` those that become its members.
    """

    name: str
    attributes: Attributes
    into: tuple[str, ...]
    members: tuple[str, ...]
    admins: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AlterRole(Definition):
    """ALTER ROLE: attributes, another name, members, or a setting that its sessions begin with."""

    name: str
    attributes: Attributes
    rename: str
    span: Span
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    setting: str = ""
    value: str | None = None
    """Of ``setting``; None to have none, of all settings if that is ``ALL``."""


@dataclass(frozen=True, slots=True)
class DropRole(Definition):
    """DROP ROLE."""

    names: tuple[str, ...]
    if_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class GrantRole(Definition):
    """GRANT role TO role, or REVOKE; ``options`` are ADMIN, INHERIT and SET, given or taken."""

    roles: tuple[str, ...]
    members: tuple[str, ...]
    grants: bool
    options: tuple[tuple[str, bool], ...]
    cascade: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Grant(Definition):
    """GRANT or REVOKE of privileges. No ``parts`` are all of them.

    ``names`` are things of a kind, or schemas whose things are meant (``within``). ``passing``: WITH GRANT
    OPTION, or GRANT OPTION FOR.
    """

    parts: tuple[Part, ...]
    kind: str
    names: tuple[str, ...]
    within: bool
    roles: tuple[str, ...]
    grants: bool
    passing: bool
    cascade: bool
    span: Span
    columns: tuple[str, ...] = ()
    """Of ALL PRIVILEGES, if it names some."""
    arguments: tuple[tuple[Type, ...] | None, ...] = ()
    """Of functions, with each name the types of its arguments, None where these are left out."""


@dataclass(frozen=True, slots=True)
class AlterDefaults(Definition):
    """ALTER DEFAULT PRIVILEGES: for whose things, in which schemas, and what is granted or revoked."""

    owners: tuple[str, ...]
    schemas: tuple[str, ...]
    grant: Grant
    span: Span


@dataclass(frozen=True, slots=True)
class AlterOwner(Definition):
    """ALTER ... OWNER TO."""

    kind: str
    name: str
    owner: str
    if_exists: bool
    span: Span
    arguments: tuple[Type, ...] | None = None
    """Of a function, if they are told."""


@dataclass(frozen=True, slots=True)
class Reassign(Definition):
    """REASSIGN OWNED BY roles TO role, or DROP OWNED BY roles if that is empty."""

    roles: tuple[str, ...]
    owner: str
    cascade: bool
    span: Span


AnyRole = CreateRole | AlterRole | DropRole | GrantRole | Grant | AlterDefaults | AlterOwner | Reassign


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
    """CREATE EGO VIEW, in texts of SQL; see ``kpg.execute.definitions.ego_views.Asked``."""

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
