"""The rule language of Datalog programs and recursive SQL: syntax tree, traversals and text form.

``rules.lower`` and ``rules.magic`` work on it. A checked ``Program`` has these invariants:

* Names are resolved and every term is typed.
* Terms of atoms and heads are variables, constants and, in bodies, wildcards. Computations occur
  only in ``Assignment`` and ``Comparison``.
* A positive atom, an assignment or an aggregate's result binds each variable. The order of the
  body is free.
* Negation and aggregation are stratified.
* It has no disjunctions, multiple heads, components, inline relations, record and ADT terms,
  ``range``, equivalence relations, or ``x = y`` between variables.

A relation is a set, and values are never NULL. EXPLAIN and tests print a program in the syntax of
the Datalog dialect where it has one.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final, assert_never

from kpg.runtime.errors import Span
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.functions.datalog import quote
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import display_name
from kpg.runtime.types import Type, word_to_float

Value = int | str
"""A constant as in ``scalar.Literal``: the word of a number, float or date, or a string."""


class Domain(enum.Enum):
    """The Datalog type of a column's values.

    Several domains share a runtime type.
    """

    NUMBER = "number"
    """BIGINT. In 32-bit programs every operation wraps to 32 bits (functions ``$wrap_*``)."""
    UNSIGNED = "unsigned"
    """BIGINT, not negative: checked up to 2**63 - 1, or wrapping at 2**32 in 32-bit programs."""
    FLOAT = "float"
    SYMBOL = "symbol"
    RECORD = "record"
    """TEXT: ``[1, "a", nil]``, or ``nil``.

    Equal records are equal texts.
    """
    ADT = "adt"
    """TEXT: ``$Branch`` or ``$Branch(1, "a")``."""
    SQL = "sql"
    """Any other runtime type, such as dates, decimals and booleans."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a column: its declared name, domain and runtime type.

    The name may be that of a subtype or union.
    """

    name: str
    domain: Domain
    type: Type


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a rule or goal, with the same type at each occurrence.

    Generated names begin with ``@``.
    """

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Constant:
    """A value of exactly ``type``."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Wildcard:
    """``_``, which matches any value.

    In a negated atom it means "for no value". In an aggregate's atoms it counts as a separate
    variable.
    """

    type: Type


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name``: a value that the caller supplies when a goal or update runs.

    Only goals and updates have it.
    """

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of ``runtime.functions`` or ``PRIMITIVES``.

    The arguments have exactly the types of its parameters.
    """

    function: str
    args: "tuple[Expression, ...]"
    type: Type


Expression = Variable | Constant | Parameter | Call
Term = Variable | Constant | Wildcard | Parameter
"""A term of an atom.

``Parameter`` occurs only in the bodies of goals' rules.
"""
HeadTerm = Variable | Constant


@dataclass(frozen=True, slots=True)
class Atom:
    """The tuples of a relation that match the terms.

    A repeated variable requires equality. An atom over an external relation matches its distinct rows
    without NULLs in columns whose term is not a wildcard.
    """

    relation: str
    terms: tuple[Term, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """A negated atom: no tuple matches.

    The rest of the body binds every variable.
    """

    atom: Atom


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two bound values by ``function``, which must hold, or must not if ``negated``.

    The functions are ``eq ne lt le gt ge contains $full_match``. The variables are bound by other
    literals.
    """

    function: str
    left: Expression
    right: Expression
    span: Span = field(compare=False, repr=False)
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """``variable = expression``, which binds the variable once the variables of the expression are bound.

    Nothing else in the body binds the variable: an equality with a variable that another literal
    binds is a ``Comparison``. Assignments do not depend on each other in a cycle.
    """

    variable: Variable
    expression: Expression
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BodyAggregate:
    """``result = function value : { body }``, per binding of ``groups`` by the rest of the enclosing body.

    It aggregates over the distinct bindings of *all* variables of the body, with a variable per
    wildcard. ``groups`` are the variables shared with the enclosing body, which binds them. All other
    variables are local and have unique names.

    ``count`` (value None) and ``sum`` over no bindings are 0, so every group has a result. ``min``,
    ``max`` and ``mean`` over no bindings make the literal fail. ``mean`` takes FLOAT values and
    returns DOUBLE. The others return the type of their value, and ``count`` returns BIGINT.
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
    """The tuple that a rule derives.

    Terms at aggregated columns are the values to aggregate.
    """

    relation: str
    terms: tuple[HeadTerm, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- body.`` Without atoms, the body derives at most one tuple, of constants.

    ``plan`` has the orders that ``.plan`` gives to the body's positive atoms, by version. Version v
    is for changes of the v-th recursive atom. Version 0 is also for atoms without a version of their
    own. An order has the atoms' 0-based positions *among the positive atoms of the body*. Without
    ``.plan`` it is empty.
    """

    head: Head
    body: tuple[Literal, ...]
    span: Span = field(compare=False, repr=False)
    plan: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Subsumption:
    """A selection of the tuples that no other tuple dominates.

    Each rule derives dominated tuples. Its first two atoms are of the relation itself: the head's
    tuple, and the tuple that dominates it. The other literals are comparisons, and literals of
    relations that do not depend on this one. If ``is_mutual``, two tuples may dominate each other,
    and the greater one is removed.
    """

    rules: tuple[Rule, ...]
    is_mutual: bool = False

    @property
    def guards(self) -> frozenset[str]:
        """Other relations that the rules read."""
        return frozenset(atom.relation for rule in self.rules for atom, _ in atoms(rule.body[2:]))


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice domain: one tuple per value of each of the ``keys``.

    It is the tuple that is derived in the earliest round, then the least one.
    """

    keys: tuple[tuple[int, ...], ...]


EndCondition = tuple[tuple[str, int], ...]
"""Relations with the numbers of tuples that all must be reached to end a recursion."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on a recursion: it ends after the first round in which an end condition holds.

    ``lockstep_relations`` are relations that are computed in the same rounds, even if independent.
    Each round then applies the rules, with their negations, to the previous round only, and no tuple
    persists by itself. With ``counts_next_round``, the end condition counts the tuples of the next
    round, which is then discarded.
    """

    end_conditions: tuple[EndCondition, ...]
    lockstep_relations: tuple[str, ...] = ()
    counts_next_round: bool = False


@dataclass(frozen=True, slots=True)
class RowNumbering:
    """All tuples, with their number in the last column: 0, 1, 2... in the order of the other columns.

    Symbols are ordered by first occurrence. Rules derive 0 in that column.
    """


Selection = Subsumption | Choice | Limit | RowNumbering
"""The tuples that a relation keeps of those its rules derive.

It cannot be restricted by demand.
"""


class Kind(enum.Enum):
    """The origin of a relation's tuples."""

    INPUT = "input"
    """A base table, filled by facts, files and updates.

    It has no rules.
    """
    DERIVED = "derived"
    """Rules only.

    Facts for it are in the INPUT relation ``base``, which a rule copies.
    """
    EXTERNAL = "external"
    """A table or view of the catalog that the program does not declare."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation.

    ``stored_type`` is the type in an external relation, cast to ``type.type`` when read.
    """

    name: str
    type: ValueType
    stored_type: Type
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the program.

    ``aggregates`` has for each column None or the function (``min max count sum mean``) that combines
    the values derived for equal values of the other columns. Each binding of all variables of a body
    contributes once, and contributions of several rules add up. Rules for sums and counts have no
    wildcards. Only ``min`` and ``max`` may occur in recursion. ``required_bindings`` are columns that
    no rule binds, so a ``Goal`` must bind them. ``magic`` is True for the qualifier ``magic``, False
    for ``no_magic``, else None. ``selection`` is None if all derived tuples are kept.
    """

    name: str
    columns: tuple[Column, ...]
    kind: Kind
    span: Span | None = field(compare=False, repr=False)
    aggregates: tuple[str | None, ...] = ()
    required_bindings: frozenset[int] = frozenset()
    base: str | None = None
    magic: bool | None = None
    selection: Selection | None = None

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type.type for column in self.columns)


@dataclass(frozen=True, slots=True)
class Goal:
    """``?- body.``: a query for the tuples of ``relation`` that match ``terms``.

    A goal of one atom queries the atom's relation. Any other goal has its own derived relation, whose
    first columns are the goal's parameters. The result has the distinct variables as columns, in
    order of first occurrence.
    """

    relation: str
    terms: tuple[Term, ...]
    parameters: tuple[Parameter, ...]
    variables: tuple[Variable, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """``.query p(b, f)``: prepares p for goals that bind the columns marked ``b``."""

    relation: str
    bound: tuple[bool, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Update:
    """``+edge(1, 2).`` (diff 1) or ``-edge(2, 3).`` (diff -1) of an INPUT or EXTERNAL relation."""

    relation: str
    terms: tuple[Constant | Parameter, ...]
    diff: int
    span: Span = field(compare=False, repr=False)


class TransferKind(enum.Enum):
    """The directive of a transfer."""

    INPUT = "input"
    OUTPUT = "output"
    PRINTSIZE = "printsize"


@dataclass(frozen=True, slots=True)
class Transfer:
    """``.input``, ``.output`` or ``.printsize`` with options such as ``IO`` and ``filename``.

    Rows of ``.input`` go to the INPUT relation ``relation``, which the program calls ``name``.
    """

    direction: TransferKind
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
    """A checked program.

    ``facts`` are the initial rows of INPUT relations, distinct, in text order.
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
    """Yield the variables of an expression or term, with repetitions, from left to right."""
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
    """Yield the rule's variables that a literal mentions, with repetitions.

    Those of an aggregate are its groups and result.
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
    """Yield every atom of a body, also inside aggregates, with its use.

    The use is ``""``, ``"negation"`` or ``"aggregation"``.
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


def has_identity(function: str) -> bool:
    """Return whether the aggregate has a value for a group without bindings."""
    return lookup_aggregate(function).identity is not None


def is_monotone(function: str) -> bool:
    """Return whether a relation may depend on itself through the aggregate.

    More rows must move its value in one direction only.
    """
    return lookup_aggregate(function).is_lattice


def is_duplicate_sensitive(aggregates: Iterable[str | None]) -> bool:
    """Return whether a repeated derivation of a row changes one of the aggregates."""
    return any(function is not None and not lookup_aggregate(function).idempotent for function in aggregates)


VariableMapping = Mapping[str, Expression]
Substitution = Callable[[Expression], Expression]
"""Function for whole expressions, for variables that a literal binds, and for terms but wildcards."""


def substitution(mapping: VariableMapping) -> Substitution:
    """Return the substitution that replaces variables by name everywhere in an expression."""

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


def substitute_atom(value: Atom, change: Substitution) -> Atom:
    """Return the atom with the substitution applied to its terms, which must stay terms."""
    return replace(value, terms=tuple(_substitute_term(part, change) for part in value.terms))


def _substitute_term(value: Term, change: Substitution) -> Term:
    if isinstance(value, Wildcard):
        return value
    result = change(value)
    assert not isinstance(result, Call)
    return result


def substitute_binding(variable: Variable, change: Substitution) -> Variable:
    """Return a binding occurrence of a variable, replaced only by another variable."""
    result = change(variable)
    return result if isinstance(result, Variable) else variable


def substitute_literal(value: Literal, change: Substitution) -> Literal:
    """Return the literal with the substitution applied to its expressions.

    A variable that it binds is replaced only by a variable. The local variables of an aggregate are
    replaced too, which is safe because their names are unique.
    """
    match value:
        case Atom():
            return substitute_atom(value, change)
        case Negation(atom=inner):
            return Negation(substitute_atom(inner, change))
        case Comparison(left=left, right=right):
            return replace(value, left=change(left), right=change(right))
        case Assignment(variable=variable, expression=right):
            return replace(value, variable=substitute_binding(variable, change), expression=change(right))
        case BodyAggregate(result=result, value=operand, body=body, groups=groups):
            return replace(
                value,
                result=substitute_binding(result, change),
                value=None if operand is None else change(operand),
                body=tuple(substitute_literal(part, change) for part in body),
                groups=tuple(substitute_binding(part, change) for part in groups),
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
    "$bshl": "BIGINT, BIGINT -> BIGINT: shifted left by the second modulo 64; overflowing bits are lost",
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
    "$whole_number": "TEXT -> BIGINT: decimal, 0x or 0b, with a sign; an error if malformed",
    "$float_bits": "DOUBLE -> BIGINT: the number of the same 64 bits",
    "$float_bits32": "DOUBLE -> BIGINT: the number of the bits of its 32-bit float",
    "$bits_float": "BIGINT -> DOUBLE: inverse of $float_bits",
    "$bits_float32": "BIGINT -> DOUBLE: the float with these low 32 bits",
    "$number_or_zero": "TEXT -> BIGINT: decimal of 32 bits, with a sign; 0 if malformed",
    "$quote": 'TEXT -> TEXT: a symbol as a field: "a" with \\ before \\ and ", \\n \\t \\r for those',
    "$unquote": "TEXT -> TEXT: inverse of $quote",
    "$show": "BIGINT or DOUBLE -> TEXT: a number as a field; floats so that they read back the same",
    "$record": "TEXT fields... -> TEXT: [a, b]",
    "$branch": "TEXT name, TEXT fields... -> TEXT: $name(a, b), or $name if there are no fields",
    "$branch_of": "TEXT -> TEXT: the name of an ADT value's branch; of a record '', of nil 'nil'",
    "$field": "TEXT, BIGINT literal -> TEXT: a record's or branch's field, by position from 0, as it stands",
    "$number": "TEXT -> BIGINT: inverse of $show",
    "$float": "TEXT -> DOUBLE: inverse of $show",
}
"""Functions that the runtime provides in addition to the registered ones.

They are strict. A result out of range is an error, except for ``$bshl``. ``$field`` is NULL if
there is no such field: rules test ``$branch_of``, but may read the field first.
"""
WRAP_FUNCTIONS: Final[Mapping[Domain, str]] = {
    Domain.NUMBER: "$wrap_number",
    Domain.UNSIGNED: "$wrap_unsigned",
}
"""Functions that wrap results to 32 bits, by domain."""


OPERATORS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}


def program_text(program: Program) -> str:
    """Return declarations, facts and rules as text, one per line."""
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
    """Return the declaration of a relation with its kind."""
    columns = ", ".join(f"{column.name}: {column.type.name}" for column in relation.columns)
    return f".decl {relation.name}({columns}) {relation.kind.value}"


def rule_text(rule: Rule, relation: Relation | None = None) -> str:
    """Return the rule as text, with the head's aggregates if ``relation`` is passed."""
    aggregates = relation.aggregates if relation is not None else ()
    functions = aggregates or (None,) * len(rule.head.terms)
    terms = ", ".join(map(_head_term, rule.head.terms, functions))
    head = f"{rule.head.relation}({terms})"
    body = ", ".join(literal_text(literal) for literal in rule.body)
    return f"{head} :- {body}." if body else f"{head}."


def _head_term(term: HeadTerm, function: str | None) -> str:
    text = expression_text(term)
    return text if function is None else f"{function}({text})"


def literal_text(literal: Literal) -> str:
    """Return a body literal as text."""
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
            inner = ", ".join(literal_text(inner_literal) for inner_literal in body)
            return f"{result.name} := {function}{operand} : {{ {inner} }}{by}"
        case _:
            assert_never(literal)


def expression_text(expression: Expression | Wildcard) -> str:
    """Return an expression or term as text."""
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
            return f"{display_name(function)}({', '.join(map(expression_text, args))})"
        case _:
            assert_never(expression)
