"""The frame of a window: its bounds checked, and what a RANGE compares."""

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from sqlglot import exp

from kpg.compiler.passes.fold_constants import folded
from kpg.compiler.sql.bind.calls import call, coerce
from kpg.compiler.sql.bind.intervals import is_negative, simplified
from kpg.compiler.sql.bind.literals import INTERVALS, from_text
from kpg.compiler.sql.bind.scope import Binding, Definition, Over, Scope
from kpg.compiler.sql.syntax import only
from kpg.compiler.sql.tree import used
from kpg.runtime.errors import Error
from kpg.runtime.plan.nodes import Bound, Edge, Exclude, Frame, Unit
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    DOUBLE,
    INTERVAL,
    INTERVAL_DAY,
    MAX_WORD,
    NUMERIC,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    word_to_float,
)

EDGES: Final = tuple(Edge)
CLOCKS: Final = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME)
"""Types whose words are microseconds."""
OFFSETS: Final = (Edge.PRECEDING, Edge.FOLLOWING)


def bind_frame(binding: Binding, scope: Scope, definition: Definition, over: Over) -> Over:
    """The call with the frame that its window says."""
    syntax = definition.frame
    if syntax is None:
        return over
    only(syntax, binding.source, "kind", "start", "start_side", "end", "end_side", "exclude")
    unit = Unit(str(syntax.args["kind"]).lower())
    start = _edge(binding, syntax, "start")
    end = _edge(binding, syntax, "end") if syntax.args.get("end") is not None else Edge.CURRENT_ROW
    _check(binding, start, end, syntax)
    if unit is Unit.GROUPS and not definition.order:
        binding.wrong("GROUPS needs an ORDER BY", syntax)
    excluded = syntax.args.get("exclude")
    exclude = Exclude(excluded.name.lower()) if excluded is not None else Exclude.NO_OTHERS
    over = replace(over, frame=Frame(unit, Bound(start), Bound(end), exclude))
    for part, edge in (("start", start), ("end", end)):
        if edge in OFFSETS:
            over = _with_offset(binding, scope, over, syntax, part)
    return over


def _edge(binding: Binding, syntax: exp.Expr, part: str) -> Edge:
    value, side = syntax.args[part], str(syntax.args.get(f"{part}_side") or "").lower()
    if value == "CURRENT ROW":
        return Edge.CURRENT_ROW
    if side not in ("preceding", "following"):
        binding.wrong("a frame's bound needs PRECEDING or FOLLOWING", syntax)
    return Edge(f"unbounded {side}" if value == "UNBOUNDED" else side)


def _check(binding: Binding, start: Edge, end: Edge, syntax: exp.Expr) -> None:
    if start is Edge.UNBOUNDED_FOLLOWING:
        binding.wrong("a frame cannot start at UNBOUNDED FOLLOWING", syntax)
    if end is Edge.UNBOUNDED_PRECEDING:
        binding.wrong("a frame cannot end at UNBOUNDED PRECEDING", syntax)
    if EDGES.index(end) < EDGES.index(start):
        message = f"a frame that starts at {start.value.upper()} cannot end at {end.value.upper()}"
        binding.wrong(message, syntax)


def _with_offset(binding: Binding, scope: Scope, over: Over, syntax: exp.Expr, part: str) -> Over:
    """The call with one bound's offset in place."""
    node = syntax.args[part]
    offset = folded(binding.expression(scope, node))
    if used(offset, binding.subqueries):
        binding.wrong("a frame's offset is the same for all rows: it can name no column", node)
    if not isinstance(offset, Literal):
        return _asked(binding, over, offset, node, part)
    if offset.value is None:
        binding.wrong("a frame's offset must not be NULL", node)
    bound: Bound = over.frame.start if part == "start" else over.frame.end
    if over.frame.unit is Unit.RANGE:
        return _range(binding, over, bound, offset, node, part)
    number = from_text(offset.value, BIGINT) if isinstance(offset.value, str) else offset
    if number is None or not number.type.is_exact:
        binding.wrong(f"a frame's offset is a number of {over.frame.unit.value}", node)
    assert isinstance(number.value, int)
    distance = round(Decimal(number.value).scaleb(-number.type.scale))
    if distance < 0:
        binding.wrong("a frame's offset must not be negative", node)
    return _placed(over, part, replace(bound, offset=min(distance, MAX_WORD)))


def _asked(binding: Binding, over: Over, offset: Scalar, node: exp.Expr, part: str) -> Over:
    """An offset that is known when the query runs: a column with the same value in all rows."""
    if over.frame.unit is Unit.RANGE:
        if len(over.order) != 1:
            binding.wrong("RANGE with an offset needs an ORDER BY with one column", node)
        by = over.order[0].scalar
        by = coerce(by, TIMESTAMP) if by.type.kind is Kind.DATE and offset.type in INTERVALS else by
        return _computed(binding, over, by, offset, node, part)
    if not (offset.type.is_integer or offset.type == UNKNOWN):
        binding.wrong(f"a frame's offset is a number of {over.frame.unit.value}, not {offset.type}", node)
    at = coerce(offset, BIGINT)
    return replace(over, start=at) if part == "start" else replace(over, end=at)


def _placed(over: Over, part: str, bound: Bound) -> Over:
    frame = replace(over.frame, start=bound) if part == "start" else replace(over.frame, end=bound)
    return replace(over, frame=frame)


def _range(binding: Binding, over: Over, bound: Bound, offset: Literal, node: exp.Expr, part: str) -> Over:
    """RANGE: by a word to add where words are added like values, else by a column with the bound."""
    if len(over.order) != 1:
        binding.wrong("RANGE with an offset needs an ORDER BY with one column", node)
    by = over.order[0].scalar
    offset = simplified(_typed(offset, by))
    if by.type.kind is Kind.DATE and offset.type in INTERVALS:
        by = coerce(by, TIMESTAMP)
    if _is_negative(offset):
        binding.wrong("a frame's offset must not be negative", node)
    step: int | None = None
    if by.type.is_exact and offset.type.is_exact:
        step = _scaled(bound, offset, by, part)
    elif by.type.is_float and offset.type.is_numeric:
        by, word = coerce(by, DOUBLE), coerce(offset, DOUBLE)
        step = word.value if isinstance(word, Literal) and isinstance(word.value, int) else None
    elif by.type.kind in CLOCKS and offset.type == INTERVAL_DAY and isinstance(offset.value, int):
        step = offset.value
    elif by.type.is_numeric and offset.type.is_numeric and (whole := _numeric(offset)) is not None:
        by, offset = coerce(by, NUMERIC), whole
    if step is not None:
        return replace(_placed(over, part, replace(bound, offset=min(step, MAX_WORD))), ranged=by)
    return _computed(binding, over, by, offset, node, part)


def _numeric(offset: Literal) -> Literal | None:
    value = coerce(offset, NUMERIC)
    return value if isinstance(value, Literal) else None


def _typed(offset: Literal, by: Scalar) -> Literal:
    """A quoted offset as what can be added to the values."""
    if offset.type != UNKNOWN or not isinstance(offset.value, str):
        return offset
    kind = by.type.kind
    dated = kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME)
    return from_text(offset.value, INTERVAL if dated else by.type) or offset


def _is_negative(offset: Literal) -> bool:
    if not offset.type.is_float or not isinstance(offset.value, int):
        return is_negative(offset)
    return not word_to_float(offset.value) >= 0


def _scaled(bound: Bound, offset: Literal, by: Scalar, part: str) -> int:
    """The offset in units of the values; a part of a unit counts for what it keeps in or out."""
    assert isinstance(offset.value, int)
    inward = (bound.edge is Edge.PRECEDING) == (part == "start")
    exact = Decimal(offset.value).scaleb(by.type.scale - offset.type.scale)
    return int(exact.to_integral_value(ROUND_FLOOR if inward else ROUND_CEILING))


def _computed(binding: Binding, over: Over, by: Scalar, offset: Scalar, node: exp.Expr, part: str) -> Over:
    """A bound that is computed for each row (months have no fixed length)."""
    if by.type.kind in (Kind.DATE, *CLOCKS) and offset.type.is_numeric:
        binding.wrong(f"RANGE over {by.type} cannot have an offset of {offset.type}", node)
    down = (over.frame.start if part == "start" else over.frame.end).edge is Edge.PRECEDING
    if over.order[0].descending:
        down = not down
    try:
        at = call(binding, "sub" if down else "add", [by, offset], node)
    except Error:
        at = None
    if at is None or at.type != by.type:
        binding.wrong(f"RANGE over {by.type} cannot have an offset of {offset.type}", node)
    return replace(over, ranged=by, start=at) if part == "start" else replace(over, ranged=by, end=at)
