"""Tokens of a script: sqlglot's tokenizer with Postgres' numbers and Postgres' errors.

sqlglot's parser accepts some invalid tokens and drops a part of them; these are errors here. The
schema ``pg_catalog`` is removed from operators, types and collations: ``OPERATOR(pg_catalog.~)`` is
``~``, ``x::pg_catalog.text`` is ``x::text``. Functions and relations keep theirs.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse.call_syntax import decode_unicode_string
from kpg.compiler.sql.parse.dialect import Dialect
from kpg.runtime.errors import DataError, ProgrammingError, Span
from kpg.runtime.records import dataclass

PG_CATALOG: Final = "pg_catalog"


def strip_pg_catalog(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with unqualified operators, types and collations."""
    result: list[Token] = []
    place = 0
    while place < len(tokens):
        found = _operator_range(tokens, place)
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
    if place + 1 >= len(tokens) or tokens[place].text.lower() != PG_CATALOG:
        return False
    return tokens[place + 1].token_type is TokenType.DOT


def _wants_type(token: Token) -> bool:
    return token.token_type is TokenType.DCOLON or token.text.upper() in ("COLLATE", "AS")


def _operator_range(tokens: Sequence[Token], place: int) -> tuple[int, int] | None:
    """Return the range of tokens of the operator in ``OPERATOR ( schema . operator )``; None elsewhere."""
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
UNSUPPORTED_OPERATORS: Final = frozenset(("`", "?::", "->>>", "|>"))
"""Tokens that sqlglot takes for operators and Postgres rejects."""
CLAUSES: Final = (
    *("from", "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for", "union"),
    *("intersect", "except", "returning"),
)
CONNECTIVES: Final = (
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
FORBIDDEN_AFTER: Final = {
    ",": frozenset((*CLAUSES, *CONNECTIVES, *CLOSING, "select", "with")),
    "(": frozenset((*CONNECTIVES, "]", ";")) - {"as"},
    "select": frozenset((*CONNECTIVES, "]", ";")),
    "by": frozenset((*CLAUSES, *CONNECTIVES, *CLOSING)),
    "where": frozenset((*CLAUSES, *CONNECTIVES, *CLOSING)),
    "having": frozenset((*CLAUSES, *CONNECTIVES, *CLOSING)),
    **dict.fromkeys(OPERATORS, frozenset((*CLAUSES, *CONNECTIVES, *CLOSING, "select"))),
}
"""Words that cannot follow a word or sign; all are reserved in Postgres."""
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
FREE_STATEMENTS: Final = frozenset(("grant", "revoke", "fetch", "move", "alter", "set"))
"""First words of statements in which reserved words can stand anywhere."""
CLAUSE_RESETS: Final = frozenset(
    ("select", "union", "intersect", "except", "values", "set", "do", "with", "table")
)
"""Words after which the clauses of a query start over."""


PARAMETER: Final = re.compile(r"\$\d")
QUOTED_OR_PARAMETER: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?<![\w$])(\$(?:[^\W\d]\w*)?\$).*?\1"""
    r"""| (?<![\w$])\$(?P<place>\d+)""",
    re.VERBOSE | re.DOTALL,
)
"""Quoted text, comments, and parameters with their number."""


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a script.

    Raises:
        ProgrammingError: A string, name or comment does not end, or Postgres rejects a token.
        DataError: The text has half of a surrogate pair.
    """
    if not text.isascii():
        _refuse_surrogates(text)
    try:
        tokens = Dialect().tokenize(_mask_parameters(text) if PARAMETER.search(text) else text)
    except TokenError as error:
        span = _unterminated_span(text, error)
        raise ProgrammingError("a string, name or comment does not end", span=span) from None
    tokens = [_unmask_parameter(text, token) for token in tokens] if PARAMETER.search(text) else tokens
    tokens = _retokenize_numbers(text, tokens)
    if 'u&"' in text or 'U&"' in text:
        tokens = _join_unicode_names(text, tokens)
    if PG_CATALOG in text:
        tokens = strip_pg_catalog(tokens)
    _check_order(text, tokens)
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and (not token.text or "\0" in token.text):
            problem = "has no letters" if not token.text else "has a character that no name can have, U+0000"
            raise ProgrammingError(f"a name {problem}", span=Span(text, token.start, token.end + 1))
    return tokens


def _refuse_surrogates(text: str) -> None:
    """Raise DataError for half of a surrogate pair, which cannot be sent to a client."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"text with U+{code:04X}, half of a surrogate pair, is not Unicode"
        raise DataError(message, span=Span(text, error.start, error.start + 1)) from None


def _mask_parameters(text: str) -> str:
    """Return the text with ``?`` for the ``$`` of parameters: sqlglot would begin a string at ``$1,$``."""
    return QUOTED_OR_PARAMETER.sub(lambda found: f"?{found['place']}" if found["place"] else found[0], text)


def _unmask_parameter(text: str, token: Token) -> Token:
    if token.text != "?" or text[token.start] != "$":
        return token
    return Token(TokenType.PARAMETER, "$", token.line, token.col, token.start, token.end, token.comments)


def _unterminated_span(text: str, error: TokenError) -> Span:
    """Return the span from the start of an unterminated token to the end of the text."""
    found = re.search(r"from \d+:(\d+)$", str(error.__cause__ or error))
    start = int(found[1]) if found is not None else len(text) - 1
    return Span(text, max(0, min(start, len(text) - 1)), len(text))


def _retokenize_numbers(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with numbers tokenized by Postgres' rules.

    sqlglot ends some numbers too late or too early.
    """
    result: list[Token] = []
    rest = deque(tokens)
    while rest:
        token = rest.popleft()
        if token.token_type not in NUMERIC or not text[token.start].isdigit() or _is_parameter_number(result):
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
            rest.extendleft(
                reversed(_shift_tokens(Dialect().tokenize(text[stop : last.end + 1]), stop, last))
            )
        column = last.col - (last.end + 1 - stop)
        value = _decimal(found[0])
        result.append(
            Token(TokenType.NUMBER, value, token.line, column, token.start, stop - 1, token.comments)
        )
    return result


def _join_unicode_names(text: str, tokens: Sequence[Token]) -> list[Token]:
    r"""Return the tokens with ``U&"d\0061ta"``, three tokens of sqlglot, as one name."""
    result: list[Token] = []
    rest = deque(tokens)
    while rest:
        token = rest.popleft()
        is_unicode_name = token.text.lower() == "u" and len(rest) > 1 and rest[0].token_type is TokenType.AMP
        if (
            not is_unicode_name
            or rest[1].token_type is not TokenType.IDENTIFIER
            or rest[1].start != token.start + 2
        ):
            result.append(token)
            continue
        rest.popleft()
        name = rest.popleft()
        sign = "\\"
        if len(rest) > 1 and rest[0].text.lower() == "uescape":
            rest.popleft()
            sign = rest.popleft().text
        source = text[token.start : name.end + 1]
        try:
            value = decode_unicode_string(source.replace('""', '"'), sign)
        except ValueError as error:
            raise ProgrammingError(str(error), span=Span(text, token.start, name.end + 1)) from None
        name_token = Token(
            TokenType.IDENTIFIER, value, name.line, name.col, token.start, name.end, token.comments
        )
        result.append(name_token)
    return result


def _is_parameter_number(preceding: Sequence[Token]) -> bool:
    """Return whether a number after these tokens is the number of a parameter."""
    return bool(preceding) and preceding[-1].token_type in (TokenType.PARAMETER, TokenType.PLACEHOLDER)


def _in_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _decimal(text: str) -> str:
    plain = text.replace("_", "")
    base = BASES.get(plain[1:2].lower()) if plain[0] == "0" else None
    return plain if base is None else str(int(plain[2:], base))


def _shift_tokens(tokens: Sequence[Token], offset: int, last: Token) -> list[Token]:
    """Return the tokens of a part of the text with positions in the whole text.

    The part begins at ``offset`` and ends with the token ``last``.
    """
    return [
        Token(
            token.token_type,
            token.text,
            last.line,
            last.col - (last.end - offset - token.end),
            token.start + offset,
            token.end + offset,
        )
        for token in tokens
    ]


def _begins_clause(word: str, written: str, previous: str) -> bool:
    """Return whether a clause of a query begins at a word.

    ``previous`` is the previous word. ``written`` is the whole token, which can have two words.
    """
    if word not in CLAUSE_ORDER or written in ("group", "order"):
        return False
    return previous not in ("distinct", "within", ".", "as", "rows")


def _check_order(text: str, tokens: Sequence[Token]) -> None:
    """Raise a syntax error for forbidden neighbors, and for brackets or clauses out of order."""
    open_brackets: list[_OpenBracket] = [_OpenBracket(None, "")]
    last: Token | None = None
    word, ending, is_free = "", "", False
    for token in tokens:
        if last is None or last.token_type is TokenType.SEMICOLON:
            is_free = token.text.lower() in FREE_STATEMENTS
        previous, written = ending, text[token.start : token.end + 1].lower()
        # Some tokens have two words, such as GROUP BY.
        word, ending = (
            (written.split()[0], written.split()[-1]) if written[0].isalpha() else (written, written)
        )
        is_operator_option = (previous == "using" and word in ("<", ">")) or (
            previous == "with" and word in ("=", "<>")
        )
        if word == ending == "by" or is_operator_option:
            ending = ""
        is_free = is_free or (word == "policy" and previous in ("create", "alter"))
        if is_free:
            pass
        elif (
            word in UNSUPPORTED_OPERATORS
            or word in FORBIDDEN_AFTER.get(previous, ())
            or (last and _is_bad_adjacency(text, last, token))
        ):
            raise syntax_error(text, token)
        if word in ("(", "["):
            open_brackets.append(_OpenBracket(token, word))
        elif word in (")", "]"):
            closed = open_brackets.pop()
            if (closed.sign, word) not in (("(", ")"), ("[", "]")):
                raise syntax_error(text, token)
        elif word == ";":
            _check_closed(text, open_brackets)
            open_brackets = [_OpenBracket(None, "")]
        elif word in CLAUSE_RESETS:
            open_brackets[-1].clause = 0
        elif not is_free and _begins_clause(word, written, previous):
            clause = CLAUSE_ORDER[word]
            if (
                clause < open_brackets[-1].clause
                or clause == open_brackets[-1].clause < CLAUSE_ORDER["limit"]
            ):
                raise syntax_error(text, token)
            open_brackets[-1].clause = clause
        last = token
    _check_closed(text, open_brackets)
    if last is not None and ending in FORBIDDEN_AFTER and ending != "(":
        span = Span(text, last.start, last.end + 1)
        raise ProgrammingError("syntax error at the end of the statement", span=span)


@dataclass(slots=True)
class _OpenBracket:
    """Open bracket, and the position in CLAUSE_ORDER of the last clause in it."""

    token: Token | None
    sign: str
    clause: int = 0


def _check_closed(text: str, open_brackets: Sequence[_OpenBracket]) -> None:
    token = open_brackets[-1].token
    if token is not None:
        span = Span(text, token.start, token.end + 1)
        raise ProgrammingError(f'syntax error: "{open_brackets[-1].sign}" is not closed', span=span)


def _is_bad_adjacency(text: str, last: Token, token: Token) -> bool:
    """Return whether two tokens cannot be adjacent because of the text between them."""
    if last.token_type is TokenType.STRING and token.token_type is TokenType.STRING:
        return "\n" not in text[last.end + 1 : token.start]
    return (
        last.token_type is TokenType.DOT
        and token.token_type is TokenType.NUMBER
        and last.end + 1 != token.start
    )


def syntax_error(text: str, token: Token) -> ProgrammingError:
    """Return a syntax error at a token."""
    written = text[token.start : token.end + 1]
    return ProgrammingError(f'syntax error at "{written}"', span=Span(text, token.start, token.end + 1))
