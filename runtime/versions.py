"""Numbers for what somebody knows the address of: a new one each time that an array is replaced.

Whoever keeps addresses of many things looks at :data:`latest` first: if that is what it was, nothing has
been replaced anywhere, and nothing else needs to be looked at. So all say it that replace what the links of
chains read or write: traces, group tables, directories of rows, memos, the dictionary.
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
