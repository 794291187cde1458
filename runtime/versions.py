"""Version numbers of arrays that are referenced by address: replacing an array takes a new number.

A holder of addresses first compares :data:`latest`: if it is unchanged, no array was replaced
anywhere. So all code that replaces arrays used by links of chains takes a number here: traces,
group tables, row directories, memos, the dictionary.
"""

from itertools import count

_next = count(1).__next__

latest = 0
"""The number that was issued last."""


def next_version() -> int:
    """Return a number that was never issued before.

    Of two concurrent calls, either number may become ``latest``; both are new.
    """
    global latest
    number = _next()
    latest = number
    return number
