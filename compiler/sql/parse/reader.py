"""Recursive-descent reader for statements that sqlglot does not parse.

sqlglot's parser reads the expressions, types and queries in them. An unexpected word is a syntax
error at its position.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse.call_syntax import decode_escape_string
from kpg.compiler.sql.parse.dialect import Dialect
from kpg.compiler.sql.parse.features import StatementSpan, statement_span
from kpg.compiler.sql.parse.strictness import check_syntax
from kpg.compiler.sql.parse.syntax import convert_parse_error, strip_database, transform_tree
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.parse.type_names import last_field, second_digits, sql_type
from kpg.runtime.errors import Error, NotSupportedError, ProgrammingError, Span
from kpg.runtime.interrupts import DeepCalls
from kpg.runtime.types import Type

INCOMPLETE: Final = (TokenType.ALIAS, TokenType.SELECT)
"""Tokens that no statement ends with, though sqlglot's parser accepts them."""
QUOTED: Final = (TokenType.STRING, TokenType.IDENTIFIER)
STRING_TOKENS: Final = (
    TokenType.STRING,
    TokenType.HEREDOC_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
    TokenType.BYTE_STRING,
)
RESERVED_WORDS: Final = frozenset(
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
"""Some of Postgres' reserved words. Instead of a name they show that the name is missing."""


class Reader:
    """Cursor over the tokens of one statement. Words are in upper case."""

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.text = text
        self.tokens = tokens
        self.span = Span(text, tokens[0].start, tokens[-1].end + 1)
        self.digits: int | None = None
        """Fractional digits of seconds in the last type read; None if it does not specify them."""
        self._parser: Any = Dialect().parser()
        self._parser.reset()
        self._parser.sql = text
        self._parser._chunks = [tokens]
        self._parser._chunk_index = 0
        self._parser._advance_chunk()

    def statement_span(self) -> StatementSpan:
        """Return the span of the statement, with its features."""
        return statement_span(self.tokens, self.text)

    @property
    def position(self) -> int:
        """Return the index of the next token."""
        return int(self._parser._index)

    @property
    def at_end(self) -> bool:
        """Return whether no token is left."""
        return self.position >= len(self.tokens)

    def at(self, *words: str) -> bool:
        """Return whether the words come next."""
        return self._match_length(words) > 0

    def accept(self, *words: str) -> bool:
        """Skip the words if they come next; return whether they did."""
        count = self._match_length(words)
        self._parser._advance(count) if count else None
        return count > 0

    def expect(self, *words: str) -> None:
        """Skip the words; ProgrammingError if they do not come next."""
        if not self.accept(*words):
            self.fail_unexpected(" ".join(words))

    def expect_one_of(self, *words: str) -> str:
        """Skip and return the one of several words, or sequences of words, that comes next.

        ProgrammingError if none does.
        """
        for word in words:
            if self.accept(*word.split()):
                return word
        self.fail_unexpected(" or ".join(words))

    def name(self) -> str:
        """Read an identifier."""
        if self.at_end:
            self.fail_unexpected("a name")
        token = self.tokens[self.position]
        plain = token.token_type is not TokenType.STRING and (
            token.text[:1].isalpha() or token.text[:1] == "_"
        )
        if token.token_type is not TokenType.IDENTIFIER and (
            not plain or token.text.upper() in RESERVED_WORDS
        ):
            self.fail_unexpected("a name")
        self._parser._advance()
        return token.text

    def folded_name(self) -> str:
        """Read an identifier, in lower case unless it is quoted."""
        quoted = not self.at_end and self.tokens[self.position].token_type is TokenType.IDENTIFIER
        name = self.name()
        return name if quoted else name.lower()

    def relation(self) -> str:
        """Read the name of a relation, with its schema if it has one."""
        first = self.position
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        if any("." in part for part in parts):
            span = Span(self.text, self.tokens[first].start, self.tokens[self.position - 1].end + 1)
            hint = "schema.name stands for a name in a schema"
            raise NotSupportedError("a name with a dot in it is not supported", span=span, hint=hint)
        if len(parts) > 2:
            span = Span(self.text, self.tokens[first].start, self.tokens[self.position - 1].end + 1)
            parts = strip_database(parts, span)
        return ".".join(parts)

    def names(self) -> tuple[str, ...]:
        """Read a list of names in parentheses."""
        self.expect("(")
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        self.expect(")")
        return tuple(found)

    def drop_target(self) -> tuple[bool, str, str]:
        """Read ``[IF EXISTS] name ON relation [CASCADE | RESTRICT]`` to the end.

        Returns:
            Whether IF EXISTS is there, the name and the relation.
        """
        exists = self.accept("IF", "EXISTS")
        name = self.name()
        self.expect("ON")
        relation = self.relation()
        if not self.accept("CASCADE"):
            self.accept("RESTRICT")
        self.expect_end()
        return exists, name, relation

    def relations(self) -> tuple[str, ...]:
        """Read names of relations, separated by commas."""
        found = [self.relation()]
        while self.accept(","):
            found.append(self.relation())
        return tuple(found)

    def string(self) -> str:
        """Read a string constant."""
        if self.at_end or self.tokens[self.position].token_type not in STRING_TOKENS:
            self.fail_unexpected("a text in quotes")
        token = self.tokens[self.position]
        if token.token_type is TokenType.BYTE_STRING:
            try:
                text = decode_escape_string(self.text[token.start : token.end + 1])
            except ValueError as error:
                self.fail(f"invalid escape string: {error}")
        else:
            text = str(token.text)
        self._parser._advance()
        return text

    def accept_string(self) -> bool:
        """Skip a string constant if it comes next; return whether it did."""
        is_text = not self.at_end and self.tokens[self.position].token_type in STRING_TOKENS
        self._parser._advance(1) if is_text else None
        return is_text

    def number(self) -> int:
        """Read an integer with an optional sign."""
        sign = -1 if self.accept("-") else 1
        self.accept("+")
        if self.at_end or not self.tokens[self.position].text.isdigit():
            self.fail_unexpected("a number")
        self._parser._advance()
        return sign * int(self.tokens[self.position - 1].text)

    def type(self) -> Type:
        """Read the name of a type."""
        node = self._parse(lambda: self._parser._parse_types(check_func=False, schema=True), "a type")
        if not isinstance(node, exp.DataType):
            self.fail_unexpected("a type")
        self.digits = second_digits(node)
        if last_field(node):
            self.skip(-1)
            self.refuse("a column of INTERVAL with fields", "cast the values instead")
        return sql_type(node, self.text)

    def value(self) -> str:
        """Read an expression without AND, OR and comparisons; return its text."""
        return self._text_of(self._parser._parse_bitwise)

    def condition(self) -> str:
        """Read an expression; return its text."""
        return self._text_of(self._parser._parse_disjunction)

    def expression(self) -> exp.Expr:
        """Read an expression; return its tree."""
        return self._parse(self._parser._parse_disjunction, "an expression")

    def operand(self) -> exp.Expr:
        """Read an expression without AND, OR and comparisons; return its tree."""
        return self._parse(self._parser._parse_bitwise, "an expression")

    def parenthesized_text(self) -> str:
        """Read an expression in parentheses; return its text without them."""
        self.expect("(")
        text = self.condition()
        self.expect(")")
        return text

    def rest(self) -> Sequence[Token]:
        """Return the tokens that are left."""
        return self.tokens[self.position :]

    def skip(self, count: int) -> None:
        """Skip some tokens; a negative count goes back."""
        if count > len(self.tokens) - self.position:
            self.fail_unexpected()
        self._parser._advance(count)

    def skip_parentheses(self) -> None:
        """Skip balanced parentheses and what is between them."""
        self.expect("(")
        depth = 1
        while depth:
            if self.at_end:
                self.fail_unexpected(")")
            depth += (self.at("(")) - (self.at(")"))
            self.skip(1)

    def query(self, stop: int | None = None) -> tuple[exp.Expr, StatementSpan]:
        """Read the tokens up to the index ``stop``, or all, as a query; return its tree and span."""
        tokens = self.tokens[self.position : stop]
        if not tokens:
            self.fail_unexpected("a query")
        tree = parse_tree(tokens, self.text)
        self._parser._advance(len(tokens))
        return tree, statement_span(tokens, self.text)

    def expect_end(self) -> None:
        """Raise a syntax error if a token is left."""
        if not self.at_end:
            self.fail_unexpected()

    def here(self) -> Span:
        """Return the span of the next token; at the end, of the last one."""
        token = self.tokens[min(self.position, len(self.tokens) - 1)]
        return Span(self.text, token.start, token.end + 1)

    def fail_unexpected(self, expected: str = "") -> NoReturn:
        """Raise a syntax error at the next token; its hint names what was expected."""
        location = "at the end of the statement"
        if not self.at_end:
            span = self.here()
            location = f'at "{self.text[span.start : span.end]}"'
        hint = f"expected {expected}" if expected else None
        raise ProgrammingError(f"syntax error {location}", span=self.here(), hint=hint)

    def refuse(self, construct: str, hint: str | None = None) -> NoReturn:
        """Raise NotSupportedError for a construct at the next token."""
        raise NotSupportedError(f"{construct} is not supported", span=self.here(), hint=hint)

    def fail(self, message: str, hint: str | None = None, *, sqlstate: str | None = None) -> NoReturn:
        """Raise ProgrammingError at the next token."""
        raise ProgrammingError(message, span=self.here(), hint=hint, sqlstate=sqlstate)

    def _match_length(self, words: Sequence[str]) -> int:
        """Return how many tokens the words are, since one token can hold several words; 0 if others come
        next.
        """
        unmatched = list(words)
        index = self.position
        while unmatched:
            if index >= len(self.tokens) or self.tokens[index].token_type in QUOTED:
                return 0
            found = self.tokens[index].text.upper().split()
            if unmatched[: len(found)] != found:
                return 0
            del unmatched[: len(found)]
            index += 1
        return index - self.position

    def _text_of(self, parse: Callable[[], exp.Expr | None]) -> str:
        start = self.position
        self._parse(parse, "an expression")
        return self.text[self.tokens[start].start : self.tokens[self.position - 1].end + 1]

    def _parse(self, parse: Callable[[], exp.Expr | None], expected: str) -> exp.Expr:
        start = self.position
        if self.at_end:
            self.fail_unexpected(expected)
        try:
            node = parse()
        except ParseError as error:
            raise convert_parse_error(error, self.tokens, self.text) from None
        except Error:
            raise
        except Exception as error:
            raise ProgrammingError("syntax error", span=self.span) from error
        if node is None or self.position == start:
            self.fail_unexpected(expected)
        return node


DEEP_STACK: Final = DeepCalls(20_000)
"""Depth of recursion allowed while a statement is parsed."""


def parse_tree(tokens: list[Token], text: str) -> exp.Expr:
    """Parse the tokens of a statement with sqlglot.

    ProgrammingError for a syntax error, NotSupportedError for excessive nesting.
    """
    span = Span(text, tokens[0].start, tokens[-1].end + 1)
    last = tokens[-1]
    if last.token_type in INCOMPLETE:
        place = Span(text, last.start, last.end + 1)
        raise ProgrammingError("syntax error at the end of the statement", span=place)
    try:
        with DEEP_STACK:
            tree = next(iter(Dialect().parser().parse(tokens, text)), None)
    except ParseError as error:
        raise convert_parse_error(error, tokens, text) from None
    except Error:
        raise
    except RecursionError:
        raise NotSupportedError("a statement nested this deep is not supported", span=span) from None
    except Exception as error:
        # sqlglot's parser can raise any exception on invalid SQL.
        raise ProgrammingError("syntax error", span=span) from error
    if tree is None:
        raise ProgrammingError("syntax error", span=span)
    check_syntax(tree, tokens, text)
    return tree


def parse_expression(text: str) -> exp.Expr:
    """Parse an expression stored as text; its nodes have no positions."""
    node = Reader(tokenize(text), text).expression()
    for part in node.walk():
        part.meta.clear()
    return node


@lru_cache(maxsize=512)
def parse_query_tree(text: str) -> exp.Expr:
    """Parse a query stored as text; its nodes have no positions.

    The tree is cached: copy it before changing it.
    """
    node = parse_tree(tokenize(text), text)
    for part in node.walk():
        part.meta.clear()
    return node


def parse_setting_value(reader: Reader) -> str:
    """Read one value of a setting."""
    if reader.accept("DEFAULT"):
        return "DEFAULT"
    sign = "-" if reader.accept("-") else ""
    if reader.at_end:
        reader.fail_unexpected("a value")
    text = reader.tokens[reader.position].text
    reader.skip(1)
    if text.upper() == "INTERVAL":
        text = reader.string()
        unit = "hour" if reader.accept("HOUR") else ""
        if unit and reader.accept("TO"):
            reader.expect("MINUTE")
            unit = "minute"
        text = f"interval '{text}{f' {unit}' if text.lstrip('+-').isdecimal() else ''}'"
    return sign + str(text)


@lru_cache(maxsize=512)
def parse_body(text: str) -> exp.Expr:
    """Parse a function body; return its last query, without positions.

    The tree is cached. NotSupportedError if a statement is no query.
    """
    found: exp.Expr | None = None
    for tokens in _split_tokens(tokenize(text)):
        found = parse_tree(tokens, text)
        if not isinstance(found, exp.Query | exp.Values) or found.args.get("into") is not None:
            raise NotSupportedError(
                "a function that does anything but query is not supported",
                span=Span(text, tokens[0].start, tokens[-1].end + 1),
                hint="its body is SELECT or VALUES",
            )
    if found is None:
        raise ProgrammingError("the body of a function is empty")
    tree = transform_tree(found, _parameter_as_column)
    for part in tree.walk():
        part.meta.clear()
    return tree


@lru_cache(maxsize=512)
def split_statements(text: str) -> tuple[str, ...]:
    """Return the texts of the statements of a body."""
    return tuple(text[part[0].start : part[-1].end + 1] for part in _split_tokens(tokenize(text)))


def _split_tokens(tokens: list[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


def _parameter_as_column(node: exp.Expr) -> exp.Expr:
    """Return ``$1`` as a column of that name."""
    if isinstance(node, exp.Parameter) and node.name.isdigit():
        return exp.column(exp.to_identifier(f"${node.name}", quoted=True))
    return node
