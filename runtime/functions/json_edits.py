"""JSONB with something put at the end of a path."""

from collections.abc import Callable
from typing import Any

from kpg.runtime.functions.json_makers import json_rule, plainly
from kpg.runtime.types import BOOLEAN, JSONB, TEXT, array
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.jsons import Json, in_order


def _changed(value: Any, path: list[str], new: Any, how: Callable[[Any, str, Any], None]) -> Any:
    """A copy with what is at the end of a path changed, as far as there is a way to it."""
    if not path:
        return value
    copied = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    if not isinstance(copied, (dict, list)):
        return value
    if len(path) == 1:
        how(copied, path[0], new)
        return copied
    place = _place(copied, path[0])
    if place is not None:
        copied[place] = _changed(copied[place], path[1:], new, how)
    return copied


def _place(value: Any, step: str) -> Any:
    """Where a step of a path leads: a name or a number; None if nowhere."""
    if isinstance(value, dict):
        return step if step in value else None
    try:
        number = int(step)
    except ValueError as error:
        raise ValueError(f'path element is not an integer: "{step}"') from error
    number += len(value) if number < 0 else 0
    return number if 0 <= number < len(value) else None


def _put(create: bool) -> Callable[[Any, str, Any], None]:
    def put(value: Any, step: str, new: Any) -> None:
        place = _place(value, step)
        if place is not None:
            value[place] = new
        elif create and isinstance(value, dict):
            value[step] = new
        elif create:
            value.insert(0 if int(step) < 0 else len(value), new)

    return put


def _insert(after: bool) -> Callable[[Any, str, Any], None]:
    def insert(value: Any, step: str, new: Any) -> None:
        place = _place(value, step)
        if isinstance(value, dict):
            if place is not None:
                raise ValueError("cannot replace existing key")
            value[step] = new
        elif place is None:
            value.insert(0 if int(step) < 0 else len(value), new)
        else:
            value.insert(place + after, new)

    return insert


def put_in_place(usual: bool) -> Callable[..., Json]:
    """What ``jsonb_set`` does."""
    return _edit(_put, usual)


def _edit(how: Callable[[bool], Callable[[Any, str, Any], None]], usual: bool) -> Callable[..., Json]:
    def edit(value: Json, path: Array, new: Json, flag: bool | None = None) -> Json:
        if None in path.items:
            raise ValueError("path element must not be null")
        if not isinstance(value.value, (dict, list)):
            raise ValueError("cannot set path in scalar")
        chosen = how(usual if flag is None else flag)

        def ordered(one: Any) -> Any:
            if isinstance(one, dict):
                return in_order({key: ordered(inner) for key, inner in one.items()})
            return [ordered(inner) for inner in one] if isinstance(one, list) else one

        return Json(ordered(_changed(value.value, list(path.items), new.value, chosen)))

    return edit


for _name, _how, _usual, _doc in (
    (
        "jsonb_set",
        _put,
        True,
        "JSON with a value at the end of a path, put there unless the last argument is false.",
    ),
    ("jsonb_insert", _insert, False, "JSON with a value inserted before the end of a path, or after it."),
):
    plainly(
        _name,
        "JSONB, a path, a value and optionally a truth value",
        _doc,
        {f"{_name}('[1, 2]', '{{1}}', '9')::TEXT": "'[1, 9]'" if _usual else "'[1, 9, 2]'"},
        (json_rule(JSONB, array(TEXT), JSONB), lambda call, how=_how, usual=_usual: _edit(how, usual)),
        (
            json_rule(JSONB, array(TEXT), JSONB, BOOLEAN),
            lambda call, how=_how, usual=_usual: _edit(how, usual),
        ),
    )
