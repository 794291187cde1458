"""Why a row does not hold: for each rule how far its body can be satisfied."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from kpg.compiler.rules import core
from kpg.datalog.proof.bindings import Bindings
from kpg.datalog.proof.search import FREE, SEED, Search
from kpg.datalog.proof.texts import Texts, rule_of, source_text
from kpg.proof import Absence, Failure, RuleText
from kpg.runtime.errors import Span

MOST_BINDINGS: Final = 100_000
"""So many values of a rule's variables are followed; of more, these."""
FEW: Final = 3
"""Bindings that are shown of a literal that fails: examples, not a list."""


def absence(search: Search, texts: Texts, name: str, row: tuple[int, ...]) -> Absence:
    """Why a row that is not there is not."""
    relation = search.program.relations[name]
    text, shown = texts.atom(name, row), texts.row(name, row)
    if any(relation.aggregates):
        instead = tuple(texts.atom(name, one) for one in _others(search, relation, row))
        if instead:
            return Absence(text, name, shown, (), instead)
    failures = tuple(_failure(search, texts, relation, rule, row) for rule in _rules(search, relation))
    return Absence(text, name, shown, failures)


def _rules(search: Search, relation: core.Relation) -> Sequence[core.Rule]:
    """Those that the user wrote."""
    return [rule for rule in search.rules(relation.name) if not _copies_facts(rule, relation)]


def _copies_facts(rule: core.Rule, relation: core.Relation) -> bool:
    return any(isinstance(one, core.Atom) and one.relation == relation.base for one in rule.body)


def _keys(relation: core.Relation) -> tuple[int, ...]:
    """The columns that are not aggregated."""
    functions = relation.aggregates or (None,) * len(relation.columns)
    return tuple(place for place, function in enumerate(functions) if function is None)


def _others(search: Search, relation: core.Relation, row: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    places = _keys(relation)
    values = np.array([row[place] for place in places], np.int64).reshape(len(places), 1)
    for _, rows in search.relation_matches(relation.name, places, values):
        yield from (tuple(one) for one in rows[:, :FEW].T.tolist())


def _failure(
    search: Search, texts: Texts, relation: core.Relation, rule: core.Rule, row: tuple[int, ...]
) -> Failure:
    places = _keys(relation)
    values = np.array([row[place] for place in places], np.int64).reshape(len(places), 1)
    rows = search.seeded(rule, places, values)
    written = rule_of(rule, relation)
    if not len(rows):
        return Failure(written, (), None, 0)
    rest, met = list(rule.body), list[core.Literal]()
    while rest:
        literal = search.next(rest, rows)
        after = _extended(search, literal, rows)
        if not len(after):
            return _at(texts, written, rows, met, literal, texts.atom(relation.name, row))
        rest.remove(literal)
        met.append(literal)
        rows = after
    return Failure(written, (), None, len(rows))


def _extended(search: Search, literal: core.Literal, rows: Bindings) -> Bindings:
    """The ways to satisfy the literal too, as many as are followed."""
    found: Bindings | None = None
    for piece in search.extended(literal, rows, FREE):
        if found is None or not len(found):
            found = piece
        elif len(piece):
            names = list(found.places)
            words = np.concatenate((found.columns(names), piece.columns(names)), axis=1)
            found = Bindings({name: place for place, name in enumerate(names)}, words)
        if len(found) >= MOST_BINDINGS:
            break
    return rows.take(np.empty(0, np.int64)) if found is None else found


def _at(
    texts: Texts,
    rule: RuleText,
    rows: Bindings,
    met: Sequence[core.Literal],
    literal: core.Literal,
    wanted: str,
) -> Failure:
    """The failure of a literal after others; one that computes the head does not give what is ``wanted``."""
    values = {name: int(rows.words[place, 0]) for name, place in rows.places.items() if name != SEED}
    holds = dict.fromkeys(text for one in met if (text := texts.literal(one, values)))
    fails = texts.literal(literal, values) or f"{wanted} = {source_text(_span(literal))}"
    return Failure(rule, tuple(holds), fails, len(rows))


def _span(literal: core.Literal) -> Span:
    """Where the literal is written."""
    return literal.atom.span if isinstance(literal, core.Negation) else literal.span
