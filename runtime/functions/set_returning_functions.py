"""Set-returning functions over the parts of a value (arrays, texts, JSON), and ``generate_series``.

The columns of ``json_to_record`` and similar functions come from the column definition list of the
call. Those of ``json_populate_record`` and similar functions are the fields of the row argument.
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
from kpg.runtime.functions.table_functions import (
    RowGenerator,
    RowOverload,
    RowRule,
    RowSignature,
    Series,
    register_row_function,
)
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
from kpg.runtime.values.arrays import Array, array_of, from_nested_lists
from kpg.runtime.values.intervals import Interval, duration
from kpg.runtime.values.jsons import Json, text_of
from kpg.runtime.values.numeric import EXACT
from kpg.runtime.values.words import DAY

JSON_BLANKS: Final = re.compile(r"[ \t\n\r]*")
Row = tuple[object, ...]
Maker = Callable[..., Iterable[Row]]


def argument_rule(
    names: tuple[str, ...], types: tuple[Type, ...], *args: Type, nullable: bool = True
) -> RowRule:
    """Return a rule for exactly these types of arguments, or quoted constants."""

    def rule(arg_types: tuple[Type, ...]) -> RowSignature | None:
        if len(arg_types) != len(args):
            return None
        for one, arg in zip(arg_types, args, strict=True):
            alike = (one.is_text and arg.is_text) or (one.is_integer and arg.is_integer)
            if not (is_unknown(one) or one.kind is arg.kind or alike):
                return None
        return RowSignature(args, names, types, nullable)

    return rule


def _array_rule(result: Callable[[Type], Type], *more: Type) -> RowRule:
    """Return a rule for an array and other arguments."""

    def rule(arg_types: tuple[Type, ...]) -> RowSignature | None:
        if len(arg_types) != 1 + len(more) or arg_types[0].kind is not Kind.ARRAY:
            return None
        for one, other in zip(arg_types[1:], more, strict=True):
            if (
                not is_unknown(one)
                and one.kind is not other.kind
                and not (one.is_integer and other.is_integer)
            ):
                return None
        return RowSignature((arg_types[0], *more), ("",), (result(arg_types[0]),))

    return rule


def _multirange_rule(arg_types: tuple[Type, ...]) -> RowSignature | None:
    """Accept a multirange."""
    if len(arg_types) != 1 or arg_types[0].kind is not Kind.MULTIRANGE:
        return None
    return RowSignature(arg_types, ("",), (range_of(arg_types[0].parts[0]),))


def row_generator(function: Maker, *, takes_nulls: bool = False) -> RowGenerator:
    return RowGenerator(lambda args, types: function, takes_nulls)


def _unnest(value: Array) -> Iterator[Row]:
    yield from ((item,) for item in value.items)


def _subscripts(value: Array, dimension: int, reverse: bool = False) -> Iterator[Row]:
    if 1 <= dimension <= len(value.shape):
        first = value.lower_bounds[dimension - 1]
        places = range(first, first + value.shape[dimension - 1])
        yield from ((place,) for place in (reversed(places) if reverse else places))


register_row_function(
    "unnest",
    "an array (in FROM: one or several, side by side)",
    "The elements of an array, those of all its dimensions one after the other.",
    {"unnest('{1,NULL,3}'::int[])": "(1), (NULL), (3)"},
    RowOverload(_array_rule(lambda type_: type_.parts[0]), row_generator(_unnest)),
    RowOverload(_multirange_rule, row_generator(lambda value: (((pair,),) for pair in value))),
)
register_row_function(
    "generate_subscripts",
    "an array, a dimension, and optionally whether from the last on",
    "The places of an array's elements in a dimension.",
    {"generate_subscripts('{a,b}'::text[], 1)": "(1), (2)"},
    RowOverload(_array_rule(lambda type_: INTEGER, INTEGER), row_generator(_subscripts)),
    RowOverload(_array_rule(lambda type_: INTEGER, INTEGER, Type(Kind.BOOLEAN)), row_generator(_subscripts)),
)


def split_string(string: str, separator: str | None, null: str | None = None) -> list[str | None]:
    """Split a text at separators, or into characters. Parts that equal ``null`` become NULL."""
    if not string:
        return []
    parts = list(string) if separator is None else string.split(separator) if separator else [string]
    return [None if part == null else part for part in parts]


def _string_to_table(string: str | None, separator: str | None, null: str | None = None) -> Iterator[Row]:
    if string is not None:
        yield from ((part,) for part in split_string(string, separator, null))


def regexp_split(string: str, pattern: str, options: str = "") -> list[str]:
    """Return the parts of a text between matches.

    An empty match does not split at the ends of the text or behind another match.
    """
    if "g" in options:
        raise ValueError('regexp_split does not support the "global" option')
    parts: list[str] = []
    end = last_stop = 0
    for found in compile_posix(pattern, options).matches(string):
        start, stop = found.span()
        if start < len(string) and stop > last_stop:
            parts.append(string[end:start])
            end = stop
        last_stop = stop
    return [*parts, string[end:]]


def match_groups(match: re.Match[str]) -> Array:
    """Return the groups of a match as an array, or the whole match if there are none."""
    return array_of(list(match.groups()) if match.re.groups else [match[0]])


def _regexp_matches(string: str, pattern: str, options: str = "") -> Iterator[Row]:
    for found in compile_posix(pattern, options.replace("g", "")).matches(string):
        yield (match_groups(found),)
        if "g" not in options:
            return


_TEXTS: Final = array(TEXT)
register_row_function(
    "string_to_table",
    "text, a separator, and optionally what stands for NULL",
    "The parts of a text between separators; its characters if the separator is NULL.",
    {"string_to_table('a,b,,c', ',', '')": "('a'), ('b'), (NULL), ('c')"},
    RowOverload(argument_rule(("",), (TEXT,), TEXT, TEXT), row_generator(_string_to_table, takes_nulls=True)),
    RowOverload(
        argument_rule(("",), (TEXT,), TEXT, TEXT, TEXT), row_generator(_string_to_table, takes_nulls=True)
    ),
)
register_row_function(
    "regexp_split_to_table",
    "text, a regular expression and optionally options",
    "The parts of a text between matches.",
    {"regexp_split_to_table('hello world', '\\s+')": "('hello'), ('world')"},
    *(
        RowOverload(
            argument_rule(("",), (TEXT,), *(TEXT,) * count, nullable=False),
            row_generator(lambda *given: ((part,) for part in regexp_split(*given))),
        )
        for count in (2, 3)
    ),
)
register_row_function(
    "regexp_matches",
    "text, a regular expression and optionally options",
    "What the parts of an expression in parentheses matched, as an array; with option g of all matches.",
    {"regexp_matches('foobarbequebaz', 'ba.', 'g')": "('{bar}'::text[]), ('{baz}'::text[])"},
    *(
        RowOverload(
            argument_rule(("",), (_TEXTS,), *(TEXT,) * count, nullable=False), row_generator(_regexp_matches)
        )
        for count in (2, 3)
    ),
)

# JSON values keep their source text, and so do their parts. So the ends of the parts must be found.
_DECODER: Final = json.JSONDecoder()


def _skip_blanks(text: str, place: int) -> int:
    match = JSON_BLANKS.match(text, place)
    return place if match is None else match.end()


def json_parts(text: str) -> tuple[str, list[tuple[str | None, str]]]:
    """Return the kind of a JSON text (object, array or scalar), and its members or elements as texts."""
    place = _skip_blanks(text, 0)
    kind = {"[": "array", "{": "object"}.get(text[place], "scalar")
    parts: list[tuple[str | None, str]] = []
    if kind == "scalar":
        return kind, parts
    place = _skip_blanks(text, place + 1)
    while text[place] not in "]}":
        name = None
        if kind == "object":
            name, place = _DECODER.raw_decode(text, place)
            place = _skip_blanks(text, _skip_blanks(text, place) + 1)
        _, end = _DECODER.raw_decode(text, place)
        parts.append((name, text[place:end]))
        place = _skip_blanks(text, end)
        if text[place] == ",":
            place = _skip_blanks(text, place + 1)
    return kind, parts


def _part_as_text(text: str) -> str | None:
    """Return a part of JSON as text: a string without quotes, NULL for null."""
    stripped = text.strip()
    if stripped.startswith('"'):
        value: str = json.loads(stripped)
        return value
    return None if stripped == "null" else stripped


def value_as_text(value: Any) -> str | None:
    """Return a value of JSONB as text: a string without quotes, NULL for null."""
    return value if isinstance(value, str) else None if value is None else text_of(value)


def check_json_kind(expected_kind: str, actual_kind: str, name: str) -> None:
    if actual_kind != expected_kind:
        verb = (
            "extract elements from"
            if expected_kind == "array"
            else "deconstruct"
            if "each" in name
            else "call"
        )
        what = f"{name} on" if verb == "call" else ""
        raise ValueError(
            f"cannot {verb} {what} {'an' if actual_kind[0] in 'ao' else 'a'} {actual_kind}".replace("  ", " ")
        )


def kind_of(value: Any) -> str:
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "scalar"


def _element_generator(type_: Type, name: str, as_text: bool) -> Maker:
    def of_text(text: str) -> Iterator[Row]:
        kind, parts = json_parts(text)
        check_json_kind("array", kind, name)
        yield from ((_part_as_text(part) if as_text else part,) for _, part in parts)

    def of_value(value: Json) -> Iterator[Row]:
        check_json_kind("array", kind_of(value.value), name)
        yield from ((value_as_text(part) if as_text else Json(part),) for part in value.value)

    return of_text if type_ == JSON else of_value


def _member_generator(type_: Type, name: str, as_text: bool) -> Maker:
    def of_text(text: str) -> Iterator[Row]:
        kind, parts = json_parts(text)
        check_json_kind("object", kind, name)
        yield from ((key, _part_as_text(part) if as_text else part) for key, part in parts)

    def of_value(value: Json) -> Iterator[Row]:
        check_json_kind("object", kind_of(value.value), name)
        yield from (
            (key, value_as_text(part) if as_text else Json(part)) for key, part in value.value.items()
        )

    return of_text if type_ == JSON else of_value


def _key_generator(type_: Type, name: str) -> Maker:
    members = _member_generator(type_, name, True)
    return lambda value: ((key,) for key, _ in members(value))


def _define_json(prefix: str, type_: Type) -> None:
    elements, each, keys = f"{prefix}_array_elements", f"{prefix}_each", f"{prefix}_object_keys"
    for name, as_text, example in (
        (elements, False, "('1'), ('\"a\"'), ('null')"),
        (f"{elements}_text", True, "('1'), ('a'), (NULL)"),
    ):
        register_row_function(
            name,
            type_.kind.value,
            f"The elements of a JSON array{', as text' if as_text else ''}.",
            {f"{name}('[1, \"a\", null]')": example if as_text else example.replace("')", f"'::{prefix})")},
            RowOverload(
                argument_rule(("value",), (TEXT if as_text else type_,), type_),
                row_generator(_element_generator(type_, name, as_text)),
            ),
        )
    for name, as_text, example in (
        (each, False, f"('a', '1'::{prefix}), ('b', 'null'::{prefix})"),
        (f"{each}_text", True, "('a', '1'), ('b', NULL)"),
    ):
        register_row_function(
            name,
            type_.kind.value,
            f"The names and values of a JSON object{', these as text' if as_text else ''}.",
            {f'{name}(\'{{"a": 1, "b": null}}\')': example},
            RowOverload(
                argument_rule(("key", "value"), (TEXT, TEXT if as_text else type_), type_),
                row_generator(_member_generator(type_, name, as_text)),
            ),
        )
    register_row_function(
        keys,
        type_.kind.value,
        "The names in a JSON object.",
        {f'{keys}(\'{{"a": 1, "b": null}}\')': "('a'), ('b')"},
        RowOverload(
            argument_rule(("",), (TEXT,), type_, nullable=False), row_generator(_key_generator(type_, keys))
        ),
    )


for _prefix, _type in (("json", JSON), ("jsonb", JSONB)):
    _define_json(_prefix, _type)


FieldConverter = Callable[[Any], Any]


class JsonWithText(NamedTuple):
    """A value of JSON, and its source text."""

    value: Any
    text: str


def _parse_with_member_texts(text: str) -> Any:
    """Parse JSON text to a value whose members keep their source texts."""
    kind, parts = json_parts(text)
    read = codec_of(JSONB).parse
    if kind == "object":
        return {name: JsonWithText(read(part).value, part) for name, part in parts}
    return [_parse_with_member_texts(part) for _, part in parts] if kind == "array" else read(text).value


def field_converter(type_: Type) -> FieldConverter:
    """Return the conversion of a value of JSON to a field of a type."""
    codec = codec_of(type_)

    def convert(value: Any) -> Any:
        if isinstance(value, JsonWithText):
            if value.value is not None and type_.kind in (Kind.JSON, Kind.CHAR, Kind.VARCHAR):
                return _text_field(value, type_)
            value = value.value
        if value is None and type_.kind is not Kind.JSONB:
            return None
        if type_.kind is Kind.JSONB:
            return Json(value)
        if type_.kind is Kind.ARRAY and not isinstance(value, str):
            if not isinstance(value, list):
                raise ValueError("expected JSON array")
            return from_nested_lists(_convert_nested(value, field_converter(type_.parts[0])))
        if type_.kind is Kind.RECORD and not isinstance(value, str):
            return populate_record(type_, None, value)
        text = text_of(value) if type_.kind is Kind.JSON else value_as_text(value) or ""
        if type_.is_text and type_.precision and len(text) > type_.precision:
            raise ValueError(f"value too long for type {type_}")
        return codec.parse(text)

    return convert


def _text_field(value: JsonWithText, type_: Type) -> str:
    text = value.value if isinstance(value.value, str) and type_.is_text else value.text.strip()
    if type_.is_text and type_.precision and len(text) > type_.precision:
        raise ValueError(f"value too long for type {type_}")
    return str(codec_of(type_).parse(text))


def _convert_nested(values: list[Any], convert: FieldConverter) -> list[Any]:
    """Convert the elements of nested lists."""
    return [
        _convert_nested(value, convert) if isinstance(value, list) else convert(value) for value in values
    ]


def populate_record(type_: Type, base: Any, value: Any) -> tuple[Any, ...] | None:
    """Return a row of a type with the members of an object. Missing members come from the base row."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"cannot call populate_composite on {_with_article(kind_of(value))}")
    base_fields = base if base is not None else (None,) * len(type_.parts)
    fields = zip(type_.labels, type_.parts, base_fields, strict=True)
    return tuple(field_converter(part)(value[name]) if name in value else old for name, part, old in fields)


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'ao' else 'a'} {word}"


def _record_generator(is_set: bool, name: str) -> RowGenerator:
    """Return a generator of rows with the columns of the column definition list.

    The last argument has the names of the columns, one per line.
    """

    def build(args: tuple[Type, ...], types: tuple[Type, ...]) -> Maker:
        fields = tuple(map(field_converter, types))

        def generate(document: Any, names: str) -> Iterator[Row]:
            if document is None:
                yield from () if is_set else [(None,) * len(fields)]
                return
            value = document.value if isinstance(document, Json) else _parse_with_member_texts(document)
            check_json_kind("array" if is_set else "object", kind_of(value), name)
            for record in value if is_set else [value]:
                if not isinstance(record, dict):
                    raise ValueError(f"argument of {name} must be an array of objects")
                members = zip(fields, names.split("\n"), strict=True)
                yield tuple(field(record.get(member)) for field, member in members)

        return generate

    return RowGenerator(build, takes_nulls=True)


def _column_definition_rule(type_: Type) -> RowRule:
    """Return a rule for JSON and column names. The binder adds the columns that the call declares."""

    def rule(arg_types: tuple[Type, ...]) -> RowSignature | None:
        fits = len(arg_types) == 2 and (is_unknown(arg_types[0]) or arg_types[0].kind is type_.kind)
        return RowSignature((type_, TEXT), (), ()) if fits else None

    return rule


def _populate_generator(is_set: bool, name: str, returns_rows: bool) -> RowGenerator:
    """Return a generator of rows of the first argument's type, whole or as columns."""

    def build(args: tuple[Type, ...], types: tuple[Type, ...]) -> Maker:
        type_ = args[0]

        def generate(base: Any, document: Any, as_text: bool = False) -> Iterator[Row]:
            value = (
                document.value
                if isinstance(document, Json)
                else None
                if document is None
                else _parse_with_member_texts(document)
            )
            if is_set and document is None:
                return
            if is_set:
                check_json_kind("array", kind_of(value), name)
                if not all(isinstance(one, dict) for one in value or ()):
                    raise ValueError(f"argument of {name} must be an array of objects")
            for one in list(value or ()) if is_set else [value]:
                row = base if one is None else populate_record(type_, base, one)
                yield (row,) if returns_rows else row or (None,) * len(type_.parts)

        return generate

    return RowGenerator(build, takes_nulls=True)


def _populate_rule(type_: Type, returns_rows: bool) -> RowRule:
    """Return a rule for a row, usually NULL, and JSON."""

    def rule(arg_types: tuple[Type, ...]) -> RowSignature | None:
        if len(arg_types) != 2 or arg_types[0].kind is not Kind.RECORD or not arg_types[0].labels:
            return None
        if not is_unknown(arg_types[1]) and arg_types[1].kind is not type_.kind:
            return None
        args = (arg_types[0], type_)
        if returns_rows:
            return RowSignature(args, ("",), (arg_types[0],))
        return RowSignature(args, arg_types[0].labels, arg_types[0].parts)

    return rule


def _define(prefix: str, type_: Type) -> None:
    for name, many in ((f"{prefix}_to_recordset", True), (f"{prefix}_to_record", False)):
        whose = "each object of an array" if many else "an object"
        register_row_function(
            name,
            f"{type_.kind.value}, and AS name(column type, ...)",
            f"The members of {whose}, as columns that AS declares.",
            {},
            RowOverload(_column_definition_rule(type_), _record_generator(many, name)),
        )
    for name, many in ((f"{prefix}_populate_recordset", True), (f"{prefix}_populate_record", False)):
        whose = "each object of an array" if many else "an object"
        register_row_function(
            name,
            f"a row of a type with names and {type_.kind.value}",
            f"The members of {whose} as fields of that type; those that are missing as in the row.",
            {},
            RowOverload(
                _populate_rule(type_, returns_rows=False), _populate_generator(many, name, returns_rows=False)
            ),
        )
        register_row_function(
            f"${name}",
            f"a row of a type with names and {type_.kind.value}",
            "The same as rows.",
            {},
            RowOverload(
                _populate_rule(type_, returns_rows=True), _populate_generator(many, name, returns_rows=True)
            ),
        )


for _json_prefix, _json_type in (("json", JSON), ("jsonb", JSONB)):
    _define(_json_prefix, _json_type)


Words = np.ndarray[Any, np.dtype[np.int64]]
ONE: Final = Decimal(1)
EPOCH: Final = datetime.datetime(1970, 1, 1)
SPANS: Final = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
MICROSECOND: Final = datetime.timedelta(microseconds=1)


def _count_series(start: Words, stop: Words, step: Words | None = None) -> Words:
    """Return the number of values from ``start`` to ``stop`` in steps of ``step``, both ends included."""
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


def _make_series(position: Words, start: Words, stop: Words, step: Words | None = None) -> Words:
    return start + position * (1 if step is None else step)


def _integer_series_rule(types: tuple[Type, ...]) -> RowSignature | None:
    if not 2 <= len(types) <= 3 or not all(type_.is_integer or is_unknown(type_) for type_ in types):
        return None
    common = common_type((*types, INTEGER)) or INTEGER
    common = BIGINT if common == BIGINT else INTEGER
    return RowSignature((common,) * len(types), ("",), (common,), nullable=False)


def _numeric_series_rule(types: tuple[Type, ...]) -> RowSignature | None:
    if not 2 <= len(types) <= 3 or not all(
        is_unknown(type_) or is_exact_or_numeric(type_) for type_ in types
    ):
        return None
    return RowSignature((NUMERIC,) * len(types), ("",), (NUMERIC,), nullable=False)


def _numeric_series(start: Decimal, stop: Decimal, step: Decimal = ONE) -> Iterable[tuple[Decimal]]:
    """Yield numbers with the larger scale of ``start`` and ``step``."""
    if not step:
        raise ValueError("step size cannot equal zero")
    if not all(value.is_finite() for value in (start, stop, step)):
        raise ValueError("start, stop and step must be finite")
    current = start
    while current <= stop if step > 0 else current >= stop:
        yield (current,)
        current = EXACT.add(current, step)


def _moment_series_rule(types: tuple[Type, ...]) -> RowSignature | None:
    """Accept two moments and an interval. DATEs become TIMESTAMPTZ, as in Postgres."""
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


def _moment_series(start: int, stop: int, step: Interval, zone: str = "UTC") -> Iterable[tuple[int]]:
    """Yield moments. Months are added to the previous moment, whose day may be clamped to the month."""
    length = duration(step)
    if not length:
        raise ValueError("step size cannot equal zero")
    fixed = step.days * DAY + step.microseconds
    if zone.upper() not in ("UTC", "GMT", "Z"):
        yield from _zoned_series(start, stop, step, date_time.time_zone(zone))
        return
    if not step.months:
        yield from zip(range(start, stop + (1 if length > 0 else -1), fixed), strict=False)
        return
    moment = start
    while moment <= stop if length > 0 else moment >= stop:
        yield (moment,)
        moment = add_months(moment, step.months) + fixed


def _zoned_series(start: int, stop: int, step: Interval, zone: datetime.tzinfo) -> Iterable[tuple[int]]:
    """Yield moments that advance by days and months of a time zone."""
    moment, forward = start, duration(step) > 0
    while moment <= stop if forward else moment >= stop:
        yield (moment,)
        moment = add_in_zone(moment, step, zone)


def add_in_zone(stamp: int, step: Interval, zone: datetime.tzinfo) -> int:
    """Add an interval to an instant. Its months and days are those of a time zone."""
    if step.months or step.days:
        local = date_time.to_local(stamp, zone)
        shifted = add_months(local, step.months) + step.days * DAY
        stamp = date_time.from_local(shifted, zone)
    return stamp + step.microseconds


def add_months(stamp: int, months: int) -> int:
    """Add months to a timestamp. The day is clamped to the last day of the month."""
    moment = EPOCH + stamp * MICROSECOND
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError("timestamp out of range")
    last = calendar.monthrange(year, month + 1)[1]
    shifted = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    return (shifted - EPOCH) // MICROSECOND


register_row_function(
    "generate_series",
    "a first and a last number and optionally a step, or two moments and an interval",
    "The numbers or times from the first on, as far as the last, by steps of 1 or of the third argument.",
    {
        "generate_series(2, 4)": "(2), (3), (4)",
        "generate_series(5, 1, -2)": "(5), (3), (1)",
        "generate_series(4, 3)": "",
        "generate_series(1.1, 4, 1.3)": "(1.1), (2.4), (3.7)",
    },
    RowOverload(_integer_series_rule, Series(_count_series, _make_series)),
    RowOverload(_numeric_series_rule, RowGenerator(lambda args, types: _numeric_series)),
    RowOverload(_moment_series_rule, RowGenerator(lambda args, types: _moment_series)),
)
