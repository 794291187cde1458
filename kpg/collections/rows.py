"""``Rows``: the typed columns of a collection, as filters and expressions over a term.

Maps, filters and projections are fused here into at most one node, or into the join or arrangement that
follows. The rows of a table are rowids until an operator needs the column values.
"""

from collections.abc import Sequence

from kpg.collections.expression import SymbolicRow, coerce, position_of
from kpg.collections.term import Term
from kpg.compiler.algebra.scalars import can_be_null, substitute
from kpg.runtime import plan
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import common_type
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar, walk
from kpg.runtime.types import ROWID, ColumnDef, Schema, Type

MAX_EXPRESSION_NODES = 64
"""Nodes of an expression above which it is computed once instead of being inlined."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of ``term`` that satisfy ``predicates``. Column ``names[i]`` is the expression ``values[i]``.

    ``flags[i]`` tells whether it can be NULL.
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
        """A symbolic row, the argument of users' functions."""
        return SymbolicRow(self.names, tuple(Column(i, value.type) for i, value in enumerate(self.values)))

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the positions of columns."""
        return tuple(position_of(name, self.names) for name in names)

    def map(self, names: Sequence[str], outputs: Sequence[Scalar]) -> "Rows":
        """Return rows with the columns ``outputs``, expressions over these columns."""
        flags = tuple(can_be_null(output, self.flags) for output in outputs)
        base = self.materialize() if self._has_large_expression() else self
        values = tuple(substitute(output, base.values) for output in outputs)
        return Rows(base.term, base.predicates, values, tuple(names), flags)

    def filter(self, predicates: Sequence[Scalar]) -> "Rows":
        """Return the rows on which ``predicates``, expressions over these columns, are true."""
        base = self.materialize() if self._has_large_expression() else self
        added = tuple(substitute(predicate, base.values) for predicate in predicates)
        return Rows(base.term, (*base.predicates, *added), base.values, self.names, self.flags)

    def rename(self, names: Sequence[str]) -> "Rows":
        """Return the same columns with other names."""
        return Rows(self.term, self.predicates, self.values, tuple(names), self.flags)

    def select(self, positions: Sequence[int]) -> "Rows":
        """Return some of the columns."""
        return Rows(
            self.term,
            self.predicates,
            tuple(self.values[position] for position in positions),
            tuple(self.names[position] for position in positions),
            tuple(self.flags[position] for position in positions),
        )

    def materialize(self) -> "Rows":
        """Return the same rows over a term whose columns are exactly these."""
        return term_rows(self.stream(self.values), self.names, self.flags)

    def stream(self, outputs: Sequence[Scalar]) -> Term:
        """Return a term of rows ``outputs``, which are scalars over the rows of ``term``."""
        return apply_mfp(self.term, Mfp(self.predicates, tuple(outputs)))

    def _has_large_expression(self) -> bool:
        return any(sum(1 for _ in walk(value)) > MAX_EXPRESSION_NODES for value in self.values)


def apply_mfp(term: Term, mfp: Mfp) -> Term:
    """Return the mfp over a term, or the term itself if the mfp is the identity."""
    identity = tuple(Column(i, type_) for i, type_ in enumerate(term.types))
    if not mfp.predicates and mfp.outputs == identity:
        return term

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return plan.Linear(refs[0], mfp)

    return Term.over((term,), tuple(output.type for output in mfp.outputs), make)


def term_rows(term: Term, names: Sequence[str], flags: Sequence[bool]) -> Rows:
    """Return the rows of a term, with a name for each column."""
    values = tuple(Column(i, type_) for i, type_ in enumerate(term.types))
    return Rows(term, (), values, tuple(names), tuple(flags))


def fetch_columns(table: str, types: Sequence[Type], position: int) -> tuple[Scalar, ...]:
    """Return all columns of the table row whose rowid is in column ``position``."""
    rowid = Column(position, ROWID)
    return tuple(Fetch(table, i, rowid, type_) for i, type_ in enumerate(types))


def align_columns(rows: Rows, model: Rows, description: str) -> Rows:
    """Return the rows with the columns of ``model``, in its order, with types widened to its types.

    Raises ProgrammingError if the columns differ or a type cannot be widened.
    """
    if set(rows.names) != set(model.names):
        raise _mismatch_error(rows, model, description)
    reordered = rows if rows.names == model.names else rows.select(rows.positions(model.names))
    pairs = zip(reordered.types, model.types, strict=True)
    if not all(common_type((type_, target)) == target for type_, target in pairs):
        raise _mismatch_error(rows, model, description)
    return _widen(reordered, model.types)


def unify_columns(parts: Sequence[Rows], description: str) -> list[Rows]:
    """Return all rows with the columns of the first, in common types.

    Raises ProgrammingError if the columns differ or have no common type.
    """
    first = parts[0]
    reordered = []
    for rows in parts:
        if set(rows.names) != set(first.names):
            raise _mismatch_error(rows, first, description)
        reordered.append(rows if rows.names == first.names else rows.select(rows.positions(first.names)))
    types = [
        common_type(column_types) for column_types in zip(*(rows.types for rows in reordered), strict=True)
    ]
    common_types = [type_ for type_ in types if type_ is not None]
    if len(common_types) < len(types):
        raise _mismatch_error(
            next(rows for rows in reordered if rows.types != first.types), first, description
        )
    return [_widen(rows, common_types) for rows in reordered]


def _widen(rows: Rows, types: Sequence[Type]) -> Rows:
    if rows.types == tuple(types):
        return rows
    columns = [Column(i, type_) for i, type_ in enumerate(rows.types)]
    return rows.map(rows.names, [coerce(c, type_) for c, type_ in zip(columns, types, strict=True)])


def _mismatch_error(rows: Rows, model: Rows, description: str) -> ProgrammingError:
    return ProgrammingError(
        f"{description} needs columns ({columns_text(model)}), not ({columns_text(rows)})",
        hint="map() or rename() them first",
    )


def columns_text(rows: Rows) -> str:
    """Return the columns with their types, for messages."""
    return ", ".join(f"{name} {type_}" for name, type_ in zip(rows.names, rows.types, strict=True))
