"""Aggregation by kind: accumulable ones in one reduce, min and max as top rows, others per group.

Each kind is maintained as a collection (group, values), and the collections are combined by
group. :func:`ordered_rows` encodes ORDER BY as order words, so the first rows of a group in an
arrangement are its top rows.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall
from kpg.compiler.algebra.scalars import can_be_null, null_rejecting_columns
from kpg.compiler.physical.context import Planning, compose
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import (
    TEXT_WORDS,
    Accumulable,
    AccumulatorKind,
    AggregateFunction,
    Basic,
    Composite,
    Hierarchical,
    Invertible,
    Trend,
    lookup_aggregate,
)
from kpg.runtime.functions.comparison import equality_key
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, remap, sql_text
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, is_loose


@dataclass(frozen=True, slots=True)
class SortKey:
    """A value to order by.

    ``can_be_null`` may be True although the value is never NULL.
    """

    value: Scalar
    descending: bool
    nulls_first: bool
    can_be_null: bool

    def words(self) -> tuple[Scalar, ...]:
        """Return scalars whose words order as the key does.

        Those of a text encode only its first bytes.
        """
        if self.value.type.is_interned:
            return tuple(self._word(part) for part in range(TEXT_WORDS))
        # NULL is the smallest word, and words order as values do.
        if not self.descending and (self.nulls_first or not self.can_be_null):
            return (self.value,)
        return (self._word(0),)

    def _word(self, part: int) -> Call:
        flags = (int(self.descending), int(self.nulls_first), part)
        return Call("order_word", (self.value, *(Literal(flag, INTEGER) for flag in flags)), BIGINT)


def plan_topk(planning: Planning, topk: algebra.TopK, mfp: Mfp) -> Ref:
    """Return a stream of the mfp over the first rows of each group."""
    if topk.limit is None and topk.offset == 0:
        return planning.lower(planning, topk.input, mfp)
    types = algebra.types(topk.input)
    flags = planning.facts.nullable(topk.input)
    columns = tuple(Column(index, type_) for index, type_ in enumerate(types))
    keys = tuple(
        SortKey(columns[by.column], by.descending, by.nulls_first, flags[by.column]) for by in topk.order
    )
    group = tuple(columns[index] for index in topk.group)
    ordered = ordered_rows(group, keys, columns)
    ref = planning.lower(planning, topk.input, Mfp((), ordered.outputs))
    arranged = planning.builder.arrange(ref, len(group))
    ref = planning.builder.add(plan.TopK(arranged, len(group), topk.limit, topk.offset, ordered.exact))
    places = {output: at for at, output in reversed(tuple(enumerate(ordered.outputs)))}
    values = [Column(places[column], column.type) for column in columns]
    return planning.builder.linear(ref, compose(mfp, values))


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Columns of an arrangement (group, order words, other values), and its ``plan.TopK.exact``."""

    outputs: tuple[Scalar, ...]
    exact: tuple[tuple[int, int, bool], ...]


def ordered_rows(group: Sequence[Scalar], keys: Sequence[SortKey], values: Sequence[Scalar]) -> OrderedRows:
    """Return the columns of an arrangement of ``values`` in which each group is contiguous and sorted."""
    outputs = list(group)
    texts: list[tuple[int, SortKey]] = []
    for group_key in keys:
        if group_key.value.type.is_interned:
            texts.append((len(outputs), group_key))
        outputs += group_key.words()
    known = set(outputs)
    outputs += [value for value in values if value not in known]
    exact = tuple((first, outputs.index(group_key.value), group_key.descending) for first, group_key in texts)
    return OrderedRows(tuple(outputs), exact)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stream of rows (group, values).

    ``calls`` are the positions of the aggregates that have these values.
    """

    ref: Ref
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReduceInput:
    """The reduce's input as a stream of ``columns``: the group, then the operands."""

    ref: Ref
    columns: tuple[Scalar, ...]
    nullable: tuple[bool, ...]
    """Whether each column can be NULL."""
    group: int
    places: dict[Scalar, int] = field(default_factory=dict, compare=False, repr=False)
    """The number of each column, once :meth:`place` is called."""

    def column_of(self, scalar: Scalar) -> Column:
        """Return the column that has an operand."""
        if not self.places:
            self.places.update((column, at) for at, column in reversed(tuple(enumerate(self.columns))))
        return Column(self.places[scalar], scalar.type)

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(Column(index, self.columns[index].type) for index in range(self.group))


def plan_reduce(planning: Planning, reduce: algebra.Reduce, mfp: Mfp) -> Ref:
    """Return a stream of the mfp over the groups.

    Keys that a rowid among the keys determines are not stored.
    """
    late = planning.column_origins.late_columns(reduce)[: len(reduce.keys)]
    kept = [index for index, key in enumerate(late) if isinstance(key, Column)]
    if len(kept) < len(late):
        narrow = algebra.Reduce(reduce.input, tuple(reduce.keys[index] for index in kept), reduce.aggregates)
        keys = [remap(key, kept.index) for key in late]
        calls = [Column(len(kept) + index, call.type) for index, call in enumerate(reduce.aggregates)]
        return plan_reduce(planning, narrow, compose(mfp, [*keys, *calls]))
    rows = _rows(planning, reduce)
    if not reduce.aggregates and reduce.keys:
        ref = planning.builder.add(plan.Distinct(rows.ref))
        return planning.builder.linear(ref, mfp)
    pieces = _pieces(planning, rows, reduce.aggregates)
    only = pieces[0]
    whole = bool(reduce.keys) or _is_always_complete(reduce, mfp)
    if len(pieces) == 1 and whole:
        return planning.builder.linear(only.ref, compose(mfp, _pad_columns(reduce, only.calls)))
    if whole:
        return _combine_pieces(planning, reduce, pieces, mfp)
    return _plan_global_aggregate(planning, rows, reduce, pieces, mfp)


def _is_always_complete(reduce: algebra.Reduce, mfp: Mfp) -> bool:
    """Return whether no piece of a global aggregation lacks its row when the others have theirs.

    Accumulable pieces always have a row. The others lack it over no rows, when their values are NULL.
    That does not matter if the mfp rejects those NULLs.
    """
    rejected = frozenset[int]().union(*(null_rejecting_columns(predicate) for predicate in mfp.predicates))
    accumulated = [_function(call).accumulator is not None for call in reduce.aggregates]
    return all(accumulated) or any(
        not is_accumulated and place in rejected for place, is_accumulated in enumerate(accumulated)
    )


def _function(call: AggregateCall) -> AggregateFunction:
    return lookup_aggregate(call.function)


def _rows(planning: Planning, reduce: algebra.Reduce) -> ReduceInput:
    operands = tuple(dict.fromkeys(arg for call in reduce.aggregates for arg in call.args))
    grouped = frozenset(reduce.keys)
    columns = (*reduce.keys, *(operand for operand in operands if operand not in grouped))
    inner = planning.facts.nullable(reduce.input)
    flags = tuple(can_be_null(column, inner) for column in columns)
    if not columns:
        columns = (Literal(0, BIGINT),)
    ref = planning.lower(planning, reduce.input, Mfp((), columns))
    return ReduceInput(ref, columns, flags, len(reduce.keys))


def _pieces(planning: Planning, rows: ReduceInput, calls: Sequence[AggregateCall]) -> list[Piece]:
    """Return the aggregates as pieces, grouped by what can be maintained together."""
    plain: list[int] = []
    distinct: dict[tuple[Scalar, ...], list[int]] = {}
    basic: list[int] = []
    folded: list[int] = []
    extremes: list[int] = []
    for place, call in enumerate(calls):
        match _function(call).maintenance:
            case Accumulable() if call.distinct and call.args:
                distinct.setdefault(tuple(dict.fromkeys(call.args)), []).append(place)
            case Accumulable():
                plain.append(place)
            case Hierarchical():
                extremes.append(place)
            case Invertible() if planning.outer is None and not call.order and not call.distinct:
                folded.append(place)
            case Basic() | Invertible():
                basic.append(place)
            case Composite():
                raise InternalError(f"{call.function} was not rewritten to its component aggregates")
            case maintenance:
                assert_never(maintenance)
    pieces = [_accumulable_piece(planning, rows, calls, plain)] if plain else []
    for args, places in distinct.items():
        pieces.append(_accumulable_piece(planning, _distinct_operands(planning, rows, args), calls, places))
    pieces += [_extreme_piece(planning, rows, calls[place], place) for place in extremes]
    pieces += [_fold_piece(planning, rows, calls, folded)] if folded else []
    pieces += [_basic_piece(planning, rows, calls[place], place) for place in basic]
    return pieces


def _distinct_operands(planning: Planning, rows: ReduceInput, args: tuple[Scalar, ...]) -> ReduceInput:
    """Return each combination of group and operands once."""
    chosen = (*rows.keys, *(rows.column_of(arg) for arg in args if arg not in rows.columns[: rows.group]))
    ref = planning.builder.linear(rows.ref, Mfp((), chosen))
    columns = tuple(rows.columns[column.index] for column in chosen)
    flags = tuple(rows.nullable[column.index] for column in chosen)
    return ReduceInput(planning.builder.add(plan.Distinct(ref)), columns, flags, rows.group)


def _accumulable_piece(
    planning: Planning, rows: ReduceInput, calls: Sequence[AggregateCall], places: Sequence[int]
) -> Piece:
    aggregates = tuple(_aggregate(rows, calls[place]) for place in places)
    return Piece(planning.builder.add(plan.Reduce(rows.ref, rows.group, aggregates)), tuple(places))


def _aggregate(rows: ReduceInput, call: AggregateCall) -> plan.Aggregate:
    argument = rows.column_of(call.args[0]).index if call.args else None
    args_text = ", ".join(sql_text(arg) for arg in call.args) or "*"
    kind = _function(call).accumulator
    operand = BIGINT if kind is AccumulatorKind.COUNT else call.args[0].type
    second = rows.column_of(call.args[1]).index if kind is not None and kind.operands == 2 else None
    text = call.text or f"{call.function}({args_text})"
    return plan.Aggregate(call.function, argument, operand, text, second)


def _extreme_piece(planning: Planning, rows: ReduceInput, call: AggregateCall, place: int) -> Piece:
    """Return the first value of each group in the order of min or max, NULLs last."""
    builder = planning.builder
    value = rows.column_of(call.args[0])
    key = SortKey(value, _function(call).trend is Trend.UP, False, rows.nullable[value.index])
    ordered = ordered_rows(rows.keys, (key,), (value,))
    ref = builder.linear(rows.ref, Mfp((), ordered.outputs))
    ref = builder.add(plan.TopK(builder.arrange(ref, rows.group), rows.group, 1, 0, ordered.exact))
    outputs = (*rows.keys, Column(ordered.outputs.index(value), value.type))
    return Piece(builder.linear(ref, Mfp((), outputs)), (place,))


def _fold_piece(
    planning: Planning, rows: ReduceInput, calls: Sequence[AggregateCall], places: Sequence[int]
) -> Piece:
    """Return aggregates that are maintained from the changed rows only."""
    operands = tuple(dict.fromkeys(arg for place in places for arg in calls[place].args))
    ref = planning.builder.linear(rows.ref, Mfp((), (*rows.keys, *map(rows.column_of, operands))))
    folds = tuple(_basic_aggregate(calls[place], rows.group, operands) for place in places)
    return Piece(planning.builder.add(plan.Fold(ref, rows.group, folds)), tuple(places))


def _basic_piece(planning: Planning, rows: ReduceInput, call: AggregateCall, place: int) -> Piece:
    """Return an aggregate that reads its whole group again, or is folded over distinct values."""
    builder = planning.builder
    operands = tuple(dict.fromkeys(call.args))
    chosen = (*rows.keys, *map(rows.column_of, operands))
    ref = builder.linear(rows.ref, Mfp((), chosen))
    if call.distinct:
        ref = _distinct_values(planning, ref, chosen)
    basic = _basic_aggregate(call, rows.group, operands)
    if isinstance(_function(call).maintenance, Invertible) and planning.outer is None and not call.order:
        return Piece(builder.add(plan.Fold(ref, rows.group, (basic,))), (place,))
    return Piece(
        builder.add(plan.BasicReduce(builder.arrange(ref, rows.group), rows.group, (basic,))), (place,)
    )


def _basic_aggregate(call: AggregateCall, group: int, operands: Sequence[Scalar]) -> plan.BasicAggregate:
    """Return the aggregate over rows (group, operands)."""
    arguments = tuple(group + operands.index(arg) for arg in call.args)
    types = tuple(arg.type for arg in call.args)
    return plan.BasicAggregate(call.function, arguments, types, call.type, call.order)


def _distinct_values(planning: Planning, ref: Ref, columns: Sequence[Scalar]) -> Ref:
    """Return one row of each set of equal rows.

    Of equal rows that look different, it is the first in order.
    """
    own = [Column(index, column.type) for index, column in enumerate(columns)]
    keys = tuple(map(equality_key, own))
    loose = [column for column in own if is_loose(column.type)]
    builder = planning.builder
    if not loose:
        return builder.add(plan.Distinct(ref))
    ordered = ordered_rows(keys, [SortKey(column, False, False, True) for column in loose], own)
    ref = builder.arrange(builder.linear(ref, Mfp((), ordered.outputs)), len(keys))
    ref = builder.add(plan.TopK(ref, len(keys), 1, 0, ordered.exact))
    outputs = tuple(Column(ordered.outputs.index(column), column.type) for column in own)
    return builder.linear(ref, Mfp((), outputs))


def _pad_columns(reduce: algebra.Reduce, calls: Sequence[int]) -> list[Scalar]:
    """Return the reduce's columns over rows (group, values of ``calls``), NULL for all other aggregates."""
    keys: list[Scalar] = [Column(index, key.type) for index, key in enumerate(reduce.keys)]
    column_of = {place: len(keys) + at for at, place in enumerate(calls)}
    return keys + [
        Column(column_of[place], call.type) if place in column_of else Literal(None, call.type)
        for place, call in enumerate(reduce.aggregates)
    ]


MOST_COLLATED: Final = 16
"""More pieces are collated in several levels: a row of a piece is padded to the width of the whole."""


def _grouped_pieces(planning: Planning, reduce: algebra.Reduce, pieces: Sequence[Piece]) -> Sequence[Piece]:
    """At most ``MOST_COLLATED`` pieces, which collate consecutive ones of the given pieces."""
    if len(pieces) <= MOST_COLLATED:
        return pieces
    result = []
    size = -(-len(pieces) // MOST_COLLATED)
    for start in range(0, len(pieces), size):
        chosen = pieces[start : start + size]
        calls = [place for piece in chosen for place in piece.calls]
        number = {place: at for at, place in enumerate(calls)}
        some = algebra.Reduce(reduce.input, reduce.keys, tuple(reduce.aggregates[place] for place in calls))
        own = [Piece(piece.ref, tuple(number[place] for place in piece.calls)) for piece in chosen]
        ref = _combine_pieces(planning, some, own, Mfp((), tuple(_pad_columns(some, range(len(calls))))))
        result.append(Piece(ref, tuple(calls)))
    return result


def _combine_pieces(planning: Planning, reduce: algebra.Reduce, pieces: Sequence[Piece], mfp: Mfp) -> Ref:
    """Return a stream of the mfp over the groups for which every piece has a row, with all their values.

    Each piece is padded with NULLs to all columns. A group has at most one row per piece, so at most
    one value per column is not NULL, and the reduce adds them up. A join of the pieces would instead
    derive every combination of old and new rows for a changed group, which doubles with each piece.
    """
    builder = planning.builder
    width = len(reduce.keys)
    pieces = _grouped_pieces(planning, reduce, pieces)
    padded = (Mfp((), tuple(_pad_columns(reduce, piece.calls))) for piece in pieces)
    streams = tuple(builder.linear(piece.ref, mfp) for piece, mfp in zip(pieces, padded, strict=True))
    values = [plan.Aggregate("$only", width + at, call.type) for at, call in enumerate(reduce.aggregates)]
    rows = plan.Aggregate("count", None, BIGINT)
    ref = builder.add(plan.Reduce(builder.add(plan.Concat(streams)), width, (*values, rows)))
    complete = Call("eq", (Column(width + len(values), BIGINT), Literal(len(pieces), BIGINT)), BOOLEAN)
    outputs = _pad_columns(reduce, range(len(values)))
    over = compose(mfp, outputs)
    return builder.linear(ref, Mfp((complete, *over.predicates), over.outputs))


def _plan_global_aggregate(
    planning: Planning, rows: ReduceInput, reduce: algebra.Reduce, pieces: Sequence[Piece], mfp: Mfp
) -> Ref:
    """Return a stream of the mfp over the single row of an aggregation without keys.

    A reduce with a count of rows always has a row. The other pieces have theirs only if there are
    rows.
    """
    builder = planning.builder
    accumulable = [place for place, call in enumerate(reduce.aggregates) if _is_accumulable(call)]
    number = AggregateCall("count", (), False, BIGINT)
    extended = algebra.Reduce(reduce.input, (), (*reduce.aggregates, number))
    places = [*accumulable, len(reduce.aggregates)]
    counted = _accumulable_piece(planning, rows, extended.aggregates, places)
    rest = [piece for piece in pieces if not set(piece.calls) <= set(accumulable)]
    some = _combine_pieces(planning, extended, [counted, *rest], mfp)
    values: list[Scalar] = [
        Column(places.index(place), call.type) if place in places else _empty_value(call)
        for place, call in enumerate(reduce.aggregates)
    ]
    empty = Call("eq", (Column(len(places) - 1, BIGINT), Literal(0, BIGINT)), BOOLEAN)
    over = compose(mfp, values)
    none = builder.linear(counted.ref, Mfp((empty, *over.predicates), over.outputs))
    return builder.add(plan.Concat((some, none)))


def _is_accumulable(call: AggregateCall) -> bool:
    return _function(call).accumulator is not None and not (call.distinct and call.args)


def _empty_value(call: AggregateCall) -> Literal:
    """Return the aggregate's value over no rows."""
    return Literal(_function(call).empty, call.type)
