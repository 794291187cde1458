"""Fenced code in Markdown."""

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language and its text."""

    language: str
    code: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a text, in order."""
    return [Block(found["language"], found["code"]) for found in _FENCE.finditer(text)]
