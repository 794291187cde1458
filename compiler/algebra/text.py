"""Relations as stable indented text, one operator a line with its inputs below it, and back.

``parse(rel_text(rel), relations)`` is ``rel``, given the catalog relations that it reads.
"""

from collections.abc import Mapping
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall, Get, OrderBy, Rel
from kpg.compiler.algebra.rel import types as types_of
from kpg.compiler.algebra.scalar_text import Reader, Types, scalar_text, value_text
from kpg.compiler.algebra.traverse import children, walk
from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.functions import Direction, resolve_aggregate
from kpg.runtime.plan.nodes import Frame, WindowCall, frame_text, shown_call
from kpg.runtime.scalar import Scalar
from kpg.runtime.types import Type

INDENT = "  "


def rel_text(rel: Rel) -> str:
    """The relation as text; every line ends in a newline."""
    lines: list[str] = []
    stack = [(rel, 0)]
    while stack:
        node, depth = stack.pop()
        lines.append(f"{INDENT * depth}{node_text(node)}\n")
        stack += [(child, depth + 1) for child in reversed(children(node))]
    return "".join(lines)


def node_text(rel: Rel) -> str:
    """The relation's own line, without its inputs."""
    name = type(rel).__name__
    match rel:
        case algebra.Get():
            return f"{name} {rel.name}"
        case algebra.Constant(rows=rows, types=types):
            shown = (f"({', '.join(map(value_text, row, types))})" for row in rows)
            return " ".join((name, _types(types), *shown))
        case algebra.LocalGet(id=id_) | algebra.Let(id=id_):
            return f"{name} {id_}"
        case algebra.Map(input=source, scalars=scalars):
            return f"{name} {_scalars(scalars, types_of(source))}"
        case algebra.Filter(input=source, predicates=predicates):
            return f"{name} {_scalars(predicates, types_of(source))}"
        case algebra.Project(columns=columns):
            return f"{name} {list(columns)}"
        case algebra.Join(on=on, orders=orders):
            given = f" orders=[{', '.join(str(list(order)) for order in orders)}]" if orders else ""
            return f"{name} {_scalars(on, _joined(rel))}{given}"
        case algebra.Reduce(input=source, keys=keys, aggregates=aggregates):
            inner = types_of(source)
            calls = ", ".join(aggregate_text(call, inner) for call in aggregates)
            return f"{name} {_scalars(keys, inner)} [{calls}]"
        case algebra.Expand(input=source, calls=expanded):
            made = ", ".join(call_text(call, types_of(source)) for call in expanded)
            numbered, outer = " ordinality" * rel.ordinality, " outer" * rel.outer
            return f"{name} [{made}]{numbered}{outer}"
        case algebra.TopK():
            slice_ = f"limit={'all' if rel.limit is None else rel.limit} offset={rel.offset}"
            return f"{name} group={list(rel.group)} order=[{_order(rel.order)}] {slice_}"
        case algebra.Window():
            return f"{name} {window_text(rel)}"
        case algebra.Single(group=group):
            return f"{name} group={list(group)}"
        case algebra.LetRec(ids=ids, types=types, limit=limit, error_at_limit=fails):
            rounds = f"limit={'all' if limit is None else limit}{' error' if fails else ''}"
            return f"{name} {rounds} [{', '.join(ids)}] [{', '.join(map(_types, types))}]"
        case algebra.Distinct() | algebra.Threshold() | algebra.Negate() | algebra.Union():
            return name
        case _:
            assert_never(rel)


def _joined(rel: algebra.Join) -> Types:
    return [type_ for source in rel.inputs for type_ in types_of(source)]


def _scalars(scalars: tuple[Scalar, ...], types: Types) -> str:
    return f"[{', '.join(scalar_text(scalar, types) for scalar in scalars)}]"


def _types(types: tuple[Type, ...]) -> str:
    return f"[{', '.join(map(str, types))}]"


def window_text(window: algebra.Window) -> str:
    """Partition, order, order of peers, and calls with their frames."""
    calls = (_call(call, types_of(window.input)) for call in window.calls)
    order = f"order=[{_order(window.order)}] ties=[{_order(window.ties)}]"
    return f"partition={list(window.partition)} {order} [{', '.join(calls)}]"


def _call(call: WindowCall, types: Types) -> str:
    shown = shown_call(call, lambda arg: scalar_text(arg, types))
    frame = "" if call.frame == Frame() else f" {frame_text(call.frame)}"
    by = call.frame.ranged
    ranged = "" if by is None else f" by #{by.column} {'desc' if by.descending else 'asc'}"
    return f"{shown}::{call.type}{frame}{ranged}"


def _order(order: tuple[OrderBy, ...]) -> str:
    return ", ".join(f"{key.column} {_direction(key)}" for key in order)


def _direction(key: OrderBy | Direction) -> str:
    return f"{'desc' if key.descending else 'asc'} {'first' if key.nulls_first else 'last'}"


def aggregate_text(call: AggregateCall, types: Types) -> str:
    """An aggregate as text, over an input with columns of these types."""
    inner = ", ".join(scalar_text(arg, types) for arg in call.args)
    distinct = "distinct " if call.distinct else ""
    order = "".join(f" {_direction(key)}" for key in call.order)
    known = _aggregate_type(call.function, call.args) == call.type
    return f"{call.function}({distinct}{inner}){order}" + ("" if known else f"::{call.type}")


def call_text(call: algebra.RowCall, types: Types) -> str:
    """A call that makes rows as text, over an input with columns of these types."""
    inner = ", ".join(scalar_text(arg, types) for arg in call.args)
    return f"{call.function}({inner})::{_types(call.types)}{'' if call.nullable else ' not null'}"


def _aggregate_type(function: str, args: tuple[Scalar, ...]) -> Type | None:
    try:
        return resolve_aggregate(function, tuple(arg.type for arg in args)).result_type
    except ProgrammingError:
        return None


def relations(rel: Rel) -> dict[str, Get]:
    """The catalog relations that a relation reads, by name: what :func:`parse` needs."""
    return {node.name: node for node in walk(rel) if isinstance(node, Get)}


def parse(text: str, relations: Mapping[str, Get]) -> Rel:
    """The relation that :func:`rel_text` wrote; InternalError if the text is not of its making."""
    lines = [line for line in text.splitlines() if line.strip()]
    result, rest = _parse(lines, 0, 0, relations, {})
    if rest != len(lines):
        raise InternalError(f"unexpected line {lines[rest]!r}")
    return result


Locals = dict[str, tuple[Type, ...]]


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip(" "))) // len(INDENT)


def _parse(
    lines: list[str], place: int, depth: int, relations: Mapping[str, Get], bound: Locals
) -> tuple[Rel, int]:
    reader = Reader(lines[place])
    name = reader.take()
    place += 1
    inner = dict(bound)
    id_ = reader.take() if name in ("Let", "LocalGet", "Get") else ""
    limit, fails, ids, id_types = _recursion(reader) if name == "LetRec" else (None, False, (), ())
    inner.update(zip(ids, id_types, strict=True))
    inputs: list[Rel] = []
    while place < len(lines) and _depth(lines[place]) > depth:
        child, place = _parse(lines, place, depth + 1, relations, inner)
        inputs.append(child)
        if name == "Let":
            inner[id_] = types_of(inputs[0])
    if name == "Get":
        result: Rel = relations[id_]
    elif name == "LocalGet":
        result = algebra.LocalGet(id_, bound[id_])
    elif name == "Let":
        result = algebra.Let(id_, inputs[0], inputs[1])
    elif name == "LetRec":
        result = algebra.LetRec(ids, tuple(inputs[:-1]), id_types, limit, inputs[-1], fails)
    else:
        result = _operator(name, reader, tuple(inputs))
    reader.done()
    return result, place


def _recursion(reader: Reader) -> tuple[int | None, bool, tuple[str, ...], tuple[tuple[Type, ...], ...]]:
    limit = _limit(reader)
    fails = reader.accept("error")
    reader.take("[")
    ids: list[str] = []
    while not reader.accept("]"):
        ids.append(reader.take())
        reader.accept(",")
    reader.take("[")
    types: list[tuple[Type, ...]] = []
    while not reader.accept("]"):
        types.append(reader.types())
        reader.accept(",")
    return limit, fails, tuple(ids), tuple(types)


def _limit(reader: Reader) -> int | None:
    reader.take("limit")
    reader.take("=")
    return None if reader.accept("all") else reader.integer()


def _operator(name: str, reader: Reader, inputs: tuple[Rel, ...]) -> Rel:
    match name:
        case "Constant":
            return _constant(reader)
        case "Union":
            return algebra.Union(inputs)
        case "Join":
            types = [type_ for source in inputs for type_ in types_of(source)]
            reader.take("[")
            return algebra.Join(inputs, reader.scalars(types, "]"), _orders(reader))
        case "Distinct":
            return algebra.Distinct(inputs[0])
        case "Threshold":
            return algebra.Threshold(inputs[0])
        case "Negate":
            return algebra.Negate(inputs[0])
        case "Project":
            return algebra.Project(inputs[0], reader.integers())
        case "Single":
            return algebra.Single(inputs[0], _named_integers(reader, "group"))
        case "TopK":
            return _top(reader, inputs[0])
        case "Expand":
            return _expand(reader, inputs[0])
        case "Map" | "Filter" | "Reduce":
            return _over(name, reader, inputs[0])
        case _:
            raise InternalError(f"unknown operator {name}")


def _over(name: str, reader: Reader, source: Rel) -> Rel:
    types = types_of(source)
    reader.take("[")
    scalars = reader.scalars(types, "]")
    if name == "Map":
        return algebra.Map(source, scalars)
    if name == "Filter":
        return algebra.Filter(source, scalars)
    reader.take("[")
    calls: list[AggregateCall] = []
    while not reader.accept("]"):
        calls.append(_aggregate(reader, types))
        reader.accept(",")
    return algebra.Reduce(source, scalars, tuple(calls))


def _aggregate(reader: Reader, types: Types) -> AggregateCall:
    function = reader.take()
    reader.take("(")
    distinct = reader.accept("distinct")
    args = reader.scalars(types, ")")
    order: list[Direction] = []
    while (descending := reader.accept("desc")) or reader.accept("asc"):
        order.append(Direction(descending, reader.take() == "first"))
    type_ = reader.type() if reader.accept("::") else _aggregate_type(function, args)
    if type_ is None:
        raise InternalError(f"the type of {function} cannot be inferred")
    return AggregateCall(function, args, distinct, type_, tuple(order))


def _expand(reader: Reader, source: Rel) -> algebra.Expand:
    types = types_of(source)
    reader.take("[")
    calls = []
    while not reader.accept("]"):
        function = reader.take()
        reader.take("(")
        args = reader.scalars(types, ")")
        reader.take("::")
        made = reader.types()
        nullable = not reader.accept("not") or not reader.accept("null")
        calls.append(algebra.RowCall(function, args, made, nullable))
        reader.accept(",")
    return algebra.Expand(source, tuple(calls), reader.accept("ordinality"), reader.accept("outer"))


def _constant(reader: Reader) -> algebra.Constant:
    types = reader.types()
    rows = []
    while reader.accept("("):
        row = []
        for type_ in types:
            row.append(reader.value(reader.take(), type_))
            reader.accept(",")
        reader.take(")")
        rows.append(tuple(row))
    return algebra.Constant(tuple(rows), types)


def _named_integers(reader: Reader, name: str) -> tuple[int, ...]:
    reader.take(name)
    reader.take("=")
    return reader.integers()


def _orders(reader: Reader) -> tuple[tuple[int, ...], ...]:
    if not reader.accept("orders"):
        return ()
    reader.take("=")
    reader.take("[")
    orders = []
    while not reader.accept("]"):
        orders.append(reader.integers())
        reader.accept(",")
    return tuple(orders)


def _top(reader: Reader, source: Rel) -> algebra.TopK:
    group = _named_integers(reader, "group")
    reader.take("order")
    reader.take("=")
    reader.take("[")
    order = []
    while not reader.accept("]"):
        column, direction, nulls = reader.integer(), reader.take(), reader.take()
        order.append(OrderBy(column, direction == "desc", nulls == "first"))
        reader.accept(",")
    limit = _limit(reader)
    reader.take("offset")
    reader.take("=")
    return algebra.TopK(source, group, tuple(order), limit, reader.integer())
