"""Groundness: which variables of a rule are bound, and the orientation of equalities as assignments or tests.

A variable is bound by a positive atom, by an equality with a bound expression, as a field of a bound record,
or as the result of an aggregate with bound groups. An unbound variable is an error. Equalities between
variables, or of a variable and a constant, are eliminated by substitution. The body of an aggregate stays in
place if it is one conjunction; otherwise it becomes rules of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import count
from typing import Protocol, assert_never

from kpg.compiler.datalog.desugar import constants, normal_rules
from kpg.compiler.datalog.desugar.constants import is_structure
from kpg.compiler.datalog.desugar.normal_rules import (
    INLINED,
    UNNAMED,
    Collected,
    Grounded,
    NormalAggregate,
    NormalLiteral,
    NormalRule,
    Range,
)
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.flatten import LOCAL, written
from kpg.compiler.datalog.types.declarations import TypeTable
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
    Wildcard,
    counts_repeats,
    replacing,
    variables,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


def equate(
    terms: tuple[Expression, ...], body: tuple[NormalLiteral, ...], fixed: frozenset[str]
) -> tuple[tuple[Expression, ...], tuple[NormalLiteral, ...]]:
    """The terms and the body without equalities that substitution can do.

    ``fixed`` variables keep their names, for they are known outside; records that are equal are so by field.
    """
    pending = [part for one in body for part in _split(one)]
    position = 0
    while position < len(pending):
        one = pending[position]
        found = _replacement(one, fixed, _inside(pending)) if isinstance(one, Comparison) else None
        if found is None:
            position += 1
            continue
        name, value = found
        change = replacing({name: value})
        terms = tuple(change(term) for term in terms)
        rest = (*pending[:position], *pending[position + 1 :])
        pending = [part for other in rest for part in _split(normal_rules.literal(other, change))]
        position = 0
    return terms, tuple(pending)


def _inside(body: list[NormalLiteral]) -> dict[str, set[str]]:
    """Of each variable that an aggregate or range binds, the variables that this is computed from."""
    found: dict[str, set[str]] = {}
    for one in body:
        match one:
            case NormalAggregate(result=result, value=value):
                names = {variable.name for part in one.literals for variable in normal_rules.everywhere(part)}
                names |= {variable.name for variable in variables(value)} if value is not None else set()
                found.setdefault(result.name, set()).update(names)
            case Range(variable=variable, args=args):
                found.setdefault(variable.name, set()).update(v.name for arg in args for v in variables(arg))
            case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate():
                pass
            case _:
                assert_never(one)
    return found


def _split(one: NormalLiteral) -> list[NormalLiteral]:
    """An equality of two records of one shape as equalities of their fields."""
    if isinstance(one, Comparison) and one.function == "eq" and not one.negated:
        left, right = one.left, one.right
        if not (isinstance(left, Call) and isinstance(right, Call) and is_structure(left)):
            return [one]
        if left.function == right.function:
            return [
                part
                for ours, theirs in zip(left.args, right.args, strict=True)
                for part in _split(Comparison("eq", ours, theirs, one.span))
            ]
    return [one]


def _replacement(
    one: Comparison, fixed: frozenset[str], results: Mapping[str, set[str]]
) -> tuple[str, Expression] | None:
    """The variable that an equality makes superfluous, and what stands for it."""
    if one.function != "eq" or one.negated:
        return None
    left, right = one.left, one.right
    if isinstance(left, Variable) and isinstance(right, Variable):
        return _of_variables(left, right, fixed, results)
    for variable, value in ((left, right), (right, left)):
        if (
            isinstance(variable, Variable)
            and isinstance(value, Constant | Parameter)
            and variable.name not in fixed
            and variable.name not in results
            and variable.type == value.type
        ):
            return variable.name, value
    return None


def _of_variables(
    left: Variable, right: Variable, fixed: frozenset[str], results: Mapping[str, set[str]]
) -> tuple[str, Expression] | None:
    if left.type != right.type or left == right:
        return None
    if left.name in results.get(right.name, ()) or right.name in results.get(left.name, ()):
        return None
    both_bound = left.name in results and right.name in results
    for gone, kept in ((left, right), (right, left)):
        if gone.name in fixed or both_bound:
            continue
        if _artificial(kept) > _artificial(gone) and kept.name not in fixed:
            continue
        return gone.name, kept
    return None


def _artificial(variable: Variable) -> int:
    """How far a name is from one that the user wrote."""
    return 2 if variable.name.startswith(LOCAL) else int(LOCAL in variable.name)


class Grounding(Protocol):
    """What grounds conjunctions: ``ground``."""

    table: TypeTable

    def scope(
        self, body: tuple[NormalLiteral, ...], outer: frozenset[str], needed: frozenset[str]
    ) -> tuple[Grounded, ...]: ...

    def check_bound(self, used: Iterable[Variable], bound: frozenset[str] | set[str]) -> None: ...

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None: ...


def values_of(one: NormalAggregate) -> tuple[Expression, ...]:
    """The aggregate's value, if it has one."""
    return () if one.value is None else (one.value,)


def collect(
    run: Grounding, one: NormalAggregate, groups: tuple[Variable, ...], types: dict[str, Variable]
) -> BodyAggregate | Collected:
    """The aggregate with its body in order; ``groups`` are bound outside, ``types`` are all its variables."""
    if len(one.alternatives) != 1:
        return _of_alternatives(run, one, groups, types)
    terms, made = _grounded(run, values_of(one), one.alternatives[0], groups)
    value = constants.encode(terms[0], run.table) if terms else None
    literals = tuple(part for part in made if not isinstance(part, Range | Collected))
    if len(literals) == len(made):
        return BodyAggregate(one.result, one.function, value, literals, groups, one.span)
    made = tuple(_named(part, place) for place, part in enumerate(made))
    bound = {v.name: v for part in made for v in normal_rules.bound_by(part)}
    columns = tuple({**{group.name: group for group in groups}, **bound}.values())
    return Collected(one.result, one.function, value, ((columns, made),), columns, groups, one.span)


def _grounded(
    run: Grounding,
    terms: tuple[Expression, ...],
    body: tuple[NormalLiteral, ...],
    groups: tuple[Variable, ...],
) -> tuple[tuple[Expression, ...], tuple[Grounded, ...]]:
    """The terms and the conjunction, equalities carried out; what is not bound is noted."""
    outer = frozenset(group.name for group in groups)
    terms, body = equate(terms, body, outer)
    used = [variable for term in terms for variable in variables(term)]
    made = run.scope(body, outer, frozenset(variable.name for variable in used))
    run.check_bound(used, outer | {v.name for part in made for v in normal_rules.bound_by(part)})
    return terms, made


def _of_alternatives(
    run: Grounding, one: NormalAggregate, groups: tuple[Variable, ...], types: dict[str, Variable]
) -> Collected:
    named = [
        {v.name for part in body for v in normal_rules.direct(part) if not _is_made_up(v)}
        for body in one.alternatives
    ]
    shared = set.intersection(*named) if named else set[str]()
    outer = {group.name for group in groups}
    if counts_repeats((one.function,)):
        _refuse_unclear(run, one, set[str]().union(*named) - shared - outer)
    inner = dict.fromkeys(v.name for value in values_of(one) for v in variables(value))
    inner |= dict.fromkeys(sorted(shared))
    columns = (*groups, *(types[name] for name in inner if name not in outer))
    parts = tuple(_grounded(run, columns, body, groups) for body in one.alternatives)
    value = None if one.value is None else constants.encode(one.value, run.table)
    return Collected(one.result, one.function, value, parts, columns, groups, one.span)


def _refuse_unclear(run: Grounding, one: NormalAggregate, partial: set[str]) -> None:
    """Variables that not all alternatives have, and underscores, would count in some of them only."""
    hint = "give the alternative a relation of its own, with the columns that count"
    for name in sorted(partial)[:1]:
        message = f"variable {written(name)} is not in all alternatives of the aggregate"
        run.error("unsupported", message, one.span, hint)
    if not partial and any(isinstance(part, Atom) and _has_wildcard(part) for part in one.literals):
        message = "an underscore in an aggregate over alternatives"
        run.error("unsupported", message, one.span, hint)


def _is_made_up(variable: Variable) -> bool:
    """Whether it depends on others: it stands for an expression, or is an inlined rule's."""
    return variable.name.startswith(LOCAL) or INLINED in variable.name


def _has_wildcard(atom: Atom) -> bool:
    return any(isinstance(term, Wildcard) for term in atom.terms)


def _named(one: Grounded, position: int) -> Grounded:
    """The literal with variables for an atom's wildcards, which count."""
    if not isinstance(one, Atom):
        return one
    return named(one, f"{LOCAL}any{position}_")


def named(atom: Atom, prefix: str) -> Atom:
    """The atom with a variable, its name the prefix and a number, for each wildcard."""
    terms = tuple(
        Variable(f"{prefix}{column}", term.type) if isinstance(term, Wildcard) else term
        for column, term in enumerate(atom.terms)
    )
    return Atom(atom.relation, terms, atom.span)


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
        uses = [variable.name for one in body for variable in normal_rules.everywhere(one)]
        unnamed = {name for name in set(uses) if name.startswith(UNNAMED) and uses.count(name) == 1} - needed
        self._report(run)
        return tuple(one for one in run.out if not _binds_one_of(one, unnamed))

    def _report(self, run: "_Scope") -> None:
        """Notes what could not be bound."""
        used = [variable for one in run.body for variable in normal_rules.direct(one)]
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
        return frozenset(variable.name for one in body for variable in normal_rules.bound_by(one))

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
                self.bound |= {variable.name for variable in normal_rules.direct(one)}
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
                if not self._known(*normal_rules.direct(one)):
                    return False
                self.out.append(self._encoded(one))
                return True
            case _:
                assert_never(one)

    def _known(self, *parts: Expression) -> bool:
        return all(variable.name in self.bound for part in parts for variable in variables(part))

    def _encode(self, expression: Expression) -> Expression:
        return constants.encode(expression, self.run.table)

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
        elif isinstance(left, Call) and constants.is_structure(left):
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
        branch, name = constants.condition(pattern, value, self.run.table)
        self.out.append(Comparison("eq", branch, name, span))
        for arg, read in constants.fields(pattern, value, self.run.table):
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
        inner = {variable.name for variable in normal_rules.everywhere(one)} - {one.result.name}
        return inner & (self._mentioned() | self.outer)

    def _mentioned(self) -> set[str]:
        """The variables of this conjunction and of the head."""
        names = {variable.name for one in self.body for variable in normal_rules.direct(one)}
        return names | {variable.name for part in self.run.rule.terms for variable in variables(part)}

    def results_of(self, one: NormalAggregate) -> set[str]:
        """What an aggregate would bind: its result, and what is equal to that."""
        names = {one.result.name}
        for other in self.waiting:
            if isinstance(other, Comparison) and other.function == "eq":
                parts = {variable.name for variable in normal_rules.direct(other)}
                if parts & names:
                    names |= parts
        return names

    def _aggregate(self, one: NormalAggregate) -> bool:
        groups = self.groups(one)
        if not groups <= self.bound:
            return False
        types = {
            variable.name: variable for part in one.literals for variable in normal_rules.everywhere(part)
        }
        types |= {variable.name: variable for part in values_of(one) for variable in variables(part)}
        shared = tuple(types[name] for name in sorted(groups))
        made = collect(self.run, one, shared, types)
        self.out.append(replace(made, result=self._new(one.result, one.span)))
        return True


def _binds_one_of(one: Grounded, names: set[str]) -> bool:
    return isinstance(one, Assignment) and one.variable.name in names
