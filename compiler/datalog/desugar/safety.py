"""Safety (range restriction), which Soufflé calls groundedness: a rule must bind all its variables.

A variable is bound by a positive atom, by an equality with a bound expression, as a field of a
bound record, or as the result of an aggregate with bound groups. An unbound variable is an error.
Equalities are oriented by which side is bound.
Equalities between variables, or of a variable and a constant, are eliminated by substitution. The
body of an aggregate stays in place if it is one conjunction. Otherwise it becomes rules of its
own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import count
from typing import Protocol, assert_never

from kpg.compiler.datalog.desugar import constants, normal_rules
from kpg.compiler.datalog.desugar.constants import is_structure
from kpg.compiler.datalog.desugar.normal_rules import (
    INLINED_MARK,
    UNNAMED_PREFIX,
    GroundLiteral,
    NormalAggregate,
    NormalLiteral,
    NormalRule,
    Range,
    RuleAggregate,
)
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.flatten import LOCAL_MARK, original_name
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
    is_duplicate_sensitive,
    substitution,
    variables,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


def eliminate_equalities(
    terms: tuple[Expression, ...], body: tuple[NormalLiteral, ...], fixed: frozenset[str]
) -> tuple[tuple[Expression, ...], tuple[NormalLiteral, ...]]:
    """Return the terms and body without equalities that substitution can eliminate.

    ``fixed`` variables keep their names, because other bodies read them. Equal records are equated by
    field.
    """
    pending = [part for one in body for part in _split_record_equality(one)]
    position = 0
    while position < len(pending):
        one = pending[position]
        found = _replacement(one, fixed, _result_inputs(pending)) if isinstance(one, Comparison) else None
        if found is None:
            position += 1
            continue
        name, value = found
        change = substitution({name: value})
        terms = tuple(change(term) for term in terms)
        rest = (*pending[:position], *pending[position + 1 :])
        pending = [
            part for other in rest for part in _split_record_equality(normal_rules.literal(other, change))
        ]
        position = 0
    return terms, tuple(pending)


def _result_inputs(body: list[NormalLiteral]) -> dict[str, set[str]]:
    """Return the variables from which the result of each aggregate or range is computed."""
    found: dict[str, set[str]] = {}
    for literal in body:
        match literal:
            case NormalAggregate(result=result, value=value):
                names = {
                    variable.name
                    for part in literal.literals
                    for variable in normal_rules.all_variables(part)
                }
                names |= {variable.name for variable in variables(value)} if value is not None else set()
                found.setdefault(result.name, set()).update(names)
            case Range(variable=variable, args=args):
                found.setdefault(variable.name, set()).update(v.name for arg in args for v in variables(arg))
            case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate():
                pass
            case _:
                assert_never(literal)
    return found


def _split_record_equality(literal: NormalLiteral) -> list[NormalLiteral]:
    """Split an equality of two records of one type into equalities of their fields."""
    if isinstance(literal, Comparison) and literal.function == "eq" and not literal.negated:
        left, right = literal.left, literal.right
        if not (isinstance(left, Call) and isinstance(right, Call) and is_structure(left)):
            return [literal]
        if left.function == right.function:
            return [
                part
                for ours, theirs in zip(left.args, right.args, strict=True)
                for part in _split_record_equality(Comparison("eq", ours, theirs, literal.span))
            ]
    return [literal]


def _replacement(
    equality: Comparison, fixed: frozenset[str], results: Mapping[str, set[str]]
) -> tuple[str, Expression] | None:
    """Return the variable that an equality makes redundant, and its replacement, or None."""
    if equality.function != "eq" or equality.negated:
        return None
    left, right = equality.left, equality.right
    if isinstance(left, Variable) and isinstance(right, Variable):
        return _variable_replacement(left, right, fixed, results)
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


def _variable_replacement(
    left: Variable, right: Variable, fixed: frozenset[str], results: Mapping[str, set[str]]
) -> tuple[str, Expression] | None:
    if left.type != right.type or left == right:
        return None
    if left.name in results.get(right.name, ()) or right.name in results.get(left.name, ()):
        return None
    both_bound = left.name in results and right.name in results
    for removed, kept in ((left, right), (right, left)):
        if removed.name in fixed or both_bound:
            continue
        if _naming_distance(kept) > _naming_distance(removed) and kept.name not in fixed:
            continue
        return removed.name, kept
    return None


def _naming_distance(variable: Variable) -> int:
    """Return how far a name is from one that the user wrote."""
    return 2 if variable.name.startswith(LOCAL_MARK) else int(LOCAL_MARK in variable.name)


class ConjunctionGrounder(Protocol):
    """Grounds the conjunctions of a rule."""

    table: TypeTable

    def ground_body(
        self, body: tuple[NormalLiteral, ...], outer: frozenset[str], needed: frozenset[str]
    ) -> tuple[GroundLiteral, ...]: ...

    def check_bound(self, used: Iterable[Variable], bound: frozenset[str] | set[str]) -> None: ...

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None: ...


def value_terms(aggregate: NormalAggregate) -> tuple[Expression, ...]:
    """Return the aggregate's value, if it has one, as a tuple."""
    return () if aggregate.value is None else (aggregate.value,)


def ground_aggregate(
    grounder: ConjunctionGrounder,
    aggregate: NormalAggregate,
    groups: tuple[Variable, ...],
    types: dict[str, Variable],
) -> BodyAggregate | RuleAggregate:
    """Return the aggregate with a ground body.

    Outer bodies bind ``groups``; ``types`` has all its variables.
    """
    if len(aggregate.alternatives) != 1:
        return _ground_alternatives(grounder, aggregate, groups, types)
    terms, body = _ground_conjunction(grounder, value_terms(aggregate), aggregate.alternatives[0], groups)
    value = constants.encode(terms[0], grounder.table) if terms else None
    literals = tuple(part for part in body if not isinstance(part, Range | RuleAggregate))
    if len(literals) == len(body):
        return BodyAggregate(aggregate.result, aggregate.function, value, literals, groups, aggregate.span)
    body = tuple(_name_literal_wildcards(part, place) for place, part in enumerate(body))
    bound = {v.name: v for part in body for v in normal_rules.bound_variables(part)}
    columns = tuple({**{group.name: group for group in groups}, **bound}.values())
    return RuleAggregate(
        aggregate.result, aggregate.function, value, ((columns, body),), columns, groups, aggregate.span
    )


def _ground_conjunction(
    grounder: ConjunctionGrounder,
    terms: tuple[Expression, ...],
    body: tuple[NormalLiteral, ...],
    groups: tuple[Variable, ...],
) -> tuple[tuple[Expression, ...], tuple[GroundLiteral, ...]]:
    """Return the terms and the ground conjunction, and report unbound variables."""
    outer = frozenset(group.name for group in groups)
    terms, body = eliminate_equalities(terms, body, outer)
    used = [variable for term in terms for variable in variables(term)]
    ground_body = grounder.ground_body(body, outer, frozenset(variable.name for variable in used))
    grounder.check_bound(
        used, outer | {v.name for part in ground_body for v in normal_rules.bound_variables(part)}
    )
    return terms, ground_body


def _ground_alternatives(
    grounder: ConjunctionGrounder,
    aggregate: NormalAggregate,
    groups: tuple[Variable, ...],
    types: dict[str, Variable],
) -> RuleAggregate:
    named_variables = [
        {v.name for part in body for v in normal_rules.direct_variables(part) if not _is_generated(v)}
        for body in aggregate.alternatives
    ]
    shared = set.intersection(*named_variables) if named_variables else set[str]()
    outer = {group.name for group in groups}
    if is_duplicate_sensitive((aggregate.function,)):
        _report_partial_variables(grounder, aggregate, set[str]().union(*named_variables) - shared - outer)
    inner = dict.fromkeys(v.name for value in value_terms(aggregate) for v in variables(value))
    inner |= dict.fromkeys(sorted(shared))
    columns = (*groups, *(types[name] for name in inner if name not in outer))
    parts = tuple(_ground_conjunction(grounder, columns, body, groups) for body in aggregate.alternatives)
    value = None if aggregate.value is None else constants.encode(aggregate.value, grounder.table)
    return RuleAggregate(aggregate.result, aggregate.function, value, parts, columns, groups, aggregate.span)


def _report_partial_variables(
    grounder: ConjunctionGrounder, aggregate: NormalAggregate, partial: set[str]
) -> None:
    """Report variables that only some alternatives have, and underscores, because their count is unclear."""
    hint = "give the alternative a relation of its own, with the columns that count"
    for name in sorted(partial)[:1]:
        message = f"variable {original_name(name)} is not in all alternatives of the aggregate"
        grounder.error("unsupported", message, aggregate.span, hint)
    if not partial and any(isinstance(part, Atom) and _has_wildcard(part) for part in aggregate.literals):
        message = "an underscore in an aggregate over alternatives"
        grounder.error("unsupported", message, aggregate.span, hint)


def _is_generated(variable: Variable) -> bool:
    """Return whether the variable replaces an expression or belongs to an inlined rule."""
    return variable.name.startswith(LOCAL_MARK) or INLINED_MARK in variable.name


def _has_wildcard(atom: Atom) -> bool:
    return any(isinstance(term, Wildcard) for term in atom.terms)


def _name_literal_wildcards(literal: GroundLiteral, position: int) -> GroundLiteral:
    """Replace the wildcards of an atom by variables, because they count."""
    if not isinstance(literal, Atom):
        return literal
    return name_wildcards(literal, f"{LOCAL_MARK}any{position}_")


def name_wildcards(atom: Atom, prefix: str) -> Atom:
    """Replace each wildcard of the atom by a variable, named by the prefix and the column."""
    terms = tuple(
        Variable(f"{prefix}{column}", term.type) if isinstance(term, Wildcard) else term
        for column, term in enumerate(atom.terms)
    )
    return Atom(atom.relation, terms, atom.span)


@dataclass(frozen=True, slots=True)
class GroundRule:
    """A rule whose variables are bound.

    The head's terms may still be expressions.
    """

    rule: NormalRule
    terms: tuple[Expression, ...]
    body: tuple[GroundLiteral, ...]


def ground(
    rule: NormalRule,
    table: TypeTable,
    diagnostics: Diagnostics,
    outer: frozenset[str] = frozenset(),
) -> GroundRule | None:
    """Return the rule with oriented equalities, or None if a variable is unbound.

    The caller binds the variables in ``outer``.
    """
    needed = frozenset(variable.name for part in rule.terms for variable in variables(part))
    terms, body = eliminate_equalities(rule.terms, rule.body, outer)
    run = _RuleGrounder(rule, table, diagnostics)
    ground_literals = run.ground_body(
        body, outer, needed | frozenset(v.name for t in terms for v in variables(t))
    )
    run.check_bound(
        (variable for part in terms for variable in variables(part)), run.bound_names(ground_literals) | outer
    )
    if run.has_failed:
        return None
    return GroundRule(rule, terms, ground_literals)


@dataclass(slots=True)
class _RuleGrounder:
    rule: NormalRule
    table: TypeTable
    diagnostics: Diagnostics
    has_failed: bool = False
    reported: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def ground_body(
        self, body: tuple[NormalLiteral, ...], outer: frozenset[str], needed: frozenset[str]
    ) -> tuple[GroundLiteral, ...]:
        """Return the ground conjunction.

        ``outer`` variables are bound outside, and ``needed`` ones are read outside.
        """
        run = _ConjunctionOrder(self, body, outer)
        run.orient()
        uses = [variable.name for literal in body for variable in normal_rules.all_variables(literal)]
        unnamed = {
            name for name in set(uses) if name.startswith(UNNAMED_PREFIX) and uses.count(name) == 1
        } - needed
        self._report_unbound(run)
        return tuple(literal for literal in run.ordered_literals if not _binds_any_of(literal, unnamed))

    def _report_unbound(self, order: "_ConjunctionOrder") -> None:
        used = [variable for literal in order.body for variable in normal_rules.direct_variables(literal)]
        self._check_aggregates(order)
        self.check_bound(used, order.bound)

    def _check_aggregates(self, order: "_ConjunctionOrder") -> None:
        waiting = [one for one in order.waiting if isinstance(one, NormalAggregate)]
        results = {name: one for one in waiting for name in order.result_names(one)}
        for literal in waiting:
            missing = order.groups(literal) - order.bound
            cyclic = sorted(missing & results.keys())
            if cyclic:
                if not missing <= self.reported:
                    whose = (
                        "its own result" if order.result_names(literal) & missing else "each other's results"
                    )
                    what = "an aggregate depends" if whose.startswith("its") else "aggregates depend"
                    self.error("witness", f"{what} on {whose}", literal.span)
                self.reported |= results.keys()
                continue
            for name in sorted(missing):
                self._report_witness(name, literal.span)
            self.reported |= set(order.result_names(literal))

    def _report_witness(self, name: str, span: Span) -> None:
        if name in self.reported:
            return
        self.reported.add(name)
        variable_name = original_name(name)
        message = f"variable {variable_name} is used outside of the aggregate, which does not bind it there"
        hint = f"bind {variable_name} by an atom outside of the aggregate, or name it differently inside"
        self.error("witness", message, span, hint)

    def check_bound(self, used: Iterable[Variable], bound: frozenset[str] | set[str]) -> None:
        """Report each unbound variable once."""
        for variable in used:
            self.has_failed = self.has_failed or variable.name not in bound
            name = variable.name
            if name in bound or name in self.reported:
                continue
            self.reported.add(name)
            span = self.rule.places.get(name, self.rule.span)
            if name.startswith(UNNAMED_PREFIX):
                self.error("underscore", "an underscore cannot stand here", span)
            elif name.startswith("@"):
                continue
            else:
                hint = "every variable has to occur in a positive atom, or be equal to what is bound"
                self.error("ungrounded", f"ungrounded variable {original_name(name)}", span, hint)

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.has_failed = True
        self.diagnostics.error(code, message, span, hint=hint)

    @staticmethod
    def bound_names(body: tuple[GroundLiteral, ...]) -> frozenset[str]:
        """Return the variables that the literals bind."""
        return frozenset(
            variable.name for literal in body for variable in normal_rules.bound_variables(literal)
        )

    def fresh(self, like: Expression, span: Span) -> Variable:
        """Return a generated variable with the type of an expression."""
        variable = Variable(f"@g{next(self.numbers)}", like.type)
        self.rule.places[variable.name] = span
        return variable


@dataclass(slots=True)
class _ConjunctionOrder:
    """A conjunction while its literals are put into an order in which they can be evaluated."""

    grounder: _RuleGrounder
    body: tuple[NormalLiteral, ...]
    outer: frozenset[str]
    bound: set[str] = field(default_factory=set)
    ordered_literals: list[GroundLiteral] = field(default_factory=list)
    waiting: list[NormalLiteral] = field(default_factory=list)

    def orient(self) -> None:
        """Order the literals.

        Those whose variables nothing binds remain in ``waiting``.
        """
        self.bound = set(self.outer)
        for one in self.body:
            if isinstance(one, Atom):
                self.ordered_literals.append(one)
                self.bound |= {variable.name for variable in normal_rules.direct_variables(one)}
        self.waiting = [one for one in self.body if not isinstance(one, Atom)]
        progress = True
        while progress:
            items, self.waiting = self.waiting, []
            remaining = [one for one in items if not self._place(one)]
            progress = len(remaining) < len(items)
            self.waiting = [*remaining, *self.waiting]

    def _place(self, literal: NormalLiteral) -> bool:
        """Append a literal if its variables are bound, and return whether they were."""
        match literal:
            case Comparison(function="eq", negated=False):
                return self._place_equality(literal)
            case Range(variable=variable, args=args):
                return self._place_range(literal, variable, args)
            case NormalAggregate():
                return self._place_aggregate(literal)
            case BodyAggregate():
                raise AssertionError(literal)
            case Atom() | Negation() | Comparison() | Assignment():
                if not self._is_bound(*normal_rules.direct_variables(literal)):
                    return False
                self.ordered_literals.append(self._encode_comparison(literal))
                return True
            case _:
                assert_never(literal)

    def _is_bound(self, *parts: Expression) -> bool:
        return all(variable.name in self.bound for part in parts for variable in variables(part))

    def _encode(self, expression: Expression) -> Expression:
        return constants.encode(expression, self.grounder.table)

    def _encode_comparison(self, literal: Literal) -> Literal:
        if isinstance(literal, Comparison):
            return replace(literal, left=self._encode(literal.left), right=self._encode(literal.right))
        return literal

    def _place_equality(self, equality: Comparison) -> bool:
        left, right = equality.left, equality.right
        if self._is_bound(left) and not self._is_bound(right):
            left, right = right, left
        if not self._is_bound(right):
            return False
        if self._is_bound(left):
            if left != right:
                self.ordered_literals.append(self._encode_comparison(equality))
        elif isinstance(left, Variable):
            self._assign(left, right, equality.span)
        elif isinstance(left, Call) and constants.is_structure(left):
            self._match_structure(left, right, equality.span)
        else:
            return False
        return True

    def _assign(self, variable: Variable, value: Expression, span: Span) -> None:
        self.ordered_literals.append(Assignment(variable, self._encode(value), span))
        self.bound.add(variable.name)

    def _match_structure(self, pattern: Call, value: Expression, span: Span) -> None:
        """Add tests that bind the variables of a record pattern as fields of the value."""
        value = self._encode(value)
        if not isinstance(value, Variable | Constant | Parameter):
            variable = self.grounder.fresh(value, span)
            self._assign(variable, value, span)
            value = variable
        branch, name = constants.branch_test(pattern, value, self.grounder.table)
        self.ordered_literals.append(Comparison("eq", branch, name, span))
        for arg, read in constants.fields(pattern, value, self.grounder.table):
            self.waiting.append(Comparison("eq", arg, read, span))

    def _place_range(self, range_: Range, variable: Variable, args: tuple[Expression, ...]) -> bool:
        if not self._is_bound(*args):
            return False
        encoded = tuple(self._encode(arg) for arg in args)
        self.ordered_literals.append(
            replace(range_, variable=self._bind_result(variable, range_.span), args=encoded)
        )
        return True

    def _bind_result(self, variable: Variable, span: Span) -> Variable:
        """Bind the variable, or a fresh one that is then compared if the variable is already bound."""
        target = variable
        if variable.name in self.bound:
            target = self.grounder.fresh(variable, span)
            self.waiting.append(Comparison("eq", target, variable, span))
        self.bound.add(target.name)
        return target

    def groups(self, aggregate: NormalAggregate) -> set[str]:
        """Return the variables of an aggregate that the enclosing bodies also have."""
        inner = {variable.name for variable in normal_rules.all_variables(aggregate)} - {
            aggregate.result.name
        }
        return inner & (self._outer_names() | self.outer)

    def _outer_names(self) -> set[str]:
        """Return the variables of this conjunction and of the head."""
        names = {
            variable.name for literal in self.body for variable in normal_rules.direct_variables(literal)
        }
        return names | {variable.name for part in self.grounder.rule.terms for variable in variables(part)}

    def result_names(self, aggregate: NormalAggregate) -> set[str]:
        """Return the variables that an aggregate would bind: its result, and variables equal to it."""
        names = {aggregate.result.name}
        for other in self.waiting:
            if isinstance(other, Comparison) and other.function == "eq":
                parts = {variable.name for variable in normal_rules.direct_variables(other)}
                if parts & names:
                    names |= parts
        return names

    def _place_aggregate(self, aggregate: NormalAggregate) -> bool:
        groups = self.groups(aggregate)
        if not groups <= self.bound:
            return False
        types = {
            variable.name: variable
            for part in aggregate.literals
            for variable in normal_rules.all_variables(part)
        }
        types |= {variable.name: variable for part in value_terms(aggregate) for variable in variables(part)}
        shared = tuple(types[name] for name in sorted(groups))
        ground_literal = ground_aggregate(self.grounder, aggregate, shared, types)
        self.ordered_literals.append(
            replace(ground_literal, result=self._bind_result(aggregate.result, aggregate.span))
        )
        return True


def _binds_any_of(literal: GroundLiteral, names: set[str]) -> bool:
    return isinstance(literal, Assignment) and literal.variable.name in names
