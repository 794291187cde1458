r"""Regular expressions of Postgres, SIMILAR TO and ECMAScript, translated to Python's ``re``.

The translation makes the differences explicit: ``.`` matches newlines unless an option says otherwise, ``$``
matches only at the very end, and classes such as ``[[:alpha:]]`` and escapes such as ``\m`` and ``\y`` are
spelled out. Python takes the first alternative that matches; Postgres takes the longest match, or the
shortest if the first quantifier is lazy. Where the two can differ, :meth:`Regexp.search` looks for the right
one.

:class:`Bounded` limits the time of patterns with nested quantifiers, which could backtrack exponentially.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from re import _parser
from typing import Any, Final

from kpg.runtime.records import dataclass

LONGEST_TRY: Final = 1.0
"""Seconds after which a match is given up."""
MANY: Final = 255
"""Repetitions beyond which there are as good as any number of them."""


class Bounded:
    """A pattern in which repetitions are nested: it is given up, and not tried in ever more ways."""

    def __init__(self, text: str, flags: int) -> None:
        import regex  # lazy: the regex package takes 15 ms

        self._pattern = regex.compile(text, flags)

    def search(self, string: str, start: int = 0) -> re.Match[str] | None:
        """As of Python's patterns."""
        return self._bounded(self._pattern.search, string, start, len(string))

    def fullmatch(self, string: str, start: int, stop: int) -> re.Match[str] | None:
        """As of Python's patterns."""
        return self._bounded(self._pattern.fullmatch, string, start, stop)

    def _bounded(self, match: Any, string: str, start: int, stop: int) -> re.Match[str] | None:
        try:
            found: re.Match[str] | None = match(string, start, stop, timeout=LONGEST_TRY)
        except TimeoutError:
            raise ValueError("regular expression is too complex") from None
        return found


def _nests(parts: Any) -> bool:
    """Whether a repetition without an end has another, or alternatives, in it."""
    return any(_repeats(operator, operand, inside=False) for operator, operand in parts)


def _repeats(operator: Any, operand: Any, *, inside: bool) -> bool:
    name = str(operator)
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        _, most, inner = operand
        if inside and most > 1:
            return True
        inside = inside or most > MANY
        return any(_repeats(*one, inside=inside) for one in inner)
    if name == "SUBPATTERN":
        return any(_repeats(*one, inside=inside) for one in operand[3])
    if name == "BRANCH":
        return inside or any(_repeats(*one, inside=inside) for way in operand[1] for one in way)
    return False


def compiled_python(text: str, flags: int = re.NOFLAG) -> re.Pattern[str] | Bounded:
    """A pattern of Python's, made so that matching ends."""
    python = re.compile(text, flags)
    if ")" in text and _nests(_parser.parse(text, flags)):  # which most have not
        return Bounded(text, flags)
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
ITSELF: Final = r"\\(?P<itself>[^\W\dBDSWbcdfnrstuvwx_])"
"""A letter that stands for itself after a backslash: Python gives some of them a meaning."""
COUNT: Final = r"\{[0-9]+(?:,[0-9]*)?\}"
PART: Final = re.compile(
    rf"\\c(?P<control>[A-Za-z])|\\0(?![0-9])|{ITSELF}|\\.|(?P<open>\[\^?)|(?P<dot>\.)|(?P<end>\$)|\(\?(?:[:=!])"
    rf"|(?P<strange>\(\?)|(?P<greedy>(?:[*+?]|{COUNT})\+)|{COUNT}|(?P<brace>\{{)|.",
    re.DOTALL,
)
INSIDE: Final = re.compile(
    r"\[:(?P<name>\w+):\]|\[\.(?P<element>.)\.\]|\[=(?P<equal>.)=\]"
    rf"|{ITSELF}|\\.|(?P<end>\])|(?P<set>[\[&~|])|.",
    re.DOTALL,
)
EMPTY: Final = {"[": "(?!)", "[^": r"[\s\S]"}
"""A class without members: no character, or any."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression, ready to match; ValueError if it is none."""
    try:
        return re.compile(translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def translated(pattern: str) -> str:
    """The expression as Python writes it. ValueError for what only Python knows, or a class without end."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        found = PART.match(pattern, place)
        assert found is not None
        place = found.end()
        if found["open"]:
            text, place = _class(pattern, place)
            parts.append(EMPTY[found["open"]] if text == "]" else found["open"] + text)
        elif found["itself"]:
            parts.append(found["itself"])
        elif found["control"]:
            parts.append(f"\\x{ord(found['control']) % 32:02x}")
        elif found["dot"]:
            parts.append(r"[^\n\r\u2028\u2029]")
        elif found["end"]:
            parts.append(r"\Z")
        elif found["strange"] or found["greedy"]:
            raise ValueError(f"{found[0]} is not known at position {found.start()}")
        elif found["brace"]:
            raise ValueError(f"{{ begins no count at position {found.start()}")
        else:
            parts.append(found[0])
    return "".join(parts)


def _class(pattern: str, place: int) -> tuple[str, int]:
    """What stands in brackets from a place on, with the bracket that ends it, and the place behind that."""
    parts: list[str] = []
    while place < len(pattern):
        found = INSIDE.match(pattern, place)
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
PLACES: Final = {
    "A": r"\A",
    "Z": r"\Z",
    "m": r"\b(?=\w)",
    "M": r"\b(?<=\w)",
    "y": r"\b",
    "Y": r"\B",
}
OPTIONS: Final = frozenset("bceimnpqstwx")
QUANTIFIER: Final = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})(\?)?")
OPENING: Final = frozenset({"(", "|", "(?:", "(?=", "(?!", "(?<=", "(?<!"})
"""What a quantifier cannot follow."""
WIDEST: Final = 255
"""The largest number of repetitions."""
LONGEST_SEARCH: Final = 2000
"""Characters of a text in which the longest match is looked for."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the letters after an expression say."""

    ignore_case: bool = False
    by_line: bool = False
    """Whether ``^`` and ``$`` match at lines."""
    stop_at_line: bool = False
    """Whether ``.`` and ``[^...]`` leave line ends out."""
    literal: bool = False
    expanded: bool = False


def options_of(letters: str, base: Options | None = None) -> Options:
    """What option letters mean; ValueError for one that means nothing."""
    found = base or Options()
    case, lines, stops = found.ignore_case, found.by_line, found.stop_at_line
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
    """A regular expression of Postgres, ready to be matched."""

    python: re.Pattern[str] | Bounded
    lazy: bool
    """Whether it prefers short matches."""
    ambiguous: bool
    """Whether Python may find another match at the same place than the one that is preferred."""

    def search(self, string: str, start: int = 0) -> re.Match[str] | None:
        """The first match from a place on, the longest one there, or the shortest."""
        found = self.python.search(string, start)
        if found is None or not self.ambiguous or len(string) > LONGEST_SEARCH:
            return found
        begin, end = found.span()
        for stop in range(begin, end) if self.lazy else range(len(string), end, -1):
            other = self.python.fullmatch(string, begin, stop)
            if other is not None:
                return other
        return found

    def matches(self, string: str, start: int = 0) -> Iterator[re.Match[str]]:
        """All matches from a place on, one after the other; an empty one not at the end of another."""
        place = start
        while place <= len(string):
            found = self.search(string, place)
            if found is None:
                return
            yield found
            place = found.end() + (found.end() == found.start())


@lru_cache(maxsize=1024)
def compile_posix(pattern: str, letters: str = "") -> Regexp:
    """The expression with its option letters; ValueError if it is none."""
    options = options_of(letters)
    if pattern.startswith("***="):
        pattern, options = pattern[4:], options_of("q", options)
    elif pattern.startswith("***:"):
        pattern = pattern[4:]
    embedded = re.match(r"\(\?([a-z]+)\)", pattern)
    if embedded and not options.literal:
        pattern, options = pattern[embedded.end() :], options_of(embedded[1], options)
    flags = re.IGNORECASE if options.ignore_case else re.NOFLAG
    if options.literal:
        return Regexp(re.compile(re.escape(pattern), flags), False, False)
    translation = _Translation(pattern, options)
    text = translation.translated()
    try:
        python = compiled_python(text, flags)
    except (re.error, OverflowError) as error:
        raise ValueError(f"invalid regular expression: {error}") from error
    return Regexp(python, translation.lazy, translation.ambiguous)


class _Translation:
    """One expression on its way from Postgres' form to Python's."""

    def __init__(self, pattern: str, options: Options) -> None:
        self._pattern = pattern
        self._options = options
        self._place = 0
        self._open = 0
        self.lazy = False
        self.ambiguous = False
        self._quantified = 0
        self._alternatives = False
        self._looks_around = False
        """Whether what follows a match matters to it, so that no part of a text can stand for the whole."""

    def translated(self) -> str:
        """The whole expression; ValueError where it is malformed."""
        parts: list[str] = []
        while self._place < len(self._pattern):
            parts += self._piece(bool(parts) and parts[-1] not in OPENING)
        if self._open:
            raise ValueError("invalid regular expression: parentheses () not balanced")
        self.ambiguous = (self.ambiguous or self._alternatives) and not self._looks_around
        return "".join(parts)

    def _piece(self, has_operand: bool) -> list[str]:
        pattern, place = self._pattern, self._place
        character = pattern[place]
        if self._options.expanded and (character.isspace() or character == "#"):
            end = pattern.find("\n", place) if character == "#" else place
            self._place = len(pattern) if end < 0 else end + 1
            return []
        quantifier = QUANTIFIER.match(pattern, place)
        if quantifier:
            return [self._repeated(quantifier, has_operand)]
        match character:
            case "\\":
                return [self._escape()]
            case "[":
                return [self._bracket()]
            case "(":
                return [self._opened()]
            case ")":
                self._place += 1
                self._open -= 1
                if self._open < 0:
                    raise ValueError("invalid regular expression: parentheses () not balanced")
                return [")"]
            case ".":
                self._place += 1
                return [r"[^\n]" if self._options.stop_at_line else r"(?s:.)"]
            case "^":
                self._place += 1
                return [r"(?m:^)" if self._options.by_line else r"\A"]
            case "$":
                self._place += 1
                self._looks_around = True
                return [r"(?m:$)" if self._options.by_line else r"\Z"]
            case "|":
                self._place += 1
                self._alternatives = True
                return ["|"]
            case _:
                self._place += 1
                return [re.escape(character)]

    def _repeated(self, found: re.Match[str], has_operand: bool) -> str:
        if not has_operand:
            raise ValueError("invalid regular expression: quantifier operand invalid")
        self._place = found.end()
        if QUANTIFIER.match(self._pattern, self._place):
            raise ValueError("invalid regular expression: quantifier operand invalid")
        numbers = [int(number) for number in re.findall(r"\d+", found[1])]
        if any(number > WIDEST for number in numbers) or numbers != sorted(numbers):
            raise ValueError("invalid regular expression: invalid repetition count(s)")
        if not self._quantified and not (len(numbers) == 1 and "," not in found[1]):
            self.lazy = found[2] is not None
        self._quantified += 1
        self.ambiguous |= self.lazy or (self._quantified > 1 and found[1] not in ("*", "+"))
        return found[0]

    def _opened(self) -> str:
        self._open += 1
        found = re.compile(r"\(\?(?:[:=!]|<[=!])").match(self._pattern, self._place)
        if found:
            self._place = found.end()
            self._looks_around |= found[0] != "(?:"
            return found[0]
        if self._pattern.startswith("(?", self._place):
            raise ValueError("invalid regular expression: quantifier operand invalid")
        self._place += 1
        return "("

    def _escape(self) -> str:
        letter = self._pattern[self._place + 1 : self._place + 2]
        if not letter:
            raise ValueError("invalid regular expression: invalid escape \\ sequence")
        if letter in PLACES:
            self._place += 2
            self._looks_around = True
            return PLACES[letter]
        if letter.lower() in SHORTHANDS:
            self._place += 2
            return f"\\{letter}"
        if letter in "123456789":
            self._place += 2
            return rf"(?:\{letter})"
        return re.escape(self._character())

    def _character(self) -> str:
        """The character that an escape stands for."""
        found = re.compile(
            r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]+)|(0[0-7]{0,2})|c(.)|(.))", re.DOTALL
        ).match(self._pattern, self._place)
        if found is None:
            raise ValueError("invalid regular expression: invalid escape \\ sequence")
        self._place = found.end()
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

    def _bracket(self) -> str:
        """A bracket expression, as one of Python's and what that cannot say beside it."""
        if self._pattern.startswith(("[[:<:]]", "[[:>:]]"), self._place):
            start = self._pattern[self._place + 3] == "<"
            self._place += 7
            return PLACES["m" if start else "M"]
        self._place += 1
        negated = self._pattern.startswith("^", self._place)
        self._place += negated
        plain: list[str] = []
        others: list[str] = []
        first = True
        while True:
            if self._place >= len(self._pattern):
                raise ValueError("invalid regular expression: brackets [] not balanced")
            if self._pattern[self._place] == "]" and not first:
                self._place += 1
                break
            first = False
            self._member(plain, others)
        if negated and self._options.stop_at_line:
            plain.append(r"\n")
        inside = "|".join(([f"[{''.join(plain)}]"] if plain else []) + others)
        if negated:
            return rf"(?:(?!{inside})(?s:.))"
        return inside if not others else f"(?:{inside})"

    def _member(self, plain: list[str], others: list[str]) -> None:
        found = re.compile(r"\[:(\w+):\]").match(self._pattern, self._place)
        if found:
            self._place = found.end()
            others.append(_posix_class(found[1], self._options.ignore_case))
            return
        shorthand = re.compile(r"\\([dswDSW])").match(self._pattern, self._place)
        if shorthand:
            self._place = shorthand.end()
            plain.append(shorthand[0])
            return
        low = self._element()
        if self._pattern.startswith("-", self._place) and not self._pattern.startswith("-]", self._place):
            self._place += 1
            high = self._element()
            if low > high:
                raise ValueError("invalid regular expression: invalid character range")
            plain.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            plain.append(re.escape(low) if low != "-" else r"\-")

    def _element(self) -> str:
        """One character of a bracket expression."""
        found = re.compile(r"\[([.=])(.)\1\]", re.DOTALL).match(self._pattern, self._place)
        if found:
            self._place = found.end()
            return found[2]
        if self._place >= len(self._pattern):
            raise ValueError("invalid regular expression: brackets [] not balanced")
        if self._pattern[self._place] == "\\":
            return self._character()
        self._place += 1
        return self._pattern[self._place - 1]


def _posix_class(name: str, ignore_case: bool) -> str:
    if name in ("upper", "lower"):
        if ignore_case:
            return POSIX_CLASSES["alpha"]
        return _cased(name)
    if name not in POSIX_CLASSES:
        raise ValueError("invalid regular expression: invalid character class")
    return POSIX_CLASSES[name]


@lru_cache(maxsize=2)
def _cased(name: str) -> str:
    """The letters of one case, as ranges."""
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
def similar(pattern: str, escape: str = "\\") -> Regexp:
    """The expression that a SIMILAR TO pattern means, matched against whole texts."""
    if len(escape) > 1:
        raise ValueError("invalid escape string")
    parts = _separated(pattern, escape)
    if len(parts) == 3:
        before, middle, after = (_from_similar(part, escape) for part in parts)
        lazily = before.replace(".*", ".*?")
        return compile_posix(f"^(?:{lazily})({middle})(?:{after})$".replace("(?:)", ""))
    if len(parts) > 1:
        raise ValueError("more than two separators (escape and double quote) in the pattern")
    return compile_posix(f"^(?:{_from_similar(pattern, escape)})$")


def _separated(pattern: str, escape: str) -> list[str]:
    """The parts between an escape and a double quote."""
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


def _from_similar(pattern: str, escape: str) -> str:
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
