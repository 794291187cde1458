"""Regular expressions of ECMAScript, as C++ reads them, in the syntax of Python's."""

import re
from functools import lru_cache
from typing import Final

CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "d": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "s": r"\s",
    "upper": "A-Z",
    "w": r"\w",
    "xdigit": "0-9A-Fa-f",
}
ITSELF: Final = r"\\(?P<itself>[^\W\dBDSWbcdfnrstuvwx_])"
"""A letter that stands for itself after a backslash: Python gives some of them a meaning."""
COUNT: Final = r"\{[0-9]+(?:,[0-9]*)?\}"
PART: Final = re.compile(
    rf"\\c(?P<control>[A-Za-z])|\\0(?![0-9])|{ITSELF}|\\.|(?P<open>\[\^?)|(?P<dot>\.)|(?P<end>\$)|\(\?(?:[:=!])"
    rf"|(?P<strange>\(\?)|(?P<greedy>(?:[*+?]|{COUNT})\+)|{COUNT}|(?P<brace>\{{)|.",
    re.DOTALL,
)
INSIDE: Final = re.compile(
    r"\[:(?P<name>\w+):\]|\[\.(?P<element>.)\.\]|\[=(?P<equal>.)=\]"
    rf"|{ITSELF}|\\.|(?P<end>\])|(?P<set>[\[&~|])|.",
    re.DOTALL,
)
EMPTY: Final = {"[": "(?!)", "[^": r"[\s\S]"}
"""A class without members: no character, or any."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression, ready to match; ValueError if it is none."""
    try:
        return re.compile(translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def translated(pattern: str) -> str:
    """The expression as Python writes it. ValueError for what only Python knows, or a class without end."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        found = PART.match(pattern, place)
        assert found is not None
        place = found.end()
        if found["open"]:
            text, place = _class(pattern, place)
            parts.append(EMPTY[found["open"]] if text == "]" else found["open"] + text)
        elif found["itself"]:
            parts.append(found["itself"])
        elif found["control"]:
            parts.append(f"\\x{ord(found['control']) % 32:02x}")
        elif found["dot"]:
            parts.append(r"[^\n\r\u2028\u2029]")
        elif found["end"]:
            parts.append(r"\Z")
        elif found["strange"] or found["greedy"]:
            raise ValueError(f"{found[0]} is not known at position {found.start()}")
        elif found["brace"]:
            raise ValueError(f"{{ begins no count at position {found.start()}")
        else:
            parts.append(found[0])
    return "".join(parts)


def _class(pattern: str, place: int) -> tuple[str, int]:
    """What stands in brackets from a place on, with the bracket that ends it, and the place behind that."""
    parts: list[str] = []
    while place < len(pattern):
        found = INSIDE.match(pattern, place)
        assert found is not None
        place = found.end()
        if found["name"]:
            if found["name"].lower() not in CLASSES:
                raise ValueError(f"there is no class {found['name']}")
            parts.append(CLASSES[found["name"].lower()])
        elif found["element"] or found["equal"]:
            parts.append(re.escape(found["element"] or found["equal"]))
        elif found["end"]:
            return "".join((*parts, "]")), place
        elif found["set"]:
            parts.append("\\" + found["set"])
        elif found["itself"]:
            parts.append(found["itself"])
        else:
            parts.append(found[0])
    raise ValueError("a class of characters does not end")
