"""Variables within the expressions and statements of PL/pgSQL: scalars in the place of their names."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.bind.calls import brought, settled
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Scope
from kpg.compiler.sql.ddl.reader import Reader, tree_of
from kpg.compiler.sql.parameters import rewritten
from kpg.compiler.sql.parse import parse
from kpg.compiler.sql.syntax import known
from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.functions import castable
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import INTEGER, UNKNOWN, Type

Part = TypeVar("Part")
Name = tuple[str, ...]
"""What may name a variable: its parts in lower case."""
Find = Callable[[Name], Scalar | None]
Fields = Callable[[Name], Sequence[tuple[str, Scalar]] | None]
"""The fields of a record variable, with their names."""
COUNTS: Final = (exp.Limit, exp.Offset, exp.Fetch)
QUERY_PARTS: Final = frozenset({"kind", "expressions", "hint", "distinct", "operation_modifiers"})


def name_of(node: exp.Expr) -> Name | None:
    """The parts of a name; None of anything else. ``$1`` is a name, too."""
    if isinstance(node, exp.Parameter) and node.name.isdigit():
        return (f"${node.name}",)
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    parts = [node.args.get(part) for part in ("catalog", "db", "table", "this")]
    return tuple(part.name.lower() for part in parts if part is not None)


@lru_cache(maxsize=2048)
def expression_of(text: str) -> exp.Expr | None:
    """An expression without FROM and its like; None if it is more than that."""
    tree = tree_of(tokenize(f"SELECT {text}"), f"SELECT {text}")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    if any(value for name, value in tree.args.items() if name not in QUERY_PARTS):
        return None
    node = tree.expressions[0]
    if tree.args.get("distinct") or any(isinstance(one, exp.Query) for one in node.walk()):
        return None
    return node.unalias() if isinstance(node, exp.Expr) else None


@lru_cache(maxsize=2048)
def names_in(text: str) -> tuple[Name, ...]:
    """The names in an expression that :func:`expression_of` gives."""
    tree = expression_of(text)
    assert tree is not None
    found = (name_of(node) for node in tree.walk())
    return tuple(dict.fromkeys(name for name in found if name is not None))


@lru_cache(maxsize=2048)
def calls_in(text: str) -> frozenset[str]:
    """The names of functions in an expression, in lower case."""
    tree = expression_of(text)
    assert tree is not None
    found = (node for node in tree.find_all(exp.Func))
    names = (
        [str(node.this)] if isinstance(node, exp.Anonymous) else list(type(node).sql_names())
        for node in found
    )
    return frozenset(name.lower() for some in names for name in some)


def bound(
    text: str, known_as: Mapping[Name, Scalar], catalog: Catalog, target: Type | None
) -> tuple[Mfp, Type] | None:
    """How an expression is computed over columns; None if that takes a query.

    With a ``target`` the value is of that type, as by assignment.
    """
    tree = expression_of(text)
    if tree is None:
        return None
    binding = new_binding(f"SELECT {text}", catalog)
    replaced = with_scalars(tree.copy(), known_as.get, lambda name: None)
    scalar = settled(binding.expression(Scope(), replaced)) if target is None else None
    if scalar is None:
        scalar = binding.expression(Scope(), replaced)
        assert target is not None
        if scalar.type == UNKNOWN:
            scalar = brought(binding, scalar, target, replaced)
        elif scalar.type != target:
            scalar = assigned(scalar, target)
    if binding.subqueries:
        return None
    return Mfp((), (scalar,)), scalar.type


def assigned(scalar: Scalar, target: Type) -> Scalar:
    """A value as one of another type, as PL/pgSQL assigns it."""
    from kpg.compiler.sql.bind.calls import coerce

    if scalar.type == target:
        return scalar
    if not castable(scalar.type, target):
        raise ProgrammingError(f"{scalar.type} cannot be assigned to {target}", hint="write a cast")
    return coerce(scalar, target)


def cast_of(source: Type, target: Type) -> Mfp:
    """How a value of one type is assigned to another."""
    return Mfp((), (assigned(Column(0, source), target),))


def with_scalars(tree: exp.Expr, find: Find, fields: Fields) -> exp.Expr:
    """A tree with scalars in the place of the names of variables, and of ``record.*``."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return node
        listed = node.args.get("expressions")
        if isinstance(listed, list) and any(_is_star(one) for one in listed):
            node.set("expressions", [part for one in listed for part in _spread(one, fields)])
        name = name_of(node)
        scalar = None if name is None else find(name)
        if name is None or scalar is None:
            return node
        made: exp.Expr = _counted(scalar) if isinstance(node.parent, COUNTS) else known(scalar)
        selects = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        return exp.alias_(made, name[-1], quoted=True) if selects and not name[0].startswith("$") else made

    return tree.transform(change, copy=False)


def _is_star(node: object) -> bool:
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star) and bool(node.table)


def _spread(node: exp.Expr, fields: Fields) -> list[exp.Expr]:
    if not isinstance(node, exp.Column) or not _is_star(node):
        return [node]
    found = fields((node.table.lower(),))
    if found is None:
        return [node]
    return [exp.alias_(known(scalar), name, quoted=True) for name, scalar in found]


def _counted(scalar: Scalar) -> exp.Expr:
    if isinstance(scalar, Literal) and isinstance(scalar.value, int) and scalar.type.is_integer:
        number = exp.Literal.number(abs(scalar.value))
        return exp.Neg(this=number) if scalar.value < 0 else number
    return known(scalar)


@lru_cache(maxsize=2048)
def _parsed(text: str) -> tuple[ast.Statement, ...]:
    return tuple(parse(text))


def statement_of(text: str, find: Find, fields: Fields) -> ast.Statement:
    """One statement of SQL with the values of variables."""
    found = _parsed(text)
    if len(found) != 1:
        raise ProgrammingError("expected one statement")
    if isinstance(found[0], ast.CreateView):
        return found[0]
    return rewritten(found[0], lambda tree: with_scalars(tree.copy(), find, fields))


def query_of(text: str, find: Find, fields: Fields) -> ast.Select:
    """As :func:`statement_of`, of what has to be a query."""
    found = statement_of(text, find, fields)
    if not isinstance(found, ast.Select):
        raise ProgrammingError("expected a query", span=getattr(found, "span", None))
    return found


def gives_rows(statement: ast.Statement) -> bool:
    """Whether a statement is a query, or a change with RETURNING."""
    return isinstance(statement, ast.Select | ast.Explain) or bool(getattr(statement, "returning", ()))


@dataclass(frozen=True, slots=True)
class Target:
    """A variable by its name, and the part of it that is assigned: a field, subscripts as texts."""

    name: Name
    subscripts: tuple[str, ...] = ()


@lru_cache(maxsize=2048)
def target_of(text: str) -> Target:
    """What is assigned to."""
    node = Reader(tokenize(text), text).operand()
    subscripts: list[str] = []
    while isinstance(node, exp.Bracket):
        parts = [one.sql("postgres") for one in node.expressions]
        if any(isinstance(one, exp.Slice) for one in node.expressions):
            raise NotSupportedError("assignment to a slice of an array is not supported")
        subscripts = [*parts, *subscripts]
        node = node.this
    parts_: list[str] = []
    while isinstance(node, exp.Dot):
        parts_.insert(0, node.expression.name.lower())
        node = node.this
    name = name_of(node)
    if name is None and isinstance(node, exp.Identifier):
        name = (node.name.lower(),)
    if name is None:
        raise ProgrammingError(f"{text} cannot be assigned to")
    return Target((*name, *parts_), tuple(subscripts))


def declared_type(text: str, catalog: Catalog) -> tuple[Type, int]:
    """A type by its text, as Postgres' names of types are known; RECORD's columns are those of a relation."""
    reader = Reader(tokenize(text), text)
    type_ = reader.type()
    reader.end()
    return catalog.known_type(type_, reader.span), -1 if reader.digits is None else reader.digits


def with_element(array: Type, element: Type, subscripts: int) -> Mfp:
    """How an array, given with the new element and subscripts, gets that element."""
    from kpg.runtime.scalar import Call

    places = tuple(Column(2 + place, INTEGER) for place in range(subscripts))
    return Mfp((), (Call("$with_element", (Column(0, array), Column(1, element), *places), array),))
