"""``now()`` and its like: a constant in a statement that is run once, in a view the row of its clock.

What a view may do with that is compare it, in WHERE, with what it knows of a row: then rows come and go as
the clock goes on. Each comparison has a clock relation of its own, so that each can be a range of its own.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from kpg.compiler.clock import CLOCK_ROW
from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.tree import Join, Node, Scan
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns, transform
from kpg.runtime.types import BOOLEAN, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Type

HINT: Final = "in WHERE, compare it with a column: at > now() - INTERVAL '5 minutes'"
COMPARED: Final = frozenset({"lt", "le", "gt", "ge"})
OPPOSITE: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
NAMES: Final = frozenset({"clock_timestamp", "statement_timestamp", "transaction_timestamp"})
KINDS: Final[dict[type[exp.Expr], Type]] = {
    exp.CurrentTimestamp: TIMESTAMPTZ,
    exp.CurrentDate: DATE,
    exp.CurrentTime: TIME,
    exp.Localtime: TIME,
    exp.Localtimestamp: TIMESTAMP,
}
MICROSECOND_DIGITS: Final = 6


def moment_type(node: exp.Expr) -> Type | None:
    """The type of a call that gives the present time; None for any other expression."""
    if isinstance(node, exp.Anonymous) and not node.expressions and str(node.this).lower() in NAMES:
        return TIMESTAMPTZ
    return KINDS.get(type(node))


def bind_moment(binding: Binding, scope: Scope, node: exp.Expr, type_: Type) -> Scalar:
    """The present time: of a statement that is run once a constant, in a view a column of its clock."""
    digits = node.this if not isinstance(node, exp.Anonymous) else None
    unit = 1
    if isinstance(digits, exp.Literal):
        unit = 10 ** max(MICROSECOND_DIGITS - int(digits.name), 0)
    if not binding.kept:
        binding.catalog.consulted.times += 1
        now: Scalar = Literal((binding.catalog.moment + unit // 2) // unit * unit, TIMESTAMPTZ)
    elif not scope.clocked or unit > 1:
        binding.refuse("the present time in this place of a view", node, HINT)
    else:
        if binding.clock is None:
            binding.clock = binding.fresh()
        now = Column(binding.clock, TIMESTAMPTZ)
    return now if type_ == TIMESTAMPTZ else Call("cast", (now,), type_)


def timed(
    binding: Binding, source: Node, predicates: Sequence[Scalar], node: exp.Expr
) -> tuple[Node, tuple[Scalar, ...]]:
    """The source with a clock for each comparison with the present time, and the predicates over that."""
    if binding.clock is None:
        return source, tuple(predicates)
    result: list[Scalar] = []
    for predicate in predicates:
        for part in _comparisons(binding, predicate, node):
            if binding.clock not in columns(part):
                result.append(part)
                continue
            own, rowid = binding.fresh(), binding.fresh()
            source = Join("inner", source, Scan(CLOCK_ROW, (own, rowid)), ())
            result.append(_over(part, binding.clock, own))
    return source, tuple(result)


def _over(scalar: Scalar, clock: int, own: int) -> Scalar:
    def rewrite(part: Scalar) -> Scalar:
        return Column(own, part.type) if isinstance(part, Column) and part.index == clock else part

    return transform(scalar, rewrite)


def _comparisons(binding: Binding, predicate: Scalar, node: exp.Expr) -> list[Scalar]:
    """Comparisons that are all true where the predicate is; refused if it is none with the present time."""
    clock = binding.clock
    if clock is None or clock not in columns(predicate):
        return [predicate]
    if isinstance(predicate, Call):
        function, args = predicate.function, predicate.args
        inner = args[0] if function == "not" else predicate
        if function == "not" and isinstance(inner, Call) and inner.function in OPPOSITE:
            return _comparisons(binding, Call(OPPOSITE[inner.function], inner.args, BOOLEAN), node)
        if function == "and":
            return [part for arg in args for part in _comparisons(binding, arg, node)]
        if function == "eq":
            parts = [call(binding, name, list(args), node) for name in ("ge", "le")]
            return [one for part in parts for one in _comparisons(binding, part, node)]
        sides = [columns(arg) for arg in args]
        if function in COMPARED and frozenset((clock,)) in sides and not all(clock in side for side in sides):
            return [predicate]
    binding.refuse("this use of the present time in a view", node, HINT)
