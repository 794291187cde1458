"""Operators on the rows of collections, as terms.

It covers arrangements and joins, delta joins (one half-join per step of each path), reduces and top-k, and
functions and operators that users write in Python. ``Operator`` is the base class of the latter.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kpg.collections.expression import distinct
from kpg.collections.rows import Rows, plain
from kpg.collections.term import Level, Make, Term, innermost
from kpg.compiler.algebra.scalars import can_be_null, substitute
from kpg.runtime import plan
from kpg.runtime.convert.callbacks import Batch, Context
from kpg.runtime.errors import InterfaceError
from kpg.runtime.functions import TEXT_WORDS, resolve_aggregate
from kpg.runtime.plan import Mfp, Ref, user
from kpg.runtime.plan.user import Kind, Own
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, remap
from kpg.runtime.types import BIGINT, INTEGER, ROWID, Schema


@dataclass(frozen=True, slots=True)
class Lookup:
    """What will be a half-join with ``arrangement``, of number ``relation`` in the join."""

    arrangement: Term
    relation: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class Path:
    """What will be a chain of nodes: ``mfp`` of the changes of a stream, then the lookups."""

    stream: Term
    mfp: Mfp
    lookups: tuple[Lookup, ...]


def delta_join(paths: Sequence[Path]) -> Term:
    """The join whose relation i is the stream of path i.

    All its nodes are in the innermost scope of all that it reads: a chain is not divided between a loop and
    what is around it.
    """
    read = [term for path in paths for term in (path.stream, *(one.arrangement for one in path.lookups))]
    scope = innermost([term.scope for term in read])
    ends = tuple(_chain(start, path, scope) for start, path in enumerate(paths))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.DeltaJoin(tuple(refs))

    return Term(ends, ends[0].types, make, scope)


def _chain(start: int, path: Path, scope: Level | None) -> Term:
    """The last half-join of a path."""

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Delta(refs[0], path.mfp)

    types = tuple(output.type for output in path.mfp.outputs)
    term = Term((path.stream,), types, make, scope)
    for lookup in path.lookups:
        types = tuple(output.type for output in lookup.mfp.outputs)
        term = Term((term, lookup.arrangement), types, _half_join(start, lookup), scope)
    return term


def _half_join(start: int, lookup: Lookup) -> Make:
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
        """Columns of the arrangement."""
        return len(self.rows.term.types)

    @property
    def inline(self) -> bool:
        """Whether the arrangement's rows are the columns, the key first."""
        return self.rows.values == tuple(Column(i, t) for i, t in enumerate(self.rows.term.types))

    def serves(self, key: Sequence[int]) -> bool:
        """Whether rows with given values in columns ``key``, in that order, can be looked up."""
        wanted = tuple(self.rows.values[place] for place in key)
        return wanted == tuple(Column(i, t) for i, t in enumerate(self.rows.term.types[: len(key)]))


def index_by(rows: Rows, key: Sequence[int], *, inline: bool = False) -> Index:
    """The rows arranged by columns ``key``.

    Of a table it holds the key and the rowid, as the arrangements of SQL queries do; otherwise, or if
    ``inline``, the key and then the other columns.
    """
    rest = [place for place in range(len(rows.values)) if place not in key]
    if rows.is_table and not inline:
        rowid = Column(0, ROWID)
        stream = rows.stream((*(rows.values[place] for place in key), rowid))
        moved = [Column(len(key), ROWID)]
        values = [substitute(value, moved) for value in rows.values]
        for column, place in enumerate(key):
            values[place] = Column(column, rows.values[place].type)
        return Index(Rows(arranged(stream, len(key)), (), tuple(values), rows.names, rows.flags), len(key))
    order = [*key, *rest]
    chosen = rows.chosen(order)
    term = arranged(chosen.stream(chosen.values), len(key))
    back = plain(term, chosen.names, chosen.flags)
    return Index(
        back if inline else back.chosen([order.index(place) for place in range(len(order))]), len(key)
    )


def arranged(stream: Term, key: int) -> Term:
    """A stream as an arrangement."""

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Arrange(refs[0], key)

    return Term.over((stream,), stream.types, make)


def joined(left: Index, right: Index, key: int, names: Sequence[str], outputs: Sequence[Scalar]) -> Rows:
    """Pairs of rows that agree on the first ``key`` columns of both arrangements.

    ``outputs`` are scalars over the columns of the left rows followed by those of the right.
    """
    moved = tuple(remap(value, lambda column: column + left.width) for value in right.rows.values)
    values = (*left.rows.values, *moved)
    forth = Mfp((), tuple(substitute(output, values) for output in outputs))
    total, width = right.width, left.width

    def swapped(column: int) -> int:
        return column + total if column < width else column - width

    back = Mfp((), tuple(remap(output, swapped) for output in forth.outputs))
    keys = tuple(range(key))

    there = Path(left.term, _whole(left.term), (Lookup(right.term, 1, keys, forth),))
    here = Path(right.term, _whole(right.term), (Lookup(left.term, 0, keys, back),))
    term = delta_join((there, here))
    flags = (*left.rows.flags, *right.rows.flags)
    return plain(term, names, [can_be_null(output, flags) for output in outputs])


def _whole(term: Term) -> Mfp:
    return Mfp((), tuple(Column(i, type_) for i, type_ in enumerate(term.types)))


def counted(rows: Rows, key: Sequence[int], name: str) -> Rows:
    """The rows of each group: (key..., name). Without a key there is one row always, as in SQL."""
    chosen = rows.chosen(key)
    stream = chosen.stream(chosen.values or (Literal(0, BIGINT),))
    aggregate = plan.Aggregate("count", None, BIGINT, f"count of {', '.join(chosen.names) or 'rows'}")
    return _reduced(stream, chosen, aggregate, name, nullable=False)


def summed(rows: Rows, column: int, key: Sequence[int]) -> Rows:
    """The sum of a column's values in each group: (key..., column); NULL if all are."""
    operand = rows.values[column]
    meaning = resolve_aggregate("sum", (operand.type,))
    chosen = rows.chosen(key)
    stream = chosen.stream((*chosen.values, operand))
    name = rows.names[column]
    aggregate = plan.Aggregate("sum", len(key), operand.type, f"sum of {name}")
    assert meaning.arg_types == (operand.type,)
    return _reduced(stream, chosen, aggregate, name, nullable=rows.flags[column] or not key)


def _reduced(stream: Term, key: Rows, aggregate: plan.Aggregate, name: str, *, nullable: bool) -> Rows:
    width = len(key.values)
    meaning = resolve_aggregate(aggregate.function, () if aggregate.argument is None else (aggregate.type,))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Reduce(refs[0], width, (aggregate,))

    term = Term.over((stream,), (*key.types, meaning.result_type), make)
    return plain(term, (*key.names, name), (*key.flags, nullable))


def top(rows: Rows, key: Sequence[int], order: Sequence[tuple[int, bool]], limit: int) -> Rows:
    """The first ``limit`` rows of each group in the order of (column, descending) pairs, NULLs last.

    Rows that agree on these are ordered by their other columns, somehow, but always the same.
    """
    outputs: list[Scalar] = [rows.values[place] for place in key]
    texts: list[tuple[int, int, bool]] = []
    for place, descending in order:
        if rows.values[place].type.is_interned:
            texts.append((len(outputs), place, descending))
        outputs += _order_words(rows.values[place], descending, rows.flags[place])
    outputs += [value for value in rows.values if value not in outputs]
    exact = tuple((first, outputs.index(rows.values[place]), down) for first, place, down in texts)
    arrangement = arranged(rows.stream(outputs), len(key))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.TopK(refs[0], len(key), limit, 0, exact)

    term = Term.over((arrangement,), arrangement.types, make)
    places = [outputs.index(value) for value in rows.values]
    return Rows(term, (), tuple(Column(p, term.types[p]) for p in places), rows.names, rows.flags)


def _order_words(value: Scalar, descending: bool, nullable: bool) -> list[Scalar]:
    """Scalars whose words order as the values do; of text as far as its first bytes tell."""
    if not value.type.is_interned and not descending and not nullable:
        return [value]
    parts = range(TEXT_WORDS if value.type.is_interned else 1)
    return [
        Call("order_word", (value, *(Literal(flag, INTEGER) for flag in (int(descending), 0, part))), BIGINT)
        for part in parts
    ]


def over(rows: Rows, node: "type[plan.Distinct] | type[plan.Threshold] | type[plan.Negate]") -> Rows:
    """A node that keeps the columns, over the rows."""
    stream = rows.stream(rows.values)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return node(refs[0])

    return plain(Term.over((stream,), stream.types, make), rows.names, rows.flags)


def concatenated(parts: Sequence[Rows]) -> Rows:
    """The sum of collections of equal columns."""
    first = parts[0]
    streams = tuple(part.stream(part.values) for part in parts)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Concat(tuple(refs))

    flags = [any(of) for of in zip(*(part.flags for part in parts), strict=True)]
    return plain(Term.over(streams, first.types, make), first.names, flags)


def applied(rows: Rows, kind: Kind, function: Callable[..., Any], schema: Schema | None) -> Rows:
    """A function of rows or columns; without a schema it chooses among the rows."""
    own = _callable(function)
    stream = rows.stream(rows.values)
    given = rows.schema
    result = given if schema is None else schema

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Apply(refs[0], kind, own, given, result)

    term = Term.over((stream,), result.types, make)
    if schema is None:
        return plain(term, rows.names, rows.flags)
    return plain(term, schema.names, _flags(schema))


def reduced(index: Index, function: Callable[..., Any], schema: Schema, *, arrays: bool) -> Rows:
    """A function of the groups of an arrangement by its key whose rows are its columns, the key first."""
    own = _callable(function)
    given, key = index.rows.schema, index.key
    names = distinct((*index.rows.names[:key], *schema.names))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.UserReduce(refs[0], key, own, arrays, given, schema)

    term = Term.over((index.term,), (*given.types[:key], *schema.types), make)
    return plain(term, names, (*index.rows.flags[:key], *_flags(schema)))


def threshold(rows: Rows, function: Callable[[tuple[Any, ...], int], int]) -> Rows:
    """Each row as often as the function of it and its multiplicity says."""
    width = len(rows.names)
    index = index_by(rows, range(width), inline=True)

    def times(key: tuple[Any, ...], group: list[tuple[tuple[Any, ...], int]]) -> list[tuple[Any, ...]]:
        return [()] * function(key, group[0][1])

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.UserReduce(refs[0], width, Own(times), False, index.rows.schema, Schema(()))

    return plain(Term.over((index.term,), index.term.types, make), rows.names, rows.flags)


def custom(parts: Sequence[Rows], operator: "Operator", schema: Schema) -> Rows:
    """What an operator sends that receives the rows."""

    if not isinstance(operator, Operator):
        raise InterfaceError(
            f"apply() takes an instance of a subclass of kpg.Operator, not {operator!r}",
            hint="for a function of rows use map_rows(), for one of columns map_columns()",
        )
    streams = tuple(part.stream(part.values) for part in parts)
    given = tuple(part.schema for part in parts)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Custom(tuple(refs), Own(operator), given, schema)

    return plain(Term.over(streams, schema.types, make), schema.names, _flags(schema))


def _callable(function: Any) -> Own:
    if not callable(function):
        raise InterfaceError(f"{function!r} is not a function")
    return Own(function)


def _flags(schema: Schema) -> tuple[bool, ...]:
    return tuple(column.nullable for column in schema.columns)


class Operator:
    """Base of the operators that users write; ``collection.apply(MyOperator(), **types)`` puts one in place.

    Times are ints, in a loop tuples (time, round). Everything at one time comes before anything later.
    If a step fails, the state of the step before comes back: by default all attributes are copied
    before a step, which an operator with much state avoids with a ``save`` and ``restore`` of its own.
    """

    context: Context | None = None

    def on_recv(self, batch: Batch, time: Any) -> None:
        """Rows have come: iterate over the batch for pairs (row, multiplicity)."""

    def on_notify(self, time: Any) -> None:
        """Nothing more can come at ``time`` or before: what ``notify_at(time)`` asked for."""

    def send(self, batch: Batch | Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity), or a batch as it came, at the time of the call or later."""
        self._context.send(batch, time)

    def notify_at(self, time: Any) -> None:
        """Ask for ``on_notify(time)``, at the time of the call or later."""
        self._context.notify_at(time)

    def save(self) -> Any:
        """The state, as ``restore`` takes it."""
        state = {name: value for name, value in vars(self).items() if name != "context"}
        return copy.deepcopy(state)

    def restore(self, state: Any) -> None:
        """Go back to a saved state."""
        for name in [name for name in vars(self) if name != "context"]:
            delattr(self, name)
        vars(self).update(state)

    @property
    def _context(self) -> Context:
        if self.context is None:
            raise InterfaceError(
                "the operator has no place in a dataflow yet", hint="give it to collection.apply()"
            )
        return self.context
