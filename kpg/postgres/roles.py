"""CREATE, ALTER and DROP ROLE, role memberships, and SET ROLE.

Each membership has a grantor, who may revoke it. As in Postgres, a role may have several
memberships in the same role, each from a different grantor.
"""

import base64
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from kpg.compiler.catalog.access_control import describe_object, policies_of_role, rename_role_in_policies
from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.catalog.privileges import (
    ACLS,
    BOOTSTRAP_ROLE,
    DATABASE,
    DEFAULT_ACLS,
    OWNERS,
    PREDEFINED_ROLES,
    ROLES,
    Asker,
    Attributes,
    Items,
    Key,
    Membership,
    Privileges,
    Role,
)
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.statements import SetRole
from kpg.runtime.errors import DataError, InterfaceError, PrivilegeError, ProgrammingError, Span
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import TIMESTAMPTZ
from kpg.runtime.values import codec_of
from kpg.runtime.values.input_errors import input_error
from kpg.runtime.values.style_output import reader_of
from kpg.session.engine import Engine, SessionInfo
from kpg.session.notices import Notice, notice_skipped, send_notice
from kpg.session.setting_values import check_value, revert_at_rollback

if TYPE_CHECKING:
    from kpg.postgres import passwords
else:
    passwords = LazyModule("kpg.postgres.passwords")


def add_membership(
    engine: Engine,
    role: str,
    member: str,
    grantor: str,
    *,
    admin: bool | None = None,
    inherits: bool | None = None,
    sets: bool | None = None,
) -> None:
    """Add or change a role's membership in another.

    Options that are None keep their value or their default.
    """
    privileges = engine.catalog.privileges
    if member in privileges.effective_roles(role, by="any"):
        raise ProgrammingError(f'role "{role}" is a member of role "{member}"', sqlstate="0LP01")
    member_role = privileges.find_role(member)
    assert member_role is not None
    old = next((one for one in member_role.member_of if (one.role, one.grantor) == (role, grantor)), None)
    base = old or Membership(role, grantor, False, member_role.inherits, True)
    new = replace(
        base,
        admin=base.admin if admin is None else admin,
        inherits=base.inherits if inherits is None else inherits,
        sets=base.sets if sets is None else sets,
    )
    others = tuple(one for one in member_role.member_of if one != old)
    engine.catalog.apply(ROLES.put(member, replace(member_role, member_of=(*others, new))))


def grant_role(engine: Engine, role: str, member: str, statement: ast.GrantRole) -> None:
    """GRANT a role to another, or REVOKE it."""
    privileges, asker = engine.catalog.privileges, engine.catalog.asker
    if not privileges.has_admin_option(asker.user, role) or (
        privileges.is_superuser(role) and not privileges.is_superuser(asker.user)
    ):
        verb = "grant" if statement.is_grant else "revoke"
        raise PrivilegeError(
            f'permission denied to {verb} role "{role}"',
            span=statement.span,
            detail=f'Only roles with the ADMIN option on role "{role}" may {verb} this role.',
        )
    options, grantor = dict(statement.options), membership_grantor(engine, role)
    is_member = _has_membership(engine, role, member, grantor)
    if statement.is_grant and options.get("ADMIN") and not privileges.is_superuser(asker.user):
        _check_circular_grant(engine, role, member, statement.span)
    if statement.is_grant and not options and is_member:
        text = f'role "{member}" has already been granted membership in role "{role}" by role "{grantor}"'
        send_notice(engine, Notice("NOTICE", text))
    if not statement.is_grant and not (options and is_member):
        revoke_membership(engine, role, member, grantor, cascade=statement.cascade)
        return
    admin, inherits, sets = options.get("ADMIN"), options.get("INHERIT"), options.get("SET")
    if admin is False and is_member:
        _revoke_dependent_memberships(engine, role, member, grantor, cascade=statement.cascade)
    add_membership(engine, role, member, grantor, admin=admin, inherits=inherits, sets=sets)


def membership_grantor(engine: Engine, role: str) -> str:
    """Return the grantor of a new membership: the bootstrap role for superusers, else a role with ADMIN."""
    privileges, user = engine.catalog.privileges, engine.catalog.asker.user
    if privileges.is_superuser(user):
        return BOOTSTRAP_ROLE
    return next(
        (
            one
            for one in (user, *sorted(privileges.effective_roles(user)))
            if _has_own_admin_option(privileges, role, one)
        ),
        user,
    )


def _has_own_admin_option(privileges: Privileges, role: str, member: str, without: str = "") -> bool:
    """Return whether a role itself has ADMIN on another, by a grantor other than ``without``."""
    member_role = privileges.find_role(member)
    memberships = member_role.member_of if member_role is not None else ()
    return any(one.role == role and one.admin and one.grantor != without for one in memberships)


def _revoke_dependent_memberships(
    engine: Engine, role: str, member: str, grantor: str, *, cascade: bool
) -> None:
    """Revoke the memberships that a role granted, if it loses its last ADMIN option.

    ProgrammingError without ``cascade`` if there are any.
    """
    privileges = engine.catalog.privileges
    if _has_own_admin_option(privileges, role, member, grantor) or not _has_own_admin_option(
        privileges, role, member
    ):
        return
    grantees = [
        other.name
        for other in privileges.roles.values()
        if any((one.role, one.grantor) == (role, member) for one in other.member_of)
    ]
    if grantees and not cascade:
        raise ProgrammingError("dependent privileges exist", hint="Use CASCADE to revoke them too.")
    for other in grantees:
        revoke_membership(engine, role, other, member, cascade=True)


def _check_circular_grant(engine: Engine, role: str, member: str, span: Span) -> None:
    """Raise ProgrammingError if the current user's ADMIN option derives from one that the member granted."""
    privileges, name = engine.catalog.privileges, engine.catalog.asker.user
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        own = privileges.find_role(name)
        grantors = [each.grantor for each in own.member_of if each.role == role and each.admin] if own else []
        if member in grantors:
            message = "ADMIN option cannot be granted back to your own grantor"
            raise ProgrammingError(message, span=span, sqlstate="0LP01")
        name = grantors[0] if grantors else name


def _has_membership(engine: Engine, role: str, member: str, grantor: str) -> bool:
    own = engine.catalog.privileges.find_role(member)
    return own is not None and any((one.role, one.grantor) == (role, grantor) for one in own.member_of)


def revoke_membership(engine: Engine, role: str, member: str, grantor: str, *, cascade: bool) -> None:
    """Revoke a membership that ``grantor`` granted; a warning if there is none."""
    privileges = engine.catalog.privileges
    if not _has_membership(engine, role, member, grantor):
        text = f'role "{member}" has not been granted membership in role "{role}" by role "{grantor}"'
        send_notice(engine, Notice("WARNING", text, "01000"))
        return
    _revoke_dependent_memberships(engine, role, member, grantor, cascade=cascade)
    own = privileges.roles[member]
    remaining = tuple(one for one in own.member_of if (one.role, one.grantor) != (role, grantor))
    engine.catalog.apply(ROLES.put(member, replace(own, member_of=remaining)))


SCRAM: Final = re.compile(r"SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+")
RESTRICTED_ATTRIBUTES: Final = {
    "superuser": "SUPERUSER",
    "replicates": "REPLICATION",
    "bypasses": "BYPASSRLS",
    "creates_databases": "CREATEDB",
}
"""Attributes that only roles with them may set, and their SQL names."""
DROPPED_ROLE: Final = "pg_gone"
"""Role of the sessions of a dropped role. No role can be created with this name."""


def run_role_statement(
    engine: Engine, statement: ast.CreateRole | ast.AlterRole | ast.DropRole | ast.GrantRole
) -> None:
    """Run CREATE, ALTER or DROP ROLE, or a GRANT or REVOKE of roles."""
    match statement:
        case ast.CreateRole():
            _create(engine, statement)
        case ast.AlterRole():
            _alter(engine, statement)
        case ast.DropRole():
            for name in statement.names:
                _drop(engine, name, statement)
        case ast.GrantRole():
            for role in statement.roles:
                for member in statement.members:
                    grant_role(engine, resolve_role(engine, role), resolve_role(engine, member), statement)
        case _:
            assert_never(statement)


def resolve_role(engine: Engine, name: str, span: Span | None = None) -> str:
    """Return an existing role by its name, or by CURRENT_USER or SESSION_USER.

    Raises ProgrammingError if it does not exist.
    """
    asker = engine.catalog.asker
    match name:
        case "CURRENT_USER" | "CURRENT_ROLE":
            return asker.user
        case "SESSION_USER":
            return asker.login
    if engine.catalog.privileges.find_role(name) is None:
        if name == "postgres":
            return BOOTSTRAP_ROLE  # the bootstrap role's name in dumps of Postgres
        hint = did_you_mean(name, (one.name for one in engine.catalog.privileges.roles.values()))
        raise ProgrammingError(
            f'role "{name}" does not exist', span=span and span.at(name), hint=hint, sqlstate="42704"
        )
    return name


def password_verifier(password: str) -> str:
    """Return a password's verifier in Postgres' format; a text that is a verifier is returned as it is."""
    if not password or SCRAM.fullmatch(password):
        return password

    verifier = passwords.make_verifier(password)
    salt, stored, server = (
        base64.b64encode(one).decode() for one in (verifier.salt, verifier.stored_key, verifier.server_key)
    )
    return f"SCRAM-SHA-256${verifier.iterations}:{salt}${stored}:{server}"


def _normalize_attributes(engine: Engine, attributes: Attributes) -> Attributes:
    """Return the attributes with the password and the expiration in their stored form."""
    if attributes.password is not None:
        attributes = replace(attributes, password=password_verifier(attributes.password))
    return (
        attributes
        if attributes.until is None
        else replace(attributes, until=_normalize_timestamp(engine, attributes.until))
    )


def _normalize_timestamp(engine: Engine, text: str) -> str:
    """Return a timestamp in its stored form, independent of session settings. DataError if it is invalid."""
    try:
        return codec_of(TIMESTAMPTZ).show(reader_of(TIMESTAMPTZ, engine.catalog.style)(text))
    except (ValueError, ArithmeticError):
        wrong = input_error(text, TIMESTAMPTZ)
        error = DataError(wrong.message)
        error.detail, error.sqlstate = wrong.detail, wrong.sqlstate
        raise error from None


def _create(engine: Engine, statement: ast.CreateRole) -> None:
    privileges, asker = engine.catalog.privileges, engine.catalog.asker
    name, current_role = statement.name, privileges.find_role(asker.user)
    attributes = _normalize_attributes(engine, statement.attributes)
    _check_name(name, statement.span)
    if engine.catalog.checks_privileges:
        if current_role is None or not current_role.creates_roles:
            raise PrivilegeError(
                "permission denied to create role",
                span=statement.span,
                detail="Only roles with the CREATEROLE attribute may create roles.",
            )
        _check_attributes(current_role, attributes, "create")
    if privileges.find_role(name) is not None:
        raise ProgrammingError(f'role "{name}" already exists', span=statement.span, sqlstate="42710")
    engine.catalog.apply(ROLES.put(name, attributes.apply_to(Role(name))))
    for role in statement.into:
        add_membership(
            engine, resolve_role(engine, role, statement.span), name, membership_grantor(engine, role)
        )
    for member, admin in [(one, False) for one in statement.members] + [
        (one, True) for one in statement.admins
    ]:
        add_membership(
            engine,
            name,
            resolve_role(engine, member, statement.span),
            membership_grantor(engine, name),
            admin=admin,
        )
    if engine.catalog.checks_privileges:
        # As in Postgres, the creator gets ADMIN on the role, but not its privileges.
        add_membership(engine, name, asker.user, BOOTSTRAP_ROLE, admin=True, inherits=False, sets=False)


def _check_name(name: str, span: Span) -> None:
    if name.startswith("pg_"):
        hint = 'names that begin with "pg_" are the system\'s'
        raise ProgrammingError(f'role name "{name}" is reserved', span=span, hint=hint, sqlstate="42939")


def _check_attributes(current_role: Role, attributes: Attributes, verb: str) -> None:
    for field, word in RESTRICTED_ATTRIBUTES.items():
        if getattr(attributes, field) and not getattr(current_role, field):
            raise PrivilegeError(
                f"permission denied to {verb} role",
                detail=f"Only roles with the {word} attribute may {verb} roles with the {word} attribute.",
            )


def _alter(engine: Engine, statement: ast.AlterRole) -> None:
    privileges, asker, span = engine.catalog.privileges, engine.catalog.asker, statement.span
    if statement.name == "ALL":
        raise ProgrammingError("settings of all roles are not supported", span=span)
    name = resolve_role(engine, statement.name, span)
    role = privileges.find_role(name)
    assert role is not None
    attributes = _normalize_attributes(engine, statement.attributes)
    only_password = attributes == Attributes(password=attributes.password) != Attributes()
    is_own_setting = name == asker.user and (bool(statement.setting) or only_password)
    if engine.catalog.checks_privileges and not is_own_setting:
        current_role = privileges.find_role(asker.user)
        if (
            current_role is None
            or not current_role.creates_roles
            or not privileges.has_admin_option(asker.user, name)
        ):
            raise PrivilegeError(
                "permission denied to alter role",
                span=span,
                detail="Only roles with the CREATEROLE attribute and the ADMIN option on role "
                f'"{name}" may alter this role.',
            )
        if role.superuser:
            raise PrivilegeError(
                "permission denied to alter role",
                span=span,
                detail="Only roles with the SUPERUSER attribute may alter "
                "roles with the SUPERUSER attribute.",
            )
        _check_attributes(current_role, attributes, "alter")
    if name == BOOTSTRAP_ROLE and attributes.superuser is False:
        raise ProgrammingError(f'role "{BOOTSTRAP_ROLE}" has to be a superuser', span=span)
    for member in statement.added_members:
        add_membership(engine, name, resolve_role(engine, member, span), membership_grantor(engine, name))
    for member in statement.removed_members:
        revoke_membership(
            engine, name, resolve_role(engine, member, span), membership_grantor(engine, name), cascade=False
        )
    if statement.rename:
        _rename(engine, role, statement.rename, span)
    elif statement.setting:
        if statement.value is not None:
            check_value(engine, statement.setting, statement.value, span)
        others = tuple(one for one in role.settings if statement.setting not in (one[0], "ALL"))
        new = () if statement.value is None else ((statement.setting, statement.value),)
        engine.catalog.apply(ROLES.put(name, replace(role, settings=others + new)))
    elif attributes != Attributes():
        engine.catalog.apply(ROLES.put(name, attributes.apply_to(role)))


def _rename(engine: Engine, role: Role, new: str, span: Span) -> None:
    privileges = engine.catalog.privileges
    _check_name(new, span)
    if role.name in (BOOTSTRAP_ROLE, *PREDEFINED_ROLES):
        raise ProgrammingError(f'role "{role.name}" cannot be renamed', span=span)
    if role.name in (engine.catalog.asker.login, engine.catalog.asker.user):
        raise ProgrammingError("the role of this session cannot be renamed", span=span)
    if privileges.find_role(new) is not None:
        raise ProgrammingError(f'role "{new}" already exists', span=span, sqlstate="42710")

    def new_name_of(name: str) -> str:
        return new if name == role.name else name

    engine.catalog.apply(ROLES.remove(role.name), ROLES.put(new, replace(role, name=new)))
    _rename_in_sessions(engine, role.name, new)
    ops = rename_role_in_policies(engine.catalog, role.name, new)
    for one in privileges.roles.values():
        memberships = tuple(
            replace(each, role=new_name_of(each.role), grantor=new_name_of(each.grantor))
            for each in one.member_of
        )
        ops.append(ROLES.put(one.name, replace(one, member_of=memberships)))
    ops += (OWNERS.put(key, new_name_of(owner)) for key, owner in privileges.owners.items())

    def rename_in_acl(items: Items) -> Items:
        return tuple(
            replace(one, grantee=new_name_of(one.grantee), grantor=new_name_of(one.grantor)) for one in items
        )

    ops += (ACLS.put(key, rename_in_acl(items)) for key, items in privileges.acls.items())
    for default, items in privileges.default_acls.items():
        ops.append(DEFAULT_ACLS.remove(default))
        renamed = (new_name_of(default[0]), default[1], default[2])
        ops.append(DEFAULT_ACLS.put(renamed, rename_in_acl(items)))
    engine.catalog.apply(*ops)


def _drop(engine: Engine, name: str, statement: ast.DropRole) -> None:
    privileges, asker, span = engine.catalog.privileges, engine.catalog.asker, statement.span
    role = privileges.find_role(name)
    if role is None:
        if not statement.if_exists:
            raise ProgrammingError(f'role "{name}" does not exist', span=span, sqlstate="42704")
        notice_skipped(engine, f'role "{name}" does not exist')
        return
    if engine.catalog.checks_privileges:
        current_role = privileges.find_role(asker.user)
        if (
            current_role is None
            or not current_role.creates_roles
            or not privileges.has_admin_option(asker.user, name)
            or role.superuser
        ):
            raise PrivilegeError(
                "permission denied to drop role",
                span=span,
                detail="Only roles with the CREATEROLE attribute and the ADMIN option on the target roles "
                "may drop roles.",
            )
    if name in (asker.user, asker.login):
        raise InterfaceError("the role of this session cannot be dropped")
    if name in (BOOTSTRAP_ROLE, *PREDEFINED_ROLES):
        raise ProgrammingError(
            f'role "{name}" cannot be dropped because it is required by the database system', span=span
        )
    dependents = _dependent_objects(engine, name)
    if dependents:
        hint = "REASSIGN OWNED, and then DROP OWNED, frees it of them"
        message = f'role "{name}" cannot be dropped because some objects depend on it'
        raise ProgrammingError(message, hint=hint).with_detail("\n".join(dependents))
    remaining = [
        replace(one, member_of=tuple(each for each in one.member_of if each.role != name))
        for one in privileges.roles.values()
    ]
    engine.catalog.apply(*(ROLES.put(one.name, one) for one in remaining), ROLES.remove(name))
    _rename_in_sessions(engine, name, DROPPED_ROLE)


def _rename_in_sessions(engine: Engine, old: str, new: str) -> None:
    """Rename a role in the other sessions, because a new role may get the old name."""
    sessions = () if engine.sessions is None else tuple(engine.sessions.sessions.values())
    changed: list[tuple[SessionInfo, Asker]] = []
    for one in sessions:
        if one.asker.number != engine.catalog.asker.number:
            changed.append((one, one.asker))
            one.asker = _rename_in_identity(one.asker, old, new)

    def undo() -> None:
        for one, asker in changed:
            one.asker = asker

    engine.journal.add(undo=undo)


def _rename_in_identity(asker: Asker, old: str, new: str) -> Asker:
    user, login, came_as, shown = (
        new if name == old else name for name in (asker.user, asker.login, asker.came_as, asker.shown)
    )
    return replace(asker, user=user, login=login, came_as=came_as, shown=shown)


def _dependent_objects(engine: Engine, name: str) -> list[str]:
    """Return descriptions of the objects that prevent a role from being dropped."""
    catalog, privileges = engine.catalog, engine.catalog.privileges
    descriptions = [
        f"owner of {_describe(engine, key)}" for key, owner in privileges.owners.items() if owner == name
    ]
    for key, items in privileges.acls.items():
        if privileges.owner(key) != name and any(name in (one.grantee, one.grantor) for one in items):
            descriptions.append(f"privileges for {describe_object(catalog, key)}")
    descriptions += [
        f"privileges for membership of role {one.name} in role {each.role}"
        for one in privileges.roles.values()
        for each in one.member_of
        if each.grantor == name
    ]
    descriptions += [
        f"target of policy {one.name} on table {catalog.unqualified_name(one.table)}"
        for _, one in policies_of_role(catalog, name)
    ]
    for owner, schema, kind in (
        default
        for default, items in privileges.default_acls.items()
        if name == default[0] or any(name in (one.grantee, one.grantor) for one in items)
    ):
        where = f" in schema {schema}" if schema else ""
        descriptions.append(
            f"privileges for default privileges on new {kind.lower()} belonging to role {owner}{where}"
        )
    return descriptions


def _describe(engine: Engine, key: Key) -> str:
    return f"database {DATABASE}" if key[0] == "DATABASE" else describe_object(engine.catalog, key)


def _target_role(engine: Engine, statement: SetRole) -> str:
    """Return the role that a statement names; empty if it names none."""
    if not statement.name:
        return ""
    try:
        return resolve_role(engine, statement.name, statement.span)
    except ProgrammingError as error:
        error.sqlstate = "22023"
        raise


def set_role(engine: Engine, statement: SetRole) -> None:
    """Run SET ROLE or SET SESSION AUTHORIZATION."""
    catalog = engine.catalog
    asker, privileges = catalog.asker, catalog.privileges
    if statement.session:
        name = _target_role(engine, statement) or asker.came_as
        if name != asker.came_as and not privileges.is_superuser(asker.came_as):
            raise PrivilegeError(
                f'permission denied to set session authorization "{name}"', span=statement.span
            )
        new = replace(asker, user=name, login=name)
    else:
        name = _target_role(engine, statement) or asker.login
        is_allowed = privileges.is_superuser(asker.login) or name in privileges.effective_roles(
            asker.login, by="sets"
        )
        if not is_allowed:
            raise PrivilegeError(f'permission denied to set role "{name}"', span=statement.span)
        new = replace(asker, user=name)

    def set_identity(identity: Asker) -> None:
        catalog.asker = identity

    set_identity(new)
    revert_at_rollback(engine, lambda: set_identity(asker), "SET LOCAL" if statement.local else "")
