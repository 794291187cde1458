"""What EXPLAIN shows in the formats that Postgres has for it: JSON, YAML and XML of one tree."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from xml.sax.saxutils import escape

NAMESPACE: Final = "http://www.postgresql.org/2009/explain"
NO_ELEMENT: Final = re.compile(r"[^\w.-]")
NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Letters that no document of XML can have."""
NO_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Letters that no text of YAML can have as they are, or that end its lines."""


def formatted(tree: dict[str, Any], format_: str) -> str:
    """One statement's tree as a document, in which it is the only one."""
    match format_:
        case "JSON":
            return json.dumps([tree], indent=2, ensure_ascii=False)
        case "YAML":
            return "\n".join(_yaml([tree], ""))
        case _:
            lines = ("<Query>", *(f"  {line}" for line in _xml(tree)), "</Query>")
            inside = "\n".join(f"  {line}" for line in lines)
            return f'<explain xmlns="{NAMESPACE}">\n{inside}\n</explain>'


def _yaml(value: Any, indent: str) -> Iterator[str]:
    """A list or an object in block style; single values are written as in JSON, which YAML reads."""
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                first, *rest = _yaml(one, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_single(one)}"
        return
    for name, one in value.items():
        if isinstance(one, dict | list) and one:
            yield f"{indent}{name}:"
            yield from _yaml(one, indent + "  ")
        else:
            yield f"{indent}{name}: {_single(one)}"


def _single(value: Any) -> str:
    # Of JSON's escapes YAML reads all but pairs of surrogates.
    text = json.dumps(value, ensure_ascii=False)
    return NO_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _xml(tree: dict[str, Any]) -> Iterator[str]:
    for name, value in tree.items():
        yield from _element(NO_ELEMENT.sub("-", name), value)


def _element(name: str, value: Any) -> Iterator[str]:
    inside: Iterator[str]
    match value:
        case dict():
            inside = _xml(value)
        case list():
            inside = (
                line for one in value for line in _element("Plan" if isinstance(one, dict) else "Item", one)
            )
        case _:
            text = json.dumps(value) if isinstance(value, bool | int | float) else str(value)
            known = escape(NO_XML.sub("\ufffd", text), {"\r": "&#x0d;"})
            yield f"<{name}>{known}</{name}>"
            return
    yield f"<{name}>"
    yield from (f"  {line}" for line in inside)
    yield f"</{name}>"
