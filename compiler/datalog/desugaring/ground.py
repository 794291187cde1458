"""Which variables of a rule are bound, and by what: equalities become assignments or tests.

A variable is bound by a positive atom, by an equality with an expression whose variables are bound, as a
field of a record that is, or as the result of an aggregate whose groups are. What is left over is an error.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from itertools import count
from typing import assert_never

from kpg.compiler.datalog.desugaring import structures, substitute
from kpg.compiler.datalog.desugaring.collect import collect, values_of
from kpg.compiler.datalog.desugaring.equate import equate
from kpg.compiler.datalog.desugaring.normal import (
    UNNAMED,
    Grounded,
    NormalAggregate,
    NormalLiteral,
    NormalRule,
    Range,
)
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.flatten import written
from kpg.compiler.datalog.typing.types import TypeTable
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negation,
    Parameter,
    Variable,
    variables,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class GroundRule:
    """A rule whose variables are bound; its head's terms may still be expressions over them."""

    rule: NormalRule
    terms: tuple[Expression, ...]
    body: tuple[Grounded, ...]


def ground(
    rule: NormalRule,
    table: TypeTable,
    diagnostics: Diagnostics,
    given: frozenset[str] = frozenset(),
) -> GroundRule | None:
    """The rule with its equalities oriented; None if a variable is not bound. ``given`` variables are."""
    needed = frozenset(variable.name for part in rule.terms for variable in variables(part))
    terms, body = equate(rule.terms, rule.body, given)
    run = _Ground(rule, table, diagnostics)
    made = run.scope(body, given, needed | frozenset(v.name for t in terms for v in variables(t)))
    run.check_bound((variable for part in terms for variable in variables(part)), run.bound_by(made) | given)
    if run.failed:
        return None
    return GroundRule(rule, terms, made)


@dataclass(slots=True)
class _Ground:
    rule: NormalRule
    table: TypeTable
    diagnostics: Diagnostics
    failed: bool = False
    blamed: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def scope(
        self, body: tuple[NormalLiteral, ...], outer: frozenset[str], needed: frozenset[str]
    ) -> tuple[Grounded, ...]:
        """A conjunction in which ``outer`` variables are bound outside; ``needed`` ones are used outside."""
        run = _Scope(self, body, outer)
        run.orient()
        uses = [variable.name for one in body for variable in substitute.everywhere(one)]
        unnamed = {name for name in set(uses) if name.startswith(UNNAMED) and uses.count(name) == 1} - needed
        self._report(run)
        return tuple(one for one in run.out if not _binds_one_of(one, unnamed))

    def _report(self, run: "_Scope") -> None:
        """Notes what could not be bound."""
        used = [variable for one in run.body for variable in substitute.direct(one)]
        self._check_aggregates(run)
        self.check_bound(used, run.bound)

    def _check_aggregates(self, run: "_Scope") -> None:
        waiting = [one for one in run.waiting if isinstance(one, NormalAggregate)]
        results = {name: one for one in waiting for name in run.results_of(one)}
        for one in waiting:
            missing = run.groups(one) - run.bound
            cyclic = sorted(missing & results.keys())
            if cyclic:
                if not missing <= self.blamed:
                    whose = "its own result" if run.results_of(one) & missing else "each other's results"
                    what = "an aggregate depends" if whose.startswith("its") else "aggregates depend"
                    self.error("witness", f"{what} on {whose}", one.span)
                self.blamed |= results.keys()
                continue
            for name in sorted(missing):
                self._witness(name, one.span)
            self.blamed |= set(run.results_of(one))

    def _witness(self, name: str, span: Span) -> None:
        if name in self.blamed:
            return
        self.blamed.add(name)
        shown = written(name)
        message = f"variable {shown} is used outside of the aggregate, which does not bind it there"
        hint = f"bind {shown} by an atom outside of the aggregate, or name it differently inside"
        self.error("witness", message, span, hint)

    def check_bound(self, used: Iterable[Variable], bound: frozenset[str] | set[str]) -> None:
        """Notes variables that are not bound, each once."""
        for variable in used:
            self.failed = self.failed or variable.name not in bound
            name = variable.name
            if name in bound or name in self.blamed:
                continue
            self.blamed.add(name)
            span = self.rule.places.get(name, self.rule.span)
            if name.startswith(UNNAMED):
                self.error("underscore", "an underscore cannot stand here", span)
            elif name.startswith("@"):
                continue
            else:
                hint = "every variable has to occur in a positive atom, or be equal to what is bound"
                self.error("ungrounded", f"ungrounded variable {written(name)}", span, hint)

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.failed = True
        self.diagnostics.error(code, message, span, hint=hint)

    @staticmethod
    def bound_by(body: tuple[Grounded, ...]) -> frozenset[str]:
        """The variables that the literals of a body bind."""
        return frozenset(variable.name for one in body for variable in substitute.bound_by(one))

    def fresh(self, like: Expression, span: Span) -> Variable:
        """A made-up variable of an expression's type."""
        variable = Variable(f"@g{next(self.numbers)}", like.type)
        self.rule.places[variable.name] = span
        return variable


@dataclass(slots=True)
class _Scope:
    """One conjunction while its literals are put in an order in which they can be evaluated."""

    run: _Ground
    body: tuple[NormalLiteral, ...]
    outer: frozenset[str]
    bound: set[str] = field(default_factory=set)
    out: list[Grounded] = field(default_factory=list)
    waiting: list[NormalLiteral] = field(default_factory=list)

    def orient(self) -> None:
        """Fills ``out``, ``bound``, and ``waiting`` with what nothing binds."""
        self.bound = set(self.outer)
        for one in self.body:
            if isinstance(one, Atom):
                self.out.append(one)
                self.bound |= {variable.name for variable in substitute.direct(one)}
        self.waiting = [one for one in self.body if not isinstance(one, Atom)]
        progress = True
        while progress:
            items, self.waiting = self.waiting, []
            left = [one for one in items if not self._place(one)]
            progress = len(left) < len(items)
            self.waiting = [*left, *self.waiting]

    def _place(self, one: NormalLiteral) -> bool:
        """Puts a literal behind those that bind what it needs, if they are there."""
        match one:
            case Comparison(function="eq", negated=False):
                return self._equality(one)
            case Range(variable=variable, args=args):
                return self._range(one, variable, args)
            case NormalAggregate():
                return self._aggregate(one)
            case BodyAggregate():
                raise AssertionError(one)
            case Atom() | Negation() | Comparison() | Assignment():
                if not self._known(*substitute.direct(one)):
                    return False
                self.out.append(self._encoded(one))
                return True
            case _:
                assert_never(one)

    def _known(self, *parts: Expression) -> bool:
        return all(variable.name in self.bound for part in parts for variable in variables(part))

    def _encode(self, expression: Expression) -> Expression:
        return structures.encode(expression, self.run.table)

    def _encoded(self, one: Literal) -> Literal:
        if isinstance(one, Comparison):
            return replace(one, left=self._encode(one.left), right=self._encode(one.right))
        return one

    def _equality(self, one: Comparison) -> bool:
        left, right = one.left, one.right
        if self._known(left) and not self._known(right):
            left, right = right, left
        if not self._known(right):
            return False
        if self._known(left):
            if left != right:
                self.out.append(self._encoded(one))
        elif isinstance(left, Variable):
            self._assign(left, right, one.span)
        elif isinstance(left, Call) and structures.is_structure(left):
            self._take_apart(left, right, one.span)
        else:
            return False
        return True

    def _assign(self, variable: Variable, value: Expression, span: Span) -> None:
        self.out.append(Assignment(variable, self._encode(value), span))
        self.bound.add(variable.name)

    def _take_apart(self, pattern: Call, value: Expression, span: Span) -> None:
        """The pattern's variables are fields of the value."""
        value = self._encode(value)
        if not isinstance(value, Variable | Constant | Parameter):
            variable = self.run.fresh(value, span)
            self._assign(variable, value, span)
            value = variable
        branch, name = structures.condition(pattern, value, self.run.table)
        self.out.append(Comparison("eq", branch, name, span))
        for arg, read in structures.fields(pattern, value, self.run.table):
            self.waiting.append(Comparison("eq", arg, read, span))

    def _range(self, one: Range, variable: Variable, args: tuple[Expression, ...]) -> bool:
        if not self._known(*args):
            return False
        encoded = tuple(self._encode(arg) for arg in args)
        self.out.append(replace(one, variable=self._new(variable, one.span), args=encoded))
        return True

    def _new(self, variable: Variable, span: Span) -> Variable:
        """The variable to bind: a made-up one, to be compared, if this one is bound already."""
        made = variable
        if variable.name in self.bound:
            made = self.run.fresh(variable, span)
            self.waiting.append(Comparison("eq", made, variable, span))
        self.bound.add(made.name)
        return made

    def groups(self, one: NormalAggregate) -> set[str]:
        """The variables of an aggregate that the enclosing bodies have too."""
        inner = {variable.name for variable in substitute.everywhere(one)} - {one.result.name}
        return inner & (self._mentioned() | self.outer)

    def _mentioned(self) -> set[str]:
        """The variables of this conjunction and of the head."""
        names = {variable.name for one in self.body for variable in substitute.direct(one)}
        return names | {variable.name for part in self.run.rule.terms for variable in variables(part)}

    def results_of(self, one: NormalAggregate) -> set[str]:
        """What an aggregate would bind: its result, and what is equal to that."""
        names = {one.result.name}
        for other in self.waiting:
            if isinstance(other, Comparison) and other.function == "eq":
                parts = {variable.name for variable in substitute.direct(other)}
                if parts & names:
                    names |= parts
        return names

    def _aggregate(self, one: NormalAggregate) -> bool:
        groups = self.groups(one)
        if not groups <= self.bound:
            return False
        types = {variable.name: variable for part in one.literals for variable in substitute.everywhere(part)}
        types |= {variable.name: variable for part in values_of(one) for variable in variables(part)}
        shared = tuple(types[name] for name in sorted(groups))
        made = collect(self.run, one, shared, types)
        self.out.append(replace(made, result=self._new(one.result, one.span)))
        return True


def _binds_one_of(one: Grounded, names: set[str]) -> bool:
    return isinstance(one, Assignment) and one.variable.name in names
