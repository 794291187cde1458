"""Set-returning functions over the parts of a value (arrays, texts, JSON), and ``generate_series``.

The columns of ``json_to_record`` and similar functions come from the column definition list of the call;
those of ``json_populate_record`` and similar functions are the fields of the row argument.
"""

import calendar
import datetime
import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np

from kpg.runtime.functions.regex import compile_posix
from kpg.runtime.functions.table_functions import Listing, RowOverload, RowRule, RowSignature, Series, rows
from kpg.runtime.functions.type_rules import common_type, is_exact_or_numeric, is_unknown
from kpg.runtime.types import (
    BIGINT,
    INTEGER,
    INTERVAL,
    JSON,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    array,
    range_of,
)
from kpg.runtime.values import codec_of, date_time
from kpg.runtime.values.arrays import Array, from_nested, of
from kpg.runtime.values.intervals import Interval, span
from kpg.runtime.values.jsons import Json, text_of
from kpg.runtime.values.numeric import EXACT
from kpg.runtime.values.words import DAY

BLANKS: Final = re.compile(r"[ \t\n\r]*")
Row = tuple[object, ...]
Maker = Callable[..., Iterable[Row]]


def takes(names: tuple[str, ...], types: tuple[Type, ...], *args: Type, nullable: bool = True) -> RowRule:
    """Exactly these types of arguments, or quoted constants."""

    def rule(given: tuple[Type, ...]) -> RowSignature | None:
        if len(given) != len(args):
            return None
        for one, arg in zip(given, args, strict=True):
            alike = (one.is_text and arg.is_text) or (one.is_integer and arg.is_integer)
            if not (is_unknown(one) or one.kind is arg.kind or alike):
                return None
        return RowSignature(args, names, types, nullable)

    return rule


def _of_array(result: Callable[[Type], Type], *more: Type) -> RowRule:
    """An array, and other arguments."""

    def rule(given: tuple[Type, ...]) -> RowSignature | None:
        if len(given) != 1 + len(more) or given[0].kind is not Kind.ARRAY:
            return None
        for one, other in zip(given[1:], more, strict=True):
            if (
                not is_unknown(one)
                and one.kind is not other.kind
                and not (one.is_integer and other.is_integer)
            ):
                return None
        return RowSignature((given[0], *more), ("",), (result(given[0]),))

    return rule


def _of_ranges(given: tuple[Type, ...]) -> RowSignature | None:
    """A set of ranges."""
    if len(given) != 1 or given[0].kind is not Kind.MULTIRANGE:
        return None
    return RowSignature(given, ("",), (range_of(given[0].parts[0]),))


def listing(function: Maker, *, takes_nulls: bool = False) -> Listing:
    return Listing(lambda args, types: function, takes_nulls)


def _unnested(value: Array) -> Iterator[Row]:
    yield from ((item,) for item in value.items)


def _subscripts(value: Array, dimension: int, reverse: bool = False) -> Iterator[Row]:
    if 1 <= dimension <= len(value.shape):
        first = value.firsts[dimension - 1]
        places = range(first, first + value.shape[dimension - 1])
        yield from ((place,) for place in (reversed(places) if reverse else places))


rows(
    "unnest",
    "an array (in FROM: one or several, side by side)",
    "The elements of an array, those of all its dimensions one after the other.",
    {"unnest('{1,NULL,3}'::int[])": "(1), (NULL), (3)"},
    RowOverload(_of_array(lambda type_: type_.parts[0]), listing(_unnested)),
    RowOverload(_of_ranges, listing(lambda value: (((pair,),) for pair in value))),
)
rows(
    "generate_subscripts",
    "an array, a dimension, and optionally whether from the last on",
    "The places of an array's elements in a dimension.",
    {"generate_subscripts('{a,b}'::text[], 1)": "(1), (2)"},
    RowOverload(_of_array(lambda type_: INTEGER, INTEGER), listing(_subscripts)),
    RowOverload(_of_array(lambda type_: INTEGER, INTEGER, Type(Kind.BOOLEAN)), listing(_subscripts)),
)


def split(string: str, separator: str | None, null: str | None = None) -> list[str | None]:
    """The parts of a text between separators, NULL for those that equal ``null``; or its characters."""
    if not string:
        return []
    parts = list(string) if separator is None else string.split(separator) if separator else [string]
    return [None if part == null else part for part in parts]


def _string_table(string: str | None, separator: str | None, null: str | None = None) -> Iterator[Row]:
    if string is not None:
        yield from ((part,) for part in split(string, separator, null))


def regexp_split(string: str, pattern: str, options: str = "") -> list[str]:
    """The parts of a text between matches; an empty match does not split at the ends or behind another."""
    if "g" in options:
        raise ValueError('regexp_split does not support the "global" option')
    parts: list[str] = []
    end = last = 0
    for found in compile_posix(pattern, options).matches(string):
        start, stop = found.span()
        if start < len(string) and stop > last:
            parts.append(string[end:start])
            end = stop
        last = stop
    return [*parts, string[end:]]


def groups(found: re.Match[str]) -> Array:
    """What the parts of an expression matched, the whole if it has none."""
    return of(list(found.groups()) if found.re.groups else [found[0]])


def _regexp_matches(string: str, pattern: str, options: str = "") -> Iterator[Row]:
    for found in compile_posix(pattern, options.replace("g", "")).matches(string):
        yield (groups(found),)
        if "g" not in options:
            return


_TEXTS: Final = array(TEXT)
rows(
    "string_to_table",
    "text, a separator, and optionally what stands for NULL",
    "The parts of a text between separators; its characters if the separator is NULL.",
    {"string_to_table('a,b,,c', ',', '')": "('a'), ('b'), (NULL), ('c')"},
    RowOverload(takes(("",), (TEXT,), TEXT, TEXT), listing(_string_table, takes_nulls=True)),
    RowOverload(takes(("",), (TEXT,), TEXT, TEXT, TEXT), listing(_string_table, takes_nulls=True)),
)
rows(
    "regexp_split_to_table",
    "text, a regular expression and optionally options",
    "The parts of a text between matches.",
    {"regexp_split_to_table('hello world', '\\s+')": "('hello'), ('world')"},
    *(
        RowOverload(
            takes(("",), (TEXT,), *(TEXT,) * count, nullable=False),
            listing(lambda *given: ((part,) for part in regexp_split(*given))),
        )
        for count in (2, 3)
    ),
)
rows(
    "regexp_matches",
    "text, a regular expression and optionally options",
    "What the parts of an expression in parentheses matched, as an array; with option g of all matches.",
    {"regexp_matches('foobarbequebaz', 'ba.', 'g')": "('{bar}'::text[]), ('{baz}'::text[])"},
    *(
        RowOverload(takes(("",), (_TEXTS,), *(TEXT,) * count, nullable=False), listing(_regexp_matches))
        for count in (2, 3)
    ),
)

# JSON keeps the text that it was read from, its parts as well: their ends have to be found in it.
_DECODER: Final = json.JSONDecoder()


def _skipped(text: str, place: int) -> int:
    found = BLANKS.match(text, place)
    return place if found is None else found.end()


def parts_of(text: str) -> tuple[str, list[tuple[str | None, str]]]:
    """Whether a text of JSON is an object, an array or a scalar, and its members or elements as texts."""
    place = _skipped(text, 0)
    kind = {"[": "array", "{": "object"}.get(text[place], "scalar")
    found: list[tuple[str | None, str]] = []
    if kind == "scalar":
        return kind, found
    place = _skipped(text, place + 1)
    while text[place] not in "]}":
        name = None
        if kind == "object":
            name, place = _DECODER.raw_decode(text, place)
            place = _skipped(text, _skipped(text, place) + 1)
        _, end = _DECODER.raw_decode(text, place)
        found.append((name, text[place:end]))
        place = _skipped(text, end)
        if text[place] == ",":
            place = _skipped(text, place + 1)
    return kind, found


def _plain(text: str) -> str | None:
    """A part of JSON as text: a string without quotes, NULL for null."""
    stripped = text.strip()
    if stripped.startswith('"'):
        value: str = json.loads(stripped)
        return value
    return None if stripped == "null" else stripped


def plain(value: Any) -> str | None:
    """A value of JSONB as text: a string as it is, NULL for null."""
    return value if isinstance(value, str) else None if value is None else text_of(value)


def expected(kind: str, found: str, name: str) -> None:
    if found != kind:
        verb = "extract elements from" if kind == "array" else "deconstruct" if "each" in name else "call"
        what = f"{name} on" if verb == "call" else ""
        raise ValueError(
            f"cannot {verb} {what} {'an' if found[0] in 'ao' else 'a'} {found}".replace("  ", " ")
        )


def kind_of(value: Any) -> str:
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "scalar"


def _elements(type_: Type, name: str, as_text: bool) -> Maker:
    def of_text(text: str) -> Iterator[Row]:
        kind, parts = parts_of(text)
        expected("array", kind, name)
        yield from ((_plain(part) if as_text else part,) for _, part in parts)

    def of_value(value: Json) -> Iterator[Row]:
        expected("array", kind_of(value.value), name)
        yield from ((plain(part) if as_text else Json(part),) for part in value.value)

    return of_text if type_ == JSON else of_value


def _members(type_: Type, name: str, as_text: bool) -> Maker:
    def of_text(text: str) -> Iterator[Row]:
        kind, parts = parts_of(text)
        expected("object", kind, name)
        yield from ((key, _plain(part) if as_text else part) for key, part in parts)

    def of_value(value: Json) -> Iterator[Row]:
        expected("object", kind_of(value.value), name)
        yield from ((key, plain(part) if as_text else Json(part)) for key, part in value.value.items())

    return of_text if type_ == JSON else of_value


def _keys(type_: Type, name: str) -> Maker:
    members = _members(type_, name, True)
    return lambda value: ((key,) for key, _ in members(value))


def _define_json(prefix: str, type_: Type) -> None:
    elements, each, keys = f"{prefix}_array_elements", f"{prefix}_each", f"{prefix}_object_keys"
    for name, as_text, example in (
        (elements, False, "('1'), ('\"a\"'), ('null')"),
        (f"{elements}_text", True, "('1'), ('a'), (NULL)"),
    ):
        rows(
            name,
            type_.kind.value,
            f"The elements of a JSON array{', as text' if as_text else ''}.",
            {f"{name}('[1, \"a\", null]')": example if as_text else example.replace("')", f"'::{prefix})")},
            RowOverload(
                takes(("value",), (TEXT if as_text else type_,), type_),
                listing(_elements(type_, name, as_text)),
            ),
        )
    for name, as_text, example in (
        (each, False, f"('a', '1'::{prefix}), ('b', 'null'::{prefix})"),
        (f"{each}_text", True, "('a', '1'), ('b', NULL)"),
    ):
        rows(
            name,
            type_.kind.value,
            f"The names and values of a JSON object{', these as text' if as_text else ''}.",
            {f'{name}(\'{{"a": 1, "b": null}}\')': example},
            RowOverload(
                takes(("key", "value"), (TEXT, TEXT if as_text else type_), type_),
                listing(_members(type_, name, as_text)),
            ),
        )
    rows(
        keys,
        type_.kind.value,
        "The names in a JSON object.",
        {f'{keys}(\'{{"a": 1, "b": null}}\')': "('a'), ('b')"},
        RowOverload(takes(("",), (TEXT,), type_, nullable=False), listing(_keys(type_, keys))),
    )


for _prefix, _type in (("json", JSON), ("jsonb", JSONB)):
    _define_json(_prefix, _type)


Field = Callable[[Any], Any]


class Written(NamedTuple):
    """A value of JSON, and the text that it was read from."""

    value: Any
    text: str


def _value_with_written_members(text: str) -> Any:
    """A text of JSON as a value, whose members are as they were written."""
    kind, parts = parts_of(text)
    read = codec_of(JSONB).parse
    if kind == "object":
        return {name: Written(read(part).value, part) for name, part in parts}
    return [_value_with_written_members(part) for _, part in parts] if kind == "array" else read(text).value


def field_of(type_: Type) -> Field:
    """From a value of JSON to one of a type, as a column of a row made of JSON takes it."""
    codec = codec_of(type_)

    def convert(value: Any) -> Any:
        if isinstance(value, Written):
            if value.value is not None and type_.kind in (Kind.JSON, Kind.CHAR, Kind.VARCHAR):
                return _of_text(value, type_)
            value = value.value
        if value is None and type_.kind is not Kind.JSONB:
            return None
        if type_.kind is Kind.JSONB:
            return Json(value)
        if type_.kind is Kind.ARRAY and not isinstance(value, str):
            if not isinstance(value, list):
                raise ValueError("expected JSON array")
            return from_nested(_each(value, field_of(type_.parts[0])))
        if type_.kind is Kind.RECORD and not isinstance(value, str):
            return populated(type_, None, value)
        text = text_of(value) if type_.kind is Kind.JSON else plain(value) or ""
        if type_.is_text and type_.precision and len(text) > type_.precision:
            raise ValueError(f"value too long for type {type_}")
        return codec.parse(text)

    return convert


def _of_text(value: Written, type_: Type) -> str:
    text = value.value if isinstance(value.value, str) and type_.is_text else value.text.strip()
    if type_.is_text and type_.precision and len(text) > type_.precision:
        raise ValueError(f"value too long for type {type_}")
    return str(codec_of(type_).parse(text))


def _each(values: list[Any], convert: Field) -> list[Any]:
    """The elements of lists in lists as values of a type."""
    return [_each(value, convert) if isinstance(value, list) else convert(value) for value in values]


def populated(type_: Type, base: Any, value: Any) -> tuple[Any, ...] | None:
    """A row of a type with the members of an object as its fields; those that it lacks are the base's."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"cannot call populate_composite on {_with_article(kind_of(value))}")
    known = base if base is not None else (None,) * len(type_.parts)
    fields = zip(type_.labels, type_.parts, known, strict=True)
    return tuple(field_of(part)(value[name]) if name in value else old for name, part, old in fields)


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'ao' else 'a'} {word}"


def _records(many: bool, name: str) -> Listing:
    """Rows of columns that the call declares: the last argument has their names, one a line."""

    def build(args: tuple[Type, ...], types: tuple[Type, ...]) -> Maker:
        fields = tuple(map(field_of, types))

        def made(given: Any, names: str) -> Iterator[Row]:
            if given is None:
                yield from () if many else [(None,) * len(fields)]
                return
            value = given.value if isinstance(given, Json) else _value_with_written_members(given)
            expected("array" if many else "object", kind_of(value), name)
            for record in value if many else [value]:
                if not isinstance(record, dict):
                    raise ValueError(f"argument of {name} must be an array of objects")
                members = zip(fields, names.split("\n"), strict=True)
                yield tuple(field(record.get(member)) for field, member in members)

        return made

    return Listing(build, takes_nulls=True)


def _declared(type_: Type) -> RowRule:
    """The columns are declared by the call: whoever binds it says which."""

    def rule(given: tuple[Type, ...]) -> RowSignature | None:
        fits = len(given) == 2 and (is_unknown(given[0]) or given[0].kind is type_.kind)
        return RowSignature((type_, TEXT), (), ()) if fits else None

    return rule


def _populated(many: bool, name: str, whole: bool) -> Listing:
    """Rows of the type of the first argument: as they are, or their fields as columns."""

    def build(args: tuple[Type, ...], types: tuple[Type, ...]) -> Maker:
        type_ = args[0]

        def made(base: Any, given: Any, as_text: bool = False) -> Iterator[Row]:
            found = (
                given.value
                if isinstance(given, Json)
                else None
                if given is None
                else _value_with_written_members(given)
            )
            if many and given is None:
                return
            if many:
                expected("array", kind_of(found), name)
                if not all(isinstance(one, dict) for one in found or ()):
                    raise ValueError(f"argument of {name} must be an array of objects")
            for one in list(found or ()) if many else [found]:
                row = base if one is None else populated(type_, base, one)
                yield (row,) if whole else row or (None,) * len(type_.parts)

        return made

    return Listing(build, takes_nulls=True)


def _of_base(type_: Type, whole: bool) -> RowRule:
    """A row, NULL as a rule, and JSON."""

    def rule(given: tuple[Type, ...]) -> RowSignature | None:
        if len(given) != 2 or given[0].kind is not Kind.RECORD or not given[0].labels:
            return None
        if not is_unknown(given[1]) and given[1].kind is not type_.kind:
            return None
        args = (given[0], type_)
        if whole:
            return RowSignature(args, ("",), (given[0],))
        return RowSignature(args, given[0].labels, given[0].parts)

    return rule


def _define(prefix: str, type_: Type) -> None:
    for name, many in ((f"{prefix}_to_recordset", True), (f"{prefix}_to_record", False)):
        whose = "each object of an array" if many else "an object"
        rows(
            name,
            f"{type_.kind.value}, and AS name(column type, ...)",
            f"The members of {whose}, as columns that AS declares.",
            {},
            RowOverload(_declared(type_), _records(many, name)),
        )
    for name, many in ((f"{prefix}_populate_recordset", True), (f"{prefix}_populate_record", False)):
        whose = "each object of an array" if many else "an object"
        rows(
            name,
            f"a row of a type with names and {type_.kind.value}",
            f"The members of {whose} as fields of that type; those that are missing as in the row.",
            {},
            RowOverload(_of_base(type_, whole=False), _populated(many, name, whole=False)),
        )
        rows(
            f"${name}",
            f"a row of a type with names and {type_.kind.value}",
            "The same as rows.",
            {},
            RowOverload(_of_base(type_, whole=True), _populated(many, name, whole=True)),
        )


for _json_prefix, _json_type in (("json", JSON), ("jsonb", JSONB)):
    _define(_json_prefix, _json_type)


Words = np.ndarray[Any, np.dtype[np.int64]]
ONE: Final = Decimal(1)
EPOCH: Final = datetime.datetime(1970, 1, 1)
SPANS: Final = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
MICROSECOND: Final = datetime.timedelta(microseconds=1)


def _count(start: Words, stop: Words, step: Words | None = None) -> Words:
    """How many numbers from ``start`` to ``stop`` there are, both being among them if the step fits."""
    if step is None:
        step = np.ones(1, np.int64)
    if not step.all():
        raise ValueError("step size cannot be zero")
    # A distance of 64-bit numbers takes 65 bits: the unsigned ones are enough for either direction.
    up = step > 0
    low, high = np.where(up, start, stop), np.where(up, stop, start)
    distance = high.view(np.uint64) - low.view(np.uint64)
    stride = np.where(up, step, -step).view(np.uint64)
    steps = np.minimum(distance // stride, np.uint64(2**62)).astype(np.int64)
    return np.where(low <= high, steps + 1, 0)


def _make(place: Words, start: Words, stop: Words, step: Words | None = None) -> Words:
    return start + place * (1 if step is None else step)


def _integers(types: tuple[Type, ...]) -> RowSignature | None:
    if not 2 <= len(types) <= 3 or not all(type_.is_integer or is_unknown(type_) for type_ in types):
        return None
    common = common_type((*types, INTEGER)) or INTEGER
    common = BIGINT if common == BIGINT else INTEGER
    return RowSignature((common,) * len(types), ("",), (common,), nullable=False)


def _decimals(types: tuple[Type, ...]) -> RowSignature | None:
    if not 2 <= len(types) <= 3 or not all(
        is_unknown(type_) or is_exact_or_numeric(type_) for type_ in types
    ):
        return None
    return RowSignature((NUMERIC,) * len(types), ("",), (NUMERIC,), nullable=False)


def _numbers(start: Decimal, stop: Decimal, step: Decimal = ONE) -> Iterable[tuple[Decimal]]:
    """With as many digits behind the point as the first one and the steps to it have."""
    if not step:
        raise ValueError("step size cannot equal zero")
    if not all(value.is_finite() for value in (start, stop, step)):
        raise ValueError("start, stop and step must be finite")
    at = start
    while at <= stop if step > 0 else at >= stop:
        yield (at,)
        at = EXACT.add(at, step)


def _stamps(types: tuple[Type, ...]) -> RowSignature | None:
    """Two moments, of which dates have a time zone as in Postgres, and an interval."""
    if len(types) not in (3, 4) or not (is_unknown(types[2]) or types[2].kind in SPANS):
        return None
    known = [type_ for type_ in types[:2] if not is_unknown(type_)]
    if not known or any(type_.kind not in MOMENTS for type_ in known):
        return None
    moment = TIMESTAMP if any(type_.kind is Kind.TIMESTAMP for type_ in known) else TIMESTAMPTZ
    if len(types) == 4:
        zoned = types[3].is_text or is_unknown(types[3])
        return (
            RowSignature((TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL, TEXT), ("",), (TIMESTAMPTZ,), False)
            if zoned
            else None
        )
    return RowSignature((moment, moment, INTERVAL), ("",), (moment,), nullable=False)


def _moments(start: int, stop: int, step: Interval, zone: str = "UTC") -> Iterable[tuple[int]]:
    """Months are added to what came before, whose day may have been cut to a month's last."""
    length = span(step)
    if not length:
        raise ValueError("step size cannot equal zero")
    fixed = step.days * DAY + step.microseconds
    if zone.upper() not in ("UTC", "GMT", "Z"):
        yield from _local_moments(start, stop, step, date_time.zone(zone))
        return
    if not step.months:
        yield from zip(range(start, stop + (1 if length > 0 else -1), fixed), strict=False)
        return
    at = start
    while at <= stop if length > 0 else at >= stop:
        yield (at,)
        at = plus_months(at, step.months) + fixed


def _local_moments(start: int, stop: int, step: Interval, where: datetime.tzinfo) -> Iterable[tuple[int]]:
    """By the days and months of a time zone."""
    at, forward = start, span(step) > 0
    while at <= stop if forward else at >= stop:
        yield (at,)
        at = plus_local(at, step, where)


def plus_local(stamp: int, step: Interval, where: datetime.tzinfo) -> int:
    """An instant plus an interval, whose months and days are those of a time zone."""
    if step.months or step.days:
        local = date_time.to_local(stamp, where)
        moved = plus_months(local, step.months) + step.days * DAY
        stamp = date_time.from_local(moved, where)
    return stamp + step.microseconds


def plus_months(stamp: int, months: int) -> int:
    """A timestamp so many months later, on the last day of the month if that has fewer days."""
    moment = EPOCH + stamp * MICROSECOND
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError("timestamp out of range")
    last = calendar.monthrange(year, month + 1)[1]
    moved = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    return (moved - EPOCH) // MICROSECOND


rows(
    "generate_series",
    "a first and a last number and optionally a step, or two moments and an interval",
    "The numbers or times from the first on, as far as the last, by steps of 1 or of the third argument.",
    {
        "generate_series(2, 4)": "(2), (3), (4)",
        "generate_series(5, 1, -2)": "(5), (3), (1)",
        "generate_series(4, 3)": "",
        "generate_series(1.1, 4, 1.3)": "(1.1), (2.4), (3.7)",
    },
    RowOverload(_integers, Series(_count, _make)),
    RowOverload(_decimals, Listing(lambda args, types: _numbers)),
    RowOverload(_stamps, Listing(lambda args, types: _moments)),
)
