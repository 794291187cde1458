"""Operators on the rows of collections, as terms.

It covers arrangements and joins, delta joins (one half-join per step of each path), reduces and
top-k, and functions and operators that users write in Python. ``Operator`` is the base class of the
latter.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kpg.collections.expression import check_distinct
from kpg.collections.rows import Rows, term_rows
from kpg.collections.term import NodeFactory, Scope, Term, innermost_scope
from kpg.compiler.algebra.scalars import can_be_null, substitute
from kpg.runtime import plan
from kpg.runtime.convert.callbacks import Batch, Context
from kpg.runtime.errors import InterfaceError
from kpg.runtime.functions import TEXT_WORDS, resolve_aggregate
from kpg.runtime.plan import Mfp, Ref, user
from kpg.runtime.plan.user import Kind, UserObject
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, remap
from kpg.runtime.types import BIGINT, INTEGER, ROWID, Schema


@dataclass(frozen=True, slots=True)
class HalfJoinSpec:
    """A half-join with ``arrangement``, which belongs to relation ``relation`` of the join."""

    arrangement: Term
    relation: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class DeltaPathSpec:
    """A path of a delta join: ``mfp`` of the changes of a stream, then the half-joins."""

    stream: Term
    mfp: Mfp
    half_joins: tuple[HalfJoinSpec, ...]


def delta_join(paths: Sequence[DeltaPathSpec]) -> Term:
    """Return the delta join whose relation i is the stream of path i.

    All its nodes are in the innermost scope of its inputs, because a path cannot cross a loop's border.
    """
    inputs = [
        term
        for path in paths
        for term in (path.stream, *(half_join.arrangement for half_join in path.half_joins))
    ]
    scope = innermost_scope([term.scope for term in inputs])
    ends = tuple(_join_path(start, path, scope) for start, path in enumerate(paths))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.DeltaJoin(tuple(refs))

    return Term(ends, ends[0].types, make, scope)


def _join_path(start: int, path: DeltaPathSpec, scope: Scope | None) -> Term:
    """Return the last half-join of a path."""

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Delta(refs[0], path.mfp)

    types = tuple(output.type for output in path.mfp.outputs)
    term = Term((path.stream,), types, make, scope)
    for lookup in path.half_joins:
        types = tuple(output.type for output in lookup.mfp.outputs)
        term = Term((term, lookup.arrangement), types, _half_join(start, lookup), scope)
    return term


def _half_join(start: int, lookup: HalfJoinSpec) -> NodeFactory:
    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.HalfJoin(refs[0], refs[1], start, lookup.relation, lookup.key, lookup.mfp)

    return make


@dataclass(frozen=True, slots=True)
class Index:
    """An arrangement by its first ``key`` columns, and the collection's columns over its rows."""

    rows: Rows
    key: int

    @property
    def term(self) -> Term:
        """The arrangement."""
        return self.rows.term

    @property
    def width(self) -> int:
        """The number of columns of the arrangement."""
        return len(self.rows.term.types)

    @property
    def inline(self) -> bool:
        """Whether the arrangement's rows are the columns, the key first."""
        return self.rows.values == tuple(Column(i, t) for i, t in enumerate(self.rows.term.types))

    def serves(self, key: Sequence[int]) -> bool:
        """Return whether rows can be looked up by the columns ``key``, in that order."""
        key_values = tuple(self.rows.values[position] for position in key)
        return key_values == tuple(Column(i, t) for i, t in enumerate(self.rows.term.types[: len(key)]))


def index_by(rows: Rows, key: Sequence[int], *, inline: bool = False) -> Index:
    """Return the rows arranged by the columns ``key``.

    The arrangement of a table has the key and the rowid, as for SQL queries. Otherwise, or if
    ``inline``, it has the key and then the other columns.
    """
    rest = [place for place in range(len(rows.values)) if place not in key]
    if rows.is_table and not inline:
        rowid = Column(0, ROWID)
        stream = rows.stream((*(rows.values[place] for place in key), rowid))
        rowid_column = [Column(len(key), ROWID)]
        values = [substitute(value, rowid_column) for value in rows.values]
        for column, position in enumerate(key):
            values[position] = Column(column, rows.values[position].type)
        return Index(Rows(arrange(stream, len(key)), (), tuple(values), rows.names, rows.flags), len(key))
    order = [*key, *rest]
    selected = rows.select(order)
    term = arrange(selected.stream(selected.values), len(key))
    arranged_rows = term_rows(term, selected.names, selected.flags)
    return Index(
        arranged_rows
        if inline
        else arranged_rows.select([order.index(place) for place in range(len(order))]),
        len(key),
    )


def arrange(stream: Term, key: int) -> Term:
    """Return an arrangement of a stream."""

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Arrange(refs[0], key)

    return Term.over((stream,), stream.types, make)


def join(left: Index, right: Index, key: int, names: Sequence[str], outputs: Sequence[Scalar]) -> Rows:
    """Return the pairs of rows that agree on the first ``key`` columns of both arrangements.

    ``outputs`` are scalars over the columns of the left rows followed by those of the right.
    """
    right_values = tuple(remap(value, lambda column: column + left.width) for value in right.rows.values)
    values = (*left.rows.values, *right_values)
    left_mfp = Mfp((), tuple(substitute(output, values) for output in outputs))
    total, width = right.width, left.width

    def swap_column(column: int) -> int:
        return column + total if column < width else column - width

    right_mfp = Mfp((), tuple(remap(output, swap_column) for output in left_mfp.outputs))
    keys = tuple(range(key))

    left_path = DeltaPathSpec(left.term, _identity(left.term), (HalfJoinSpec(right.term, 1, keys, left_mfp),))
    right_path = DeltaPathSpec(
        right.term, _identity(right.term), (HalfJoinSpec(left.term, 0, keys, right_mfp),)
    )
    term = delta_join((left_path, right_path))
    flags = (*left.rows.flags, *right.rows.flags)
    return term_rows(term, names, [can_be_null(output, flags) for output in outputs])


def _identity(term: Term) -> Mfp:
    return Mfp((), tuple(Column(i, type_) for i, type_ in enumerate(term.types)))


def count_groups(rows: Rows, key: Sequence[int], name: str) -> Rows:
    """Return the number of rows of each group: (key..., name). Without a key, there is always one row."""
    key_rows = rows.select(key)
    stream = key_rows.stream(key_rows.values or (Literal(0, BIGINT),))
    aggregate = plan.Aggregate("count", None, BIGINT, f"count of {', '.join(key_rows.names) or 'rows'}")
    return _reduce(stream, key_rows, aggregate, name, nullable=False)


def sum_groups(rows: Rows, column: int, key: Sequence[int]) -> Rows:
    """Return the sum of a column in each group: (key..., column). It is NULL if all values are."""
    operand = rows.values[column]
    resolved = resolve_aggregate("sum", (operand.type,))
    key_rows = rows.select(key)
    stream = key_rows.stream((*key_rows.values, operand))
    name = rows.names[column]
    aggregate = plan.Aggregate("sum", len(key), operand.type, f"sum of {name}")
    assert resolved.arg_types == (operand.type,)
    return _reduce(stream, key_rows, aggregate, name, nullable=rows.flags[column] or not key)


def _reduce(stream: Term, key: Rows, aggregate: plan.Aggregate, name: str, *, nullable: bool) -> Rows:
    width = len(key.values)
    resolved = resolve_aggregate(aggregate.function, () if aggregate.argument is None else (aggregate.type,))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Reduce(refs[0], width, (aggregate,))

    term = Term.over((stream,), (*key.types, resolved.result_type), make)
    return term_rows(term, (*key.names, name), (*key.flags, nullable))


def top_k(rows: Rows, key: Sequence[int], order: Sequence[tuple[int, bool]], limit: int) -> Rows:
    """Return the first ``limit`` rows of each group, ordered by (column, descending) pairs, NULLs last.

    Ties are broken by the other columns, in an unspecified but fixed order.
    """
    outputs: list[Scalar] = [rows.values[place] for place in key]
    text_orders: list[tuple[int, int, bool]] = []
    for position, descending in order:
        if rows.values[position].type.is_interned:
            text_orders.append((len(outputs), position, descending))
        outputs += _order_words(rows.values[position], descending, rows.flags[position])
    outputs += [value for value in rows.values if value not in outputs]
    exact_orders = tuple(
        (first, outputs.index(rows.values[place]), is_descending)
        for first, place, is_descending in text_orders
    )
    arrangement = arrange(rows.stream(outputs), len(key))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.TopK(refs[0], len(key), limit, 0, exact_orders)

    term = Term.over((arrangement,), arrangement.types, make)
    positions = [outputs.index(value) for value in rows.values]
    return Rows(term, (), tuple(Column(p, term.types[p]) for p in positions), rows.names, rows.flags)


def _order_words(value: Scalar, descending: bool, nullable: bool) -> list[Scalar]:
    """Return scalars whose words are in the order of the values. Text is ordered by its first bytes only."""
    if not value.type.is_interned and not descending and not nullable:
        return [value]
    parts = range(TEXT_WORDS if value.type.is_interned else 1)
    return [
        Call("order_word", (value, *(Literal(flag, INTEGER) for flag in (int(descending), 0, part))), BIGINT)
        for part in parts
    ]


def add_node(rows: Rows, node: "type[plan.Distinct] | type[plan.Threshold] | type[plan.Negate]") -> Rows:
    """Return the rows after a node that keeps their columns."""
    stream = rows.stream(rows.values)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return node(refs[0])

    return term_rows(Term.over((stream,), stream.types, make), rows.names, rows.flags)


def concat(parts: Sequence[Rows]) -> Rows:
    """Return the sum of collections with equal columns."""
    first = parts[0]
    streams = tuple(part.stream(part.values) for part in parts)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Concat(tuple(refs))

    flags = [any(part_flags) for part_flags in zip(*(part.flags for part in parts), strict=True)]
    return term_rows(Term.over(streams, first.types, make), first.names, flags)


def apply_function(rows: Rows, kind: Kind, function: Callable[..., Any], schema: Schema | None) -> Rows:
    """Apply a function of rows or columns. Without a schema, it filters the rows."""
    user_function = _wrap_function(function)
    stream = rows.stream(rows.values)
    input_schema = rows.schema
    result = input_schema if schema is None else schema

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Apply(refs[0], kind, user_function, input_schema, result)

    term = Term.over((stream,), result.types, make)
    if schema is None:
        return term_rows(term, rows.names, rows.flags)
    return term_rows(term, schema.names, _flags(schema))


def reduce_groups(index: Index, function: Callable[..., Any], schema: Schema, *, arrays: bool) -> Rows:
    """Apply a function to the groups of an inline index."""
    user_function = _wrap_function(function)
    input_schema, key = index.rows.schema, index.key
    names = check_distinct((*index.rows.names[:key], *schema.names))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.UserReduce(refs[0], key, user_function, arrays, input_schema, schema)

    term = Term.over((index.term,), (*input_schema.types[:key], *schema.types), make)
    return term_rows(term, names, (*index.rows.flags[:key], *_flags(schema)))


def threshold(rows: Rows, function: Callable[[tuple[Any, ...], int], int]) -> Rows:
    """Return each row with the multiplicity ``function(row, multiplicity)``."""
    width = len(rows.names)
    index = index_by(rows, range(width), inline=True)

    def repeat_row(key: tuple[Any, ...], group: list[tuple[tuple[Any, ...], int]]) -> list[tuple[Any, ...]]:
        return [()] * function(key, group[0][1])

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.UserReduce(refs[0], width, UserObject(repeat_row), False, index.rows.schema, Schema(()))

    return term_rows(Term.over((index.term,), index.term.types, make), rows.names, rows.flags)


def apply_operator(parts: Sequence[Rows], operator: "Operator", schema: Schema) -> Rows:
    """Return the rows that an operator sends."""

    if not isinstance(operator, Operator):
        raise InterfaceError(
            f"apply() takes an instance of a subclass of kpg.Operator, not {operator!r}",
            hint="for a function of rows use map_rows(), for one of columns map_columns()",
        )
    streams = tuple(part.stream(part.values) for part in parts)
    input_schemas = tuple(part.schema for part in parts)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Custom(tuple(refs), UserObject(operator), input_schemas, schema)

    return term_rows(Term.over(streams, schema.types, make), schema.names, _flags(schema))


def _wrap_function(function: Any) -> UserObject:
    if not callable(function):
        raise InterfaceError(f"{function!r} is not a function")
    return UserObject(function)


def _flags(schema: Schema) -> tuple[bool, ...]:
    return tuple(column.nullable for column in schema.columns)


class Operator:
    """Base class of user-defined operators. ``Collection.apply(MyOperator(), **types)`` adds one.

    Times are ints, in a loop tuples (time, round). All batches of a time arrive before those of later
    times. If a step fails, the state before the step is restored. By default all attributes are copied
    before a step. An operator with much state can define :meth:`save` and :meth:`restore` instead.
    """

    context: Context | None = None

    def on_recv(self, batch: Batch, time: Any) -> None:
        """Receive a batch of rows. Iterating over it yields pairs (row, multiplicity)."""

    def on_notify(self, time: Any) -> None:
        """Handle the completion of ``time``, which :meth:`notify_at` requested. No earlier batch follows."""

    def send(self, batch: Batch | Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity), or a received batch, at the current time or later."""
        self._context.send(batch, time)

    def notify_at(self, time: Any) -> None:
        """Request a call of ``on_notify(time)``, at the current time or later."""
        self._context.notify_at(time)

    def save(self) -> Any:
        """Return the state for :meth:`restore`."""
        state = {name: value for name, value in vars(self).items() if name != "context"}
        return copy.deepcopy(state)

    def restore(self, state: Any) -> None:
        """Restore a saved state."""
        for name in [name for name in vars(self) if name != "context"]:
            delattr(self, name)
        vars(self).update(state)

    @property
    def _context(self) -> Context:
        if self.context is None:
            raise InterfaceError(
                "the operator has no place in a dataflow yet", hint="pass it to collection.apply()"
            )
        return self.context
