"""Arrangements and joins of rows: which layout an index has, and how changes find their matches in it."""

from collections.abc import Sequence

from kpg.collections.joining import Lookup, Path, delta_join
from kpg.collections.rows import Rows, plain
from kpg.collections.term import Term
from kpg.compiler.algebra.scalars import can_be_null, substitute
from kpg.runtime import plan
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, remap
from kpg.runtime.types import ROWID


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
