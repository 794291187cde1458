"""IS JSON: whether a text is JSON, and of which kind."""

import json
from typing import Any, Final

from kpg.runtime.functions.registry import Memoized, Overload, scalar
from kpg.runtime.functions.rules import fixed
from kpg.runtime.types import BOOLEAN, TEXT
from kpg.runtime.values.jsons import parse

KINDS: Final[dict[str, tuple[type, ...]]] = {
    "value": (object,),
    "scalar": (str, int, float, bool, type(None)),
    "array": (list,),
    "object": (dict,),
}


def is_json(text: str, kind: str) -> bool:
    """Whether a text is JSON of a kind; "unique" behind that asks for keys that differ within each object."""
    what, _, unique = kind.partition(" ")
    try:
        parse(text)
        value = json.loads(text, object_pairs_hook=_different if unique else None)
    except ValueError:
        return False
    return isinstance(value, KINDS[what])


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


scalar(
    "is_json",
    "a text, and one of 'value', 'scalar', 'array', 'object', with ' unique' for keys that differ",
    "Whether the text is JSON of that kind: IS JSON.",
    {"is_json('[1]', 'array')": "TRUE", "is_json('{', 'value')": "FALSE"},
    Overload(fixed(BOOLEAN, TEXT, TEXT), Memoized(lambda call: is_json)),
)
