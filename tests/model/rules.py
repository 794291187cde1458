"""Core Datalog programs from a few lines of text: whole numbers only, nothing checked.

``.input e`` declares an input, ``.decl p(min)`` that the last column is aggregated; all else is found by use.
A lower-case or upper-case name in an atom is a variable, ``_`` a wildcard.
"""

import re
from dataclasses import dataclass, field

from kpg.compiler.rules import core
from kpg.runtime.errors import Span
from kpg.runtime.types import BIGINT

NOWHERE = Span("", 0, 0)
NUMBER = core.ValueType("number", core.Domain.NUMBER, BIGINT)
COMPARISONS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
FUNCTIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
AGGREGATES = ("min", "max", "count", "sum")
TOKEN = re.compile(r"\s*(:-|!=|<=|>=|\?-|-?\d+|[A-Za-z_][A-Za-z_0-9]*|[^\s])")


def program(text: str) -> core.Program:
    """The program; every relation without a rule is an input."""
    reader = _Reader([token for token in TOKEN.findall(text) if token])
    while reader.tokens:
        reader.rule()
    relations = {}
    for name, arity in reader.arities.items():
        derived = any(rule.head.relation == name for rule in reader.rules)
        kind = core.Kind.DERIVED if derived else core.Kind.INPUT
        columns = tuple(core.Column(f"c{place}", NUMBER, BIGINT) for place in range(arity))
        aggregates = reader.aggregates.get(name, ())
        demanded = reader.demanded.get(name, frozenset())
        relations[name] = core.Relation(name, columns, kind, None, aggregates, demanded)
    facts = {name: tuple(rows) for name, rows in reader.facts.items()}
    return core.Program(relations, tuple(reader.rules), facts, (), (), (), (), {}, {})


@dataclass
class _Reader:
    tokens: list[str]
    rules: list[core.Rule] = field(default_factory=list)
    arities: dict[str, int] = field(default_factory=dict)
    aggregates: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    demanded: dict[str, frozenset[int]] = field(default_factory=dict)
    facts: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    def accept(self, *wanted: str) -> bool:
        found = tuple(self.tokens[: len(wanted)]) == wanted
        if found:
            del self.tokens[: len(wanted)]
        return found

    def rule(self) -> None:
        if self.accept(".", "demand"):
            name = self.tokens.pop(0)
            self.demanded[name] = frozenset((int(self.tokens.pop(0)),))
            assert self.accept(".")
            return
        head, aggregates = self.head()
        if any(aggregates):
            self.aggregates[head.relation] = aggregates
        body: tuple[core.Literal, ...] = ()
        if self.accept(":-"):
            body = self.body()
        assert self.accept("."), self.tokens[:8]
        self.rules.append(core.Rule(head, body, NOWHERE))

    def head(self) -> tuple[core.Head, tuple[str | None, ...]]:
        name = self.tokens.pop(0)
        terms: list[core.HeadTerm] = []
        aggregates: list[str | None] = []
        assert self.accept("(")
        while not self.accept(")"):
            function = None
            if self.tokens[0] in AGGREGATES and self.tokens[1] == "(":
                function = self.tokens.pop(0)
                self.accept("(")
            term = self.term()
            assert isinstance(term, core.Variable | core.Constant)
            terms.append(term)
            if function:
                assert self.accept(")")
            aggregates.append(function)
            self.accept(",")
        self.arities.setdefault(name, len(terms))
        found = tuple(aggregates) if any(aggregates) else ()
        return core.Head(name, tuple(terms), NOWHERE), found

    def body(self) -> tuple[core.Literal, ...]:
        literals = [self.literal()]
        while self.accept(","):
            literals.append(self.literal())
        outside = {v.name for one in literals if not isinstance(one, core.BodyAggregate) for v in _named(one)}
        outside |= {one.result.name for one in literals if isinstance(one, core.BodyAggregate)}
        return tuple(_grouped(one, outside) for one in literals)

    def literal(self) -> core.Literal:
        if self.accept("!"):
            return core.Negation(self.atom())
        if len(self.tokens) > 1 and self.tokens[1] == "(":
            return self.atom()
        left = self.expression()
        function = COMPARISONS[self.tokens.pop(0)]
        if self.tokens[0] in AGGREGATES:
            assert isinstance(left, core.Variable)
            return self.aggregate(left)
        right = self.expression()
        is_new = isinstance(left, core.Variable) and left.name.startswith("n")
        if function == "eq" and is_new and isinstance(left, core.Variable):
            return core.Assignment(left, right, NOWHERE)
        return core.Comparison(function, left, right, NOWHERE)

    def aggregate(self, result: core.Variable) -> core.BodyAggregate:
        function = self.tokens.pop(0)
        value = None if self.tokens[0] == ":" else self.expression()
        assert self.accept(":", "{"), self.tokens[:5]
        body = self.body()
        assert self.accept("}")
        return core.BodyAggregate(result, function, value, body, (), NOWHERE)

    def atom(self) -> core.Atom:
        name = self.tokens.pop(0)
        assert self.accept("(")
        terms: list[core.Term] = []
        while not self.accept(")"):
            terms.append(core.Wildcard(BIGINT) if self.accept("_") else self.term())
            self.accept(",")
        self.arities.setdefault(name, len(terms))
        return core.Atom(name, tuple(terms), NOWHERE)

    def term(self) -> core.Variable | core.Constant:
        token = self.tokens.pop(0)
        if re.fullmatch(r"-?\d+", token):
            return core.Constant(int(token), BIGINT)
        return core.Variable(token, BIGINT)

    def expression(self) -> core.Expression:
        left: core.Expression = self.term()
        while self.tokens[0] in FUNCTIONS:
            function = FUNCTIONS[self.tokens.pop(0)]
            left = core.Call(function, (left, self.term()), BIGINT)
        return left


def _named(literal: core.Literal) -> list[core.Variable]:
    return list(core.literal_variables(literal))


def _grouped(literal: core.Literal, outside: set[str]) -> core.Literal:
    if not isinstance(literal, core.BodyAggregate):
        return literal
    inside = {v.name: v for one in literal.body for v in _named(one)}
    groups = tuple(v for name, v in inside.items() if name in outside and name != literal.result.name)
    return core.BodyAggregate(
        literal.result, literal.function, literal.value, literal.body, groups, literal.span
    )
