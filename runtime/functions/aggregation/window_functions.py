"""The window functions: arguments, result type, and the part of the partition they read.

Every aggregate is also a window function over a frame. ``builtins`` and the modules beside it define
the aggregates. ``runtime/operators/windows`` computes the calls.
"""

import enum
from collections.abc import Callable, Iterator

from kpg.runtime.functions.aggregation.definition import Types
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.type_rules import common_result_type, is_unknown
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE, INTEGER, TEXT


class WindowResult(enum.Enum):
    """The result of a window function for a row."""

    ROW_NUMBER = "its place in the partition"
    RANK = "the place of its first peer"
    DENSE_RANK = "the place of its peers among the groups of peers"
    PERCENT_RANK = "the share of the other rows that come before its peers"
    CUME_DIST = "the share of rows that come before it or are its peers"
    NTILE = "which of n buckets of nearly the same size it is in"
    LAG = "a value of the row so many places before"
    LEAD = "a value of the row so many places behind"
    FIRST_VALUE = "a value of the first row of its frame"
    LAST_VALUE = "a value of the last row of its frame"
    NTH_VALUE = "a value of the n-th row of its frame"


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A window function. ``accepts`` describes the operands in error messages."""

    name: str
    answer: WindowResult
    accepts: str
    doc: str
    rule: Callable[[Types], Signature | None]
    uses_frame: bool = False
    """Whether it reads the frame rather than the whole partition."""


def _nullary(result: Signature) -> Callable[[Types], Signature | None]:
    return lambda types: None if types else result


def _bucket_count(types: Types) -> Signature | None:
    whole = len(types) == 1 and (types[0].is_integer or is_unknown(types[0]))
    return Signature((INTEGER,), INTEGER) if whole else None


def _neighbour(types: Types) -> Signature | None:
    if not 1 <= len(types) <= 3 or (len(types) > 1 and not (types[1].is_integer or is_unknown(types[1]))):
        return None
    value = common_result_type((types[0], types[2])) if len(types) == 3 else types[0]
    if value is None:
        return None
    value = TEXT if is_unknown(value) else value
    return Signature((value, INTEGER, value)[: len(types)], value)


def _value(types: Types) -> Signature | None:
    return Signature((TEXT if is_unknown(types[0]) else types[0],), types[0]) if len(types) == 1 else None


def _value_and_number(types: Types) -> Signature | None:
    if len(types) != 2 or not (types[1].is_integer or is_unknown(types[1])):
        return None
    return Signature((types[0], INTEGER), types[0])


_NUMBER, _SHARE = _nullary(Signature((), BIGINT)), _nullary(Signature((), DOUBLE))
_VALUE = "a value"
_NEIGHBOUR = "a value, and perhaps how many rows away and what to give where there is none"

_FUNCTIONS: dict[str, WindowFunction] = {
    function.name: function
    for function in (
        WindowFunction("row_number", WindowResult.ROW_NUMBER, "nothing", "Place in the partition.", _NUMBER),
        WindowFunction("rank", WindowResult.RANK, "nothing", "Place of the first peer: with gaps.", _NUMBER),
        WindowFunction(
            "dense_rank",
            WindowResult.DENSE_RANK,
            "nothing",
            "Place among groups of peers: without gaps.",
            _NUMBER,
        ),
        WindowFunction(
            "percent_rank",
            WindowResult.PERCENT_RANK,
            "nothing",
            "(rank - 1) / (rows - 1).",
            _SHARE,
        ),
        WindowFunction(
            "cume_dist", WindowResult.CUME_DIST, "nothing", "Share of rows up to and with the peers.", _SHARE
        ),
        WindowFunction("ntile", WindowResult.NTILE, "a number of buckets", "Bucket, from 1.", _bucket_count),
        WindowFunction("lag", WindowResult.LAG, _NEIGHBOUR, "Value of the row before.", _neighbour),
        WindowFunction("lead", WindowResult.LEAD, _NEIGHBOUR, "Value of the row behind.", _neighbour),
        WindowFunction(
            "first_value",
            WindowResult.FIRST_VALUE,
            _VALUE,
            "Value of the first row of the frame.",
            _value,
            True,
        ),
        WindowFunction(
            "last_value", WindowResult.LAST_VALUE, _VALUE, "Value of the last row of the frame.", _value, True
        ),
        WindowFunction(
            "nth_value",
            WindowResult.NTH_VALUE,
            "a value and a number",
            "Value of the n-th row of the frame.",
            _value_and_number,
            True,
        ),
    )
}


def window_functions() -> Iterator[WindowFunction]:
    """Return every window function that is not an aggregate, ordered by name."""
    return iter(sorted(_FUNCTIONS.values(), key=lambda function: function.name))


def window_function(name: str) -> WindowFunction | None:
    """Return the window function with this name, or None if there is none or it is an aggregate."""
    return _FUNCTIONS.get(name)
