"""TSVECTOR and TSQUERY: made of texts, put together and asked."""

import functools
from collections.abc import Callable
from typing import Any, Final, assert_never

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, extend, scalar
from kpg.runtime.functions.rules import among, fixed, is_unknown
from kpg.runtime.functions.text_matches import matches
from kpg.runtime.functions.text_words import lexeme_maker, lexemes, tokens
from kpg.runtime.types import BOOLEAN, INTEGER, JSONB, REAL, TEXT, TSQUERY, TSVECTOR, Kind, Type, array
from kpg.runtime.values.arrays import Array, of
from kpg.runtime.values.jsons import Json
from kpg.runtime.values.textsearch import (
    FARTHEST,
    LAST_PLACE,
    TOO_FAR,
    WEIGHTS,
    Asked,
    Not,
    Pair,
    Place,
    Query,
    Term,
    Words,
    cleaned,
    parse_query,
    raw,
    vector,
)

OF: Final = frozenset({Kind.TSVECTOR, Kind.TSQUERY})
DEFAULT: Final = "english"
REALS: Final = array(REAL)
TEXTS: Final = array(TEXT)


def _plain(code: Callable[..., object]) -> Memoized:
    return Memoized(lambda call: code)


def _exactly(result: Type, *args: Type) -> Rule:
    """Arguments of these types, or quoted constants."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args):
            return None
        pairs = list(zip(types, args, strict=True))
        fits = all(
            is_unknown(one) or one.kind is arg.kind or (one.is_text and arg.is_text) for one, arg in pairs
        )
        whole = all(one.is_integer for one, arg in pairs if arg.is_integer and not is_unknown(one))
        return Signature(args, result) if fits or (whole and len(args) > 2) else None

    return rule


def words_of(configuration: str, text: str) -> Words:
    """The lexemes of a text with their places."""
    return vector((lexeme, [Place(at)]) for lexeme, at in lexemes(configuration, text)[0])


def words_of_json(configuration: str, value: Json) -> Words:
    """The lexemes of all strings in a value of JSON; between two of them is a place without any."""
    found: list[tuple[str, list[Place]]] = []
    at = 1
    for text in _strings(value.value):
        here, after = lexemes(configuration, text, at)
        found += [(lexeme, [Place(place)]) for lexeme, place in here]
        at = after + 1 if here else at
    return vector(found)


def _strings(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for inner in value.values() for text in _strings(inner)]
        case list():
            return [text for inner in value for text in _strings(inner)]
        case _:
            return []


def _chain(configuration: str, text: str, sign: str, weights: int = 0, prefix: bool = False) -> Any:
    """The words of a text joined by an operator: those that nobody looks for as nothing."""
    make = lexeme_maker(configuration)
    result: Any = None
    first = True
    for _, _, made in tokens(text):
        for token in made:
            lexeme = make(token)
            term = None if lexeme is None else Term(lexeme, weights, prefix)
            result = term if first else raw(sign, result, term)
            first = False
    return result


def asked_of(configuration: str, text: str) -> Asked:
    """to_tsquery: a query whose words are made lexemes."""
    return Asked(
        parse_query(text, lambda word, weights, prefix: _chain(configuration, word, "<", weights, prefix))
    )


def all_of(configuration: str, text: str) -> Asked:
    """plainto_tsquery: all words of a text."""
    return Asked(cleaned(_chain(configuration, text, "&")))


def phrase_of(configuration: str, text: str) -> Asked:
    """phraseto_tsquery: the words of a text one after the other."""
    return Asked(cleaned(_chain(configuration, text, "<")))


def _follows(parts: list[str], number: int, word: str) -> bool:
    """Whether something follows an OR: else it is a word."""
    rest = parts[number].rpartition(word)[2] + "".join(parts[number + 1 :])
    return any(map(str.isalnum, rest))


def web_query(configuration: str, text: str) -> Asked:
    """websearch_to_tsquery: words, "phrases", or, and -what is not wanted."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        parts[-2:] = [f"{parts[-2]} {parts[-1]}"]
    whole: Any = None
    both: Any = None
    negated = False

    def joined(sign: str, left: Any, right: Any) -> Any:
        return right if left is None else left if right is None else raw(sign, left, right)

    for number, part in enumerate(parts):
        for word in [part] if number % 2 else part.split():
            wanted = whole is not None or both is not None
            if not number % 2 and word.lower() == "or" and wanted and _follows(parts, number, word):
                whole, both = joined("|", whole, both), None
                continue
            negated |= not number % 2 and word.startswith("-")
            term = cleaned(_chain(configuration, word.lstrip("-") if not number % 2 else word, "<"))
            if term is not None:
                both = joined("&", both, raw("!", term, None) if negated else term)
            if word.strip("-"):
                negated = False
    return Asked(cleaned(joined("|", whole, both)))


for _name, _result, _code, _doc, _example in (
    ("to_tsvector", TSVECTOR, words_of, "The words of a text with their places.", "'''fat'':2 ''rat'':3'"),
    (
        "to_tsquery",
        TSQUERY,
        asked_of,
        "What a query looks for, its words made lexemes.",
        "'''fat'' & ''rat'''",
    ),
    ("plainto_tsquery", TSQUERY, all_of, "A query for all words of a text.", "'''fat'' & ''rat'''"),
    (
        "phraseto_tsquery",
        TSQUERY,
        phrase_of,
        "A query for the words of a text in order.",
        "'''fat'' <-> ''rat'''",
    ),
    ("websearch_to_tsquery", TSQUERY, web_query, "A query as search engines read it.", "'''fat'' & ''rat'''"),
):
    _text = {"to_tsvector": "a fat rat", "to_tsquery": "fat & rat"}.get(_name, "fat rat")
    _example = "'''a'':1 ''fat'':2 ''rat'':3'" if _name == "to_tsvector" else _example
    _ways = [
        Overload(fixed(_result, TEXT), _plain(functools.partial(_code, DEFAULT))),
        Overload(fixed(_result, TEXT, TEXT), _plain(_code)),
    ]
    if _name == "to_tsvector":
        _ways += [
            Overload(
                among(frozenset({Kind.JSONB}), TSVECTOR, JSONB), _plain(lambda v: words_of_json(DEFAULT, v))
            ),
            Overload(among(frozenset({Kind.JSONB}), TSVECTOR, TEXT, JSONB), _plain(words_of_json)),
        ]
    scalar(
        _name,
        "a text, and before it a configuration: simple or english",
        _doc,
        {f"{_name}('simple', '{_text}')::TEXT": _example},
        *_ways,
    )


def stripped(words: Words) -> Words:
    """Without places."""
    return dict.fromkeys(words, ())


def weighted(words: Words, sign: str, only: Array | None = None) -> Words:
    """With a weight at all places, or at those of some words."""
    if sign.upper() not in tuple(WEIGHTS):
        raise ValueError(f"unrecognized weight: {ord(sign[:1] or chr(0))}")
    weight = WEIGHTS.index(sign.upper())
    return {
        lexeme: tuple(Place(at, weight) for at, _ in places)
        if only is None or lexeme in only.items
        else places
        for lexeme, places in words.items()
    }


def joined_words(left: Words, right: Words) -> Words:
    """One after the other."""
    last = max((place.at for places in left.values() for place in places), default=0)
    moved = (
        (lexeme, [Place(min(at + last, LAST_PLACE), w) for at, w in places])
        for lexeme, places in right.items()
    )
    return vector([*left.items(), *moved])


def filtered(words: Words, signs: Array) -> Words:
    """Only the places of some weights."""
    wanted = set()
    for sign in signs.items:
        if sign is None:
            raise ValueError("weight array may not contain nulls")
        if sign.upper() not in tuple(WEIGHTS):
            raise ValueError(f'unrecognized weight: "{sign}"')
        wanted.add(WEIGHTS.index(sign.upper()))
    kept = {lexeme: tuple(p for p in places if p.weight in wanted) for lexeme, places in words.items()}
    return {lexeme: places for lexeme, places in kept.items() if places}


def without(words: Words, unwanted: str | Array) -> Words:
    """Without some words."""
    gone = {unwanted} if isinstance(unwanted, str) else set(unwanted.items)
    return {lexeme: places for lexeme, places in words.items() if lexeme not in gone}


def of_lexemes(lexemes_: Array) -> Words:
    """The lexemes of an array, without places."""
    if None in lexemes_.items:
        raise ValueError("lexeme array may not contain nulls")
    if "" in lexemes_.items:
        raise ValueError("lexeme array may not contain empty strings")
    return vector((lexeme, ()) for lexeme in lexemes_.items)


def nodes(query: Query | None) -> int:
    """How many lexemes and operators there are."""
    match query:
        case None:
            return 0
        case Term():
            return 1
        case Not(operand):
            return 1 + nodes(operand)
        case Pair(_, left, right):
            return 1 + nodes(left) + nodes(right)
        case _:
            assert_never(query)


def combined(sign: str) -> Callable[[Asked, Asked], Asked]:
    """Two queries by an operator; an empty one adds nothing."""

    def combine(left: Asked, right: Asked) -> Asked:
        if left.query is None or right.query is None:
            return right if left.query is None else left
        return Asked(Pair(sign, left.query, right.query))

    return combine


def followed(left: Asked, right: Asked, distance: int = 1) -> Asked:
    """One query so many places behind another."""
    if not 0 <= distance <= FARTHEST:
        raise ValueError(TOO_FAR)
    if left.query is None or right.query is None:
        return right if left.query is None else left
    return Asked(Pair("<", left.query, right.query, distance))


def negated(asked: Asked) -> Asked:
    """What a query does not find."""
    return asked if asked.query is None else Asked(Not(asked.query))


def lexemes_in(query: Query | None) -> set[str]:
    """The lexemes of a query."""
    match query:
        case None:
            return set()
        case Term(lexeme):
            return {lexeme}
        case Not(operand):
            return lexemes_in(operand)
        case Pair(_, left, right):
            return lexemes_in(left) | lexemes_in(right)
        case _:
            assert_never(query)


_NAMED: Final = (
    ("strip", TSVECTOR, (TSVECTOR,), stripped, "Without places.", "'a:1'::tsvector", "'''a'''"),
    (
        "setweight",
        TSVECTOR,
        (TSVECTOR, TEXT),
        weighted,
        "With a weight.",
        "'a:1'::tsvector, 'A'",
        "'''a'':1A'",
    ),
    ("setweight", TSVECTOR, (TSVECTOR, TEXT, TEXTS), weighted, "", "", ""),
    (
        "ts_filter",
        TSVECTOR,
        (TSVECTOR, TEXTS),
        filtered,
        "Places of some weights only.",
        "'a:1A b:2'::tsvector, '{a}'",
        "'''a'':1A'",
    ),
    (
        "ts_delete",
        TSVECTOR,
        (TSVECTOR, TEXT),
        without,
        "Without words.",
        "'a:1 b:2'::tsvector, 'a'",
        "'''b'':2'",
    ),
    ("ts_delete", TSVECTOR, (TSVECTOR, TEXTS), without, "", "", ""),
    (
        "tsvector_to_array",
        TEXTS,
        (TSVECTOR,),
        lambda v: of(list(v)),
        "Its lexemes.",
        "'a:1 b'::tsvector",
        "'{a,b}'",
    ),
    (
        "array_to_tsvector",
        TSVECTOR,
        (TEXTS,),
        of_lexemes,
        "The lexemes of an array.",
        "'{b,a}'::text[]",
        "'''a'' ''b'''",
    ),
    (
        "numnode",
        INTEGER,
        (TSQUERY,),
        lambda q: nodes(q.query),
        "Its lexemes and operators.",
        "'a & b'::tsquery",
        "'3'",
    ),
    (
        "tsquery_phrase",
        TSQUERY,
        (TSQUERY, TSQUERY),
        followed,
        "One behind another.",
        "'a', 'b'::tsquery",
        "'''a'' <-> ''b'''",
    ),
    ("tsquery_phrase", TSQUERY, (TSQUERY, TSQUERY, INTEGER), followed, "", "", ""),
    ("tsquery_not", TSQUERY, (TSQUERY,), negated, "What it does not find.", "'a'::tsquery", "'!''a'''"),
)
"""Name, result, arguments, code, what it says, an example and its value as text; again for more arguments."""
for _name in dict.fromkeys(entry[0] for entry in _NAMED):
    _entries = [entry for entry in _NAMED if entry[0] == _name]
    scalar(
        _name,
        "a TSVECTOR or a TSQUERY, and what its documentation says",
        _entries[0][4],
        {f"{_name}({_entries[0][5]})::TEXT": _entries[0][6]},
        *(Overload(_exactly(entry[1], *entry[2]), _plain(entry[3])) for entry in _entries),
    )


def _define(name: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]) -> None:
    extend(name, "TSVECTOR and TSQUERY", Overload(among(OF, result, *args), _plain(code)))


_define("path_matches", BOOLEAN, (TSVECTOR, TSQUERY), matches)
_define("path_matches", BOOLEAN, (TSQUERY, TSVECTOR), lambda asked, words: matches(words, asked))
_define("path_matches", BOOLEAN, (TEXT, TSQUERY), lambda text, asked: matches(words_of(DEFAULT, text), asked))
_define("concat", TSVECTOR, (TSVECTOR, TSVECTOR), joined_words)
_define("concat", TSQUERY, (TSQUERY, TSQUERY), combined("|"))
_define("overlaps_with", TSQUERY, (TSQUERY, TSQUERY), combined("&"))
_define("distance_between", TSQUERY, (TSQUERY, TSQUERY), followed)
_define("contains_all", BOOLEAN, (TSQUERY, TSQUERY), lambda a, b: lexemes_in(a.query) >= lexemes_in(b.query))
_define("contained_in", BOOLEAN, (TSQUERY, TSQUERY), lambda a, b: lexemes_in(a.query) <= lexemes_in(b.query))
_define("length", INTEGER, (TSVECTOR,), len)
