"""Calls of functions whose bodies are run: plans call them by a name that carries what runs them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from kpg.compiler.algebra.rel import RowCall
from kpg.compiler.routines import Routine
from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.tree import Expand, Filter, Node, Rows
from kpg.runtime.functions.named import Named
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, TEXT, Kind, Type

if TYPE_CHECKING:
    from kpg.runtime.functions.own import Own


def caller_of(binding: Binding, routine: Routine, node: exp.Expr) -> "Named[Own]":
    """What plans call; a view may call only what neither reads nor changes anything."""
    if routine.kind == "procedure":
        binding.wrong(f"{routine.name} is a procedure", node, "write CALL")
    if routine.result.name == "trigger":
        binding.wrong("trigger functions can only be called as triggers", node)
    if binding.kept and not routine.pure:
        message = f"a view that calls function {routine.name}, whose body reads or changes tables,"
        binding.refuse(message, node, "write the function as one query in SQL, which the view then follows")
    if not routine.pure:
        binding.catalog.consulted.times += 1
    assert binding.catalog.caller is not None
    return binding.catalog.caller(routine)


def called(binding: Binding, routine: Routine, values: Sequence[Scalar], node: exp.Expr) -> Scalar:
    """The value of a call."""
    name: Any = caller_of(binding, routine, node)
    type_ = TEXT if routine.result.name == "void" else routine.result
    return Call(name, tuple(values) or (Literal(0, INTEGER),), type_)


def called_rows(
    binding: Binding,
    routine: Routine,
    values: Sequence[Scalar],
    node: exp.Expr,
    start: Node | None,
    types: Sequence[Type],
    *,
    numbered: bool,
) -> tuple[Node, tuple[Column, ...]]:
    """The rows of a call, with their columns of these types."""
    if not routine.rows:
        routine = replace(routine, kind="rows")
    name: Any = caller_of(binding, routine, node)
    made = [*types, BIGINT] if numbered else list(types)
    columns = tuple(Column(binding.fresh(), type_) for type_ in made)
    if start is None:
        start = Rows(((Literal(0, INTEGER),),), (binding.fresh(),), (INTEGER,))
    text = node.sql("postgres")
    row_call = RowCall(name, tuple(values) or (Literal(0, INTEGER),), tuple(types), True, text)
    result: Node = Expand(start, tuple(column.index for column in columns), (row_call,), numbered)
    if routine.strict and values:
        result = Filter(result, tuple(call(binding, "is_not_null", [one], node) for one in values))
    return result, columns


def types_of(routine: Routine) -> tuple[Type, ...]:
    """The types of the columns of what it gives."""
    whole = routine.result.kind is Kind.RECORD
    return routine.result.parts if whole else (routine.result,)
