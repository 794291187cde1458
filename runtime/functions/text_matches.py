"""Whether a TSQUERY finds something in a TSVECTOR, and how well."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, assert_never

import numpy as np

from kpg.runtime.values.textsearch import Asked, Not, Pair, Place, Query, Term, Words

Test = Callable[[Term], bool]
WEIGHTED: Final = (0.1, 0.2, 0.4, 1.0)
SQUARES: Final = 1.64493406685
"""The sum of 1 / n**2, as far as ranks have it."""
NOWHERE: Final = (Place(0),)
"""Where a word without places is taken to be."""
REAL: Final = np.float32


class Found(NamedTuple):
    """Where part of a phrase ends, and how many places it spans; with ``negated`` where it does not."""

    places: frozenset[int]
    width: int = 0
    negated: bool = False


def matches(words: Words, asked: Asked) -> bool:
    """Whether a query finds the words; an empty one nothing."""
    if asked.query is None:
        return False
    return _holds(asked.query, lambda term: bool(list(_entries(words, term))), words)


def _entries(words: Words, term: Term) -> Iterator[tuple[str, tuple[Place, ...]]]:
    """The words that a term means, with those of their places that have its weights."""
    if term.prefix:
        known = [lexeme for lexeme in words if lexeme.startswith(term.lexeme)]
    else:
        known = [term.lexeme] if term.lexeme in words else []
    for lexeme in known:
        places = words[lexeme]
        if not term.weights:
            yield lexeme, places
        else:
            fitting = tuple(place for place in places if term.weights >> place.weight & 1)
            if fitting:
                yield lexeme, fitting


def _holds(query: Query, test: Test, words: Words) -> bool:
    match query:
        case Term():
            return test(query)
        case Not(operand):
            return not _holds(operand, test, words)
        case Pair("&", left, right):
            return _holds(left, test, words) and _holds(right, test, words)
        case Pair("|", left, right):
            return _holds(left, test, words) or _holds(right, test, words)
        case Pair():
            found = _phrase(query, words)
            return found.negated or bool(found.places)
        case _:
            assert_never(query)


def _phrase(query: Query, words: Words) -> Found:
    """Where a part of a phrase is."""
    match query:
        case Term():
            return Found(frozenset(place.at for _, places in _entries(words, query) for place in places))
        case Not(operand):
            inner = _phrase(operand, words)
            return inner._replace(negated=not inner.negated)
        case Pair("<", left, right, distance):
            before, after = _phrase(left, words), _phrase(right, words)
            moved = frozenset(place + distance + after.width for place in before.places)
            return _both(before, after, moved, after.places, distance + before.width + after.width)
        case Pair(sign, left, right):
            one, other = _phrase(left, words), _phrase(right, words)
            width = max(one.width, other.width)
            first = frozenset(place + width - one.width for place in one.places)
            second = frozenset(place + width - other.width for place in other.places)
            if sign == "&":
                return _both(one, other, first, second, width)
            turned = _both(
                one._replace(negated=not one.negated),
                other._replace(negated=not other.negated),
                first,
                second,
                width,
            )
            return turned._replace(negated=not turned.negated)
        case _:
            assert_never(query)


def _both(left: Found, right: Found, first: frozenset[int], second: frozenset[int], width: int) -> Found:
    """Where two parts are at once."""
    if left.negated and right.negated:
        return Found(first | second, width, negated=True)
    if left.negated:
        return Found(second - first, width)
    return Found(first - second if right.negated else first & second, width)


def _terms(query: Query | None) -> list[Term]:
    match query:
        case None:
            return []
        case Term():
            return [query]
        case Not(operand):
            return _terms(operand)
        case Pair(_, left, right):
            return _terms(left) + _terms(right)
        case _:
            assert_never(query)


def _unique(query: Query) -> list[Term]:
    return sorted({term.lexeme: term for term in reversed(_terms(query))}.values())


def rank(words: Words, asked: Asked, weights: tuple[float, ...] = WEIGHTED, norm: int = 0) -> float:
    """ts_rank: by how often and how near to each other the words of a query are."""
    query = asked.query
    if query is None or not words:
        return 0.0
    together = isinstance(query, Pair) and query.sign in "&<"
    found = _rank_all(words, query, weights) if together else _rank_any(words, query, weights)
    return _normalized(REAL(1e-20) if found < 0 else found, words, norm, REAL)


def _normalized(value: Any, words: Words, norm: int, cut: Callable[[Any], Any]) -> float:
    """A rank divided by what ``norm`` says, each time rounded as ``cut`` does."""
    count = sum(len(places) or 1 for places in words.values())
    if norm & 1:
        value = cut(value / (math.log(count + 1) / math.log(2)))
    if norm & 2 and count:
        value = cut(value / cut(count))
    if norm & 8:
        value = cut(value / cut(len(words)))
    if norm & 16:
        value = cut(value / (math.log(len(words) + 1) / math.log(2)))
    if norm & 32:
        value = cut(value / (value + cut(1)))
    return float(REAL(value))


def _rank_any(words: Words, query: Query, weights: tuple[float, ...]) -> Any:
    terms = _unique(query)
    result = REAL(0)
    for term in terms:
        for lexeme, _ in _entries(words, term._replace(weights=0)):
            places = words[lexeme] or NOWHERE
            values = [REAL(weights[place.weight]) for place in places]
            total = REAL(0)
            best, at = REAL(-1), 0
            for number, value in enumerate(values):
                total = REAL(total + value / REAL((number + 1) * (number + 1)))
                if value > best:
                    best, at = value, number
            part = float(REAL(best + total - best / REAL((at + 1) * (at + 1))))
            result = REAL(result + part / SQUARES)
    return REAL(result / REAL(len(terms))) if terms else result


def _rank_all(words: Words, query: Query, weights: tuple[float, ...]) -> Any:
    terms = _unique(query)
    if len(terms) < 2:
        return _rank_any(words, query, weights)
    known: list[tuple[Place, ...] | None] = []
    result = REAL(-1)
    for term in terms:
        here: tuple[Place, ...] | None = None
        for lexeme, _ in _entries(words, term._replace(weights=0)):
            here = words[lexeme] or NOWHERE
            for other in known:
                for place in here if other is not None else ():
                    for second in other or ():
                        result = _nearer(result, place, second, weights, NOWHERE in (here, other))
        known.append(here)
    return result


def _nearer(result: Any, one: Place, other: Place, weights: tuple[float, ...], anywhere: bool) -> Any:
    distance = abs(one.at - other.at)
    if not distance and not anywhere:
        return result
    distance = distance or 16384
    near = (
        REAL(1e-30) if distance > 100 else REAL(1 / (1.005 + 0.05 * math.exp(REAL(distance) / REAL(1.5) - 2)))
    )
    weight = REAL(math.sqrt(REAL(REAL(weights[one.weight]) * REAL(weights[other.weight])) * near))
    return weight if result < 0 else REAL(1.0 - (1.0 - float(result)) * (1.0 - float(weight)))


def cover_rank(words: Words, asked: Asked, weights: tuple[float, ...] = WEIGHTED, norm: int = 0) -> float:
    """ts_rank_cd: by the stretches of a text in which a query finds all that it looks for."""
    query = asked.query
    if query is None:
        return 0.0
    document: dict[Place, set[str]] = {}
    for term in _unique(query):
        for lexeme, places in _entries(words, term):
            for place in places:
                document.setdefault(place, set()).add(lexeme)
    stretch = sorted(document)
    total = sums = before = 0.0
    extents = 0
    for first, last in _covers(query, stretch, document):
        inverse = sum(1 / weights[place.weight] for place in stretch[first : last + 1])
        noise = (stretch[last].at - stretch[first].at) - (last - first)
        noise = (last - first) // 2 if noise < 0 else noise
        total += (last - first + 1) / inverse / (1 + noise)
        middle = (stretch[last].at + stretch[first].at) / 2
        if extents and middle > before:
            sums += 1 / (middle - before)
        before, extents = middle, extents + 1
    if norm & 4 and extents and sums > 0:
        total /= extents / sums
    return _normalized(total, words, norm, float) if words else 0.0


def _covers(query: Query, places: list[Place], document: dict[Place, set[str]]) -> Iterator[tuple[int, int]]:
    """The stretches of places, first and last, that a query holds in, and in none within it."""

    def holds(first: int, last: int) -> bool:
        here: dict[str, list[Place]] = {}
        for place in places[first : last + 1]:
            for lexeme in document[place]:
                here.setdefault(lexeme, []).append(place)
        words = {lexeme: tuple(found) for lexeme, found in here.items()}
        return matches(words, Asked(query))

    start = 0
    while start < len(places):
        last = next((end for end in range(start, len(places)) if holds(start, end)), None)
        if last is None:
            return
        first = next(begin for begin in range(last, start - 1, -1) if holds(begin, last))
        yield first, last
        start = first + 1
