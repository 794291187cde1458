"""What statements that define something have in common."""

from kpg.runtime.errors import Span


class Definition:
    """Base of statements that change what there is besides tables' rows."""

    __slots__ = ()
    span: Span
