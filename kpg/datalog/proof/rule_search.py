"""Search for the bindings that satisfy a rule's body, given the bindings of its head.

The search is depth first, one chunk of bindings at a time. So the cost of one witness does not
depend on the size of the body. A test runs as soon as its variables are bound. Otherwise the atom
with the fewest matches comes next. For the relations of the recursion being proved, only rows below
a rank limit count (``RankLimit``).

``RelationStore`` gives the relations and the ranks of recursive rows as of the last commit.
``IndexedRows`` indexes a fixed set of rows by any of its columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.body import any_value, is_any_value
from kpg.datalog.facts import distinct
from kpg.datalog.installation import ProgramRelations
from kpg.datalog.program_plans import plan_scan
from kpg.datalog.proof.rule_bindings import Aggregates, Bindings, Evaluator
from kpg.runtime.errors import InternalError, NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.handles import RankLookup
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


Positions = tuple[int, ...]
"""Column positions."""
MAX_SCANS: Final = 24
"""Number of lookups by the same columns after which an index is built."""
CHUNK_MATCHES: Final = 1 << 14
"""Approximate number of matches in a chunk."""
HASH_MULTIPLIER: Final = np.uint64(0xFF51AFD7ED558CCD)


class IndexedRows:
    """Rows ``data int64[w, n]``, with an index of the columns that are often looked up."""

    def __init__(self, data: Words, ranks: Words | None = None) -> None:
        self.data = data
        self.ranks = ranks
        self._scan_counts: dict[Positions, int] = {}
        self._indexes: dict[Positions, tuple[NDArray[np.uint64], Words]] = {}

    def __len__(self) -> int:
        return self.data.shape[1]

    def matches(self, positions: Positions, values: Words) -> Iterator[tuple[Words, Words]]:
        """Yield chunks of (index into ``values[k, m]``, index of a row that has them at ``positions``)."""
        m = values.shape[1]
        if not positions:
            yield from self._all_pairs(m)
            return
        scans = self._scan_counts.get(positions, 0)
        if positions not in self._indexes and scans + m <= MAX_SCANS:
            self._scan_counts[positions] = scans + m
            for index in range(m):
                rows = self._scan(positions, values[:, index])
                for start in range(0, rows.shape[0], CHUNK_MATCHES):
                    chunk = rows[start : start + CHUNK_MATCHES]
                    yield np.full(chunk.shape[0], index, np.int64), chunk
            return
        yield from self._search_index(positions, values)

    def _all_pairs(self, m: int) -> Iterator[tuple[Words, Words]]:
        n = len(self)
        for index in range(m):
            for start in range(0, n, CHUNK_MATCHES):
                chunk = np.arange(start, min(start + CHUNK_MATCHES, n), dtype=np.int64)
                yield np.full(chunk.shape[0], index, np.int64), chunk

    def _scan(self, positions: Positions, values: Words) -> Words:
        is_match = self.data[positions[0]] == values[0]
        for position, value in zip(positions[1:], values[1:], strict=True):
            is_match &= self.data[position] == value
        return np.flatnonzero(is_match)

    def _search_index(self, positions: Positions, values: Words) -> Iterator[tuple[Words, Words]]:
        hashes, order = self._index_of(positions)
        sought = _hash_rows(values)
        first = np.searchsorted(hashes, sought, "left")
        counts = np.searchsorted(hashes, sought, "right") - first
        ends = np.cumsum(counts)
        start = 0
        while start < values.shape[1]:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_MATCHES, "right")))
            for part in range(0, int(ends[stop - 1]) - before, CHUNK_MATCHES):
                yield self._verify_matches(positions, values, order, first, counts, (start, stop), part)
            start = stop

    def _verify_matches(
        self,
        positions: Positions,
        values: Words,
        order: Words,
        first: Words,
        counts: Words,
        span: tuple[int, int],
        part: int,
    ) -> tuple[Words, Words]:
        """Return a chunk of matches, starting at ``part``, of the values in ``span``, without hash
        collisions.
        """
        start, stop = span
        sizes = counts[start:stop]
        total = int(sizes.sum())
        offsets = np.arange(part, min(part + CHUNK_MATCHES, total), dtype=np.int64)
        ends = np.cumsum(sizes)
        groups = np.searchsorted(ends, offsets, "right")
        left = groups + start
        right = order[first[left] + offsets - (ends - sizes)[groups]]
        is_equal = np.ones(right.shape[0], np.bool_)
        for position, row in zip(positions, values, strict=True):
            is_equal &= self.data[position][right] == row[left]
        return left[is_equal], right[is_equal]

    def _index_of(self, positions: Positions) -> tuple[NDArray[np.uint64], Words]:
        index = self._indexes.get(positions)
        if index is None:
            hashes = _hash_rows(self.data[list(positions)])
            order = np.argsort(hashes, kind="stable")
            index = self._indexes[positions] = hashes[order], order
        return index


def _hash_rows(columns: Words) -> NDArray[np.uint64]:
    """Return a hash of each row of ``int64[k, n]``."""
    hashes = np.zeros(columns.shape[1], np.uint64)
    for column in columns:
        hashes = (hashes ^ column.view(np.uint64)) * HASH_MULTIPLIER
        hashes ^= hashes >> np.uint64(32)
    return hashes


Matches = Iterator[tuple[Words, Words]]
"""Chunks of matches: indexes of the values looked up, and a matching row ``int64[w, k]`` for each."""
ANY_RANK: Final = 2**62
"""A limit above every rank."""


class StoredRelation:
    """A relation's rows. All have rank 0 if it is not recursive.

    ``is_derived`` tells whether rules derive the rows; tables and external views are not derived.
    """

    is_derived = True

    def __init__(self, rows: IndexedRows) -> None:
        self.rows = rows

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def ranks(self, rows: Words) -> Words:
        """Return the rank of each row of ``int64[w, n]``, -1 if it is absent."""
        result = np.full(rows.shape[1], -1, np.int64)
        for left, right in self.rows.matches(tuple(range(rows.shape[0])), rows):
            result[left] = 0 if self.rows.ranks is None else self.rows.ranks[right]
        return result

    def ranks_with_superseded(self, rows: Words) -> Words:
        """Return ranks as :meth:`ranks` does, also for superseded rows of a recursion with MIN or MAX."""
        return self.ranks(rows)

    def matches(self, positions: Positions, values: Words, below: int, *, superseded: bool) -> Matches:
        """Yield the rows of ranks below ``below`` that have ``values[k, m]`` at ``positions``.

        With ``superseded``, also superseded rows of a recursion with MIN or MAX.
        """
        for left, right in self.rows.matches(positions, values):
            if self.rows.ranks is not None:
                is_below = self.rows.ranks[right] < below
                left, right = left[is_below], right[is_below]
            if left.shape[0]:
                yield left, self.rows.data[:, right]


class ExternalRelation(StoredRelation):
    """The rows of a table, or of a view outside the program."""

    is_derived = False


class RecursiveRelation(StoredRelation):
    """A recursive relation, whose rounds the runtime records."""

    def __init__(self, lookup: RankLookup) -> None:
        self._lookup = lookup
        self._copies: dict[bool, IndexedRows] = {}

    @property
    def size(self) -> int:
        return len(self._lookup)

    def indexed_copy(self, superseded: bool) -> IndexedRows:
        """Return a copy of the rows, for lookups by some of the columns."""
        if superseded not in self._copies:
            self._copies[superseded] = IndexedRows(*self._lookup.all_ranks(include_deleted=superseded))
        return self._copies[superseded]

    def ranks(self, rows: Words) -> Words:
        return self._lookup.ranks_of(rows)

    def ranks_with_superseded(self, rows: Words) -> Words:
        return self._lookup.ranks_of(rows, include_deleted=True)

    def matches(self, positions: Positions, values: Words, below: int, *, superseded: bool) -> Matches:
        if len(positions) < self._lookup.width:
            yield from StoredRelation(self.indexed_copy(superseded)).matches(
                positions, values, below, superseded=superseded
            )
            return
        rows = np.empty_like(values)
        rows[list(positions)] = values
        ranks = self.ranks_with_superseded(rows) if superseded else self.ranks(rows)
        left = np.flatnonzero((ranks >= 0) & (ranks < below))
        if left.shape[0]:
            yield left, np.ascontiguousarray(rows[:, left])


class ExtremeRelation(StoredRelation):
    """A recursive relation of MIN or MAX values: all that were derived, and the present ones."""

    def __init__(self, derived: IndexedRows, present: Words) -> None:
        super().__init__(derived)
        is_present = np.zeros(len(derived), np.bool_)
        for _, right in derived.matches(tuple(range(present.shape[0])), present):
            is_present[right] = True
        assert derived.ranks is not None
        selected = np.flatnonzero(is_present)
        self.present = StoredRelation(
            IndexedRows(np.ascontiguousarray(derived.data[:, selected]), derived.ranks[selected])
        )

    def ranks(self, rows: Words) -> Words:
        """Return the ranks of present rows, -1 for others."""
        return self.present.ranks(rows)

    def ranks_with_superseded(self, rows: Words) -> Words:
        return StoredRelation(self.rows).ranks(rows)

    def matches(self, positions: Positions, values: Words, below: int, *, superseded: bool) -> Matches:
        rows = StoredRelation(self.rows) if superseded else self.present
        yield from rows.matches(positions, values, below, superseded=superseded)


class RelationStore:
    """The relations of one program as of an epoch. It must not be used after the next commit."""

    def __init__(self, installed: ProgramRelations, evaluator: Evaluator) -> None:
        self._installed = installed
        self._engine = installed.engine
        self._evaluator = evaluator
        self._relations: dict[str, StoredRelation | None] = {}
        self.epoch = self._engine.executor.epoch

    @property
    def is_current(self) -> bool:
        """Whether there was no commit since the store was created."""
        return self.epoch == self._engine.executor.epoch

    def relation(self, name: str) -> StoredRelation | None:
        """Return the rows of a relation, or None if only its rules define it.

        That is a relation that is neither materialized nor recursive.
        """
        if name not in self._relations:
            relation = self._installed.program.relations[name]
            is_derived = relation.kind is core.Kind.DERIVED
            self._relations[name] = self._read_derived(name) if is_derived else self._read_external(relation)
        return self._relations[name]

    # Tables, and what the program does not declare

    def _read_external(self, relation: core.Relation) -> StoredRelation:
        data = self._read_rows(relation.name)
        columns = [np.ascontiguousarray(column) for column in data]
        for position, column in enumerate(relation.columns):
            if column.stored_type != column.type.type:
                cast = Call("cast", (Column(0, column.stored_type),), column.type.type)
                columns[position] = self._evaluator.cast(columns[position], cast)
        rows = np.stack(columns[: max(1, len(relation.columns))])
        return ExternalRelation(IndexedRows(rows if relation.kind is core.Kind.INPUT else distinct(rows)))

    def _read_rows(self, name: str) -> Words:
        engine = self._engine
        entry = engine.catalog.get(name)
        if isinstance(entry, TableEntry):
            return engine.executor.tables.scan(entry.name, committed=True)
        if entry.name in engine.views:
            return engine.views[entry.name].installation.rows()[0]
        if engine.executor.tables.has_pending:
            raise NotSupportedError(
                f'view "{entry.name}" is not materialized, and cannot be read as it was committed',
                hint="explain the row after the transaction",
            )
        return engine.run(plan_scan(engine, entry.name))[0]

    # Derived relations

    def _read_derived(self, name: str) -> StoredRelation | None:
        if not self._installed.has_view(name):
            raise ProgrammingError(
                f'"{name}" was dropped or replaced', hint="install the program again with db.datalog()"
            )
        lowering = self._installed.lowering
        stratum = lowering.strata[lowering.places[name]]
        if not stratum.is_recursive and name not in self._installed.materialized:
            return None
        if stratum.is_recursive:
            self._installed.materialize(name)
        installed = self._engine.views[name].installation
        if not stratum.is_recursive:
            return StoredRelation(IndexedRows(installed.rows()[0]))
        lookup = installed.ranks()
        if lookup is not None:
            return RecursiveRelation(lookup)
        derived = installed.first_rounds()
        if derived is not None:
            return ExtremeRelation(IndexedRows(*derived), installed.rows()[0])
        raise NotSupportedError(
            f"how rows of {name} came about in its recursion is not kept",
            hint="recursive relations with several aggregated columns, or with choices, have no proofs",
        )


def mask_non_null(rows: Words, positions: Positions) -> NDArray[np.bool_]:
    """Return the mask of the rows ``int64[w, n]`` without NULL at the positions."""
    is_valid = np.ones(rows.shape[1], np.bool_)
    for position in positions:
        is_valid &= rows[position] != NULL
    return is_valid


CHUNK_BINDINGS: Final = 1 << 10
"""Number of bindings that are extended at a time."""
SEED_VARIABLE: Final = "@seed"
"""The variable with the number of the question that a binding belongs to."""
UNBOUND_COST: Final = 9
"""The cost of a literal that cannot be evaluated yet, above all others."""
Body = Sequence[core.Literal]


@dataclass(frozen=True, slots=True)
class RankLimit:
    """A limit on rows: only ranks below ``below`` count for ``relations``.

    With ``superseded``, also superseded rows of a recursion with MIN or MAX.
    """

    relations: frozenset[str] = frozenset()
    below: int = ANY_RANK
    superseded: bool = False

    def for_relation(self, relation: str) -> tuple[int, bool]:
        """Return the rank limit of a relation, and whether superseded rows count."""
        return (self.below, self.superseded) if relation in self.relations else (ANY_RANK, False)


NO_LIMIT: Final = RankLimit()


class BodySearch:
    """Solves rule bodies over a store. It reads at most ``max_rows`` rows."""

    def __init__(
        self, program: core.Program, store: RelationStore, evaluator: Evaluator, max_rows: int
    ) -> None:
        self.program = program
        self.store = store
        self.evaluator = evaluator
        self._max_rows = max_rows
        self._rows_read = 0
        self._aggregates = Aggregates(program, evaluator)
        self._rules: dict[str, list[core.Rule]] = {}
        for rule in program.rules:
            self._rules.setdefault(rule.head.relation, []).append(rule)

    def rules(self, relation: str) -> Sequence[core.Rule]:
        """Return the rules of a relation."""
        return self._rules.get(relation, ())

    def solutions(self, body: Body, start: Bindings, limit: RankLimit = NO_LIMIT) -> Iterator[Bindings]:
        """Yield the bindings of all variables that extend ``start``, in chunks, possibly with repetitions."""
        if not len(start):
            return
        if not body:
            yield start
            return
        literal = self.next_literal(body, start)
        rest = [other for other in body if other is not literal]
        for extensions in self.extend(literal, start, limit):
            for first in range(0, len(extensions), CHUNK_BINDINGS):
                chunk = (
                    extensions
                    if len(extensions) <= CHUNK_BINDINGS
                    else extensions.take(np.arange(first, min(first + CHUNK_BINDINGS, len(extensions))))
                )
                yield from self.solutions(rest, chunk, limit)

    def all_solutions(self, body: Body, start: Bindings) -> Bindings:
        """Return the distinct bindings of a body's variables that extend ``start``.

        There must be at least one variable.
        """
        chunks = list(self.solutions(body, start))
        if not chunks:
            names = [v.name for literal in body for v in core.literal_variables(literal)]
            positions = {name: i for i, name in enumerate(dict.fromkeys((*start.positions, *names)))}
            return Bindings(positions, np.empty((len(positions), 0), np.int64))
        order = list(chunks[0].positions)
        words = np.concatenate([part.columns(order) for part in chunks], axis=1)
        return Bindings(chunks[0].positions, distinct_rows(words))

    # The order of a body

    def next_literal(self, body: Body, rows: Bindings) -> core.Literal:
        """Return the cheapest literal of the body for these bindings."""
        costs = [(self._cost(literal, rows), number) for number, literal in enumerate(body)]
        cost, number = min(costs)
        if cost == (UNBOUND_COST, 0):
            raise InternalError(f"nothing binds the variables of {body[number]}")
        return body[number]

    def _cost(self, literal: core.Literal, rows: Bindings) -> tuple[int, int]:
        """Return the literal's sort key: tests, assignments, atoms by expected matches, then aggregates."""
        match literal:
            case core.Comparison(left=left, right=right):
                return (0, 0) if _are_bound((left, right), rows) else (UNBOUND_COST, 0)
            case core.Assignment(expression=expression):
                return (1, 0) if _are_bound((expression,), rows) else (UNBOUND_COST, 0)
            case core.Atom():
                return self._atom_cost(literal, rows)
            case core.Negation(atom=atom):
                return (3, 0) if _are_bound(atom.terms, rows) else (UNBOUND_COST, 0)
            case core.BodyAggregate(groups=groups):
                return (7, 0) if _are_bound(groups, rows) else (UNBOUND_COST, 0)
            case _:
                assert_never(literal)

    def _atom_cost(self, atom: core.Atom, rows: Bindings) -> tuple[int, int]:
        free = sum(
            1
            for term in atom.terms
            if isinstance(term, core.Wildcard)
            or (isinstance(term, core.Variable) and term.name not in rows.positions)
        )
        stored = self.store.relation(atom.relation)
        size = stored.size if stored is not None else self._estimated_size(atom.relation)
        if not free:
            return (2 if stored is not None else 4, size)
        if free == len(atom.terms):
            return (6, size)
        return (5, 2 * size if stored is None or stored.is_derived else size)

    def _estimated_size(self, relation: str) -> int:
        """Return an estimated number of rows of a relation that is derived on demand."""
        sizes = [
            stored.size
            for rule in self.rules(relation)
            for literal in rule.body
            if isinstance(literal, core.Atom)
            and (stored := self.store.relation(literal.relation)) is not None
        ]
        return 2 * max(sizes, default=0)

    # One literal

    def extend(self, literal: core.Literal, rows: Bindings, limit: RankLimit) -> Iterator[Bindings]:
        """Yield the bindings that also satisfy the literal, in chunks."""
        match literal:
            case core.Atom():
                yield from self._join_atom(literal, rows, limit)
            case core.Negation(atom=atom):
                is_matched = np.zeros(len(rows), np.bool_)
                for left, _ in self.matches(atom, rows, limit):
                    is_matched[left] = True
                yield rows.take(~is_matched)
            case core.Comparison():
                yield rows.take(self.evaluator.test(literal, rows))
            case core.Assignment(variable=variable, expression=expression):
                words, is_valid = self.evaluator.values(expression, rows)
                if variable.name in rows.positions:  # bound by the head
                    yield rows.take(is_valid & (rows.column(variable.name) == words))
                else:
                    yield rows.bind({variable.name: words}).take(is_valid)
            case core.BodyAggregate():
                yield self._extend_by_aggregate(literal, rows)
            case _:
                assert_never(literal)

    def _join_atom(self, atom: core.Atom, rows: Bindings, limit: RankLimit) -> Iterator[Bindings]:
        """Yield the bindings joined with the atom's rows, which bind its other variables."""
        new_variables: dict[str, int] = {}
        for position, term in enumerate(atom.terms):
            if isinstance(term, core.Variable) and term.name not in rows.positions:
                new_variables.setdefault(term.name, position)
        for left, matched_rows in self.matches(atom, rows, limit):
            if not new_variables:
                left = np.unique(left)
                yield rows.take(left)
            else:
                yield rows.take(left).bind(
                    {name: matched_rows[place] for name, place in new_variables.items()}
                )

    def matches(
        self, atom: core.Atom, rows: Bindings, limit: RankLimit = NO_LIMIT
    ) -> Iterator[tuple[Words, Words]]:
        """Yield chunks of matches: indexes into ``rows``, and the relation's rows that the atom matches."""
        positions, values = self._bound_values(atom, rows)
        for left, matched_rows in self.relation_matches(atom.relation, positions, values, limit):
            self._count_rows(left.shape[0])
            is_match = _mask_repeated_variables(atom, rows, matched_rows) & mask_non_null(
                matched_rows, _non_null_positions(atom)
            )
            if not is_match.all():
                left, matched_rows = left[is_match], np.ascontiguousarray(matched_rows[:, is_match])
            if left.shape[0]:
                yield left, matched_rows

    def _bound_values(self, atom: core.Atom, rows: Bindings) -> tuple[Positions, Words]:
        """Return the bound positions of the atom, and the values there."""
        values: dict[int, Words] = {}
        for position, term in enumerate(atom.terms):
            match term:
                case core.Constant():
                    values[position] = np.full(len(rows), self.evaluator.constant(term))
                case core.Variable(name=name) if name in rows.positions:
                    values[position] = rows.column(name)
                case core.Parameter(name=name):
                    raise InternalError(f"parameter ${name} has no value in a rule")
                case core.Variable() | core.Wildcard():
                    pass
                case _:
                    assert_never(term)
        if not atom.terms:
            values[0] = np.zeros(len(rows), np.int64)
        return tuple(values), np.array(list(values.values()), np.int64).reshape(len(values), len(rows))

    def _count_rows(self, rows: int) -> None:
        self._rows_read += rows
        if self._rows_read > self._max_rows:
            raise OperationalError(
                f"the explanation looked at more than {self._max_rows} rows",
                hint="pass explain_row a larger limit, or materialize the relations of the rule",
            )

    # Relations

    def relation_matches(
        self, relation: str, positions: Positions, values: Words, limit: RankLimit = NO_LIMIT
    ) -> Iterator[tuple[Words, Words]]:
        """Yield the rows of a relation with ``values[k, m]`` at ``positions``, as :meth:`matches` does."""
        below, superseded = limit.for_relation(relation)
        stored = self.store.relation(relation)
        if stored is not None:
            yield from stored.matches(positions, values, below, superseded=superseded)
        else:
            yield from self._derive_matches(relation, positions, values)

    def _derive_matches(
        self, name: str, positions: Positions, values: Words
    ) -> Iterator[tuple[Words, Words]]:
        """Yield matches as :meth:`relation_matches` does, by the rules of a relation that is not stored."""
        relation = self.program.relations[name]
        if any(relation.aggregates):
            yield from self._derive_aggregated(relation, positions, values)
            return
        for rule in self.rules(name):
            start = self.bind_head(rule, positions, values)
            for chunk in self.solutions(rule.body, start):
                rows = np.concatenate((chunk.columns([SEED_VARIABLE]), self.head_values(rule, chunk)))
                rows = distinct_rows(rows)
                yield rows[0], np.ascontiguousarray(rows[1:])

    def _derive_aggregated(
        self, relation: core.Relation, positions: Positions, values: Words
    ) -> Iterator[tuple[Words, Words]]:
        keys = tuple(place for place in positions if relation.aggregates[place] is None)
        key_values = np.ascontiguousarray(values[[positions.index(place) for place in keys]])
        seeds = np.arange(values.shape[1], dtype=np.int64)
        parts = [self.contributions(rule, keys, key_values, seeds) for rule in self.rules(relation.name)]
        rows = self._aggregates.head_rows(relation, np.concatenate(parts, axis=1))
        is_match = np.ones(rows.shape[1], np.bool_)
        for position, value in zip(positions, values, strict=True):
            is_match &= rows[1 + position] == value[rows[0]]
        if is_match.any():
            yield rows[0][is_match], np.ascontiguousarray(rows[1:, is_match])

    def contributions(self, rule: core.Rule, positions: Positions, values: Words, seeds: Words) -> Words:
        """Return a rule's rows before aggregation, ``int64[1 + w, n]``: the seed, then the head's terms."""
        solutions = self.all_solutions(rule.body, self.bind_head(rule, positions, values, seeds))
        return np.concatenate((solutions.columns([SEED_VARIABLE]), self.head_values(rule, solutions)))

    def bind_head(
        self, rule: core.Rule, positions: Positions, values: Words, seeds: Words | None = None
    ) -> Bindings:
        """Bind the head's variables to values at some positions.

        There is a row for each column of ``values`` that the head unifies with. ``SEED_VARIABLE`` has its
        number.
        """
        numbers = np.arange(values.shape[1], dtype=np.int64) if seeds is None else seeds
        unifies = np.ones(numbers.shape[0], np.bool_)
        bound: dict[str, Words] = {SEED_VARIABLE: numbers}
        for position, value in zip(positions, values, strict=True):
            if not rule.head.terms:
                continue
            term = rule.head.terms[position]
            match term:
                case core.Constant():
                    unifies &= value == self.evaluator.constant(term)
                case core.Variable(name=name) if name in bound:
                    unifies &= value == bound[name]
                case core.Variable(name=name):
                    bound[name] = value
                case _:
                    assert_never(term)
        candidates = Bindings(
            {name: i for i, name in enumerate(bound)}, np.array(list(bound.values()), np.int64)
        )
        return candidates.take(unifies)

    def head_values(self, rule: core.Rule, rows: Bindings) -> Words:
        """Return the head's terms in each row, ``int64[w, n]``."""
        parts = [self.evaluator.values(term, rows)[0] for term in rule.head.terms]
        if not parts:
            return np.zeros((1, len(rows)), np.int64)
        return np.array(parts, np.int64).reshape(len(parts), len(rows))

    # Aggregates in bodies

    def _extend_by_aggregate(self, literal: core.BodyAggregate, rows: Bindings) -> Bindings:
        """Return the bindings with the aggregate's result.

        Drops rows without a result, or with another result than the bound one.
        """
        names = [variable.name for variable in literal.groups]
        groups = rows.columns(names)
        distinct_groups, group_ids = np.unique(groups, axis=1, return_inverse=True)
        inputs = self.aggregate_inputs(literal, np.ascontiguousarray(distinct_groups))
        words, has_result = self._aggregates.values(literal, inputs, distinct_groups.shape[1])
        group_ids = group_ids.reshape(-1)
        result = words[group_ids]
        is_match = has_result[group_ids]
        if literal.result.name in rows.positions:
            return rows.take(is_match & (rows.column(literal.result.name) == result))
        return rows.bind({literal.result.name: result}).take(is_match)

    def aggregate_inputs(self, literal: core.BodyAggregate, groups: Words) -> Bindings:
        """Return the distinct bindings that an aggregate ranges over, for each group of ``int64[k, m]``."""
        start = {SEED_VARIABLE: np.arange(groups.shape[1], dtype=np.int64)}
        start |= {variable.name: groups[position] for position, variable in enumerate(literal.groups)}
        words = np.array(list(start.values()), np.int64)
        return self.all_solutions(
            name_wildcards(literal), Bindings({n: i for i, n in enumerate(start)}, words)
        )


def name_wildcards(literal: core.BodyAggregate) -> list[core.Literal]:
    """Return an aggregate's body with variables in place of wildcards, so that they count."""
    return [
        replace(
            part,
            terms=tuple(
                any_value(term.type, number, position) if isinstance(term, core.Wildcard) else term
                for position, term in enumerate(part.terms)
            ),
        )
        if isinstance(part, core.Atom)
        else part
        for number, part in enumerate(literal.body)
    ]


def distinct_rows(rows: Words) -> Words:
    """Return the distinct rows of ``int64[w, n]``."""
    return Updates(np.ascontiguousarray(rows), np.zeros((1, 1), np.int64), ONE).consolidate().data


def _are_bound(parts: Sequence[core.Expression | core.Wildcard], rows: Bindings) -> bool:
    return all(variable.name in rows.positions for part in parts for variable in core.variables(part))


def _mask_repeated_variables(atom: core.Atom, rows: Bindings, matched_rows: Words) -> NDArray[np.bool_]:
    """Return the mask of rows in which every repeated variable has equal values."""
    is_valid = np.ones(matched_rows.shape[1], np.bool_)
    first: dict[str, int] = {}
    for position, term in enumerate(atom.terms):
        if isinstance(term, core.Variable) and term.name not in rows.positions:
            is_valid &= matched_rows[position] == matched_rows[first.setdefault(term.name, position)]
    return is_valid


def _non_null_positions(atom: core.Atom) -> Positions:
    return tuple(
        position
        for position, term in enumerate(atom.terms)
        if not isinstance(term, core.Wildcard) and not is_any_value(term)
    )
