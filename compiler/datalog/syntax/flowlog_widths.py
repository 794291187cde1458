"""FlowLog's numbers of fewer than 64 bits: what operations on them wrap to or round to.

An operation is of the type of the first of its operands that has one; FlowLog has no other. It becomes one
that is named for the type: ``+@int8``. Constants beside floats of 32 bits are such floats.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flowlog_names import BEST, VALUED
from kpg.compiler.datalog.syntax.rewriting import nodes, rewritten
from kpg.runtime.records import dataclass

T = TypeVar("T", ast.Clause, ast.Update)
SINGLE: Final = "f32"
OTHER_NAMES: Final = {"number": "int32", "unsigned": "uint32", "float": SINGLE}
"""FlowLog's other names of its types."""
NARROW: Final = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)), SINGLE)
OPERATIONS: Final = (*"+-*/%^", "neg", "band", "bor", "bxor", "bshl", "bshr", "bshru", "bnot")
WHOLE_RESULTS: Final = ("strlen", "ord", "to_number", "to_number_or_zero")


def aliases(statements: Sequence[Any]) -> dict[str, str]:
    """What types that the statements declare are of."""
    found: dict[str, str] = {}
    for one in nodes(tuple(statements)):
        if isinstance(one, ast.Subtype):
            found[one.name.text] = one.base.name.text
        elif isinstance(one, ast.UnionType):
            found[one.name.text] = one.members[0].name.text
    return found


def with_singles(statement: ast.Statement) -> ast.Statement:
    """The statement with columns of floats of 32 bits as FlowLog's ``float`` are."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Attribute) and node.type.name.text == "float":
            return replace(node, type=replace(node.type, name=replace(node.type.name, text=SINGLE)))
        return node

    return rewritten(statement, change)


@dataclass(frozen=True, slots=True)
class Widths:
    """The types of columns of relations; ``known_as``: what types are of."""

    declared: Mapping[str, ast.Declaration]
    known_as: Mapping[str, str]

    def narrowed(self, one: T) -> T:
        """A rule or an update with operations as those of their types."""
        names = dict(self._columns(one))
        reader = _Reader(names)
        while any(reader.learns(node) for node in nodes(one)):
            pass

        def change(node: Any) -> Any:
            if isinstance(node, ast.Call):
                return _call(node, reader)
            if isinstance(node, ast.Comparison):
                type_ = reader.type_of(node.left) or reader.type_of(node.right)
                left, right = _of((node.left, node.right), type_)
                return replace(node, left=left, right=right)
            if isinstance(node, ast.Atom):
                types = self._types(node)
                made: tuple[ast.Expression, ...] = tuple(
                    _of((arg,), type_)[0] for arg, type_ in zip(node.args, types, strict=False)
                )
                return replace(node, args=(*made, *node.args[len(made) :]))
            return node

        return rewritten(one, change)

    def _types(self, atom: ast.Atom) -> list[str]:
        declaration = self.declared.get(atom.name.text)
        attributes = () if declaration is None else declaration.attributes
        return [self._type(one.type.name.text) for one in attributes]

    def _type(self, name: str) -> str:
        for _ in self.known_as:
            name = self.known_as.get(name, name)
        return OTHER_NAMES.get(name, name)

    def _columns(self, one: Any) -> Iterator[tuple[str, str]]:
        for atom in nodes(one.body if isinstance(one, ast.Clause) else ()):
            if isinstance(atom, ast.Atom):
                for arg, type_ in zip(atom.args, self._types(atom), strict=False):
                    if isinstance(arg, ast.Variable):
                        yield arg.name, type_


@dataclass(frozen=True, slots=True)
class _Reader:
    """The types of a rule's variables."""

    names: dict[str, str] = field(default_factory=dict)

    def learns(self, node: Any) -> bool:
        """Whether the node is an equation that tells the type of a variable."""
        if not isinstance(node, ast.Comparison) or node.operator != "=":
            return False
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.Variable) and one.name not in self.names:
                type_ = self.type_of(other)
                if type_ is not None:
                    self.names[one.name] = type_
                    return True
        return False

    def type_of(self, expression: Any) -> str | None:
        """The type of an expression, if that is seen without what is around it."""
        if isinstance(expression, ast.Variable):
            return self.names.get(expression.name)
        if isinstance(expression, ast.Aggregate) and expression.function in VALUED:
            return self.type_of(expression.value)
        if not isinstance(expression, ast.Call):
            return None
        if expression.function in WHOLE_RESULTS:
            return "int32"
        if expression.function.partition("@")[0] not in (*OPERATIONS, *BEST):
            return None
        return next((type_ for type_ in map(self.type_of, expression.args) if type_), None)


def _call(node: ast.Call, reader: _Reader) -> ast.Call:
    """The operation as that of its type."""
    type_ = reader.type_of(node)
    if node.function in OPERATIONS and type_ in NARROW:
        return replace(node, function=f"{node.function}@{type_}", args=_of(node.args, type_))
    if node.function == "to_plain_string" and reader.type_of(node.args[0]) == SINGLE:
        return replace(node, function=f"{node.function}@{SINGLE}")
    return node


def _of(args: Sequence[ast.Expression], type_: str | None) -> tuple[ast.Expression, ...]:
    """The expressions, constants among them rounded to a type of floats."""
    return tuple(map(_single, args)) if type_ == SINGLE else tuple(args)


def _single(arg: ast.Expression) -> ast.Expression:
    if isinstance(arg, ast.Float):
        return replace(arg, value=rounded(arg.value))
    if isinstance(arg, ast.Call) and arg.function in BEST:
        return replace(arg, args=_of(arg.args, SINGLE))
    return arg


def rounded(value: float) -> float:
    """The nearest float of 32 bits."""
    import numpy as np

    with np.errstate(all="ignore"):
        return float(np.float32(value))
