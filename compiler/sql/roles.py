"""Statements about roles and what they may do."""

from kpg.compiler.rights import Attributes
from kpg.compiler.sql.definition import Definition
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type


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
