"""The syntax tree of a Datalog program, as ``parse`` builds it and ``components`` instantiates it.

Spans do not take part in comparisons: two trees are equal if they say the same.
"""

import re
from dataclasses import field

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier (dotted for what is in a component) where it stands."""

    text: str
    span: Span = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Underscore:
    """``_``."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Integer:
    """``42``, ``0x2a``, ``0b101010``; ``42u`` is unsigned."""

    value: int
    unsigned: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Float:
    """``4.2``, ``4.2e1``."""

    value: float
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false`` as a value."""

    value: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class String:
    """``"text"``, escapes resolved."""

    value: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Nil:
    """``nil``, the record that has no fields."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Record:
    """``[x, y]``."""

    args: "tuple[Expression, ...]"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Dollar:
    """``$Branch(x, y)``; without parentheses (``args`` None) a branch, or the parameter of a goal."""

    name: str
    args: "tuple[Expression, ...] | None"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """``cat(x, y)``; also an operator (``+``, ``band``; ``neg`` for the unary minus)."""

    function: str
    args: "tuple[Expression, ...]"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """``as(x, Type)``."""

    value: "Expression"
    type: Name
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``sum x : { body }``; ``value`` is None where there is none, ``initial`` where none is said."""

    function: str
    value: "Expression | None"
    body: "Body"
    span: Span = field(compare=False, repr=False)
    initial: "Expression | None" = None


Expression = (
    Variable
    | Underscore
    | Integer
    | Float
    | Boolean
    | String
    | Nil
    | Record
    | Dollar
    | Call
    | Cast
    | Aggregate
)


@dataclass(frozen=True, slots=True)
class Atom:
    """``p(x, y)``."""

    name: Name
    args: tuple[Expression, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left operator right``; ``operator`` is one of ``= != < <= > >=``."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """``true`` or ``false``."""

    value: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``!body``."""

    body: "Body"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """``a, b``."""

    parts: "tuple[Body, ...]"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """``a ; b``."""

    parts: "tuple[Body, ...]"
    span: Span = field(compare=False, repr=False)


Body = Atom | Comparison | Truth | Not | And | Or


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A type's name; ``arguments`` are those of ``decimal(15, 2)``; a column of its lattice is ``Name<>``.

    ``merge`` is FlowLog's: ``min<int32>`` keeps the least value.
    """

    name: Name
    arguments: tuple[int, ...] = ()
    is_lattice: bool = False
    merge: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """``name: type`` of a relation, record or branch."""

    name: Name
    type: TypeRef


@dataclass(frozen=True, slots=True)
class Declaration:
    """``.decl p, q(x: number) inline choice-domain x``."""

    names: tuple[Name, ...]
    attributes: tuple[Attribute, ...]
    qualifiers: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)
    keys: tuple[tuple[Name, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Subtype:
    """``.type Name <: base``."""

    name: Name
    base: TypeRef
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class UnionType:
    """``.type Name = A | B``; of one member, another name for it."""

    name: Name
    members: tuple[TypeRef, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RecordType:
    """``.type Name = [x: number, rest: Name]``."""

    name: Name
    fields: tuple[Attribute, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """``Name {x: number}`` of an ADT."""

    name: Name
    fields: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class AdtType:
    """``.type Name = A {x: number} | B {}``."""

    name: Name
    branches: tuple[Branch, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lattice:
    """``.lattice Name<> { Lub -> @lub(_, _), ... }``: how values of a type meet."""

    name: Name
    operators: tuple[tuple[Name, Expression], ...]
    span: Span = field(compare=False, repr=False)


TypeDeclaration = Subtype | UnionType | RecordType | AdtType


@dataclass(frozen=True, slots=True)
class Directive:
    """``.input p, q(IO="file")``; ``kind`` is input, output, printsize or limitsize."""

    kind: str
    names: tuple[Name, ...]
    options: tuple[tuple[str, str], ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Relations that are computed together by rounds, as ``core.Limit`` says; ``counter`` is one of them."""

    counter: Name
    names: tuple[Name, ...]
    ends: tuple[tuple[tuple[str, int], ...], ...]
    is_ahead: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """``.plan 0:(1, 2)``: of each version, the 1-based positions of the body's atoms in the order to use.

    ``is_strict`` is ``.strict``: they are used in the order of the text.
    """

    orders: tuple[tuple[int, tuple[int, ...]], ...]
    span: Span = field(compare=False, repr=False)
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """``heads :- body.``; a fact has no body."""

    heads: tuple[Atom, ...]
    body: Body | None
    plan: Plan | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subsumption:
    """``less <= greater :- body.``: a tuple that another one dominates is not kept."""

    less: Atom
    greater: Atom
    body: Body
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ComponentRef:
    """``Name<A, B>``: a component with its arguments."""

    name: Name
    arguments: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """``.comp Name<T> : Base<T> { ... }``."""

    name: Name
    parameters: tuple[Name, ...]
    bases: tuple[ComponentRef, ...]
    statements: "tuple[Statement, ...]"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Init:
    """``.init name = Component<A>``."""

    name: Name
    component: ComponentRef
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Override:
    """``.override p``: the rules of the base components for ``p`` do not hold here."""

    name: Name
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Functor:
    """``.functor name(x: number): symbol``; ``name`` with ``@`` before it if calls have that."""

    name: Name
    arguments: tuple[TypeRef, ...]
    result: TypeRef
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pragma:
    """``.pragma "key" "value"``."""

    key: str
    value: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Goal:
    """``?- body.``"""

    body: Body
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """``.query p(b, f)``."""

    name: Name
    marks: tuple[Name, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Update:
    """``+p(1).`` (diff 1) or ``-p(1).`` (diff -1)."""

    diff: int
    atom: Atom
    span: Span = field(compare=False, repr=False)


Statement = (
    Declaration
    | Subtype
    | UnionType
    | RecordType
    | AdtType
    | Lattice
    | Directive
    | Rounds
    | Clause
    | Subsumption
    | Component
    | Init
    | Override
    | Functor
    | Pragma
    | Goal
    | Query
    | Update
)


@dataclass(frozen=True, slots=True)
class Module:
    """The statements of a text, in order."""

    statements: tuple[Statement, ...]


LONGEST = 100
"""Digits that are read as a number: many more than any type has, and few enough for Python, which takes
time in proportion to their square and refuses more than 4300.
"""
ESCAPES = {
    "\\": "\\",
    '"': '"',
    "'": "'",
    "?": "?",
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "0": "\0",
}


def integer(text: str) -> tuple[int, bool]:
    """The value, and whether the suffix says that it is unsigned. Of any size; one of more characters than
    ``LONGEST`` is some other that is too large for a number.
    """
    unsigned = text.endswith("u")
    digits = text[:-1] if unsigned else text
    if len(digits) > LONGEST:
        return 10**LONGEST, unsigned
    if digits.startswith("0x"):
        return int(digits[2:], 16), unsigned
    if digits.startswith("0b"):
        return int(digits[2:], 2), unsigned
    return int(digits), unsigned


def address(text: str) -> int | None:
    """An IPv4 address as the number of 32 bits, with a sign, that it is to Soufflé; None if it is none."""
    parts = [int(part) for part in text.split(".")]
    if max(parts) > 255:
        return None
    value = int.from_bytes(bytes(parts), "big")
    return value - 2**32 if value >= 2**31 else value


def unescape(text: str) -> tuple[str, int | None]:
    """The string between the quotes, and where the first unknown escape begins, which is kept as it is."""
    wrong: int | None = None

    def resolve(found: re.Match[str]) -> str:
        nonlocal wrong
        if found[1] not in ESCAPES:
            wrong = found.start() if wrong is None else wrong
        return ESCAPES.get(found[1], found[0])

    return re.sub(r"\\(.)", resolve, text), wrong
