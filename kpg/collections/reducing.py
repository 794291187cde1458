"""Reduces over rows: aggregates, extremes, and what users write."""

from collections.abc import Sequence

from kpg.collections.arranging import arranged
from kpg.collections.rows import Rows, plain
from kpg.collections.term import Term
from kpg.runtime import plan
from kpg.runtime.functions import TEXT_WORDS, resolve_aggregate
from kpg.runtime.plan import Ref
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER


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
