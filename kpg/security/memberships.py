"""Which roles are members of others: each membership has somebody who gave it, and may take it.

As in Postgres there may be several in the same role, each by another grantor.
"""

from dataclasses import replace

from kpg.compiler.catalog.privileges import FIRST, Membership, Rights
from kpg.compiler.sql.parse import definitions as ast
from kpg.engine.engine import Engine
from kpg.listeners.notices import Notice, say
from kpg.runtime.errors import PrivilegeError, ProgrammingError, Span


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
