"""Access paths: the arrangements of base tables that a plan uses, and late materialization by rowid.

While a plan is built, :class:`Access` records the columns by which each table is looked up
(:class:`Need`). :func:`choose_sequences` then fixes the key sequences. It chooses as few
arrangements as possible, in a column order that other plans share. :class:`ColumnOrigins` finds
the columns of a relation that can be fetched by one of its rowid columns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import equalities
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar
from kpg.runtime.types import ROWID, have_same_words

KeySequence = tuple[int, ...]
SMALL_FAN_OUT: Final = 64.0
"""Maximum number of matches per lookup for which filtering them is cheaper than another arrangement."""


@dataclass(frozen=True, slots=True)
class Need:
    """A lookup of ``table`` by ``columns``.

    ``fan_outs`` estimates the matches of a lookup by a single column.
    """

    table: str
    columns: frozenset[int]
    fan_outs: tuple[tuple[int, float], ...] = ()

    def fan_out(self, prefix: Iterable[int]) -> float:
        """Return an estimate of the rows that a lookup by ``prefix`` finds at most."""
        known = dict(self.fan_outs)
        return min((known.get(column, float("inf")) for column in prefix), default=float("inf"))


@dataclass(slots=True, eq=False)
class Access:
    """Lookups that the plan makes of base tables, and the arrangements chosen for them, by table."""

    primary_keys: dict[str, KeySequence] = field(default_factory=dict)
    _needs: dict[str, dict[Need, None]] = field(default_factory=dict)
    _sequences: dict[str, tuple[KeySequence, ...]] = field(default_factory=dict)

    def add_need(self, need: Need) -> None:
        """Record a lookup for which :meth:`choose_arrangements` provides an arrangement."""
        self._needs.setdefault(need.table, {}).setdefault(need)

    def choose_arrangements(self, existing: Callable[[str], Sequence[KeySequence]]) -> None:
        """Choose arrangements for all recorded needs.

        Args:
          existing: returns the key columns of each arrangement that a table has.
        """
        for table, needs in self._needs.items():
            self._sequences[table] = choose_sequences(
                needs, existing(table), self.primary_keys.get(table, ())
            )

    def find(self, need: Need) -> tuple[KeySequence, int]:
        """Return the key columns of the arrangement for ``need``, and how many of them the lookup uses."""
        found = best_sequence(self._sequences[need.table], need, self.primary_keys.get(need.table, ()))
        if found is None:
            raise InternalError(f"no arrangement of {need.table} was chosen for a lookup")
        return found


def order_columns(columns: Iterable[int], primary_key: KeySequence) -> KeySequence:
    """Return the columns in the order of the primary key, then of the table."""
    chosen = set(columns)
    first = tuple(column for column in primary_key if column in chosen)
    return first + tuple(sorted(chosen - set(first)))


def prefix_length(sequence: KeySequence, columns: frozenset[int]) -> int:
    """Return the number of leading columns of ``sequence`` that are among ``columns``."""
    length = 0
    while length < len(sequence) and sequence[length] in columns:
        length += 1
    return length


def best_sequence(
    sequences: Sequence[KeySequence], need: Need, primary_key: KeySequence
) -> tuple[KeySequence, int] | None:
    """Return the sequence that serves a need best, and the number of leading columns to look up by.

    A sequence serves a need by all its columns, or by a prefix with few matches. Returns None if none
    does.
    """
    if not need.columns:
        return (sequences[0], 0) if sequences else None
    lengths = [(prefix_length(sequence, need.columns), sequence) for sequence in sequences]
    for length, sequence in lengths:
        if length == len(need.columns):
            return sequence, length
    partial = [
        (-length, sequence)
        for length, sequence in lengths
        if length and (need.fan_out(sequence[:length]) <= SMALL_FAN_OUT or sequence[0] in primary_key[:1])
    ]
    if not partial:
        return None
    length, sequence = min(partial)
    return sequence, -length


def choose_sequences(
    needs: Iterable[Need], existing: Sequence[KeySequence], primary_key: KeySequence
) -> tuple[KeySequence, ...]:
    """Return the key sequences of one table's arrangements: the existing ones, then new ones.

    Nested needs share one arrangement: lookups by (b) and by {a, b} both use (b, a). A need with the
    first column of the primary key uses the order of the primary key, which most plans share.
    """
    sorted_needs = sorted(needs, key=lambda need: (len(need.columns), sorted(need.columns)))
    uncovered = [
        need.columns
        for need in sorted_needs
        if need.columns < set(primary_key) and prefix_length(primary_key, need.columns) < len(need.columns)
    ]
    chosen: list[KeySequence] = []
    for need in sorted_needs:
        if best_sequence([*existing, *chosen], need, primary_key) is not None:
            continue
        leading = bool(need.columns & set(primary_key[:1]))
        if (leading and not (need.columns == set(primary_key) and uncovered)) or not need.columns:
            chosen.append(primary_key)
            continue
        extended = [sequence for sequence in chosen if set(sequence) < need.columns]
        base = extended[0] if extended else ()
        rest = order_columns(need.columns - set(base), primary_key)
        if extended:
            chosen.remove(base)
        chosen.append(base + rest)
    return (*existing, *chosen)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Column ``column`` of the row of ``table`` whose rowid is in the relation's column ``rowid``."""

    table: str
    column: int
    rowid: int


Origins = Mapping[int, frozenset[StoredColumn]]
"""For each column, the stored columns that it equals.

Equal columns of a join share theirs.
"""


@dataclass(slots=True, eq=False)
class ColumnOrigins:
    """Origins of relations' columns in base tables, computed once per relation.

    The ids of lets must be unique.
    """

    lets: Mapping[str, Rel]
    early_materialization: bool = False
    """Whether columns must be read where their table is read, as on workers that own the rows."""
    _origins: dict[Rel, Origins] = field(default_factory=dict)

    def late_columns(self, rel: Rel) -> tuple[Scalar, ...]:
        """Return the relation's columns as scalars over as few columns as possible.

        A column is fetched by a rowid column if it can be.
        """
        sources = self.origins(rel)
        result: list[Scalar] = []
        for index, type_ in enumerate(algebra.types(rel)):
            places = sources.get(index)
            if places is None:
                result.append(Column(index, type_))
            else:
                origin = min(places, key=lambda one: (one.rowid, one.column))
                result.append(Fetch(origin.table, origin.column, Column(origin.rowid, ROWID), type_))
        return tuple(result)

    def origins(self, rel: Rel) -> Origins:
        """Return the columns whose value always is that of a base table's row whose rowid is a column too."""
        known = self._origins.get(rel)
        if known is None:
            known = self._origins[rel] = self._compute_origins(rel)
        return known

    def _compute_origins(self, rel: Rel) -> Origins:
        match rel:
            case algebra.Get(name=name, types=types, is_table=is_table):
                if not is_table or self.early_materialization:
                    return {}
                rowid = len(types) - 1
                return {column: frozenset((StoredColumn(name, column, rowid),)) for column in range(rowid)}
            case algebra.Map(input=source, scalars=scalars):
                columns = (*range(width(source)), *map(_column_index, scalars))
                return _project_origins(self.origins(source), columns)
            case algebra.Project(input=source, columns=columns):
                return _project_origins(self.origins(source), columns)
            case algebra.Join(inputs=inputs):
                return _join_origins(rel, [self.origins(source) for source in inputs])
            case algebra.Filter() | algebra.TopK() | algebra.Distinct() | algebra.Threshold():
                return self.origins(rel.input)
            case algebra.Negate() | algebra.Single() | algebra.Expand() | algebra.Window():
                return self.origins(rel.input)
            case algebra.Reduce(input=source, keys=keys):
                return _project_origins(self.origins(source), tuple(map(_column_index, keys)))
            case algebra.Union(inputs=inputs):
                return _common_origins([self.origins(source) for source in inputs])
            case algebra.LocalGet(id=id_):
                return self.origins(self.lets[id_]) if id_ in self.lets else {}
            case algebra.Let(body=body):
                return self.origins(body)
            case algebra.Constant() | algebra.LetRec():
                return {}
            case _:
                assert_never(rel)


def _column_index(scalar: Scalar) -> int:
    """Return the index of the column that a scalar is, or -1 if it is computed."""
    return scalar.index if isinstance(scalar, Column) else -1


def _project_origins(sources: Origins, columns: tuple[int, ...]) -> Origins:
    place = {column: index for index, column in reversed(tuple(enumerate(columns)))}
    result: dict[int, frozenset[StoredColumn]] = {}
    for index, column in enumerate(columns):
        visible = frozenset(
            StoredColumn(origin.table, origin.column, place[origin.rowid])
            for origin in sources.get(column, ())
            if origin.rowid in place
        )
        if visible:
            result[index] = visible
    return result


def _common_origins(branches: Sequence[Origins]) -> Origins:
    """Return the origins that hold for the rows of every branch."""
    first, *others = branches
    common = {c: first[c].intersection(*(branch.get(c, ()) for branch in others)) for c in first}
    return {column: places for column, places in common.items() if places}


def _join_origins(join: algebra.Join, inputs: Sequence[Origins]) -> Origins:
    result: dict[int, frozenset[StoredColumn]] = {}
    start = 0
    for source, sources in zip(join.inputs, inputs, strict=True):
        for column, places in sources.items():
            moved = frozenset(
                StoredColumn(place.table, place.column, start + place.rowid) for place in places
            )
            result[start + column] = moved
        start += width(source)
    is_changed = True
    while is_changed:
        is_changed = False
        for left, right in equalities(join.on):
            if (
                isinstance(left, Column)
                and isinstance(right, Column)
                and have_same_words(left.type, right.type)
            ):
                is_changed |= _merge_origins(result, left, right)
    return result


def _merge_origins(sources: dict[int, frozenset[StoredColumn]], left: Column, right: Column) -> bool:
    """Merge the origins of two equal columns, unless one is a rowid.

    Returns whether that adds any.
    """
    if ROWID in (left.type, right.type):
        return False
    both = sources.get(left.index, frozenset()) | sources.get(right.index, frozenset())
    is_changed = any(sources.get(column.index, frozenset()) != both for column in (left, right))
    if both:
        sources[left.index] = sources[right.index] = both
    return is_changed
