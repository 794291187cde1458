"""``Rows``: the typed columns of a collection, as filters and expressions over a term.

Maps, filters and projections are fused here into at most one node, or into the join or arrangement that
follows. The rows of a table are rowids until an operator needs the column values.
"""

from collections.abc import Sequence

from kpg.collections.expression import SymbolicRow, coerced, place_of
from kpg.collections.term import Term
from kpg.compiler.algebra.scalars import can_be_null, substitute
from kpg.runtime import plan
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import common_type
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar, walk
from kpg.runtime.types import ROWID, ColumnDef, Schema, Type

MOST_COMPOSED = 64
"""Expressions of more nodes are computed once, not put into others."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of ``term`` that pass ``predicates``; column ``names[i]`` is ``values[i]``.

    It can be NULL only if ``flags[i]``.
    """

    term: Term
    predicates: tuple[Scalar, ...]
    values: tuple[Scalar, ...]
    names: tuple[str, ...]
    flags: tuple[bool, ...]

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the columns."""
        return tuple(value.type for value in self.values)

    @property
    def schema(self) -> Schema:
        """The columns."""
        return Schema(tuple(map(ColumnDef, self.names, self.types, self.flags)))

    @property
    def is_table(self) -> bool:
        """Whether these are rowids of a table, with columns to be fetched."""
        return self.term.types == (ROWID,)

    @property
    def symbolic(self) -> SymbolicRow:
        """A row for a function of the user's."""
        return SymbolicRow(self.names, tuple(Column(i, value.type) for i, value in enumerate(self.values)))

    def places(self, names: Sequence[str]) -> tuple[int, ...]:
        """The positions of columns."""
        return tuple(place_of(name, self.names) for name in names)

    def mapped(self, names: Sequence[str], outputs: Sequence[Scalar]) -> "Rows":
        """Columns ``outputs``, expressions over these columns."""
        flags = tuple(can_be_null(output, self.flags) for output in outputs)
        base = self.settled() if self._large() else self
        values = tuple(substitute(output, base.values) for output in outputs)
        return Rows(base.term, base.predicates, values, tuple(names), flags)

    def filtered(self, predicates: Sequence[Scalar]) -> "Rows":
        """The rows on which expressions over these columns are true."""
        base = self.settled() if self._large() else self
        more = tuple(substitute(predicate, base.values) for predicate in predicates)
        return Rows(base.term, (*base.predicates, *more), base.values, self.names, self.flags)

    def renamed(self, names: Sequence[str]) -> "Rows":
        """The same columns under other names."""
        return Rows(self.term, self.predicates, self.values, tuple(names), self.flags)

    def chosen(self, places: Sequence[int]) -> "Rows":
        """Some of the columns."""
        return Rows(
            self.term,
            self.predicates,
            tuple(self.values[place] for place in places),
            tuple(self.names[place] for place in places),
            tuple(self.flags[place] for place in places),
        )

    def settled(self) -> "Rows":
        """The same with a term whose rows are exactly the columns."""
        return plain(self.stream(self.values), self.names, self.flags)

    def stream(self, outputs: Sequence[Scalar]) -> Term:
        """A term of rows ``outputs``, scalars over the rows of ``term``."""
        return linear(self.term, Mfp(self.predicates, tuple(outputs)))

    def _large(self) -> bool:
        return any(sum(1 for _ in walk(value)) > MOST_COMPOSED for value in self.values)


def linear(term: Term, mfp: Mfp) -> Term:
    """The mfp over a term, which is the term itself if that changes nothing."""
    identity = tuple(Column(i, type_) for i, type_ in enumerate(term.types))
    if not mfp.predicates and mfp.outputs == identity:
        return term

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Linear(refs[0], mfp)

    return Term.over((term,), tuple(output.type for output in mfp.outputs), make)


def plain(term: Term, names: Sequence[str], flags: Sequence[bool]) -> Rows:
    """Rows that are the columns."""
    values = tuple(Column(i, type_) for i, type_ in enumerate(term.types))
    return Rows(term, (), values, tuple(names), tuple(flags))


def fetched(table: str, types: Sequence[Type], place: int) -> tuple[Scalar, ...]:
    """All columns of a table's row whose rowid is in column ``place``."""
    rowid = Column(place, ROWID)
    return tuple(Fetch(table, i, rowid, type_) for i, type_ in enumerate(types))


def aligned(rows: Rows, model: Rows, what: str) -> Rows:
    """The rows with the columns of another, in their order; ProgrammingError if they have others.

    A type that the other's can hold is widened to it.
    """
    if set(rows.names) != set(model.names):
        raise _mismatch(rows, model, what)
    found = rows if rows.names == model.names else rows.chosen(rows.places(model.names))
    pairs = zip(found.types, model.types, strict=True)
    if not all(common_type((given, wanted)) == wanted for given, wanted in pairs):
        raise _mismatch(rows, model, what)
    return _widened(found, model.types)


def united(parts: Sequence[Rows], what: str) -> list[Rows]:
    """All with the columns of the first, of types that hold them; ProgrammingError if they have others."""
    first = parts[0]
    found = []
    for rows in parts:
        if set(rows.names) != set(first.names):
            raise _mismatch(rows, first, what)
        found.append(rows if rows.names == first.names else rows.chosen(rows.places(first.names)))
    types = [common_type(of) for of in zip(*(rows.types for rows in found), strict=True)]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) < len(types):
        raise _mismatch(next(rows for rows in found if rows.types != first.types), first, what)
    return [_widened(rows, known) for rows in found]


def _widened(rows: Rows, types: Sequence[Type]) -> Rows:
    if rows.types == tuple(types):
        return rows
    columns = [Column(i, type_) for i, type_ in enumerate(rows.types)]
    return rows.mapped(rows.names, [coerced(c, type_) for c, type_ in zip(columns, types, strict=True)])


def _mismatch(rows: Rows, model: Rows, what: str) -> ProgrammingError:
    return ProgrammingError(
        f"{what} needs columns ({shown(model)}), not ({shown(rows)})", hint="map() or rename() them first"
    )


def shown(rows: Rows) -> str:
    """The columns with their types, for messages."""
    return ", ".join(f"{name} {type_}" for name, type_ in zip(rows.names, rows.types, strict=True))
