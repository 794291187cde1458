"""The operands of aggregate calls: DISTINCT, ORDER BY, and what stands before and after WITHIN GROUP."""

from collections.abc import Sequence
from dataclasses import field

from sqlglot import exp

from kpg.compiler.sql.bind.calls import brought, call, settled, unified
from kpg.compiler.sql.bind.functions import Called, listed
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import only
from kpg.runtime.functions import Direction, Form, aggregate_named, common_type
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, BYTEA, DOUBLE, INTEGER, UNKNOWN


@dataclass(frozen=True, slots=True)
class Operands:
    """What an aggregate is called with."""

    args: list[Scalar]
    distinct: bool = False
    keys: tuple[Scalar, ...] = ()
    """What its rows are put in order by, each in its direction of ``order``."""
    order: tuple[Direction, ...] = ()
    direct: list[tuple[Scalar, exp.Expr]] = field(default_factory=list)
    """Arguments that have one value in a group."""


def bind_operands(
    binding: Binding, scope: Scope, node: exp.Expr, called: Called, within: exp.Expr | None
) -> Operands:
    """The bound operands of a call, which may stand before WITHIN GROUP."""
    function = aggregate_named(called.name)
    only(node, binding.source, "this", *(name for name, part in node.args.items() if listed(part)))
    if function.form is Form.PLAIN:
        if within is not None:
            binding.wrong(
                f"{called.shown} takes no WITHIN GROUP", within, "write ORDER BY in the parentheses"
            )
        return _plain(binding, scope, node, called)
    if within is None:
        binding.wrong(f"{called.shown} needs WITHIN GROUP (ORDER BY ...)", node)
    for part in called.args:
        if isinstance(part, exp.Distinct | exp.Order | exp.Star):
            binding.wrong(f"{called.shown} takes plain arguments before WITHIN GROUP", node)
    keys, order = _keys(binding, scope, within.expressions)
    direct = [binding.expression(scope, arg) for arg in called.args]
    written = list(zip(direct, called.args, strict=True))
    if function.form is Form.ORDERED_SET:
        if len(keys) != 1:
            binding.wrong(f"{called.shown} is ordered by one expression", within)
        fractions = [brought(binding, arg, DOUBLE, node) if arg.type == UNKNOWN else arg for arg in direct]
        return Operands([keys[0], *fractions], False, keys, order, written)
    if len(keys) != len(direct):
        message = f"{called.shown} of {len(direct)} arguments is ordered by {len(keys)} expressions"
        binding.wrong(message, node, "give an argument for each expression of ORDER BY")
    place = _place(binding, keys, direct, order, node)
    return Operands([place, *keys], False, (), (), written)


def _keys(
    binding: Binding, scope: Scope, parts: Sequence[exp.Expr]
) -> tuple[tuple[Scalar, ...], tuple[Direction, ...]]:
    keys, order = [], []
    for part in parts:
        only(part, binding.source, "this", "desc", "nulls_first")
        keys.append(settled(binding.expression(scope, part.this)))
        order.append(Direction(bool(part.args.get("desc")), bool(part.args.get("nulls_first"))))
    return tuple(keys), tuple(order)


def _place(
    binding: Binding,
    keys: Sequence[Scalar],
    values: Sequence[Scalar],
    order: Sequence[Direction],
    node: exp.Expr,
) -> Scalar:
    """-1, 0 or 1: whether the keys come before the values in the order, are equal, or come after them."""
    before, after = Literal(-1, INTEGER), Literal(1, INTEGER)
    result: Scalar = Literal(0, INTEGER)
    for key, value, direction in reversed(list(zip(keys, values, order, strict=True))):
        left, right = unified(
            binding, [key, value], [node, node], "an argument and its ORDER BY", common_type
        )
        first, last = (after, before) if direction.descending else (before, after)
        null_key, null_value = (before, after) if direction.nulls_first else (after, before)
        smaller = If(call(binding, "lt", [left, right], node), first, last, INTEGER)
        known = If(Call("is_null", (right,), BOOLEAN), null_value, smaller, INTEGER)
        differs = If(Call("is_null", (left,), BOOLEAN), null_key, known, INTEGER)
        result = If(call(binding, "is_not_distinct", [left, right], node), result, differs, INTEGER)
    return result


def _plain(binding: Binding, scope: Scope, node: exp.Expr, called: Called) -> Operands:
    function = aggregate_named(called.name)
    if not called.args:
        binding.wrong(f"{called.shown} takes {function.accepts}", node)
    parts, clause = _without_order(binding, called.args, node, called)
    keys, order = _keys(binding, scope, clause)
    operand, *others = parts
    distinct = isinstance(operand, exp.Distinct)
    if isinstance(operand, exp.Distinct):
        only(operand, binding.source, "expressions")
        rows = _distinct_rows(binding, scope, operand, node, called)
        if rows is not None:
            return Operands(rows, True, keys, order)
        operands, inner = _without_order(binding, operand.expressions, node, called)
        more_keys, more = _keys(binding, scope, inner)
        keys, order = keys + more_keys, order + more
        operand, others = operands[0], [*operands[1:], *others]
    if isinstance(operand, exp.Star):
        if not function.takes_rows or distinct:
            binding.wrong(f"{called.shown} does not take *", node)
        only(operand, binding.source)
        return Operands([])
    if function.takes_rows and others:
        binding.wrong(f"{called.shown} takes one argument", node)
    first = settled(binding.expression(scope, operand))
    args = [first, *(_beside(binding, scope, first, other) for other in others)]
    if function.keeps_nulls:
        args = [Literal(1, BOOLEAN), *args]
    return Operands(args, distinct, keys, order)


def _beside(binding: Binding, scope: Scope, first: Scalar, node: exp.Expr) -> Scalar:
    """Another operand: a quoted constant beside a BYTEA, as the separator of two, is one."""
    value = binding.expression(scope, node)
    if value.type == UNKNOWN and first.type == BYTEA:
        return brought(binding, value, BYTEA, node)
    return settled(value)


def _without_order(
    binding: Binding, parts: Sequence[exp.Expr], node: exp.Expr, called: Called
) -> tuple[list[exp.Expr], Sequence[exp.Expr]]:
    """The operands, of which there has to be one, without the ORDER BY that stands behind one, and that."""
    clause: Sequence[exp.Expr] = ()
    result = []
    for part in parts:
        if isinstance(part, exp.Order):
            only(part, binding.source, "this", "expressions")
            clause = part.expressions
            part = part.this
        if part is not None:
            result.append(part)
    if not result:
        binding.wrong(f"{called.shown} needs an operand", node)
    return result, clause


def _distinct_rows(
    binding: Binding, scope: Scope, distinct: exp.Distinct, node: exp.Expr, called: Called
) -> list[Scalar] | None:
    """The arguments of ``count(DISTINCT (a, b))`` or ``count(DISTINCT a, b)``; None for one plain operand.

    The first is what is counted where it is not NULL: a row in parentheses always is something (as in
    Postgres), without them it counts if none of its values is NULL (as in Spark).
    """
    parts = distinct.expressions
    whole = len(parts) == 1 and isinstance(parts[0], exp.Tuple)
    if not aggregate_named(called.name).takes_rows:
        if whole:
            binding.refuse(f"DISTINCT over several expressions in {called.shown}", node)
        return None
    if not parts or (len(parts) == 1 and not whole):
        return None
    operands = parts[0].expressions if whole else parts
    values = [settled(binding.expression(scope, part)) for part in operands]
    one = Literal(1, INTEGER)
    if whole:
        return [one, *values]
    tests = [call(binding, "is_not_null", [value], node) for value in values]
    counted = If(call(binding, "and", tests, node), one, Literal(None, INTEGER), INTEGER)
    return [counted, *values]
