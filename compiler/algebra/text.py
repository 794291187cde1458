"""Stable text form of relations, scalars and types, and its parser.

A relation prints one operator per line, with its inputs indented below it. ``#3`` is input column 3. The type
of a call appears only where it cannot be inferred. ``parse(rel_text(rel), relations) == rel``, where
``relations`` are the catalog relations that ``rel`` reads.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall, Get, OrderBy, Rel
from kpg.compiler.algebra.rel import types as types_of
from kpg.compiler.algebra.traverse import children, walk
from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.functions import Direction, resolve, resolve_aggregate
from kpg.runtime.plan.nodes import Frame, WindowCall, frame_text, shown_call
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, DATE, INTEGER, TEXT, Kind, Type, array, float_to_word, word_to_float
from kpg.runtime.values import codec_of
from kpg.runtime.values.words import shown_date

Types = Sequence[Type]
EPOCH: Final = date(1970, 1, 1)
TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf\b|nan\b))"
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>::|[#(),\[\]=]))"
)


def scalar_text(scalar: Scalar, types: Types) -> str:
    """The scalar as text, over an input with columns of these types."""
    match scalar:
        case Column(index=index, type=type_):
            return f"#{index}" + ("" if index < len(types) and types[index] == type_ else f"::{type_}")
        case Literal(value=value, type=type_):
            return literal_text(value, type_)
        case If(condition=condition, then=then, otherwise=otherwise, type=type_):
            inner = ", ".join(scalar_text(part, types) for part in (condition, then, otherwise))
            return f"if({inner})" + ("" if then.type == type_ else f"::{type_}")
        case Fetch(table=table, column=column, rowid=rowid, type=type_):
            return f"fetch({table}, {column}, {scalar_text(rowid, types)})::{type_}"
        case Call(function=function, args=args, type=type_):
            inner = ", ".join(scalar_text(arg, types) for arg in args)
            return f"{function}({inner})" + ("" if inferred(function, args) == type_ else f"::{type_}")
        case _:
            assert_never(scalar)


def inferred(function: str, args: Sequence[Scalar]) -> Type | None:
    """The type of a call as the registry gives it; None if it does not know or wants other arguments."""
    try:
        meaning = resolve(function, tuple(arg.type for arg in args))
    except ProgrammingError:
        return None
    return meaning.result_type if meaning.arg_types == tuple(arg.type for arg in args) else None


def literal_text(value: int | str | None, type_: Type) -> str:
    """A constant with its type, unless that shows."""
    body = value_text(value, type_)
    if value is not None and type_ in (INTEGER, TEXT, BOOLEAN):
        return body
    return f"date {body}" if value is not None and type_ == DATE else f"{body}::{type_}"


def value_text(value: int | str | None, type_: Type) -> str:
    """A constant of a type that the context shows."""
    if value is None:
        return "null"
    if isinstance(value, str):
        codec = codec_of(type_) if type_.is_interned and not type_.is_text else None
        shown = value if codec is None else codec.show(codec.decode(value))
        return "'" + shown.replace("'", "''") + "'"
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL:
            return format(Decimal(value).scaleb(-type_.scale), "f")
        case Kind.REAL | Kind.DOUBLE:
            return repr(word_to_float(value))
        case Kind.DATE:
            return f"'{shown_date(value)}'"
        case _:
            return str(value)


class Reader:
    """Reads what this module and :mod:`kpg.compiler.algebra.text` write, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def _next(self) -> re.Match[str] | None:
        return TOKEN.match(self._text, self._place)

    def peek(self) -> str:
        """The next token; empty at the end."""
        found = self._next()
        return found[0].strip() if found else ""

    def take(self, expected: str | None = None) -> str:
        """The next token, consumed; InternalError if it is not the expected one."""
        found = self._next()
        token = found[0].strip() if found else ""
        if found is None or (expected is not None and token != expected):
            raise InternalError(f"expected {expected or 'more'} at {self._text[self._place :][:40]!r}")
        self._place = found.end()
        return token

    def accept(self, token: str) -> bool:
        """Consumes the token if it is next."""
        if self.peek() != token:
            return False
        self.take()
        return True

    def done(self) -> None:
        """Asserts that nothing is left."""
        if self._text[self._place :].strip():
            raise InternalError(f"unexpected {self._text[self._place :].strip()!r}")

    def integer(self) -> int:
        """An integer."""
        return int(self.take())

    def integers(self) -> tuple[int, ...]:
        """``[1, 2]``."""
        self.take("[")
        result: list[int] = []
        while not self.accept("]"):
            result.append(self.integer())
            self.accept(",")
        return tuple(result)

    def type(self) -> Type:
        """A type by its SQL name."""
        name = self.take()
        if name == "INTERVAL" and self.peek() in ("MONTH", "DAY"):
            name = f"INTERVAL {self.take()}"
        sizes = [0, 0]
        if self.accept("("):
            sizes[0] = self.integer()
            if self.accept(","):
                sizes[1] = self.integer()
            self.take(")")
        type_ = Type(Kind(name), sizes[0], sizes[1])
        while self.peek() == "[" and self._text[self._place :].lstrip().startswith("[]"):
            self.take("[")
            self.take("]")
            type_ = array(type_)
        return type_

    def types(self) -> tuple[Type, ...]:
        """``[INTEGER, DATE]``."""
        self.take("[")
        result: list[Type] = []
        while not self.accept("]"):
            result.append(self.type())
            self.accept(",")
        return tuple(result)

    def scalars(self, types: Types, end: str) -> tuple[Scalar, ...]:
        """Scalars up to the token ``end``, consumed."""
        result: list[Scalar] = []
        while not self.accept(end):
            result.append(self.scalar(types))
            self.accept(",")
        return tuple(result)

    def scalar(self, types: Types) -> Scalar:
        """One scalar over an input with columns of these types."""
        token = self.take()
        if token == "#":
            index = self.integer()
            return Column(index, self.type() if self.accept("::") else types[index])
        if token == "date":
            return Literal(self.value(self.take(), DATE), DATE)
        if not self.accept("("):
            return self._literal(token)
        if token == "fetch":
            return self._fetch(types)
        args = self.scalars(types, ")")
        explicit = self.type() if self.accept("::") else None
        if token == "if":
            return If(args[0], args[1], args[2], explicit or args[1].type)
        type_ = explicit or inferred(token, args)
        if type_ is None:
            raise InternalError(f"the type of {token} cannot be inferred")
        return Call(token, args, type_)

    def _fetch(self, types: Types) -> Fetch:
        table = self.take()
        self.take(",")
        column = self.integer()
        self.take(",")
        rowid = self.scalar(types)
        self.take(")")
        self.take("::")
        return Fetch(table, column, rowid, self.type())

    def _literal(self, token: str) -> Literal:
        natural = TEXT if token.startswith("'") else BOOLEAN if token in ("true", "false") else INTEGER
        type_ = self.type() if self.accept("::") else natural
        return Literal(self.value(token, type_), type_)

    def value(self, token: str, type_: Type) -> int | str | None:
        """The constant of a known type that a token means."""
        if token == "null":
            return None
        match type_.kind:
            case Kind.NULL:
                return token[1:-1].replace("''", "'")
            case _ if type_.is_interned:
                codec = codec_of(type_)
                return codec.encode(codec.parse(token[1:-1].replace("''", "'")))
            case Kind.BOOLEAN:
                return int(token == "true")
            case Kind.DECIMAL:
                return int(Decimal(token).scaleb(type_.scale))
            case Kind.REAL | Kind.DOUBLE:
                return float_to_word(float(token))
            case Kind.DATE:
                return (date.fromisoformat(token[1:-1]) - EPOCH).days
            case _:
                return int(token)


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
