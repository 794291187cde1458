"""SQL/JSON paths as trees (SQL:2016 part 2, 9.39): node classes, a recursive-descent parser, a printer.

:func:`parse` parses a text, and :func:`show` formats a tree like Postgres' type jsonpath.
``functions/json_path.py`` evaluates the trees.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, assert_never

from kpg.runtime.records import dataclass
from kpg.runtime.values import numeric
from kpg.runtime.values.jsons import quote_string, text_of


@dataclass(frozen=True, slots=True)
class Root:
    """``$``."""


@dataclass(frozen=True, slots=True)
class Current:
    """``@``: the current item of a filter."""


@dataclass(frozen=True, slots=True)
class Last:
    """``last``: the index of the last element."""


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """null, a truth value, a number or a string."""

    value: Any


@dataclass(frozen=True, slots=True)
class Member:
    """``.name``; ``.*`` where there is no name."""

    base: "Node"
    name: str | None


@dataclass(frozen=True, slots=True)
class Levels:
    """``.**{first to last}``: values at these depths; None is the deepest level."""

    base: "Node"
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Elements:
    """``[*]`` (None), or ``[1, 2 to last]``: the bounds of each range, the second None for a single index."""

    base: "Node"
    ranges: "tuple[tuple[Node, Node | None], ...] | None"


@dataclass(frozen=True, slots=True)
class Filter:
    """``? (condition)``."""

    base: "Node"
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Method:
    """``.size()`` and similar methods."""

    base: "Node"
    name: str


@dataclass(frozen=True, slots=True)
class UnarySign:
    """``-x`` or ``+x``."""

    sign: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - * / %``."""

    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``== != < <= > >=``, and ``starts with``."""

    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Logic:
    """``&&`` or ``||``."""

    sign: str
    left: "Condition"
    right: "Condition"


@dataclass(frozen=True, slots=True)
class Not:
    """``!(condition)``."""

    of: "Condition"


@dataclass(frozen=True, slots=True)
class Exists:
    """``exists(path)``."""

    of: "Node"


@dataclass(frozen=True, slots=True)
class IsUnknown:
    """``(condition) is unknown``."""

    of: "Condition"


@dataclass(frozen=True, slots=True)
class LikeRegex:
    """``x like_regex "pattern" flag "i"``."""

    of: "Node"
    pattern: str
    flags: str


CONDITIONS: Final = (Comparison, Logic, Not, Exists, IsUnknown, LikeRegex)
Condition = Comparison | Logic | Not | Exists | IsUnknown | LikeRegex
Value = (
    Root
    | Current
    | Last
    | Variable
    | Constant
    | Member
    | Levels
    | Elements
    | Filter
    | Method
    | UnarySign
    | Arithmetic
)
Node = Condition | Value


@dataclass(frozen=True, slots=True)
class Path:
    """A path. In ``strict`` mode a missing member or element is an error; otherwise arrays are unwrapped."""

    strict: bool
    node: Node


METHODS: Final = ("type", "size", "double", "ceiling", "floor", "abs", "keyvalue")
COMPARISONS: Final = ("==", "!=", "<>", "<=", ">=", "<", ">")
_TOKEN: Final = re.compile(
    r"""(?P<blank>(?:[ \t\r\n\f]|/\*.*?\*/)+)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+
        |(?:\d+(?:_\d+)*)?\.\d+(?:[eE][+-]?\d+)?|\d+(?:_\d+)*(?:\.(?![\w*"(])\d*)?(?:[eE][+-]?\d+)?))
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<variable>\$(?:"(?:[^"\\]|\\.)*"|[^\W\d][\w$]*))
    |(?P<word>(?:[^\W\d]|\\u|\\x)(?:\w|\\.|\$)*)
    |(?P<sign>\*\*|==|!=|<>|<=|>=|&&|\|\||[$@.\[\](){},*+\-/%<>!?])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@lru_cache(1024)
def parse(text: str) -> Path:
    """Parse a path.

    Raises:
        ValueError: The text is not a path.
    """
    return _Parser(text).path()


def _unescape(text: str) -> str:
    """Resolve the escapes of a string or name."""

    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:].strip("{}"), 16))
        return _CONTROLS.get(escape, escape)

    plain = _ESCAPE.sub(character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")


class _Parser:
    """A recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None or found.lastgroup is None:
                raise self._error(text[place])
            if found.lastgroup != "blank":
                self._tokens.append((found.lastgroup, found[0]))
            place = found.end()
        self._position = 0
        self._filters = 0
        self._subscripts = 0

    def path(self) -> Path:
        """Parse the whole text."""
        if not self._tokens:
            raise ValueError(f'invalid input syntax for type jsonpath: "{self._text}"')
        mode = self._accept_word("strict", "lax")
        node = self._disjunction()
        if self._position < len(self._tokens):
            raise self._error()
        return Path(mode == "strict", node)

    def _error(self, near: str | None = None) -> ValueError:
        if near is None and self._position >= len(self._tokens):
            return ValueError("syntax error at end of jsonpath input")
        near = self._tokens[self._position][1] if near is None else near
        return ValueError(f'syntax error at or near "{near}" of jsonpath input')

    def _accept_kind(self, kind: str) -> str | None:
        """Consume the next token and return its text if it has this kind."""
        if self._position < len(self._tokens) and self._tokens[self._position][0] == kind:
            self._position += 1
            return self._tokens[self._position - 1][1]
        return None

    def _accept_sign(self, *signs: str) -> str | None:
        return self._accept("sign", signs)

    def _accept_word(self, *words: str) -> str | None:
        return self._accept("word", words)

    def _accept(self, kind: str, texts: tuple[str, ...]) -> str | None:
        if self._position < len(self._tokens) and self._tokens[self._position] in {
            (kind, text) for text in texts
        }:
            self._position += 1
            return self._tokens[self._position - 1][1]
        return None

    def _expect(self, sign: str) -> None:
        if self._accept_sign(sign) is None:
            raise self._error()

    def _require_condition(self, node: Node) -> Condition:
        if not isinstance(node, CONDITIONS):
            raise self._error()
        return node

    def _disjunction(self) -> Node:
        left = self._conjunction()
        while self._accept_sign("||"):
            left = Logic("||", self._require_condition(left), self._require_condition(self._conjunction()))
        return left

    def _conjunction(self) -> Node:
        left = self._comparison()
        while self._accept_sign("&&"):
            left = Logic("&&", self._require_condition(left), self._require_condition(self._comparison()))
        return left

    def _comparison(self) -> Node:
        if self._accept_sign("!"):
            return Not(self._negation_operand())
        left = self._sum()
        if sign := self._accept_sign(*COMPARISONS):
            return Comparison("!=" if sign == "<>" else sign, left, self._sum())
        if self._accept_word("starts"):
            if not self._accept_word("with"):
                raise self._error()
            return Comparison("starts with", left, self._primary())
        if self._accept_word("like_regex"):
            return self._like_regex(left)
        return left

    def _negation_operand(self) -> Condition:
        if self._accept_word("exists"):
            return self._exists()
        self._expect("(")
        condition = self._require_condition(self._disjunction())
        self._expect(")")
        return condition

    def _exists(self) -> Condition:
        self._expect("(")
        node = self._disjunction()
        self._expect(")")
        return Exists(node)

    def _like_regex(self, left: Node) -> Node:
        pattern, flags = self._accept_kind("string"), None
        if pattern is None:
            raise self._error()
        if self._accept_word("flag"):
            flags = self._accept_kind("string")
            if flags is None:
                raise self._error()
        letters = "" if flags is None else _unescape(flags[1:-1])
        for letter in letters:
            if letter not in "ismxq":
                raise ValueError(f'unrecognized flag character "{letter}" in LIKE_REGEX predicate')
        return LikeRegex(left, _unescape(pattern[1:-1]), letters)

    def _sum(self) -> Node:
        left = self._product()
        while sign := self._accept_sign("+", "-"):
            left = Arithmetic(sign, left, self._product())
        return left

    def _product(self) -> Node:
        left = self._unary()
        while sign := self._accept_sign("*", "/", "%"):
            left = Arithmetic(sign, left, self._unary())
        return left

    def _unary(self) -> Node:
        if sign := self._accept_sign("+", "-"):
            return UnarySign(sign, self._unary())
        return self._accessors(self._primary())

    def _primary(self) -> Node:
        if (number := self._accept_kind("number")) is not None:
            return Constant(self._number(number))
        if (string := self._accept_kind("string")) is not None:
            return Constant(_unescape(string[1:-1]))
        if (variable := self._accept_kind("variable")) is not None:
            return Variable(_unescape(variable[2:-1] if variable[1] == '"' else variable[1:]))
        if self._accept_sign("$"):
            return Root()
        if self._accept_sign("@"):
            if not self._filters:
                raise ValueError("@ is not allowed in root expressions")
            return Current()
        if self._accept_sign("("):
            return self._group()
        match self._accept_word("null", "true", "false", "last", "exists"):
            case "null":
                return Constant(None)
            case "true" | "false" as word:
                return Constant(word == "true")
            case "last" if self._subscripts:
                return Last()
            case "last":
                raise ValueError("LAST is allowed only in array subscripts")
            case "exists":
                return self._exists()
        raise self._error()

    def _number(self, text: str) -> Decimal:
        if text[:2].lower() in ("0x", "0o", "0b"):
            return Decimal(int(text, 0))
        whole = text.partition(".")[0]
        if len(whole) > 1 and whole[0] == "0" and whole.isdigit():
            raise ValueError(f'trailing junk after numeric literal at or near "{text}" of jsonpath input')
        return numeric.parse(text.replace("_", ""))

    def _group(self) -> Node:
        node = self._disjunction()
        self._expect(")")
        if self._accept_word("is"):
            if not self._accept_word("unknown"):
                raise self._error()
            return IsUnknown(self._require_condition(node))
        return node

    def _accessors(self, base: Node) -> Node:
        while True:
            if self._accept_sign("."):
                base = self._dot_accessor(base)
            elif self._accept_sign("["):
                base = Elements(base, self._ranges())
            elif self._accept_sign("?"):
                self._expect("(")
                self._filters += 1
                base = Filter(base, self._require_condition(self._disjunction()))
                self._filters -= 1
                self._expect(")")
            else:
                return base

    def _dot_accessor(self, base: Node) -> Node:
        if self._accept_sign("**"):
            return self._levels(base)
        if self._accept_sign("*"):
            return Member(base, None)
        if (string := self._accept_kind("string")) is not None:
            return Member(base, _unescape(string[1:-1]))
        if (variable := self._accept_kind("variable")) is not None:
            return Member(base, variable)
        word = self._accept_kind("word")
        if word is None:
            raise self._error()
        name = _unescape(word)
        if self._accept_sign("("):
            if name not in METHODS:
                raise ValueError(f"the method .{name}() of jsonpath is not supported")
            self._expect(")")
            return Method(base, name)
        return Member(base, name)

    def _levels(self, base: Node) -> Node:
        if not self._accept_sign("{"):
            return Levels(base, 0, None)
        first = self._level()
        last = self._level() if self._accept_word("to") else first
        self._expect("}")
        return Levels(base, first, last)

    def _level(self) -> int | None:
        if self._accept_word("last"):
            return None
        number = self._accept_kind("number")
        if number is None or not number.isdigit():
            raise self._error()
        return int(number)

    def _ranges(self) -> "tuple[tuple[Node, Node | None], ...] | None":
        if self._accept_sign("*"):
            self._expect("]")
            return None
        self._subscripts += 1
        found: list[tuple[Node, Node | None]] = []
        while not found or self._accept_sign(","):
            first = self._sum()
            found.append((first, self._sum() if self._accept_word("to") else None))
        self._subscripts -= 1
        self._expect("]")
        return tuple(found)


PRECEDENCES: Final = {"||": 0, "&&": 1, "+": 3, "-": 3, "*": 4, "/": 4, "%": 4}
"""Precedence of binary operators. Comparisons have 2, unary signs 5, all else 6."""


def show(path: Path) -> str:
    """Format a path: ``strict $."a"[*]?(@ > 1)``."""
    return ("strict " if path.strict else "") + _parenthesize(path.node, _is_operation(path.node))


def _is_operation(node: Node) -> bool:
    return _precedence(node) < 6


def _precedence(node: Node) -> int:
    if isinstance(node, Logic | Arithmetic):
        return PRECEDENCES[node.sign]
    if isinstance(node, Comparison | LikeRegex):
        return 2
    return 5 if isinstance(node, UnarySign) else 6


def _parenthesize(node: Node, needs_parentheses: bool) -> str:
    text = _show_node(node)
    return f"({text})" if needs_parentheses else text


def _show_node(node: Node) -> str:
    match node:
        case Logic(sign, left, right) | Arithmetic(sign, left, right) | Comparison(sign, left, right):
            first, second = (
                _parenthesize(one, _precedence(one) <= _precedence(node)) for one in (left, right)
            )
            return f"{first} {sign} {second}"
        case LikeRegex(of, pattern, flags):
            flag = f' flag "{flags}"' if flags else ""
            return f"{_parenthesize(of, _precedence(of) <= 2)} like_regex {quote_string(pattern)}{flag}"
        case UnarySign(sign, of):
            return sign + _parenthesize(of, _precedence(of) <= 5)
        case Not(of):
            return f"!({_show_node(of)})"
        case Exists(of):
            return f"exists ({_show_node(of)})"
        case IsUnknown(of):
            return f"({_show_node(of)}) is unknown"
        case Constant(value):
            return text_of(value)
        case Root():
            return "$"
        case Current():
            return "@"
        case Last():
            return "last"
        case Variable(name):
            return f"${quote_string(name)}"
        case Member() | Levels() | Elements() | Filter() | Method():
            return _show_accessor(node)
        case _:
            assert_never(node)


def _show_accessor(node: Member | Levels | Elements | Filter | Method) -> str:
    match node:
        case Member(base, name):
            return f"{_show_base(base)}.{'*' if name is None else quote_string(name)}"
        case Levels(base, first, last):
            return f"{_show_base(base)}.**{_show_levels(first, last)}"
        case Elements(base, None):
            return f"{_show_base(base)}[*]"
        case Elements(base, ranges):
            assert ranges is not None
            return f"{_show_base(base)}[{','.join(map(_show_range, ranges))}]"
        case Filter(base, condition):
            return f"{_show_base(base)}?({_show_node(condition)})"
        case Method(base, name):
            return f"{_show_base(base)}.{name}()"
        case _:
            assert_never(node)


def _show_base(node: Node) -> str:
    return _parenthesize(node, _is_operation(node) or isinstance(node, Constant))


def _show_levels(first: int | None, last: int | None) -> str:
    if (first, last) == (0, None):
        return ""
    start, end = ("last" if one is None else str(one) for one in (first, last))
    return f"{{{start}}}" if start == end else f"{{{start} to {end}}}"


def _show_range(bounds: tuple[Node, Node | None]) -> str:
    first, last = bounds
    return _show_node(first) if last is None else f"{_show_node(first)} to {_show_node(last)}"
