"""INTERVAL constants: a text, and the fields that it has or is cut to."""

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.syntax import only
from kpg.runtime.scalar import Literal
from kpg.runtime.types import INTERVAL, INTERVAL_DAY, INTERVAL_MONTH
from kpg.runtime.values import intervals


def bind_interval(binding: Binding, node: exp.Interval) -> Literal:
    """``INTERVAL 'text' [fields]``; ProgrammingError if the text means none."""
    only(node, binding.source, "this", "unit")
    if not isinstance(node.this, exp.Literal):
        binding.refuse("INTERVAL of anything but a constant", node)
    unit = node.args.get("unit")
    last = ""
    if isinstance(unit, exp.IntervalSpan):
        only(unit, binding.source, "this", "expression")
        last = unit.expression.name.lower()  # which says all: what comes first follows from the text
    elif unit is not None:
        only(unit, binding.source, "this")
        last = unit.name.lower()
    return interval_of(binding, node.this.name, last, node)


def interval_of(binding: Binding, text: str, last: str, node: exp.Expr) -> Literal:
    """The constant that a text means, whose last field is ``last`` if that is not empty."""
    try:
        value = _parsed(text, last)
    except (ValueError, ArithmeticError):
        binding.no_value(f"{text} {last}".rstrip(), INTERVAL, node)
    return Literal(intervals.encode(value), INTERVAL)


def simplified(literal: Literal) -> Literal:
    """An INTERVAL of months only, or of days and times only, as a number of these; else the literal."""
    if literal.type != INTERVAL or not isinstance(literal.value, str):
        return literal
    value = intervals.decode(literal.value)
    if value.months and not value.days and not value.microseconds:
        return Literal(value.months, INTERVAL_MONTH)
    return literal if value.months else Literal(intervals.span(value), INTERVAL_DAY)


def is_negative(literal: Literal) -> bool:
    """Whether an INTERVAL goes backwards."""
    if literal.type != INTERVAL or not isinstance(literal.value, str):
        return isinstance(literal.value, int) and literal.value < 0
    return intervals.span(intervals.decode(literal.value)) < 0


def _parsed(text: str, last: str) -> intervals.Interval:
    if not last:
        return intervals.parse(text)
    value = intervals.parse(text, last)
    return intervals.cut(value, last)
