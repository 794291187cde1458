"""Aggregation by kind: accumulable aggregates in one reduce, min and max as top rows, the rest per group.

Each kind is maintained as a collection (group, values), and these are joined by group. :func:`ordered_rows`
encodes ORDER BY as order words, so the first rows of an arrangement are the top rows of its group.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall
from kpg.compiler.algebra.scalars import can_be_null, rejected_nulls
from kpg.compiler.physical.context import Planning, compose
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import (
    TEXT_WORDS,
    Accumulable,
    AccumulatorKind,
    AggregateFunction,
    Basic,
    Composed,
    Folded,
    Hierarchical,
    Trend,
    aggregate_named,
)
from kpg.runtime.functions.comparison import key
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, remap, sql_text
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, is_loose


@dataclass(frozen=True, slots=True)
class SortKey:
    """A value to order by. ``can_be_null`` may err on the side of True."""

    value: Scalar
    descending: bool
    nulls_first: bool
    can_be_null: bool

    def words(self) -> tuple[Scalar, ...]:
        """Scalars whose words order as the key does (text: as far as its first bytes tell)."""
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
    """The mfp over the first rows of each group."""
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
    """The columns of an arrangement (group, order words, rest), and ``plan.TopK.exact`` for it."""

    outputs: tuple[Scalar, ...]
    exact: tuple[tuple[int, int, bool], ...]


def ordered_rows(group: Sequence[Scalar], keys: Sequence[SortKey], values: Sequence[Scalar]) -> OrderedRows:
    """Rows of ``values``, those of a group together and in order."""
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
    """A stream of rows (group, values): ``calls`` are the places of the aggregates that its values are."""

    ref: Ref
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The reduce's input as a stream of ``columns``: the group, then the operands."""

    ref: Ref
    columns: tuple[Scalar, ...]
    flags: tuple[bool, ...]
    """Whether each can be NULL."""
    group: int
    places: dict[Scalar, int] = field(default_factory=dict, compare=False, repr=False)
    """The number of each column, once :meth:`place` is called."""

    def place(self, scalar: Scalar) -> Column:
        """The column that has an operand."""
        if not self.places:
            self.places.update((column, at) for at, column in reversed(tuple(enumerate(self.columns))))
        return Column(self.places[scalar], scalar.type)

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(Column(index, self.columns[index].type) for index in range(self.group))


def plan_reduce(planning: Planning, reduce: algebra.Reduce, mfp: Mfp) -> Ref:
    """The mfp over the groups; keys that can be fetched by a rowid among the keys are not kept."""
    late = planning.storage.late_columns(reduce)[: len(reduce.keys)]
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
    whole = bool(reduce.keys) or _always_whole(reduce, mfp)
    if len(pieces) == 1 and whole:
        return planning.builder.linear(only.ref, compose(mfp, _placed(reduce, only.calls)))
    if whole:
        return _collated(planning, reduce, pieces, mfp)
    return _one_row(planning, rows, reduce, pieces, mfp)


def _always_whole(reduce: algebra.Reduce, mfp: Mfp) -> bool:
    """Whether no piece of an aggregation without keys lacks its row when the others' is asked for.

    Accumulable ones always have it. The others lack it over no rows, when they are NULL: that does not
    matter if the mfp rejects it.
    """
    rejected = frozenset[int]().union(*(rejected_nulls(predicate) for predicate in mfp.predicates))
    accumulated = [_function(call).accumulator is not None for call in reduce.aggregates]
    return all(accumulated) or any(not one and place in rejected for place, one in enumerate(accumulated))


def _function(call: AggregateCall) -> AggregateFunction:
    return aggregate_named(call.function)


def _rows(planning: Planning, reduce: algebra.Reduce) -> Rows:
    operands = tuple(dict.fromkeys(arg for call in reduce.aggregates for arg in call.args))
    grouped = frozenset(reduce.keys)
    columns = (*reduce.keys, *(operand for operand in operands if operand not in grouped))
    inner = planning.facts.nullable(reduce.input)
    flags = tuple(can_be_null(column, inner) for column in columns)
    if not columns:
        columns = (Literal(0, BIGINT),)
    ref = planning.lower(planning, reduce.input, Mfp((), columns))
    return Rows(ref, columns, flags, len(reduce.keys))


def _pieces(planning: Planning, rows: Rows, calls: Sequence[AggregateCall]) -> list[Piece]:
    """The aggregates, grouped by what can be maintained together."""
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
            case Folded() if planning.around is None and not call.order and not call.distinct:
                folded.append(place)
            case Basic() | Folded():
                basic.append(place)
            case Composed():
                raise InternalError(f"{call.function} was not taken apart into the aggregates that it is of")
            case maintenance:
                assert_never(maintenance)
    pieces = [_accumulated(planning, rows, calls, plain)] if plain else []
    for args, places in distinct.items():
        pieces.append(_accumulated(planning, _without_repeats(planning, rows, args), calls, places))
    pieces += [_extreme(planning, rows, calls[place], place) for place in extremes]
    pieces += [_folded(planning, rows, calls, folded)] if folded else []
    pieces += [_basic(planning, rows, calls[place], place) for place in basic]
    return pieces


def _without_repeats(planning: Planning, rows: Rows, args: tuple[Scalar, ...]) -> Rows:
    """Each combination of group and operand once."""
    chosen = (*rows.keys, *(rows.place(arg) for arg in args if arg not in rows.columns[: rows.group]))
    ref = planning.builder.linear(rows.ref, Mfp((), chosen))
    columns = tuple(rows.columns[column.index] for column in chosen)
    flags = tuple(rows.flags[column.index] for column in chosen)
    return Rows(planning.builder.add(plan.Distinct(ref)), columns, flags, rows.group)


def _accumulated(
    planning: Planning, rows: Rows, calls: Sequence[AggregateCall], places: Sequence[int]
) -> Piece:
    aggregates = tuple(_aggregate(rows, calls[place]) for place in places)
    return Piece(planning.builder.add(plan.Reduce(rows.ref, rows.group, aggregates)), tuple(places))


def _aggregate(rows: Rows, call: AggregateCall) -> plan.Aggregate:
    argument = rows.place(call.args[0]).index if call.args else None
    shown = ", ".join(sql_text(arg) for arg in call.args) or "*"
    kind = _function(call).accumulator
    operand = BIGINT if kind is AccumulatorKind.COUNT else call.args[0].type
    second = rows.place(call.args[1]).index if kind is not None and kind.operands == 2 else None
    text = call.text or f"{call.function}({shown})"
    return plan.Aggregate(call.function, argument, operand, text, second)


def _extreme(planning: Planning, rows: Rows, call: AggregateCall, place: int) -> Piece:
    """The first value of each group in the aggregate's order, NULLs last."""
    builder = planning.builder
    value = rows.place(call.args[0])
    key = SortKey(value, _function(call).trend is Trend.UP, False, rows.flags[value.index])
    ordered = ordered_rows(rows.keys, (key,), (value,))
    ref = builder.linear(rows.ref, Mfp((), ordered.outputs))
    ref = builder.add(plan.TopK(builder.arrange(ref, rows.group), rows.group, 1, 0, ordered.exact))
    outputs = (*rows.keys, Column(ordered.outputs.index(value), value.type))
    return Piece(builder.linear(ref, Mfp((), outputs)), (place,))


def _folded(planning: Planning, rows: Rows, calls: Sequence[AggregateCall], places: Sequence[int]) -> Piece:
    """Aggregates that read only the rows that change."""
    operands = tuple(dict.fromkeys(arg for place in places for arg in calls[place].args))
    ref = planning.builder.linear(rows.ref, Mfp((), (*rows.keys, *map(rows.place, operands))))
    folds = tuple(_read(calls[place], rows.group, operands) for place in places)
    return Piece(planning.builder.add(plan.Fold(ref, rows.group, folds)), tuple(places))


def _basic(planning: Planning, rows: Rows, call: AggregateCall, place: int) -> Piece:
    """An aggregate that reads its whole group again, or, of different values, the rows that change."""
    builder = planning.builder
    operands = tuple(dict.fromkeys(call.args))
    chosen = (*rows.keys, *map(rows.place, operands))
    ref = builder.linear(rows.ref, Mfp((), chosen))
    if call.distinct:
        ref = _different(planning, ref, chosen)
    basic = _read(call, rows.group, operands)
    if isinstance(_function(call).maintenance, Folded) and planning.around is None and not call.order:
        return Piece(builder.add(plan.Fold(ref, rows.group, (basic,))), (place,))
    return Piece(
        builder.add(plan.BasicReduce(builder.arrange(ref, rows.group), rows.group, (basic,))), (place,)
    )


def _read(call: AggregateCall, group: int, operands: Sequence[Scalar]) -> plan.BasicAggregate:
    """The aggregate over rows (group, operands)."""
    arguments = tuple(group + operands.index(arg) for arg in call.args)
    types = tuple(arg.type for arg in call.args)
    return plan.BasicAggregate(call.function, arguments, types, call.type, call.order)


def _different(planning: Planning, ref: Ref, columns: Sequence[Scalar]) -> Ref:
    """The rows of which no two are equal; of those that are and look different, the first in their order."""
    own = [Column(index, column.type) for index, column in enumerate(columns)]
    keys = tuple(map(key, own))
    loose = [column for column in own if is_loose(column.type)]
    builder = planning.builder
    if not loose:
        return builder.add(plan.Distinct(ref))
    ordered = ordered_rows(keys, [SortKey(column, False, False, True) for column in loose], own)
    ref = builder.arrange(builder.linear(ref, Mfp((), ordered.outputs)), len(keys))
    ref = builder.add(plan.TopK(ref, len(keys), 1, 0, ordered.exact))
    outputs = tuple(Column(ordered.outputs.index(column), column.type) for column in own)
    return builder.linear(ref, Mfp((), outputs))


def _placed(reduce: algebra.Reduce, calls: Sequence[int]) -> list[Scalar]:
    """The reduce's columns over rows (group, values of ``calls``), NULL where they are not among these."""
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
        ref = _collated(planning, some, own, Mfp((), tuple(_placed(some, range(len(calls))))))
        result.append(Piece(ref, tuple(calls)))
    return result


def _collated(planning: Planning, reduce: algebra.Reduce, pieces: Sequence[Piece], mfp: Mfp) -> Ref:
    """The mfp over the groups of which each piece has its row, with all their values.

    Each piece has at most one row for a group, so that of each value, over the rows of all pieces with
    NULLs for what they have not, at most one is not NULL: their sum. A join of the pieces would give for
    a changed group what can be made of the old and new rows of each, which doubles with every piece.
    """
    builder = planning.builder
    width = len(reduce.keys)
    pieces = _grouped_pieces(planning, reduce, pieces)
    padded = (Mfp((), tuple(_placed(reduce, piece.calls))) for piece in pieces)
    streams = tuple(builder.linear(piece.ref, mfp) for piece, mfp in zip(pieces, padded, strict=True))
    values = [plan.Aggregate("$only", width + at, call.type) for at, call in enumerate(reduce.aggregates)]
    rows = plan.Aggregate("count", None, BIGINT)
    ref = builder.add(plan.Reduce(builder.add(plan.Concat(streams)), width, (*values, rows)))
    complete = Call("eq", (Column(width + len(values), BIGINT), Literal(len(pieces), BIGINT)), BOOLEAN)
    outputs = _placed(reduce, range(len(values)))
    over = compose(mfp, outputs)
    return builder.linear(ref, Mfp((complete, *over.predicates), over.outputs))


def _one_row(
    planning: Planning, rows: Rows, reduce: algebra.Reduce, pieces: Sequence[Piece], mfp: Mfp
) -> Ref:
    """The mfp over the one row of aggregates without a group.

    A reduce with a count of rows always has its row; the other pieces have theirs if there are rows.
    """
    builder = planning.builder
    accumulable = [place for place, call in enumerate(reduce.aggregates) if _counts(call)]
    number = AggregateCall("count", (), False, BIGINT)
    extended = algebra.Reduce(reduce.input, (), (*reduce.aggregates, number))
    places = [*accumulable, len(reduce.aggregates)]
    counted = _accumulated(planning, rows, extended.aggregates, places)
    rest = [piece for piece in pieces if not set(piece.calls) <= set(accumulable)]
    some = _collated(planning, extended, [counted, *rest], mfp)
    values: list[Scalar] = [
        Column(places.index(place), call.type) if place in places else _of_nothing(call)
        for place, call in enumerate(reduce.aggregates)
    ]
    empty = Call("eq", (Column(len(places) - 1, BIGINT), Literal(0, BIGINT)), BOOLEAN)
    over = compose(mfp, values)
    none = builder.linear(counted.ref, Mfp((empty, *over.predicates), over.outputs))
    return builder.add(plan.Concat((some, none)))


def _counts(call: AggregateCall) -> bool:
    return _function(call).accumulator is not None and not (call.distinct and call.args)


def _of_nothing(call: AggregateCall) -> Literal:
    """The aggregate's value over no rows."""
    return Literal(_function(call).empty, call.type)
