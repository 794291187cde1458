"""Users' aggregates, ``@@f x : start, { body }``: a declared functor applied to one value after another.

Values come in their order, smallest first, so that the result is a function of them; over none it is what the
fold starts with. A group that changes is folded again.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.rewriting import nodes, rewritten
from kpg.compiler.datalog.typing.functors import Functor
from kpg.compiler.datalog.typing.types import TypeTable
from kpg.runtime.functions.aggregation.definition import AggregateFunction
from kpg.runtime.functions.datalog import branch, quote, record, show
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.functions.user_functions import Declared, aggregate_function
from kpg.runtime.scalar import Named
from kpg.runtime.types import Type, float_to_word

MARK = "@@"


def with_folds(
    statements: Iterable[ast.Statement], table: TypeTable, diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """The statements with users' aggregates by the functions that compute them; what is wrong is noted."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Aggregate) and node.function.startswith(MARK):
            return replace(node, function=_function(node, table, diagnostics) or "min", initial=None)
        return node

    return tuple(rewritten(one, change) if _has(one) else one for one in statements)


def _has(one: ast.Statement) -> bool:
    return any(isinstance(node, ast.Aggregate) and node.function.startswith(MARK) for node in nodes(one))


def _function(
    node: ast.Aggregate, table: TypeTable, diagnostics: Diagnostics
) -> Named[AggregateFunction] | None:
    name = node.function[1:]
    functor, step = table.functors.get(name), table.functions.get(name)
    if functor is None:
        message = f"functor {name[1:]} is not declared"
        diagnostics.error("undefined", message, node.span, hint=f".functor {name[1:]}(...)")
        return None
    if len(functor.args) != 2 or functor.result is None or len({*functor.args, functor.result}) > 1:
        message = f"functor {name[1:]} cannot aggregate: it takes two values of a type and gives one"
        diagnostics.error("functor", message, node.span, hint=f".functor {name[1:]}(x: T, y: T): T")
        return None
    if step is None:
        hint = f'db.datalog(..., functors={{"{name[1:]}": ...}})'
        diagnostics.error("functor", f"there is no function for functor {name[1:]}", node.span, hint=hint)
        return None
    assert node.initial is not None
    initial = _constant(node.initial)
    if initial is None:
        message = "what an aggregate starts with has to be a constant"
        diagnostics.error("functor", message, node.initial.span)
        return None
    wanted = str if functor.result.type.is_text else float if functor.result.type.is_float else int
    if not isinstance(initial, (wanted, int) if wanted is float else wanted):
        message = f"type mismatch: what functor {name[1:]} takes is {functor.result}"
        diagnostics.error("type", message, node.initial.span)
        return None
    return _made(functor, step, initial, table)


def _made(
    functor: Functor, step: Named[ScalarFunction], initial: Any, table: TypeTable
) -> Named[AggregateFunction]:
    """The aggregate, of the same name each time: it is numbered as its functor is."""
    assert functor.result is not None and step.again is not None
    declared, function, result = step.again[1][:3]
    assert isinstance(declared, Declared) and isinstance(result, Type) and callable(function)
    own = replace(declared, name=f"{declared.name}({initial})", args=(result,))
    made = fold_function(own, function, float(initial) if result.is_float else initial, result)
    table.folds[made] = functor.result
    return made


class Fold:
    """The algebra of a fold: how often each value is there."""

    def __init__(self, function: Callable[..., Any], initial: Any) -> None:
        self.function = function
        self.initial = initial

    def initialize(self) -> dict[Any, int]:
        return {}

    def add(self, state: dict[Any, int], value: Any, times: int) -> dict[Any, int]:
        state[value] = state.get(value, 0) + times
        return state

    def merge(self, state: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        for value, times in other.items():
            state[value] = state.get(value, 0) + times
        return state

    def subtract(self, state: dict[Any, int], value: Any, times: int) -> dict[Any, int]:
        state[value] -= times
        if not state[value]:
            del state[value]
        return state

    def finish(self, state: dict[Any, int]) -> Any:
        result = self.initial
        for value in sorted(state):
            for _ in range(state[value]):
                result = self.function(result, value)
        return result


def fold_function(
    declared: Declared, function: Callable[..., Any], initial: Any, result: Type
) -> Named[AggregateFunction]:
    """The aggregate that applies a function; of no values it is the initial one."""
    made = aggregate_function(declared, Fold(function, initial), result)
    identity = float_to_word(initial) if isinstance(initial, float) else initial
    made.definition = replace(made.definition, identity=identity)
    made.again = fold_function, (declared, function, initial, result)
    return made


def _constant(node: ast.Expression) -> Any:
    """The value of a constant, of a record or branch its text; None if it is none."""
    if isinstance(node, ast.Integer | ast.Float | ast.String):
        return node.value
    if isinstance(node, ast.Call) and node.function == "neg":
        value = _constant(node.args[0])
        return -value if isinstance(value, int | float) else None
    if isinstance(node, ast.Nil):
        return "nil"
    if not isinstance(node, ast.Record | ast.Dollar):
        return None
    parts = [_field(part) for part in node.args or ()]
    if any(part is None for part in parts):
        return None
    make = record if isinstance(node, ast.Record) else partial(branch, node.name)
    return make(*(str(part) for part in parts))


def _field(node: ast.Expression) -> str | None:
    value = _constant(node)
    if isinstance(node, ast.String):
        return quote(str(value))
    return value if value is None or isinstance(value, str) else show(value)
