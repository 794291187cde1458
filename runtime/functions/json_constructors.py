"""JSON constructors: SQL/JSON with NULL handling and unique keys, and Postgres' ``to_json`` and
``*_build_*``.
"""

from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.functions.aggregation import definition, holistic_aggregates
from kpg.runtime.functions.aggregation.definition import AggregateFunction, Basic, Rows, Types, register
from kpg.runtime.functions.registry import (
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    Signature,
    register_scalar,
)
from kpg.runtime.functions.set_returning_functions import json_parts
from kpg.runtime.functions.type_rules import is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, JSON, JSONB, TEXT, Kind, Type, array
from kpg.runtime.values import codec_of, jsons
from kpg.runtime.values.arrays import Array, to_nested_lists
from kpg.runtime.values.jsons import Json, kind_of, quote_string, text_of
from kpg.runtime.values.words import is_infinite

JsonWriter = Callable[[Any], str]


def json_writer(type_: Type) -> JsonWriter:
    """Return a function that writes values of a type as JSON text, like ``to_json``. NULL is ``null``."""
    show = _json_writer(type_)
    return lambda value: "null" if value is None else show(value)


def _json_writer(type_: Type) -> JsonWriter:
    text = codec_of(type_).show
    match type_.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.JSON:
            return str
        case Kind.JSONB:
            return lambda value: text_of(value.value)
        case Kind.ARRAY:
            element = json_writer(type_.parts[0])

            def write_items(items: Any) -> str:
                return f"[{','.join(write_items(i) if isinstance(i, list) else element(i) for i in items)}]"

            return lambda value: write_items(to_nested_lists(value))
        case Kind.RECORD:
            fields = tuple(map(json_writer, type_.parts))
            names = [quote_string(name) for name in type_.labels] or [
                quote_string(f"f{n + 1}") for n in range(len(fields))
            ]
            return lambda value: (
                "{" + ",".join(f"{n}:{f(v)}" for n, f, v in zip(names, fields, value, strict=True)) + "}"
            )
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            zone = ":00" if type_.kind is Kind.TIMESTAMPTZ else ""
            return lambda value: quote_string(
                text(value) if is_infinite(value) else text(value).replace(" ", "T") + zone
            )
        case _ if type_.is_numeric:
            return lambda value: (
                shown if (shown := text(value)).lstrip("-")[:1].isdigit() else quote_string(shown)
            )
        case _:
            return lambda value: quote_string(text(value))


def _json_parser(type_: Type) -> Callable[[str], Any]:
    """Return the conversion of JSON text to a value of JSON or JSONB."""
    return str if type_ == JSON else codec_of(JSONB).parse


def _unknown_to_text(types: tuple[Type, ...]) -> tuple[Type, ...]:
    return tuple(TEXT if is_unknown(type_) else type_ for type_ in types)


def any_arguments(result: Type, least: int = 0, most: int | None = None) -> Rule:
    """Return a rule for at least ``least`` and at most ``most`` values of any types."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) >= least and (most is None or len(types) <= most)
        return Signature(_unknown_to_text(types), result) if fits else None

    return rule


def _to_json(call: Call) -> Callable[..., Any]:
    show, finish = json_writer(call.args[0].type), _json_parser(call.type)
    return lambda value: None if value is None else finish(show(value))


def _build_array(call: Call) -> Callable[..., Any]:
    shows, finish = [json_writer(arg.type) for arg in call.args], _json_parser(call.type)
    return lambda *values: finish(f"[{', '.join(s(v) for s, v in zip(shows, values, strict=True))}]")


def member_name_writer(type_: Type) -> Callable[[Any], str]:
    """Return a function that writes a value as a member's name. Timestamps are in ISO 8601."""
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return json_writer(type_)
    show = codec_of(type_).show
    return lambda value: quote_string(show(value))


def _build_object(call: Call) -> Callable[..., Any]:
    shows, finish = [json_writer(arg.type) for arg in call.args[1::2]], _json_parser(call.type)
    names = [member_name_writer(arg.type) for arg in call.args[::2]]

    def build(*values: Any) -> Any:
        if len(values) % 2:
            raise ValueError("argument list must have even number of elements")
        if None in values[::2]:
            raise ValueError("null value not allowed for object key")
        keys = [name(value) for name, value in zip(names, values[::2], strict=True)]
        shown = [show(value) for show, value in zip(shows, values[1::2], strict=True)]
        return finish("{" + ", ".join(f"{k} : {v}" for k, v in zip(keys, shown, strict=True)) + "}")

    return build


def _object_from_arrays(call: Call) -> Callable[..., Any]:
    """Return the constructor of an object from an array of alternating names and values, or two arrays."""
    finish = _json_parser(call.type)

    def build(first: Array, second: Array | None = None) -> Any:
        items = list(first.items)
        if second is not None:
            if len(items) != len(second.items):
                raise ValueError("mismatched array dimensions")
            items = [one for pair in zip(items, second.items, strict=True) for one in pair]
        if len(items) % 2:
            raise ValueError("array must have even number of elements")
        if None in items[::2]:
            raise ValueError("null value not allowed for object key")
        shown = [
            f"{quote_string(k)} : {'null' if v is None else quote_string(v)}"
            for k, v in zip(items[::2], items[1::2], strict=True)
        ]
        return finish("{" + ", ".join(shown) + "}")

    return build


def json_rule(type_: Type, *more: Type, result: Type | None = None) -> Rule:
    """Return a rule for JSON or a quoted constant, and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + len(more) or not (is_unknown(types[0]) or types[0].kind is type_.kind):
            return None
        for one, other in zip(types[1:], more, strict=True):
            if not is_unknown(one) and one != other and not (one.is_text and other.is_text):
                return None
        return Signature((type_, *more), result or type_)

    return rule


def _json_reader(call: Call) -> Callable[[Any], Any]:
    if call.args[0].type == JSONB:
        return lambda value: value.value
    parse = codec_of(JSONB).parse
    return lambda value: parse(value).value


def _type_name(call: Call) -> Callable[..., str]:
    read = _json_reader(call)

    return lambda value: kind_of(read(value))


def _array_length(call: Call) -> Callable[..., int]:
    read = _json_reader(call)

    def length(value: Any) -> int:
        document = read(value)
        if not isinstance(document, list):
            what = "a non-array" if isinstance(document, dict) else "a scalar"
            raise ValueError(f"cannot get array length of {what}")
        return len(document)

    return length


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_drop_nulls(inner) for inner in value] if isinstance(value, list) else value


def _strip_nulls_in_text(text: str) -> str:
    """Return JSON text without members that are null and without blanks. Numbers keep their digits."""
    kind, members = json_parts(text)
    if kind == "scalar":
        return text.strip()
    shown = [
        (f"{quote_string(name)}:" if name is not None else "") + _strip_nulls_in_text(part)
        for name, part in members
        if kind == "array" or part.strip() != "null"
    ]
    return f"[{','.join(shown)}]" if kind == "array" else "{" + ",".join(shown) + "}"


def _strip_nulls(call: Call) -> Callable[..., Any]:
    return _strip_nulls_in_text if call.type == JSON else lambda value: Json(_drop_nulls(value.value))


def pretty(value: Any, depth: int = 0) -> str:
    """Format JSONB over several lines, like Postgres."""
    inner, outer = "\n" + "    " * (depth + 1), "\n" + "    " * depth
    if isinstance(value, dict):
        shown = [f"{quote_string(key)}: {pretty(one, depth + 1)}" for key, one in value.items()]
        return "{" + inner + f",{inner}".join(shown) + outer + "}" if shown else "{" + outer + "}"
    if isinstance(value, list):
        shown = [pretty(one, depth + 1) for one in value]
        return "[" + inner + f",{inner}".join(shown) + outer + "]" if shown else "[" + outer + "]"
    return text_of(value)


def register_strict(
    name: str, accepts: str, doc: str, examples: dict[str, str], *ways: tuple[Rule, Any]
) -> None:
    register_scalar(
        name, accepts, doc, examples, *(Overload(rule, MemoizedFunction(build)) for rule, build in ways)
    )


def _register_called_on_null(
    name: str, accepts: str, doc: str, examples: dict[str, str], rule: Rule, build: Any
) -> None:
    overload = Overload(rule, MemoizedFunction(build, takes_nulls=True))
    register_scalar(name, accepts, doc, examples, overload, nulls=NullRule.CALLED_ON_NULL)


def _define_constructors(prefix: str, type_: Type) -> None:
    blank = "" if type_ == JSON else " "
    around = " : " if type_ == JSON else ": "
    _register_called_on_null(
        f"to_{prefix}",
        "a value",
        "The value as JSON.",
        {f"to_{prefix}(ARRAY[1, 2])::TEXT": f"'[1,{blank}2]'"},
        any_arguments(type_, 1, 1),
        _to_json,
    )
    _register_called_on_null(
        f"{prefix}_build_array",
        "values",
        "A JSON array of values.",
        {f"{prefix}_build_array(1, 'a', NULL)::TEXT": "'[1, \"a\", null]'"},
        any_arguments(type_),
        _build_array,
    )
    _register_called_on_null(
        f"{prefix}_build_object",
        "names and values in turn",
        "A JSON object of names and values.",
        {f"{prefix}_build_object('a', 1, 'b', TRUE)::TEXT": f'\'{{"a"{around}1, "b"{around}true}}\''},
        any_arguments(type_),
        _build_object,
    )
    texts = array(TEXT)

    def text_arrays(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) in (1, 2) and all(t == texts or is_unknown(t) for t in types)
        return Signature((texts,) * len(types), type_) if fits else None

    register_strict(
        f"{prefix}_object",
        "an array of names and values in turn, or two arrays",
        "A JSON object of texts.",
        {f"{prefix}_object('{{a, 1}}')::TEXT": f'\'{{"a"{around}"1"}}\''},
        (text_arrays, _object_from_arrays),
    )


def _define_inspectors(prefix: str, type_: Type) -> None:
    blank = "" if type_ == JSON else " "
    register_strict(
        f"{prefix}_typeof",
        "JSON",
        "object, array, string, number, boolean or null.",
        {f"{prefix}_typeof('-123.4')": "'number'"},
        (json_rule(type_, result=TEXT), _type_name),
    )
    register_strict(
        f"{prefix}_array_length",
        "JSON",
        "The number of elements of an array.",
        {f"{prefix}_array_length('[1, 2, [3]]')": "3"},
        (json_rule(type_, result=INTEGER), _array_length),
    )
    register_strict(
        f"{prefix}_strip_nulls",
        "JSON",
        "JSON without members that are null.",
        {f'{prefix}_strip_nulls(\'{{"a": 1, "b": null}}\')::TEXT': f"'{{\"a\":{blank}1}}'"},
        (json_rule(type_), _strip_nulls),
    )


for _prefix, _type in (("json", JSON), ("jsonb", JSONB)):
    _define_constructors(_prefix, _type)
    _define_inspectors(_prefix, _type)


def _pretty_rule(kind: Kind) -> Rule:
    """Return a rule for a value of a kind, and optionally whether to write each part on its own line."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if not types or types[0].kind is not kind or len(types) > 2:
            return None
        return Signature((types[0], BOOLEAN)[: len(types)], JSON) if types[1:] in ((), (BOOLEAN,)) else None

    return rule


def _to_pretty_json(call: Call) -> Callable[..., Any]:
    plain = _to_json(call)
    if len(call.args) == 1:
        return plain
    type_ = call.args[0].type
    shows = list(map(json_writer, type_.parts))
    names = [f"{quote_string(name)}:" for name in type_.labels]

    def items(value: Any) -> list[str]:
        if type_.kind is Kind.RECORD:
            return [name + show(one) for name, show, one in zip(names, shows, value, strict=True)]
        return [_write_nested(shows[0], one) for one in to_nested_lists(value)]

    def write(value: Any, pretty: bool | None) -> Any:
        if value is None or pretty is None:
            return None
        if not pretty:
            return plain(value)
        around = "{}" if type_.kind is Kind.RECORD else "[]"
        return around[0] + ",\n ".join(items(value)) + around[1]

    return write


def _write_nested(show: JsonWriter, item: Any) -> str:
    """Write an item of an array, or the items of an inner dimension."""
    return f"[{','.join(_write_nested(show, one) for one in item)}]" if isinstance(item, list) else show(item)


_register_called_on_null(
    "array_to_json",
    "an array",
    "The array as JSON.",
    {"array_to_json(ARRAY[1, 2])::TEXT": "'[1,2]'"},
    _pretty_rule(Kind.ARRAY),
    _to_pretty_json,
)
_register_called_on_null(
    "row_to_json",
    "a row",
    "The row as JSON.",
    {"row_to_json(ROW(1, 'a'))::TEXT": '\'{"f1":1,"f2":"a"}\''},
    _pretty_rule(Kind.RECORD),
    _to_pretty_json,
)
register_strict(
    "jsonb_pretty",
    "JSONB",
    "JSON over several lines.",
    {"jsonb_pretty('1')": "'1'"},
    (json_rule(JSONB, result=TEXT), lambda call: lambda value: pretty(value.value)),
)


STRICT, UNIQUE = "strict", "unique"
"""Options in the first operand of the two functions: omit members that are NULL; require unique names."""


def _flags_rule(types: tuple[Type, ...]) -> Signature | None:
    rule: Rule = any_arguments(JSON, 1)
    return rule((TEXT, *types[1:])) if types else None


def _check_unique_names(names: list[str]) -> None:
    known = set()
    for name in names:
        if name in known:
            raise ValueError(f"duplicate JSON object key value: {name}")
        known.add(name)


def _sql_object(call: Call) -> Callable[..., str]:
    names = [member_name_writer(arg.type) for arg in call.args[1::2]]
    shows = [json_writer(arg.type) for arg in call.args[2::2]]

    def build(flags: str, *values: Any) -> str:
        if None in values[::2]:
            raise ValueError("null value not allowed for object key")
        members = [
            (name(key), None if value is None else show(value))
            for name, show, key, value in zip(names, shows, values[::2], values[1::2], strict=True)
        ]
        if UNIQUE in flags:
            _check_unique_names([name for name, _ in members])
        present = [one for one in members if one[1] is not None or STRICT not in flags]
        return "{" + ", ".join(f"{name} : {value or 'null'}" for name, value in present) + "}"

    return build


def _sql_array(call: Call) -> Callable[..., str]:
    shows = [json_writer(arg.type) for arg in call.args[1:]]

    def build(flags: str, *values: Any) -> str:
        present = [show(one) for show, one in zip(shows, values, strict=True) if one is not None]
        return f"[{', '.join(present)}]"

    return build


for _name, _build, _doc, _example, _shown in (
    (
        "json_object_of",
        _sql_object,
        "JSON_OBJECT(name: value): 'strict' leaves NULLs out, 'unique' refuses equal names.",
        "'strict', 'a', 1, 'b', NULL",
        "'{\"a\" : 1}'",
    ),
    (
        "json_array_of",
        _sql_array,
        "JSON_ARRAY(value, ...).",
        "'strict', 1, NULL, 'a'",
        "'[1, \"a\"]'",
    ),
):
    register_scalar(
        _name,
        "'strict' or 'unique', and what JSON_OBJECT or JSON_ARRAY takes",
        _doc,
        {f"{_name}({_example})::TEXT": _shown},
        Overload(_flags_rule, MemoizedFunction(_build, takes_nulls=True)),
        nulls=NullRule.CALLED_ON_NULL,
    )

Finish = Callable[[Types], definition.InOrder]


def _skip_nulls(finish: Finish) -> Finish:
    """Return the aggregate over the rows whose last operand is not NULL."""

    def finish_present(types: Types) -> definition.InOrder:
        whole = finish(types)
        return lambda rows: whole([row for row in rows if row[0][-1] is not None])

    return finish_present


def _require_unique_keys(finish: Finish) -> Finish:
    def finish_unique(types: Types) -> definition.InOrder:
        whole = finish(types)

        def finish_checked(rows: Rows) -> Any:
            keys = [jsons.member_key(operands[1], types[1]) for operands, times in rows for _ in range(times)]
            _check_unique_names([f'"{key}"' for key in keys])
            return whole(rows)

        return finish_checked

    return finish_unique


_LISTS: Final = {
    "json": holistic_aggregates.collect_json_array,
    "jsonb": holistic_aggregates.collect_jsonb_array,
}
_OBJECTS: Final = {
    "json": holistic_aggregates.collect_json_object,
    "jsonb": holistic_aggregates.collect_jsonb_object,
}


def _examples(name: str, operands: int) -> dict[str, str]:
    if operands == 1:
        return {"(1), (NULL), (2)": "'[1, 2]'"}
    null = "" if name.endswith("strict") else ', "b": null' if name.startswith("jsonb") else ', "b" : null'
    whole = f'{{"a": 1{null}}}' if name.startswith("jsonb") else f'{{ "a" : 1{null} }}'
    return {"('a', 1), ('b', NULL)": f"'{whole}'"}


def _register(name: str, operands: int, doc: str, finish: Finish) -> None:
    type_ = JSONB if name.startswith("jsonb") else JSON
    register(
        AggregateFunction(
            name,
            "a value" if operands == 1 else "a key and a value",
            doc,
            _examples(name, operands),
            holistic_aggregates.present_operands(lambda types: type_, operands),
            definition.sorted_algorithm(finish),
            Basic(),
            finish_in_order=finish,
            keeps_nulls=True,
        )
    )


for _name, _list in _LISTS.items():
    _register(f"{_name}_agg_strict", 1, "The values that are not NULL as an array.", _skip_nulls(_list))
for _name, _members in _OBJECTS.items():
    _strict = _skip_nulls(_members)
    _register(f"{_name}_object_agg_strict", 2, "Keys and values that are not NULL as an object.", _strict)
    _register(
        f"{_name}_object_agg_unique", 2, "An object of keys that differ.", _require_unique_keys(_members)
    )
    _register(
        f"{_name}_object_agg_unique_strict",
        2,
        "An object of keys that differ, without NULLs.",
        _require_unique_keys(_strict),
    )
