"""Rows through functions and operators that users wrote."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kpg.collections.arranging import Index, index_by
from kpg.collections.columns import distinct
from kpg.collections.rows import Rows, plain
from kpg.collections.term import Term
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError
from kpg.runtime.plan import Ref, user
from kpg.runtime.plan.user import Kind, Own
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.collections.operator import Operator


def applied(rows: Rows, kind: Kind, function: Callable[..., Any], schema: Schema | None) -> Rows:
    """A function of rows or columns; without a schema it chooses among the rows."""
    own = _callable(function)
    stream = rows.stream(rows.values)
    given = rows.schema
    result = given if schema is None else schema

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Apply(refs[0], kind, own, given, result)

    term = Term.over((stream,), result.types, make)
    if schema is None:
        return plain(term, rows.names, rows.flags)
    return plain(term, schema.names, _flags(schema))


def reduced(index: Index, function: Callable[..., Any], schema: Schema, *, arrays: bool) -> Rows:
    """A function of the groups of an arrangement by its key whose rows are its columns, the key first."""
    own = _callable(function)
    given, key = index.rows.schema, index.key
    names = distinct((*index.rows.names[:key], *schema.names))

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.UserReduce(refs[0], key, own, arrays, given, schema)

    term = Term.over((index.term,), (*given.types[:key], *schema.types), make)
    return plain(term, names, (*index.rows.flags[:key], *_flags(schema)))


def threshold(rows: Rows, function: Callable[[tuple[Any, ...], int], int]) -> Rows:
    """Each row as often as the function of it and its multiplicity says."""
    width = len(rows.names)
    index = index_by(rows, range(width), inline=True)

    def times(key: tuple[Any, ...], group: list[tuple[tuple[Any, ...], int]]) -> list[tuple[Any, ...]]:
        return [()] * function(key, group[0][1])

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.UserReduce(refs[0], width, Own(times), False, index.rows.schema, Schema(()))

    return plain(Term.over((index.term,), index.term.types, make), rows.names, rows.flags)


def custom(parts: Sequence[Rows], operator: "Operator", schema: Schema) -> Rows:
    """What an operator sends that receives the rows."""
    from kpg.collections.operator import Operator

    if not isinstance(operator, Operator):
        raise InterfaceError(
            f"apply() takes an instance of a subclass of kpg.Operator, not {operator!r}",
            hint="for a function of rows use map_rows(), for one of columns map_columns()",
        )
    streams = tuple(part.stream(part.values) for part in parts)
    given = tuple(part.schema for part in parts)

    def make(refs: Sequence[Ref]) -> plan.AnyNode:
        return user.Custom(tuple(refs), Own(operator), given, schema)

    return plain(Term.over(streams, schema.types, make), schema.names, _flags(schema))


def _callable(function: Any) -> Own:
    if not callable(function):
        raise InterfaceError(f"{function!r} is not a function")
    return Own(function)


def _flags(schema: Schema) -> tuple[bool, ...]:
    return tuple(column.nullable for column in schema.columns)
