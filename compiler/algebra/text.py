"""Stable text form of relations, scalars and types, and its parser.

A relation prints one operator per line, with its inputs indented below it. ``#3`` is input
column 3. The type of a call appears only where it cannot be inferred. ``parse(rel_text(rel), relations) ==
rel``, where ``relations`` are the catalog relations that ``rel`` reads. The parser does not support
windows.
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
from kpg.runtime.values.words import show_iso_date

Types = Sequence[Type]
EPOCH: Final = date(1970, 1, 1)
TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf\b|nan\b))"
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>::|[#(),\[\]=]))"
)


def scalar_text(scalar: Scalar, types: Types) -> str:
    """Return the scalar as text, over an input with columns of ``types``."""
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
            return f"{function}({inner})" + ("" if infer_type(function, args) == type_ else f"::{type_}")
        case _:
            assert_never(scalar)


def infer_type(function: str, args: Sequence[Scalar]) -> Type | None:
    """Return the result type that the registry gives for a call.

    Returns None if the function is unknown or would cast its arguments.
    """
    try:
        resolution = resolve(function, tuple(arg.type for arg in args))
    except ProgrammingError:
        return None
    return resolution.result_type if resolution.arg_types == tuple(arg.type for arg in args) else None


def literal_text(value: int | str | None, type_: Type) -> str:
    """Return a constant with its type, unless the text implies the type."""
    body = value_text(value, type_)
    if value is not None and type_ in (INTEGER, TEXT, BOOLEAN):
        return body
    return f"date {body}" if value is not None and type_ == DATE else f"{body}::{type_}"


def value_text(value: int | str | None, type_: Type) -> str:
    """Return a constant whose type is known from the context."""
    if value is None:
        return "null"
    if isinstance(value, str):
        codec = codec_of(type_) if type_.is_interned and not type_.is_text else None
        body = value if codec is None else codec.show(codec.decode(value))
        return "'" + body.replace("'", "''") + "'"
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL:
            return format(Decimal(value).scaleb(-type_.scale), "f")
        case Kind.REAL | Kind.DOUBLE:
            return repr(word_to_float(value))
        case Kind.DATE:
            return f"'{show_iso_date(value)}'"
        case _:
            return str(value)


class Reader:
    """Recursive-descent parser of the text form."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def _match_token(self) -> re.Match[str] | None:
        return TOKEN.match(self._text, self._place)

    def peek(self) -> str:
        """Return the next token, or an empty string at the end."""
        found = self._match_token()
        return found[0].strip() if found else ""

    def consume(self, expected: str | None = None) -> str:
        """Consume and return the next token.

        Raises InternalError at the end, or if the token is not the ``expected`` one.
        """
        found = self._match_token()
        token = found[0].strip() if found else ""
        if found is None or (expected is not None and token != expected):
            raise InternalError(f"expected {expected or 'more'} at {self._text[self._place :][:40]!r}")
        self._place = found.end()
        return token

    def accept(self, token: str) -> bool:
        """Consume the token if it is next, and return whether it was."""
        if self.peek() != token:
            return False
        self.consume()
        return True

    def expect_end(self) -> None:
        """Raise InternalError unless all text is consumed."""
        if self._text[self._place :].strip():
            raise InternalError(f"unexpected {self._text[self._place :].strip()!r}")

    def integer(self) -> int:
        """Parse an integer."""
        return int(self.consume())

    def integers(self) -> tuple[int, ...]:
        """Parse a list of integers, such as ``[1, 2]``."""
        self.consume("[")
        result: list[int] = []
        while not self.accept("]"):
            result.append(self.integer())
            self.accept(",")
        return tuple(result)

    def type(self) -> Type:
        """Parse a type by its SQL name."""
        name = self.consume()
        if name == "INTERVAL" and self.peek() in ("MONTH", "DAY"):
            name = f"INTERVAL {self.consume()}"
        sizes = [0, 0]
        if self.accept("("):
            sizes[0] = self.integer()
            if self.accept(","):
                sizes[1] = self.integer()
            self.consume(")")
        type_ = Type(Kind(name), sizes[0], sizes[1])
        while self.peek() == "[" and self._text[self._place :].lstrip().startswith("[]"):
            self.consume("[")
            self.consume("]")
            type_ = array(type_)
        return type_

    def types(self) -> tuple[Type, ...]:
        """Parse a list of types, such as ``[INTEGER, DATE]``."""
        self.consume("[")
        result: list[Type] = []
        while not self.accept("]"):
            result.append(self.type())
            self.accept(",")
        return tuple(result)

    def scalars(self, types: Types, end: str) -> tuple[Scalar, ...]:
        """Parse scalars up to the token ``end``, and consume it."""
        result: list[Scalar] = []
        while not self.accept(end):
            result.append(self.scalar(types))
            self.accept(",")
        return tuple(result)

    def scalar(self, types: Types) -> Scalar:
        """Parse a scalar over an input with columns of ``types``."""
        token = self.consume()
        if token == "#":
            index = self.integer()
            return Column(index, self.type() if self.accept("::") else types[index])
        if token == "date":
            return Literal(self.value(self.consume(), DATE), DATE)
        if not self.accept("("):
            return self._literal(token)
        if token == "fetch":
            return self._fetch(types)
        args = self.scalars(types, ")")
        explicit = self.type() if self.accept("::") else None
        if token == "if":
            return If(args[0], args[1], args[2], explicit or args[1].type)
        type_ = explicit or infer_type(token, args)
        if type_ is None:
            raise InternalError(f"the type of {token} cannot be inferred")
        return Call(token, args, type_)

    def _fetch(self, types: Types) -> Fetch:
        table = self.consume()
        self.consume(",")
        column = self.integer()
        self.consume(",")
        rowid = self.scalar(types)
        self.consume(")")
        self.consume("::")
        return Fetch(table, column, rowid, self.type())

    def _literal(self, token: str) -> Literal:
        natural = TEXT if token.startswith("'") else BOOLEAN if token in ("true", "false") else INTEGER
        type_ = self.type() if self.accept("::") else natural
        return Literal(self.value(token, type_), type_)

    def value(self, token: str, type_: Type) -> int | str | None:
        """Return the constant of type ``type_`` that a token denotes."""
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
    """Return the relation as text.

    Every line ends in a newline.
    """
    lines: list[str] = []
    stack = [(rel, 0)]
    while stack:
        node, depth = stack.pop()
        lines.append(f"{INDENT * depth}{node_text(node)}\n")
        stack += [(child, depth + 1) for child in reversed(children(node))]
    return "".join(lines)


def node_text(rel: Rel) -> str:
    """Return the line of the relation's own node, without its inputs."""
    name = type(rel).__name__
    match rel:
        case algebra.Get():
            return f"{name} {rel.name}"
        case algebra.Constant(rows=rows, types=types):
            row_texts = (f"({', '.join(map(value_text, row, types))})" for row in rows)
            return " ".join((name, _types(types), *row_texts))
        case algebra.LocalGet(id=id_) | algebra.Let(id=id_):
            return f"{name} {id_}"
        case algebra.Map(input=source, scalars=scalars):
            return f"{name} {_scalars(scalars, types_of(source))}"
        case algebra.Filter(input=source, predicates=predicates):
            return f"{name} {_scalars(predicates, types_of(source))}"
        case algebra.Project(columns=columns):
            return f"{name} {list(columns)}"
        case algebra.Join(on=on, orders=orders):
            orders_text = f" orders=[{', '.join(str(list(order)) for order in orders)}]" if orders else ""
            return f"{name} {_scalars(on, _input_types(rel))}{orders_text}"
        case algebra.Reduce(input=source, keys=keys, aggregates=aggregates):
            inner = types_of(source)
            calls = ", ".join(aggregate_text(call, inner) for call in aggregates)
            return f"{name} {_scalars(keys, inner)} [{calls}]"
        case algebra.Expand(input=source, calls=expanded):
            calls_text = ", ".join(call_text(call, types_of(source)) for call in expanded)
            numbered, outer = " ordinality" * rel.ordinality, " outer" * rel.outer
            return f"{name} [{calls_text}]{numbered}{outer}"
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


def _input_types(rel: algebra.Join) -> Types:
    return [type_ for source in rel.inputs for type_ in types_of(source)]


def _scalars(scalars: tuple[Scalar, ...], types: Types) -> str:
    return f"[{', '.join(scalar_text(scalar, types) for scalar in scalars)}]"


def _types(types: tuple[Type, ...]) -> str:
    return f"[{', '.join(map(str, types))}]"


def window_text(window: algebra.Window) -> str:
    """Return the window's partition, order, ties, and calls with their frames."""
    calls = (_call(call, types_of(window.input)) for call in window.calls)
    order = f"order=[{_order(window.order)}] ties=[{_order(window.ties)}]"
    return f"partition={list(window.partition)} {order} [{', '.join(calls)}]"


def _call(call: WindowCall, types: Types) -> str:
    call_body = shown_call(call, lambda arg: scalar_text(arg, types))
    frame = "" if call.frame == Frame() else f" {frame_text(call.frame)}"
    by = call.frame.ranged
    ranged = "" if by is None else f" by #{by.column} {'desc' if by.descending else 'asc'}"
    return f"{call_body}::{call.type}{frame}{ranged}"


def _order(order: tuple[OrderBy, ...]) -> str:
    return ", ".join(f"{key.column} {_direction(key)}" for key in order)


def _direction(key: OrderBy | Direction) -> str:
    return f"{'desc' if key.descending else 'asc'} {'first' if key.nulls_first else 'last'}"


def aggregate_text(call: AggregateCall, types: Types) -> str:
    """Return an aggregate call as text, over an input with columns of ``types``."""
    inner = ", ".join(scalar_text(arg, types) for arg in call.args)
    distinct = "distinct " if call.distinct else ""
    order = "".join(f" {_direction(key)}" for key in call.order)
    known = _aggregate_type(call.function, call.args) == call.type
    return f"{call.function}({distinct}{inner}){order}" + ("" if known else f"::{call.type}")


def call_text(call: algebra.RowCall, types: Types) -> str:
    """Return a call of a set-returning function as text, over an input with columns of ``types``."""
    inner = ", ".join(scalar_text(arg, types) for arg in call.args)
    return f"{call.function}({inner})::{_types(call.types)}{'' if call.nullable else ' not null'}"


def _aggregate_type(function: str, args: tuple[Scalar, ...]) -> Type | None:
    try:
        return resolve_aggregate(function, tuple(arg.type for arg in args)).result_type
    except ProgrammingError:
        return None


def relations(rel: Rel) -> dict[str, Get]:
    """Return the catalog relations that ``rel`` reads, by name, as :func:`parse` needs them."""
    return {node.name: node for node in walk(rel) if isinstance(node, Get)}


def parse(text: str, relations: Mapping[str, Get]) -> Rel:
    """Parse the text form of a relation, the inverse of :func:`rel_text`.

    Raises InternalError if the text does not parse.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    result, rest = _parse(lines, 0, 0, relations, {})
    if rest != len(lines):
        raise InternalError(f"unexpected line {lines[rest]!r}")
    return result


Locals = dict[str, tuple[Type, ...]]


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip(" "))) // len(INDENT)


def _parse(
    lines: list[str], place: int, depth: int, relations: Mapping[str, Get], local_types: Locals
) -> tuple[Rel, int]:
    reader = Reader(lines[place])
    name = reader.consume()
    place += 1
    inner = dict(local_types)
    id_ = reader.consume() if name in ("Let", "LocalGet", "Get") else ""
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
        result = algebra.LocalGet(id_, local_types[id_])
    elif name == "Let":
        result = algebra.Let(id_, inputs[0], inputs[1])
    elif name == "LetRec":
        result = algebra.LetRec(ids, tuple(inputs[:-1]), id_types, limit, inputs[-1], fails)
    else:
        result = _operator(name, reader, tuple(inputs))
    reader.expect_end()
    return result, place


def _recursion(reader: Reader) -> tuple[int | None, bool, tuple[str, ...], tuple[tuple[Type, ...], ...]]:
    limit = _limit(reader)
    fails = reader.accept("error")
    reader.consume("[")
    ids: list[str] = []
    while not reader.accept("]"):
        ids.append(reader.consume())
        reader.accept(",")
    reader.consume("[")
    types: list[tuple[Type, ...]] = []
    while not reader.accept("]"):
        types.append(reader.types())
        reader.accept(",")
    return limit, fails, tuple(ids), tuple(types)


def _limit(reader: Reader) -> int | None:
    reader.consume("limit")
    reader.consume("=")
    return None if reader.accept("all") else reader.integer()


def _operator(name: str, reader: Reader, inputs: tuple[Rel, ...]) -> Rel:
    match name:
        case "Constant":
            return _constant(reader)
        case "Union":
            return algebra.Union(inputs)
        case "Join":
            types = [type_ for source in inputs for type_ in types_of(source)]
            reader.consume("[")
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
            return algebra.Single(inputs[0], _labelled_integers(reader, "group"))
        case "TopK":
            return _topk(reader, inputs[0])
        case "Expand":
            return _expand(reader, inputs[0])
        case "Map" | "Filter" | "Reduce":
            return _scalar_operator(name, reader, inputs[0])
        case _:
            raise InternalError(f"unknown operator {name}")


def _scalar_operator(name: str, reader: Reader, source: Rel) -> Rel:
    types = types_of(source)
    reader.consume("[")
    scalars = reader.scalars(types, "]")
    if name == "Map":
        return algebra.Map(source, scalars)
    if name == "Filter":
        return algebra.Filter(source, scalars)
    reader.consume("[")
    calls: list[AggregateCall] = []
    while not reader.accept("]"):
        calls.append(_aggregate(reader, types))
        reader.accept(",")
    return algebra.Reduce(source, scalars, tuple(calls))


def _aggregate(reader: Reader, types: Types) -> AggregateCall:
    function = reader.consume()
    reader.consume("(")
    distinct = reader.accept("distinct")
    args = reader.scalars(types, ")")
    order: list[Direction] = []
    while (descending := reader.accept("desc")) or reader.accept("asc"):
        order.append(Direction(descending, reader.consume() == "first"))
    type_ = reader.type() if reader.accept("::") else _aggregate_type(function, args)
    if type_ is None:
        raise InternalError(f"the type of {function} cannot be inferred")
    return AggregateCall(function, args, distinct, type_, tuple(order))


def _expand(reader: Reader, source: Rel) -> algebra.Expand:
    types = types_of(source)
    reader.consume("[")
    calls = []
    while not reader.accept("]"):
        function = reader.consume()
        reader.consume("(")
        args = reader.scalars(types, ")")
        reader.consume("::")
        column_types = reader.types()
        nullable = not reader.accept("not") or not reader.accept("null")
        calls.append(algebra.RowCall(function, args, column_types, nullable))
        reader.accept(",")
    return algebra.Expand(source, tuple(calls), reader.accept("ordinality"), reader.accept("outer"))


def _constant(reader: Reader) -> algebra.Constant:
    types = reader.types()
    rows = []
    while reader.accept("("):
        row = []
        for type_ in types:
            row.append(reader.value(reader.consume(), type_))
            reader.accept(",")
        reader.consume(")")
        rows.append(tuple(row))
    return algebra.Constant(tuple(rows), types)


def _labelled_integers(reader: Reader, name: str) -> tuple[int, ...]:
    reader.consume(name)
    reader.consume("=")
    return reader.integers()


def _orders(reader: Reader) -> tuple[tuple[int, ...], ...]:
    if not reader.accept("orders"):
        return ()
    reader.consume("=")
    reader.consume("[")
    orders = []
    while not reader.accept("]"):
        orders.append(reader.integers())
        reader.accept(",")
    return tuple(orders)


def _topk(reader: Reader, source: Rel) -> algebra.TopK:
    group = _labelled_integers(reader, "group")
    reader.consume("order")
    reader.consume("=")
    reader.consume("[")
    order = []
    while not reader.accept("]"):
        column, direction, nulls = reader.integer(), reader.consume(), reader.consume()
        order.append(OrderBy(column, direction == "desc", nulls == "first"))
        reader.accept(",")
    limit = _limit(reader)
    reader.consume("offset")
    reader.consume("=")
    return algebra.TopK(source, group, tuple(order), limit, reader.integer())
