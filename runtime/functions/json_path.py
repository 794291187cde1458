"""Evaluation of SQL/JSON paths (SQL:2016 part 2, 9.39), and the functions and operators that use them.

A path returns a sequence of items. A condition is true, false, or None for unknown, for example when a
number is compared with a string.
"""

import decimal
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any, Final, assert_never

from kpg.runtime.functions import numerics
from kpg.runtime.functions.json_constructors import json_rule
from kpg.runtime.functions.regex import compile_posix
from kpg.runtime.functions.registry import MemoizedFunction, Overload, register_scalar
from kpg.runtime.functions.table_functions import (
    RowGenerator,
    RowOverload,
    RowRule,
    RowSignature,
    register_row_function,
)
from kpg.runtime.functions.type_rules import signature_rule
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
    UnarySign,
    Variable,
    parse,
    show,
)
from kpg.runtime.values.jsons import Json, kind_of

Operation = Callable[[Decimal, Decimal], Decimal]
OPERATIONS: Final[dict[str, Operation]] = {
    "+": numerics.checked_operation(numeric.EXACT.add),
    "-": numerics.checked_operation(numeric.EXACT.subtract),
    "*": numerics.checked_operation(numeric.EXACT.multiply),
    "/": numerics.divide,
    "%": numerics.remainder,
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Evaluation context of a part of a path."""

    strict: bool
    root: Any
    variables: dict[str, Any]
    current: Any = None
    last: int = -1

    def with_item(self, item: Any) -> "Scope":
        """Return the context of an item within a filter."""
        return Scope(self.strict, self.root, self.variables, item, self.last)

    def with_array(self, count: int) -> "Scope":
        """Return the context of a subscript of an array with ``count`` elements."""
        return Scope(self.strict, self.root, self.variables, self.current, count - 1)


def evaluate(path: Path, document: Any, variables: dict[str, Any]) -> Iterator[Any]:
    """Yield the items of a path, in order.

    Raises:
        ValueError: The path does not permit an access, for example in strict mode.
    """
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
        case UnarySign() | Arithmetic():
            yield from _calculate(node, scope)
        case Comparison() | Logic() | Not() | Exists() | IsUnknown() | LikeRegex():
            yield _test_condition(node, scope)
        case Member() | Levels() | Elements() | Filter() | Method():
            for item in _items(node.base, scope):
                yield from _apply_step(node, item, scope)
        case _:
            assert_never(node)


def _apply_step(node: Member | Levels | Elements | Filter | Method, item: Any, scope: Scope) -> Iterator[Any]:
    """Yield the items that one step selects from an item."""
    match node:
        case Member(_, name):
            for one in _unwrap(item, scope):
                yield from _members(one, name, scope.strict)
        case Levels(_, first, last):
            yield from _descend(item, first, last)
        case Elements(_, ranges):
            yield from _elements(item, ranges, scope)
        case Filter(_, condition):
            for one in _unwrap(item, scope):
                if _test_condition(condition, scope.with_item(one)):
                    yield one
        case Method(_, "type"):
            yield kind_of(item)
        case Method(_, "size"):
            if not isinstance(item, list) and scope.strict:
                raise ValueError("jsonpath item method .size() can only be applied to an array")
            yield Decimal(len(item) if isinstance(item, list) else 1)
        case Method(base, "keyvalue"):
            for one in _unwrap(item, scope):
                yield from _pairs(one, base)
        case Method(_, name):
            for one in _unwrap(item, scope):
                yield _apply_number_method(one, name)
        case _:
            assert_never(node)


def _unwrap(item: Any, scope: Scope) -> list[Any]:
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


def _descend(item: Any, first: int | None, last: int | None, level: int = 0) -> Iterator[Any]:
    """Yield the values at depths ``first`` to ``last``, outer before inner.

    None for ``first`` stands for the depth of the leaves, and for ``last`` for no limit.
    """
    inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
    alone = not isinstance(item, (dict, list)) and level > 0 and last is None
    if (alone if first is None else level >= first) and (last is None or level <= last):
        yield item
    if last is None or level < last:
        for one in inner:
            yield from _descend(one, first, last, level + 1)


def _elements(item: Any, ranges: tuple[tuple[Node, Node | None], ...] | None, scope: Scope) -> Iterator[Any]:
    if not isinstance(item, list):
        if scope.strict:
            which = "wildcard array" if ranges is None else "array"
            raise ValueError(f"jsonpath {which} accessor can only be applied to an array")
        item = [item]
    if ranges is None:
        yield from item
        return
    subscript_scope = scope.with_array(len(item))
    for bounds in ranges:
        first = _subscript(bounds[0], subscript_scope)
        last = first if bounds[1] is None else _subscript(bounds[1], subscript_scope)
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


def _apply_number_method(item: Any, name: str) -> Decimal:
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
        operand = "a string or numeric value" if name == "double" else "a numeric value"
        raise ValueError(f"jsonpath item method .{name}() can only be applied to {operand}")
    match name:
        case "double":
            return numeric.check_range(numeric.from_float(float(item)))
        case "ceiling":
            return item.to_integral_value(decimal.ROUND_CEILING)
        case "floor":
            return item.to_integral_value(decimal.ROUND_FLOOR)
        case _:
            return abs(item)


def _calculate(node: UnarySign | Arithmetic, scope: Scope) -> Iterator[Decimal]:
    if isinstance(node, UnarySign):
        for item in _unwrapped_items(node.operand, scope):
            if not isinstance(item, Decimal):
                raise ValueError(f"operand of unary jsonpath operator {node.sign} is not a numeric value")
            yield -item if node.sign == "-" else item
        return
    sides = []
    for side, which in ((node.left, "left"), (node.right, "right")):
        items = list(_unwrapped_items(side, scope))
        if len(items) != 1 or not isinstance(items[0], Decimal):
            raise ValueError(
                f"{which} operand of jsonpath operator {node.sign} is not a single numeric value"
            )
        sides.append(items[0])
    try:
        yield OPERATIONS[node.sign](sides[0], sides[1])
    except ZeroDivisionError:
        raise ValueError("division by zero") from None


def _unwrapped_items(node: Node, scope: Scope) -> Iterator[Any]:
    """Yield the items of an operand. In lax mode arrays are replaced by their elements."""
    for item in _items(node, scope):
        yield from _unwrap(item, scope)


def _test_condition(node: Condition, scope: Scope) -> bool | None:
    match node:
        case Logic(sign, left, right):
            decisive = sign == "||"  # the value of either side that decides
            first = _test_condition(left, scope)
            second = decisive if first is decisive else _test_condition(right, scope)
            return decisive if second is decisive else None if None in (first, second) else not decisive
        case Not(of):
            result = _test_condition(of, scope)
            return None if result is None else not result
        case IsUnknown(of):
            return _test_condition(of, scope) is None
        case Exists(of):
            return _test_exists(of, scope)
        case Comparison("starts with", left, right):
            return _test_any_pair(left, right, scope, _starts_with)
        case Comparison(sign, left, right):
            return _test_any_pair(left, right, scope, lambda a, b: compare_items(sign, a, b))
        case LikeRegex(of, pattern, flags):
            search = compile_posix(pattern, _regex_options(flags)).search
            return _test_any_pair(of, Constant(""), scope, lambda a, _: _matches_regex(a, search))
        case _:
            assert_never(node)


def _test_exists(node: Node, scope: Scope) -> bool | None:
    try:
        items = _items(node, scope)
        return bool(list(items)) if scope.strict else any(True for _ in items)
    except ValueError:
        return None


def _test_any_pair(
    left: Node, right: Node, scope: Scope, test: Callable[[Any, Any], bool | None]
) -> bool | None:
    """Check whether the test holds for any two items. In strict mode one unknown result makes it unknown."""
    try:
        firsts, seconds = list(_unwrapped_items(left, scope)), list(_unwrapped_items(right, scope))
    except ValueError:
        return None
    outcomes = set()
    for first, second in product(firsts, seconds):
        result = test(first, second)
        if result is (None if scope.strict else True):
            return result
        outcomes.add(result)
    return True if True in outcomes else None if None in outcomes else False


def _regex_options(flags: str) -> str:
    """Return Postgres' regular expression options for the flags of ``like_regex``."""
    case = "i" if "i" in flags else ""
    if "x" in flags:
        raise ValueError('XQuery "x" flag (expanded regular expressions) is not implemented')
    if "q" in flags:
        return f"{case}q"
    newline_options = {(False, False): "p", (False, True): "n", (True, True): "w", (True, False): ""}
    return case + newline_options["s" in flags, "m" in flags]


def _matches_regex(item: Any, search: Callable[[str], object]) -> bool | None:
    return search(item) is not None if isinstance(item, str) else None


def _starts_with(item: Any, prefix: Any) -> bool | None:
    both = isinstance(item, str) and isinstance(prefix, str)
    return item.startswith(prefix) if both else None


def compare_items(sign: str, left: Any, right: Any) -> bool | None:
    """Compare two items. Different kinds, arrays and objects give unknown."""
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


OPTIONAL_ARGUMENTS: Final = ((), (JSONB,), (JSONB, BOOLEAN))
"""Arguments that may follow a document and a path: the path's variables, and whether to ignore errors."""


def query_items(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> list[Any] | None:
    """Return all items of a path, or None for an ignored error."""
    parsed, values = parse(path), {} if variables is None else variables.value
    if not isinstance(values, dict):
        raise ValueError('"vars" argument is not an object')
    try:
        return list(evaluate(parsed, document.value, values))
    except ValueError:
        if not silent:
            raise
        return None


def path_exists(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> bool | None:
    """Check whether a path returns an item."""
    parsed, values = parse(path), {} if variables is None else variables.value
    if parsed.strict or not isinstance(values, dict):
        found_items = query_items(document, path, variables, silent)
        return None if found_items is None else bool(found_items)
    try:
        return any(True for _ in evaluate(parsed, document.value, values))
    except ValueError:
        if not silent:
            raise
        return None


def path_matches(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> bool | None:
    """Return the truth value of a path, or None for unknown."""
    found_items = query_items(document, path, variables, silent)
    if (
        found_items is not None
        and len(found_items) == 1
        and (found_items[0] is None or isinstance(found_items[0], bool))
    ):
        return found_items[0]
    if not silent:
        raise ValueError("single boolean result is expected")
    return None


def _query_array(document: Json, path: str, variables: Json | None = None, silent: bool = False) -> Json:
    return Json(query_items(document, path, variables, silent) or [])


def _query_first(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> Json | None:
    found_items = query_items(document, path, variables, silent)
    return Json(found_items[0]) if found_items else None


def _silent(function: Callable[..., bool | None]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: lambda document, path: function(document, path, None, True))


DOCUMENT: Final = "CAST('{\"a\": [1, 2]}' AS JSONB)"
_ACCEPTS: Final = "JSONB and a path, optionally its variables as JSONB, and whether errors are no errors"
for _name, _result, _function, _doc, _example, _value in (
    (
        "jsonb_path_exists",
        BOOLEAN,
        path_exists,
        "Whether a path leads to anything.",
        "'$.a[*] ? (@ > 1)'",
        "TRUE",
    ),
    (
        "jsonb_path_match",
        BOOLEAN,
        path_matches,
        "The truth value that a path gives.",
        "'$.a[0] > 1'",
        "FALSE",
    ),
    ("jsonb_path_query_array", JSONB, _query_array, "All that a path leads to.", "'$.a[*]'", "'[1, 2]'"),
    ("jsonb_path_query_first", JSONB, _query_first, "The first that a path leads to.", "'$.a[last]'", "'2'"),
):
    _text = "" if _result is BOOLEAN else "::TEXT"
    register_scalar(
        _name,
        _ACCEPTS,
        _doc,
        {f"{_name}({DOCUMENT}, {_example}){_text}": _value},
        *(
            Overload(
                json_rule(JSONB, TEXT, *more, result=_result),
                MemoizedFunction(lambda call, run=_function: run),  # type: ignore[misc]
            )
            for more in OPTIONAL_ARGUMENTS
        ),
    )
for _name, _function, _doc, _example in (
    ("path_exists", path_exists, "Whether a path leads to anything, errors being none: @?.", "'$.a[5]'"),
    (
        "path_matches",
        path_matches,
        "The truth value that a path gives, errors being none: @@.",
        "'$.a[0] > 1'",
    ),
):
    register_scalar(
        _name,
        "JSONB and a path",
        _doc,
        {f"{_name}({DOCUMENT}, {_example})": "FALSE"},
        Overload(json_rule(JSONB, TEXT, result=BOOLEAN), _silent(_function)),
    )
register_scalar(
    "jsonpath",
    "a text",
    "A path, as it is written with all its quotes: CAST(... AS jsonpath).",
    {"jsonpath('$.a?(@>1)')": "'$.\"a\"?(@ > 1)'"},
    Overload(signature_rule(TEXT, TEXT), MemoizedFunction(lambda call: lambda text: show(parse(text)))),
)


def _path_row_rule(*more: Type) -> RowRule:
    rule = json_rule(JSONB, TEXT, *more)

    def signature(types: tuple[Type, ...]) -> RowSignature | None:
        fits = rule(types)
        return None if fits is None else RowSignature(fits.args, ("",), (JSONB,), nullable=False)

    return signature


def _query_rows(
    document: Json, path: str, variables: Json | None = None, silent: bool = False
) -> Iterator[tuple[Json]]:
    yield from ((Json(item),) for item in query_items(document, path, variables, silent) or ())


register_row_function(
    "jsonb_path_query",
    _ACCEPTS,
    "The items that a path leads to.",
    {f"jsonb_path_query({DOCUMENT}, '$.a[*]')": "('1'::jsonb), ('2'::jsonb)"},
    *(
        RowOverload(_path_row_rule(*more), RowGenerator(lambda args, types: _query_rows))
        for more in OPTIONAL_ARGUMENTS
    ),
)
