"""SQL/JSON paths as trees (SQL:2016 part 2, 9.39): node classes, a recursive-descent parser, a printer.

:func:`parse` reads a text; :func:`shown` writes Postgres' form of the type jsonpath.
``functions/json_path.py`` evaluates the trees.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, assert_never

from kpg.runtime.records import dataclass
from kpg.runtime.values import numeric
from kpg.runtime.values.jsons import quoted, text_of


@dataclass(frozen=True, slots=True)
class Root:
    """``$``."""


@dataclass(frozen=True, slots=True)
class Current:
    """``@``: the item that a filter asks about."""


@dataclass(frozen=True, slots=True)
class Last:
    """``last``: the number of the last element."""


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
    """``.**{first to last}``: what is nested so deep; None is the deepest level."""

    base: "Node"
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Elements:
    """``[*]``, or ``[1, 2 to last]``: the first and the last of each range, None for one alone."""

    base: "Node"
    ranges: "tuple[tuple[Node, Node | None], ...] | None"


@dataclass(frozen=True, slots=True)
class Filter:
    """``? (condition)``."""

    base: "Node"
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Method:
    """``.size()`` and its like."""

    base: "Node"
    name: str


@dataclass(frozen=True, slots=True)
class Signed:
    """``-x`` or ``+x``."""

    sign: str
    of: "Node"


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
    | Signed
    | Arithmetic
)
Node = Condition | Value


@dataclass(frozen=True, slots=True)
class Path:
    """A path. ``strict``: what the document lacks is an error; else arrays are unwrapped where it helps."""

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
    """The tree of a path; ValueError if the text is none."""
    return _Parser(text).path()


def _plain(text: str) -> str:
    """The characters of a string or a name that has escapes in it."""

    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:].strip("{}"), 16))
        return _CONTROLS.get(escape, escape)

    plain = _ESCAPE.sub(character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")


class _Parser:
    """Reads a text from its beginning to its end, by recursive descent."""

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
        self._place = 0
        self._filters = 0
        self._subscripts = 0

    def path(self) -> Path:
        """All of the text."""
        if not self._tokens:
            raise ValueError(f'invalid input syntax for type jsonpath: "{self._text}"')
        mode = self._word("strict", "lax")
        node = self._either()
        if self._place < len(self._tokens):
            raise self._error()
        return Path(mode == "strict", node)

    def _error(self, near: str | None = None) -> ValueError:
        if near is None and self._place >= len(self._tokens):
            return ValueError("syntax error at end of jsonpath input")
        near = self._tokens[self._place][1] if near is None else near
        return ValueError(f'syntax error at or near "{near}" of jsonpath input')

    def _next(self, kind: str) -> str | None:
        """The text of the next token if it is of a kind, which is then read."""
        if self._place < len(self._tokens) and self._tokens[self._place][0] == kind:
            self._place += 1
            return self._tokens[self._place - 1][1]
        return None

    def _sign(self, *signs: str) -> str | None:
        return self._one("sign", signs)

    def _word(self, *words: str) -> str | None:
        return self._one("word", words)

    def _one(self, kind: str, texts: tuple[str, ...]) -> str | None:
        if self._place < len(self._tokens) and self._tokens[self._place] in {(kind, text) for text in texts}:
            self._place += 1
            return self._tokens[self._place - 1][1]
        return None

    def _expect(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise self._error()

    def _condition(self, node: Node) -> Condition:
        if not isinstance(node, CONDITIONS):
            raise self._error()
        return node

    def _either(self) -> Node:
        left = self._both()
        while self._sign("||"):
            left = Logic("||", self._condition(left), self._condition(self._both()))
        return left

    def _both(self) -> Node:
        left = self._compared()
        while self._sign("&&"):
            left = Logic("&&", self._condition(left), self._condition(self._compared()))
        return left

    def _compared(self) -> Node:
        if self._sign("!"):
            return Not(self._negated())
        left = self._sum()
        if sign := self._sign(*COMPARISONS):
            return Comparison("!=" if sign == "<>" else sign, left, self._sum())
        if self._word("starts"):
            if not self._word("with"):
                raise self._error()
            return Comparison("starts with", left, self._primary())
        if self._word("like_regex"):
            return self._regex(left)
        return left

    def _negated(self) -> Condition:
        if self._word("exists"):
            return self._exists()
        self._expect("(")
        condition = self._condition(self._either())
        self._expect(")")
        return condition

    def _exists(self) -> Condition:
        self._expect("(")
        node = self._either()
        self._expect(")")
        return Exists(node)

    def _regex(self, left: Node) -> Node:
        pattern, flags = self._next("string"), None
        if pattern is None:
            raise self._error()
        if self._word("flag"):
            flags = self._next("string")
            if flags is None:
                raise self._error()
        letters = "" if flags is None else _plain(flags[1:-1])
        for letter in letters:
            if letter not in "ismxq":
                raise ValueError(f'unrecognized flag character "{letter}" in LIKE_REGEX predicate')
        return LikeRegex(left, _plain(pattern[1:-1]), letters)

    def _sum(self) -> Node:
        left = self._product()
        while sign := self._sign("+", "-"):
            left = Arithmetic(sign, left, self._product())
        return left

    def _product(self) -> Node:
        left = self._signed()
        while sign := self._sign("*", "/", "%"):
            left = Arithmetic(sign, left, self._signed())
        return left

    def _signed(self) -> Node:
        if sign := self._sign("+", "-"):
            return Signed(sign, self._signed())
        return self._accessed(self._primary())

    def _primary(self) -> Node:
        if (number := self._next("number")) is not None:
            return Constant(self._number(number))
        if (string := self._next("string")) is not None:
            return Constant(_plain(string[1:-1]))
        if (variable := self._next("variable")) is not None:
            return Variable(_plain(variable[2:-1] if variable[1] == '"' else variable[1:]))
        if self._sign("$"):
            return Root()
        if self._sign("@"):
            if not self._filters:
                raise ValueError("@ is not allowed in root expressions")
            return Current()
        if self._sign("("):
            return self._parenthesised()
        match self._word("null", "true", "false", "last", "exists"):
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

    def _parenthesised(self) -> Node:
        node = self._either()
        self._expect(")")
        if self._word("is"):
            if not self._word("unknown"):
                raise self._error()
            return IsUnknown(self._condition(node))
        return node

    def _accessed(self, base: Node) -> Node:
        while True:
            if self._sign("."):
                base = self._after_dot(base)
            elif self._sign("["):
                base = Elements(base, self._ranges())
            elif self._sign("?"):
                self._expect("(")
                self._filters += 1
                base = Filter(base, self._condition(self._either()))
                self._filters -= 1
                self._expect(")")
            else:
                return base

    def _after_dot(self, base: Node) -> Node:
        if self._sign("**"):
            return self._levels(base)
        if self._sign("*"):
            return Member(base, None)
        if (string := self._next("string")) is not None:
            return Member(base, _plain(string[1:-1]))
        if (variable := self._next("variable")) is not None:
            return Member(base, variable)
        word = self._next("word")
        if word is None:
            raise self._error()
        name = _plain(word)
        if self._sign("("):
            if name not in METHODS:
                raise ValueError(f"the method .{name}() of jsonpath is not supported")
            self._expect(")")
            return Method(base, name)
        return Member(base, name)

    def _levels(self, base: Node) -> Node:
        if not self._sign("{"):
            return Levels(base, 0, None)
        first = self._level()
        last = self._level() if self._word("to") else first
        self._expect("}")
        return Levels(base, first, last)

    def _level(self) -> int | None:
        if self._word("last"):
            return None
        number = self._next("number")
        if number is None or not number.isdigit():
            raise self._error()
        return int(number)

    def _ranges(self) -> "tuple[tuple[Node, Node | None], ...] | None":
        if self._sign("*"):
            self._expect("]")
            return None
        self._subscripts += 1
        found: list[tuple[Node, Node | None]] = []
        while not found or self._sign(","):
            first = self._sum()
            found.append((first, self._sum() if self._word("to") else None))
        self._subscripts -= 1
        self._expect("]")
        return tuple(found)


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
