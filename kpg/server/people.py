"""Who may log in: those whose passwords the server was started with, and the roles that have one."""

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from kpg.compiler.catalog.privileges import Rights, Role
from kpg.runtime.types import TIMESTAMPTZ
from kpg.runtime.values import codec_of
from kpg.security.passwords import Verifier

FORM: Final = re.compile(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)")


class People:
    """Verifiers by users' names; ``first`` are those of the server's start."""

    def __init__(self, first: Mapping[str, Verifier], rights: Rights) -> None:
        self._first = first
        self._rights = rights

    def get(self, name: str, default: Verifier) -> Verifier:
        """The verifier of a user; ``default``, which nobody's password fits, for those who have none."""
        found = self._first.get(name)
        if found is not None:
            return found
        role = self._rights.find(name)
        if role is None or not role.logs_in or is_past(role):
            return default
        return verifier_in(role.password) or default


def verifier_in(text: str) -> Verifier | None:
    """The verifier that Postgres' text of one says."""
    found = FORM.fullmatch(text)
    if found is None:
        return None
    salt, stored, server = (base64.b64decode(found[part]) for part in (2, 3, 4))
    return Verifier(salt, int(found[1]), stored, server)


def is_past(role: Role) -> bool:
    """Whether the password of a role is no good any more."""
    if not role.until:
        return False
    try:
        until: int = codec_of(TIMESTAMPTZ).parse(role.until)
    except (ValueError, ArithmeticError):
        return True  # of a folder into which any text was taken: nobody knows until when
    return until <= int(datetime.now(UTC).timestamp() * 1_000_000)


def refused(rights: Rights, name: str, *, known: bool = False) -> tuple[str, str] | None:
    """Why a role may not come in, whoever it is: a SQLSTATE and a message.

    ``known``: it is one that has shown a password, and need not be a role.
    """
    role = rights.find(name)
    if role is None and not known:
        return "28000", f'role "{name}" does not exist'
    if role is not None and not role.logs_in:
        return "28000", f'role "{name}" is not permitted to log in'
    return None
