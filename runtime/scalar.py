"""Typed scalar expressions: the target of SQL and Datalog expressions, evaluated by the runtime.

The logical algebra and the dataflow IR share them. They are pure data; ``runtime.mfp`` compiles
them. A call names its function. A user's function is a :class:`UserFunctionName`: its name plus a
number that distinguishes functions of the same name in other databases. :func:`sql_text` prints a
scalar for plans and errors.
"""

import datetime
import decimal
from collections.abc import Callable, Iterator
from dataclasses import field
from operator import is_
from typing import Any, Final, Generic, TypeVar, assert_never

from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, CachedHash, Kind, Type, hash_once, word_to_float
from kpg.runtime.values import codec_of
from kpg.runtime.values.words import show_iso_date, show_iso_timestamp

Definition = TypeVar("Definition", covariant=True)


class UserFunctionName(str, Generic[Definition]):
    """Name of a user's function with a number that is unique in its database."""

    definition: Definition
    recipe: tuple[Callable[..., "UserFunctionName[Any]"], tuple[object, ...]] | None = None
    """Function and arguments that recreate it with its definition in another process.

    None if it cannot be recreated.
    """

    def __new__(cls, name: str, number: int) -> "UserFunctionName[Definition]":
        """Create the name; the caller sets the definition, which refers to it."""
        return super().__new__(cls, f"{name}#{number}")

    def __reduce__(self) -> Any:
        if self.recipe is None:
            raise TypeError(f"{display_name(self)} is computed by this process only")
        return self.recipe


def display_name(name: str) -> str:
    """Return a function's name as the user knows it."""
    return name.partition("#")[0]


@hash_once
@dataclass(frozen=True, slots=True)
class Column(CachedHash):
    """Column ``index`` of the input row."""

    index: int
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Literal(CachedHash):
    """Constant: its word, or the ``str`` itself for a text type, or None for NULL."""

    value: int | str | None
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Call(CachedHash):
    """A registered function (``runtime.functions``) applied to arguments of exactly its types."""

    function: str
    args: "tuple[Scalar, ...]"
    type: Type
    stored: str = field(default="", compare=False, repr=False)
    """Target column of this cast, for errors."""


@hash_once
@dataclass(frozen=True, slots=True)
class If(CachedHash):
    """``then`` where ``condition`` is true, ``otherwise`` where it is false or NULL.

    Errors in the branch that is not taken are ignored.
    """

    condition: "Scalar"
    then: "Scalar"
    otherwise: "Scalar"
    type: Type


@hash_once
@dataclass(frozen=True, slots=True)
class Fetch(CachedHash):
    """Column ``column`` of the row of ``table`` whose rowid is ``rowid`` (late materialization).

    Only in physical plans: base-table arrangements hold (key, rowid), and columns are read from the
    table's row store when a row has passed the joins and filters below.
    """

    table: str
    column: int
    rowid: "Scalar"
    type: Type


Scalar = Column | Literal | Call | If | Fetch


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """Return the direct subexpressions of a scalar, left to right."""
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
    """Return the scalar with its direct subexpressions replaced, in the order of :func:`children`."""
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
    """Yield the scalar and all its subexpressions, parents first."""
    stack = [scalar]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def transform(scalar: Scalar, rewrite: Callable[[Scalar], Scalar]) -> Scalar:
    """Rebuild the scalar bottom-up, with ``rewrite`` applied to every node after its children."""
    checkpoint()
    old = children(scalar)
    new = tuple(transform(child, rewrite) for child in old)
    return rewrite(scalar if all(map(is_, old, new)) else with_children(scalar, new))


def columns(scalar: Scalar) -> frozenset[int]:
    """Return the input columns that a scalar reads."""
    try:
        return scalar._columns
    except AttributeError:
        checkpoint()
        if isinstance(scalar, Column):
            known = frozenset((scalar.index,))
        else:
            known = frozenset([node.index for node in walk(scalar) if isinstance(node, Column)])
        object.__setattr__(scalar, "_columns", known)
        return known


def remap(scalar: Scalar, mapping: Callable[[int], int]) -> Scalar:
    """Return the scalar with every input column ``i`` renumbered to ``mapping(i)``."""

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
BRACKETS: Final = {"$array": ("ARRAY[", "]"), "$row": ("ROW(", ")"), "$element": ("element(", ")")}
KEYWORDS: Final = {"in": "IN", "cast": "CAST", "similar_to": "SIMILAR TO"}


DATALOG_NAMES: Final = {
    "$full_match": "match",
    "$quotient": "/",
    "$six_places": "to_string",
    "$whole_number": "to_number",
    "$wrap_power": "power",
}
"""Datalog names of internal functions; other internal functions lose only the mark ``$``."""


def function_text(name: str) -> str:
    """Return a function's name as in SQL: operators by symbol, ``extract_day`` as ``EXTRACT(DAY)``."""
    if name.startswith("extract_"):
        return f"EXTRACT({name.removeprefix('extract_').upper()})"
    for names in (INFIX, POSTFIX, PREFIX, KEYWORDS):
        if name in names:
            return names[name].strip()
    return display_name(name)


def column_number(column: Column) -> str:
    """Return a column of the input row as ``#0``."""
    return f"#{column.index}"


def fetch_number(fetch: Fetch) -> str:
    """Return a fetched column as ``table.#0``."""
    return f"{fetch.table}.#{fetch.column}"


def sql_text(
    scalar: Scalar,
    name: Callable[[Column], str] = column_number,
    fetch_name: Callable[[Fetch], str] = fetch_number,
) -> str:
    """Return the scalar as SQL-like text; ``name`` and ``fetch_name`` name its columns."""

    def inner(node: Scalar, text: str) -> str:
        compound = isinstance(node, Call) and (node.function in INFIX or node.function in PREFIX)
        return f"({text})" if compound else text

    match scalar:
        case Column():
            return name(scalar)
        case Fetch():
            return fetch_name(scalar)
        case Literal():
            return literal_text(scalar)
        case If(condition=condition, then=then, otherwise=otherwise):
            texts = [sql_text(part, name, fetch_name) for part in (condition, then, otherwise)]
            return f"CASE WHEN {texts[0]} THEN {texts[1]} ELSE {texts[2]} END"
        case Call(function="cast", args=(x,), type=type_):
            return f"CAST({sql_text(x, name, fetch_name)} AS {type_})"
        case Call(function="in", args=(first, *items)):
            start = inner(first, sql_text(first, name, fetch_name))
            return f"{start} IN ({', '.join(sql_text(item, name, fetch_name) for item in items)})"
        case Call(function=function, args=args):
            plain = [sql_text(arg, name, fetch_name) for arg in args]
            return _call_text(
                function, [inner(arg, text) for arg, text in zip(args, plain, strict=True)], plain
            )
        case _:
            assert_never(scalar)


def _call_text(function: str, inner: list[str], plain: list[str]) -> str:
    if (
        function in INFIX
        and len(inner) >= 2
        and (len(inner) == 2 or function in ("and", "or") or function[0] == "$")
    ):
        return f" {INFIX[function]} ".join(inner)
    if function in BRACKETS:
        return ", ".join(plain).join(BRACKETS[function])
    if function in POSTFIX:
        return f"{inner[0]} {POSTFIX[function]}"
    if function in PREFIX:
        return f"{PREFIX[function]}{inner[0]}"
    if function.startswith("extract_"):
        return f"EXTRACT({function.removeprefix('extract_').upper()} FROM {plain[0]})"
    name = DATALOG_NAMES.get(function, display_name(function).removeprefix("$"))
    return f"{name}({', '.join(plain)})"


def literal_text(literal: Literal) -> str:
    """Return a constant as SQL text."""
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return _string_text(value, type_)
    if value == ERROR:
        return "ERROR"
    match type_.kind:
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.DECIMAL:
            return f"{decimal.Decimal(value).scaleb(-type_.scale):f}"
        case Kind.REAL | Kind.DOUBLE:
            return repr(word_to_float(value))
        case Kind.TIMESTAMPTZ | Kind.TIME | Kind.ENUM | Kind.TID | Kind.EXTENSION:
            return f"'{codec_of(type_).show(value)}'::{type_}"
        case Kind.INTERVAL_MONTH:
            return f"INTERVAL '{value}' MONTH"
        case Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL_DAY:
            return _time_text(value, type_.kind)
        case _:
            return str(value)


def _string_text(value: str, type_: Type) -> str:
    """Return a constant of text, or of a type whose values are interned strings."""
    codec = codec_of(type_) if type_.is_interned and not type_.is_text else None
    text = value if codec is None else codec.show(codec.decode(value))
    literal = "'" + text.replace("'", "''") + "'"
    if type_.kind is Kind.NUMERIC:
        return text if text[0] in "-0123456789" else f"NUMERIC {literal}"
    return literal if codec is None else f"{literal}::{type_}"


def _time_text(value: int, kind: Kind) -> str:
    try:
        if kind is Kind.DATE:
            return f"DATE '{show_iso_date(value)}'"
        if kind is Kind.TIMESTAMP:
            return f"TIMESTAMP '{show_iso_timestamp(value)}'"
    except OverflowError:
        return f"{kind.value} {value}"
    return f"INTERVAL '{datetime.timedelta(microseconds=value)}'"
