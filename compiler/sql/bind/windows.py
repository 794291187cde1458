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

from kpg.compiler.algebra.scalars import substitute_ids
from kpg.compiler.passes.fold_constants import folded
from kpg.compiler.sql.bind.aggregate import Grouping, Item, collected
from kpg.compiler.sql.bind.calls import brought, call, coerce, condition, settled
from kpg.compiler.sql.bind.functions import aggregate_of
from kpg.compiler.sql.bind.literals import INTERVALS, conjuncts, from_text, is_negative, simplified
from kpg.compiler.sql.bind.query_output import Orders, numbered, sort_key
from kpg.compiler.sql.bind.scope import (
    Aggregates,
    Binding,
    Definition,
    Field,
    Fields,
    Over,
    Scope,
    Sorted,
    Windows,
    as_columns,
)
from kpg.compiler.sql.bound_tree import Node, SortKey, Window, used
from kpg.compiler.sql.parse.syntax import only
from kpg.runtime.errors import Error
from kpg.runtime.functions import WindowFunction, window_function
from kpg.runtime.functions.comparison import key
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


def bind_qualify(binding: Binding, scope: Scope, items: list[Item], node: exp.Select) -> tuple[Scalar, ...]:
    """The conjuncts of QUALIFY, in which the select list's names mean its values where no column has them."""
    clause = node.args.get("qualify")
    if clause is None:
        return ()
    known = {field.name.lower() for field in scope.fields}
    named: dict[int, Scalar] = {}
    fields = []
    for item in items:
        if item.name.lower() not in known:
            column = Column(binding.fresh(), item.scalar.type)
            named[column.index] = item.scalar
            fields.append(Field("", item.name, column))
    inner = replace(scope.without_rows("QUALIFY"), fields=Fields([*scope.fields, *fields]))
    scalar = condition(binding, binding.expression(inner, clause.this), clause.this, "QUALIFY")
    return conjuncts(substitute_ids(scalar, named))


def over_groups(windows: Windows, grouping: Grouping, node: exp.Expr) -> None:
    """Turns the calls over input rows into calls over groups."""

    def over(scalar: Scalar) -> Scalar:
        return grouping.over_groups(scalar, node)

    def perhaps(scalar: Scalar | None) -> Scalar | None:
        return None if scalar is None else over(scalar)

    windows.calls = [
        replace(
            call,
            args=tuple(map(over, call.args)),
            partition=tuple(map(over, call.partition)),
            order=tuple(replace(key, scalar=over(key.scalar)) for key in call.order),
            start=perhaps(call.start),
            end=perhaps(call.end),
            ranged=perhaps(call.ranged),
        )
        for call in windows.calls
    ]


def windowed(binding: Binding, source: Node, windows: Windows, orders: Orders) -> Node:
    """The source with a column for each call."""
    source, ties = numbered(binding, source, orders)
    wanted = dict.fromkeys(scalar for window_call in windows.calls for scalar in _scalars(window_call))
    source, columns = as_columns(binding, source, tuple(wanted))
    place = dict(zip(wanted, columns, strict=True))
    apart: dict[tuple[tuple[Scalar, ...], tuple[Sorted, ...]], list[tuple[int, Over]]] = {}
    for id_, window_call in zip(windows.ids, windows.calls, strict=True):
        apart.setdefault((_varying(window_call.partition), _varying_keys(window_call.order)), []).append(
            (id_, window_call)
        )
    sortings = [_sorting(*window) for window in apart]
    for (partition, order), calls in apart.items():
        own = _sorting(partition, order)
        finer = next((other for other in sortings if len(other) > len(own) and other[: len(own)] == own), own)
        source = Window(
            source,
            tuple(place[scalar] for scalar in partition),
            _place_window(order, place),
            (*_place_window(finer[len(own) :], place), *ties),
            tuple(id_ for id_, _ in calls),
            tuple(_call(window_call, place) for _, window_call in calls),
        )
    return source


def _sorting(partition: tuple[Scalar, ...], order: tuple[Sorted, ...]) -> tuple[Sorted, ...]:
    """What sorts rows for a window; one that needs less takes them as they come from one that needs more."""
    return (*(Sorted(scalar, False, False) for scalar in partition), *order)


def _place_window(keys: Sequence[Sorted], place: dict[Scalar, Column]) -> tuple[SortKey, ...]:
    return tuple(SortKey(place[key.scalar], key.descending, key.nulls_first) for key in keys)


def _varying(scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return tuple(dict.fromkeys(scalar for scalar in scalars if not isinstance(scalar, Literal)))


def _varying_keys(keys: tuple[Sorted, ...]) -> tuple[Sorted, ...]:
    """The keys that tell rows apart; a repeated one does not."""
    seen: dict[Scalar, Sorted] = {}
    for sort_item in keys:
        if not isinstance(sort_item.scalar, Literal):
            seen.setdefault(sort_item.scalar, sort_item)
    return tuple(seen.values())


def _scalars(call: Over) -> list[Scalar]:
    """What has to be a column."""
    arguments = [arg for arg in call.args if not isinstance(arg, Literal)]
    frame = [scalar for scalar in (call.start, call.end, call.ranged) if scalar is not None]
    keys = (key.scalar for key in _varying_keys(call.order))
    return [*_varying(call.partition), *keys, *arguments, *frame]


def _call(call: Over, place: dict[Scalar, Column]) -> WindowCall:
    frame = call.frame if _varying_keys(call.order) else _unordered(call.frame)
    ranged = None
    if call.ranged is not None:
        type_, column = call.ranged.type, place[call.ranged].index
        ranged = Ranged(column, call.order[0].descending, type_.is_float, type_.is_interned)
    if call.ranged is not None or call.start is not None or call.end is not None:
        frame = Frame(
            frame.unit,
            _bound(frame.start, call.start, place),
            _bound(frame.end, call.end, place),
            frame.exclude,
            ranged,
        )
    args = tuple(place.get(arg, arg) if not isinstance(arg, Literal) else arg for arg in call.args)
    return WindowCall(call.function, args, call.type, frame, call.text)


def _unordered(frame: Frame) -> Frame:
    """The frame where all rows of a partition are peers: from its first to its last of them."""
    start, end = frame.start, frame.end
    if frame.unit is not Unit.ROWS and start.edge is Edge.CURRENT_ROW:
        start = Bound(Edge.UNBOUNDED_PRECEDING)
    if frame.unit is not Unit.ROWS and end.edge is Edge.CURRENT_ROW:
        end = Bound(Edge.UNBOUNDED_FOLLOWING)
    return replace(frame, start=start, end=end)


def _bound(bound: Bound, at: Scalar | None, place: dict[Scalar, Column]) -> Bound:
    return bound if at is None else replace(bound, column=place[at].index)


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
    return from_text(offset.value, INTERVAL if dated else DOUBLE if by.type.is_float else by.type) or offset


def _is_negative(offset: Literal) -> bool:
    """Whether an offset is below zero, or NaN."""
    if offset.type.kind is Kind.NUMERIC and isinstance(offset.value, str):
        value = numeric.decode(offset.value)
        return value.is_nan() or value < 0
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
    if by.type.kind is Kind.NUMERIC and isinstance(offset, Literal) and offset.value == numeric.INFINITY:
        at = _infinitely_far(by, at, upward=(part == "end") is not over.order[0].descending)
    return replace(over, ranged=by, start=at) if part == "start" else replace(over, ranged=by, end=at)


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


PARTS = ("partition_by", "order", "spec", "alias")


def bind_window(binding: Binding, scope: Scope, node: exp.Window) -> Scalar:
    """The scalar that stands for a call with OVER: a column, or an expression over such."""
    if scope.windows is None:
        binding.wrong(f"a window function is not allowed in {scope.clause}", node)
    only(node, binding.source, "this", "over", *PARTS)
    inner = scope.without_windows("the argument of a window function")
    definition = _referred(binding, inner, scope.windows, node)
    called = node.this.this if isinstance(node.this, exp.RespectNulls) else node.this
    if isinstance(called, exp.IgnoreNulls):
        binding.refuse("IGNORE NULLS", node)
    plain = called.this if isinstance(called, exp.Filter) else called
    name = str(plain.this).lower() if isinstance(plain, exp.Anonymous) else ""
    function = window_function(name)
    if function is None:
        return _aggregate(binding, inner, scope.windows, definition, called, node)
    if isinstance(called, exp.Filter):
        binding.wrong(f"FILTER is only for aggregates, and {name} is none", node)
    args, signature = _arguments(binding, inner, function, plain)
    frame = Over(name, args, signature, definition.partition, definition.order, Frame())
    bound = bind_frame(binding, inner, definition, frame)
    if not function.framed:
        bound = frame
    return _column(binding, scope.windows, replace(bound, text=node.sql("postgres")))


def _arguments(
    binding: Binding, scope: Scope, function: WindowFunction, call: exp.Anonymous
) -> tuple[tuple[Scalar, ...], Type]:
    parts: Sequence[exp.Expr] = call.expressions
    for part in parts:
        if isinstance(part, exp.Distinct):
            binding.wrong(f"DISTINCT is only for aggregates, and {function.name} is none", part)
        if isinstance(part, exp.Star | exp.Order):
            binding.wrong(f"{function.name} takes {function.accepts}", part)
    values = [binding.expression(scope, part) for part in parts]
    signature = function.rule(tuple(value.type for value in values))
    if signature is None:
        shown = ", ".join(str(value.type) for value in values)
        binding.wrong(f"{function.name} takes {function.accepts}, not ({shown})", call)
    pairs = zip(values, signature.args, parts, strict=True)
    args = tuple(settled(brought(binding, value, type_, part)) for value, type_, part in pairs)
    result = args[0].type if signature.result == UNKNOWN else signature.result
    return args, result


def _aggregate(
    binding: Binding,
    scope: Scope,
    windows: Windows,
    definition: Definition,
    called: exp.Expr,
    node: exp.Window,
) -> Scalar:
    """An aggregate over frames, made of the same parts as one over groups."""
    plain = called.this if isinstance(called, exp.Filter) else called
    known = aggregate_of(plain, binding.catalog.functions)
    if known is None:
        binding.wrong("OVER is for window functions and aggregates", node)
    for part in known.args:
        if isinstance(part, exp.Distinct):
            binding.refuse("DISTINCT in an aggregate with OVER", part)
        if isinstance(part, exp.Order):
            binding.refuse("ORDER BY in an aggregate with OVER", part, "write it after OVER (")
    found = Aggregates()
    scalar = collected(binding, scope, scope, found, called)
    text = node.sql("postgres")
    columns: dict[int, Column] = {}
    for id_, window_call in zip(found.ids, found.calls, strict=True):
        over = Over(
            window_call.function,
            window_call.args,
            window_call.type,
            definition.partition,
            definition.order,
            Frame(),
        )
        over = replace(bind_frame(binding, scope, definition, over), text=text)
        columns[id_] = _column(binding, windows, over)

    def placed(part: Scalar) -> Scalar:
        return columns.get(part.index, part) if isinstance(part, Column) else part

    return transform(scalar, placed)


def _column(binding: Binding, windows: Windows, over: Over) -> Column:
    id_ = windows.known.get(over)
    if id_ is None:
        id_ = windows.known[over] = binding.fresh()
        windows.calls.append(over)
        windows.ids.append(id_)
    return Column(id_, over.type)


def define_windows(binding: Binding, scope: Scope, node: exp.Select) -> None:
    """Enters the windows that the WINDOW clause names, each of which may build on those before it."""
    windows = scope.windows
    assert windows is not None
    inner = scope.without_windows("a window's definition")
    for part in node.args.get("windows") or []:
        only(part, binding.source, "this", *PARTS)
        name = part.this.name.lower()
        if name in windows.named:
            binding.wrong(f'window "{part.this.name}" is already defined', part.this)
        windows.named[name] = _defined(binding, inner, windows, part)


def _referred(binding: Binding, scope: Scope, windows: Windows, node: exp.Window) -> Definition:
    """What is in the parentheses after OVER, or what the name there stands for."""
    alias = node.args.get("alias")
    if alias is None and "partition_by" not in node.args:
        binding.wrong(
            "OVER lacks its window", node, "write OVER (), OVER (ORDER BY ...) or the name of a window"
        )
    if alias is None or "partition_by" in node.args:
        return _defined(binding, scope, windows, node)
    return _known(binding, windows, alias)


def _known(binding: Binding, windows: Windows, name: exp.Expr) -> Definition:
    known = windows.named.get(name.name.lower())
    if known is None:
        binding.wrong(f'window "{name.name}" does not exist', name)
    return known


def _defined(binding: Binding, scope: Scope, windows: Windows, node: exp.Window) -> Definition:
    """A window of its own, or one that adds to another."""
    partition = [
        key(settled(binding.expression(scope, part))) for part in node.args.get("partition_by") or []
    ]
    clause = node.args.get("order")
    if clause is not None:
        only(clause, binding.source, "expressions")
    order = tuple(_sorted(binding, scope, key) for key in (clause.expressions if clause is not None else ()))
    definition = Definition(tuple(partition), order, node.args.get("spec"))
    alias = node.args.get("alias")
    if alias is None:
        return definition
    base = _known(binding, windows, alias)
    if partition:
        binding.wrong(f'window "{alias.name}" has its PARTITION BY, which cannot be replaced', node)
    if order and base.order:
        binding.wrong(f'window "{alias.name}" has an ORDER BY, which cannot be replaced', node)
    if base.frame is not None:
        hint = "write OVER and its name, without parentheses" if definition == Definition() else None
        binding.wrong(f'window "{alias.name}" has a frame, so that no other can build on it', node, hint)
    return Definition(base.partition, order or base.order, definition.frame)


def _sorted(binding: Binding, scope: Scope, node: exp.Expr) -> Sorted:
    scalar = key(settled(binding.expression(scope, node.this)))
    sorting: SortKey = sort_key(binding, node, Column(0, scalar.type))
    return Sorted(scalar, sorting.descending, sorting.nulls_first)
