"""Strings that stand for values made of others: the parts one after the other, so that they stay in order."""

from collections.abc import Iterable

END, PART, NOTHING = "\x00", "\x01", "\x02"
"""The end of a part or of all, the start of a part, and a part that is NULL, which is after all others."""


def escaped(text: str) -> str:
    """A text that does not contain END, in the same order."""
    if END not in text and PART not in text:
        return text
    return text.replace(PART, PART + NOTHING).replace(END, PART + PART)


def plain(text: str) -> str:
    """Inverse of :func:`escaped`."""
    if PART not in text:
        return text
    return text.replace(PART + PART, END).replace(PART + NOTHING, PART)


def joined(parts: Iterable[str | None]) -> str:
    """The parts as one string, which ends where it says so: less than any that goes on."""
    return "".join(NOTHING if part is None else PART + escaped(part) + END for part in parts) + END


def split(string: str, start: int = 0) -> tuple[list[str | None], int]:
    """The parts of what :func:`joined` made, which begins at ``start``, and where it ends."""
    parts: list[str | None] = []
    while string[start] != END:
        if string[start] == NOTHING:
            parts.append(None)
            start += 1
        else:
            end = string.index(END, start)
            parts.append(plain(string[start + 1 : end]))
            start = end + 1
    return parts, start + 1
