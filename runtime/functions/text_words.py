"""The words of a text, and the lexemes that these are in the configurations simple and english."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpg.runtime.errors import NotSupportedError

CONFIGURATIONS: Final = ("simple", "english")
_STOPS: Final = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves what which who whom this that these those am is
    are was were be been being have has had having do does did doing a an the and but if or because as until
    while of at by for with about against between into through during before after above below to from up
    down in out on off over under again further then once here there when where why how all any both each
    few more most other some such no nor not only own same so than too very s t can will just don should now
"""
STOPS: Final = frozenset(_STOPS.split())
"""Words of English that nobody looks for."""
_LETTER: Final = r"[^\W\d_]"
_HOST: Final = r"[a-zA-Z][\w-]*(?:\.[a-zA-Z0-9][\w-]*)+(?<![-_])"
_DOMAIN: Final = r"(?:[a-zA-Z0-9][\w-]*\.)+[a-zA-Z][a-zA-Z0-9]+"
TOKEN: Final = re.compile(
    rf"(?P<tag></?[a-zA-Z][^<>]*>|<!--.*?-->|&(?:\#\d+|\#[xX][\da-fA-F]+|[a-zA-Z]\w*);)"
    rf"|(?P<protocol>[a-zA-Z][a-zA-Z0-9+]*://)(?=[a-zA-Z0-9])"
    rf"|(?P<email>[a-zA-Z0-9](?:[\w.-]*[\w])?@{_DOMAIN})"
    rf"|(?P<url>(?P<host>{_HOST})(?::\d+)?(?P<path>/[^\s<>\"]+)?)"
    rf"|(?P<float>[-+]?\d+(?:\.\d+)?[eE][-+]?\d+(?!\w)|[-+]?\d+\.\d+(?!\w|\.\d))"
    rf"|(?P<version>\d+(?:\.\d+){{2,}}(?!\w))"
    rf"|(?P<file>(?<!\w)/?(?:\w[\w.-]*/)+[\w.-]*\w/?|/\w[\w.-]*)"
    rf"|(?P<compound>\w*{_LETTER}\w*(?:-\w*{_LETTER}\w*)+)"
    rf"|(?P<word>(?:(?!_)\w)*{_LETTER}(?:(?!_)\w)*)"
    rf"|(?P<int>[-+]?\d+)",
    re.DOTALL,
)
STEMMED: Final = frozenset({"word", "compound", "part"})


class Token(NamedTuple):
    """A part of a text that has a place: its kind and what is written."""

    kind: str
    text: str


def tokens(text: str) -> Iterator[tuple[int, int, list[Token]]]:
    """The parts of a text, where each begins and ends, and its tokens: also those of a compound's parts."""
    for found in TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind in ("tag", "protocol"):
            continue
        written = found[0]
        made = [Token("number" if kind == "word" and any(map(str.isdigit, written)) else kind, written)]
        if kind == "compound":
            parts = [
                Token("number" if any(map(str.isdigit, one)) else "part", one) for one in written.split("-")
            ]
            made = [Token("number" if any(one.kind == "number" for one in parts) else kind, written), *parts]
        elif found["host"] is not None:
            whole = found["path"] is not None
            made = [Token("url", written)] if whole else []
            made.append(Token("host", written[: len(written) - len(found["path"] or "")]))
            made += [Token("path", found["path"])] if whole else []
        yield found.start(), found.end(), made


def lexeme_maker(configuration: str) -> Callable[[Token], str | None]:
    """What makes the lexeme of a token, None for a stop word; ValueError for an unknown name."""
    name = configuration.lower().removeprefix("pg_catalog.")
    if name not in CONFIGURATIONS:
        raise ValueError(f'text search configuration "{configuration}" does not exist')
    if name == "simple":
        return lambda token: token.text.lower()
    stem = stemmer()

    def lexeme(token: Token) -> str | None:
        word = token.text.lower()
        if token.kind not in STEMMED:
            return word
        return None if word in STOPS else stem(word)

    return lexeme


@functools.cache
def stemmer() -> Callable[[str], str]:
    """What cuts the endings off English words."""
    try:
        import snowballstemmer  # type: ignore[import-untyped]
    except ImportError:
        raise NotSupportedError(
            "text search in English is not supported without the package snowballstemmer",
            hint="install kpg[textsearch], or use the configuration simple",
        ) from None
    stem: Callable[[str], str] = functools.lru_cache(1 << 16)(snowballstemmer.stemmer("english").stemWord)
    return stem


def lexemes(configuration: str, text: str, first: int = 1) -> tuple[list[tuple[str, int]], int]:
    """The lexemes of a text with their places from ``first`` on, and the next place."""
    make = lexeme_maker(configuration)
    found: list[tuple[str, int]] = []
    at = first
    for _, _, made in tokens(text):
        for token in made:
            lexeme = make(token)
            if lexeme is not None:
                found.append((lexeme, at))
            at += 1
    return found, at
