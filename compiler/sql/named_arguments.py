"""Arguments of the system's functions by name: ``make_interval(days => 3)``."""

from typing import Final

from sqlglot import exp

NAMED: Final = (exp.Kwarg, exp.PropertyEQ)
"""``name => value``, and ``name := value``."""

PATHS: Final = ("target", "path", "vars", "silent")
PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "make_date": ("year", "month", "day"),
    "make_interval": ("years", "months", "weeks", "days", "hours", "mins", "secs"),
    "make_time": ("hour", "min", "sec"),
    "make_timestamp": ("year", "month", "mday", "hour", "min", "sec"),
    "make_timestamptz": ("year", "month", "mday", "hour", "min", "sec", "timezone"),
    "jsonb_set": ("jsonb_in", "path", "replacement", "create_if_missing"),
    "jsonb_set_lax": ("jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"),
    "jsonb_insert": ("jsonb_in", "path", "replacement", "insert_after"),
    "parse_ident": ("str", "strict"),
    "random_normal": ("mean", "stddev"),
    "json_populate_record": ("base", "from_json", "use_json_as_text"),
    "json_populate_recordset": ("base", "from_json", "use_json_as_text"),
    **dict.fromkeys(("jsonb_path_exists", "jsonb_path_match", "jsonb_path_query"), PATHS),
    **dict.fromkeys(("jsonb_path_query_array", "jsonb_path_query_first"), PATHS),
}
"""The names of arguments, where calls may use them."""
DEFAULTS: Final[dict[str, exp.Expr]] = {
    "create_if_missing": exp.Boolean(this=True),
    "vars": exp.Literal.string("{}"),
    "silent": exp.Boolean(this=False),
}
"""The values of those that are not given; 0 for all others."""


def in_their_places(name: str, operands: list[exp.Expr]) -> list[exp.Expr] | None:
    """Arguments some of which are named, in the order of the parameters; None if a name is not known."""
    named = {part.this.name.lower(): part.expression for part in operands if isinstance(part, NAMED)}
    if not named:
        return operands
    known = PARAMETERS.get(name, ())
    plain = [part for part in operands if not isinstance(part, NAMED)]
    rest = known[len(plain) :]
    if not named.keys() <= set(rest):
        return None
    last = max(rest.index(one) for one in named)
    return [*plain, *(named[one] if one in named else _default(one) for one in rest[: last + 1])]


def _default(name: str) -> exp.Expr:
    known = DEFAULTS.get(name)
    return exp.Literal.number(0) if known is None else known.copy()
