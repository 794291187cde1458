"""The bindings that satisfy a rule's body, found from what the head binds, over what is maintained.

A body is solved depth first, a chunk of bindings at a time, so that one witness costs little whatever the
body's size: a test as soon as its variables are bound, then the atom that leaves the fewest choices. Only
rows of ranks below a limit count for the relations that the proof is by recursion about.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.compiler.rules.lower.body import any_value, is_any
from kpg.datalog.proof.aggregates import Aggregates
from kpg.datalog.proof.bindings import Bindings, Evaluator
from kpg.datalog.proof.rows import Places
from kpg.datalog.proof.store import ANY_RANK, Store, without_nulls
from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]
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
