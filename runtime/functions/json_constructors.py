"""SQL/JSON's constructors where they leave NULLs out, or want keys that differ."""

from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.functions import gathered, sequences
from kpg.runtime.functions.aggregation import AggregateFunction, Basic, Rows, Types, register
from kpg.runtime.functions.json_makers import any_types, member_name, shower
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, Rule, Signature, scalar
from kpg.runtime.scalar import Call
from kpg.runtime.types import JSON, JSONB, TEXT, Type
from kpg.runtime.values import tojson

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

Finish = Callable[[Types], sequences.InOrder]


def _without_nulls(finish: Finish) -> Finish:
    """Of the rows whose last operand is there."""

    def made(types: Types) -> sequences.InOrder:
        whole = finish(types)
        return lambda rows: whole([row for row in rows if row[0][-1] is not None])

    return made


def _of_different_keys(finish: Finish) -> Finish:
    def made(types: Types) -> sequences.InOrder:
        whole = finish(types)

        def checked(rows: Rows) -> Any:
            keys = [tojson.key_of(operands[1], types[1]) for operands, times in rows for _ in range(times)]
            _refuse_equal([f'"{key}"' for key in keys])
            return whole(rows)

        return checked

    return made


_LISTS: Final = {"json": gathered.json_list, "jsonb": gathered.jsonb_list}
_OBJECTS: Final = {"json": gathered.json_members, "jsonb": gathered.jsonb_members}


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
            gathered.present(lambda types: type_, operands),
            sequences.natural(finish),
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
