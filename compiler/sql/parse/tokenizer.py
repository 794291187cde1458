"""The tokens of a script: sqlglot's tokenizer with Postgres' numbers, and errors for what Postgres rejects.

sqlglot's parser accepts some invalid tokens and drops a part of them; these are errors here. The schema
``pg_catalog`` is removed from operators, types and collations: ``OPERATOR(pg_catalog.~)`` is ``~``,
``x::pg_catalog.text`` is ``x::text``. Functions and relations keep theirs.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse.call_syntax import unicode
from kpg.compiler.sql.parse.dialect import Dialect
from kpg.runtime.errors import DataError, ProgrammingError, Span
from kpg.runtime.records import dataclass

SCHEMA: Final = "pg_catalog"


def unqualified(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with plain operators and types."""
    result: list[Token] = []
    place = 0
    while place < len(tokens):
        found = _operator(tokens, place)
        if found:
            result.extend(tokens[found[0] : found[1]])
            place = found[1] + 1
        elif _is_schema(tokens, place) and result and _wants_type(result[-1]):
            place += 2
        else:
            result.append(tokens[place])
            place += 1
    return result


def _is_schema(tokens: Sequence[Token], place: int) -> bool:
    if place + 1 >= len(tokens) or tokens[place].text.lower() != SCHEMA:
        return False
    return tokens[place + 1].token_type is TokenType.DOT


def _wants_type(token: Token) -> bool:
    return token.token_type is TokenType.DCOLON or token.text.upper() in ("COLLATE", "AS")


def _operator(tokens: Sequence[Token], place: int) -> tuple[int, int] | None:
    """Where the operator of ``OPERATOR ( schema . operator )`` begins, and the parenthesis behind it."""
    if tokens[place].text.upper() != "OPERATOR" or place + 3 >= len(tokens):
        return None
    if tokens[place + 1].token_type is not TokenType.L_PAREN:
        return None
    start = place + 4 if _is_schema(tokens, place + 2) else place + 2
    end = next(
        (at for at in range(start, len(tokens)) if tokens[at].token_type is TokenType.R_PAREN), len(tokens)
    )
    return (start, end) if start < end < len(tokens) else None


NUMBER: Final = re.compile(
    r"0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+"
    r"|(?:\d(?:_?\d)*)(?:\.(?:\d(?:_?\d)*)?)?(?:[eE][+-]?\d(?:_?\d)*)?"
)
BASES: Final = {"x": 16, "o": 8, "b": 2}
NUMERIC: Final = frozenset((TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING))
FOREIGN: Final = frozenset(("`", "?::", "->>>", "|>"))
"""What sqlglot takes for operators, and Postgres does not."""
CLAUSES: Final = (
    *("from", "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for", "union"),
    *("intersect", "except", "returning"),
)
JOINING: Final = (
    *("on", "using", "join", "then", "else", "end", "when", "as", "and", "or", "into", "asc", "desc", "is"),
    ",",
)
CLOSING: Final = (")", "]", ";")
OPERATORS: Final = (
    "+",
    "-",
    "/",
    "%",
    "=",
    "<",
    ">",
    "<=",
    ">=",
    "<>",
    "!=",
    "||",
    "::",
    "~",
    "and",
    "or",
    "not",
)
AFTER: Final = {
    ",": frozenset((*CLAUSES, *JOINING, *CLOSING, "select", "with")),
    "(": frozenset((*JOINING, "]", ";")) - {"as"},
    "select": frozenset((*JOINING, "]", ";")),
    "by": frozenset((*CLAUSES, *JOINING, *CLOSING)),
    "where": frozenset((*CLAUSES, *JOINING, *CLOSING)),
    "having": frozenset((*CLAUSES, *JOINING, *CLOSING)),
    **dict.fromkeys(OPERATORS, frozenset((*CLAUSES, *JOINING, *CLOSING, "select"))),
}
"""Words that cannot come after a word or sign: in Postgres all of these are reserved."""
CLAUSE_ORDER: Final = {
    "from": 1,
    "where": 2,
    "group": 3,
    "having": 4,
    "window": 5,
    "order": 6,
    "limit": 7,
    "offset": 7,
    "fetch": 7,
}
OWN_WORDS: Final = frozenset(("grant", "revoke", "fetch", "move", "alter", "set"))
"""With these begin statements in which words that queries reserve may stand anywhere."""
ANEW: Final = frozenset(("select", "union", "intersect", "except", "values", "set", "do", "with", "table"))
"""Behind these the clauses of a query may come again."""


PLACE: Final = re.compile(r"\$\d")
QUOTED: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?<![\w$])(\$(?:[^\W\d]\w*)?\$).*?\1"""
    r"""| (?<![\w$])\$(?P<place>\d+)""",
    re.VERBOSE | re.DOTALL,
)
"""What is quoted, or in a comment, or a parameter's number."""


def tokenize(text: str) -> list[Token]:
    """The tokens of a script; ProgrammingError for what does not end, or is no token of Postgres."""
    if not text.isascii():
        _refuse_halves(text)
    try:
        tokens = Dialect().tokenize(_masked(text) if PLACE.search(text) else text)
    except TokenError as error:
        span = _broken_token(text, error)
        raise ProgrammingError("a string, name or comment does not end", span=span) from None
    tokens = [_unmasked(text, token) for token in tokens] if PLACE.search(text) else tokens
    tokens = _with_numbers(text, tokens)
    if 'u&"' in text or 'U&"' in text:
        tokens = _with_escaped_names(text, tokens)
    if SCHEMA in text:
        tokens = unqualified(tokens)
    _check(text, tokens)
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and (not token.text or "\0" in token.text):
            what = "has no letters" if not token.text else "has a character that no name can have, U+0000"
            raise ProgrammingError(f"a name {what}", span=Span(text, token.start, token.end + 1))
    return tokens


def _refuse_halves(text: str) -> None:
    """DataError for a half of a surrogate pair, which no client could be sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"text with U+{code:04X}, half of a surrogate pair, is not Unicode"
        raise DataError(message, span=Span(text, error.start, error.start + 1)) from None


def _masked(text: str) -> str:
    """The text with another sign for that of parameters: sqlglot would begin a string at ``$1,$``."""
    return QUOTED.sub(lambda found: f"?{found['place']}" if found["place"] else found[0], text)


def _unmasked(text: str, token: Token) -> Token:
    if token.text != "?" or text[token.start] != "$":
        return token
    return Token(TokenType.PARAMETER, "$", token.line, token.col, token.start, token.end, token.comments)


def _broken_token(text: str, error: TokenError) -> Span:
    """From where the token starts, which sqlglot says as an offset, to the end of the text."""
    found = re.search(r"from \d+:(\d+)$", str(error.__cause__ or error))
    start = int(found[1]) if found is not None else len(text) - 1
    return Span(text, max(0, min(start, len(text) - 1)), len(text))


def _with_numbers(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens with every number read anew: sqlglot ends some too late, others too early."""
    result: list[Token] = []
    rest = deque(tokens)
    while rest:
        token = rest.popleft()
        if token.token_type not in NUMERIC or not text[token.start].isdigit() or _is_place(result):
            result.append(token)
            continue
        found = NUMBER.match(text, token.start)
        assert found is not None
        stop = found.end()
        if text[stop : stop + 1] == "_" or text[stop : stop + 1].isalnum():
            end = next((place for place in range(stop, len(text)) if not _in_word(text[place])), len(text))
            raise ProgrammingError("trailing junk after numeric literal", span=Span(text, token.start, end))
        last = token
        while rest and rest[0].start < stop:
            last = rest.popleft()
        if last.end >= stop:
            rest.extendleft(reversed(_moved(Dialect().tokenize(text[stop : last.end + 1]), stop, last)))
        column = last.col - (last.end + 1 - stop)
        value = _decimal(found[0])
        result.append(
            Token(TokenType.NUMBER, value, token.line, column, token.start, stop - 1, token.comments)
        )
    return result


def _with_escaped_names(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens with ``U&"d\\0061ta"``, which are three, as the name that they stand for."""
    result: list[Token] = []
    rest = deque(tokens)
    while rest:
        token = rest.popleft()
        three = token.text.lower() == "u" and len(rest) > 1 and rest[0].token_type is TokenType.AMP
        if not three or rest[1].token_type is not TokenType.IDENTIFIER or rest[1].start != token.start + 2:
            result.append(token)
            continue
        rest.popleft()
        name = rest.popleft()
        sign = "\\"
        if len(rest) > 1 and rest[0].text.lower() == "uescape":
            rest.popleft()
            sign = rest.popleft().text
        written = text[token.start : name.end + 1]
        try:
            value = unicode(written.replace('""', '"'), sign)
        except ValueError as error:
            raise ProgrammingError(str(error), span=Span(text, token.start, name.end + 1)) from None
        made = Token(TokenType.IDENTIFIER, value, name.line, name.col, token.start, name.end, token.comments)
        result.append(made)
    return result


def _is_place(before: Sequence[Token]) -> bool:
    """Whether a number behind these tokens says which parameter is meant."""
    return bool(before) and before[-1].token_type in (TokenType.PARAMETER, TokenType.PLACEHOLDER)


def _in_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _decimal(text: str) -> str:
    plain = text.replace("_", "")
    base = BASES.get(plain[1:2].lower()) if plain[0] == "0" else None
    return plain if base is None else str(int(plain[2:], base))


def _moved(tokens: Sequence[Token], by: int, last: Token) -> list[Token]:
    """Tokens of a stretch of text that begins at ``by`` and ends where ``last`` does."""
    return [
        Token(
            token.token_type,
            token.text,
            last.line,
            last.col - (last.end - by - token.end),
            token.start + by,
            token.end + by,
        )
        for token in tokens
    ]


def _begins_clause(word: str, written: str, before: str) -> bool:
    """Whether a clause of a query begins here: ``before`` is the word before, ``written`` the whole token."""
    if word not in CLAUSE_ORDER or written in ("group", "order"):
        return False
    return before not in ("distinct", "within", ".", "as", "rows")


def _check(text: str, tokens: Sequence[Token]) -> None:
    """ProgrammingError for tokens that cannot follow each other, brackets and clauses out of order."""
    opened: list[_Open] = [_Open(None, "")]
    last: Token | None = None
    word, ending, free = "", "", False
    for token in tokens:
        if last is None or last.token_type is TokenType.SEMICOLON:
            free = token.text.lower() in OWN_WORDS
        before, written = ending, text[token.start : token.end + 1].lower()
        # Some tokens are two words, such as GROUP BY.
        word, ending = (
            (written.split()[0], written.split()[-1]) if written[0].isalpha() else (written, written)
        )
        sign = (before == "using" and word in ("<", ">")) or (before == "with" and word in ("=", "<>"))
        if word == ending == "by" or sign:
            ending = ""
        free = free or (word == "policy" and before in ("create", "alter"))
        if free:
            pass
        elif word in FOREIGN or word in AFTER.get(before, ()) or (last and _apart(text, last, token)):
            raise syntax_error(text, token)
        if word in ("(", "["):
            opened.append(_Open(token, word))
        elif word in (")", "]"):
            closed = opened.pop()
            if (closed.sign, word) not in (("(", ")"), ("[", "]")):
                raise syntax_error(text, token)
        elif word == ";":
            _close(text, opened)
            opened = [_Open(None, "")]
        elif word in ANEW:
            opened[-1].clause = 0
        elif not free and _begins_clause(word, written, before):
            clause = CLAUSE_ORDER[word]
            if clause < opened[-1].clause or clause == opened[-1].clause < CLAUSE_ORDER["limit"]:
                raise syntax_error(text, token)
            opened[-1].clause = clause
        last = token
    _close(text, opened)
    if last is not None and ending in AFTER and ending != "(":
        span = Span(text, last.start, last.end + 1)
        raise ProgrammingError("syntax error at the end of the statement", span=span)


@dataclass(slots=True)
class _Open:
    """A bracket that is open, and how far the clauses in it have come."""

    token: Token | None
    sign: str
    clause: int = 0


def _close(text: str, opened: Sequence[_Open]) -> None:
    token = opened[-1].token
    if token is not None:
        span = Span(text, token.start, token.end + 1)
        raise ProgrammingError(f'syntax error: "{opened[-1].sign}" is not closed', span=span)


def _apart(text: str, last: Token, token: Token) -> bool:
    """Whether two tokens cannot stand next to each other for what is, or is not, between them."""
    if last.token_type is TokenType.STRING and token.token_type is TokenType.STRING:
        return "\n" not in text[last.end + 1 : token.start]
    return (
        last.token_type is TokenType.DOT
        and token.token_type is TokenType.NUMBER
        and last.end + 1 != token.start
    )


def syntax_error(text: str, token: Token) -> ProgrammingError:
    """That a token cannot stand where it does."""
    written = text[token.start : token.end + 1]
    return ProgrammingError(f'syntax error at "{written}"', span=Span(text, token.start, token.end + 1))
