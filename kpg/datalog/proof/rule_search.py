"""Search for the bindings that satisfy a rule's body, given the bindings of its head.

The search is depth first, one chunk of bindings at a time, so the cost of one witness does not depend on the
size of the body. A test runs as soon as its variables are bound. Otherwise the atom with the fewest matches
comes next. For the relations of the recursion being proved, only rows below a rank limit count (``Limit``).

``Store`` gives the relations and the ranks of recursive rows as of the last commit. ``Rows`` indexes a fixed
set of rows by any of its columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.body import any_value, is_any
from kpg.datalog.facts import distinct
from kpg.datalog.installation import Relations
from kpg.datalog.program_plans import plan_rows
from kpg.datalog.proof.rule_bindings import Aggregates, Bindings, Evaluator
from kpg.runtime.errors import InternalError, NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.handles import RankLookup
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


Places = tuple[int, ...]
SCANS: Final = 24
"""So many lookups by the same columns scan all rows; then an index pays."""
PIECE: Final = 1 << 14
"""Matches given at a time, about."""
MIXER: Final = np.uint64(0xFF51AFD7ED558CCD)


class Rows:
    """Rows ``data int64[w, n]``. An index is made of the columns that are often looked up."""

    def __init__(self, data: Words, ranks: Words | None = None) -> None:
        self.data = data
        self.ranks = ranks
        self._scans: dict[Places, int] = {}
        self._indexes: dict[Places, tuple[NDArray[np.uint64], Words]] = {}

    def __len__(self) -> int:
        return self.data.shape[1]

    def matches(self, places: Places, values: Words) -> Iterator[tuple[Words, Words]]:
        """Pairs of a position in ``values[k, m]`` and a row with those values at ``places``, in pieces."""
        m = values.shape[1]
        if not places:
            yield from self._product(m)
            return
        done = self._scans.get(places, 0)
        if places not in self._indexes and done + m <= SCANS:
            self._scans[places] = done + m
            for position in range(m):
                rows = self._scan(places, values[:, position])
                for start in range(0, rows.shape[0], PIECE):
                    piece = rows[start : start + PIECE]
                    yield np.full(piece.shape[0], position, np.int64), piece
            return
        yield from self._by_index(places, values)

    def _product(self, m: int) -> Iterator[tuple[Words, Words]]:
        n = len(self)
        for position in range(m):
            for start in range(0, n, PIECE):
                piece = np.arange(start, min(start + PIECE, n), dtype=np.int64)
                yield np.full(piece.shape[0], position, np.int64), piece

    def _scan(self, places: Places, values: Words) -> Words:
        found = self.data[places[0]] == values[0]
        for place, value in zip(places[1:], values[1:], strict=True):
            found &= self.data[place] == value
        return np.flatnonzero(found)

    def _by_index(self, places: Places, values: Words) -> Iterator[tuple[Words, Words]]:
        hashes, order = self._index(places)
        wanted = _hashes(values)
        first = np.searchsorted(hashes, wanted, "left")
        counts = np.searchsorted(hashes, wanted, "right") - first
        ends = np.cumsum(counts)
        start = 0
        while start < values.shape[1]:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + PIECE, "right")))
            for part in range(0, int(ends[stop - 1]) - before, PIECE):
                yield self._verified(places, values, order, first, counts, (start, stop), part)
            start = stop

    def _verified(
        self,
        places: Places,
        values: Words,
        order: Words,
        first: Words,
        counts: Words,
        span: tuple[int, int],
        part: int,
    ) -> tuple[Words, Words]:
        """The matches from ``part`` on of the values in ``span``, without those that share a hash only."""
        start, stop = span
        sizes = counts[start:stop]
        total = int(sizes.sum())
        within = np.arange(part, min(part + PIECE, total), dtype=np.int64)
        ends = np.cumsum(sizes)
        which = np.searchsorted(ends, within, "right")
        left = which + start
        right = order[first[left] + within - (ends - sizes)[which]]
        same = np.ones(right.shape[0], np.bool_)
        for place, row in zip(places, values, strict=True):
            same &= self.data[place][right] == row[left]
        return left[same], right[same]

    def _index(self, places: Places) -> tuple[NDArray[np.uint64], Words]:
        found = self._indexes.get(places)
        if found is None:
            hashes = _hashes(self.data[list(places)])
            order = np.argsort(hashes, kind="stable")
            found = self._indexes[places] = hashes[order], order
        return found


def _hashes(columns: Words) -> NDArray[np.uint64]:
    """A hash of each row ``int64[k, n]``."""
    found = np.zeros(columns.shape[1], np.uint64)
    for column in columns:
        found = (found ^ column.view(np.uint64)) * MIXER
        found ^= found >> np.uint64(32)
    return found


Matches = Iterator[tuple[Words, Words]]
"""Pieces: positions among the values looked up, and for each a row ``int64[w, k]`` with them."""
ANY_RANK: Final = 2**62
"""No rank reaches it: a loop's rounds are counted one by one."""


class Stored:
    """Rows of a relation; all of rank 0 if it is not recursive. ``is_derived``: no table has them."""

    is_derived = True

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def ranks(self, rows: Words) -> Words:
        """The rank of each of the rows ``int64[w, n]``, -1 where it is not there."""
        found = np.full(rows.shape[1], -1, np.int64)
        for left, right in self.rows.matches(tuple(range(rows.shape[0])), rows):
            found[left] = 0 if self.rows.ranks is None else self.rows.ranks[right]
        return found

    def derived_ranks(self, rows: Words) -> Words:
        """As :meth:`ranks`, for rows too that a recursion with least or greatest values took back later."""
        return self.ranks(rows)

    def matches(self, places: Places, values: Words, below: int, *, superseded: bool) -> Matches:
        """The rows of ranks ``below`` that have ``values[k, m]`` at ``places``.

        ``superseded``: also those that a recursion with least or greatest values took back later.
        """
        for left, right in self.rows.matches(places, values):
            if self.rows.ranks is not None:
                kept = self.rows.ranks[right] < below
                left, right = left[kept], right[kept]
            if left.shape[0]:
                yield left, self.rows.data[:, right]


class Table(Stored):
    """The rows of a table, or of a view of somebody else's."""

    is_derived = False


class Recursive(Stored):
    """A relation whose recursion keeps in which round a row came."""

    def __init__(self, lookup: RankLookup) -> None:
        self._lookup = lookup
        self._copies: dict[bool, Rows] = {}

    @property
    def size(self) -> int:
        return len(self._lookup)

    def copy(self, superseded: bool) -> Rows:
        """The rows, for lookups by some of the columns."""
        if superseded not in self._copies:
            self._copies[superseded] = Rows(*self._lookup.every(gone=superseded))
        return self._copies[superseded]

    def ranks(self, rows: Words) -> Words:
        return self._lookup.of(rows)

    def derived_ranks(self, rows: Words) -> Words:
        return self._lookup.of(rows, gone=True)

    def matches(self, places: Places, values: Words, below: int, *, superseded: bool) -> Matches:
        if len(places) < self._lookup.width:
            yield from Stored(self.copy(superseded)).matches(places, values, below, superseded=superseded)
            return
        rows = np.empty_like(values)
        rows[list(places)] = values
        found = self.derived_ranks(rows) if superseded else self.ranks(rows)
        left = np.flatnonzero((found >= 0) & (found < below))
        if left.shape[0]:
            yield left, np.ascontiguousarray(rows[:, left])


class Extreme(Stored):
    """A relation of least or greatest values in recursion: all that were derived, and those that hold."""

    def __init__(self, derived: Rows, present: Words) -> None:
        super().__init__(derived)
        final = np.zeros(len(derived), np.bool_)
        for _, right in derived.matches(tuple(range(present.shape[0])), present):
            final[right] = True
        assert derived.ranks is not None
        chosen = np.flatnonzero(final)
        self.present = Stored(Rows(np.ascontiguousarray(derived.data[:, chosen]), derived.ranks[chosen]))

    def ranks(self, rows: Words) -> Words:
        """Of rows that hold."""
        return self.present.ranks(rows)

    def derived_ranks(self, rows: Words) -> Words:
        return Stored(self.rows).ranks(rows)

    def matches(self, places: Places, values: Words, below: int, *, superseded: bool) -> Matches:
        rows = Stored(self.rows) if superseded else self.present
        yield from rows.matches(places, values, below, superseded=superseded)


class Store:
    """The relations of one program. What it has read is good until the next commit."""

    def __init__(self, installed: Relations, evaluator: Evaluator) -> None:
        self._installed = installed
        self._engine = installed.engine
        self._evaluator = evaluator
        self._found: dict[str, Stored | None] = {}
        self.epoch = self._engine.executor.epoch

    @property
    def is_current(self) -> bool:
        """Whether nothing was committed meanwhile."""
        return self.epoch == self._engine.executor.epoch

    def relation(self, name: str) -> Stored | None:
        """What the relation holds; None if it is neither maintained nor recursive: its rules tell."""
        if name not in self._found:
            relation = self._installed.program.relations[name]
            is_derived = relation.kind is core.Kind.DERIVED
            self._found[name] = self._view(name) if is_derived else self._table(relation)
        return self._found[name]

    # Tables, and what the program does not declare

    def _table(self, relation: core.Relation) -> Stored:
        data = self._contents(relation.name)
        columns = [np.ascontiguousarray(column) for column in data]
        for place, column in enumerate(relation.columns):
            if column.stored != column.type.type:
                cast = Call("cast", (Column(0, column.stored),), column.type.type)
                columns[place] = self._evaluator.cast(columns[place], cast)
        rows = np.stack(columns[: max(1, len(relation.columns))])
        return Table(Rows(rows if relation.kind is core.Kind.INPUT else distinct(rows)))

    def _contents(self, name: str) -> Words:
        engine = self._engine
        entry = engine.catalog.get(name)
        if isinstance(entry, TableEntry):
            return engine.executor.scan(entry.name, committed=True)
        if entry.name in engine.views:
            return engine.views[entry.name].installed.rows()[0]
        if engine.executor.has_pending:
            raise NotSupportedError(
                f'view "{entry.name}" is not materialized, and cannot be read as it was committed',
                hint="ask after the transaction",
            )
        return engine.run(plan_rows(engine, entry.name))[0]

    # Derived relations

    def _view(self, name: str) -> Stored | None:
        if not self._installed.is_there(name):
            raise ProgrammingError(
                f'"{name}" was dropped or replaced', hint="install the program again with db.datalog()"
            )
        lowering = self._installed.lowering
        stratum = lowering.strata[lowering.places[name]]
        if not stratum.is_recursive and name not in self._installed.kept:
            return None
        if stratum.is_recursive:
            self._installed.keep(name)
        installed = self._engine.views[name].installed
        if not stratum.is_recursive:
            return Stored(Rows(installed.rows()[0]))
        lookup = installed.ranks()
        if lookup is not None:
            return Recursive(lookup)
        derived = installed.first_rounds()
        if derived is not None:
            return Extreme(Rows(*derived), installed.rows()[0])
        raise NotSupportedError(
            f"how rows of {name} came about in its recursion is not kept",
            hint="recursive relations with several aggregated columns, or with choices, have no proofs",
        )


def without_nulls(rows: Words, places: Places) -> NDArray[np.bool_]:
    """Which of the rows ``int64[w, n]`` have no NULL at the places."""
    fine = np.ones(rows.shape[1], np.bool_)
    for place in places:
        fine &= rows[place] != NULL
    return fine


CHUNK: Final = 1 << 10
"""Bindings that are taken further at a time."""
SEED: Final = "@seed"
"""The variable that says to which of the questions asked at once a binding belongs."""
NEVER: Final = 9
"""The cost of a literal that cannot be evaluated yet: above all others."""
Body = Sequence[core.Literal]


@dataclass(frozen=True, slots=True)
class Limit:
    """Only rows of ranks ``below`` count for ``relations``; ``superseded``: also values replaced since."""

    relations: frozenset[str] = frozenset()
    below: int = ANY_RANK
    superseded: bool = False

    def of(self, relation: str) -> tuple[int, bool]:
        """The limit for the rows of a relation."""
        return (self.below, self.superseded) if relation in self.relations else (ANY_RANK, False)


FREE: Final = Limit()


class Search:
    """Solves bodies over a store, looking at no more than ``most`` rows."""

    def __init__(self, program: core.Program, store: Store, evaluator: Evaluator, most: int) -> None:
        self.program = program
        self.store = store
        self.evaluator = evaluator
        self._most = most
        self._seen = 0
        self._aggregates = Aggregates(program, evaluator)
        self._rules: dict[str, list[core.Rule]] = {}
        for rule in program.rules:
            self._rules.setdefault(rule.head.relation, []).append(rule)

    def rules(self, relation: str) -> Sequence[core.Rule]:
        """The rules of a relation."""
        return self._rules.get(relation, ())

    def solutions(self, body: Body, start: Bindings, limit: Limit = FREE) -> Iterator[Bindings]:
        """The bindings of all variables that extend ``start``, in pieces; perhaps with repetitions."""
        if not len(start):
            return
        if not body:
            yield start
            return
        chosen = self.next(body, start)
        rest = [one for one in body if one is not chosen]
        for piece in self.extended(chosen, start, limit):
            for first in range(0, len(piece), CHUNK):
                chunk = (
                    piece
                    if len(piece) <= CHUNK
                    else piece.take(np.arange(first, min(first + CHUNK, len(piece))))
                )
                yield from self.solutions(rest, chunk, limit)

    def all_solutions(self, body: Body, start: Bindings) -> Bindings:
        """All bindings of a body's variables that extend ``start``, of one variable at least, each once."""
        found = list(self.solutions(body, start))
        if not found:
            names = [v.name for one in body for v in core.literal_variables(one)]
            places = {name: i for i, name in enumerate(dict.fromkeys((*start.places, *names)))}
            return Bindings(places, np.empty((len(places), 0), np.int64))
        order = list(found[0].places)
        words = np.concatenate([part.columns(order) for part in found], axis=1)
        return Bindings(found[0].places, unique(words))

    # The order of a body

    def next(self, body: Body, rows: Bindings) -> core.Literal:
        """The literal to take next."""
        ready = [(self._cost(one, rows), number) for number, one in enumerate(body)]
        cost, number = min(ready)
        if cost == (NEVER, 0):
            raise InternalError(f"nothing binds the variables of {body[number]}")
        return body[number]

    def _cost(self, literal: core.Literal, rows: Bindings) -> tuple[int, int]:
        """What comes first has the least: tests, assignments, atoms by the rows they may give, aggregates."""
        match literal:
            case core.Comparison(left=left, right=right):
                return (0, 0) if _bound((left, right), rows) else (NEVER, 0)
            case core.Assignment(expression=expression):
                return (1, 0) if _bound((expression,), rows) else (NEVER, 0)
            case core.Atom():
                return self._atom_cost(literal, rows)
            case core.Negation(atom=atom):
                return (3, 0) if _bound(atom.terms, rows) else (NEVER, 0)
            case core.BodyAggregate(groups=groups):
                return (7, 0) if _bound(groups, rows) else (NEVER, 0)
            case _:
                assert_never(literal)

    def _atom_cost(self, atom: core.Atom, rows: Bindings) -> tuple[int, int]:
        free = sum(
            1
            for term in atom.terms
            if isinstance(term, core.Wildcard)
            or (isinstance(term, core.Variable) and term.name not in rows.places)
        )
        stored = self.store.relation(atom.relation)
        size = stored.size if stored is not None else self._size_below(atom.relation)
        if not free:
            return (2 if stored is not None else 4, size)
        if free == len(atom.terms):
            return (6, size)
        return (5, 2 * size if stored is None or stored.is_derived else size)

    def _size_below(self, relation: str) -> int:
        """A guess for a relation that is derived when it is asked."""
        sizes = [
            stored.size
            for rule in self.rules(relation)
            for one in rule.body
            if isinstance(one, core.Atom) and (stored := self.store.relation(one.relation)) is not None
        ]
        return 2 * max(sizes, default=0)

    # One literal

    def extended(self, literal: core.Literal, rows: Bindings, limit: Limit) -> Iterator[Bindings]:
        """The bindings with which the literal holds too, in pieces."""
        match literal:
            case core.Atom():
                yield from self._matched(literal, rows, limit)
            case core.Negation(atom=atom):
                held = np.zeros(len(rows), np.bool_)
                for left, _ in self.matches(atom, rows, limit):
                    held[left] = True
                yield rows.take(~held)
            case core.Comparison():
                yield rows.take(self.evaluator.test(literal, rows))
            case core.Assignment(variable=variable, expression=expression):
                words, fine = self.evaluator.values(expression, rows)
                if variable.name in rows.places:  # the head has bound it
                    yield rows.take(fine & (rows.column(variable.name) == words))
                else:
                    yield rows.extended({variable.name: words}).take(fine)
            case core.BodyAggregate():
                yield self._aggregated(literal, rows)
            case _:
                assert_never(literal)

    def _matched(self, atom: core.Atom, rows: Bindings, limit: Limit) -> Iterator[Bindings]:
        """The rows with values for the variables that the atom binds."""
        fresh: dict[str, int] = {}
        for place, term in enumerate(atom.terms):
            if isinstance(term, core.Variable) and term.name not in rows.places:
                fresh.setdefault(term.name, place)
        for left, found in self.matches(atom, rows, limit):
            if not fresh:
                left = np.unique(left)
                yield rows.take(left)
            else:
                yield rows.take(left).extended({name: found[place] for name, place in fresh.items()})

    def matches(self, atom: core.Atom, rows: Bindings, limit: Limit = FREE) -> Iterator[tuple[Words, Words]]:
        """Pairs of a position in ``rows`` and a row of the relation that the atom matches, in pieces."""
        places, values = self._values(atom, rows)
        for left, found in self.relation_matches(atom.relation, places, values, limit):
            self._count(left.shape[0])
            kept = _agree(atom, rows, found) & without_nulls(found, _no_nulls(atom))
            if not kept.all():
                left, found = left[kept], np.ascontiguousarray(found[:, kept])
            if left.shape[0]:
                yield left, found

    def _values(self, atom: core.Atom, rows: Bindings) -> tuple[Places, Words]:
        """The places of the atom that are bound, and the values there."""
        found: dict[int, Words] = {}
        for place, term in enumerate(atom.terms):
            match term:
                case core.Constant():
                    found[place] = np.full(len(rows), self.evaluator.constant(term))
                case core.Variable(name=name) if name in rows.places:
                    found[place] = rows.column(name)
                case core.Parameter(name=name):
                    raise InternalError(f"parameter ${name} has no value in a rule")
                case core.Variable() | core.Wildcard():
                    pass
                case _:
                    assert_never(term)
        if not atom.terms:
            found[0] = np.zeros(len(rows), np.int64)
        return tuple(found), np.array(list(found.values()), np.int64).reshape(len(found), len(rows))

    def _count(self, rows: int) -> None:
        self._seen += rows
        if self._seen > self._most:
            raise OperationalError(
                f"the explanation looked at more than {self._most} rows",
                hint="give explain_row a larger limit, or have the relations that the rule names maintained",
            )

    # Relations

    def relation_matches(
        self, relation: str, places: Places, values: Words, limit: Limit = FREE
    ) -> Iterator[tuple[Words, Words]]:
        """The rows of a relation with ``values[k, m]`` at ``places``, as :meth:`matches`."""
        below, superseded = limit.of(relation)
        stored = self.store.relation(relation)
        if stored is not None:
            yield from stored.matches(places, values, below, superseded=superseded)
        else:
            yield from self._derived(relation, places, values)

    def _derived(self, name: str, places: Places, values: Words) -> Iterator[tuple[Words, Words]]:
        """As :meth:`relation_matches`, by the rules of a relation that nobody maintains."""
        relation = self.program.relations[name]
        if any(relation.aggregates):
            yield from self._summed(relation, places, values)
            return
        for rule in self.rules(name):
            start = self.seeded(rule, places, values)
            for found in self.solutions(rule.body, start):
                rows = np.concatenate((found.columns([SEED]), self.head(rule, found)))
                rows = unique(rows)
                yield rows[0], np.ascontiguousarray(rows[1:])

    def _summed(
        self, relation: core.Relation, places: Places, values: Words
    ) -> Iterator[tuple[Words, Words]]:
        keys = tuple(place for place in places if relation.aggregates[place] is None)
        chosen = np.ascontiguousarray(values[[places.index(place) for place in keys]])
        seeds = np.arange(values.shape[1], dtype=np.int64)
        parts = [self.contributions(rule, keys, chosen, seeds) for rule in self.rules(relation.name)]
        rows = self._aggregates.heads(relation, np.concatenate(parts, axis=1))
        kept = np.ones(rows.shape[1], np.bool_)
        for place, value in zip(places, values, strict=True):
            kept &= rows[1 + place] == value[rows[0]]
        if kept.any():
            yield rows[0][kept], np.ascontiguousarray(rows[1:, kept])

    def contributions(self, rule: core.Rule, places: Places, values: Words, seeds: Words) -> Words:
        """What a rule gives to be aggregated, ``int64[1 + w, n]``: the seed, then the head's terms."""
        found = self.all_solutions(rule.body, self.seeded(rule, places, values, seeds))
        return np.concatenate((found.columns([SEED]), self.head(rule, found)))

    def seeded(self, rule: core.Rule, places: Places, values: Words, seeds: Words | None = None) -> Bindings:
        """The head's variables bound to values at some places, a row for each that fits, and its number."""
        numbers = np.arange(values.shape[1], dtype=np.int64) if seeds is None else seeds
        fits = np.ones(numbers.shape[0], np.bool_)
        bound: dict[str, Words] = {SEED: numbers}
        for place, value in zip(places, values, strict=True):
            if not rule.head.terms:
                continue
            term = rule.head.terms[place]
            match term:
                case core.Constant():
                    fits &= value == self.evaluator.constant(term)
                case core.Variable(name=name) if name in bound:
                    fits &= value == bound[name]
                case core.Variable(name=name):
                    bound[name] = value
                case _:
                    assert_never(term)
        every = Bindings({name: i for i, name in enumerate(bound)}, np.array(list(bound.values()), np.int64))
        return every.take(fits)

    def head(self, rule: core.Rule, rows: Bindings) -> Words:
        """The head's terms in each row, ``int64[w, n]``."""
        parts = [self.evaluator.values(term, rows)[0] for term in rule.head.terms]
        if not parts:
            return np.zeros((1, len(rows)), np.int64)
        return np.array(parts, np.int64).reshape(len(parts), len(rows))

    # Aggregates in bodies

    def _aggregated(self, literal: core.BodyAggregate, rows: Bindings) -> Bindings:
        """The rows with the aggregate's result, where it has one and it is the one that is bound."""
        names = [variable.name for variable in literal.groups]
        groups = rows.columns(names)
        different, which = np.unique(groups, axis=1, return_inverse=True)
        found = self.ranged_over(literal, np.ascontiguousarray(different))
        words, fine = self._aggregates.values(literal, found, different.shape[1])
        which = which.reshape(-1)
        result = words[which]
        kept = fine[which]
        if literal.result.name in rows.places:
            return rows.take(kept & (rows.column(literal.result.name) == result))
        return rows.extended({literal.result.name: result}).take(kept)

    def ranged_over(self, literal: core.BodyAggregate, groups: Words) -> Bindings:
        """The bindings that an aggregate ranges over, each once, of each of the groups ``int64[k, m]``."""
        start = {SEED: np.arange(groups.shape[1], dtype=np.int64)}
        start |= {variable.name: groups[place] for place, variable in enumerate(literal.groups)}
        words = np.array(list(start.values()), np.int64)
        return self.all_solutions(counted(literal), Bindings({n: i for i, n in enumerate(start)}, words))


def counted(literal: core.BodyAggregate) -> list[core.Literal]:
    """An aggregate's body with a variable for each wildcard of its atoms, since they count."""
    return [
        replace(
            one,
            terms=tuple(
                any_value(term.type, number, place) if isinstance(term, core.Wildcard) else term
                for place, term in enumerate(one.terms)
            ),
        )
        if isinstance(one, core.Atom)
        else one
        for number, one in enumerate(literal.body)
    ]


def unique(rows: Words) -> Words:
    """The different ones of the rows ``int64[w, n]``."""
    return Updates(np.ascontiguousarray(rows), np.zeros((1, 1), np.int64), ONE).consolidate().data


def _bound(parts: Sequence[core.Expression | core.Wildcard], rows: Bindings) -> bool:
    return all(variable.name in rows.places for part in parts for variable in core.variables(part))


def _agree(atom: core.Atom, rows: Bindings, found: Words) -> NDArray[np.bool_]:
    """Where a variable that the atom binds twice has equal values."""
    fine = np.ones(found.shape[1], np.bool_)
    first: dict[str, int] = {}
    for place, term in enumerate(atom.terms):
        if isinstance(term, core.Variable) and term.name not in rows.places:
            fine &= found[place] == found[first.setdefault(term.name, place)]
    return fine


def _no_nulls(atom: core.Atom) -> Places:
    return tuple(
        place
        for place, term in enumerate(atom.terms)
        if not isinstance(term, core.Wildcard) and not is_any(term)
    )
