r"""Regular expressions of Postgres, SIMILAR TO and ECMAScript, translated to Python's ``re``.

The translation makes differences explicit. ``.`` matches newlines unless an option says otherwise, and
``$`` matches only at the very end. Classes such as ``[[:alpha:]]`` and escapes such as ``\m`` and
``\y`` are expanded.
Python takes the first alternative that matches. Postgres takes the longest match, or the shortest if
the first quantifier is lazy. Where the two can differ, :meth:`Regexp.search` searches for the right
match.

:class:`TimeLimitedPattern` limits the time of patterns with nested quantifiers, which could backtrack
exponentially.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from re import _parser
from typing import Any, Final

from kpg.runtime.records import dataclass

MATCH_TIMEOUT: Final = 1.0
"""Seconds after which a match is cancelled."""
MAX_BOUNDED_REPEAT: Final = 255
"""Repetitions beyond which a quantifier counts as unbounded."""


class TimeLimitedPattern:
    """A pattern with nested repetitions, whose matches are cancelled after ``MATCH_TIMEOUT``."""

    def __init__(self, text: str, flags: int) -> None:
        import regex  # lazy: the regex package takes 15 ms

        self._pattern = regex.compile(text, flags)

    def search(self, string: str, start: int = 0) -> re.Match[str] | None:
        """Search like ``re.Pattern.search``."""
        return self._match_with_timeout(self._pattern.search, string, start, len(string))

    def fullmatch(self, string: str, start: int, stop: int) -> re.Match[str] | None:
        """Match like ``re.Pattern.fullmatch``."""
        return self._match_with_timeout(self._pattern.fullmatch, string, start, stop)

    def _match_with_timeout(self, match: Any, string: str, start: int, stop: int) -> re.Match[str] | None:
        try:
            result: re.Match[str] | None = match(string, start, stop, timeout=MATCH_TIMEOUT)
        except TimeoutError:
            raise ValueError("regular expression is too complex") from None
        return result


def _has_nested_repeats(parts: Any) -> bool:
    """Check whether an unbounded repetition contains another, or alternatives."""
    return any(_is_nested_repeat(operator, operand, inside=False) for operator, operand in parts)


def _is_nested_repeat(operator: Any, operand: Any, *, inside: bool) -> bool:
    name = str(operator)
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        _, most, inner = operand
        if inside and most > 1:
            return True
        inside = inside or most > MAX_BOUNDED_REPEAT
        return any(_is_nested_repeat(*one, inside=inside) for one in inner)
    if name == "SUBPATTERN":
        return any(_is_nested_repeat(*one, inside=inside) for one in operand[3])
    if name == "BRANCH":
        return inside or any(_is_nested_repeat(*one, inside=inside) for way in operand[1] for one in way)
    return False


def compile_python(text: str, flags: int = re.NOFLAG) -> re.Pattern[str] | TimeLimitedPattern:
    """Compile a Python pattern, with a time limit if it has nested repetitions."""
    python = re.compile(text, flags)
    if ")" in text and _has_nested_repeats(_parser.parse(text, flags)):  # most patterns have no group
        return TimeLimitedPattern(text, flags)
    return python


CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "d": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "s": r"\s",
    "upper": "A-Z",
    "w": r"\w",
    "xdigit": "0-9A-Fa-f",
}
LITERAL_ESCAPE: Final = r"\\(?P<itself>[^\W\dBDSWbcdfnrstuvwx_])"
"""Escape of a letter that stands for itself. Python gives some of these a meaning."""
COUNT: Final = r"\{[0-9]+(?:,[0-9]*)?\}"
ECMASCRIPT_TOKEN: Final = re.compile(
    rf"\\c(?P<control>[A-Za-z])|\\0(?![0-9])|{LITERAL_ESCAPE}|\\.|(?P<open>\[\^?)|(?P<dot>\.)|(?P<end>\$)|\(\?(?:[:=!])"
    rf"|(?P<strange>\(\?)|(?P<greedy>(?:[*+?]|{COUNT})\+)|{COUNT}|(?P<brace>\{{)|.",
    re.DOTALL,
)
CLASS_TOKEN: Final = re.compile(
    r"\[:(?P<name>\w+):\]|\[\.(?P<element>.)\.\]|\[=(?P<equal>.)=\]"
    rf"|{LITERAL_ESCAPE}|\\.|(?P<end>\])|(?P<set>[\[&~|])|.",
    re.DOTALL,
)
EMPTY_CLASSES: Final = {"[": "(?!)", "[^": r"[\s\S]"}
"""Classes without members: no character, or any character."""


@lru_cache(maxsize=256)
def compile_ecmascript(pattern: str) -> re.Pattern[str]:
    """Compile an ECMAScript expression.

    Raises:
        ValueError: The expression is invalid.
    """
    try:
        return re.compile(translate_ecmascript(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def translate_ecmascript(pattern: str) -> str:
    """Translate an ECMAScript expression to Python's syntax.

    Raises:
        ValueError: The expression uses syntax of Python only, or a class has no end.
    """
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        token = ECMASCRIPT_TOKEN.match(pattern, position)
        assert token is not None
        position = token.end()
        if token["open"]:
            text, position = _translate_class(pattern, position)
            parts.append(EMPTY_CLASSES[token["open"]] if text == "]" else token["open"] + text)
        elif token["itself"]:
            parts.append(token["itself"])
        elif token["control"]:
            parts.append(f"\\x{ord(token['control']) % 32:02x}")
        elif token["dot"]:
            parts.append(r"[^\n\r\u2028\u2029]")
        elif token["end"]:
            parts.append(r"\Z")
        elif token["strange"] or token["greedy"]:
            raise ValueError(f"{token[0]} is not known at position {token.start()}")
        elif token["brace"]:
            raise ValueError(f"{{ begins no count at position {token.start()}")
        else:
            parts.append(token[0])
    return "".join(parts)


def _translate_class(pattern: str, place: int) -> tuple[str, int]:
    """Return a translated class including its closing bracket, and the position behind it."""
    parts: list[str] = []
    while place < len(pattern):
        found = CLASS_TOKEN.match(pattern, place)
        assert found is not None
        place = found.end()
        if found["name"]:
            if found["name"].lower() not in CLASSES:
                raise ValueError(f"there is no class {found['name']}")
            parts.append(CLASSES[found["name"].lower()])
        elif found["element"] or found["equal"]:
            parts.append(re.escape(found["element"] or found["equal"]))
        elif found["end"]:
            return "".join((*parts, "]")), place
        elif found["set"]:
            parts.append("\\" + found["set"])
        elif found["itself"]:
            parts.append(found["itself"])
        else:
            parts.append(found[0])
    raise ValueError("a class of characters does not end")


POSIX_CLASSES: Final = {
    "alpha": r"[^\W\d_]",
    "digit": r"\d",
    "alnum": r"[^\W_]",
    "space": r"\s",
    "blank": r"[ \t]",
    "cntrl": r"[\x00-\x1f\x7f]",
    "graph": r"[^\s\x00-\x1f\x7f]",
    "print": r"[^\x00-\x1f\x7f]",
    "xdigit": r"[0-9A-Fa-f]",
    "word": r"\w",
    "ascii": r"[\x00-\x7f]",
    "punct": r"[!-/:-@\[-`{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e\u3001-\u3003]",
}
SHORTHANDS: Final = {"d": r"\d", "s": r"\s", "w": r"\w"}
CONTROLS: Final = dict(zip("abBefnrtv", "\a\b\\\x1b\f\n\r\t\v", strict=True))
CONSTRAINT_ESCAPES: Final = {
    "A": r"\A",
    "Z": r"\Z",
    "m": r"\b(?=\w)",
    "M": r"\b(?<=\w)",
    "y": r"\b",
    "Y": r"\B",
}
OPTIONS: Final = frozenset("bceimnpqstwx")
QUANTIFIER: Final = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})(\?)?")
NOT_QUANTIFIABLE: Final = frozenset({"(", "|", "(?:", "(?=", "(?!", "(?<=", "(?<!"})
"""Tokens that a quantifier cannot follow."""
MAX_REPEAT: Final = 255
"""Largest number of repetitions, as in Postgres."""
MAX_LONGEST_MATCH_TEXT: Final = 2000
"""Characters of a text in which the longest match is searched for."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a regular expression, from the letters after it."""

    ignore_case: bool = False
    anchors_match_lines: bool = False
    """Whether ``^`` and ``$`` match at lines."""
    excludes_newline: bool = False
    """Whether ``.`` and ``[^...]`` exclude newlines."""
    literal: bool = False
    expanded: bool = False


def parse_options(letters: str, base: Options | None = None) -> Options:
    """Parse option letters.

    Raises:
        ValueError: A letter is not an option.
    """
    found = base or Options()
    case, lines, stops = found.ignore_case, found.anchors_match_lines, found.excludes_newline
    literal, expanded = found.literal, found.expanded
    for letter in letters:
        match letter:
            case "i" | "c":
                case = letter == "i"
            case "n" | "m":
                lines = stops = True
            case "p":
                lines, stops = False, True
            case "w":
                lines, stops = True, False
            case "s":
                lines = stops = False
            case "q":
                literal = True
            case "x" | "t":
                expanded = letter == "x"
            case "e" | "b":
                pass
            case _:
                raise ValueError(f'invalid regular expression option: "{letter}"')
    return Options(case, lines, stops, literal, expanded)


@dataclass(frozen=True, slots=True)
class Regexp:
    """A compiled regular expression of Postgres."""

    python: re.Pattern[str] | TimeLimitedPattern
    is_lazy: bool
    """Whether it prefers short matches."""
    is_ambiguous: bool
    """Whether Python may find another match at the same position than the preferred one."""

    def search(self, string: str, start: int = 0) -> re.Match[str] | None:
        """Return the first match from a position on: there the longest one, or the shortest if lazy."""
        found = self.python.search(string, start)
        if found is None or not self.is_ambiguous or len(string) > MAX_LONGEST_MATCH_TEXT:
            return found
        begin, end = found.span()
        for stop in range(begin, end) if self.is_lazy else range(len(string), end, -1):
            other = self.python.fullmatch(string, begin, stop)
            if other is not None:
                return other
        return found

    def matches(self, string: str, start: int = 0) -> Iterator[re.Match[str]]:
        """Yield all matches from a position on. No empty match is at the end of another match."""
        place = start
        while place <= len(string):
            found = self.search(string, place)
            if found is None:
                return
            yield found
            place = found.end() + (found.end() == found.start())


@lru_cache(maxsize=1024)
def compile_posix(pattern: str, letters: str = "") -> Regexp:
    """Compile an expression of Postgres with its option letters.

    Raises:
        ValueError: The expression or an option is invalid.
    """
    options = parse_options(letters)
    if pattern.startswith("***="):
        pattern, options = pattern[4:], parse_options("q", options)
    elif pattern.startswith("***:"):
        pattern = pattern[4:]
    embedded = re.match(r"\(\?([a-z]+)\)", pattern)
    if embedded and not options.literal:
        pattern, options = pattern[embedded.end() :], parse_options(embedded[1], options)
    flags = re.IGNORECASE if options.ignore_case else re.NOFLAG
    if options.literal:
        return Regexp(re.compile(re.escape(pattern), flags), False, False)
    translation = _Translation(pattern, options)
    text = translation.translate()
    try:
        python = compile_python(text, flags)
    except (re.error, OverflowError) as error:
        raise ValueError(f"invalid regular expression: {error}") from error
    return Regexp(python, translation.is_lazy, translation.is_ambiguous)


class _Translation:
    """Translation of one expression from Postgres' syntax to Python's."""

    def __init__(self, pattern: str, options: Options) -> None:
        self._pattern = pattern
        self._options = options
        self._position = 0
        self._open_groups = 0
        self.is_lazy = False
        self.is_ambiguous = False
        self._quantifiers = 0
        self._has_alternatives = False
        self._has_lookaround = False
        """Whether the text around a match matters, so that no substring can stand for the whole text."""

    def translate(self) -> str:
        """Translate the whole expression.

        Raises:
            ValueError: The expression is malformed.
        """
        parts: list[str] = []
        while self._position < len(self._pattern):
            parts += self._token(bool(parts) and parts[-1] not in NOT_QUANTIFIABLE)
        if self._open_groups:
            raise ValueError("invalid regular expression: parentheses () not balanced")
        self.is_ambiguous = (self.is_ambiguous or self._has_alternatives) and not self._has_lookaround
        return "".join(parts)

    def _token(self, has_operand: bool) -> list[str]:
        pattern, place = self._pattern, self._position
        character = pattern[place]
        if self._options.expanded and (character.isspace() or character == "#"):
            end = pattern.find("\n", place) if character == "#" else place
            self._position = len(pattern) if end < 0 else end + 1
            return []
        quantifier = QUANTIFIER.match(pattern, place)
        if quantifier:
            return [self._quantifier(quantifier, has_operand)]
        match character:
            case "\\":
                return [self._escape()]
            case "[":
                return [self._bracket_expression()]
            case "(":
                return [self._group()]
            case ")":
                self._position += 1
                self._open_groups -= 1
                if self._open_groups < 0:
                    raise ValueError("invalid regular expression: parentheses () not balanced")
                return [")"]
            case ".":
                self._position += 1
                return [r"[^\n]" if self._options.excludes_newline else r"(?s:.)"]
            case "^":
                self._position += 1
                return [r"(?m:^)" if self._options.anchors_match_lines else r"\A"]
            case "$":
                self._position += 1
                self._has_lookaround = True
                return [r"(?m:$)" if self._options.anchors_match_lines else r"\Z"]
            case "|":
                self._position += 1
                self._has_alternatives = True
                return ["|"]
            case _:
                self._position += 1
                return [re.escape(character)]

    def _quantifier(self, found: re.Match[str], has_operand: bool) -> str:
        if not has_operand:
            raise ValueError("invalid regular expression: quantifier operand invalid")
        self._position = found.end()
        if QUANTIFIER.match(self._pattern, self._position):
            raise ValueError("invalid regular expression: quantifier operand invalid")
        numbers = [int(number) for number in re.findall(r"\d+", found[1])]
        if any(number > MAX_REPEAT for number in numbers) or numbers != sorted(numbers):
            raise ValueError("invalid regular expression: invalid repetition count(s)")
        if not self._quantifiers and not (len(numbers) == 1 and "," not in found[1]):
            self.is_lazy = found[2] is not None
        self._quantifiers += 1
        self.is_ambiguous |= self.is_lazy or (self._quantifiers > 1 and found[1] not in ("*", "+"))
        return found[0]

    def _group(self) -> str:
        self._open_groups += 1
        found = re.compile(r"\(\?(?:[:=!]|<[=!])").match(self._pattern, self._position)
        if found:
            self._position = found.end()
            self._has_lookaround |= found[0] != "(?:"
            return found[0]
        if self._pattern.startswith("(?", self._position):
            raise ValueError("invalid regular expression: quantifier operand invalid")
        self._position += 1
        return "("

    def _escape(self) -> str:
        letter = self._pattern[self._position + 1 : self._position + 2]
        if not letter:
            raise ValueError("invalid regular expression: invalid escape \\ sequence")
        if letter in CONSTRAINT_ESCAPES:
            self._position += 2
            self._has_lookaround = True
            return CONSTRAINT_ESCAPES[letter]
        if letter.lower() in SHORTHANDS:
            self._position += 2
            return f"\\{letter}"
        if letter in "123456789":
            self._position += 2
            return rf"(?:\{letter})"
        return re.escape(self._escaped_character())

    def _escaped_character(self) -> str:
        """Return the character of an escape."""
        found = re.compile(
            r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]+)|(0[0-7]{0,2})|c(.)|(.))", re.DOTALL
        ).match(self._pattern, self._position)
        if found is None:
            raise ValueError("invalid regular expression: invalid escape \\ sequence")
        self._position = found.end()
        digits = found[1] or found[2] or found[3]
        if digits:
            return chr(int(digits, 16))
        if found[4]:
            return chr(int(found[4], 8))
        if found[5]:
            return chr(ord(found[5]) & 31)
        letter = found[6]
        if letter in CONTROLS:
            return CONTROLS[letter]
        if letter.isalnum():
            raise ValueError("invalid regular expression: invalid escape \\ sequence")
        return letter

    def _bracket_expression(self) -> str:
        """Translate a bracket expression to a Python class and alternatives for the rest."""
        if self._pattern.startswith(("[[:<:]]", "[[:>:]]"), self._position):
            start = self._pattern[self._position + 3] == "<"
            self._position += 7
            return CONSTRAINT_ESCAPES["m" if start else "M"]
        self._position += 1
        negated = self._pattern.startswith("^", self._position)
        self._position += negated
        plain: list[str] = []
        others: list[str] = []
        first = True
        while True:
            if self._position >= len(self._pattern):
                raise ValueError("invalid regular expression: brackets [] not balanced")
            if self._pattern[self._position] == "]" and not first:
                self._position += 1
                break
            first = False
            self._bracket_member(plain, others)
        if negated and self._options.excludes_newline:
            plain.append(r"\n")
        inside = "|".join(([f"[{''.join(plain)}]"] if plain else []) + others)
        if negated:
            return rf"(?:(?!{inside})(?s:.))"
        return inside if not others else f"(?:{inside})"

    def _bracket_member(self, plain: list[str], others: list[str]) -> None:
        found = re.compile(r"\[:(\w+):\]").match(self._pattern, self._position)
        if found:
            self._position = found.end()
            others.append(_posix_class(found[1], self._options.ignore_case))
            return
        shorthand = re.compile(r"\\([dswDSW])").match(self._pattern, self._position)
        if shorthand:
            self._position = shorthand.end()
            plain.append(shorthand[0])
            return
        low = self._bracket_character()
        if self._pattern.startswith("-", self._position) and not self._pattern.startswith(
            "-]", self._position
        ):
            self._position += 1
            high = self._bracket_character()
            if low > high:
                raise ValueError("invalid regular expression: invalid character range")
            plain.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            plain.append(re.escape(low) if low != "-" else r"\-")

    def _bracket_character(self) -> str:
        """Return one character of a bracket expression."""
        found = re.compile(r"\[([.=])(.)\1\]", re.DOTALL).match(self._pattern, self._position)
        if found:
            self._position = found.end()
            return found[2]
        if self._position >= len(self._pattern):
            raise ValueError("invalid regular expression: brackets [] not balanced")
        if self._pattern[self._position] == "\\":
            return self._escaped_character()
        self._position += 1
        return self._pattern[self._position - 1]


def _posix_class(name: str, ignore_case: bool) -> str:
    if name in ("upper", "lower"):
        if ignore_case:
            return POSIX_CLASSES["alpha"]
        return _letters_of_case(name)
    if name not in POSIX_CLASSES:
        raise ValueError("invalid regular expression: invalid character class")
    return POSIX_CLASSES[name]


@lru_cache(maxsize=2)
def _letters_of_case(name: str) -> str:
    """Return the letters of one case as a class of ranges."""
    test = str.isupper if name == "upper" else str.islower
    ranges: list[list[int]] = []
    for code in range(0x3000):
        if test(chr(code)):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "[" + "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in ranges) + "]"


@lru_cache(maxsize=256)
def compile_similar(pattern: str, escape: str = "\\") -> Regexp:
    """Compile a SIMILAR TO pattern to an expression that matches whole texts."""
    if len(escape) > 1:
        raise ValueError("invalid escape string")
    parts = _split_at_separators(pattern, escape)
    if len(parts) == 3:
        before, middle, after = (_translate_similar(part, escape) for part in parts)
        lazily = before.replace(".*", ".*?")
        return compile_posix(f"^(?:{lazily})({middle})(?:{after})$".replace("(?:)", ""))
    if len(parts) > 1:
        raise ValueError("more than two separators (escape and double quote) in the pattern")
    return compile_posix(f"^(?:{_translate_similar(pattern, escape)})$")


def _split_at_separators(pattern: str, escape: str) -> list[str]:
    """Split a pattern at its separators, an escape and a double quote."""
    if not escape:
        return [pattern]
    parts = [""]
    place = 0
    while place < len(pattern):
        if pattern[place] == escape and pattern[place + 1 : place + 2] == '"':
            parts.append("")
            place += 2
        else:
            step = 2 if pattern[place] == escape else 1
            parts[-1] += pattern[place : place + step]
            place += step
    return parts


def _translate_similar(pattern: str, escape: str) -> str:
    result: list[str] = []
    place, bracket = 0, False
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if escape and character == escape:
            if place >= len(pattern):
                result.append("\\\\" if escape == "\\" else re.escape(character))
                break
            following = pattern[place]
            place += 1
            result.append(f"\\{following}")
        elif bracket:
            result.append("\\\\" if character == "\\" else character)
            bracket = character != "]"
        elif character == "[":
            result.append(character)
            bracket = True
        else:
            known = {"%": ".*", "_": ".", "(": "(?:"}
            result.append(known.get(character) or (f"\\{character}" if character in ".^$\\" else character))
    return "".join(result)
