"""JSON constructors: SQL/JSON with NULL handling and unique keys, and Postgres' ``to_json`` and
``*_build_*``.
"""

from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.functions.aggregation import definition, holistic_aggregates
from kpg.runtime.functions.aggregation.definition import AggregateFunction, Basic, Rows, Types, register
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, scalar
from kpg.runtime.functions.set_returning_functions import parts_of
from kpg.runtime.functions.type_rules import is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import BOOLEAN, INTEGER, JSON, JSONB, TEXT, Kind, Type, array
from kpg.runtime.values import codec_of, jsons
from kpg.runtime.values.arrays import Array, nested
from kpg.runtime.values.jsons import Json, kind_of, quoted, text_of
from kpg.runtime.values.words import is_infinite

Show = Callable[[Any], str]


def shower(type_: Type) -> Show:
    """Writes values of a type as JSON, as ``to_json`` does."""
    show = _shower(type_)
    return lambda value: "null" if value is None else show(value)


def _shower(type_: Type) -> Show:
    text = codec_of(type_).show
    match type_.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.JSON:
            return str
        case Kind.JSONB:
            return lambda value: text_of(value.value)
        case Kind.ARRAY:
            element = shower(type_.parts[0])

            def listed(items: Any) -> str:
                return f"[{','.join(listed(i) if isinstance(i, list) else element(i) for i in items)}]"

            return lambda value: listed(nested(value))
        case Kind.RECORD:
            fields = tuple(map(shower, type_.parts))
            names = [quoted(name) for name in type_.labels] or [
                quoted(f"f{n + 1}") for n in range(len(fields))
            ]
            return lambda value: (
                "{" + ",".join(f"{n}:{f(v)}" for n, f, v in zip(names, fields, value, strict=True)) + "}"
            )
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            zone = ":00" if type_.kind is Kind.TIMESTAMPTZ else ""
            return lambda value: quoted(
                text(value) if is_infinite(value) else text(value).replace(" ", "T") + zone
            )
        case _ if type_.is_numeric:
            return lambda value: shown if (shown := text(value)).lstrip("-")[:1].isdigit() else quoted(shown)
        case _:
            return lambda value: quoted(text(value))


def _finished(type_: Type) -> Callable[[str], Any]:
    """A text of JSON as a value of JSON or JSONB."""
    return str if type_ == JSON else codec_of(JSONB).parse


def _settled(types: tuple[Type, ...]) -> tuple[Type, ...]:
    return tuple(TEXT if is_unknown(type_) else type_ for type_ in types)


def any_types(result: Type, least: int = 0, most: int | None = None) -> Rule:
    """Values of any types, so many."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) >= least and (most is None or len(types) <= most)
        return Signature(_settled(types), result) if fits else None

    return rule


def _value(call: Call) -> Callable[..., Any]:
    show, finish = shower(call.args[0].type), _finished(call.type)
    return lambda value: None if value is None else finish(show(value))


def _json_makers_array(call: Call) -> Callable[..., Any]:
    shows, finish = [shower(arg.type) for arg in call.args], _finished(call.type)
    return lambda *values: finish(f"[{', '.join(s(v) for s, v in zip(shows, values, strict=True))}]")


def member_name(type_: Type) -> Callable[[Any], str]:
    """How a value is written as the name of a member: moments as ISO 8601 has them, all else as text."""
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return shower(type_)
    show = codec_of(type_).show
    return lambda value: quoted(show(value))


def _json_makers_object(call: Call) -> Callable[..., Any]:
    shows, finish = [shower(arg.type) for arg in call.args[1::2]], _finished(call.type)
    names = [member_name(arg.type) for arg in call.args[::2]]

    def made(*values: Any) -> Any:
        if len(values) % 2:
            raise ValueError("argument list must have even number of elements")
        if None in values[::2]:
            raise ValueError("null value not allowed for object key")
        keys = [name(value) for name, value in zip(names, values[::2], strict=True)]
        shown = [show(value) for show, value in zip(shows, values[1::2], strict=True)]
        return finish("{" + ", ".join(f"{k} : {v}" for k, v in zip(keys, shown, strict=True)) + "}")

    return made


def _pairs(call: Call) -> Callable[..., Any]:
    """An object of an array of names and values in turn, or of two arrays."""
    finish = _finished(call.type)

    def made(first: Array, second: Array | None = None) -> Any:
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
            f"{quoted(k)} : {'null' if v is None else quoted(v)}"
            for k, v in zip(items[::2], items[1::2], strict=True)
        ]
        return finish("{" + ", ".join(shown) + "}")

    return made


def json_rule(type_: Type, *more: Type, result: Type | None = None) -> Rule:
    """JSON or a quoted constant, and other arguments."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 + len(more) or not (is_unknown(types[0]) or types[0].kind is type_.kind):
            return None
        for one, other in zip(types[1:], more, strict=True):
            if not is_unknown(one) and one != other and not (one.is_text and other.is_text):
                return None
        return Signature((type_, *more), result or type_)

    return rule


def _read(call: Call) -> Callable[[Any], Any]:
    if call.args[0].type == JSONB:
        return lambda value: value.value
    parse = codec_of(JSONB).parse
    return lambda value: parse(value).value


def _type_name(call: Call) -> Callable[..., str]:
    read = _read(call)

    return lambda value: kind_of(read(value))


def _length(call: Call) -> Callable[..., int]:
    read = _read(call)

    def length(value: Any) -> int:
        found = read(value)
        if not isinstance(found, list):
            what = "a non-array" if isinstance(found, dict) else "a scalar"
            raise ValueError(f"cannot get array length of {what}")
        return len(found)

    return length


def _json_makers_without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_makers_without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_json_makers_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _compact(text: str) -> str:
    """JSON without NULL members and blanks, numbers as they are written."""
    kind, members = parts_of(text)
    if kind == "scalar":
        return text.strip()
    shown = [
        (f"{quoted(name)}:" if name is not None else "") + _compact(part)
        for name, part in members
        if kind == "array" or part.strip() != "null"
    ]
    return f"[{','.join(shown)}]" if kind == "array" else "{" + ",".join(shown) + "}"


def _stripped(call: Call) -> Callable[..., Any]:
    return _compact if call.type == JSON else lambda value: Json(_json_makers_without_nulls(value.value))


def pretty(value: Any, depth: int = 0) -> str:
    """JSONB over several lines, as Postgres lays it out."""
    inner, outer = "\n" + "    " * (depth + 1), "\n" + "    " * depth
    if isinstance(value, dict):
        shown = [f"{quoted(key)}: {pretty(one, depth + 1)}" for key, one in value.items()]
        return "{" + inner + f",{inner}".join(shown) + outer + "}" if shown else "{" + outer + "}"
    if isinstance(value, list):
        shown = [pretty(one, depth + 1) for one in value]
        return "[" + inner + f",{inner}".join(shown) + outer + "]" if shown else "[" + outer + "]"
    return text_of(value)


def plainly(name: str, accepts: str, doc: str, examples: dict[str, str], *ways: tuple[Rule, Any]) -> None:
    scalar(name, accepts, doc, examples, *(Overload(rule, Memoized(build)) for rule, build in ways))


def _lenient(name: str, accepts: str, doc: str, examples: dict[str, str], rule: Rule, build: Any) -> None:
    overload = Overload(rule, Memoized(build, takes_nulls=True))
    scalar(name, accepts, doc, examples, overload, nulls=NullRule.OWN)


def _define_makers(prefix: str, type_: Type) -> None:
    blank = "" if type_ == JSON else " "
    around = " : " if type_ == JSON else ": "
    _lenient(
        f"to_{prefix}",
        "a value",
        "The value as JSON.",
        {f"to_{prefix}(ARRAY[1, 2])::TEXT": f"'[1,{blank}2]'"},
        any_types(type_, 1, 1),
        _value,
    )
    _lenient(
        f"{prefix}_build_array",
        "values",
        "A JSON array of values.",
        {f"{prefix}_build_array(1, 'a', NULL)::TEXT": "'[1, \"a\", null]'"},
        any_types(type_),
        _json_makers_array,
    )
    _lenient(
        f"{prefix}_build_object",
        "names and values in turn",
        "A JSON object of names and values.",
        {f"{prefix}_build_object('a', 1, 'b', TRUE)::TEXT": f'\'{{"a"{around}1, "b"{around}true}}\''},
        any_types(type_),
        _json_makers_object,
    )
    texts = array(TEXT)

    def one(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) in (1, 2) and all(t == texts or is_unknown(t) for t in types)
        return Signature((texts,) * len(types), type_) if fits else None

    plainly(
        f"{prefix}_object",
        "an array of names and values in turn, or two arrays",
        "A JSON object of texts.",
        {f"{prefix}_object('{{a, 1}}')::TEXT": f'\'{{"a"{around}"1"}}\''},
        (one, _pairs),
    )


def _define_askers(prefix: str, type_: Type) -> None:
    blank = "" if type_ == JSON else " "
    plainly(
        f"{prefix}_typeof",
        "JSON",
        "object, array, string, number, boolean or null.",
        {f"{prefix}_typeof('-123.4')": "'number'"},
        (json_rule(type_, result=TEXT), _type_name),
    )
    plainly(
        f"{prefix}_array_length",
        "JSON",
        "The number of elements of an array.",
        {f"{prefix}_array_length('[1, 2, [3]]')": "3"},
        (json_rule(type_, result=INTEGER), _length),
    )
    plainly(
        f"{prefix}_strip_nulls",
        "JSON",
        "JSON without members that are null.",
        {f'{prefix}_strip_nulls(\'{{"a": 1, "b": null}}\')::TEXT': f"'{{\"a\":{blank}1}}'"},
        (json_rule(type_), _stripped),
    )


for _prefix, _type in (("json", JSON), ("jsonb", JSONB)):
    _define_makers(_prefix, _type)
    _define_askers(_prefix, _type)


def _laid_out_of(kind: Kind) -> Rule:
    """Of a value of a kind, and whether its parts are to be on lines of their own."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if not types or types[0].kind is not kind or len(types) > 2:
            return None
        return Signature((types[0], BOOLEAN)[: len(types)], JSON) if types[1:] in ((), (BOOLEAN,)) else None

    return rule


def _laid_out(call: Call) -> Callable[..., Any]:
    plain = _value(call)
    if len(call.args) == 1:
        return plain
    type_ = call.args[0].type
    shows = list(map(shower, type_.parts))
    names = [f"{quoted(name)}:" for name in type_.labels]

    def items(value: Any) -> list[str]:
        if type_.kind is Kind.RECORD:
            return [name + show(one) for name, show, one in zip(names, shows, value, strict=True)]
        return [_listed(shows[0], one) for one in nested(value)]

    def laid_out(value: Any, pretty: bool | None) -> Any:
        if value is None or pretty is None:
            return None
        if not pretty:
            return plain(value)
        around = "{}" if type_.kind is Kind.RECORD else "[]"
        return around[0] + ",\n ".join(items(value)) + around[1]

    return laid_out


def _listed(show: Show, item: Any) -> str:
    """An item of an array, or the items of a dimension below."""
    return f"[{','.join(_listed(show, one) for one in item)}]" if isinstance(item, list) else show(item)


_lenient(
    "array_to_json",
    "an array",
    "The array as JSON.",
    {"array_to_json(ARRAY[1, 2])::TEXT": "'[1,2]'"},
    _laid_out_of(Kind.ARRAY),
    _laid_out,
)
_lenient(
    "row_to_json",
    "a row",
    "The row as JSON.",
    {"row_to_json(ROW(1, 'a'))::TEXT": '\'{"f1":1,"f2":"a"}\''},
    _laid_out_of(Kind.RECORD),
    _laid_out,
)
plainly(
    "jsonb_pretty",
    "JSONB",
    "JSON over several lines.",
    {"jsonb_pretty('1')": "'1'"},
    (json_rule(JSONB, result=TEXT), lambda call: lambda value: pretty(value.value)),
)


STRICT, UNIQUE = "strict", "unique"
"""What the first operand of the two functions may say: members that are NULL are left out; names differ."""


def _flagged(types: tuple[Type, ...]) -> Signature | None:
    rule: Rule = any_types(JSON, 1)
    return rule((TEXT, *types[1:])) if types else None


def _refuse_equal(names: list[str]) -> None:
    known = set()
    for name in names:
        if name in known:
            raise ValueError(f"duplicate JSON object key value: {name}")
        known.add(name)


def _object(call: Call) -> Callable[..., str]:
    names = [member_name(arg.type) for arg in call.args[1::2]]
    shows = [shower(arg.type) for arg in call.args[2::2]]

    def made(flags: str, *given: Any) -> str:
        if None in given[::2]:
            raise ValueError("null value not allowed for object key")
        members = [
            (name(key), None if value is None else show(value))
            for name, show, key, value in zip(names, shows, given[::2], given[1::2], strict=True)
        ]
        if UNIQUE in flags:
            _refuse_equal([name for name, _ in members])
        present = [one for one in members if one[1] is not None or STRICT not in flags]
        return "{" + ", ".join(f"{name} : {value or 'null'}" for name, value in present) + "}"

    return made


def _array(call: Call) -> Callable[..., str]:
    shows = [shower(arg.type) for arg in call.args[1:]]

    def made(flags: str, *given: Any) -> str:
        present = [show(one) for show, one in zip(shows, given, strict=True) if one is not None]
        return f"[{', '.join(present)}]"

    return made


for _name, _build, _doc, _example, _shown in (
    (
        "json_object_of",
        _object,
        "JSON_OBJECT(name: value): 'strict' leaves NULLs out, 'unique' refuses equal names.",
        "'strict', 'a', 1, 'b', NULL",
        "'{\"a\" : 1}'",
    ),
    (
        "json_array_of",
        _array,
        "JSON_ARRAY(value, ...).",
        "'strict', 1, NULL, 'a'",
        "'[1, \"a\"]'",
    ),
):
    scalar(
        _name,
        "'strict' or 'unique', and what JSON_OBJECT or JSON_ARRAY takes",
        _doc,
        {f"{_name}({_example})::TEXT": _shown},
        Overload(_flagged, Memoized(_build, takes_nulls=True)),
        nulls=NullRule.OWN,
    )

Finish = Callable[[Types], definition.InOrder]


def _without_nulls(finish: Finish) -> Finish:
    """Of the rows whose last operand is there."""

    def made(types: Types) -> definition.InOrder:
        whole = finish(types)
        return lambda rows: whole([row for row in rows if row[0][-1] is not None])

    return made


def _of_different_keys(finish: Finish) -> Finish:
    def made(types: Types) -> definition.InOrder:
        whole = finish(types)

        def checked(rows: Rows) -> Any:
            keys = [jsons.key_of(operands[1], types[1]) for operands, times in rows for _ in range(times)]
            _refuse_equal([f'"{key}"' for key in keys])
            return whole(rows)

        return checked

    return made


_LISTS: Final = {"json": holistic_aggregates.json_list, "jsonb": holistic_aggregates.jsonb_list}
_OBJECTS: Final = {"json": holistic_aggregates.json_members, "jsonb": holistic_aggregates.jsonb_members}


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
            holistic_aggregates.present(lambda types: type_, operands),
            definition.natural(finish),
            Basic(),
            in_order=finish,
            keeps_nulls=True,
        )
    )


for _name, _list in _LISTS.items():
    _register(f"{_name}_agg_strict", 1, "The values that are not NULL as an array.", _without_nulls(_list))
for _name, _members in _OBJECTS.items():
    _strict = _without_nulls(_members)
    _register(f"{_name}_object_agg_strict", 2, "Keys and values that are not NULL as an object.", _strict)
    _register(f"{_name}_object_agg_unique", 2, "An object of keys that differ.", _of_different_keys(_members))
    _register(
        f"{_name}_object_agg_unique_strict",
        2,
        "An object of keys that differ, without NULLs.",
        _of_different_keys(_strict),
    )
