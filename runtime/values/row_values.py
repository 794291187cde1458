"""Row values: tuples of fields of any types; a NULL field is None and sorts last."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from kpg.runtime.types import Type
from kpg.runtime.values import codec as parts
from kpg.runtime.values.codec import Codec, codec_of, output_of
from kpg.runtime.values.words import BLANKS, Mistyped, Unfit

SPECIAL: Final = re.compile(r'(?a)[\s"\\(),]')
FIELD: Final = re.compile(r'(?:"((?:[^"\\]|\\.|"")*)"|((?:[^"\\(),]|\\.)*))([,)])', re.DOTALL)


def codec(type_: Type) -> Codec:
    """The codec of rows with fields of these types."""
    codecs = tuple(map(codec_of, type_.parts))
    outputs = tuple(map(output_of, type_.parts))

    def over(name: str, values: Any) -> tuple[Any, ...]:
        return tuple(
            None if value is None else getattr(one, name)(value)
            for one, value in zip(codecs, values, strict=True)
        )

    def shown(values: Any) -> list[str | None]:
        pairs = zip(outputs, values, strict=True)
        return [None if value is None else output(value) for output, value in pairs]

    def from_python(value: Any) -> tuple[Any, ...]:
        if isinstance(value, dict):
            value = tuple(value.get(name) for name in type_.labels)
        if not isinstance(value, (tuple, list)):
            raise Mistyped
        if len(value) != len(codecs):
            raise Unfit
        return over("from_python", value)

    return Codec(
        encode=lambda value: parts.joined(over("encode", value)),
        decode=lambda string: over("decode", parts.split(string)[0]),
        parse=lambda text: over("parse", _fields(text, len(codecs))),
        show=lambda value: f"({','.join(map(_quoted, shown(value)))})",
        to_python=lambda value: over("to_python", value),
        from_python=from_python,
        expected=f"a tuple of {len(codecs)} values",
    )


def writer(outputs: Sequence[Callable[[Any], str]]) -> Callable[[Any], str]:
    """How rows are written whose fields are written so."""

    def write(values: Any) -> str:
        pairs = zip(outputs, values, strict=True)
        return f"({','.join(_quoted(None if value is None else output(value)) for output, value in pairs)})"

    return write


def _quoted(text: str | None) -> str:
    if text is None:
        return ""
    if text and not SPECIAL.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _fields(text: str, width: int) -> list[str | None]:
    """The fields of a text such as ``(1,"a b",)``; ValueError if they are not as many."""
    text = text.strip(BLANKS)
    if not text.startswith("(") or not text.endswith(")"):
        raise ValueError("a row begins with ( and ends with )")
    fields: list[str | None] = []
    place = 1
    while place < len(text):
        found = FIELD.match(text, place)
        if found is None:
            raise ValueError("malformed row")
        quoted, word, _ = found.groups()
        if quoted is not None:
            fields.append(re.sub(r'\\(.)|""', lambda one: one[1] or '"', quoted, flags=re.DOTALL))
        else:
            fields.append(re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) if word else None)
        place = found.end()
    if len(fields) != width:
        raise ValueError(f"a row of {len(fields)} values, expected {width}")
    return fields
