"""Version numbers of arrays that are referenced by address: replacing an array takes a new number.

A holder of addresses first compares :data:`latest`: if it is unchanged, no array was replaced anywhere. So
everything that replaces arrays used by links of chains takes a number here: traces, group tables, row
directories, memos, the dictionary.
"""

from itertools import count

_next = count(1).__next__

latest = 0
"""The number that was given last."""


def replaced() -> int:
    """A number that was never given before; of two threads' either may be ``latest``, and both are new."""
    global latest
    number = _next()
    latest = number
    return number
