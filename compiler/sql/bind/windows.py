"""Window functions: OVER, WINDOW and QUALIFY, and the frames of windows.

Each call is bound once and collected by its query. A query computes them as columns of its rows or groups,
with one node per partition and order. :func:`bind_frame` checks the bounds of a frame, and finds the column
that a RANGE frame compares.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.scalars import substitute_columns
from kpg.compiler.passes.fold_constants import fold
from kpg.compiler.sql.bind.aggregate import Grouping, SelectItem, collect_aggregate
from kpg.compiler.sql.bind.calls import call, coerce, coerce_at, coerce_to_boolean, default_to_text
from kpg.compiler.sql.bind.functions import aggregate_of
from kpg.compiler.sql.bind.literals import (
    INTERVALS,
    conjuncts,
    is_negative,
    literal_from_text,
    simplify_interval,
)
from kpg.compiler.sql.bind.query_output import Orders, bind_sort_key, with_row_order
from kpg.compiler.sql.bind.scope import (
    AggregateCollector,
    Binding,
    BoundWindowCall,
    Field,
    Fields,
    Scope,
    WindowCollector,
    WindowDefinition,
    WindowSortKey,
    as_columns,
)
from kpg.compiler.sql.bound_tree import Node, SortKey, Window, referenced_ids
from kpg.compiler.sql.parse.syntax import allow_only
from kpg.runtime.errors import Error
from kpg.runtime.functions import WindowFunction, window_function
from kpg.runtime.functions.comparison import equality_key
from kpg.runtime.plan.nodes import Bound, Edge, Exclude, Frame, Ranged, Unit, WindowCall
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, transform
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    INTERVAL_DAY,
    MAX_WORD,
    NUMERIC,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Type,
    word_to_float,
)
from kpg.runtime.values import numeric


def bind_qualify(
    binding: Binding, scope: Scope, items: list[SelectItem], node: exp.Select
) -> tuple[Scalar, ...]:
    """Return the conjuncts of QUALIFY. Select item names are visible unless a column has the name."""
    clause = node.args.get("qualify")
    if clause is None:
        return ()
    known = {field.name.lower() for field in scope.fields}
    named: dict[int, Scalar] = {}
    fields = []
    for item in items:
        if item.name.lower() not in known:
            column = Column(binding.new_id(), item.scalar.type)
            named[column.index] = item.scalar
            fields.append(Field("", item.name, column))
    inner = replace(scope.without_set_returning("QUALIFY"), fields=Fields([*scope.fields, *fields]))
    scalar = coerce_to_boolean(binding, binding.expression(inner, clause.this), clause.this, "QUALIFY")
    return conjuncts(substitute_columns(scalar, named))


def move_over_groups(windows: WindowCollector, grouping: Grouping, node: exp.Expr) -> None:
    """Rewrite the calls over input rows to calls over groups."""

    def over(scalar: Scalar) -> Scalar:
        return grouping.over_groups(scalar, node)

    def over_optional(scalar: Scalar | None) -> Scalar | None:
        return None if scalar is None else over(scalar)

    windows.calls = [
        replace(
            call,
            args=tuple(map(over, call.args)),
            partition=tuple(map(over, call.partition)),
            order=tuple(replace(key, scalar=over(key.scalar)) for key in call.order),
            start=over_optional(call.start),
            end=over_optional(call.end),
            range_key=over_optional(call.range_key),
        )
        for call in windows.calls
    ]


def compute_windows(binding: Binding, source: Node, windows: WindowCollector, orders: Orders) -> Node:
    """Return the source with a column for each window call."""
    source, ties = with_row_order(binding, source, orders)
    wanted = dict.fromkeys(scalar for window_call in windows.calls for scalar in _input_scalars(window_call))
    source, columns = as_columns(binding, source, tuple(wanted))
    place = dict(zip(wanted, columns, strict=True))
    apart: dict[tuple[tuple[Scalar, ...], tuple[WindowSortKey, ...]], list[tuple[int, BoundWindowCall]]] = {}
    for id_, window_call in zip(windows.ids, windows.calls, strict=True):
        apart.setdefault(
            (_distinct_columns(window_call.partition), _distinct_keys(window_call.order)), []
        ).append((id_, window_call))
    sortings = [_sort_order(*window) for window in apart]
    for (partition, order), calls in apart.items():
        own = _sort_order(partition, order)
        finer = next((other for other in sortings if len(other) > len(own) and other[: len(own)] == own), own)
        source = Window(
            source,
            tuple(place[scalar] for scalar in partition),
            _sort_keys(order, place),
            (*_sort_keys(finer[len(own) :], place), *ties),
            tuple(id_ for id_, _ in calls),
            tuple(_window_call(window_call, place) for _, window_call in calls),
        )
    return source


def _sort_order(partition: tuple[Scalar, ...], order: tuple[WindowSortKey, ...]) -> tuple[WindowSortKey, ...]:
    """Return the sort order of a window. A window whose order is a prefix of another's shares its sort."""
    return (*(WindowSortKey(scalar, False, False) for scalar in partition), *order)


def _sort_keys(keys: Sequence[WindowSortKey], column_of: dict[Scalar, Column]) -> tuple[SortKey, ...]:
    return tuple(SortKey(column_of[key.scalar], key.descending, key.nulls_first) for key in keys)


def _distinct_columns(scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return tuple(dict.fromkeys(scalar for scalar in scalars if not isinstance(scalar, Literal)))


def _distinct_keys(keys: tuple[WindowSortKey, ...]) -> tuple[WindowSortKey, ...]:
    """Return the keys that can distinguish rows: not constants, and not repeated."""
    seen: dict[Scalar, WindowSortKey] = {}
    for sort_item in keys:
        if not isinstance(sort_item.scalar, Literal):
            seen.setdefault(sort_item.scalar, sort_item)
    return tuple(seen.values())


def _input_scalars(call: BoundWindowCall) -> list[Scalar]:
    """Return the scalars of a call that must be columns of the input."""
    arguments = [arg for arg in call.args if not isinstance(arg, Literal)]
    frame = [scalar for scalar in (call.start, call.end, call.range_key) if scalar is not None]
    keys = (key.scalar for key in _distinct_keys(call.order))
    return [*_distinct_columns(call.partition), *keys, *arguments, *frame]


def _window_call(call: BoundWindowCall, column_of: dict[Scalar, Column]) -> WindowCall:
    frame = call.frame if _distinct_keys(call.order) else _frame_without_order(call.frame)
    ranged = None
    if call.range_key is not None:
        type_, column = call.range_key.type, column_of[call.range_key].index
        ranged = Ranged(column, call.order[0].descending, type_.is_float, type_.is_interned)
    if call.range_key is not None or call.start is not None or call.end is not None:
        frame = Frame(
            frame.unit,
            _frame_bound(frame.start, call.start, column_of),
            _frame_bound(frame.end, call.end, column_of),
            frame.exclude,
            ranged,
        )
    args = tuple(column_of.get(arg, arg) if not isinstance(arg, Literal) else arg for arg in call.args)
    return WindowCall(call.function, args, call.type, frame, call.text)


def _frame_without_order(frame: Frame) -> Frame:
    """Return the frame for a window without order, in which all rows of a partition are peers."""
    start, end = frame.start, frame.end
    if frame.unit is not Unit.ROWS and start.edge is Edge.CURRENT_ROW:
        start = Bound(Edge.UNBOUNDED_PRECEDING)
    if frame.unit is not Unit.ROWS and end.edge is Edge.CURRENT_ROW:
        end = Bound(Edge.UNBOUNDED_FOLLOWING)
    return replace(frame, start=start, end=end)


def _frame_bound(bound: Bound, scalar: Scalar | None, column_of: dict[Scalar, Column]) -> Bound:
    return bound if scalar is None else replace(bound, column=column_of[scalar].index)


EDGE_ORDER: Final = tuple(Edge)
MICROSECOND_KINDS: Final = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME)
"""Kinds whose words are microseconds."""
OFFSET_EDGES: Final = (Edge.PRECEDING, Edge.FOLLOWING)


def bind_frame(
    binding: Binding, scope: Scope, definition: WindowDefinition, over: BoundWindowCall
) -> BoundWindowCall:
    """Return the call with the frame of its window definition."""
    syntax = definition.frame
    if syntax is None:
        return over
    allow_only(syntax, binding.source, "kind", "start", "start_side", "end", "end_side", "exclude")
    unit = Unit(str(syntax.args["kind"]).lower())
    start = _frame_edge(binding, syntax, "start")
    end = _frame_edge(binding, syntax, "end") if syntax.args.get("end") is not None else Edge.CURRENT_ROW
    _check_edges(binding, start, end, syntax)
    if unit is Unit.GROUPS and not definition.order:
        binding.fail("GROUPS needs an ORDER BY", syntax)
    excluded = syntax.args.get("exclude")
    exclude = Exclude(excluded.name.lower()) if excluded is not None else Exclude.NO_OTHERS
    over = replace(over, frame=Frame(unit, Bound(start), Bound(end), exclude))
    for part, edge in (("start", start), ("end", end)):
        if edge in OFFSET_EDGES:
            over = _bind_offset(binding, scope, over, syntax, part)
    return over


def _frame_edge(binding: Binding, syntax: exp.Expr, part: str) -> Edge:
    value, side = syntax.args[part], str(syntax.args.get(f"{part}_side") or "").lower()
    if value == "CURRENT ROW":
        return Edge.CURRENT_ROW
    if side not in ("preceding", "following"):
        binding.fail("a frame's bound needs PRECEDING or FOLLOWING", syntax)
    return Edge(f"unbounded {side}" if value == "UNBOUNDED" else side)


def _check_edges(binding: Binding, start: Edge, end: Edge, syntax: exp.Expr) -> None:
    if start is Edge.UNBOUNDED_FOLLOWING:
        binding.fail("a frame cannot start at UNBOUNDED FOLLOWING", syntax)
    if end is Edge.UNBOUNDED_PRECEDING:
        binding.fail("a frame cannot end at UNBOUNDED PRECEDING", syntax)
    if EDGE_ORDER.index(end) < EDGE_ORDER.index(start):
        message = f"a frame that starts at {start.value.upper()} cannot end at {end.value.upper()}"
        binding.fail(message, syntax)


def _bind_offset(
    binding: Binding, scope: Scope, over: BoundWindowCall, syntax: exp.Expr, side: str
) -> BoundWindowCall:
    """Return the call with the offset of one bound."""
    node = syntax.args[side]
    offset = fold(binding.expression(scope, node))
    if referenced_ids(offset, binding.subqueries):
        binding.fail("a frame's offset is the same for all rows: it can name no column", node)
    if not isinstance(offset, Literal):
        return _bind_run_time_offset(binding, over, offset, node, side)
    if offset.value is None:
        binding.fail("a frame's offset must not be NULL", node)
    bound: Bound = over.frame.start if side == "start" else over.frame.end
    if over.frame.unit is Unit.RANGE:
        return _bind_range_offset(binding, over, bound, offset, node, side)
    number = literal_from_text(offset.value, BIGINT) if isinstance(offset.value, str) else offset
    if number is None or not number.type.is_exact:
        binding.fail(f"a frame's offset is a number of {over.frame.unit.value}", node)
    assert isinstance(number.value, int)
    distance = round(Decimal(number.value).scaleb(-number.type.scale))
    if distance < 0:
        binding.fail("a frame's offset must not be negative", node)
    return _with_bound(over, side, replace(bound, offset=min(distance, MAX_WORD)))


def _bind_run_time_offset(
    binding: Binding, over: BoundWindowCall, offset: Scalar, node: exp.Expr, side: str
) -> BoundWindowCall:
    """Bind an offset that is known at run time, as a column with the same value in all rows."""
    if over.frame.unit is Unit.RANGE:
        if len(over.order) != 1:
            binding.fail("RANGE with an offset needs an ORDER BY with one column", node)
        by = over.order[0].scalar
        by = coerce(by, TIMESTAMP) if by.type.kind is Kind.DATE and offset.type in INTERVALS else by
        return _bind_computed_bound(binding, over, by, offset, node, side)
    if not (offset.type.is_integer or offset.type == UNKNOWN):
        binding.fail(f"a frame's offset is a number of {over.frame.unit.value}, not {offset.type}", node)
    at = coerce(offset, BIGINT)
    return replace(over, start=at) if side == "start" else replace(over, end=at)


def _with_bound(over: BoundWindowCall, side: str, bound: Bound) -> BoundWindowCall:
    frame = replace(over.frame, start=bound) if side == "start" else replace(over.frame, end=bound)
    return replace(over, frame=frame)


def _bind_range_offset(
    binding: Binding, over: BoundWindowCall, bound: Bound, offset: Literal, node: exp.Expr, side: str
) -> BoundWindowCall:
    """Bind an offset of RANGE.

    It is a word if words add like values. Otherwise the bound is a column.
    """
    if len(over.order) != 1:
        binding.fail("RANGE with an offset needs an ORDER BY with one column", node)
    by = over.order[0].scalar
    offset = simplify_interval(_read_offset(offset, by))
    if by.type.kind is Kind.DATE and offset.type in INTERVALS:
        by = coerce(by, TIMESTAMP)
    if _is_negative(offset):
        binding.fail("a frame's offset must not be negative", node)
    step: int | None = None
    if by.type.is_exact and offset.type.is_exact:
        step = _scale_offset(bound, offset, by, side)
    elif by.type.is_float and offset.type.is_numeric:
        by, word = coerce(by, DOUBLE), coerce(offset, DOUBLE)
        step = word.value if isinstance(word, Literal) and isinstance(word.value, int) else None
    elif by.type.kind in MICROSECOND_KINDS and offset.type == INTERVAL_DAY and isinstance(offset.value, int):
        step = offset.value
    elif by.type.is_numeric and offset.type.is_numeric and (whole := _numeric_literal(offset)) is not None:
        by, offset = coerce(by, NUMERIC), whole
    if step is not None:
        return replace(_with_bound(over, side, replace(bound, offset=min(step, MAX_WORD))), range_key=by)
    return _bind_computed_bound(binding, over, by, offset, node, side)


def _numeric_literal(offset: Literal) -> Literal | None:
    value = coerce(offset, NUMERIC)
    return value if isinstance(value, Literal) else None


def _read_offset(offset: Literal, by: Scalar) -> Literal:
    """Return a quoted offset as a literal that can be added to the sort key."""
    if offset.type != UNKNOWN or not isinstance(offset.value, str):
        return offset
    kind = by.type.kind
    dated = kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME)
    return (
        literal_from_text(offset.value, INTERVAL if dated else DOUBLE if by.type.is_float else by.type)
        or offset
    )


def _is_negative(offset: Literal) -> bool:
    """Whether an offset is below zero, or NaN."""
    if offset.type.kind is Kind.NUMERIC and isinstance(offset.value, str):
        value = numeric.decode(offset.value)
        return value.is_nan() or value < 0
    if not offset.type.is_float or not isinstance(offset.value, int):
        return is_negative(offset)
    return not word_to_float(offset.value) >= 0


def _scale_offset(bound: Bound, offset: Literal, by: Scalar, side: str) -> int:
    """Return the offset in units of the sort key, rounded so that the frame has the same rows."""
    assert isinstance(offset.value, int)
    inward = (bound.edge is Edge.PRECEDING) == (side == "start")
    exact = Decimal(offset.value).scaleb(by.type.scale - offset.type.scale)
    return int(exact.to_integral_value(ROUND_FLOOR if inward else ROUND_CEILING))


def _bind_computed_bound(
    binding: Binding, over: BoundWindowCall, by: Scalar, offset: Scalar, node: exp.Expr, side: str
) -> BoundWindowCall:
    """Bind a bound that is computed per row: months, for example, have no fixed length."""
    if by.type.kind in (Kind.DATE, *MICROSECOND_KINDS) and offset.type.is_numeric:
        binding.fail(f"RANGE over {by.type} cannot have an offset of {offset.type}", node)
    down = (over.frame.start if side == "start" else over.frame.end).edge is Edge.PRECEDING
    if over.order[0].descending:
        down = not down
    try:
        at = call(binding, "sub" if down else "add", [by, offset], node)
    except Error:
        at = None
    if at is None or at.type != by.type:
        binding.fail(f"RANGE over {by.type} cannot have an offset of {offset.type}", node)
    if by.type.kind is Kind.NUMERIC and isinstance(offset, Literal) and offset.value == numeric.INFINITY:
        at = _infinitely_far(by, at, upward=(side == "end") is not over.order[0].descending)
    return replace(over, range_key=by, start=at) if side == "start" else replace(over, range_key=by, end=at)


def _infinitely_far(by: Scalar, at: Scalar, *, upward: bool) -> Scalar:
    """The bound at an infinite offset: the end of the numbers where the sum is lost, inf - inf."""
    nan = Literal(numeric.NAN, by.type)
    is_lost = Call(
        "and",
        (Call("eq", (at, nan), BOOLEAN), Call("ne", (by, nan), BOOLEAN)),
        BOOLEAN,
    )
    end = Literal(numeric.INFINITY if upward else numeric.NEGATIVE_INFINITY, by.type)
    return If(is_lost, end, at, by.type)


WINDOW_PARTS = ("partition_by", "order", "spec", "alias")


def bind_window(binding: Binding, scope: Scope, node: exp.Window) -> Scalar:
    """Bind a call with OVER to a column, or to an expression over such columns."""
    if scope.windows is None:
        binding.fail(f"a window function is not allowed in {scope.clause}", node)
    allow_only(node, binding.source, "this", "over", *WINDOW_PARTS)
    inner = scope.without_windows("the argument of a window function")
    definition = _resolve_window(binding, inner, scope.windows, node)
    called = node.this.this if isinstance(node.this, exp.RespectNulls) else node.this
    if isinstance(called, exp.IgnoreNulls):
        binding.refuse("IGNORE NULLS", node)
    plain = called.this if isinstance(called, exp.Filter) else called
    name = str(plain.this).lower() if isinstance(plain, exp.Anonymous) else ""
    function = window_function(name)
    if function is None:
        return _bind_window_aggregate(binding, inner, scope.windows, definition, called, node)
    if isinstance(called, exp.Filter):
        binding.fail(f"FILTER is only for aggregates, and {name} is none", node)
    args, signature = _bind_arguments(binding, inner, function, plain)
    frame = BoundWindowCall(name, args, signature, definition.partition, definition.order, Frame())
    bound = bind_frame(binding, inner, definition, frame)
    if not function.uses_frame:
        bound = frame
    return _window_column(binding, scope.windows, replace(bound, text=node.sql("postgres")))


def _bind_arguments(
    binding: Binding, scope: Scope, function: WindowFunction, call: exp.Anonymous
) -> tuple[tuple[Scalar, ...], Type]:
    parts: Sequence[exp.Expr] = call.expressions
    for part in parts:
        if isinstance(part, exp.Distinct):
            binding.fail(f"DISTINCT is only for aggregates, and {function.name} is none", part)
        if isinstance(part, exp.Star | exp.Order):
            binding.fail(f"{function.name} takes {function.accepts}", part)
    values = [binding.expression(scope, part) for part in parts]
    signature = function.rule(tuple(value.type for value in values))
    if signature is None:
        shown = ", ".join(str(value.type) for value in values)
        binding.fail(f"{function.name} takes {function.accepts}, not ({shown})", call)
    pairs = zip(values, signature.args, parts, strict=True)
    args = tuple(default_to_text(coerce_at(binding, value, type_, part)) for value, type_, part in pairs)
    result = args[0].type if signature.result == UNKNOWN else signature.result
    return args, result


def _bind_window_aggregate(
    binding: Binding,
    scope: Scope,
    windows: WindowCollector,
    definition: WindowDefinition,
    called: exp.Expr,
    node: exp.Window,
) -> Scalar:
    """Bind an aggregate over frames, composed like one over groups."""
    plain = called.this if isinstance(called, exp.Filter) else called
    known = aggregate_of(plain, binding.catalog.functions)
    if known is None:
        binding.fail("OVER is for window functions and aggregates", node)
    for part in known.args:
        if isinstance(part, exp.Distinct):
            binding.refuse("DISTINCT in an aggregate with OVER", part)
        if isinstance(part, exp.Order):
            binding.refuse("ORDER BY in an aggregate with OVER", part, "write it after OVER (")
    found = AggregateCollector()
    scalar = collect_aggregate(binding, scope, scope, found, called)
    text = node.sql("postgres")
    columns: dict[int, Column] = {}
    for id_, window_call in zip(found.ids, found.calls, strict=True):
        over = BoundWindowCall(
            window_call.function,
            window_call.args,
            window_call.type,
            definition.partition,
            definition.order,
            Frame(),
        )
        over = replace(bind_frame(binding, scope, definition, over), text=text)
        columns[id_] = _window_column(binding, windows, over)

    def to_column(part: Scalar) -> Scalar:
        return columns.get(part.index, part) if isinstance(part, Column) else part

    return transform(scalar, to_column)


def _window_column(binding: Binding, windows: WindowCollector, over: BoundWindowCall) -> Column:
    id_ = windows.known.get(over)
    if id_ is None:
        id_ = windows.known[over] = binding.new_id()
        windows.calls.append(over)
        windows.ids.append(id_)
    return Column(id_, over.type)


def define_windows(binding: Binding, scope: Scope, node: exp.Select) -> None:
    """Add the windows of the WINDOW clause to the scope. Each can extend the ones before it."""
    windows = scope.windows
    assert windows is not None
    inner = scope.without_windows("a window's definition")
    for part in node.args.get("windows") or []:
        allow_only(part, binding.source, "this", *WINDOW_PARTS)
        name = part.this.name.lower()
        if name in windows.definitions:
            binding.fail(f'window "{part.this.name}" is already defined', part.this)
        windows.definitions[name] = _bind_definition(binding, inner, windows, part)


def _resolve_window(
    binding: Binding, scope: Scope, windows: WindowCollector, node: exp.Window
) -> WindowDefinition:
    """Return the window definition after OVER, by name or in parentheses."""
    alias = node.args.get("alias")
    if alias is None and "partition_by" not in node.args:
        binding.fail(
            "OVER needs a window", node, "write OVER (), OVER (ORDER BY ...) or the name of a window"
        )
    if alias is None or "partition_by" in node.args:
        return _bind_definition(binding, scope, windows, node)
    return _named_window(binding, windows, alias)


def _named_window(binding: Binding, windows: WindowCollector, name: exp.Expr) -> WindowDefinition:
    known = windows.definitions.get(name.name.lower())
    if known is None:
        binding.fail(f'window "{name.name}" does not exist', name)
    return known


def _bind_definition(
    binding: Binding, scope: Scope, windows: WindowCollector, node: exp.Window
) -> WindowDefinition:
    """Bind a window definition, which may extend a named one."""
    partition = [
        equality_key(default_to_text(binding.expression(scope, part)))
        for part in node.args.get("partition_by") or []
    ]
    clause = node.args.get("order")
    if clause is not None:
        allow_only(clause, binding.source, "expressions")
    order = tuple(
        _bind_window_key(binding, scope, key) for key in (clause.expressions if clause is not None else ())
    )
    definition = WindowDefinition(tuple(partition), order, node.args.get("spec"))
    alias = node.args.get("alias")
    if alias is None:
        return definition
    base = _named_window(binding, windows, alias)
    if partition:
        binding.fail(f'window "{alias.name}" has its PARTITION BY, which cannot be replaced', node)
    if order and base.order:
        binding.fail(f'window "{alias.name}" has an ORDER BY, which cannot be replaced', node)
    if base.frame is not None:
        hint = "write OVER and its name, without parentheses" if definition == WindowDefinition() else None
        binding.fail(f'window "{alias.name}" has a frame, so that no other can build on it', node, hint)
    return WindowDefinition(base.partition, order or base.order, definition.frame)


def _bind_window_key(binding: Binding, scope: Scope, node: exp.Expr) -> WindowSortKey:
    scalar = equality_key(default_to_text(binding.expression(scope, node.this)))
    sorting: SortKey = bind_sort_key(binding, node, Column(0, scalar.type))
    return WindowSortKey(scalar, sorting.descending, sorting.nulls_first)
