"""Features of Postgres that kpg refuses by name: the one table of their names, each with a hint.

A name is looked up here only after nothing else has it, so a user's own type or function of that name works.
To remove a feature, delete its code and add its names here.
"""

from collections.abc import Mapping
from typing import Final

from kpg.runtime.errors import NotSupportedError, Span

XML: Final = "Store the document as text, or convert it to jsonb."
UNION: Final = "Define the columns in each table, and make a view of their UNION ALL."

TYPES: Final[Mapping[str, str]] = {
    "xml": XML,
}
"""Names of types in lower case, as ``pg_type.typname`` has them."""
FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("xmlcomment", "xml_is_well_formed", "xpath", "xpath_exists"), XML),
}
"""Names of functions in lower case."""
SYNTAX: Final[Mapping[str, str]] = {
    "EXCLUDE": "Use a UNIQUE index, or look for conflicting rows before the change.",
    "INHERIT": UNION,
    "INHERITS": UNION,
    "RULE": "Use an updatable view, or change both tables in one transaction.",
    "TEXT SEARCH": "Match text with LIKE, ILIKE or a regular expression.",
}
"""Kinds of objects (``CREATE TEXT SEARCH``), statements and clauses, in upper case."""


def unsupported_type(name: str, span: Span | None = None) -> NotSupportedError | None:
    """The error for a type of that name, which may be qualified; None if it is not in the table."""
    plain = name.lower().removeprefix("pg_catalog.")
    return _refusal(f'type "{plain}"', TYPES.get(plain), span)


def unsupported_call(name: str, span: Span | None = None) -> NotSupportedError | None:
    """The error for a function of that name; None if it is not in the table."""
    plain = name.lower().removeprefix("pg_catalog.")
    return _refusal(f"function {plain}", FUNCTIONS.get(plain), span)


def unsupported_syntax(name: str, span: Span | None = None, *, verb: str = "") -> NotSupportedError:
    """The error for an entry of :data:`SYNTAX`; ``verb`` is the statement's, if the entry is an object."""
    return NotSupportedError(f"{verb} {name} is not supported".lstrip(), span=span, hint=SYNTAX[name])


def _refusal(feature: str, hint: str | None, span: Span | None) -> NotSupportedError | None:
    if hint is None:
        return None
    return NotSupportedError(f"{feature} is not supported", span=span, hint=hint)
