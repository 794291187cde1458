"""Rows of the members of JSON.

The columns of json_to_record and its like are declared by a call, those of json_populate_record and its like
are the fields of a row that they are given.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kpg.runtime.functions.elements import Maker, Row, expected, kind_of, parts_of, plain
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.functions.tables import Listing, RowOverload, RowRule, RowSignature, rows
from kpg.runtime.types import JSON, JSONB, TEXT, Kind, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import from_nested
from kpg.runtime.values.jsons import Json, text_of

Field = Callable[[Any], Any]


class Written(NamedTuple):
    """A value of JSON, and the text that it was read from."""

    value: Any
    text: str


def _members(text: str) -> Any:
    """A text of JSON as a value, whose members are as they were written."""
    kind, parts = parts_of(text)
    read = codec_of(JSONB).parse
    if kind == "object":
        return {name: Written(read(part).value, part) for name, part in parts}
    return [_members(part) for _, part in parts] if kind == "array" else read(text).value


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
            value = given.value if isinstance(given, Json) else _members(given)
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
            found = given.value if isinstance(given, Json) else None if given is None else _members(given)
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


for _prefix, _type in (("json", JSON), ("jsonb", JSONB)):
    _define(_prefix, _type)
