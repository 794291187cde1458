"""Row level security as data: which tables have it, and the policies: who may see and write which rows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpg.compiler.permitted import key_of
from kpg.runtime.records import dataclass

if TYPE_CHECKING:
    from kpg.compiler.catalog import Catalog

COMMANDS: Final = ("ALL", "SELECT", "INSERT", "UPDATE", "DELETE")
EVERYBODY: Final = "public"


@dataclass(frozen=True, slots=True)
class Policy:
    """CREATE POLICY. ``using`` is a condition for rows that are there, ``check`` for rows that are written.

    These are texts; ``using`` stands in for a ``check`` that is not given.
    """

    name: str
    table: str
    permissive: bool
    command: str
    roles: tuple[str, ...]
    using: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class Secured:
    """Whether the policies of a table hold, and for its owner, too."""

    table: str
    enabled: bool = False
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """What rows have to satisfy, and the policy that says so if it is a restrictive one."""

    condition: str
    policy: str = ""


def security_of(catalog: "Catalog", table: str) -> Secured:
    """What is said about a table."""
    found = catalog.others.get(("secured", table.lower(), ""))
    return found if isinstance(found, Secured) else Secured(table)


def any_enabled(catalog: "Catalog") -> bool:
    """Whether a table has policies that hold."""
    return any(isinstance(one, Secured) and one.enabled for one in catalog.others.values())


def is_secured(catalog: "Catalog", table: str, user: str) -> bool:
    """Whether the policies of a table hold for a role: not for superusers, BYPASSRLS, or its owner."""
    if not catalog.others:
        return False
    said = security_of(catalog, table)
    if not said.enabled:
        return False
    rights = catalog.rights
    role = rights.find(user)
    if rights.is_superuser(user) or (role is not None and role.bypasses):
        return False
    return said.forced or not rights.owns(user, key_of(table))


def policies(catalog: "Catalog", table: str) -> Iterator[Policy]:
    """Those of a table, by name."""
    found = [one for key, one in catalog.others.items() if key[:2] == ("policy", table.lower())]
    yield from sorted(found, key=lambda one: one.name)


def demands(
    catalog: "Catalog", table: str, command: str, user: str, *, written: bool = False
) -> list[Demand]:
    """What has to hold for rows that a role reads or changes by a command, or that are ``written`` by it."""
    acts = catalog.rights.acts_as(user) | {user}
    permissive: list[str] = []
    found: list[Demand] = []
    for one in policies(catalog, table):
        if one.command not in ("ALL", command) or not (
            EVERYBODY in one.roles or acts.intersection(one.roles)
        ):
            continue
        text = (one.check or one.using) if written else one.using
        if not text:
            continue  # as in Postgres: of rows that are there a policy without USING lets nobody have any
        if one.permissive:
            permissive.append(text)
        else:
            found.append(Demand(text, one.name))
    return [Demand(" OR ".join(f"({text})" for text in permissive) or "false"), *found]
