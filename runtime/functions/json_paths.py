"""JSONB asked by SQL/JSON paths: jsonb_path_exists and its like, and the operators @? and @@."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from kpg.runtime.functions.json_items import found
from kpg.runtime.functions.json_makers import json_rule
from kpg.runtime.functions.registry import Memoized, Overload, scalar
from kpg.runtime.functions.rules import fixed
from kpg.runtime.functions.tables import Listing, RowOverload, RowRule, RowSignature, rows
from kpg.runtime.types import BOOLEAN, JSONB, TEXT, Type
from kpg.runtime.values.jsonpath.reading import parse
from kpg.runtime.values.jsonpath.writing import shown
from kpg.runtime.values.jsons import Json

MORE: Final = ((), (JSONB,), (JSONB, BOOLEAN))
"""What may follow a document and a path: the path's variables, and whether errors are no errors."""


def items(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> list[Any] | None:
    """All that a path leads to; None for an error that is none."""
    read, given = parse(path), {} if variables is None else variables.value
    if not isinstance(given, dict):
        raise ValueError('"vars" argument is not an object')
    try:
        return list(found(read, document.value, given))
    except ValueError:
        if not silent:
            raise
        return None


def exists(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> bool | None:
    """Whether a path leads to anything."""
    read, given = parse(path), {} if variables is None else variables.value
    if read.strict or not isinstance(given, dict):
        every = items(document, path, variables, silent)
        return None if every is None else bool(every)
    try:
        return any(True for _ in found(read, document.value, given))
    except ValueError:
        if not silent:
            raise
        return None


def matches(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> bool | None:
    """The truth value that a path gives; None for unknown."""
    every = items(document, path, variables, silent)
    if every is not None and len(every) == 1 and (every[0] is None or isinstance(every[0], bool)):
        return every[0]
    if not silent:
        raise ValueError("single boolean result is expected")
    return None


def _gathered(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> Json:
    return Json(items(document, path, variables, silent) or [])


def _first(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> Json | None:
    every = items(document, path, variables, silent)
    return Json(every[0]) if every else None


def _silent(function: Callable[..., bool | None]) -> Memoized:
    return Memoized(lambda call: lambda document, path: function(document, path, None, True))


DOCUMENT: Final = "CAST('{\"a\": [1, 2]}' AS JSONB)"
_PLACES: Final = "JSONB and a path, optionally its variables as JSONB, and whether errors are no errors"
for _name, _result, _function, _doc, _example, _value in (
    ("jsonb_path_exists", BOOLEAN, exists, "Whether a path leads to anything.", "'$.a[*] ? (@ > 1)'", "TRUE"),
    ("jsonb_path_match", BOOLEAN, matches, "The truth value that a path gives.", "'$.a[0] > 1'", "FALSE"),
    ("jsonb_path_query_array", JSONB, _gathered, "All that a path leads to.", "'$.a[*]'", "'[1, 2]'"),
    ("jsonb_path_query_first", JSONB, _first, "The first that a path leads to.", "'$.a[last]'", "'2'"),
):
    _text = "" if _result is BOOLEAN else "::TEXT"
    scalar(
        _name,
        _PLACES,
        _doc,
        {f"{_name}({DOCUMENT}, {_example}){_text}": _value},
        *(
            Overload(
                json_rule(JSONB, TEXT, *more, result=_result),
                Memoized(lambda call, run=_function: run),  # type: ignore[misc]
            )
            for more in MORE
        ),
    )
for _name, _function, _doc, _example in (
    ("path_exists", exists, "Whether a path leads to anything, errors being none: @?.", "'$.a[5]'"),
    ("path_matches", matches, "The truth value that a path gives, errors being none: @@.", "'$.a[0] > 1'"),
):
    scalar(
        _name,
        "JSONB and a path",
        _doc,
        {f"{_name}({DOCUMENT}, {_example})": "FALSE"},
        Overload(json_rule(JSONB, TEXT, result=BOOLEAN), _silent(_function)),
    )
scalar(
    "jsonpath",
    "a text",
    "A path, as it is written with all its quotes: CAST(... AS jsonpath).",
    {"jsonpath('$.a?(@>1)')": "'$.\"a\"?(@ > 1)'"},
    Overload(fixed(TEXT, TEXT), Memoized(lambda call: lambda text: shown(parse(text)))),
)


def _takes_path(*more: Type) -> RowRule:
    rule = json_rule(JSONB, TEXT, *more)

    def signature(types: tuple[Type, ...]) -> RowSignature | None:
        fits = rule(types)
        return None if fits is None else RowSignature(fits.args, ("",), (JSONB,), nullable=False)

    return signature


def _listed(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> Iterator[tuple[Json]]:
    yield from ((Json(item),) for item in items(document, path, variables, silent) or ())


rows(
    "jsonb_path_query",
    _PLACES,
    "The items that a path leads to.",
    {f"jsonb_path_query({DOCUMENT}, '$.a[*]')": "('1'::jsonb), ('2'::jsonb)"},
    *(RowOverload(_takes_path(*more), Listing(lambda args, types: _listed)) for more in MORE),
)
