"""OVER and WINDOW: calls of window functions, bound once each and collected by the query they stand in."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.sql.bind.aggregate import collected
from kpg.compiler.sql.bind.calls import brought, settled
from kpg.compiler.sql.bind.frame import bind_frame
from kpg.compiler.sql.bind.functions import aggregate_of
from kpg.compiler.sql.bind.scope import Aggregates, Binding, Definition, Over, Scope, Sorted, Windows
from kpg.compiler.sql.syntax import only
from kpg.compiler.sql.tree import SortKey
from kpg.runtime.functions import WindowFunction, window_function
from kpg.runtime.functions.comparison import key
from kpg.runtime.plan.nodes import Frame
from kpg.runtime.scalar import Column, Scalar, transform
from kpg.runtime.types import UNKNOWN, Type

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
    for id_, call in zip(found.ids, found.calls, strict=True):
        over = Over(call.function, call.args, call.type, definition.partition, definition.order, Frame())
        over = replace(bind_frame(binding, scope, definition, over), text=text)
        columns[id_] = _column(binding, windows, over)

    def placed(part: Scalar) -> Scalar:
        return columns.get(part.index, part) if isinstance(part, Column) else part

    return transform(scalar, placed)


def _column(binding: Binding, windows: Windows, over: Over) -> Column:
    if over not in windows.calls:
        windows.calls.append(over)
        windows.ids.append(binding.fresh())
    return Column(windows.ids[windows.calls.index(over)], over.type)


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
    from kpg.compiler.sql.bind.select import sort_key

    scalar = key(settled(binding.expression(scope, node.this)))
    sorting: SortKey = sort_key(binding, node, Column(0, scalar.type))
    return Sorted(scalar, sorting.descending, sorting.nulls_first)
