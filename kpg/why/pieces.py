"""Blocks taken apart: what is joined in them, and how to tell which of it is absent in an outer join."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.sql.bound_tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Ids,
    Join,
    Map,
    Node,
    Rows,
    Scan,
    SetOperation,
    Shared,
    TopK,
    Window,
    produced,
)
from kpg.runtime.plan.nodes import call_columns
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import BOOLEAN, Type

Fresh = Callable[[Type], int]
TRUE = Literal(1, BOOLEAN)


@dataclass(frozen=True, slots=True)
class Piece:
    """What is joined in a block. It is absent, and its columns NULL, where one of the ``marks`` is.

    Of an :class:`Expand` it is what its functions make, not its input.
    """

    node: Node
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """A side of an outer join that is absent where ``mark`` is NULL, for the conditions ``on``."""

    mark: int
    side: Node
    on: tuple[Scalar, ...]
    around: tuple[int, ...]


@dataclass(slots=True)
class Block:
    """A block with its marks as columns, and its scalars with the marks that they are under."""

    node: Node
    pieces: list[Piece] = field(default_factory=list)
    absents: list[Absent] = field(default_factory=list)
    scalars: list[tuple[Scalar, tuple[int, ...]]] = field(default_factory=list)

    @property
    def marks(self) -> list[int]:
        """The columns that tell what is absent."""
        return [absent.mark for absent in self.absents]


def opened(node: Node, fresh: Fresh) -> Block:
    """The largest block that the node is."""
    block = Block(node)
    block.node = _opened(block, node, (), fresh)
    return block


def _opened(block: Block, node: Node, marks: tuple[int, ...], fresh: Fresh) -> Node:
    match node:
        case Filter(input=source, predicates=predicates):
            block.scalars += [(one, marks) for one in predicates]
            return replace(node, input=_opened(block, source, marks, fresh))
        case Map(input=source, scalars=scalars):
            block.scalars += [(one, marks) for one in scalars]
            return replace(node, input=_opened(block, source, marks, fresh))
        case Join():
            return _join(block, node, marks, fresh)
        case Expand(input=source, calls=calls):
            block.scalars += [(arg, marks) for call in calls for arg in call.args]
            # A function that stands alone in FROM is over one row without meaning.
            inner = source if isinstance(source, Rows) else _opened(block, source, marks, fresh)
            block.pieces.append(Piece(node, marks))
            return replace(node, input=inner)
        case Scan() | Shared() | Rows() | Group() | GroupingSets() | Distinct() | TopK() | Window():
            block.pieces.append(Piece(node, marks))
        case SetOperation():
            block.pieces.append(Piece(node, marks))
        case _:
            assert_never(node)
    return node


def _join(block: Block, node: Join, marks: tuple[int, ...], fresh: Fresh) -> Node:
    left_marks = right_marks = marks
    left_mark = fresh(BOOLEAN) if node.kind == "full" else None
    right_mark = fresh(BOOLEAN) if node.kind != "inner" else None
    if left_mark is not None:
        left_marks = (*marks, left_mark)
        block.absents.append(Absent(left_mark, node.left, node.on, marks))
    if right_mark is not None:
        right_marks = (*marks, right_mark)
        block.absents.append(Absent(right_mark, node.right, node.on, marks))
    left = _opened(block, node.left, left_marks, fresh)
    right = _opened(block, node.right, right_marks, fresh)
    block.scalars += [(one, (*left_marks, *right_marks)) for one in node.on]
    if left_mark is not None:
        left = Map(left, (left_mark,), (TRUE,))
    if right_mark is not None:
        right = Map(right, (right_mark,), (TRUE,))
    return replace(node, left=left, right=right)


def wanted(node: Node, needed: Ids) -> list[int]:
    """The columns of a piece by which its row is explained, if the block needs those that are ``needed``.

    Of a LIMIT and a window they are those that the view's own plan has: which of equal rows comes first may
    depend on them.
    """
    match node:
        case Scan(ids=ids) | Shared(ids=ids) | Rows(ids=ids) | SetOperation(ids=ids) | Expand(ids=ids):
            return list(ids)
        case Group(key_ids=key_ids, ids=ids):
            return [*key_ids, *(id_ for id_ in ids if id_ in needed)]
        case GroupingSets(key_ids=key_ids, ids=ids, marks=marks):
            return [*key_ids, *(id_ for id_ in ids if id_ in needed), *marks]
        case Distinct(columns=columns):
            return [column.index for column in columns]
        case TopK(group=group, order=order):
            sorting = [column.index for column in (*group, *(key.column for key in order))]
            return sorted((produced(node) & needed) | set(sorting))
        case Window(partition=partition, order=order, ties=ties, ids=ids, calls=calls):
            sorting = [column.index for column in (*partition, *(key.column for key in (*order, *ties)))]
            chosen = [call for id_, call in zip(ids, calls, strict=True) if id_ in needed]
            read = {id_ for call in chosen for id_ in call_columns(call)}
            return sorted((produced(node) & needed) | set(sorting) | read)
        case Filter() | Map() | Join():
            raise AssertionError(node)
        case _:
            assert_never(node)
