"""Whether who asks may run a text of Datalog: by the names in it, which may be more than it reads."""

import re
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.permitted import key_of, need, need_schema
from kpg.compiler.sql.query import check_relation
from kpg.runtime.errors import PrivilegeError

NAMES: Final = re.compile(r"[A-Za-z_?][\w?]*")
UPDATE: Final = re.compile(r"(?:^|[.\s])([+-])\s*([A-Za-z_?][\w?.]*)\s*\(")
OUTSIDE: Final = {
    "pg_read_server_files": re.compile(r"\.input\s+\w+\s*\("),
    "pg_write_server_files": re.compile(r"\.output\b|\.printsize\b"),
    "a superuser": re.compile(r"\.functor\b|\.pragma\b"),
}


def check_text(catalog: Catalog, text: str, *, installs: bool = False) -> None:
    """PrivilegeError unless who asks may read what goals name, change what updates name, make relations."""
    if not catalog.is_limited:
        return
    for role, form in OUTSIDE.items():
        if form.search(text) and role not in catalog.rights.acts_as(catalog.asker.user):
            raise PrivilegeError(f"permission denied: this takes the role {role}")
    if installs:
        need_schema(catalog, "public", "C")
    changed = {name.lower(): "a" if sign == "+" else "d" for sign, name in UPDATE.findall(text)}
    for name in dict.fromkeys(NAMES.findall(text)):
        entry = catalog.find(name)
        if entry is None:
            continue
        letter = changed.get(name.lower())
        if letter is None:
            check_relation(catalog, entry.name)
        else:
            need(catalog, key_of(entry.name), letter)
