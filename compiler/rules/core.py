"""The language of rules that Datalog programs, and recursions of SQL, are reduced to.

Lowering and magic sets work on it.

Invariants of a checked ``Program``: names are resolved and every term is typed; the terms of atoms and heads
are variables, constants and (in bodies) wildcards, computations stand in ``Assignment`` and ``Comparison``
only; every variable of a rule is bound by a positive atom, an assignment or an aggregate's result, in
whatever order the body stands; negation and aggregation are stratified. Disjunctions, several heads,
components, inline relations, record and ADT terms, ``range``, equivalence relations and ``x = y`` that
renames a variable are gone.

A relation is a set. Values are never NULL.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import assert_never

from kpg.compiler.rules.terms import Call as Call
from kpg.compiler.rules.terms import Constant as Constant
from kpg.compiler.rules.terms import Domain as Domain
from kpg.compiler.rules.terms import Expression as Expression
from kpg.compiler.rules.terms import HeadTerm as HeadTerm
from kpg.compiler.rules.terms import Parameter as Parameter
from kpg.compiler.rules.terms import Term as Term
from kpg.compiler.rules.terms import Value as Value
from kpg.compiler.rules.terms import ValueType as ValueType
from kpg.compiler.rules.terms import Variable as Variable
from kpg.compiler.rules.terms import Wildcard as Wildcard
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type


@dataclass(frozen=True, slots=True)
class Atom:
    """The tuples of a relation that match the terms; a variable that occurs twice demands equality.

    An atom over an external relation ranges over its distinct rows that have no NULL in a column whose term
    is no wildcard.
    """

    relation: str
    terms: tuple[Term, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """No tuple matches. Every variable is bound by the rest of the body."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Comparison:
    """``function`` (``eq ne lt le gt ge contains $full_match``) holds, or does not if ``negated``, of two
    bound values.

    ``eq`` between two variables means that both are bound by other literals.
    """

    function: str
    left: Expression
    right: Expression
    span: Span = field(compare=False, repr=False)
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """``variable = expression``: binds the variable once those of the expression are bound.

    The variable has no other assignment in the body, occurs in no positive atom of it and is no aggregate's
    result: an equality with a variable bound otherwise is a ``Comparison``. Assignments do not depend on
    each other in a circle.
    """

    variable: Variable
    expression: Expression
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BodyAggregate:
    """``result = function value : { body }``, for each binding of ``groups`` by the rest of the enclosing
    body.

    Aggregates over the distinct bindings of *all* variables of the body (each wildcard is one). ``groups``
    are the variables that the body shares with the enclosing one; every other variable of it is local and
    has a name of its own. The body need not bind the groups: they are bound outside.

    ``count`` (value None) and ``sum`` of no binding are 0: there is a result for every binding of the groups.
    ``min``, ``max`` and ``mean`` of no binding: the literal fails.
    ``mean`` is of FLOAT values, result DOUBLE; the others give the type of their value, ``count`` BIGINT.
    """

    result: Variable
    function: str
    value: "Expression | None"
    body: "tuple[Literal, ...]"
    groups: tuple[Variable, ...]
    span: Span = field(compare=False, repr=False)


Literal = Atom | Negation | Comparison | Assignment | BodyAggregate


@dataclass(frozen=True, slots=True)
class Head:
    """What a rule derives. Terms at the relation's aggregated columns are the values to be aggregated."""

    relation: str
    terms: tuple[HeadTerm, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- body.`` The body may have no atom (then it derives one tuple at most, of constants).

    ``plan``: the order of the body's positive atoms as ``.plan`` gives it, by version: v for the changes of
    the v-th recursive atom, and 0 also for those of any atom without a version; each order has the 0-based
    positions of the atoms *among the positive atoms of body*. Empty: none was given.
    """

    head: Head
    body: tuple[Literal, ...]
    span: Span = field(compare=False, repr=False)
    plan: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Subsumption:
    """Those that no other one dominates.

    Each rule derives what is dominated: its head is the tuple, and its first two atoms, of the relation
    itself, are that tuple and the one that dominates it, of all that is derived. The rest are comparisons
    and literals of relations that do not depend on this one. If ``is_mutual``, two tuples may dominate each
    other: the greater one goes.
    """

    rules: tuple[Rule, ...]
    is_mutual: bool = False

    @property
    def guards(self) -> frozenset[str]:
        """The other relations that decide."""
        return frozenset(atom.relation for rule in self.rules for atom, _ in atoms(rule.body[2:]))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of those that are equal in the columns of one of the ``keys``: the first, in the order of the
    rounds in which they are derived, then of their values.
    """

    keys: tuple[tuple[int, ...], ...]


End = tuple[tuple[str, int], ...]
"""Relations, each with a number of tuples that it has when a recursion is to end."""


@dataclass(frozen=True, slots=True)
class Limit:
    """In recursion, those of the rounds up to the first after which one of the ``ends`` has come: each of its
    relations has so many tuples.

    ``together`` are relations that are computed in the same rounds, whether they depend on each other or not:
    each round is what the rules make of the one before, by negations too, and nothing stays by itself.
    ``is_ahead``: an end counts the tuples of a round that is to come, which then does not.
    """

    ends: tuple[End, ...]
    together: tuple[str, ...] = ()
    is_ahead: bool = False


@dataclass(frozen=True, slots=True)
class Numbered:
    """All, the last column being the tuple's number: 0, 1, 2, ... in the order of the other columns, symbols
    in that of their first occurrence. What rules derive has 0 there.
    """


Selection = Subsumption | Choice | Limit | Numbered
"""Which of the tuples that its rules derive a relation keeps: such a one is computed as a whole."""


class Kind(enum.Enum):
    """Where a relation's tuples come from."""

    INPUT = "input"
    """Facts, files and updates; no rules. A base table."""
    DERIVED = "derived"
    """Rules only. If the program also has facts for it, they are in the INPUT relation ``base``, and a rule
    copies them.
    """
    EXTERNAL = "external"
    """A table or view of the catalog that the program does not declare."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``stored`` is the type an external relation has it in, to be cast to ``type.type`` on
    reading.
    """

    name: str
    type: ValueType
    stored: Type
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation.

    ``aggregates``: of each column, None or the function (``min max count sum mean``) that combines the
    values that rules derive for equal values of the other columns. Each binding of all variables of a rule's
    body contributes once, the contributions of several rules add up (rules for sums and counts have no
    wildcards). Only ``min`` and ``max`` occur in recursion. ``demanded``: the columns that no rule binds:
    the relation can be asked only with values for them (``Goal``). ``magic``: the qualifier ``magic`` (True)
    or ``no_magic`` (False), else None. ``selection``: what it keeps of what is derived, None being all.
    """

    name: str
    columns: tuple[Column, ...]
    kind: Kind
    span: Span | None = field(compare=False, repr=False)
    aggregates: tuple[str | None, ...] = ()
    demanded: frozenset[int] = frozenset()
    base: str | None = None
    magic: bool | None = None
    selection: Selection | None = None

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type.type for column in self.columns)


@dataclass(frozen=True, slots=True)
class Goal:
    """``?- body.``: asks ``relation`` for the tuples that match ``terms``.

    A goal of one atom asks the atom's relation; any other has a derived relation of its own, whose first
    columns are the goal's parameters. The answer's columns are the distinct variables, in order of first
    occurrence.
    """

    relation: str
    terms: tuple[Term, ...]
    parameters: tuple[Parameter, ...]
    variables: tuple[Variable, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """``.query p(b, f)``: keeps p ready to be asked with values for the columns marked bound."""

    relation: str
    bound: tuple[bool, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Update:
    """``+edge(1, 2).`` (diff 1) or ``-edge(2, 3).`` (diff -1), on an INPUT or EXTERNAL relation, in the
    order of the text.
    """

    relation: str
    terms: tuple[Constant | Parameter, ...]
    diff: int
    span: Span = field(compare=False, repr=False)


class Direction(enum.Enum):
    """Which directive it was."""

    INPUT = "input"
    OUTPUT = "output"
    PRINTSIZE = "printsize"


@dataclass(frozen=True, slots=True)
class Transfer:
    """``.input``, ``.output`` or ``.printsize`` of a relation, with its options (``IO``, ``filename``,
    ``delimiter``, ``limit``...).

    Of ``.input``, the relation is the INPUT relation that the rows go to; ``name`` is what the program calls
    it.
    """

    direction: Direction
    relation: str
    name: str
    options: Mapping[str, str] = field(hash=False)
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Structure:
    """A record type (one branch, named ``""``) or an ADT: the names and types of each branch's fields."""

    name: str
    branches: Mapping[str, tuple[tuple[str, ValueType], ...]]


@dataclass(frozen=True, slots=True)
class Program:
    """A checked program. ``facts``: the first rows of INPUT relations, without duplicates, in the order of
    the text.
    """

    relations: Mapping[str, Relation]
    rules: tuple[Rule, ...]
    facts: Mapping[str, tuple[tuple[Value, ...], ...]]
    goals: tuple[Goal, ...]
    queries: tuple[Query, ...]
    updates: tuple[Update, ...]
    transfers: tuple[Transfer, ...]
    structures: Mapping[str, Structure]
    pragmas: Mapping[str, str]
    number_size: int = 64


def variables(expression: Expression | Wildcard) -> Iterator[Variable]:
    """The variables of an expression or term, with repetitions, left to right."""
    match expression:
        case Variable():
            yield expression
        case Constant() | Wildcard() | Parameter():
            return
        case Call(args=args):
            for arg in args:
                yield from variables(arg)
        case _:
            assert_never(expression)


def literal_variables(literal: Literal) -> Iterator[Variable]:
    """The variables of the enclosing rule that a literal mentions, with repetitions; of an aggregate, its
    groups and result.
    """
    match literal:
        case Atom(terms=terms) | Negation(atom=Atom(terms=terms)):
            for term in terms:
                yield from variables(term)
        case Comparison(left=left, right=right):
            yield from variables(left)
            yield from variables(right)
        case Assignment(variable=variable, expression=expression):
            yield variable
            yield from variables(expression)
        case BodyAggregate(result=result, groups=groups):
            yield result
            yield from groups
        case _:
            assert_never(literal)


def atoms(body: tuple[Literal, ...]) -> Iterator[tuple[Atom, str]]:
    """Every atom of a body, inside aggregates too, with how it is used: ``""``, ``"negation"`` or
    ``"aggregation"``.
    """
    for literal in body:
        match literal:
            case Atom():
                yield literal, ""
            case Negation(atom=atom):
                yield atom, "negation"
            case BodyAggregate(body=inner):
                for atom, _ in atoms(inner):
                    yield atom, "aggregation"
            case Comparison() | Assignment():
                pass
            case _:
                assert_never(literal)
