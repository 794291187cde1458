"""Proof builder: for each row a rule and the rows of its body, down to facts.

``explain_absence`` explains a row that does not hold, by the failing literal of each rule.
``Explainer`` answers both questions for one program.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.rules import core
from kpg.compiler.rules.core import is_duplicate_sensitive
from kpg.compiler.rules.strata import Stratum
from kpg.datalog.installation import GOAL_PREFIX, ProgramRelations
from kpg.datalog.program_plans import table_schema
from kpg.datalog.proof.rule_bindings import Bindings, Evaluator
from kpg.datalog.proof.rule_search import (
    NO_LIMIT,
    SEED_VARIABLE,
    BodySearch,
    RankLimit,
    RelationStore,
    StoredRelation,
    name_wildcards,
)
from kpg.datalog.proof.rule_text import ProofTexts, Values, rule_source, source_text
from kpg.provenance.explain_row import external_proof
from kpg.provenance.proof_tree import Absence, Failure, Kind, Proof, RuleText
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.errors import InterfaceError, InternalError, ProgrammingError, Span
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.records import dataclass

MAX_EXAMPLES: Final = 3
"""Maximum number of example rows in an aggregate's proof."""


Words = NDArray[np.int64]
RowKey = tuple[str, tuple[int, ...]]
"""A relation and the words of one of its rows."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A proof node whose children are not proved yet. A child is a row to prove, or a step of its own."""

    kind: Kind
    text: str
    key: RowKey | None = None
    rule: core.Rule | None = None
    children: "tuple[RowKey | ProofStep, ...]" = ()
    count: int | None = None
    superseded: bool = False
    proof: Proof | None = None
    """The complete proof of a row of a SQL view."""

    def pending_rows(self) -> Iterator[RowKey]:
        """Yield the rows that need proofs."""
        for child in self.children:
            if isinstance(child, ProofStep):
                yield from child.pending_rows()
            else:
                yield child


@dataclass(slots=True)
class ProofBuilder:
    """Builds proofs of a program's rows. A row has one proof, however often it is used."""

    search: BodySearch
    texts: ProofTexts
    strata: Sequence[Stratum]
    explain_external: Callable[[str, tuple[int, ...]], Proof | None]
    """Returns the proof of a row of a SQL view, or None for other relations."""
    steps: dict[RowKey, ProofStep] = field(default_factory=dict)
    _stratum_of: dict[str, Stratum] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stratum_of = {name: stratum for stratum in self.strata for name in stratum.relations}

    def holds(self, key: RowKey) -> bool:
        """Return whether the relation has the row."""
        values = _column(key[1])
        positions = tuple(range(values.shape[0]))
        stored = self.search.store.relation(key[0])
        if stored is not None:
            return int(stored.ranks(values)[0]) >= 0
        return any(left.shape[0] for left, _ in self.search.relation_matches(key[0], positions, values))

    def proof(self, goal: RowKey) -> Proof:
        """Return the proof of a row that holds."""
        pending = [goal]
        while pending:
            key = pending.pop()
            if key not in self.steps:
                self.steps[key] = self._prove_row(key)
                pending += [child for child in self.steps[key].pending_rows() if child not in self.steps]
        return self._assemble(goal)

    def _assemble(self, goal: RowKey) -> Proof:
        """Build the proof of a row from the steps. Children are built before their parents."""
        proofs: dict[RowKey, Proof] = {}
        pending = [goal]
        while pending:
            key = pending[-1]
            missing = [child for child in self.steps[key].pending_rows() if child not in proofs]
            if missing:
                pending += missing
            else:
                pending.pop()
                if key not in proofs:
                    proofs[key] = self._build_node(self.steps[key], proofs)
        return proofs[goal]

    def _build_node(self, step: ProofStep, proofs: dict[RowKey, Proof]) -> Proof:
        if step.proof is not None:
            return replace(step.proof, text=step.text)
        children = tuple(
            self._build_node(child, proofs) if isinstance(child, ProofStep) else proofs[child]
            for child in step.children
        )
        name, row = (None, None) if step.key is None else (step.key[0], self.texts.row(*step.key))
        relations = self.search.program.relations
        rule = None if step.rule is None else rule_source(step.rule, relations[step.rule.head.relation])
        return Proof(step.kind, step.text, name, row, rule, children, step.count, step.superseded)

    # One row

    def _prove_row(self, key: RowKey) -> ProofStep:
        relation = self.search.program.relations[key[0]]
        if relation.kind is core.Kind.INPUT:
            return ProofStep(Kind.FACT, self.texts.atom(*key), key)
        if relation.kind is core.Kind.EXTERNAL:
            return ProofStep(Kind.EXTERNAL, self.texts.atom(*key), key, proof=self.explain_external(*key))
        if is_duplicate_sensitive(relation.aggregates):
            return self._prove_aggregated_row(key, relation)
        return self._prove_by_rule(key, relation)

    def _prove_by_rule(self, key: RowKey, relation: core.Relation) -> ProofStep:
        """Prove a row by the first rule that derives it from rows of lower rank."""
        stored = self.search.store.relation(relation.name)
        limit, superseded = self._rank_limit(key, stored)
        for attempt in (limit, RankLimit(limit.relations, limit.below, superseded=True)):
            for rule in self.search.rules(relation.name):
                start = self.search.bind_head(rule, tuple(range(len(key[1]))), _column(key[1]))
                for solution in self.search.solutions(rule.body, start, attempt):
                    if len(solution):
                        return self._rule_instance(
                            key, rule, solution.take(np.zeros(1, np.int64)), attempt, superseded
                        )
        raise InternalError(f"no rule derives the present row {self.texts.atom(*key)}")

    def _rank_limit(self, key: RowKey, stored: StoredRelation | None) -> tuple[RankLimit, bool]:
        """Return the limit on rows of the row's own recursion, and whether the row is superseded."""
        stratum = self._stratum_of[key[0]]
        if not stratum.is_recursive or stored is None:
            return NO_LIMIT, False
        rank = int(stored.ranks(_column(key[1]))[0])
        superseded = rank < 0
        if superseded:
            rank = int(stored.ranks_with_superseded(_column(key[1]))[0])
        return RankLimit(frozenset(stratum.relations), rank), superseded

    def _rule_instance(
        self, key: RowKey, rule: core.Rule, solution: Bindings, limit: RankLimit, superseded: bool
    ) -> ProofStep:
        name = self.texts.atom(*key)
        base = self.search.program.relations[key[0]].base
        if base is not None and isinstance(rule.body[0], core.Atom) and rule.body[0].relation == base:
            return ProofStep(Kind.FACT, name, key)
        children = self._prove_body(rule.body, solution, limit)
        return ProofStep(Kind.RULE, name, key, rule, children, superseded=superseded)

    # Bodies

    def _prove_body(
        self, body: Sequence[core.Literal], binding: Bindings, limit: RankLimit
    ) -> tuple[RowKey | ProofStep, ...]:
        """Return the children for a body in one binding, in its order. Equal texts occur once."""
        values: Values = {
            name: int(binding.words[position, 0]) for name, position in binding.positions.items()
        }
        children: dict[RowKey | str, RowKey | ProofStep] = {}
        for literal in body:
            match literal:
                case core.Atom(relation=relation) if relation.startswith("@"):
                    text = self.texts.literal(literal, values)
                    children.setdefault(text, ProofStep(Kind.CONSTRAINT, text))
                case core.Atom():
                    key = self._matching_row(literal, binding, limit)
                    children.setdefault(key, key)
                case core.Negation():
                    text = self.texts.literal(literal, values)
                    children.setdefault(text, ProofStep(Kind.NEGATION, text))
                case core.BodyAggregate():
                    step = self._prove_aggregate(literal, binding, values)
                    children.setdefault(step.text, step)
                case core.Comparison() | core.Assignment():
                    text = self.texts.literal(literal, values)
                    children.setdefault(text, ProofStep(Kind.CONSTRAINT, text))
                case _:
                    assert_never(literal)
        children.pop("", None)  # literals without information
        return tuple(children.values())

    def _matching_row(self, atom: core.Atom, binding: Bindings, limit: RankLimit) -> RowKey:
        """Return the row that a positive atom matches."""
        for left, rows in self.search.matches(atom, binding, limit):
            if left.shape[0]:
                return atom.relation, tuple(rows[:, 0].tolist())
        raise InternalError(f"nothing matches an atom of {atom.relation} that was matched")

    def _prove_aggregate(self, literal: core.BodyAggregate, binding: Bindings, values: Values) -> ProofStep:
        """Return an aggregate's step: its value, the number of its inputs, and a few of them."""
        groups = binding.columns([variable.name for variable in literal.groups])
        inputs = self.search.aggregate_inputs(literal, groups)
        order = np.arange(len(inputs))
        if lookup_aggregate(literal.function).selects_operand and literal.value is not None:
            words, _ = self.search.evaluator.values(literal.value, inputs)
            order = np.argsort(words != values[literal.result.name], kind="stable")
        children: dict[RowKey | str, RowKey | ProofStep] = {}
        for position in order[:MAX_EXAMPLES].tolist():
            example = inputs.take(np.array([position]))
            for child in self._prove_body(name_wildcards(literal), example, NO_LIMIT):
                if not isinstance(child, ProofStep) or child.kind is not Kind.CONSTRAINT:
                    children.setdefault(child.text if isinstance(child, ProofStep) else child, child)
        text = self.texts.literal(literal, values)
        return ProofStep(Kind.AGGREGATE, text, None, None, tuple(children.values()), len(inputs))

    # Aggregates in heads

    def _prove_aggregated_row(self, key: RowKey, relation: core.Relation) -> ProofStep:
        """Return the step of a row that counts or adds up the contributions of rules."""
        name, row = key
        key_positions = tuple(
            column for column, function in enumerate(relation.aggregates) if function is None
        )
        values = _column(tuple(row[column] for column in key_positions))
        if not key_positions:
            values = np.zeros((0, 1), np.int64)
        count = 0
        examples: list[ProofStep] = []
        for rule in self.search.rules(name):
            solutions = self.search.all_solutions(
                rule.body, self.search.bind_head(rule, key_positions, values)
            )
            count += len(solutions)
            for position in range(min(len(solutions), MAX_EXAMPLES - len(examples))):
                example = solutions.take(np.array([position]))
                examples.append(self._prove_contribution(relation, rule, example))
        return ProofStep(Kind.AGGREGATE, self.texts.atom(*key), key, None, tuple(examples), count)

    def _prove_contribution(self, relation: core.Relation, rule: core.Rule, binding: Bindings) -> ProofStep:
        row = tuple(self.search.head_values(rule, binding)[:, 0].tolist())
        text = self.texts.contribution(relation, row)
        children = self._prove_body(rule.body, binding, NO_LIMIT)
        return ProofStep(Kind.CONTRIBUTION, text, (relation.name, row), rule, children)


def _column(row: tuple[int, ...]) -> Words:
    return np.array(row, np.int64).reshape(-1, 1)


MAX_BINDINGS: Final = 100_000
"""Maximum number of bindings of a rule's variables that an absence follows."""


def explain_absence(search: BodySearch, texts: ProofTexts, name: str, row: tuple[int, ...]) -> Absence:
    """Return the explanation of a row that does not hold."""
    relation = search.program.relations[name]
    text, values = texts.atom(name, row), texts.row(name, row)
    if any(relation.aggregates):
        present = tuple(texts.atom(name, other) for other in _rows_with_same_key(search, relation, row))
        if present:
            return Absence(text, name, values, (), present)
    failures = tuple(
        _explain_failure(search, texts, relation, rule, row) for rule in _user_rules(search, relation)
    )
    return Absence(text, name, values, failures)


def _user_rules(search: BodySearch, relation: core.Relation) -> Sequence[core.Rule]:
    """Return the rules of the program's text."""
    return [rule for rule in search.rules(relation.name) if not _copies_facts(rule, relation)]


def _copies_facts(rule: core.Rule, relation: core.Relation) -> bool:
    return any(isinstance(literal, core.Atom) and literal.relation == relation.base for literal in rule.body)


def _key_positions(relation: core.Relation) -> tuple[int, ...]:
    functions = relation.aggregates or (None,) * len(relation.columns)
    return tuple(position for position, function in enumerate(functions) if function is None)


def _rows_with_same_key(
    search: BodySearch, relation: core.Relation, row: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    key_positions = _key_positions(relation)
    values = np.array([row[position] for position in key_positions], np.int64).reshape(len(key_positions), 1)
    for _, rows in search.relation_matches(relation.name, key_positions, values):
        yield from (tuple(row_) for row_ in rows[:, :MAX_EXAMPLES].T.tolist())


def _explain_failure(
    search: BodySearch, texts: ProofTexts, relation: core.Relation, rule: core.Rule, row: tuple[int, ...]
) -> Failure:
    key_positions = _key_positions(relation)
    values = np.array([row[position] for position in key_positions], np.int64).reshape(len(key_positions), 1)
    rows = search.bind_head(rule, key_positions, values)
    text = rule_source(rule, relation)
    if not len(rows):
        return Failure(text, (), None, 0)
    rest, satisfied = list(rule.body), list[core.Literal]()
    while rest:
        literal = search.next_literal(rest, rows)
        after = _satisfy(search, literal, rows)
        if not len(after):
            return _literal_failure(texts, text, rows, satisfied, literal, texts.atom(relation.name, row))
        rest.remove(literal)
        satisfied.append(literal)
        rows = after
    return Failure(text, (), None, len(rows))


def _satisfy(search: BodySearch, literal: core.Literal, rows: Bindings) -> Bindings:
    """Return at most about ``MAX_BINDINGS`` bindings that also satisfy the literal."""
    result: Bindings | None = None
    for chunk in search.extend(literal, rows, NO_LIMIT):
        if result is None or not len(result):
            result = chunk
        elif len(chunk):
            names = list(result.positions)
            words = np.concatenate((result.columns(names), chunk.columns(names)), axis=1)
            result = Bindings({name: position for position, name in enumerate(names)}, words)
        if len(result) >= MAX_BINDINGS:
            break
    return rows.take(np.empty(0, np.int64)) if result is None else result


def _literal_failure(
    texts: ProofTexts,
    rule: RuleText,
    rows: Bindings,
    satisfied: Sequence[core.Literal],
    literal: core.Literal,
    goal: str,
) -> Failure:
    """Return the failure of a literal. If it computes a head term, the text shows the ``goal`` atom."""
    values = {
        name: int(rows.words[position, 0])
        for name, position in rows.positions.items()
        if name != SEED_VARIABLE
    }
    holds = dict.fromkeys(text for other in satisfied if (text := texts.literal(other, values)))
    fails = texts.literal(literal, values) or f"{goal} = {source_text(_literal_span(literal))}"
    return Failure(rule, tuple(holds), fails, len(rows))


def _literal_span(literal: core.Literal) -> Span:
    return literal.atom.span if isinstance(literal, core.Negation) else literal.span


DEFAULT_MAX_ROWS: Final = 10_000_000
"""Default maximum number of rows that an explanation reads."""
GENERATED_PREFIXES: Final = ("@", GOAL_PREFIX)
"""Prefixes of generated relations."""


class Explainer:
    """Explains rows of a program, as of the last commit."""

    def __init__(self, installed: ProgramRelations) -> None:
        self.installation = installed
        self._program = installed.program
        self._evaluator = Evaluator(installed.engine.executor)
        self._texts = ProofTexts(self._program, self._evaluator.dictionary)
        self._store = RelationStore(installed, self._evaluator)

    def proof(self, name: str, row: Any, limit: int | None = None) -> Proof:
        """Return the proof of a row.

        Raises ProgrammingError if the row does not hold, OperationalError after reading ``limit`` rows.
        """
        key = self._row_key(name, row)
        builder = self._new_builder(limit)
        if not builder.holds(key):
            raise ProgrammingError(
                f"{self._texts.atom(*key)} does not hold", hint="explain_absence shows the reason"
            )
        return builder.proof(key)

    def absence(self, name: str, row: Any, limit: int | None = None) -> Absence:
        """Explain why a row does not hold.

        Raises ProgrammingError if it holds, OperationalError after reading ``limit`` rows.
        """
        key = self._row_key(name, row)
        builder = self._new_builder(limit)
        if builder.holds(key):
            raise ProgrammingError(f"{self._texts.atom(*key)} holds", hint="explain_row shows the proof")
        return explain_absence(builder.search, self._texts, *key)

    def explanation(self, goal: core.Goal, limit: int | None = None) -> Proof | Absence:
        """Explain why the row of a goal of constants holds or does not hold.

        Raises InterfaceError for other goals.
        """
        terms = [term for term in goal.terms if isinstance(term, core.Constant)]
        if len(terms) < len(goal.terms) or goal.relation.startswith(GOAL_PREFIX):
            hint = "give one atom with constants: tc(1, 9)"
            raise InterfaceError("only a row of one relation can be explained", hint=hint)
        row = tuple(self._evaluator.constant(term) for term in terms)
        key = goal.relation, row or (0,)
        builder = self._new_builder(limit)
        return (
            builder.proof(key) if builder.holds(key) else explain_absence(builder.search, self._texts, *key)
        )

    def _row_key(self, name: str, row: Any) -> RowKey:
        relations = self._program.relations
        if name not in relations or name.startswith(GENERATED_PREFIXES):
            declared = [
                relation_name
                for relation_name in relations
                if not relation_name.startswith(GENERATED_PREFIXES)
            ]
            raise ProgrammingError(f"the program has no relation {name}", hint=did_you_mean(name, declared))
        relation = relations[name]
        row = row if relation.columns or row != () else (0,)
        return name, self._encode_row(relation, row)

    def _encode_row(self, relation: core.Relation, row: Any) -> tuple[int, ...]:
        words = from_rows([row], table_schema(relation), self._evaluator.dictionary)
        return tuple(words[:, 0].tolist())

    def _new_builder(self, limit: int | None) -> ProofBuilder:
        self.installation.engine.transactions.check_not_failed()
        if not self._store.is_current:
            self._store = RelationStore(self.installation, self._evaluator)
        max_rows = DEFAULT_MAX_ROWS if limit is None else limit
        search = BodySearch(self._program, self._store, self._evaluator, max_rows)
        explain_external = partial(external_proof, self.installation.engine)
        return ProofBuilder(search, self._texts, self.installation.lowering.strata, explain_external)
