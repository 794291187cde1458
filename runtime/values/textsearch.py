"""TSVECTOR, the words of a text with their places, and TSQUERY, what is looked for among them."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, assert_never

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, spelled

LAST_PLACE: Final = 16383
MOST_PLACES: Final = 256
WEIGHTS: Final = "DCBA"
"""From the least on; a place is of the first unless it says."""
WORD: Final = re.compile(r"\s*(?:'((?:[^'\\]|''|\\.)*)'|((?:[^\s':\\]|\\.|(?<!^)')+))", re.DOTALL)
PLACES: Final = re.compile(r":(\d+[A-Da-d*]?(?:,\d+[A-Da-d*]?)*)")
OPERATOR: Final = re.compile(r"\s*(!|&|\||\(|\)|<->|<(\d+)>)")
TERM: Final = re.compile(
    r"\s*(?:'((?:[^'\\]|''|\\.)*)'|((?:[^\s'&|!()<:\\]|\\.)+))(?::([A-Da-d*]*))?", re.DOTALL
)
FARTHEST: Final = 16384
"""Places that may lie between the words of a phrase."""
TOO_FAR: Final = f"distance in phrase operator must be an integer value between zero and {FARTHEST} inclusive"


class Place(NamedTuple):
    """Where a word stands, and its weight, from 0 to 3."""

    at: int
    weight: int = 0


Words = dict[str, tuple[Place, ...]]
"""A TSVECTOR: its lexemes in order, each with its places, none if it is stripped of them."""


class Term(NamedTuple):
    """A lexeme that is looked for: as a beginning, or of some weights only (a set of bits; 0: of any)."""

    lexeme: str
    weights: int = 0
    prefix: bool = False


class Not(NamedTuple):
    """What a query does not find."""

    operand: "Query"


class Pair(NamedTuple):
    """``&``, ``|``, or, with a distance, one so many places behind the other."""

    sign: str
    left: "Query"
    right: "Query"
    distance: int = 1


Query = Term | Not | Pair
"""A TSQUERY that is not empty: an empty one is None."""
PRIORITY: Final = {"|": 1, "&": 2, "<": 3}


def codec(type_: Type) -> Codec:
    """The codec of either type: a value is kept as its text."""
    if type_.kind is Kind.TSVECTOR:
        return spelled(parse_words, show_words, show_words, parse_words, "a text such as 'cat:1 dog:2A'")
    return spelled(_wrapped, _shown, _shown, _wrapped, "a text such as 'cat & dog'")


class Asked(NamedTuple):
    """A TSQUERY: what it looks for, None if nothing."""

    query: Query | None


def _wrapped(text: str) -> Asked:
    return Asked(parse_query(text))


def _shown(value: Asked) -> str:
    return show_query(value.query)


def vector(found: Iterable[tuple[str, Iterable[Place]]]) -> Words:
    """Words in order, their places in order, the greatest weight of each."""
    words: dict[str, dict[int, int]] = {}
    for lexeme, places in found:
        known = words.setdefault(lexeme, {})
        for at, weight in places:
            at = min(at, LAST_PLACE)
            known[at] = max(known.get(at, 0), weight)
    return {
        lexeme: tuple(Place(at, weight) for at, weight in sorted(words[lexeme].items())[:MOST_PLACES])
        for lexeme in sorted(words, key=str.encode)
    }


def parse_words(text: str) -> Words:
    """The words that a text lists; ValueError if it is none."""
    found: list[tuple[str, list[Place]]] = []
    at = 0
    while text[at:].strip():
        word = WORD.match(text, at)
        if word is None:
            raise ValueError(f'syntax error in tsvector: "{text}"')
        lexeme = _unescaped(word[1], quoted=True) if word[1] is not None else _unescaped(word[2])
        at = word.end()
        places = PLACES.match(text, at)
        if not lexeme or (places is None and text[at : at + 1] not in ("", *" \t\n\r\f\v")):
            raise ValueError(f'syntax error in tsvector: "{text}"')
        found.append((lexeme, [] if places is None else list(map(_place, places[1].split(",")))))
        at = at if places is None else places.end()
    return vector(found)


def _place(text: str) -> Place:
    digits = text.rstrip("ABCDabcd*")
    sign = text[len(digits) :].upper().replace("*", "A")
    if int(digits) == 0:
        raise ValueError("wrong position info in tsvector")
    return Place(int(digits), WEIGHTS.index(sign) if sign else 0)


def _unescaped(text: str, *, quoted: bool = False) -> str:
    plain = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text
    return plain.replace("''", "'") if quoted else plain


def quoted(lexeme: str) -> str:
    """A lexeme as both types show it."""
    doubled = lexeme.replace("'", "''").replace("\\", "\\\\")
    return f"'{doubled}'"


def show_words(value: Words) -> str:
    """As Postgres writes it."""
    return " ".join(quoted(lexeme) + _of_places(places) for lexeme, places in value.items())


def _of_places(places: tuple[Place, ...]) -> str:
    shown = (f"{at}{WEIGHTS[weight] if weight else ''}" for at, weight in places)
    return ":" + ",".join(shown) if places else ""


def parse_query(text: str, make: Callable[[str, int, bool], Any] | None = None) -> Query | None:
    """What a text looks for; ValueError if it is no query.

    ``make`` gives the query of a word, None to leave it out.
    """
    reader = _Reader(text, make or (lambda lexeme, weights, prefix: Term(lexeme, weights, prefix)))
    if not text.strip():
        return None
    found = reader.either()
    if text[reader.at :].strip():
        raise reader.wrong()
    return cleaned(found)


class _Reader:
    """Reads a query, from the operators that bind least to its words."""

    def __init__(self, text: str, make: Callable[[str, int, bool], Any]) -> None:
        self.text, self.make, self.at = text, make, 0

    def wrong(self) -> ValueError:
        return ValueError(f'syntax error in tsquery: "{self.text}"')

    def sign(self, *wanted: str) -> re.Match[str] | None:
        """The next operator, if it is one of these; it is read then."""
        found = OPERATOR.match(self.text, self.at)
        if found is None or ("<" if found[1][0] == "<" else found[1]) not in wanted:
            return None
        self.at = found.end()
        return found

    def either(self) -> Any:
        left = self.both()
        while self.sign("|"):
            left = _Raw("|", left, self.both())
        return left

    def both(self) -> Any:
        left = self.phrase()
        while self.sign("&"):
            left = _Raw("&", left, self.phrase())
        return left

    def phrase(self) -> Any:
        left = self.single()
        while (found := self.sign("<")) is not None:
            distance = 1 if found[2] is None else int(found[2])
            if distance > FARTHEST:
                raise ValueError(TOO_FAR)
            left = _Raw("<", left, self.single(), distance)
        return left

    def single(self) -> Any:
        if self.sign("!"):
            return _Raw("!", self.single(), None)
        if self.sign("("):
            inner = self.either()
            if not self.sign(")"):
                raise self.wrong()
            return inner
        found = TERM.match(self.text, self.at)
        if found is None:
            raise self.wrong()
        self.at = found.end()
        lexeme = _unescaped(found[1], quoted=True) if found[1] is not None else _unescaped(found[2])
        if not lexeme:
            raise self.wrong()
        marks = (found[3] or "").upper()
        weights = sum({1 << WEIGHTS.index(mark) for mark in marks if mark != "*"})
        return self.make(lexeme, weights, "*" in marks)


class _Raw(NamedTuple):
    """An operator whose operands may turn out to be nothing, as stop words are."""

    sign: str
    left: Any
    right: Any
    distance: int = 1


def raw(sign: str, left: Any, right: Any, distance: int = 1) -> Any:
    """An operator over operands that may be nothing: see :func:`cleaned`."""
    return _Raw(sign, left, right, distance)


def cleaned(raw: Any) -> Query | None:
    """A query without what is nothing: of a phrase, the distance stays."""
    return _cleaned(raw)[0]


def _cleaned(raw: Any) -> tuple[Query | None, int, int]:
    """And by how much the distance grows of a phrase that it is the right or the left operand of."""
    if raw is None:
        return None, 0, 0
    if not isinstance(raw, _Raw):
        return raw, 0, 0
    if raw.sign == "!":
        inner = _cleaned(raw.left)[0]
        return (None if inner is None else Not(inner)), 0, 0
    left, left_before, left_after = _cleaned(raw.left)
    right, right_before, right_after = _cleaned(raw.right)
    distance = raw.distance if raw.sign == "<" else 0
    if left is None and right is None:
        gap = left_before + distance + right_after if raw.sign == "<" else max(left_before, right_before)
        return None, gap, gap
    if left is None:
        return right, distance + left_after + right_before if raw.sign == "<" else 0, right_after
    if right is None:
        return left, left_before, distance + left_after + right_before if raw.sign == "<" else 0
    if raw.sign == "<":
        return Pair("<", left, right, distance + left_after + right_before), left_before, right_after
    return Pair(raw.sign, left, right), 0, 0


def show_query(query: Query | None, above: int = 0, *, right_of_phrase: bool = False) -> str:
    """As Postgres writes it, inside an operator that binds so strongly."""
    match query:
        case None:
            return ""
        case Term(lexeme, weights, prefix):
            marks = "*" * prefix + "".join(
                w for bit, w in zip((8, 4, 2, 1), "ABCD", strict=True) if weights & bit
            )
            return quoted(lexeme) + (f":{marks}" if marks else "")
        case Not(operand):
            inner = show_query(operand, 4)
            return f"!{inner}"
        case Pair(sign, left, right, distance):
            priority = PRIORITY[sign]
            shown = "<->" if (sign, distance) == ("<", 1) else f"<{distance}>" if sign == "<" else sign
            body = f"{show_query(left, priority)} {shown} "
            body += show_query(right, priority, right_of_phrase=sign == "<")
            inside = priority < above or (right_of_phrase and sign == "<")
            return f"( {body} )" if inside else body
        case _:
            assert_never(query)
