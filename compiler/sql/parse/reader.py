"""Token reader for statements that sqlglot does not parse.

sqlglot's parser reads the expressions, types and queries in them. An unexpected word is a syntax
error at its position.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse.call_syntax import escaped
from kpg.compiler.sql.parse.dialect import Dialect
from kpg.compiler.sql.parse.strictness import check
from kpg.compiler.sql.parse.syntax import rendered_error, transformed, without_database
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.parse.type_names import last_field, second_digits, sql_type
from kpg.runtime.errors import Error, NotSupportedError, ProgrammingError, Span
from kpg.runtime.interrupts import DeepCalls
from kpg.runtime.types import Type

INCOMPLETE: Final = (TokenType.ALIAS, TokenType.SELECT)
"""What no statement ends with, though the parser would take it."""
QUOTED: Final = (TokenType.STRING, TokenType.IDENTIFIER)
TEXTS: Final = (
    TokenType.STRING,
    TokenType.HEREDOC_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
    TokenType.BYTE_STRING,
)
NO_NAME: Final = frozenset(
    [
        "ALL",
        "AND",
        "ANY",
        "AS",
        "CASE",
        "CAST",
        "CHECK",
        "CONSTRAINT",
        "CREATE",
        "DEFAULT",
        "DISTINCT",
        "ELSE",
        "EXCEPT",
        "FOREIGN",
    ]
)
"""Some of the words that Postgres reserves: where a name should be, they show that it was forgotten."""


class Reader:
    """A cursor over the tokens of one statement."""

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.text = text
        self.tokens = tokens
        self.span = Span(text, tokens[0].start, tokens[-1].end + 1)
        self.digits: int | None = None
        """Digits of a second that the last type has, None if it does not say."""
        self._parser: Any = Dialect().parser()
        self._parser.reset()
        self._parser.sql = text
        self._parser._chunks = [tokens]
        self._parser._chunk_index = 0
        self._parser._advance_chunk()

    @property
    def place(self) -> int:
        """How many tokens have been taken."""
        return int(self._parser._index)

    @property
    def done(self) -> bool:
        """Whether all have."""
        return self.place >= len(self.tokens)

    def at(self, *words: str) -> bool:
        """Whether these words, in capitals, come next."""
        return self._matched(words) > 0

    def take(self, *words: str) -> bool:
        """As :meth:`at`, and goes past them if so."""
        count = self._matched(words)
        self._parser._advance(count) if count else None
        return count > 0

    def need(self, *words: str) -> None:
        """Go past words that have to be there."""
        if not self.take(*words):
            self.unexpected(" ".join(words))

    def choice(self, *words: str) -> str:
        """Which of some words, or of some sequences of them, comes next; it has to be one."""
        for word in words:
            if self.take(*word.split()):
                return word
        self.unexpected(" or ".join(words))

    def name(self) -> str:
        """An identifier."""
        if self.done:
            self.unexpected("a name")
        token = self.tokens[self.place]
        plain = token.token_type is not TokenType.STRING and (
            token.text[:1].isalpha() or token.text[:1] == "_"
        )
        if token.token_type is not TokenType.IDENTIFIER and (not plain or token.text.upper() in NO_NAME):
            self.unexpected("a name")
        self._parser._advance()
        return token.text

    def folded(self) -> str:
        """An identifier, in lower case unless it is in quotes."""
        quoted = not self.done and self.tokens[self.place].token_type is TokenType.IDENTIFIER
        name = self.name()
        return name if quoted else name.lower()

    def relation(self) -> str:
        """A name, perhaps with its schema before it."""
        first = self.place
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        if any("." in part for part in parts):
            span = Span(self.text, self.tokens[first].start, self.tokens[self.place - 1].end + 1)
            hint = "schema.name stands for a name in a schema"
            raise NotSupportedError("a name with a dot in it is not supported", span=span, hint=hint)
        if len(parts) > 2:
            span = Span(self.text, self.tokens[first].start, self.tokens[self.place - 1].end + 1)
            parts = without_database(parts, span)
        return ".".join(parts)

    def names(self) -> tuple[str, ...]:
        """Names between parentheses."""
        self.need("(")
        found = [self.name()]
        while self.take(","):
            found.append(self.name())
        self.need(")")
        return tuple(found)

    def dropped(self) -> tuple[bool, str, str]:
        """``[IF EXISTS] name ON relation [CASCADE | RESTRICT]``, to the end: if so, and the names."""
        exists = self.take("IF", "EXISTS")
        name = self.name()
        self.need("ON")
        relation = self.relation()
        if not self.take("CASCADE"):
            self.take("RESTRICT")
        self.end()
        return exists, name, relation

    def relations(self) -> tuple[str, ...]:
        """Names of relations, with commas between them."""
        found = [self.relation()]
        while self.take(","):
            found.append(self.relation())
        return tuple(found)

    def string(self) -> str:
        """A text in quotes or between dollars."""
        if self.done or self.tokens[self.place].token_type not in TEXTS:
            self.unexpected("a text in quotes")
        token = self.tokens[self.place]
        if token.token_type is TokenType.BYTE_STRING:
            try:
                text = escaped(self.text[token.start : token.end + 1])
            except ValueError as error:
                self.wrong(f"invalid escape string: {error}")
        else:
            text = str(token.text)
        self._parser._advance()
        return text

    def take_text(self) -> bool:
        """Go past a text in quotes, if that comes next."""
        is_text = not self.done and self.tokens[self.place].token_type in TEXTS
        self._parser._advance(1) if is_text else None
        return is_text

    def number(self) -> int:
        """A whole number, perhaps with a sign."""
        sign = -1 if self.take("-") else 1
        self.take("+")
        if self.done or not self.tokens[self.place].text.isdigit():
            self.unexpected("a number")
        self._parser._advance()
        return sign * int(self.tokens[self.place - 1].text)

    def type(self) -> Type:
        """The name of a type."""
        node = self._parsed(lambda: self._parser._parse_types(check_func=False, schema=True), "a type")
        if not isinstance(node, exp.DataType):
            self.unexpected("a type")
        self.digits = second_digits(node)
        if last_field(node):
            self.skip(-1)
            self.refuse("a column of an INTERVAL of some fields", "have them cut by a cast")
        return sql_type(node, self.text)

    def value(self) -> str:
        """The text of an expression without AND, OR and comparisons."""
        return self._text_of(self._parser._parse_bitwise)

    def condition(self) -> str:
        """The text of an expression."""
        return self._text_of(self._parser._parse_disjunction)

    def expression(self) -> exp.Expr:
        """An expression."""
        return self._parsed(self._parser._parse_disjunction, "an expression")

    def operand(self) -> exp.Expr:
        """An expression without AND, OR and comparisons."""
        return self._parsed(self._parser._parse_bitwise, "an expression")

    def enclosed(self) -> str:
        """The text of an expression between parentheses, without these."""
        self.need("(")
        text = self.condition()
        self.need(")")
        return text

    def rest(self) -> Sequence[Token]:
        """The tokens that have not been taken."""
        return self.tokens[self.place :]

    def skip(self, count: int) -> None:
        """Go past some tokens."""
        if count > len(self.tokens) - self.place:
            self.unexpected()
        self._parser._advance(count)

    def skip_enclosed(self) -> None:
        """Go past what is between parentheses, whatever it is."""
        self.need("(")
        depth = 1
        while depth:
            if self.done:
                self.unexpected(")")
            depth += (self.at("(")) - (self.at(")"))
            self.skip(1)

    def query(self, stop: int | None = None) -> tuple[exp.Expr, Span]:
        """The tokens up to ``stop``, all if None, as a query, and its place."""
        tokens = self.tokens[self.place : stop]
        if not tokens:
            self.unexpected("a query")
        tree = tree_of(tokens, self.text)
        self._parser._advance(len(tokens))
        return tree, Span(self.text, tokens[0].start, tokens[-1].end + 1)

    def end(self) -> None:
        """Nothing may be left."""
        if not self.done:
            self.unexpected()

    def here(self) -> Span:
        """The place of the next token, of the last one at the end."""
        token = self.tokens[min(self.place, len(self.tokens) - 1)]
        return Span(self.text, token.start, token.end + 1)

    def unexpected(self, wanted: str = "") -> NoReturn:
        """Raise that the next token is not what was wanted."""
        where = "at the end of the statement"
        if not self.done:
            span = self.here()
            where = f'at "{self.text[span.start : span.end]}"'
        hint = f"expected {wanted}" if wanted else None
        raise ProgrammingError(f"syntax error {where}", span=self.here(), hint=hint)

    def refuse(self, construct: str, hint: str | None = None) -> NoReturn:
        """Raise that something, which is at the next token, is not supported."""
        raise NotSupportedError(f"{construct} is not supported", span=self.here(), hint=hint)

    def wrong(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise ProgrammingError at the next token."""
        raise ProgrammingError(message, span=self.here(), hint=hint)

    def _matched(self, words: Sequence[str]) -> int:
        """How many tokens the words are, of which one may hold several; 0 if others come next."""
        left = list(words)
        index = self.place
        while left:
            if index >= len(self.tokens) or self.tokens[index].token_type in QUOTED:
                return 0
            found = self.tokens[index].text.upper().split()
            if left[: len(found)] != found:
                return 0
            del left[: len(found)]
            index += 1
        return index - self.place

    def _text_of(self, parse: Callable[[], exp.Expr | None]) -> str:
        start = self.place
        self._parsed(parse, "an expression")
        return self.text[self.tokens[start].start : self.tokens[self.place - 1].end + 1]

    def _parsed(self, parse: Callable[[], exp.Expr | None], wanted: str) -> exp.Expr:
        start = self.place
        if self.done:
            self.unexpected(wanted)
        try:
            node = parse()
        except ParseError as error:
            raise rendered_error(error, self.tokens, self.text) from None
        except Error:
            raise
        except Exception as error:
            raise ProgrammingError("syntax error", span=self.span) from error
        if node is None or self.place == start:
            self.unexpected(wanted)
        return node


DEEP: Final = DeepCalls(20_000)
"""How deep calls may go while a statement is parsed."""


def tree_of(tokens: list[Token], text: str) -> exp.Expr:
    """The syntax tree of some tokens, which are a statement."""
    span = Span(text, tokens[0].start, tokens[-1].end + 1)
    last = tokens[-1]
    if last.token_type in INCOMPLETE:
        place = Span(text, last.start, last.end + 1)
        raise ProgrammingError("syntax error at the end of the statement", span=place)
    try:
        with DEEP:
            tree = next(iter(Dialect().parser().parse(tokens, text)), None)
    except ParseError as error:
        raise rendered_error(error, tokens, text) from None
    except Error:
        raise
    except RecursionError:
        raise NotSupportedError("a statement nested this deep is not supported", span=span) from None
    except Exception as error:
        # The parser fails in its own ways on texts that are nearly SQL.
        raise ProgrammingError("syntax error", span=span) from error
    if tree is None:
        raise ProgrammingError("syntax error", span=span)
    check(tree, tokens, text)
    return tree


def parsed_expression(text: str) -> exp.Expr:
    """The tree of an expression that is kept as text; it has no place in any statement."""
    node = Reader(tokenize(text), text).expression()
    for part in node.walk():
        part.meta.clear()
    return node


@lru_cache(maxsize=512)
def parsed_query(text: str) -> exp.Expr:
    """The same of a query; it is kept, so whoever changes it changes a copy."""
    node = tree_of(tokenize(text), text)
    for part in node.walk():
        part.meta.clear()
    return node


def setting_value(reader: Reader) -> str:
    """One value of a setting."""
    if reader.take("DEFAULT"):
        return "DEFAULT"
    sign = "-" if reader.take("-") else ""
    if reader.done:
        reader.unexpected("a value")
    text = reader.tokens[reader.place].text
    reader.skip(1)
    if text.upper() == "INTERVAL":
        text = reader.string()
        unit = "hour" if reader.take("HOUR") else ""
        if unit and reader.take("TO"):
            reader.need("MINUTE")
            unit = "minute"
        text = f"interval '{text}{f' {unit}' if text.lstrip('+-').isdecimal() else ''}'"
    return sign + str(text)


@lru_cache(maxsize=512)
def body_of(text: str) -> exp.Expr:
    """The query that a body ends with, without places: they would be those of another text."""
    found: exp.Expr | None = None
    for tokens in _statements(tokenize(text)):
        found = tree_of(tokens, text)
        if not isinstance(found, exp.Query | exp.Values) or found.args.get("into") is not None:
            raise NotSupportedError(
                "a function that does anything but query is not supported",
                span=Span(text, tokens[0].start, tokens[-1].end + 1),
                hint="its body is SELECT or VALUES",
            )
    if found is None:
        raise ProgrammingError("the body of a function is empty")
    tree = transformed(found, _named)
    for part in tree.walk():
        part.meta.clear()
    return tree


@lru_cache(maxsize=512)
def texts_of(text: str) -> tuple[str, ...]:
    """The statements of a body as they are written."""
    return tuple(text[part[0].start : part[-1].end + 1] for part in _statements(tokenize(text)))


def _statements(tokens: list[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


def _named(node: exp.Expr) -> exp.Expr:
    """``$1`` as the name of a column."""
    if isinstance(node, exp.Parameter) and node.name.isdigit():
        return exp.column(exp.to_identifier(f"${node.name}", quoted=True))
    return node
