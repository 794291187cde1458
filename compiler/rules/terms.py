"""What stands in the atoms of the core's rules: variables, constants, wildcards, and calls on them."""

import enum

from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

Value = int | str
"""A constant as in ``scalar.Literal``: the word of a number, float (``types.float_to_word``) or date, or the
string of a text.
"""


class Domain(enum.Enum):
    """What the values of a column are to Datalog; several domains share a runtime type."""

    NUMBER = "number"
    """BIGINT. In 32-bit programs every operation wraps to 32 bits (functions ``$wrap_*``)."""
    UNSIGNED = "unsigned"
    """BIGINT, from 0 on: to 2**63 - 1 and checked, or to 2**32 - 1 and wrapping in 32-bit programs."""
    FLOAT = "float"
    SYMBOL = "symbol"
    RECORD = "record"
    """TEXT: ``[1, "a", nil]``, or ``nil``. Equal records are equal texts.
    ``datalog.desugaring.structures`` makes them."""
    ADT = "adt"
    """TEXT: ``$Branch`` or ``$Branch(1, "a")``."""
    SQL = "sql"
    """Any other type of the runtime: dates, decimals, booleans."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a column: as declared (``name``, a subtype or union too), its domain, and the runtime's
    type.
    """

    name: str
    domain: Domain
    type: Type


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a rule or goal: the same name and type wherever it occurs in it. Made-up names begin
    with ``@``.
    """

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; it is of ``type`` exactly."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Wildcard:
    """``_``: any value. In a negated atom, "for no value"; in an aggregate's atoms it counts as a variable
    of its own.
    """

    type: Type


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name``: a value given when the goal is asked or the update is run. Only in goals and updates."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A function of ``runtime.functions`` (or a primitive of ``primitives.PRIMITIVES``) on arguments of
    exactly its types.
    """

    function: str
    args: "tuple[Expression, ...]"
    type: Type


Expression = Variable | Constant | Parameter | Call
Term = Variable | Constant | Wildcard | Parameter
"""What stands in an atom. ``Parameter`` only in the bodies of goals' rules."""
HeadTerm = Variable | Constant
