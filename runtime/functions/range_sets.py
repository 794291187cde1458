"""Aggregates of ranges and bit strings: one entry each."""

from collections.abc import Callable
from functools import reduce

from kpg.runtime.functions import sequences
from kpg.runtime.functions.aggregation import AggregateFunction, Basic, Rows, Types, Value, register
from kpg.runtime.functions.ranges import RANGES
from kpg.runtime.functions.registry import Signature
from kpg.runtime.types import BIT_KINDS, Kind, Type, multirange_of
from kpg.runtime.values import ranges


def _of(kinds: frozenset[Kind], result: Callable[[Type], Type]) -> Callable[[Types], Signature | None]:
    def rule(types: Types) -> Signature | None:
        return Signature(types, result(types[0])) if len(types) == 1 and types[0].kind in kinds else None

    return rule


def united(types: Types) -> sequences.InOrder:
    """The set of all that is in one of the ranges."""
    return lambda rows: ranges.union(*(operands[0] for operands, _ in rows))


def shared(types: Types) -> sequences.InOrder:
    """What is in all of the ranges."""
    return lambda rows: reduce(ranges.intersection, (operands[0] for operands, _ in rows))


def _bits(code: Callable[[int, int], int], *, counted: bool = False) -> Callable[[Types], sequences.InOrder]:
    def finish(rows: Rows) -> Value:
        values = [str(operands[0]) for operands, times in rows for _ in range(times if counted else 1)]
        if len({len(value) for value in values}) > 1:
            raise ValueError("bit strings of different sizes")
        if not values[0]:
            return ""
        return f"{reduce(code, (int(value or '0', 2) for value in values)):0{len(values[0])}b}"

    return lambda types: finish


for _name, _accepts, _doc, _example, _rule, _finish in (
    (
        "range_agg",
        "a range or a set of ranges",
        "The set of all that is in one of them.",
        {"('[1,2]'::int4range), ('[2,4]'::int4range), (NULL)": "'{[1,5)}'::int4multirange"},
        _of(RANGES, lambda type_: multirange_of(type_.parts[0])),
        united,
    ),
    (
        "range_intersect_agg",
        "a range or a set of ranges",
        "What is in all of them.",
        {"('[1,2]'::int4range), ('[2,4]'::int4range), (NULL)": "'[2,3)'::int4range"},
        _of(RANGES, lambda type_: type_),
        shared,
    ),
    (
        "$bits_and",
        "a bit string",
        "The bits that all have.",
        {},
        _of(BIT_KINDS, lambda t: t),
        _bits(int.__and__),
    ),
    (
        "$bits_or",
        "a bit string",
        "The bits that any has.",
        {},
        _of(BIT_KINDS, lambda t: t),
        _bits(int.__or__),
    ),
    (
        "$bits_xor",
        "a bit string",
        "The bits that an odd number have.",
        {},
        _of(BIT_KINDS, lambda t: t),
        _bits(int.__xor__, counted=True),
    ),
):
    register(AggregateFunction(_name, _accepts, _doc, _example, _rule, sequences.natural(_finish), Basic()))
