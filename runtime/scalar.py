"""Typed scalar expressions: what SQL and Datalog expressions become, and what the runtime evaluates.

Shared by the logical algebra and the dataflow IR. Pure data; ``runtime.mfp`` compiles them.
"""

from collections.abc import Callable, Iterator
from dataclasses import field
from operator import is_
from typing import assert_never

from kpg.runtime.checkpoints import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.types import HashedOnce, Type, hash_once


@hash_once
@dataclass(frozen=True, slots=True)
class Column(HashedOnce):
    """Column ``index`` of the input row."""

    index: int
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Literal(HashedOnce):
    """A constant: its word, or the ``str`` itself for a text type, or None for NULL."""

    value: int | str | None
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Call(HashedOnce):
    """A registered function (``runtime.functions``) applied to arguments of exactly its types."""

    function: str
    args: "tuple[Scalar, ...]"
    type: Type
    stored: str = field(default="", compare=False, repr=False)
    """The column that the value of this cast is for, in errors."""


@hash_once
@dataclass(frozen=True, slots=True)
class If(HashedOnce):
    """``then`` where ``condition`` is true, ``otherwise`` where it is false or NULL.

    An error in the branch that is not taken is no error.
    """

    condition: "Scalar"
    then: "Scalar"
    otherwise: "Scalar"
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Fetch(HashedOnce):
    """Column ``column`` of the row of ``table`` whose rowid is ``rowid`` (late materialisation).

    Only in physical plans: base-table arrangements hold (key, rowid) and columns are read from the
    table's one row store when a row has survived the joins and filters before.
    """

    table: str
    column: int
    rowid: "Scalar"
    type: Type


Scalar = Column | Literal | Call | If | Fetch


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """The direct subexpressions of a scalar, left to right."""
    match scalar:
        case Column() | Literal():
            return ()
        case Call(args=args):
            return args
        case If(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Fetch(rowid=rowid):
            return (rowid,)
        case _:
            assert_never(scalar)


def with_children(scalar: Scalar, new: tuple[Scalar, ...]) -> Scalar:
    """The scalar with its direct subexpressions replaced, in the order of :func:`children`."""
    match scalar:
        case Column() | Literal():
            return scalar
        case Call(function=function, type=type_, stored=stored):
            return Call(function, new, type_, stored)
        case If(type=type_):
            return If(new[0], new[1], new[2], type_)
        case Fetch(table=table, column=column, type=type_):
            return Fetch(table, column, new[0], type_)
        case _:
            assert_never(scalar)


def walk(scalar: Scalar) -> Iterator[Scalar]:
    """The scalar and all its subexpressions, parents first."""
    stack = [scalar]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def transform(scalar: Scalar, rewrite: Callable[[Scalar], Scalar]) -> Scalar:
    """Rebuild the scalar bottom-up, applying ``rewrite`` to every node after its children."""
    checkpoint()
    old = children(scalar)
    new = tuple(transform(child, rewrite) for child in old)
    return rewrite(scalar if all(map(is_, old, new)) else with_children(scalar, new))


def columns(scalar: Scalar) -> frozenset[int]:
    """The input columns that a scalar reads."""
    checkpoint()
    return frozenset(node.index for node in walk(scalar) if isinstance(node, Column))


def remap(scalar: Scalar, mapping: Callable[[int], int]) -> Scalar:
    """The scalar with every input column ``i`` renumbered to ``mapping(i)``."""

    def rewrite(node: Scalar) -> Scalar:
        return Column(mapping(node.index), node.type) if isinstance(node, Column) else node

    return transform(scalar, rewrite)
