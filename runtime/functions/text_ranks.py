"""How well a TSQUERY finds a TSVECTOR, and a text with what it finds between marks."""

from collections.abc import Callable
from typing import Any, Final, assert_never

from kpg.runtime.functions.registry import Memoized, Overload, scalar
from kpg.runtime.functions.rules import among
from kpg.runtime.functions.text_matches import WEIGHTED, cover_rank, rank
from kpg.runtime.functions.text_search import lexemes_in
from kpg.runtime.functions.text_words import lexeme_maker, tokens
from kpg.runtime.types import INTEGER, REAL, TEXT, TSQUERY, TSVECTOR, Kind, Type, array
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.textsearch import WEIGHTS, Asked, Not, Pair, Query, Term

OF: Final = frozenset({Kind.TSVECTOR, Kind.TSQUERY})
REALS: Final = array(REAL)
Rank = Callable[..., float]


def _way(result: Type, args: tuple[Type, ...], code: Callable[..., Any]) -> Overload:
    return Overload(among(OF, result, *args), Memoized(lambda call: code))


def _weights(given: Array) -> tuple[float, ...]:
    if len(given.items) < len(WEIGHTS) or None in given.items:
        raise ValueError(
            "array of weight is too short"
            if None not in given.items
            else "array of weight must not contain nulls"
        )
    found = tuple(one if one >= 0 else default for one, default in zip(given.items, WEIGHTED, strict=False))
    if any(one > 1 for one in found):
        raise ValueError("weight out of range")
    return found


def _define_rank(name: str, code: Rank, lowest: str) -> None:
    scalar(
        name,
        "optionally four weights, a TSVECTOR, a TSQUERY and optionally how lengths count",
        "How well a query finds the words.",
        {f"{name}('a:1 b:2'::tsvector, 'c'::tsquery)::TEXT": lowest},
        _way(REAL, (TSVECTOR, TSQUERY), code),
        _way(
            REAL, (TSVECTOR, TSQUERY, INTEGER), lambda words, asked, norm: code(words, asked, WEIGHTED, norm)
        ),
        _way(
            REAL, (REALS, TSVECTOR, TSQUERY), lambda given, words, asked: code(words, asked, _weights(given))
        ),
        _way(
            REAL,
            (REALS, TSVECTOR, TSQUERY, INTEGER),
            lambda given, words, asked, norm: code(words, asked, _weights(given), norm),
        ),
    )


_define_rank("ts_rank", rank, "'0'")
_define_rank("ts_rank_cd", cover_rank, "'0'")


def headline(configuration: str, text: str, asked: Asked, options: str = "") -> str:
    """A text with what a query finds between marks."""
    known = {"startsel": "<b>", "stopsel": "</b>", "highlightall": "false"}
    for part in options.split(",") if options.strip() else ():
        name, _, value = part.partition("=")
        known[name.strip().lower()] = value.strip().strip('"')
    make = lexeme_maker(configuration)
    terms = lexemes_in(asked.query)
    starts = tuple(term.lexeme for term in _prefixes(asked.query))
    shown, last, count = [], 0, 0
    for start, end, made in tokens(text):
        found = [make(token) for token in made]
        count += len(made)
        hit = any(one is not None and (one in terms or (starts and one.startswith(starts))) for one in found)
        mark = text[start:end]
        shown += [text[last:start], f"{known['startsel']}{mark}{known['stopsel']}" if hit else mark]
        last = end
    if known["highlightall"].lower() not in ("true", "on", "1", "t", "yes") and count > LEAST_WORDS:
        raise ValueError(
            f"ts_headline of more than {LEAST_WORDS} words is not supported without HighlightAll=true"
        )
    return "".join(shown) + text[last:]


LEAST_WORDS: Final = 15


def _prefixes(query: Query | None) -> list[Term]:
    match query:
        case None:
            return []
        case Term():
            return [query] if query.prefix else []
        case Not(operand):
            return _prefixes(operand)
        case Pair(_, left, right):
            return _prefixes(left) + _prefixes(right)
        case _:
            assert_never(query)


scalar(
    "ts_headline",
    "optionally a configuration, a text, a TSQUERY and optionally options",
    "The text with what the query finds between marks.",
    {"ts_headline('simple', 'a fat cat', 'fat'::tsquery)": "'a <b>fat</b> cat'"},
    _way(TEXT, (TEXT, TSQUERY), (lambda text, asked: headline("english", text, asked))),
    _way(TEXT, (TEXT, TEXT, TSQUERY), (headline)),
    _way(
        TEXT,
        (TEXT, TSQUERY, TEXT),
        (lambda text, asked, options: headline("english", text, asked, options)),
    ),
    _way(TEXT, (TEXT, TEXT, TSQUERY, TEXT), (headline)),
)
