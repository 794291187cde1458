"""Calls of functions that other systems have, as expressions of Postgres' own."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

Reading = Callable[[list[exp.Expr]], exp.Expr]
RENAMED: Final = {
    "LIST_APPEND": "array_append",
    "LIST_CONCAT": "array_cat",
    "LIST_CAT": "array_cat",
    "LIST_POSITION": "array_position",
    "LIST_INDEXOF": "array_position",
    "STRING_SPLIT": "string_to_array",
    "STR_SPLIT": "string_to_array",
}
"""Those that Postgres has under other names, with the same arguments."""


def _renamed(name: str) -> Reading:
    return lambda args: exp.Anonymous(this=name, expressions=args)


def _contains(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != len(("list", "element")):
        return exp.Anonymous(this="list_contains", expressions=args)
    return exp.Paren(this=exp.EQ(this=args[1], expression=exp.Any(this=args[0])))


def _count_if(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != 1:
        return exp.Anonymous(this="count_if", expressions=args)
    return exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=args[0]))


FOREIGN_CALLS: Final[dict[str, Reading]] = {
    **{name: _renamed(known) for name, known in RENAMED.items()},
    "LIST_VALUE": lambda args: exp.Array(expressions=args),
    "LIST_PREPEND": lambda args: exp.Anonymous(this="array_prepend", expressions=args),
    "LIST_CONTAINS": _contains,
    "LIST_HAS": _contains,
    "COUNT_IF": _count_if,
    "COUNTIF": _count_if,
    "UUID_GENERATE_V4": lambda args: exp.Uuid(),
    "JSONB_EXISTS": _renamed("jsonb_exists"),
    "JSONB_CONTAINS": _renamed("jsonb_contains"),
}
