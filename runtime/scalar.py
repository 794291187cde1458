"""Typed scalar expressions: the target of SQL and Datalog expressions, evaluated by the runtime.

The logical algebra and the dataflow IR share them. They are pure data; ``runtime.mfp`` compiles them. A call
names its function. A user's function is :class:`Named`: its name plus a number that distinguishes functions
of the same name in other databases. :func:`sql_text` prints a scalar for plans and errors.
"""

import datetime
import decimal
from collections.abc import Callable, Iterator
from dataclasses import field
from operator import is_
from typing import Any, Final, Generic, TypeVar, assert_never

from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, HashedOnce, Kind, Type, hash_once, word_to_float
from kpg.runtime.values import codec_of
from kpg.runtime.values.words import shown_date, shown_stamp

Definition = TypeVar("Definition", covariant=True)


class Named(str, Generic[Definition]):
    """The name of a user's function, with a number that no other function of its database has or had."""

    definition: Definition
    again: tuple[Callable[..., "Named[Any]"], tuple[object, ...]] | None = None
    """What makes it, with its definition, in another process, and of what; None if nothing can."""

    def __new__(cls, name: str, number: int) -> "Named[Definition]":
        """The definition, which knows its name, is set afterwards."""
        return super().__new__(cls, f"{name}#{number}")

    def __reduce__(self) -> Any:
        if self.again is None:
            raise TypeError(f"{shown(self)} is computed by this process only")
        return self.again


def shown(name: str) -> str:
    """A function's name as the user knows it."""
    return name.partition("#")[0]


@hash_once
@dataclass(frozen=True, slots=True)
class Column(HashedOnce):
    """Column ``index`` of the input row."""

    index: int
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Literal(HashedOnce):
    """A constant: its word, or the ``str`` itself for a text type, or None for NULL."""

    value: int | str | None
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Call(HashedOnce):
    """A registered function (``runtime.functions``) applied to arguments of exactly its types."""

    function: str
    args: "tuple[Scalar, ...]"
    type: Type
    stored: str = field(default="", compare=False, repr=False)
    """The column that the value of this cast is for, in errors."""


@hash_once
@dataclass(frozen=True, slots=True)
class If(HashedOnce):
    """``then`` where ``condition`` is true, ``otherwise`` where it is false or NULL.

    An error in the branch that is not taken is no error.
    """

    condition: "Scalar"
    then: "Scalar"
    otherwise: "Scalar"
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Fetch(HashedOnce):
    """Column ``column`` of the row of ``table`` whose rowid is ``rowid`` (late materialisation).

    Only in physical plans: base-table arrangements hold (key, rowid) and columns are read from the
    table's one row store when a row has survived the joins and filters before.
    """

    table: str
    column: int
    rowid: "Scalar"
    type: Type


Scalar = Column | Literal | Call | If | Fetch


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """The direct subexpressions of a scalar, left to right."""
    match scalar:
        case Column() | Literal():
            return ()
        case Call(args=args):
            return args
        case If(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Fetch(rowid=rowid):
            return (rowid,)
        case _:
            assert_never(scalar)


def with_children(scalar: Scalar, new: tuple[Scalar, ...]) -> Scalar:
    """The scalar with its direct subexpressions replaced, in the order of :func:`children`."""
    match scalar:
        case Column() | Literal():
            return scalar
        case Call(function=function, type=type_, stored=stored):
            return Call(function, new, type_, stored)
        case If(type=type_):
            return If(new[0], new[1], new[2], type_)
        case Fetch(table=table, column=column, type=type_):
            return Fetch(table, column, new[0], type_)
        case _:
            assert_never(scalar)


def walk(scalar: Scalar) -> Iterator[Scalar]:
    """The scalar and all its subexpressions, parents first."""
    stack = [scalar]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def transform(scalar: Scalar, rewrite: Callable[[Scalar], Scalar]) -> Scalar:
    """Rebuild the scalar bottom-up, applying ``rewrite`` to every node after its children."""
    checkpoint()
    old = children(scalar)
    new = tuple(transform(child, rewrite) for child in old)
    return rewrite(scalar if all(map(is_, old, new)) else with_children(scalar, new))


def columns(scalar: Scalar) -> frozenset[int]:
    """The input columns that a scalar reads, found once for each object."""
    known: frozenset[int] | None = getattr(scalar, "_columns", None)
    if known is None:
        checkpoint()
        known = frozenset(node.index for node in walk(scalar) if isinstance(node, Column))
        object.__setattr__(scalar, "_columns", known)
    return known


def remap(scalar: Scalar, mapping: Callable[[int], int]) -> Scalar:
    """The scalar with every input column ``i`` renumbered to ``mapping(i)``."""

    def rewrite(node: Scalar) -> Scalar:
        return Column(mapping(node.index), node.type) if isinstance(node, Column) else node

    return transform(scalar, rewrite)


INFIX: Final = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "and": "AND",
    "or": "OR",
    "concat": "||",
    **dict.fromkeys(("$add_all", "$add_doubles"), "+"),
    **dict.fromkeys(("$sub_all", "$sub_doubles"), "-"),
    **dict.fromkeys(("$mul_all", "$mul_doubles"), "*"),
    "$concat_all": "||",
    "like": "LIKE",
    "ilike": "ILIKE",
    "contains_all": "@>",
    "contained_in": "<@",
    "overlaps_with": "&&",
    "json_get": "->",
    "json_get_text": "->>",
    "json_get_path": "#>",
    "json_get_path_text": "#>>",
    "key_exists": "?",
    "any_key_exists": "?|",
    "all_keys_exist": "?&",
    "json_delete_path": "#-",
    "is_distinct": "IS DISTINCT FROM",
    "is_not_distinct": "IS NOT DISTINCT FROM",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "#",
    "shift_left": "<<",
    "shift_right": ">>",
    "regexp_imatch": "~*",
}
POSTFIX: Final = {
    "is_null": "IS NULL",
    "is_not_null": "IS NOT NULL",
    "is_true": "IS TRUE",
    "is_false": "IS FALSE",
}
PREFIX: Final = {"not": "NOT ", "neg": "-", "bitwise_not": "~"}
BUILT: Final = {"$array": ("ARRAY[", "]"), "$row": ("ROW(", ")"), "$element": ("element(", ")")}
SPELT: Final = {"in": "IN", "cast": "CAST", "similar_to": "SIMILAR TO"}


OF_RULES: Final = {
    "$full_match": "match",
    "$quotient": "/",
    "$six_places": "to_string",
    "$whole_number": "to_number",
    "$wrap_power": "power",
}
"""What Datalog's users call primitives; others as they are without the mark."""


def spelling(name: str) -> str:
    """A function's name as SQL writes it: operators by their symbol, ``extract_day`` as ``EXTRACT(DAY)``."""
    if name.startswith("extract_"):
        return f"EXTRACT({name.removeprefix('extract_').upper()})"
    for names in (INFIX, POSTFIX, PREFIX, SPELT):
        if name in names:
            return names[name].strip()
    return shown(name)


def column_number(column: Column) -> str:
    """A column of the input row as ``#0``."""
    return f"#{column.index}"


def fetch_number(fetch: Fetch) -> str:
    """A fetched column as ``table.#0``."""
    return f"{fetch.table}.#{fetch.column}"


def sql_text(
    scalar: Scalar,
    name: Callable[[Column], str] = column_number,
    fetched: Callable[[Fetch], str] = fetch_number,
) -> str:
    """The scalar as SQL-like text, columns named by ``name``, columns of base tables by ``fetched``."""

    def inner(node: Scalar, text: str) -> str:
        compound = isinstance(node, Call) and (node.function in INFIX or node.function in PREFIX)
        return f"({text})" if compound else text

    match scalar:
        case Column():
            return name(scalar)
        case Fetch():
            return fetched(scalar)
        case Literal():
            return literal_text(scalar)
        case If(condition=condition, then=then, otherwise=otherwise):
            texts = [sql_text(part, name, fetched) for part in (condition, then, otherwise)]
            return f"CASE WHEN {texts[0]} THEN {texts[1]} ELSE {texts[2]} END"
        case Call(function="cast", args=(x,), type=type_):
            return f"CAST({sql_text(x, name, fetched)} AS {type_})"
        case Call(function="in", args=(first, *items)):
            start = inner(first, sql_text(first, name, fetched))
            return f"{start} IN ({', '.join(sql_text(item, name, fetched) for item in items)})"
        case Call(function=function, args=args):
            plain = [sql_text(arg, name, fetched) for arg in args]
            return _call(function, [inner(arg, text) for arg, text in zip(args, plain, strict=True)], plain)
        case _:
            assert_never(scalar)


def _call(function: str, inner: list[str], plain: list[str]) -> str:
    if (
        function in INFIX
        and len(inner) >= 2
        and (len(inner) == 2 or function in ("and", "or") or function[0] == "$")
    ):
        return f" {INFIX[function]} ".join(inner)
    if function in BUILT:
        return ", ".join(plain).join(BUILT[function])
    if function in POSTFIX:
        return f"{inner[0]} {POSTFIX[function]}"
    if function in PREFIX:
        return f"{PREFIX[function]}{inner[0]}"
    if function.startswith("extract_"):
        return f"EXTRACT({function.removeprefix('extract_').upper()} FROM {plain[0]})"
    name = OF_RULES.get(function, shown(function).removeprefix("$"))
    return f"{name}({', '.join(plain)})"


def literal_text(literal: Literal) -> str:
    """A constant as SQL text."""
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return _string(value, type_)
    if value == ERROR:
        return "ERROR"
    match type_.kind:
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.DECIMAL:
            return f"{decimal.Decimal(value).scaleb(-type_.scale):f}"
        case Kind.REAL | Kind.DOUBLE:
            return repr(word_to_float(value))
        case Kind.TIMESTAMPTZ | Kind.TIME | Kind.ENUM | Kind.TID:
            return f"'{codec_of(type_).show(value)}'::{type_}"
        case Kind.INTERVAL_MONTH:
            return f"INTERVAL '{value}' MONTH"
        case Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL_DAY:
            return _time(value, type_.kind)
        case _:
            return str(value)


def _string(value: str, type_: Type) -> str:
    """A constant of text, or one that a string stands for."""
    codec = codec_of(type_) if type_.is_interned and not type_.is_text else None
    shown = value if codec is None else codec.show(codec.decode(value))
    quoted = "'" + shown.replace("'", "''") + "'"
    if type_.kind is Kind.NUMERIC:
        return shown if shown[0] in "-0123456789" else f"NUMERIC {quoted}"
    return quoted if codec is None else f"{quoted}::{type_}"


def _time(value: int, kind: Kind) -> str:
    try:
        if kind is Kind.DATE:
            return f"DATE '{shown_date(value)}'"
        if kind is Kind.TIMESTAMP:
            return f"TIMESTAMP '{shown_stamp(value)}'"
    except OverflowError:
        return f"{kind.value} {value}"
    return f"INTERVAL '{datetime.timedelta(microseconds=value)}'"
