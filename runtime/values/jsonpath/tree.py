"""SQL/JSON paths as trees (SQL:2016 part 2, 9.39)."""

from typing import Any, Final

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Root:
    """``$``."""


@dataclass(frozen=True, slots=True)
class Current:
    """``@``: the item that a filter asks about."""


@dataclass(frozen=True, slots=True)
class Last:
    """``last``: the number of the last element."""


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """null, a truth value, a number or a string."""

    value: Any


@dataclass(frozen=True, slots=True)
class Member:
    """``.name``; ``.*`` where there is no name."""

    base: "Node"
    name: str | None


@dataclass(frozen=True, slots=True)
class Levels:
    """``.**{first to last}``: what is nested so deep; None is the deepest level."""

    base: "Node"
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Elements:
    """``[*]``, or ``[1, 2 to last]``: the first and the last of each range, None for one alone."""

    base: "Node"
    ranges: "tuple[tuple[Node, Node | None], ...] | None"


@dataclass(frozen=True, slots=True)
class Filter:
    """``? (condition)``."""

    base: "Node"
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Method:
    """``.size()`` and its like."""

    base: "Node"
    name: str


@dataclass(frozen=True, slots=True)
class Signed:
    """``-x`` or ``+x``."""

    sign: str
    of: "Node"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - * / %``."""

    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``== != < <= > >=``, and ``starts with``."""

    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Logic:
    """``&&`` or ``||``."""

    sign: str
    left: "Condition"
    right: "Condition"


@dataclass(frozen=True, slots=True)
class Not:
    """``!(condition)``."""

    of: "Condition"


@dataclass(frozen=True, slots=True)
class Exists:
    """``exists(path)``."""

    of: "Node"


@dataclass(frozen=True, slots=True)
class IsUnknown:
    """``(condition) is unknown``."""

    of: "Condition"


@dataclass(frozen=True, slots=True)
class LikeRegex:
    """``x like_regex "pattern" flag "i"``."""

    of: "Node"
    pattern: str
    flags: str


CONDITIONS: Final = (Comparison, Logic, Not, Exists, IsUnknown, LikeRegex)
Condition = Comparison | Logic | Not | Exists | IsUnknown | LikeRegex
Value = (
    Root
    | Current
    | Last
    | Variable
    | Constant
    | Member
    | Levels
    | Elements
    | Filter
    | Method
    | Signed
    | Arithmetic
)
Node = Condition | Value


@dataclass(frozen=True, slots=True)
class Path:
    """A path. ``strict``: what the document lacks is an error; else arrays are unwrapped where it helps."""

    strict: bool
    node: Node
