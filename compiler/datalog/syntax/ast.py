"""The syntax tree of a Datalog program, as ``parse`` builds it and ``components`` instantiates it.

Comparisons ignore spans: two trees are equal if their text has the same meaning.
"""

import re
from dataclasses import field

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier with its position.

    It is dotted if it refers into a component.
    """

    text: str
    span: Span = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, such as ``x``."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Underscore:
    """The wildcard ``_``."""

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
    """``nil``, the record without fields."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Record:
    """``[x, y]``."""

    args: "tuple[Expression, ...]"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Dollar:
    """``$Branch(x, y)``.

    Without parentheses ``args`` is None, and it is a branch or a goal's parameter.
    """

    name: str
    args: "tuple[Expression, ...] | None"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A functor call such as ``cat(x, y)``, or an operator (``+``, ``band``, or ``neg`` for unary minus)."""

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
    """``sum x : { body }``.

    ``value`` and ``initial`` are None if absent.
    """

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
    """``true`` or ``false`` as a literal."""

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
    """A reference to a type: ``decimal(15, 2)`` with ``arguments``, or ``Name<>`` for a lattice column.

    ``merge`` is FlowLog's ``min<int32>``, which keeps the least value.
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
    """``.type Name = A | B``.

    With one member it is an alias.
    """

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
    """``.lattice Name<> { Lub -> @lub(_, _), ... }``: the bounds of a lattice type."""

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
    """Relations computed in lockstep, with end conditions as in ``core.Limit``.

    ``counter`` is one of them.
    """

    counter: Name
    names: tuple[Name, ...]
    end_conditions: tuple[tuple[tuple[str, int], ...], ...]
    counts_next_round: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """``.plan 0:(1, 2)``: for each version, the order of the body's atoms by 1-based position.

    ``is_strict`` is ``.strict``: the atoms are evaluated in text order.
    """

    orders: tuple[tuple[int, tuple[int, ...]], ...]
    span: Span = field(compare=False, repr=False)
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """``heads :- body.`` The body of a fact is None."""

    heads: tuple[Atom, ...]
    body: Body | None
    plan: Plan | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subsumption:
    """``less <= greater :- body.``: dominated tuples are removed."""

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
    """``.override p``: replaces the rules of base components for ``p``."""

    name: Name
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Functor:
    """``.functor name(x: number): symbol``.

    ``name`` begins with ``@`` if calls do.
    """

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


MAX_DIGITS = 100
"""Maximum number of digits that are parsed as a number.

It exceeds every type. Python's parsing takes quadratic time and refuses more than 4300 digits.
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


def parse_integer(text: str) -> tuple[int, bool]:
    """Return the value of an integer literal, and whether its suffix makes it unsigned.

    A literal with more than ``MAX_DIGITS`` digits becomes another value that is out of range.
    """
    unsigned = text.endswith("u")
    digits = text[:-1] if unsigned else text
    if len(digits) > MAX_DIGITS:
        return 10**MAX_DIGITS, unsigned
    if digits.startswith("0x"):
        return int(digits[2:], 16), unsigned
    if digits.startswith("0b"):
        return int(digits[2:], 2), unsigned
    return int(digits), unsigned


def parse_address(text: str) -> int | None:
    """Return an IPv4 address as a signed 32-bit number, as in Soufflé, or None if it is invalid."""
    parts = [int(part) for part in text.split(".")]
    if max(parts) > 255:
        return None
    value = int.from_bytes(bytes(parts), "big")
    return value - 2**32 if value >= 2**31 else value


def unescape(text: str) -> tuple[str, int | None]:
    """Return the text of a string literal, and the position of its first unknown escape, which is kept."""
    first_unknown: int | None = None

    def resolve(found: re.Match[str]) -> str:
        nonlocal first_unknown
        if found[1] not in ESCAPES:
            first_unknown = found.start() if first_unknown is None else first_unknown
        return ESCAPES.get(found[1], found[0])

    return re.sub(r"\\(.)", resolve, text), first_unknown
