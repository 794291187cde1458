"""Sideways information passing: the order in which a rule's literals pass bindings on, and adornments.

A comparison comes as soon as its variables are bound, unless it computes a value that may be demanded only
after more atoms. Then come stored relations, negations and aggregates, derived atoms and recursive atoms,
in this order. Among equals, the atom with the most bound columns is first. An atom with no bound column,
when others are bound, comes last. An *adornment* states which columns of a relation are bound, and names
the relation made for it.

Terms of this folder:

* A variable is *bound* if it has a value, and *passable* if the value may be passed on as demand.
* It is *strong* if an atom of the body binds it, and *weak* if only demand does.
* A literal is *stable* if demand may use it. A variable is *unstable* if only other literals bind it.
* A *strict* adorned relation is negated or aggregated, and keeps its own adornment.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, TypeVar, assert_never

from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Column,
    Comparison,
    Constant,
    Expression,
    Kind,
    Literal,
    Negation,
    Relation,
    Term,
    Variable,
    literal_variables,
    variables,
)
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdornedRelation:
    """A relation with an adornment: its tuples are the demanded ones.

    A relation without bound columns is computed in full, under its own name.
    """

    relation: str
    bound: tuple[bool, ...]
    variant: str = ""
    """Suffix that distinguishes relations of the same tuples that are computed in different ways."""

    @property
    def pattern(self) -> str:
        return "".join("b" if is_bound else "f" for is_bound in self.bound)

    @property
    def name(self) -> str:
        """Name of the relation of demanded tuples."""
        return f"{self.relation}[{self.pattern}]{self.variant}"

    def auxiliary_name(self, role: str) -> str:
        """Return the name of an auxiliary relation of this one, such as ``demand tc[bf]``."""
        return f"{role} {self.name}"

    def bound_items(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items at bound columns."""
        return tuple(item for item, is_bound in zip(items, self.bound, strict=True) if is_bound)

    def free_items(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items at free columns."""
        return tuple(item for item, is_bound in zip(items, self.bound, strict=True) if not is_bound)

    def merge_items(self, bound_items: Iterable[T], free_items: Iterable[T]) -> tuple[T, ...]:
        """Return items for all columns, from those for bound and for free columns."""
        some, others = iter(bound_items), iter(free_items)
        return tuple(next(some) if is_bound else next(others) for is_bound in self.bound)

    def covers(self, other: "AdornedRelation") -> bool:
        """Return whether this is a more general adornment of the same relation than ``other``."""
        same = self.relation == other.relation and self.bound != other.bound
        pairs = zip(self.bound, other.bound, strict=True)
        return same and all(special or not general for general, special in pairs)


def derived_relation(name: str, columns: Sequence[Column], relation: Relation | None = None) -> Relation:
    """Return a relation of the rewritten program, with the aggregates of ``relation``."""
    plain = tuple(Column(f"c{i}", column.type, column.type.type) for i, column in enumerate(columns))
    aggregates = relation.aggregates if relation is not None else ()
    return Relation(name, plain, Kind.DERIVED, None, aggregates)


TOTAL: Final = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "least", "greatest", "concat", "length", "$substr", "$show"),
        *("$wrap_number", "$wrap_unsigned", "$wrap_product", "$band", "$bor", "$bxor", "$bnot", "$bshl"),
        *("$wrap_int8", "$wrap_int16", "$wrap_uint8", "$wrap_uint16", "$single"),
        *("$bshr", "$bshru", "$land", "$lor", "$lxor", "$lnot", "$quote", "$record", "$branch"),
    )
)
"""Functions that have a value for all arguments except on overflow."""


def names(literals: Iterable[Literal]) -> frozenset[str]:
    """Return the variables that the literals mention.

    Those of an aggregate are its groups and result.
    """
    return frozenset(v.name for literal in literals for v in literal_variables(literal))


def term_names(terms: Iterable[Term]) -> frozenset[str]:
    """Return the variables among the terms."""
    return frozenset(term.name for term in terms if isinstance(term, Variable))


def expression_names(expression: Expression) -> frozenset[str]:
    """Return the variables of an expression."""
    return frozenset(v.name for v in variables(expression))


def equalities(literal: Literal) -> tuple[tuple[Variable, Expression], ...]:
    """Return the variables that a literal equates with an expression."""
    match literal:
        case Assignment(variable=variable, expression=expression):
            return ((variable, expression),)
        case Comparison(function="eq", negated=False, left=left, right=right):
            found = ((left, right), (right, left))
            return tuple((one, other) for one, other in found if isinstance(one, Variable))
        case Comparison() | Atom() | Negation() | BodyAggregate():
            return ()
        case _:
            assert_never(literal)


def orient_equalities(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """Return the body with an equality as an assignment exactly if nothing else binds its variable.

    Preceding literals, or an atom or aggregate anywhere in the body, bind every variable before its
    use.
    """
    bound = {v.name for one in body if isinstance(one, Atom) for v in literal_variables(one)}
    bound |= {one.result.name for one in body if isinstance(one, BodyAggregate)}
    result: list[Literal] = []
    for literal in body:
        pairs = equalities(literal)
        assert not pairs or isinstance(literal, Assignment | Comparison)
        free = [(v, e) for v, e in pairs if v.name not in bound and expression_names(e) <= bound]
        if free and isinstance(literal, Assignment | Comparison):
            variable, expression = free[0]
            bound.add(variable.name)
            result.append(Assignment(variable, expression, literal.span))
        elif isinstance(literal, Assignment):
            result.append(Comparison("eq", literal.variable, literal.expression, literal.span))
        else:
            result.append(literal)
    return tuple(result)


def can_fail(literal: Literal) -> bool:
    """Return whether evaluating a comparison or assignment can fail for a value, except on overflow.

    Other literals of the rule may exclude such values, so it must not produce demand by itself.
    """
    match literal:
        case Assignment(expression=expression):
            return _can_fail(expression)
        case Comparison(left=left, right=right):
            return _can_fail(left) or _can_fail(right)
        case Atom() | Negation() | BodyAggregate():
            return False
        case _:
            assert_never(literal)


def _can_fail(expression: Expression) -> bool:
    return isinstance(expression, Call) and (
        expression.function not in TOTAL or any(map(_can_fail, expression.args))
    )


def is_functor(expression: Expression) -> bool:
    """Return whether an expression creates new values."""
    return isinstance(expression, Call)


@dataclass(slots=True)
class BindingState:
    """The binding state of a rule's variables at one position of the literal order.

    ``bound`` variables have a value. ``passable`` ones can be passed on as demand. A functor's value
    is not passable if only demand has bound its arguments, because demand could grow forever.
    ``strong`` ones are bound by an atom of the body.
    """

    bound: set[str] = field(default_factory=set)
    passable: set[str] = field(default_factory=set)
    strong: set[str] = field(default_factory=set)

    def copy(self) -> "BindingState":
        return BindingState(set(self.bound), set(self.passable), set(self.strong))

    def restrict_to(self, variable_names: Iterable[str]) -> "BindingState":
        """Return the state of these variables only."""
        chosen = set(variable_names)
        return BindingState(self.bound & chosen, self.passable & chosen, self.strong & chosen)

    def is_ready(self, literal: Literal) -> bool:
        """Return whether a literal other than an atom can be evaluated."""
        match literal:
            case Assignment(expression=expression):
                return expression_names(expression) <= self.bound
            case BodyAggregate(groups=groups):
                return term_names(groups) <= self.bound
            case Comparison():
                free = names([literal]) - self.bound
                pairs = equalities(literal)
                return not free or any(
                    {v.name} == free for v, e in pairs if expression_names(e) <= self.bound
                )
            case Atom() | Negation():
                return names([literal]) <= self.bound
            case _:
                assert_never(literal)

    def is_better_later(self, literal: Literal) -> bool:
        """Return whether the literal binds a variable that only becomes passable after more atoms."""
        return any(
            variable.name not in self.bound
            and is_functor(expression)
            and expression_names(expression) - self.strong
            for variable, expression in equalities(literal)
        )

    def add(self, literal: Literal) -> None:
        """Update the state for the evaluation of a literal."""
        match literal:
            case Atom(terms=terms):
                found = term_names(terms)
                self.bound |= found
                self.passable |= found
                self.strong |= found
            case BodyAggregate(result=result):
                self.bound.add(result.name)
                self.passable.add(result.name)
                self.strong.add(result.name)
            case Comparison() | Assignment():
                for variable, expression in equalities(literal):
                    self._equate(variable, expression)
            case Negation():
                pass
            case _:
                assert_never(literal)

    def _equate(self, variable: Variable, expression: Expression) -> None:
        used = expression_names(expression)
        if used <= self.bound:
            self.bound.add(variable.name)
            if used <= self.strong:
                self.strong.add(variable.name)
            if used <= (self.strong if is_functor(expression) else self.passable):
                self.passable.add(variable.name)


@dataclass(frozen=True, slots=True)
class RelationClasses:
    """The relations that demand restricts, and those in recursion with the rule's head."""

    restricted_relations: frozenset[str]
    recursive: frozenset[str]

    def rank(self, atom: Atom) -> int:
        """Return 1 for a stored relation, 3 for a derived one, and 4 for a recursive one."""
        return (
            4 if atom.relation in self.recursive else 3 if atom.relation in self.restricted_relations else 1
        )


def order_literals(
    body: Sequence[Literal], state: BindingState, classes: RelationClasses
) -> Iterator[Literal]:
    """Yield the literals in evaluation order, and update ``state`` after each."""
    remaining = list(body)
    while remaining:
        ready = [one for one in remaining if isinstance(one, Atom) or state.is_ready(one)]
        if not ready:
            raise InternalError(f"nothing binds the variables of {remaining[0]}")
        chosen = min(ready, key=lambda literal: _rank(literal, state, classes))
        remaining.remove(chosen)
        yield chosen
        state.add(chosen)


def _rank(literal: Literal, state: BindingState, classes: RelationClasses) -> tuple[int, int, int]:
    match literal:
        case Comparison() | Assignment() if state.is_better_later(literal):
            return 2, 0, 0
        case Comparison() | Assignment():
            return 0, 0, 0
        case Negation() | BodyAggregate():
            return 2, 0, 0
        case Atom(terms=terms):
            bound = term_names(terms) & state.bound
            bound_count = sum(isinstance(term, Constant) for term in terms) + len(bound)
            free_count = len(term_names(terms)) - len(bound)
            is_apart = not bound_count and bool(free_count) and bool(state.bound)
            return 5 if is_apart else classes.rank(literal), -bound_count, free_count
        case _:
            assert_never(literal)
