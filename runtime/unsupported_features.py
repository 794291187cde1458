"""Features of Postgres that kpg rejects by name, each with a hint.

The table is consulted only after name lookup fails, so user types and functions may have these names. To
remove a feature, delete its code and add its names here.
"""

from collections.abc import Mapping
from typing import Final

from kpg.runtime.errors import NotSupportedError, Span

GEOMETRY: Final = "Store coordinates in columns of type double precision."
MONEY: Final = "Use numeric(15, 2)."
TEXT_SEARCH: Final = "Match text with LIKE, ILIKE or a regular expression."
XML: Final = "Store the document as text, or convert it to jsonb."
UNION: Final = "Define the columns in each table, and make a view of their UNION ALL."
TRIGGER: Final = "Maintain a derived table with CREATE MATERIALIZED VIEW, or follow changes with SUBSCRIBE."
PROCEDURE: Final = "Send the statements from the client in one transaction, or write a function in SQL."

TYPES: Final[Mapping[str, str]] = {
    "point": "Store coordinates in two double precision columns.",
    **dict.fromkeys(("box", "circle", "line", "lseg", "path", "polygon"), GEOMETRY),
    "money": MONEY,
    **dict.fromkeys(("tsquery", "tsvector"), TEXT_SEARCH),
    "xml": XML,
}
"""Hints by type name in lower case, as in ``pg_type.typname``."""
FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("area", "bound_box", "box", "center", "circle", "diagonal", "diameter", "height", "isclosed"),
            *("ishorizontal", "isopen", "isparallel", "isperp", "isvertical", "line", "lseg", "npoints"),
            *("path", "pclose", "point", "polygon", "popen", "radius", "slope", "width"),
        ),
        GEOMETRY,
    ),
    "money": MONEY,
    **dict.fromkeys(
        (
            *("array_to_tsvector", "get_current_ts_config", "json_to_tsvector", "jsonb_to_tsvector"),
            *("numnode", "phraseto_tsquery", "plainto_tsquery", "querytree", "setweight", "strip"),
            *("to_tsquery", "to_tsvector", "ts_debug", "ts_delete", "ts_filter", "ts_headline", "ts_lexize"),
            *("ts_parse", "ts_rank", "ts_rank_cd", "ts_rewrite", "ts_stat", "ts_token_type"),
            *("tsquery_phrase", "tsvector_to_array", "websearch_to_tsquery"),
        ),
        TEXT_SEARCH,
    ),
    **dict.fromkeys(("xmlcomment", "xml_is_well_formed", "xpath", "xpath_exists"), XML),
}
"""Hints by function name in lower case."""
OPERATORS: Final[Mapping[str, str]] = dict.fromkeys(
    ["##", "?#", "?-", "?-|", "?||", "<->", "<<|", "|>>", "&<|", "|&>", "<^", ">^", "~=", "@-@"], GEOMETRY
)
"""Hints by operator."""
SYNTAX: Final[Mapping[str, str]] = {
    "EXCLUDE": "Use a UNIQUE index, or look for conflicting rows before the change.",
    "INHERIT": UNION,
    "INHERITS": UNION,
    "RULE": "Use an updatable view, or change both tables in one transaction.",
    "TEXT SEARCH": TEXT_SEARCH,
    **dict.fromkeys(("TRIGGER", "CONSTRAINT TRIGGER", "EVENT TRIGGER"), TRIGGER),
    **dict.fromkeys(("PROCEDURE", "DO", "CALL"), PROCEDURE),
}
"""Hints by kind of object (``CREATE TEXT SEARCH``), statement or clause, in upper case."""


def unsupported_type_error(name: str, span: Span | None = None) -> NotSupportedError | None:
    """Return the error for a type of that name, which may be qualified; None if it is not in the table."""
    plain = name.lower().removeprefix("pg_catalog.")
    return _unsupported_error(f'type "{plain}"', TYPES.get(plain), span)


def unsupported_call_error(name: str, span: Span | None = None) -> NotSupportedError | None:
    """Return the error for a function or operator of that name; None if it is not in the table."""
    if name in OPERATORS:
        return _unsupported_error(f"operator {name}", OPERATORS[name], span)
    plain = name.lower().removeprefix("pg_catalog.")
    return _unsupported_error(f"function {plain}", FUNCTIONS.get(plain), span)


def unsupported_syntax_error(name: str, span: Span | None = None, *, verb: str = "") -> NotSupportedError:
    """Return the error for an entry of :data:`SYNTAX`.

    ``verb`` is the statement's, if the entry is an object.
    """
    return NotSupportedError(f"{verb} {name} is not supported".lstrip(), span=span, hint=SYNTAX[name])


def _unsupported_error(feature: str, hint: str | None, span: Span | None) -> NotSupportedError | None:
    if hint is None:
        return None
    return NotSupportedError(f"{feature} is not supported", span=span, hint=hint)
