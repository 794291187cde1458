"""The rule language of Datalog programs and recursive SQL: syntax tree, traversals and text form.

``rules.lower`` and ``rules.magic`` work on it. A checked ``Program`` has these invariants:

* Names are resolved and every term is typed.
* Terms of atoms and heads are variables, constants and, in bodies, wildcards. Computations occur only in
  ``Assignment`` and ``Comparison``.
* A positive atom, an assignment or an aggregate's result binds each variable. The order of the body is free.
* Negation and aggregation are stratified.
* Disjunctions, multiple heads, components, inline relations, record and ADT terms, ``range``, equivalence
  relations and ``x = y`` between variables are gone.

A relation is a set, and values are never NULL. EXPLAIN and tests print a program in the Datalog dialect's own
syntax, as far as that goes.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final, assert_never

from kpg.runtime.errors import Span
from kpg.runtime.functions import aggregate_named
from kpg.runtime.functions.datalog import quote
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import shown
from kpg.runtime.types import Type, word_to_float

Value = int | str
"""A constant as in ``scalar.Literal``: the word of a number, float (``types.float_to_word``) or date, or the
string of a text.
"""


class Domain(enum.Enum):
    """What the values of a column are to Datalog; several domains share a runtime type."""

    NUMBER = "number"
    """BIGINT. In 32-bit programs every operation wraps to 32 bits (functions ``$wrap_*``)."""
    UNSIGNED = "unsigned"
    """BIGINT, from 0 on: to 2**63 - 1 and checked, or to 2**32 - 1 and wrapping in 32-bit programs."""
    FLOAT = "float"
    SYMBOL = "symbol"
    RECORD = "record"
    """TEXT: ``[1, "a", nil]``, or ``nil``. Equal records are equal texts.
    ``datalog.desugaring.structures`` makes them."""
    ADT = "adt"
    """TEXT: ``$Branch`` or ``$Branch(1, "a")``."""
    SQL = "sql"
    """Any other type of the runtime: dates, decimals, booleans."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a column: as declared (``name``, a subtype or union too), its domain, and the runtime's
    type.
    """

    name: str
    domain: Domain
    type: Type


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a rule or goal: the same name and type wherever it occurs in it. Made-up names begin
    with ``@``.
    """

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; it is of ``type`` exactly."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Wildcard:
    """``_``: any value. In a negated atom, "for no value"; in an aggregate's atoms it counts as a variable
    of its own.
    """

    type: Type


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name``: a value given when the goal is asked or the update is run. Only in goals and updates."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A function of ``runtime.functions`` (or a primitive of ``primitives.PRIMITIVES``) on arguments of
    exactly its types.
    """

    function: str
    args: "tuple[Expression, ...]"
    type: Type


Expression = Variable | Constant | Parameter | Call
Term = Variable | Constant | Wildcard | Parameter
"""What stands in an atom. ``Parameter`` only in the bodies of goals' rules."""
HeadTerm = Variable | Constant


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


def is_total(function: str) -> bool:
    """Whether it has a value, its identity, for a group without bindings."""
    return aggregate_named(function).identity is not None


def in_recursion(function: str) -> bool:
    """Whether a relation may depend on itself through it: more rows only move its value one way."""
    return aggregate_named(function).is_lattice


def counts_repeats(aggregates: Iterable[str | None]) -> bool:
    """Whether one of a relation's aggregates changes if a rule derives a row once more."""
    return any(function is not None and not aggregate_named(function).idempotent for function in aggregates)


Mapped = Mapping[str, Expression]
Change = Callable[[Expression], Expression]
"""Applied to whole expressions, to variables that are bound, and to terms other than wildcards."""


def replacing(mapping: Mapped) -> Change:
    """The change that replaces variables by name, everywhere in an expression."""

    def change(value: Expression) -> Expression:
        match value:
            case Variable(name=name):
                return mapping.get(name, value)
            case Call(args=args):
                return replace(value, args=tuple(change(arg) for arg in args))
            case Constant() | Parameter():
                return value
            case _:
                assert_never(value)

    return change


def changed_atom(value: Atom, change: Change) -> Atom:
    """The atom with its terms changed, to terms."""
    return replace(value, terms=tuple(_term(part, change) for part in value.terms))


def _term(value: Term, change: Change) -> Term:
    if isinstance(value, Wildcard):
        return value
    made = change(value)
    assert not isinstance(made, Call)
    return made


def changed_binding(variable: Variable, change: Change) -> Variable:
    """A variable where it is bound: changed if to a variable."""
    made = change(variable)
    return made if isinstance(made, Variable) else variable


def changed(value: Literal, change: Change) -> Literal:
    """The literal with its expressions changed; a variable that it binds, only to a variable.

    Of an aggregate, the variables of its own are changed too: they have names of their own.
    """
    match value:
        case Atom():
            return changed_atom(value, change)
        case Negation(atom=inner):
            return Negation(changed_atom(inner, change))
        case Comparison(left=left, right=right):
            return replace(value, left=change(left), right=change(right))
        case Assignment(variable=variable, expression=right):
            return replace(value, variable=changed_binding(variable, change), expression=change(right))
        case BodyAggregate(result=result, value=operand, body=body, groups=groups):
            return replace(
                value,
                result=changed_binding(result, change),
                value=None if operand is None else change(operand),
                body=tuple(changed(one, change) for one in body),
                groups=tuple(changed_binding(one, change) for one in groups),
            )
        case _:
            assert_never(value)


PRIMITIVES: Final[Mapping[str, str]] = {
    "$unsigned": "BIGINT -> BIGINT: the number; an error below 0",
    "$wrap_number": "BIGINT -> BIGINT: the low 32 bits, as a signed number",
    "$wrap_unsigned": "BIGINT -> BIGINT: the low 32 bits, as an unsigned number",
    "$wrap_int8": "BIGINT -> BIGINT: the low 8 bits, as a signed number",
    "$wrap_int16": "BIGINT -> BIGINT: the low 16 bits, as a signed number",
    "$wrap_uint8": "BIGINT -> BIGINT: the low 8 bits, as an unsigned number",
    "$wrap_uint16": "BIGINT -> BIGINT: the low 16 bits, as an unsigned number",
    "$wrap_product": "BIGINT, BIGINT -> BIGINT: the low 32 bits of the product of two numbers below 2**32",
    "$power": "BIGINT, BIGINT -> BIGINT: power, 0 for a negative exponent; an error beyond 64 bits",
    "$wrap_power": "BIGINT, BIGINT -> BIGINT: the low 32 bits of the power, as an unsigned number",
    "$band": "BIGINT, BIGINT -> BIGINT: bitwise and",
    "$bor": "BIGINT, BIGINT -> BIGINT: bitwise or",
    "$bxor": "BIGINT, BIGINT -> BIGINT: bitwise exclusive or",
    "$bnot": "BIGINT -> BIGINT: every bit flipped",
    "$bshl": "BIGINT, BIGINT -> BIGINT: shifted left by the second modulo 64, what leaves the word is lost",
    "$bshr": "BIGINT, BIGINT -> BIGINT: shifted right by the second modulo 64, filled with the sign",
    "$bshru": "BIGINT, BIGINT -> BIGINT: shifted right by the second modulo 64, filled with 0",
    "$land": "BIGINT, BIGINT -> BIGINT: 1 if both are other than 0, else 0",
    "$lor": "BIGINT, BIGINT -> BIGINT: 1 if one is other than 0, else 0",
    "$lxor": "BIGINT, BIGINT -> BIGINT: 1 if exactly one is other than 0, else 0",
    "$lnot": "BIGINT -> BIGINT: 1 for 0, else 0",
    "$ord": "TEXT -> BIGINT: the code of the text in the dictionary",
    "$substr": "TEXT, BIGINT, BIGINT -> TEXT: so many characters from a position, which counts from 0",
    "$full_match": "TEXT pattern, TEXT -> BOOLEAN: ECMAScript's, of the whole text; NULL: no pattern",
    "$quotient": "DOUBLE, DOUBLE -> DOUBLE: quotient, of 0 too: an infinity or NaN",
    "$single": "DOUBLE -> DOUBLE: the nearest float of 32 bits",
    "$six_places": "DOUBLE -> TEXT: with six decimal places",
    "$plain_float": "DOUBLE -> TEXT: the shortest digits, without an exponent; inf, NaN",
    "$plain_single": "DOUBLE -> TEXT: the shortest digits among floats of 32 bits, likewise",
    "$whole_number": "TEXT -> BIGINT: decimal, 0x or 0b, with a sign; an error for what is none",
    "$float_bits": "DOUBLE -> BIGINT: the number of the same 64 bits",
    "$float_bits32": "DOUBLE -> BIGINT: the number of the bits that it has as a float of 32",
    "$bits_float": "BIGINT -> DOUBLE: what $float_bits was given",
    "$bits_float32": "BIGINT -> DOUBLE: the float that the low 32 bits are",
    "$number_or_zero": "TEXT -> BIGINT: decimal of 32 bits, with a sign; 0 for what is none",
    "$quote": 'TEXT -> TEXT: a symbol as a field: "a" with \\ before \\ and ", \\n \\t \\r for those',
    "$unquote": "TEXT -> TEXT: what $quote was given",
    "$show": "BIGINT or DOUBLE -> TEXT: a number as a field; floats so that they read back the same",
    "$record": "TEXT fields... -> TEXT: [a, b]",
    "$branch": "TEXT name, TEXT fields... -> TEXT: $name(a, b), or $name if there are no fields",
    "$branch_of": "TEXT -> TEXT: the name of an ADT value's branch; of a record '', of nil 'nil'",
    "$field": "TEXT, BIGINT literal -> TEXT: a record's or branch's field, by position from 0, as it stands",
    "$number": "TEXT -> BIGINT: what $show was given",
    "$float": "TEXT -> DOUBLE: what $show was given",
}
"""What the runtime has to provide besides the registered functions, with NULL for a NULL argument.

An error where the result is out of range, ``$bshl`` excepted. ``$field`` is NULL where there is no such
field: rules test ``$branch_of``, but perhaps after they read the field.
"""
WRAPS: Final[Mapping[Domain, str]] = {
    Domain.NUMBER: "$wrap_number",
    Domain.UNSIGNED: "$wrap_unsigned",
}
"""What makes 32-bit numbers of results."""


OPERATORS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}


def program_text(program: Program) -> str:
    """Declarations, facts and rules, one a line."""
    return "\n".join(_lines(program))


def _lines(program: Program) -> Iterator[str]:
    for relation in program.relations.values():
        yield relation_text(relation)
        for row in program.facts.get(relation.name, ()):
            terms = (Constant(value, type_) for value, type_ in zip(row, relation.types, strict=True))
            yield f"{relation.name}({', '.join(map(expression_text, terms))})."
    for rule in program.rules:
        yield rule_text(rule, program.relations[rule.head.relation])


def relation_text(relation: Relation) -> str:
    """The declaration, with the kind of relation it is."""
    columns = ", ".join(f"{column.name}: {column.type.name}" for column in relation.columns)
    return f".decl {relation.name}({columns}) {relation.kind.value}"


def rule_text(rule: Rule, relation: Relation | None = None) -> str:
    """The rule; the head's aggregates are shown if its relation is given."""
    aggregates = relation.aggregates if relation is not None else ()
    functions = aggregates or (None,) * len(rule.head.terms)
    terms = ", ".join(map(_head_term, rule.head.terms, functions))
    head = f"{rule.head.relation}({terms})"
    body = ", ".join(literal_text(one) for one in rule.body)
    return f"{head} :- {body}." if body else f"{head}."


def _head_term(term: HeadTerm, function: str | None) -> str:
    text = expression_text(term)
    return text if function is None else f"{function}({text})"


def literal_text(literal: Literal) -> str:
    """A literal of a body."""
    match literal:
        case Atom(relation=relation, terms=terms):
            return f"{relation}({', '.join(expression_text(term) for term in terms)})"
        case Negation(atom=atom):
            return f"!{literal_text(atom)}"
        case Comparison(function=function, left=left, right=right, negated=negated):
            sides = expression_text(left), expression_text(right)
            if function in OPERATORS:
                return f"{sides[0]} {OPERATORS[function]} {sides[1]}"
            return f"{'!' if negated else ''}{function}({sides[0]}, {sides[1]})"
        case Assignment(variable=variable, expression=expression):
            return f"{variable.name} := {expression_text(expression)}"
        case BodyAggregate(result=result, function=function, value=value, body=body, groups=groups):
            operand = "" if value is None else f" {expression_text(value)}"
            by = f" by {', '.join(group.name for group in groups)}" if groups else ""
            inner = ", ".join(literal_text(one) for one in body)
            return f"{result.name} := {function}{operand} : {{ {inner} }}{by}"
        case _:
            assert_never(literal)


def expression_text(expression: Expression | Wildcard) -> str:
    """An expression or term."""
    match expression:
        case Variable(name=name):
            return name
        case Wildcard():
            return "_"
        case Parameter(name=name):
            return f"${name}"
        case Constant(value=value, type=type_):
            if isinstance(value, str):
                return quote(value)
            return repr(word_to_float(value)) if type_.is_float else str(value)
        case Call(function=function, args=args):
            if function in INFIX and len(args) == 2:
                return f"({expression_text(args[0])} {INFIX[function]} {expression_text(args[1])})"
            return f"{shown(function)}({', '.join(map(expression_text, args))})"
        case _:
            assert_never(expression)
