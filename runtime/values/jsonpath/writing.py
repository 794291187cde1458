"""Writing SQL/JSON paths as Postgres shows a value of the type jsonpath."""

from typing import Final, assert_never

from kpg.runtime.values.jsonpath.tree import (
    Arithmetic,
    Comparison,
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
)
from kpg.runtime.values.jsons import quoted, text_of

STRENGTHS: Final = {"||": 0, "&&": 1, "+": 3, "-": 3, "*": 4, "/": 4, "%": 4}
"""How tightly an operator binds; comparisons are 2, signs 5, all else 6."""


def shown(path: Path) -> str:
    """The text of a path: ``strict $."a"[*]?(@ > 1)``."""
    return ("strict " if path.strict else "") + _bracketed(path.node, _is_operation(path.node))


def _is_operation(node: Node) -> bool:
    return _strength(node) < 6


def _strength(node: Node) -> int:
    if isinstance(node, Logic | Arithmetic):
        return STRENGTHS[node.sign]
    if isinstance(node, Comparison | LikeRegex):
        return 2
    return 5 if isinstance(node, Signed) else 6


def _bracketed(node: Node, brackets: bool) -> str:
    text = _text(node)
    return f"({text})" if brackets else text


def _text(node: Node) -> str:
    match node:
        case Logic(sign, left, right) | Arithmetic(sign, left, right) | Comparison(sign, left, right):
            first, second = (_bracketed(one, _strength(one) <= _strength(node)) for one in (left, right))
            return f"{first} {sign} {second}"
        case LikeRegex(of, pattern, flags):
            flag = f' flag "{flags}"' if flags else ""
            return f"{_bracketed(of, _strength(of) <= 2)} like_regex {quoted(pattern)}{flag}"
        case Signed(sign, of):
            return sign + _bracketed(of, _strength(of) <= 5)
        case Not(of):
            return f"!({_text(of)})"
        case Exists(of):
            return f"exists ({_text(of)})"
        case IsUnknown(of):
            return f"({_text(of)}) is unknown"
        case Constant(value):
            return text_of(value)
        case Root():
            return "$"
        case Current():
            return "@"
        case Last():
            return "last"
        case Variable(name):
            return f"${quoted(name)}"
        case Member() | Levels() | Elements() | Filter() | Method():
            return _accessed(node)
        case _:
            assert_never(node)


def _accessed(node: Member | Levels | Elements | Filter | Method) -> str:
    match node:
        case Member(base, name):
            return f"{_base(base)}.{'*' if name is None else quoted(name)}"
        case Levels(base, first, last):
            return f"{_base(base)}.**{_levels(first, last)}"
        case Elements(base, None):
            return f"{_base(base)}[*]"
        case Elements(base, ranges):
            assert ranges is not None
            return f"{_base(base)}[{','.join(map(_range, ranges))}]"
        case Filter(base, condition):
            return f"{_base(base)}?({_text(condition)})"
        case Method(base, name):
            return f"{_base(base)}.{name}()"
        case _:
            assert_never(node)


def _base(node: Node) -> str:
    return _bracketed(node, _is_operation(node) or isinstance(node, Constant))


def _levels(first: int | None, last: int | None) -> str:
    if (first, last) == (0, None):
        return ""
    start, end = ("last" if one is None else str(one) for one in (first, last))
    return f"{{{start}}}" if start == end else f"{{{start} to {end}}}"


def _range(bounds: tuple[Node, Node | None]) -> str:
    first, last = bounds
    return _text(first) if last is None else f"{_text(first)} to {_text(last)}"
