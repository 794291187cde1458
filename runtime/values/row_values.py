"""Row values: tuples of fields of any types; a NULL field is None and sorts last."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from kpg.runtime.types import Type
from kpg.runtime.values import codec as parts
from kpg.runtime.values.codec import Codec, codec_of, output_function
from kpg.runtime.values.words import BLANKS, UnrepresentableValue, WrongPythonType

SPECIAL: Final = re.compile(r'(?a)[\s"\\(),]')
FIELD: Final = re.compile(r'(?:"((?:[^"\\]|\\.|"")*)"|((?:[^"\\(),]|\\.)*))([,)])', re.DOTALL)


def codec(type_: Type) -> Codec:
    """Return the codec of rows with fields of these types."""
    codecs = tuple(map(codec_of, type_.parts))
    outputs = tuple(map(output_function, type_.parts))

    def apply_codecs(name: str, values: Any) -> tuple[Any, ...]:
        return tuple(
            None if value is None else getattr(one, name)(value)
            for one, value in zip(codecs, values, strict=True)
        )

    def show_fields(values: Any) -> list[str | None]:
        pairs = zip(outputs, values, strict=True)
        return [None if value is None else output(value) for output, value in pairs]

    def from_python(value: Any) -> tuple[Any, ...]:
        if isinstance(value, dict):
            value = tuple(value.get(name) for name in type_.labels)
        if not isinstance(value, (tuple, list)):
            raise WrongPythonType
        if len(value) != len(codecs):
            raise UnrepresentableValue
        return apply_codecs("from_python", value)

    return Codec(
        encode=lambda value: parts.encode_parts(apply_codecs("encode", value)),
        decode=lambda string: apply_codecs("decode", parts.decode_parts(string)[0]),
        parse=lambda text: apply_codecs("parse", _parse_fields(text, len(codecs))),
        show=lambda value: f"({','.join(map(_quote, show_fields(value)))})",
        to_python=lambda value: apply_codecs("to_python", value),
        from_python=from_python,
        input_hint=f"a tuple of {len(codecs)} values",
    )


def writer(outputs: Sequence[Callable[[Any], str]]) -> Callable[[Any], str]:
    """Return a function that formats rows with fields formatted by ``outputs``."""

    def write(values: Any) -> str:
        pairs = zip(outputs, values, strict=True)
        return f"({','.join(_quote(None if value is None else output(value)) for output, value in pairs)})"

    return write


def _quote(text: str | None) -> str:
    if text is None:
        return ""
    if text and not SPECIAL.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _parse_fields(text: str, width: int) -> list[str | None]:
    """Parse the fields of a text such as ``(1,"a b",)``.

    Raises:
        ValueError: The text is malformed, or has another number of fields.
    """
    text = text.strip(BLANKS)
    if not text.startswith("(") or not text.endswith(")"):
        raise ValueError("a row begins with ( and ends with )")
    fields: list[str | None] = []
    position = 1
    while position < len(text):
        match = FIELD.match(text, position)
        if match is None:
            raise ValueError("malformed row")
        quoted, word, _ = match.groups()
        if quoted is not None:
            fields.append(re.sub(r'\\(.)|""', lambda one: one[1] or '"', quoted, flags=re.DOTALL))
        else:
            fields.append(re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) if word else None)
        position = match.end()
    if len(fields) != width:
        raise ValueError(f"a row of {len(fields)} values, expected {width}")
    return fields
