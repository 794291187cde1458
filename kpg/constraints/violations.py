"""What an error about a rule of a table tells programs: the table, the column and the constraint."""

import re
from typing import Final

from kpg.runtime.errors import IntegrityError

FORMS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"duplicate key in table (?P<t>[^\s:]+): (?P<key>\(.*?\)) = .* against constraint (?P<n>\S+)$",
        r"duplicate key in table (?P<t>[^\s:]+): (?P<key>\(.*?\)) = ",
        r"row \(.*\) of table (?P<t>\S+) fails CHECK (?P<n>[^\s:]+): ",
        r"NULL in column (?P<c>.+?) of table (?P<t>[^\s:]+): ",
        r"\(.*\) of table (?P<t>\S+) is no row of table \S+, against FOREIGN KEY (?P<n>\S+)$",
        r"\(.*\) of table \S+ is still referred to by table (?P<t>\S+), against FOREIGN KEY (?P<n>\S+)$",
    )
)
"""The messages of such errors: names of fields of the protocol, as the groups are called."""


def fields_of(error: IntegrityError) -> dict[str, str]:
    """Fields of an ErrorResponse: s schema, t table, c column, n constraint."""
    for form in FORMS:
        found = form.match(error.message)
        if found is None:
            continue
        fields = {name: text for name, text in found.groupdict().items() if text and name != "key"}
        schema, _, table = fields["t"].rpartition(".")
        fields |= {"s": schema or "public", "t": table}
        if "key" in form.groupindex and "n" not in fields:
            fields["n"] = f"{table}_pkey"
        return fields
    return {}
