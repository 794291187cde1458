"""Evaluation of SQL/JSON paths (SQL:2016 part 2, 9.39), and the functions and operators that use them.

A path gives a sequence of items. A condition is true, false, or None for unknown, for example where a number
is compared with a string.
"""

import decimal
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any, Final, assert_never

from kpg.runtime.functions import numerics
from kpg.runtime.functions.json_constructors import json_rule
from kpg.runtime.functions.regex import compile_posix
from kpg.runtime.functions.registry import Memoized, Overload, scalar
from kpg.runtime.functions.table_functions import Listing, RowOverload, RowRule, RowSignature, rows
from kpg.runtime.functions.type_rules import fixed
from kpg.runtime.records import dataclass
from kpg.runtime.types import BOOLEAN, JSONB, TEXT, Type
from kpg.runtime.values import numeric
from kpg.runtime.values.json_path import (
    Arithmetic,
    Comparison,
    Condition,
    Constant,
    Current,
    Elements,
    Exists,
    Filter,
    IsUnknown,
    Last,
    Levels,
    LikeRegex,
    Logic,
    Member,
    Method,
    Node,
    Not,
    Path,
    Root,
    Signed,
    Variable,
    parse,
    shown,
)
from kpg.runtime.values.jsons import Json, kind_of

Operation = Callable[[Decimal, Decimal], Decimal]
OPERATIONS: Final[dict[str, Operation]] = {
    "+": numerics.careful(numeric.EXACT.add),
    "-": numerics.careful(numeric.EXACT.subtract),
    "*": numerics.careful(numeric.EXACT.multiply),
    "/": numerics.divide,
    "%": numerics.remainder,
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What a part of a path is asked about."""

    strict: bool
    root: Any
    variables: dict[str, Any]
    current: Any = None
    last: int = -1

    def of(self, item: Any) -> "Scope":
        """The same, of an item within a filter."""
        return Scope(self.strict, self.root, self.variables, item, self.last)

    def within(self, count: int) -> "Scope":
        """The same, in the subscripts of an array."""
        return Scope(self.strict, self.root, self.variables, self.current, count - 1)


def found(path: Path, document: Any, variables: dict[str, Any]) -> Iterator[Any]:
    """The items that a path leads to, one after the other; ValueError for what it does not permit."""
    return _items(path.node, Scope(path.strict, document, variables))


def _items(node: Node, scope: Scope) -> Iterator[Any]:
    match node:
        case Root():
            yield scope.root
        case Current():
            yield scope.current
        case Last():
            yield Decimal(scope.last)
        case Constant(value):
            yield value
        case Variable(name):
            if name not in scope.variables:
                raise ValueError(f'could not find jsonpath variable "{name}"')
            yield scope.variables[name]
        case Signed() | Arithmetic():
            yield from _computed(node, scope)
        case Comparison() | Logic() | Not() | Exists() | IsUnknown() | LikeRegex():
            yield _holds(node, scope)
        case Member() | Levels() | Elements() | Filter() | Method():
            for item in _items(node.base, scope):
                yield from _reached(node, item, scope)
        case _:
            assert_never(node)


def _reached(node: Member | Levels | Elements | Filter | Method, item: Any, scope: Scope) -> Iterator[Any]:
    """What one step leads to from an item."""
    match node:
        case Member(_, name):
            for one in _unwrapped(item, scope):
                yield from _members(one, name, scope.strict)
        case Levels(_, first, last):
            yield from _nested(item, first, last)
        case Elements(_, ranges):
            yield from _elements(item, ranges, scope)
        case Filter(_, condition):
            for one in _unwrapped(item, scope):
                if _holds(condition, scope.of(one)):
                    yield one
        case Method(_, "type"):
            yield kind_of(item)
        case Method(_, "size"):
            if not isinstance(item, list) and scope.strict:
                raise ValueError("jsonpath item method .size() can only be applied to an array")
            yield Decimal(len(item) if isinstance(item, list) else 1)
        case Method(base, "keyvalue"):
            for one in _unwrapped(item, scope):
                yield from _pairs(one, base)
        case Method(_, name):
            for one in _unwrapped(item, scope):
                yield _number(one, name)
        case _:
            assert_never(node)


def _unwrapped(item: Any, scope: Scope) -> list[Any]:
    return item if isinstance(item, list) and not scope.strict else [item]


def _members(item: Any, name: str | None, strict: bool) -> Iterable[Any]:
    if isinstance(item, dict):
        if name is None:
            return item.values()
        if name in item:
            return [item[name]]
        if strict:
            raise ValueError(f'JSON object does not contain key "{name}"')
    elif strict:
        which = "wildcard member" if name is None else "member"
        raise ValueError(f"jsonpath {which} accessor can only be applied to an object")
    return []


def _nested(item: Any, first: int | None, last: int | None, level: int = 0) -> Iterator[Any]:
    """What is nested so deep, outer before inner; None is the depth of all that is no array and no object."""
    inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
    alone = not isinstance(item, (dict, list)) and level > 0 and last is None
    if (alone if first is None else level >= first) and (last is None or level <= last):
        yield item
    if last is None or level < last:
        for one in inner:
            yield from _nested(one, first, last, level + 1)


def _elements(item: Any, ranges: tuple[tuple[Node, Node | None], ...] | None, scope: Scope) -> Iterator[Any]:
    if not isinstance(item, list):
        if scope.strict:
            which = "wildcard array" if ranges is None else "array"
            raise ValueError(f"jsonpath {which} accessor can only be applied to an array")
        item = [item]
    if ranges is None:
        yield from item
        return
    inside = scope.within(len(item))
    for bounds in ranges:
        first = _subscript(bounds[0], inside)
        last = first if bounds[1] is None else _subscript(bounds[1], inside)
        if scope.strict and not 0 <= first <= last < len(item):
            raise ValueError("jsonpath array subscript is out of bounds")
        yield from item[max(first, 0) : max(last + 1, 0)]


def _subscript(node: Node, scope: Scope) -> int:
    items = list(_items(node, scope))
    if len(items) != 1 or not isinstance(items[0], Decimal):
        raise ValueError("jsonpath array subscript is not a single numeric value")
    number = int(items[0])
    if not -(2**31) <= number < 2**31:
        raise ValueError("jsonpath array subscript is out of integer range")
    return number


def _pairs(item: Any, base: Node) -> Iterator[Any]:
    if not isinstance(item, dict):
        raise ValueError("jsonpath item method .keyvalue() can only be applied to an object")
    if item and not isinstance(base, Root):
        raise ValueError("the method .keyvalue() of jsonpath is supported for $ only")
    for key, value in item.items():
        yield {"id": Decimal(0), "key": key, "value": value}


def _number(item: Any, name: str) -> Decimal:
    """The methods of numbers."""
    if name == "double" and isinstance(item, str):
        try:
            item = numeric.from_float(float(item))
        except ValueError:
            item = Decimal("NaN")
        if not item.is_finite():
            raise ValueError(
                "string argument of jsonpath item method .double() is not a valid representation of "
                "a double precision number"
            )
    if not isinstance(item, Decimal):
        what = "a string or numeric value" if name == "double" else "a numeric value"
        raise ValueError(f"jsonpath item method .{name}() can only be applied to {what}")
    match name:
        case "double":
            return numeric.checked(numeric.from_float(float(item)))
        case "ceiling":
            return item.to_integral_value(decimal.ROUND_CEILING)
        case "floor":
            return item.to_integral_value(decimal.ROUND_FLOOR)
        case _:
            return abs(item)


def _computed(node: Signed | Arithmetic, scope: Scope) -> Iterator[Decimal]:
    if isinstance(node, Signed):
        for item in _flat(node.of, scope):
            if not isinstance(item, Decimal):
                raise ValueError(f"operand of unary jsonpath operator {node.sign} is not a numeric value")
            yield -item if node.sign == "-" else item
        return
    sides = []
    for side, which in ((node.left, "left"), (node.right, "right")):
        items = list(_flat(side, scope))
        if len(items) != 1 or not isinstance(items[0], Decimal):
            raise ValueError(
                f"{which} operand of jsonpath operator {node.sign} is not a single numeric value"
            )
        sides.append(items[0])
    try:
        yield OPERATIONS[node.sign](sides[0], sides[1])
    except ZeroDivisionError:
        raise ValueError("division by zero") from None


def _flat(node: Node, scope: Scope) -> Iterator[Any]:
    """The items of an operand: the elements of arrays instead of these, where that is permitted."""
    for item in _items(node, scope):
        yield from _unwrapped(item, scope)


def _holds(node: Condition, scope: Scope) -> bool | None:
    match node:
        case Logic(sign, left, right):
            settled = sign == "||"  # by one side, whatever the other is
            first = _holds(left, scope)
            second = settled if first is settled else _holds(right, scope)
            return settled if second is settled else None if None in (first, second) else not settled
        case Not(of):
            held = _holds(of, scope)
            return None if held is None else not held
        case IsUnknown(of):
            return _holds(of, scope) is None
        case Exists(of):
            return _exists(of, scope)
        case Comparison("starts with", left, right):
            return _any(left, right, scope, _starts)
        case Comparison(sign, left, right):
            return _any(left, right, scope, lambda a, b: compared(sign, a, b))
        case LikeRegex(of, pattern, flags):
            search = compile_posix(pattern, _letters(flags)).search
            return _any(of, Constant(""), scope, lambda a, _: _matched(a, search))
        case _:
            assert_never(node)


def _exists(node: Node, scope: Scope) -> bool | None:
    try:
        items = _items(node, scope)
        return bool(list(items)) if scope.strict else any(True for _ in items)
    except ValueError:
        return None


def _any(left: Node, right: Node, scope: Scope, test: Callable[[Any, Any], bool | None]) -> bool | None:
    """Whether it is so for any two items; unknown as soon as it is for two, where the path is strict."""
    try:
        firsts, seconds = list(_flat(left, scope)), list(_flat(right, scope))
    except ValueError:
        return None
    told = set()
    for first, second in product(firsts, seconds):
        result = test(first, second)
        if result is (None if scope.strict else True):
            return result
        told.add(result)
    return True if True in told else None if None in told else False


def _letters(flags: str) -> str:
    """The options of Postgres' regular expressions for the flags of like_regex."""
    case = "i" if "i" in flags else ""
    if "x" in flags:
        raise ValueError('XQuery "x" flag (expanded regular expressions) is not implemented')
    if "q" in flags:
        return f"{case}q"
    lines = {(False, False): "p", (False, True): "n", (True, True): "w", (True, False): ""}
    return case + lines["s" in flags, "m" in flags]


def _matched(item: Any, search: Callable[[str], object]) -> bool | None:
    return search(item) is not None if isinstance(item, str) else None


def _starts(item: Any, beginning: Any) -> bool | None:
    both = isinstance(item, str) and isinstance(beginning, str)
    return item.startswith(beginning) if both else None


def compared(sign: str, left: Any, right: Any) -> bool | None:
    """How two items compare; unknown for those of different kinds, and for arrays and objects."""
    kinds = kind_of(left), kind_of(right)
    if "null" in kinds and kinds[0] != kinds[1]:
        return sign == "!="
    if kinds[0] != kinds[1] or kinds[0] in ("array", "object"):
        return None
    equal, less = left == right, left is not None and left < right
    match sign:
        case "==":
            return bool(equal)
        case "!=":
            return not equal
        case "<":
            return bool(less)
        case "<=":
            return bool(less or equal)
        case ">":
            return not (less or equal)
        case _:
            return not less


MORE: Final = ((), (JSONB,), (JSONB, BOOLEAN))
"""What may follow a document and a path: the path's variables, and whether errors are no errors."""


def items(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> list[Any] | None:
    """All that a path leads to; None for an error that is none."""
    read, given = parse(path), {} if variables is None else variables.value
    if not isinstance(given, dict):
        raise ValueError('"vars" argument is not an object')
    try:
        return list(found(read, document.value, given))
    except ValueError:
        if not silent:
            raise
        return None


def exists(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> bool | None:
    """Whether a path leads to anything."""
    read, given = parse(path), {} if variables is None else variables.value
    if read.strict or not isinstance(given, dict):
        every = items(document, path, variables, silent)
        return None if every is None else bool(every)
    try:
        return any(True for _ in found(read, document.value, given))
    except ValueError:
        if not silent:
            raise
        return None


def matches(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> bool | None:
    """The truth value that a path gives; None for unknown."""
    every = items(document, path, variables, silent)
    if every is not None and len(every) == 1 and (every[0] is None or isinstance(every[0], bool)):
        return every[0]
    if not silent:
        raise ValueError("single boolean result is expected")
    return None


def _gathered(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> Json:
    return Json(items(document, path, variables, silent) or [])


def _first(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> Json | None:
    every = items(document, path, variables, silent)
    return Json(every[0]) if every else None


def _silent(function: Callable[..., bool | None]) -> Memoized:
    return Memoized(lambda call: lambda document, path: function(document, path, None, True))


DOCUMENT: Final = "CAST('{\"a\": [1, 2]}' AS JSONB)"
_PLACES: Final = "JSONB and a path, optionally its variables as JSONB, and whether errors are no errors"
for _name, _result, _function, _doc, _example, _value in (
    ("jsonb_path_exists", BOOLEAN, exists, "Whether a path leads to anything.", "'$.a[*] ? (@ > 1)'", "TRUE"),
    ("jsonb_path_match", BOOLEAN, matches, "The truth value that a path gives.", "'$.a[0] > 1'", "FALSE"),
    ("jsonb_path_query_array", JSONB, _gathered, "All that a path leads to.", "'$.a[*]'", "'[1, 2]'"),
    ("jsonb_path_query_first", JSONB, _first, "The first that a path leads to.", "'$.a[last]'", "'2'"),
):
    _text = "" if _result is BOOLEAN else "::TEXT"
    scalar(
        _name,
        _PLACES,
        _doc,
        {f"{_name}({DOCUMENT}, {_example}){_text}": _value},
        *(
            Overload(
                json_rule(JSONB, TEXT, *more, result=_result),
                Memoized(lambda call, run=_function: run),  # type: ignore[misc]
            )
            for more in MORE
        ),
    )
for _name, _function, _doc, _example in (
    ("path_exists", exists, "Whether a path leads to anything, errors being none: @?.", "'$.a[5]'"),
    ("path_matches", matches, "The truth value that a path gives, errors being none: @@.", "'$.a[0] > 1'"),
):
    scalar(
        _name,
        "JSONB and a path",
        _doc,
        {f"{_name}({DOCUMENT}, {_example})": "FALSE"},
        Overload(json_rule(JSONB, TEXT, result=BOOLEAN), _silent(_function)),
    )
scalar(
    "jsonpath",
    "a text",
    "A path, as it is written with all its quotes: CAST(... AS jsonpath).",
    {"jsonpath('$.a?(@>1)')": "'$.\"a\"?(@ > 1)'"},
    Overload(fixed(TEXT, TEXT), Memoized(lambda call: lambda text: shown(parse(text)))),
)


def _takes_path(*more: Type) -> RowRule:
    rule = json_rule(JSONB, TEXT, *more)

    def signature(types: tuple[Type, ...]) -> RowSignature | None:
        fits = rule(types)
        return None if fits is None else RowSignature(fits.args, ("",), (JSONB,), nullable=False)

    return signature


def _listed(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> Iterator[tuple[Json]]:
    yield from ((Json(item),) for item in items(document, path, variables, silent) or ())


rows(
    "jsonb_path_query",
    _PLACES,
    "The items that a path leads to.",
    {f"jsonb_path_query({DOCUMENT}, '$.a[*]')": "('1'::jsonb), ('2'::jsonb)"},
    *(RowOverload(_takes_path(*more), Listing(lambda args, types: _listed)) for more in MORE),
)
