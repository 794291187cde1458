"""Access paths: the arrangements of base tables that a plan uses, and late materialization by rowid.

While a plan is built, :class:`Access` records the columns by which each table is looked up (:class:`Need`).
:func:`choose` then fixes the key sequences: as few arrangements as possible, in an order that others share.
:class:`Storage` finds the columns of a relation that can be fetched by a rowid among its columns.
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
from kpg.runtime.types import ROWID, same_words

Sequence_ = tuple[int, ...]
SMALL_FAN_OUT: Final = 64.0
"""Up to so many matches, filtering them beats one more arrangement of a table."""


@dataclass(frozen=True, slots=True)
class Need:
    """A table is looked up by ``columns``; by one of ``fan_outs`` alone it has about so many matches."""

    table: str
    columns: frozenset[int]
    fan_outs: tuple[tuple[int, float], ...] = ()

    def fan_out(self, prefix: Iterable[int]) -> float:
        """About how many rows a lookup by ``prefix`` finds, at most."""
        known = dict(self.fan_outs)
        return min((known.get(column, float("inf")) for column in prefix), default=float("inf"))


@dataclass(slots=True, eq=False)
class Access:
    """The lookups that planning asked for, and the arrangements chosen for them, by table."""

    primary: dict[str, Sequence_] = field(default_factory=dict)
    _needs: dict[str, dict[Need, None]] = field(default_factory=dict)
    _sequences: dict[str, tuple[Sequence_, ...]] = field(default_factory=dict)

    def ask(self, need: Need) -> None:
        """Have an arrangement chosen that serves the need."""
        self._needs.setdefault(need.table, {}).setdefault(need)

    def settle(self, existing: Callable[[str], Sequence[Sequence_]]) -> None:
        """Choose arrangements for all needs; ``existing`` gives the key columns of those that a table has."""
        for table, needs in self._needs.items():
            self._sequences[table] = choose(needs, existing(table), self.primary.get(table, ()))

    def find(self, need: Need) -> tuple[Sequence_, int]:
        """The key columns of the arrangement to look into, and how many of them to look up by."""
        found = best(self._sequences[need.table], need, self.primary.get(need.table, ()))
        if found is None:
            raise InternalError(f"no arrangement of {need.table} was chosen for a lookup")
        return found


def ordered(columns: Iterable[int], primary: Sequence_) -> Sequence_:
    """The columns in the order of the primary key, then of the table."""
    chosen = set(columns)
    first = tuple(column for column in primary if column in chosen)
    return first + tuple(sorted(chosen - set(first)))


def prefix_length(sequence: Sequence_, columns: frozenset[int]) -> int:
    """How many leading columns of the sequence are among ``columns``."""
    length = 0
    while length < len(sequence) and sequence[length] in columns:
        length += 1
    return length


def best(sequences: Sequence[Sequence_], need: Need, primary: Sequence_) -> tuple[Sequence_, int] | None:
    """The sequence that serves a need: by all its columns, or else by some with few matches."""
    if not need.columns:
        return (sequences[0], 0) if sequences else None
    lengths = [(prefix_length(sequence, need.columns), sequence) for sequence in sequences]
    for length, sequence in lengths:
        if length == len(need.columns):
            return sequence, length
    partial = [
        (-length, sequence)
        for length, sequence in lengths
        if length and (need.fan_out(sequence[:length]) <= SMALL_FAN_OUT or sequence[0] in primary[:1])
    ]
    if not partial:
        return None
    length, sequence = min(partial)
    return sequence, -length


def choose(needs: Iterable[Need], existing: Sequence[Sequence_], primary: Sequence_) -> tuple[Sequence_, ...]:
    """The key columns of the arrangements of one table: those that exist, then new ones.

    Needs that are nested share one arrangement: lookups by (b) and by {a, b} both use (b, a). A need
    that has the first column of the primary key uses the primary key's order, which most plans share.
    """
    wanted = sorted(needs, key=lambda need: (len(need.columns), sorted(need.columns)))
    inner = [
        need.columns
        for need in wanted
        if need.columns < set(primary) and prefix_length(primary, need.columns) < len(need.columns)
    ]
    chosen: list[Sequence_] = []
    for need in wanted:
        if best([*existing, *chosen], need, primary) is not None:
            continue
        leading = bool(need.columns & set(primary[:1]))
        if (leading and not (need.columns == set(primary) and inner)) or not need.columns:
            chosen.append(primary)
            continue
        extended = [sequence for sequence in chosen if set(sequence) < need.columns]
        base = extended[0] if extended else ()
        rest = ordered(need.columns - set(base), primary)
        if extended:
            chosen.remove(base)
        chosen.append(base + rest)
    return (*existing, *chosen)


@dataclass(frozen=True, slots=True)
class Stored:
    """Column ``column`` of the row of ``table`` whose rowid is in column ``rowid`` of the relation."""

    table: str
    column: int
    rowid: int


Sources = Mapping[int, frozenset[Stored]]
"""For each column, where its value is stored: equal columns of a join have several places."""


@dataclass(slots=True, eq=False)
class Storage:
    """Where the columns of relations are stored, each relation looked at once; ids of lets are unique."""

    lets: Mapping[str, Rel]
    early: bool = False
    """Whether no row is to be had by its rowid but where its table is read."""
    _known: dict[Rel, Sources] = field(default_factory=dict)

    def late_columns(self, rel: Rel) -> tuple[Scalar, ...]:
        """The relation's columns as scalars over as few of them as possible: rowids, and what has none."""
        sources = self.sources(rel)
        result: list[Scalar] = []
        for index, type_ in enumerate(algebra.types(rel)):
            places = sources.get(index)
            if places is None:
                result.append(Column(index, type_))
            else:
                origin = min(places, key=lambda one: (one.rowid, one.column))
                result.append(Fetch(origin.table, origin.column, Column(origin.rowid, ROWID), type_))
        return tuple(result)

    def sources(self, rel: Rel) -> Sources:
        """The columns whose value always is that of a base table's row, the rowid being a column as well."""
        known = self._known.get(rel)
        if known is None:
            known = self._known[rel] = self._sources_of(rel)
        return known

    def _sources_of(self, rel: Rel) -> Sources:
        match rel:
            case algebra.Get(name=name, types=types, is_table=is_table):
                if not is_table or self.early:
                    return {}
                rowid = len(types) - 1
                return {column: frozenset((Stored(name, column, rowid),)) for column in range(rowid)}
            case algebra.Map(input=source, scalars=scalars):
                columns = (*range(width(source)), *map(_column, scalars))
                return _projected(self.sources(source), columns)
            case algebra.Project(input=source, columns=columns):
                return _projected(self.sources(source), columns)
            case algebra.Join(inputs=inputs):
                return _joined(rel, [self.sources(source) for source in inputs])
            case algebra.Filter() | algebra.TopK() | algebra.Distinct() | algebra.Threshold():
                return self.sources(rel.input)
            case algebra.Negate() | algebra.Single() | algebra.Expand() | algebra.Window():
                return self.sources(rel.input)
            case algebra.Reduce(input=source, keys=keys):
                return _projected(self.sources(source), tuple(map(_column, keys)))
            case algebra.Union(inputs=inputs):
                return _common([self.sources(source) for source in inputs])
            case algebra.LocalGet(id=id_):
                return self.sources(self.lets[id_]) if id_ in self.lets else {}
            case algebra.Let(body=body):
                return self.sources(body)
            case algebra.Constant() | algebra.LetRec():
                return {}
            case _:
                assert_never(rel)


def _column(scalar: Scalar) -> int:
    """The column that a scalar is, -1 if it is computed."""
    return scalar.index if isinstance(scalar, Column) else -1


def _projected(sources: Sources, columns: tuple[int, ...]) -> Sources:
    place = {column: index for index, column in reversed(tuple(enumerate(columns)))}
    result: dict[int, frozenset[Stored]] = {}
    for index, column in enumerate(columns):
        visible = frozenset(
            Stored(one.table, one.column, place[one.rowid])
            for one in sources.get(column, ())
            if one.rowid in place
        )
        if visible:
            result[index] = visible
    return result


def _common(branches: Sequence[Sources]) -> Sources:
    """What holds for the rows of every branch."""
    first, *others = branches
    common = {c: first[c].intersection(*(branch.get(c, ()) for branch in others)) for c in first}
    return {column: places for column, places in common.items() if places}


def _joined(join: algebra.Join, inputs: Sequence[Sources]) -> Sources:
    result: dict[int, frozenset[Stored]] = {}
    start = 0
    for source, sources in zip(join.inputs, inputs, strict=True):
        for column, places in sources.items():
            moved = frozenset(Stored(one.table, one.column, start + one.rowid) for one in places)
            result[start + column] = moved
        start += width(source)
    changed = True
    while changed:
        changed = False
        for left, right in equalities(join.on):
            if isinstance(left, Column) and isinstance(right, Column) and same_words(left.type, right.type):
                changed |= _merge(result, left, right)
    return result


def _merge(sources: dict[int, frozenset[Stored]], left: Column, right: Column) -> bool:
    """Gives two equal columns each other's places, unless one is a rowid; whether that is news."""
    if ROWID in (left.type, right.type):
        return False
    both = sources.get(left.index, frozenset()) | sources.get(right.index, frozenset())
    news = any(sources.get(column.index, frozenset()) != both for column in (left, right))
    if both:
        sources[left.index] = sources[right.index] = both
    return news
