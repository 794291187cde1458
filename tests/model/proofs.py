"""A checker of proofs that knows nothing of how they are found: every step is applied again by the model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import networkx

from kpg.compiler.rules import core
from kpg.datalog.proof import Kind, Proof
from kpg.runtime.types import Type, float_to_word
from tests.model.datalog import Tuples, _distinct, _Evaluation, _value, _without_wildcards

USED = "/used"
Row = tuple[Any, ...]
OUTSIDE = (Kind.EXTERNAL, Kind.VIEW)
WITH_ROWS = (Kind.FACT, Kind.EXTERNAL, Kind.RULE, Kind.CONTRIBUTION)


def word(value: Any, type_: Type) -> Any:
    """A value of a database as the model has it."""
    if value is None or isinstance(value, str):
        return value
    if type_.is_float:
        return float_to_word(value)
    return int(value.scaleb(type_.scale)) if type_.scale else int(value)


def plain(row: Row, types: Sequence[Type]) -> Row:
    """A row of a database as the model has it."""
    return tuple(word(value, type_) for value, type_ in zip(row, types, strict=True))


class Checker:
    """Checks proofs of one program; ``whole`` are all its relations, by the model."""

    def __init__(self, program: core.Program, whole: Mapping[str, Tuples]) -> None:
        self.program = program
        self.whole = whole
        self.evaluation = _Evaluation(program, whole)

    def check(self, proof: Proof) -> None:
        """Every node follows from its children, leaves are facts, and no row is below itself."""
        graph: Any = networkx.DiGraph()
        for node in proof.nodes():
            graph.add_node(_name(node))
            graph.add_edges_from((_name(node), _name(child)) for child in node.children)
            self.node(node)
        assert networkx.is_directed_acyclic_graph(graph), proof
        rows = [_name(node) for node in proof.nodes() if node.kind in (Kind.FACT, Kind.EXTERNAL, Kind.RULE)]
        assert len(rows) == len(set(rows)), proof

    def node(self, node: Proof) -> None:
        """One node with its children."""
        match node.kind:
            case Kind.FACT | Kind.EXTERNAL:
                assert not node.children
                assert self.row(node) in self.facts(node), node.text
            case Kind.RULE:
                relation = self.relation(node)
                assert (self.row(node) in self.whole[relation.name]) is not node.superseded, node.text
                assert not node.superseded or any(
                    any(one.aggregates) for one in self.program.relations.values()
                )
                assert next(self.instances(node), None) is not None, node.tree(depth=2)
            case Kind.VIEW if node.relation is not None:  # a SQL view's row, with what SQL says of it below
                assert self.row(node) in self.facts(node), node.text
            case Kind.CONTRIBUTION:
                assert next(self.instances(node), None) is not None, node.tree(depth=2)
            case Kind.AGGREGATE if node.relation is not None:
                self.summed(node)
            case _:
                assert all(child.kind is not Kind.CONSTRAINT for child in node.children)

    def relation(self, node: Proof) -> core.Relation:
        assert node.relation is not None
        return self.program.relations[node.relation]

    def row(self, node: Proof) -> Row:
        assert node.row is not None
        types = [
            column.stored_type if node.kind in OUTSIDE else column.type.type
            for column in self.relation(node).columns
        ]
        return plain(node.row, types)

    def facts(self, node: Proof) -> Tuples:
        """What is given: of a relation with rules too, its facts."""
        relation = self.relation(node)
        kinds = {Kind.FACT: core.Kind.INPUT, **dict.fromkeys(OUTSIDE, core.Kind.EXTERNAL)}
        if relation.base is not None:
            return self.whole[relation.base]
        assert relation.kind is kinds[node.kind]
        if relation.kind is core.Kind.EXTERNAL:
            # The row is in the types that the program has it in.
            types = [(column.stored_type, column.type.type) for column in relation.columns]
            return frozenset(
                tuple(_cast(value, stored, type_) for value, (stored, type_) in zip(row, types, strict=True))
                for row in self.whole[relation.name]
            )
        return self.whole[relation.name]

    def instances(self, node: Proof) -> Iterator[dict[str, Any]]:
        """The bindings with which a rule gives the node's row of its children's, aggregates agreeing."""
        assert node.rule is not None and node.relation is not None
        used: dict[str, set[Row]] = {}
        for child in node.children:
            of_program = child.kind in (Kind.AGGREGATE, Kind.VIEW) and child.relation is not None
            if child.kind in WITH_ROWS or of_program:
                assert child.relation is not None
                used.setdefault(child.relation, set()).add(self.row(child))
        known = {**self.whole, **{name + USED: frozenset(rows) for name, rows in used.items()}}
        for rule in self.program.rules:
            if rule.head.relation == node.relation and rule.span == node.rule.span:
                yield from self.matching(node, rule, known)

    def matching(self, node: Proof, rule: core.Rule, known: dict[str, Tuples]) -> Iterator[dict[str, Any]]:
        atoms = [one for one in rule.body if isinstance(one, core.Atom) and not one.relation.startswith("@")]
        relations = dict(self.program.relations)
        for atom in atoms:
            known.setdefault(atom.relation + USED, frozenset())
            relations[atom.relation + USED] = relations[atom.relation]
        body = [replace(one, relation=one.relation + USED) if one in atoms else one for one in rule.body]
        evaluation = _Evaluation(replace(self.program, relations=relations), known)
        counts = Counter(
            child.count for child in node.children if child.kind is Kind.AGGREGATE and not child.relation
        )
        negations = {one.atom.relation for one in rule.body if isinstance(one, core.Negation)}
        shown = {child.text[1:].split("(")[0] for child in node.children if child.kind is Kind.NEGATION}
        if shown != negations:
            return
        for binding in evaluation.body(body, {}):
            head = tuple(_value(term, binding) for term in rule.head.terms)
            if head == self.row(node) and self.counts(rule, binding) == counts:
                yield binding

    def counts(self, rule: core.Rule, binding: dict[str, Any]) -> Counter[Any]:
        """How many bindings each of the body's aggregates ranges over; equal aggregates are shown once."""
        found: dict[Any, int] = {}
        for one in rule.body:
            if isinstance(one, core.BodyAggregate):
                start = {variable.name: binding[variable.name] for variable in one.groups}
                ranged = _distinct(self.evaluation.body(_without_wildcards(one.body), start))
                found[binding[one.result.name], one.span] = len(ranged)
        return Counter(found.values())

    def summed(self, node: Proof) -> None:
        """A row that is counted or added up of all that the rules contribute."""
        relation, row = self.relation(node), self.row(node)
        keys = [place for place, function in enumerate(relation.aggregates) if function is None]
        rows: list[Row] = []
        for rule in self.program.rules:
            if rule.head.relation == relation.name:
                for binding in _distinct(self.evaluation.body(rule.body, {})):
                    made = tuple(_value(term, binding) for term in rule.head.terms)
                    if all(made[place] == row[place] for place in keys):
                        rows.append(made)
        assert row in self.whole[relation.name]
        assert node.count == len(rows) and len(node.children) == min(3, len(rows))
        assert all(child.kind is Kind.CONTRIBUTION and self.row(child) in rows for child in node.children)


def _cast(value: Any, stored: Type, type_: Type) -> Any:
    from tests.model.datalog import _cast as cast

    return None if value is None else cast(value, stored, type_)


def _name(node: Proof) -> Any:
    """What must not be below itself: a row, or another node by identity."""
    return (node.relation, node.row) if node.kind in (Kind.FACT, Kind.EXTERNAL, Kind.RULE) else id(node)
