"""Sideways information passing: the order in which a rule's literals pass bindings on, and adornments.

A comparison comes as soon as its variables allow. Then come stored relations, negations and aggregates,
derived atoms and recursive atoms, in this order. Among equals, the atom with the most bound columns is first.
An atom that shares no variable with the bound ones comes last. An *adornment* says which columns of a
relation are bound, and names the relation made for it.
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
class Adorned:
    """A relation asked with values for the ``bound`` columns; its tuples are those that were asked for.

    A relation asked with no value is there as a whole, under its own name.
    """

    relation: str
    bound: tuple[bool, ...]
    variant: str = ""
    """Tells apart relations of the same tuples that are computed in different ways."""

    @property
    def pattern(self) -> str:
        return "".join("b" if one else "f" for one in self.bound)

    @property
    def name(self) -> str:
        """The name of the relation of demanded tuples."""
        return f"{self.relation}[{self.pattern}]{self.variant}"

    def made(self, what: str) -> str:
        """The name of a relation that serves this one: ``demand tc[bf]``."""
        return f"{what} {self.name}"

    def given(self, items: Sequence[T]) -> tuple[T, ...]:
        """Those of the columns' items that are at bound columns."""
        return tuple(item for item, one in zip(items, self.bound, strict=True) if one)

    def open(self, items: Sequence[T]) -> tuple[T, ...]:
        """Those at free columns."""
        return tuple(item for item, one in zip(items, self.bound, strict=True) if not one)

    def merged(self, given: Iterable[T], free: Iterable[T]) -> tuple[T, ...]:
        """Items for all columns from those for bound and for free ones."""
        some, others = iter(given), iter(free)
        return tuple(next(some) if one else next(others) for one in self.bound)

    def covers(self, other: "Adorned") -> bool:
        """Whether what is asked by ``other``, with the same columns given or more, is asked by this too."""
        same = self.relation == other.relation and self.bound != other.bound
        return same and all(wide or not one for one, wide in zip(self.bound, other.bound, strict=True))


def derived(name: str, columns: Sequence[Column], relation: Relation | None = None) -> Relation:
    """A relation of the rewritten program, with the aggregates of the one that it is a part of."""
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
"""The functions that have a value for all arguments, within range."""


def names(literals: Iterable[Literal]) -> frozenset[str]:
    """The variables that the literals mention; of aggregates, groups and result."""
    return frozenset(v.name for literal in literals for v in literal_variables(literal))


def term_names(terms: Iterable[Term]) -> frozenset[str]:
    """The variables among terms."""
    return frozenset(term.name for term in terms if isinstance(term, Variable))


def expression_names(expression: Expression) -> frozenset[str]:
    """The variables of an expression."""
    return frozenset(v.name for v in variables(expression))


def equated(literal: Literal) -> tuple[tuple[Variable, Expression], ...]:
    """The variables that a literal says are equal to an expression."""
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


def oriented(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """The body with an equality as assignment exactly where nothing else binds the variable.

    Every variable is bound by the literals before its use, or by an atom or an aggregate anywhere.
    """
    bound = {v.name for one in body if isinstance(one, Atom) for v in literal_variables(one)}
    bound |= {one.result.name for one in body if isinstance(one, BodyAggregate)}
    result: list[Literal] = []
    for literal in body:
        pairs = equated(literal)
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
    """Whether evaluating a comparison or assignment can fail for a value; overflow aside.

    The rule's other literals may keep such values away, so that demand must not be made by it on its own.
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
    """Whether an expression makes new values."""
    return isinstance(expression, Call)


@dataclass(slots=True)
class Known:
    """What is known of a rule's variables at one place of the order.

    ``bound`` have a value. Those of ``passable`` can be passed on as demand: a value that a functor makes
    of one that only demand has bound cannot, since demand could then grow without end. ``strong`` are
    bound by an atom of the body, that is by what is really there.
    """

    bound: set[str] = field(default_factory=set)
    passable: set[str] = field(default_factory=set)
    strong: set[str] = field(default_factory=set)

    def copy(self) -> "Known":
        return Known(set(self.bound), set(self.passable), set(self.strong))

    def limited(self, names: Iterable[str]) -> "Known":
        """What is known of these variables."""
        chosen = set(names)
        return Known(self.bound & chosen, self.passable & chosen, self.strong & chosen)

    def is_ready(self, literal: Literal) -> bool:
        """Whether a literal that is no atom can be evaluated."""
        match literal:
            case Assignment(expression=expression):
                return expression_names(expression) <= self.bound
            case BodyAggregate(groups=groups):
                return term_names(groups) <= self.bound
            case Comparison():
                free = names([literal]) - self.bound
                pairs = equated(literal)
                return not free or any(
                    {v.name} == free for v, e in pairs if expression_names(e) <= self.bound
                )
            case Atom() | Negation():
                return names([literal]) <= self.bound
            case _:
                assert_never(literal)

    def is_better_later(self, literal: Literal) -> bool:
        """Whether it would bind a variable that cannot be passed on, but may once more is bound by atoms."""
        return any(
            variable.name not in self.bound
            and is_functor(expression)
            and expression_names(expression) - self.strong
            for variable, expression in equated(literal)
        )

    def add(self, literal: Literal) -> None:
        """Take account of a literal that is evaluated now."""
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
                for variable, expression in equated(literal):
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
class Classes:
    """What relations are to the rule: derived ones that demand restricts, and those in recursion with it."""

    demanded: frozenset[str]
    recursive: frozenset[str]

    def rank(self, atom: Atom) -> int:
        """1 for a stored relation, 3 for a derived one, 4 for one in recursion."""
        return 4 if atom.relation in self.recursive else 3 if atom.relation in self.demanded else 1


def ordered(body: Sequence[Literal], known: Known, classes: Classes) -> Iterator[Literal]:
    """The literals in the order in which they are evaluated; ``known`` is kept up to date between them."""
    left = list(body)
    while left:
        ready = [one for one in left if isinstance(one, Atom) or known.is_ready(one)]
        if not ready:
            raise InternalError(f"nothing binds the variables of {left[0]}")
        chosen = min(ready, key=lambda literal: _rank(literal, known, classes))
        left.remove(chosen)
        yield chosen
        known.add(chosen)


def _rank(literal: Literal, known: Known, classes: Classes) -> tuple[int, int, int]:
    match literal:
        case Comparison() | Assignment() if known.is_better_later(literal):
            return 2, 0, 0
        case Comparison() | Assignment():
            return 0, 0, 0
        case Negation() | BodyAggregate():
            return 2, 0, 0
        case Atom(terms=terms):
            bound = term_names(terms) & known.bound
            given = sum(isinstance(term, Constant) for term in terms) + len(bound)
            free = len(term_names(terms)) - len(bound)
            is_apart = not given and bool(free) and bool(known.bound)
            return 5 if is_apart else classes.rank(literal), -given, free
        case _:
            assert_never(literal)
