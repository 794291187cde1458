"""Proof builder: for each row a rule and the rows of its body, down to facts.

``absence`` explains a row that does not hold, by the failing literal of each rule. ``Explainer`` answers both
questions for one program.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.rules import core
from kpg.compiler.rules.core import counts_repeats
from kpg.compiler.rules.strata import Stratum
from kpg.datalog.installation import GOAL, Relations
from kpg.datalog.program_plans import table_schema
from kpg.datalog.proof.rule_bindings import Bindings, Evaluator
from kpg.datalog.proof.rule_search import FREE, SEED, Limit, Search, Store, Stored, counted
from kpg.datalog.proof.rule_text import Texts, Values, rule_of, source_text
from kpg.provenance.explain_row import external_proof
from kpg.provenance.proof_tree import Absence, Failure, Kind, Proof, RuleText
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.errors import InterfaceError, InternalError, ProgrammingError, Span
from kpg.runtime.functions import aggregate_named
from kpg.runtime.records import dataclass

FEW: Final = 3
"""Bindings that are shown of a literal that fails: examples, not a list."""


Words = NDArray[np.int64]
Key = tuple[str, tuple[int, ...]]
"""A relation and a row of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node before its children have proofs: each is a row that needs one, or a step of its own."""

    kind: Kind
    text: str
    key: Key | None = None
    rule: core.Rule | None = None
    children: "tuple[Key | Step, ...]" = ()
    count: int | None = None
    superseded: bool = False
    proof: Proof | None = None
    """Of a row of a SQL view: that is all there is to it."""

    def needed(self) -> Iterator[Key]:
        """The rows that need proofs."""
        for child in self.children:
            if isinstance(child, Step):
                yield from child.needed()
            else:
                yield child


@dataclass(slots=True)
class Builder:
    """Makes proofs of one program's rows; a row has one proof, however often it is used."""

    search: Search
    texts: Texts
    strata: Sequence[Stratum]
    explained: Callable[[str, tuple[int, ...]], Proof | None]
    """The explanation of a row of a SQL view, None for a relation that is none."""
    steps: dict[Key, Step] = field(default_factory=dict)
    _places: dict[str, Stratum] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {name: stratum for stratum in self.strata for name in stratum.relations}

    def holds(self, key: Key) -> bool:
        """Whether the relation has the row."""
        values = _column(key[1])
        places = tuple(range(values.shape[0]))
        stored = self.search.store.relation(key[0])
        if stored is not None:
            return int(stored.ranks(values)[0]) >= 0
        return any(left.shape[0] for left, _ in self.search.relation_matches(key[0], places, values))

    def proof(self, goal: Key) -> Proof:
        """The proof of a row that holds."""
        pending = [goal]
        while pending:
            key = pending.pop()
            if key not in self.steps:
                self.steps[key] = self._step(key)
                pending += [child for child in self.steps[key].needed() if child not in self.steps]
        return self._made(goal)

    def _made(self, goal: Key) -> Proof:
        """The steps from a row on as proofs, each after those below it."""
        made: dict[Key, Proof] = {}
        pending = [goal]
        while pending:
            key = pending[-1]
            waiting = [child for child in self.steps[key].needed() if child not in made]
            if waiting:
                pending += waiting
            else:
                pending.pop()
                if key not in made:
                    made[key] = self._node(self.steps[key], made)
        return made[goal]

    def _node(self, step: Step, made: dict[Key, Proof]) -> Proof:
        if step.proof is not None:
            return replace(step.proof, text=step.text)
        children = tuple(
            self._node(child, made) if isinstance(child, Step) else made[child] for child in step.children
        )
        name, row = (None, None) if step.key is None else (step.key[0], self.texts.row(*step.key))
        relations = self.search.program.relations
        rule = None if step.rule is None else rule_of(step.rule, relations[step.rule.head.relation])
        return Proof(step.kind, step.text, name, row, rule, children, step.count, step.superseded)

    # One row

    def _step(self, key: Key) -> Step:
        relation = self.search.program.relations[key[0]]
        if relation.kind is core.Kind.INPUT:
            return Step(Kind.FACT, self.texts.atom(*key), key)
        if relation.kind is core.Kind.EXTERNAL:
            return Step(Kind.EXTERNAL, self.texts.atom(*key), key, proof=self.explained(*key))
        if counts_repeats(relation.aggregates):
            return self._summed(key, relation)
        return self._derived(key, relation)

    def _derived(self, key: Key, relation: core.Relation) -> Step:
        """By the first rule that gives the row from rows that came before it."""
        stored = self.search.store.relation(relation.name)
        limit, superseded = self._limit(key, stored)
        for attempt in (limit, Limit(limit.relations, limit.below, superseded=True)):
            for rule in self.search.rules(relation.name):
                start = self.search.seeded(rule, tuple(range(len(key[1]))), _column(key[1]))
                for found in self.search.solutions(rule.body, start, attempt):
                    if len(found):
                        return self._instance(
                            key, rule, found.take(np.zeros(1, np.int64)), attempt, superseded
                        )
        raise InternalError(f"no rule gives {self.texts.atom(*key)}, which is there")

    def _limit(self, key: Key, stored: Stored | None) -> tuple[Limit, bool]:
        """What a proof of the row may use of its own recursion; and whether the row was replaced since."""
        stratum = self._places[key[0]]
        if not stratum.is_recursive or stored is None:
            return FREE, False
        rank = int(stored.ranks(_column(key[1]))[0])
        superseded = rank < 0
        if superseded:
            rank = int(stored.derived_ranks(_column(key[1]))[0])
        return Limit(frozenset(stratum.relations), rank), superseded

    def _instance(self, key: Key, rule: core.Rule, found: Bindings, limit: Limit, superseded: bool) -> Step:
        name = self.texts.atom(*key)
        base = self.search.program.relations[key[0]].base
        if base is not None and isinstance(rule.body[0], core.Atom) and rule.body[0].relation == base:
            return Step(Kind.FACT, name, key)
        children = self._body(rule.body, found, limit)
        return Step(Kind.RULE, name, key, rule, children, superseded=superseded)

    # Bodies

    def _body(self, body: Sequence[core.Literal], found: Bindings, limit: Limit) -> tuple[Key | Step, ...]:
        """What holds of a body in one binding, in its order; what reads the same is said once."""
        values: Values = {name: int(found.words[place, 0]) for name, place in found.places.items()}
        children: dict[Key | str, Key | Step] = {}
        for literal in body:
            match literal:
                case core.Atom(relation=relation) if relation.startswith("@"):
                    text = self.texts.literal(literal, values)
                    children.setdefault(text, Step(Kind.CONSTRAINT, text))
                case core.Atom():
                    key = self._matched(literal, found, limit)
                    children.setdefault(key, key)
                case core.Negation():
                    text = self.texts.literal(literal, values)
                    children.setdefault(text, Step(Kind.NEGATION, text))
                case core.BodyAggregate():
                    step = self._aggregate(literal, found, values)
                    children.setdefault(step.text, step)
                case core.Comparison() | core.Assignment():
                    text = self.texts.literal(literal, values)
                    children.setdefault(text, Step(Kind.CONSTRAINT, text))
                case _:
                    assert_never(literal)
        children.pop("", None)  # what says nothing
        return tuple(children.values())

    def _matched(self, atom: core.Atom, found: Bindings, limit: Limit) -> Key:
        """The row of a positive atom."""
        for left, rows in self.search.matches(atom, found, limit):
            if left.shape[0]:
                return atom.relation, tuple(rows[:, 0].tolist())
        raise InternalError(f"nothing matches an atom of {atom.relation} that was matched")

    def _aggregate(self, literal: core.BodyAggregate, found: Bindings, values: Values) -> Step:
        """An aggregate with its value, how much it ranges over, and a few rows of that."""
        groups = found.columns([variable.name for variable in literal.groups])
        ranged = self.search.ranged_over(literal, groups)
        order = np.arange(len(ranged))
        if aggregate_named(literal.function).selects and literal.value is not None:
            words, _ = self.search.evaluator.values(literal.value, ranged)
            order = np.argsort(words != values[literal.result.name], kind="stable")
        children: dict[Key | str, Key | Step] = {}
        for position in order[:FEW].tolist():
            one = ranged.take(np.array([position]))
            for child in self._body(counted(literal), one, FREE):
                if not isinstance(child, Step) or child.kind is not Kind.CONSTRAINT:
                    children.setdefault(child.text if isinstance(child, Step) else child, child)
        text = self.texts.literal(literal, values)
        return Step(Kind.AGGREGATE, text, None, None, tuple(children.values()), len(ranged))

    # Aggregates in heads

    def _summed(self, key: Key, relation: core.Relation) -> Step:
        """A row that its relation counts or adds up from what the rules contribute."""
        name, row = key
        places = tuple(place for place, function in enumerate(relation.aggregates) if function is None)
        values = _column(tuple(row[place] for place in places))
        if not places:
            values = np.zeros((0, 1), np.int64)
        count = 0
        few: list[Step] = []
        for rule in self.search.rules(name):
            found = self.search.all_solutions(rule.body, self.search.seeded(rule, places, values))
            count += len(found)
            for position in range(min(len(found), FEW - len(few))):
                one = found.take(np.array([position]))
                few.append(self._contribution(relation, rule, one))
        return Step(Kind.AGGREGATE, self.texts.atom(*key), key, None, tuple(few), count)

    def _contribution(self, relation: core.Relation, rule: core.Rule, one: Bindings) -> Step:
        row = tuple(self.search.head(rule, one)[:, 0].tolist())
        text = self.texts.contribution(relation, row)
        children = self._body(rule.body, one, FREE)
        return Step(Kind.CONTRIBUTION, text, (relation.name, row), rule, children)


def _column(row: tuple[int, ...]) -> Words:
    return np.array(row, np.int64).reshape(-1, 1)


MOST_BINDINGS: Final = 100_000
"""So many values of a rule's variables are followed; of more, these."""


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


MOST_ROWS: Final = 10_000_000
"""Rows that an explanation may look at unless it is allowed more."""
MADE_UP: Final = ("@", GOAL)


class Explainer:
    """Proofs over what a program has in the database, as of the last commit."""

    def __init__(self, installed: Relations) -> None:
        self.installed = installed
        self._program = installed.program
        self._evaluator = Evaluator(installed.engine.executor)
        self._texts = Texts(self._program, self._evaluator.dictionary)
        self._store = Store(installed, self._evaluator)

    def proof(self, name: str, row: Any, limit: int | None = None) -> Proof:
        """Why the row holds; ProgrammingError if it does not, OperationalError beyond ``limit`` rows."""
        key = self._key(name, row)
        builder = self._builder(limit)
        if not builder.holds(key):
            raise ProgrammingError(
                f"{self._texts.atom(*key)} does not hold", hint="explain_absence tells what it lacks"
            )
        return builder.proof(key)

    def absence(self, name: str, row: Any, limit: int | None = None) -> Absence:
        """Why the row does not hold; ProgrammingError if it does, OperationalError beyond ``limit`` rows."""
        key = self._key(name, row)
        builder = self._builder(limit)
        if builder.holds(key):
            raise ProgrammingError(f"{self._texts.atom(*key)} holds", hint="explain_row tells why")
        return absence(builder.search, self._texts, *key)

    def explanation(self, goal: core.Goal, limit: int | None = None) -> Proof | Absence:
        """Why the row that a goal of constants asks for holds, or why not; InterfaceError for other goals."""
        terms = [term for term in goal.terms if isinstance(term, core.Constant)]
        if len(terms) < len(goal.terms) or goal.relation.startswith(GOAL):
            hint = "give one atom with constants: tc(1, 9)"
            raise InterfaceError("only a row of one relation can be explained", hint=hint)
        row = tuple(self._evaluator.constant(term) for term in terms)
        key = goal.relation, row or (0,)
        builder = self._builder(limit)
        return builder.proof(key) if builder.holds(key) else absence(builder.search, self._texts, *key)

    def _key(self, name: str, row: Any) -> Key:
        relations = self._program.relations
        if name not in relations or name.startswith(MADE_UP):
            known = [one for one in relations if not one.startswith(MADE_UP)]
            raise ProgrammingError(f"the program has no relation {name}", hint=did_you_mean(name, known))
        relation = relations[name]
        row = row if relation.columns or row != () else (0,)
        return name, self._words(relation, row)

    def _words(self, relation: core.Relation, row: Any) -> tuple[int, ...]:
        words = from_rows([row], table_schema(relation), self._evaluator.dictionary)
        return tuple(words[:, 0].tolist())

    def _builder(self, limit: int | None) -> Builder:
        self.installed.engine.transactions.check()
        if not self._store.is_current:
            self._store = Store(self.installed, self._evaluator)
        most = MOST_ROWS if limit is None else limit
        search = Search(self._program, self._store, self._evaluator, most)
        explained = partial(external_proof, self.installed.engine)
        return Builder(search, self._texts, self.installed.lowering.strata, explained)
