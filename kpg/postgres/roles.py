"""CREATE, ALTER and DROP ROLE, role memberships, and SET ROLE.

Each membership has a grantor, who may revoke it. As in Postgres, a role may have several memberships in the
same role, each by another grantor.
"""

import base64
import re
from dataclasses import replace
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import described, policies_for, rename_role_in_policies
from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.catalog.privileges import (
    DATABASE,
    FIRST,
    PREDEFINED,
    Asker,
    Attributes,
    Items,
    Key,
    Membership,
    Rights,
    Role,
)
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.statements import SetRole
from kpg.runtime.errors import DataError, InterfaceError, PrivilegeError, ProgrammingError, Span
from kpg.runtime.types import TIMESTAMPTZ
from kpg.runtime.values import codec_of
from kpg.runtime.values.input_errors import complaint
from kpg.runtime.values.style_output import reader_of
from kpg.session.engine import Asking, Engine
from kpg.session.notices import Notice, say, say_skipped
from kpg.session.setting_values import check_value, settle


def add(
    engine: Engine,
    role: str,
    member: str,
    grantor: str,
    *,
    admin: bool | None = None,
    inherits: bool | None = None,
    sets: bool | None = None,
) -> None:
    """Have a role be a member of another; options that are None stay, or are what they are by themselves."""
    rights = engine.catalog.rights
    if member in rights.acts_as(role, by="any"):
        raise ProgrammingError(f'role "{role}" is a member of role "{member}"')
    own = rights.find(member)
    assert own is not None
    old = next((one for one in own.member_of if (one.role, one.grantor) == (role, grantor)), None)
    base = old or Membership(role, grantor, False, own.inherits, True)
    new = replace(
        base,
        admin=base.admin if admin is None else admin,
        inherits=base.inherits if inherits is None else inherits,
        sets=base.sets if sets is None else sets,
    )
    others = tuple(one for one in own.member_of if one != old)
    rights.roles[member] = replace(own, member_of=(*others, new))


def join(engine: Engine, role: str, member: str, statement: ast.GrantRole) -> None:
    """GRANT a role to another, or REVOKE it."""
    rights, asker = engine.catalog.rights, engine.catalog.asker
    if not rights.administers(asker.user, role) or (
        rights.is_superuser(role) and not rights.is_superuser(asker.user)
    ):
        verb = "grant" if statement.grants else "revoke"
        raise PrivilegeError(
            f'permission denied to {verb} role "{role}"',
            span=statement.span,
            detail=f'Only roles with the ADMIN option on role "{role}" may {verb} this role.',
        )
    options, grantor = dict(statement.options), giver(engine, role)
    there = _is_in(engine, role, member, grantor)
    if statement.grants and options.get("ADMIN") and not rights.is_superuser(asker.user):
        _refuse_circle(engine, role, member, statement.span)
    if statement.grants and not options and there:
        text = f'role "{member}" has already been granted membership in role "{role}" by role "{grantor}"'
        say(engine, Notice("NOTICE", text))
    if not statement.grants and not (options and there):
        leave(engine, role, member, grantor, cascade=statement.cascade)
        return
    admin, inherits, sets = options.get("ADMIN"), options.get("INHERIT"), options.get("SET")
    if admin is False and there:
        _lose_admin(engine, role, member, grantor, cascade=statement.cascade)
    add(engine, role, member, grantor, admin=admin, inherits=inherits, sets=sets)


def giver(engine: Engine, role: str) -> str:
    """Who is noted to give a membership: of superusers the first role, of others one that has ADMIN."""
    rights, user = engine.catalog.rights, engine.catalog.asker.user
    if rights.is_superuser(user):
        return FIRST
    return next(
        (one for one in (user, *sorted(rights.acts_as(user))) if _holds_admin(rights, role, one)), user
    )


def _holds_admin(rights: Rights, role: str, member: str, without: str = "") -> bool:
    """Whether a role itself may give memberships in another, ``without`` what somebody has given it."""
    own = rights.find(member)
    given = own.member_of if own is not None else ()
    return any(one.role == role and one.admin and one.grantor != without for one in given)


def _lose_admin(engine: Engine, role: str, member: str, grantor: str, *, cascade: bool) -> None:
    """Take the memberships that a role gave, which may not do so any more; an error unless they go too."""
    rights = engine.catalog.rights
    if _holds_admin(rights, role, member, grantor) or not _holds_admin(rights, role, member):
        return
    given = [
        other.name
        for other in rights.roles.values()
        if any((one.role, one.grantor) == (role, member) for one in other.member_of)
    ]
    if given and not cascade:
        raise ProgrammingError("dependent privileges exist", hint="Use CASCADE to revoke them too.")
    for other in given:
        leave(engine, role, other, member, cascade=True)


def _refuse_circle(engine: Engine, role: str, member: str, span: Span) -> None:
    """ProgrammingError if who asks may administer a role because the member has let that be."""
    rights, one = engine.catalog.rights, engine.catalog.asker.user
    seen: set[str] = set()
    while one not in seen:
        seen.add(one)
        own = rights.find(one)
        grantors = [each.grantor for each in own.member_of if each.role == role and each.admin] if own else []
        if member in grantors:
            message = "ADMIN option cannot be granted back to your own grantor"
            raise ProgrammingError(message, span=span)
        one = grantors[0] if grantors else one


def _is_in(engine: Engine, role: str, member: str, grantor: str) -> bool:
    own = engine.catalog.rights.find(member)
    return own is not None and any((one.role, one.grantor) == (role, grantor) for one in own.member_of)


def leave(engine: Engine, role: str, member: str, grantor: str, *, cascade: bool) -> None:
    """End a membership that a role gave; a warning if there is none."""
    rights = engine.catalog.rights
    if not _is_in(engine, role, member, grantor):
        text = f'role "{member}" has not been granted membership in role "{role}" by role "{grantor}"'
        say(engine, Notice("WARNING", text, "01000"))
        return
    _lose_admin(engine, role, member, grantor, cascade=cascade)
    own = rights.roles[member]
    left = tuple(one for one in own.member_of if (one.role, one.grantor) != (role, grantor))
    rights.roles[member] = replace(own, member_of=left)


SCRAM: Final = re.compile(r"SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+")
SPECIAL: Final = {
    "superuser": "SUPERUSER",
    "replicates": "REPLICATION",
    "bypasses": "BYPASSRLS",
    "creates_databases": "CREATEDB",
}
"""Attributes that one may give only who has them, and their names."""
GONE: Final = "pg_gone"
"""The role of sessions whose role was dropped: nobody can be called so."""


def run_roles(
    engine: Engine, statement: ast.CreateRole | ast.AlterRole | ast.DropRole | ast.GrantRole
) -> None:
    """Run one statement."""
    engine.catalog.version += 1
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
                    join(engine, known(engine, role), known(engine, member), statement)
        case _:
            assert_never(statement)


def known(engine: Engine, name: str, span: Span | None = None) -> str:
    """A role that there is, by its name or as CURRENT_USER and its like."""
    asker = engine.catalog.asker
    match name:
        case "CURRENT_USER" | "CURRENT_ROLE":
            return asker.user
        case "SESSION_USER":
            return asker.login
    if engine.catalog.rights.find(name) is None:
        if name == "postgres":
            return FIRST  # what dumps of Postgres call the first role
        hint = did_you_mean(name, (one.name for one in engine.catalog.rights.roles.values()))
        raise ProgrammingError(f'role "{name}" does not exist', span=span and span.at(name), hint=hint)
    return name


def kept(password: str) -> str:
    """What is kept of a password, as Postgres writes it; that of which such is given stays as it is."""
    if not password or SCRAM.fullmatch(password):
        return password
    from kpg.postgres.passwords import verifier_of  # lazy: the start does without it

    made = verifier_of(password)
    salt, stored, server = (base64.b64encode(one).decode() for one in (made.salt, made.stored, made.server))
    return f"SCRAM-SHA-256${made.rounds}:{salt}${stored}:{server}"


def _settled(engine: Engine, given: Attributes) -> Attributes:
    """The same, the password and the moment until which it holds as they are kept."""
    if given.password is not None:
        given = replace(given, password=kept(given.password))
    return given if given.until is None else replace(given, until=_moment(engine, given.until))


def _moment(engine: Engine, text: str) -> str:
    """A moment as it is kept, whatever the session's zone and style; DataError if the text is none."""
    try:
        return codec_of(TIMESTAMPTZ).show(reader_of(TIMESTAMPTZ, engine.catalog.style)(text))
    except (ValueError, ArithmeticError):
        wrong = complaint(text, TIMESTAMPTZ)
        error = DataError(wrong.message)
        error.detail, error.sqlstate = wrong.detail, wrong.sqlstate
        raise error from None


def _create(engine: Engine, statement: ast.CreateRole) -> None:
    rights, asker = engine.catalog.rights, engine.catalog.asker
    name, own = statement.name, rights.find(asker.user)
    attributes = _settled(engine, statement.attributes)
    _check_name(name, statement.span)
    if engine.catalog.is_limited:
        if own is None or not own.creates_roles:
            raise PrivilegeError(
                "permission denied to create role",
                span=statement.span,
                detail="Only roles with the CREATEROLE attribute may create roles.",
            )
        _check_attributes(own, attributes, "create")
    if rights.find(name) is not None:
        raise ProgrammingError(f'role "{name}" already exists', span=statement.span)
    rights.roles[name] = attributes.of(Role(name))
    for role in statement.into:
        add(engine, known(engine, role, statement.span), name, giver(engine, role))
    for member, admin in [(one, False) for one in statement.members] + [
        (one, True) for one in statement.admins
    ]:
        add(engine, name, known(engine, member, statement.span), giver(engine, name), admin=admin)
    if engine.catalog.is_limited:
        # As in Postgres, who makes a role may administer it, but has not its privileges.
        add(engine, name, asker.user, FIRST, admin=True, inherits=False, sets=False)


def _check_name(name: str, span: Span) -> None:
    if name.startswith("pg_"):
        hint = 'names that begin with "pg_" are the system\'s'
        raise ProgrammingError(f'role name "{name}" is reserved', span=span, hint=hint)


def _check_attributes(own: Role, attributes: Attributes, verb: str) -> None:
    for field, word in SPECIAL.items():
        if getattr(attributes, field) and not getattr(own, field):
            raise PrivilegeError(
                f"permission denied to {verb} role",
                detail=f"Only roles with the {word} attribute may {verb} roles with the {word} attribute.",
            )


def _alter(engine: Engine, statement: ast.AlterRole) -> None:
    rights, asker, span = engine.catalog.rights, engine.catalog.asker, statement.span
    if statement.name == "ALL":
        raise ProgrammingError("settings of all roles are not supported", span=span)
    name = known(engine, statement.name, span)
    role = rights.find(name)
    assert role is not None
    attributes = _settled(engine, statement.attributes)
    only_password = attributes == Attributes(password=attributes.password) != Attributes()
    own_things = name == asker.user and (bool(statement.setting) or only_password)
    if engine.catalog.is_limited and not own_things:
        own = rights.find(asker.user)
        if own is None or not own.creates_roles or not rights.administers(asker.user, name):
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
        _check_attributes(own, attributes, "alter")
    if name == FIRST and attributes.superuser is False:
        raise ProgrammingError(f'role "{FIRST}" has to be a superuser', span=span)
    for member in statement.joins:
        add(engine, name, known(engine, member, span), giver(engine, name))
    for member in statement.leaves:
        leave(engine, name, known(engine, member, span), giver(engine, name), cascade=False)
    if statement.rename:
        _rename(engine, role, statement.rename, span)
    elif statement.setting:
        if statement.value is not None:
            check_value(engine, statement.setting, statement.value, span)
        others = tuple(one for one in role.settings if statement.setting not in (one[0], "ALL"))
        new = () if statement.value is None else ((statement.setting, statement.value),)
        rights.roles[name] = replace(role, settings=others + new)
    elif attributes != Attributes():
        rights.roles[name] = attributes.of(role)


def _rename(engine: Engine, role: Role, new: str, span: Span) -> None:
    rights = engine.catalog.rights
    _check_name(new, span)
    if role.name in (FIRST, *PREDEFINED):
        raise ProgrammingError(f'role "{role.name}" cannot be renamed', span=span)
    if role.name in (engine.catalog.asker.login, engine.catalog.asker.user):
        raise ProgrammingError("the role of this session cannot be renamed", span=span)
    if rights.find(new) is not None:
        raise ProgrammingError(f'role "{new}" already exists', span=span)

    def named(name: str) -> str:
        return new if name == role.name else name

    del rights.roles[role.name]
    rights.roles[new] = replace(role, name=new)
    _go_on_as(engine, role.name, new)
    for one in list(rights.roles.values()):
        moved = tuple(
            replace(each, role=named(each.role), grantor=named(each.grantor)) for each in one.member_of
        )
        rights.roles[one.name] = replace(one, member_of=moved)
    rename_role_in_policies(engine.catalog, role.name, new)
    rights.owners.update({key: named(owner) for key, owner in rights.owners.items()})

    def renamed(items: Items) -> Items:
        return tuple(replace(one, grantee=named(one.grantee), grantor=named(one.grantor)) for one in items)

    rights.lists.update({key: renamed(items) for key, items in rights.lists.items()})
    rights.defaults.update({key: renamed(items) for key, items in rights.defaults.items()})
    for default in [one for one in rights.defaults if one[0] == role.name]:
        rights.defaults[new, default[1], default[2]] = rights.defaults.pop(default)


def _drop(engine: Engine, name: str, statement: ast.DropRole) -> None:
    rights, asker, span = engine.catalog.rights, engine.catalog.asker, statement.span
    role = rights.find(name)
    if role is None:
        if not statement.if_exists:
            raise ProgrammingError(f'role "{name}" does not exist', span=span)
        say_skipped(engine, f'role "{name}" does not exist')
        return
    if engine.catalog.is_limited:
        own = rights.find(asker.user)
        if own is None or not own.creates_roles or not rights.administers(asker.user, name) or role.superuser:
            raise PrivilegeError(
                "permission denied to drop role",
                span=span,
                detail="Only roles with the CREATEROLE attribute and the ADMIN option on the target roles "
                "may drop roles.",
            )
    if name in (asker.user, asker.login):
        raise InterfaceError("the role of this session cannot be dropped")
    if name in (FIRST, *PREDEFINED):
        raise ProgrammingError(
            f'role "{name}" cannot be dropped because it is required by the database system', span=span
        )
    used = _uses(engine, name)
    if used:
        hint = "REASSIGN OWNED, and then DROP OWNED, frees it of them"
        message = f'role "{name}" cannot be dropped because some objects depend on it'
        raise ProgrammingError(message, hint=hint).with_detail("\n".join(used))
    for one in list(rights.roles.values()):
        members = tuple(each for each in one.member_of if each.role != name)
        rights.roles[one.name] = replace(one, member_of=members)
    del rights.roles[name]
    _go_on_as(engine, name, GONE)


def _go_on_as(engine: Engine, old: str, new: str) -> None:
    """Have other sessions of a role be those of its new name: whoever gets the old one is somebody else."""
    sessions = () if engine.sessions is None else tuple(engine.sessions.sessions.values())
    changed: list[tuple[Asking, Asker]] = []
    for one in sessions:
        if one.asker.number != engine.catalog.asker.number:
            changed.append((one, one.asker))
            one.asker = _renamed(one.asker, old, new)

    def undo() -> None:
        for one, asker in changed:
            one.asker = asker

    engine.journal.note(undo=undo)


def _renamed(asker: Asker, old: str, new: str) -> Asker:
    user, login, came_as, shown = (
        new if name == old else name for name in (asker.user, asker.login, asker.came_as, asker.shown)
    )
    return replace(asker, user=user, login=login, came_as=came_as, shown=shown)


def _uses(engine: Engine, name: str) -> list[str]:
    """What keeps a role from being dropped."""
    catalog, rights = engine.catalog, engine.catalog.rights
    found = [f"owner of {_what(engine, key)}" for key, owner in rights.owners.items() if owner == name]
    for key, items in rights.lists.items():
        if rights.owner(key) != name and any(name in (one.grantee, one.grantor) for one in items):
            found.append(f"privileges for {described(catalog, key)}")
    found += [
        f"privileges for membership of role {one.name} in role {each.role}"
        for one in rights.roles.values()
        for each in one.member_of
        if each.grantor == name
    ]
    found += [
        f"target of policy {one.name} on table {catalog.plain(one.table)}"
        for _, one in policies_for(catalog, name)
    ]
    for owner, schema, kind in (
        default
        for default, items in rights.defaults.items()
        if name == default[0] or any(name in (one.grantee, one.grantor) for one in items)
    ):
        where = f" in schema {schema}" if schema else ""
        found.append(
            f"privileges for default privileges on new {kind.lower()} belonging to role {owner}{where}"
        )
    return found


def _what(engine: Engine, key: Key) -> str:
    return f"database {DATABASE}" if key[0] == "DATABASE" else described(engine.catalog, key)


def _becoming(engine: Engine, statement: SetRole) -> str:
    """The role that a statement names, if it names one."""
    if not statement.name:
        return ""
    try:
        return known(engine, statement.name, statement.span)
    except ProgrammingError as error:
        error.sqlstate = "22023"
        raise


def set_role(engine: Engine, statement: SetRole) -> None:
    """Have the session act as another role."""
    catalog = engine.catalog
    asker, rights = catalog.asker, catalog.rights
    if statement.whole:
        name = _becoming(engine, statement) or asker.came_as
        if name != asker.came_as and not rights.is_superuser(asker.came_as):
            raise PrivilegeError(
                f'permission denied to set session authorization "{name}"', span=statement.span
            )
        new = replace(asker, user=name, login=name)
    else:
        name = _becoming(engine, statement) or asker.login
        may = rights.is_superuser(asker.login) or name in rights.acts_as(asker.login, by="sets")
        if not may:
            raise PrivilegeError(f'permission denied to set role "{name}"', span=statement.span)
        new = replace(asker, user=name)

    def become(one: Asker) -> None:
        catalog.asker = one

    become(new)
    settle(engine, lambda: become(asker), "SET LOCAL" if statement.local else "")
