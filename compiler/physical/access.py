"""Which arrangements of base tables a plan uses: as few as possible, and in an order that others share.

While a plan is built, :class:`Access` records which columns each table is looked up by (:class:`Need`);
then :func:`choose` fixes the sequences of key columns, and the lookups are written with these.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final

from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass

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
