"""One node of each kind, and every node that differs from it in one field."""

import enum
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args

from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import (
    Aggregate,
    AnyNode,
    Arrange,
    BasicAggregate,
    BasicReduce,
    Bound,
    Combine,
    Concat,
    Constant,
    Delta,
    DeltaJoin,
    Distinct,
    Edge,
    Ego,
    EgoCall,
    EgoFamily,
    Enter,
    Exchange,
    Exclude,
    Expand,
    Fold,
    Frame,
    HalfJoin,
    Import,
    Leave,
    Linear,
    Loop,
    Mfp,
    Negate,
    Ranged,
    RangeJoin,
    Reduce,
    Route,
    Single,
    Source,
    Threshold,
    TopK,
    Unit,
    Variable,
    Window,
    WindowCall,
    user,
)
from kpg.runtime.scalar import Call, Column
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT, ColumnDef, Schema, Type

ROW = (BIGINT, BIGINT, BIGINT)
SCHEMA = Schema(tuple(ColumnDef(name, BIGINT) for name in "abc"))
TEST = Call("lt", (Column(0, BIGINT), Column(1, BIGINT)), BOOLEAN)
MFP = Mfp((TEST,), (Column(0, BIGINT), Column(1, BIGINT)))
BY = Ranged(1, False, False)
WHOLE = Mfp((), tuple(Column(i, BIGINT) for i in range(3)))


def body(*more: AnyNode, results: tuple[int, ...] = (4, 4)) -> Loop:
    """A loop whose body begins with what the nodes of bodies read."""
    return Loop((Enter(0), Enter(1), Variable(0, ROW), Concat((0, 2)), Distinct(3), *more), results)


BASE: tuple[AnyNode, ...] = (
    *(Constant(((i, i, i),), ROW) for i in range(4)),
    body(),
    replace(body(), limit=5),
    Delta(0, WHOLE),
    Delta(1, WHOLE),
    Delta(2, WHOLE),
    Arrange(0, 1),
    Arrange(1, 1),
    HalfJoin(6, 10, 0, 1, (0,), WHOLE),
    HalfJoin(7, 9, 1, 0, (0,), WHOLE),
    HalfJoin(8, 9, 1, 0, (0,), WHOLE),
)
"""Nodes of a plan that the examples read: any other of the same columns would do as well."""

EXAMPLES: tuple[AnyNode, ...] = (
    Source("t"),
    Import("v", ROW),
    Constant(((1, 2),), (BIGINT, BIGINT)),
    Linear(0, MFP),
    Concat((0, 1, 0)),
    Negate(0),
    Arrange(0, 1),
    Delta(0, MFP),
    HalfJoin(6, 9, 0, 1, (0,), MFP),
    DeltaJoin((11, 12)),
    RangeJoin(9, 10, 0, "<", MFP),
    Reduce(0, 1, (Aggregate("sum", 1, BIGINT),)),
    Distinct(0),
    Threshold(0),
    TopK(9, 1, 2, 3, ((0, 2, False),)),
    BasicReduce(9, 1, (BasicAggregate("string_agg", (1, 2), (TEXT, TEXT), TEXT),)),
    Window(
        9,
        1,
        (1,),
        (
            WindowCall(
                "sum",
                (Column(2, BIGINT),),
                BIGINT,
                Frame(Unit.RANGE, Bound(Edge.PRECEDING, 1), Bound(Edge.FOLLOWING, 0, 2), Exclude.TIES, BY),
            ),
        ),
        ((0, 2, False),),
    ),
    Ego(0, 1, EgoFamily.SUMS, (EgoCall("sum", (0,), (BIGINT,), BIGINT),), "iob", "auto", 3),
    Fold(0, 1, (BasicAggregate("sum", (1,), (BIGINT,), BIGINT),)),
    Single(0, 1),
    Expand(0, 1, (Expansion("generate_series", (0, 1), (BIGINT, BIGINT), (BIGINT,)),), True, False),
    body(results=(4, 3)),
    Leave(4, 0),
    user.Input("i", ROW),
    user.Apply(0, user.Kind.MAP_ROWS, user.UserObject(print), SCHEMA, SCHEMA),
    user.UserReduce(9, 1, user.UserObject(print), False, SCHEMA, SCHEMA),
    user.Custom((0, 1), user.UserObject(print), (SCHEMA, SCHEMA), SCHEMA),
    user.Sink(0, 7),
    Exchange(0, Route.OWNER, 1, True, ("t", 1), Combine(1, (2,))),
)
"""For the end of ``BASE``."""

INSIDE: tuple[AnyNode, ...] = (Enter(0), Variable(1, ROW, 0), user.EnterAt(0))
"""For the end of a loop's body."""

OTHER_WORDS = {"sum": "count", "<": ">="}
OTHER_TYPES = {BIGINT: TEXT, TEXT: BIGINT, BOOLEAN: BIGINT}


def kinds(union: Any = AnyNode) -> set[type]:
    """All kinds of nodes there are."""
    members = get_args(union) if isinstance(union, UnionType) else (union,)
    return {kind for member in members for kind in (kinds(member) if member is not union else {member})}


def others(value: Any) -> Iterator[Any]:
    """Values that differ from one in one place."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case str():
            yield OTHER_WORDS.get(value, f"{value}x")
        case None:
            yield 1
        case enum.Enum():
            yield next(one for one in type(value) if one is not value)
        case Type():
            yield OTHER_TYPES[value]
        case user.UserObject():
            yield user.UserObject(value.value.__repr__)
        case tuple():
            for index, item in enumerate(value):
                yield from ((*value[:index], other, *value[index + 1 :]) for other in others(item))
        case _ if is_dataclass(value) and not isinstance(value, type):
            for name, changed in variants(value):
                assert name
                yield changed
        case _:
            raise AssertionError(value)


def variants(node: Any) -> Iterator[tuple[str, Any]]:
    """All that differ from a node, or from a part of one, in one place: the field, and the other node."""
    for field in fields(node):
        if field.compare:
            for other in others(getattr(node, field.name)):
                yield field.name, replace(node, **{field.name: other})
